"""Opens the encrypted messages of a transparent route with nothing but their headers and the receiver's private key, and
prints the plaintext of each as a line."""

import sys

import pika
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import load_pem_private_key

uri, queue, key_file, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with open(key_file, "rb") as file:
    private_key = load_pem_private_key(file.read(), password=None)
AES = {0x660E: 16, 0x660F: 24, 0x6610: 32}


def opened(headers, body):
    assert headers["msmq-encrypted"] is True, headers
    # SIMPLEBLOB: eight bytes of header, four of the key exchange algorithm, then the RSA ciphertext, least byte first.
    blob = headers["msmq-dest-symm-key"]
    key = private_key.decrypt(blob[12:][::-1], padding.PKCS1v15())
    assert len(key) == AES[headers["msmq-encryption-alg"]], headers
    decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).decryptor()
    unpadder = PKCS7(128).unpadder()
    return unpadder.update(decryptor.update(body) + decryptor.finalize()) + unpadder.finalize()


connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
seen = 0
for method, properties, body in channel.consume(queue, inactivity_timeout=30):
    if method is None:
        sys.exit(f"only {seen} of {count} messages came")
    print(opened(properties.headers, body).decode(), flush=True)
    channel.basic_ack(method.delivery_tag)
    seen += 1
    if seen == count:
        break
channel.cancel()
connection.close()
