//! What must hold for whatever claims to be signed, encrypted or a key.

use std::convert::Infallible;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::wire::{FrameCutter, MAX_PACKET_SIZE, Packet, SecurityHeader, SecurityItem, UserMessage};
use mqbridge::security::{
    Authenticity, Certificate, Cipher, CipherPolicy, ClearBody, DirectoryAnswer, HashAlgorithm, Keyring, Owner,
    PrivateKey, PublicKey, SignaturePolicy, UserCertificate,
};
use rand::{TryCryptoRng, TryRng};

const KEY: &str = include_str!("../../tests/fixtures/vectors/keys/qm-local-512.pem");

static KEYRING: LazyLock<Keyring> = LazyLock::new(|| match PrivateKey::from_pem(KEY) {
    Ok(key) => Keyring::new(&key),
    Err(error) => panic!("the key of the vectors: {error}"),
});

/// The first byte says what the rest is: a packet, or one of the things that packets, files and directories hold.
pub fn security(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else { return };
    let bytes = Bytes::copy_from_slice(input);
    match kind % 4 {
        0 => packet(input),
        1 => certificate(&bytes),
        2 => public_key(&bytes),
        _ => user_certificates(&bytes),
    }
}

fn packet(input: &[u8]) {
    let mut buffer = BytesMut::from(input);
    let Ok(Some(frame)) = FrameCutter::new(MAX_PACKET_SIZE).cut(&mut buffer) else { return };
    let Ok(Packet::User(message)) = Packet::decode(&frame) else { return };
    let policy = CipherPolicy { ciphers: Cipher::ALL.to_vec(), min_key_bits: 512 };
    let Ok(mut body) = ClearBody::open(&message, &KEYRING, &policy, &mut Zeros) else { return };
    assert_eq!(body.sealed_with().is_some(), message.is_encrypted(), "nothing is opened that was not closed");
    assert!(body.plaintext().len() <= message.properties.body.len(), "no cipher makes a body shorter");
    let policy = SignaturePolicy { min_hash: HashAlgorithm::Md2, min_key_bits: 512 };
    let Ok(authenticity) = Authenticity::of(&message, &mut body, &policy) else { return };
    let owner = Owner::of(&message, &authenticity, |_| DirectoryAnswer::Certificates(&[]));
    assert!(!owner.is_ok_and(|owner| owner.is_proven()), "nothing is registered");
    if authenticity.proof().is_some() {
        stays_genuine_only_untouched(&message, &body);
    }
}

/// A message that differs is found out, whatever the reading.
fn stays_genuine_only_untouched(message: &UserMessage, body: &ClearBody) {
    let mut altered = message.clone();
    let security = altered.security.get_or_insert_default();
    security.flags &= !SecurityHeader::ENCRYPTED;
    security.encryption_key = SecurityItem::default();
    altered.properties.correlation_id[0] ^= 1;
    altered.properties.body = body.plaintext().clone();
    let Some(mut body) = ClearBody::of(&altered) else { return };
    let policy = SignaturePolicy { min_hash: HashAlgorithm::Md2, min_key_bits: 512 };
    assert!(Authenticity::of(&altered, &mut body, &policy).is_err(), "another correlation id is another message");
}

fn certificate(bytes: &Bytes) {
    if let Ok(certificate) = Certificate::from_der(bytes.clone()) {
        assert_eq!(certificate.der(), bytes);
        assert!((PublicKey::MIN_BITS..=PublicKey::MAX_BITS).contains(&certificate.key().bits()));
    }
}

fn public_key(bytes: &Bytes) {
    if let Ok(key) = PublicKey::from_blob(bytes) {
        assert_eq!(PublicKey::from_blob(&key.to_blob()).as_ref(), Ok(&key), "what is read can be published");
    }
    if let Ok(key) = std::str::from_utf8(bytes).map_or(Err(()), |text| PublicKey::from_pem(text).map_err(drop)) {
        assert_eq!(PublicKey::from_blob(&key.to_blob()).as_ref(), Ok(&key), "what is read can be published");
    }
}

fn user_certificates(bytes: &Bytes) {
    if let Some(all) = UserCertificate::decode_all(bytes) {
        assert_eq!(UserCertificate::encode_all(&all), bytes[..]);
    }
}

/// No chance at all: only blinding asks for it here, and what comes out does not depend on it.
struct Zeros;

impl TryRng for Zeros {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(1)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(1)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(1);
        Ok(())
    }
}

impl TryCryptoRng for Zeros {}
