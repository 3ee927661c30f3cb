//! An independent judge: the command line of OpenSSL verifies signatures and opens bodies that we made.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its part of it")]
mod security;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bytes::Bytes;
use mqbridge::mqqb::wire::{AddressList, ListName, MultiQueueHeader, UserMessage, WideText};
use mqbridge::security::{
    Authenticity, Certificate, Cipher, ClearBody, HashAlgorithm, Jwe, Keyring, PrivateKey, Provider, PublicKey,
    SealingKey, SignatureForm, SignatureVersion, Signer,
};
use security::{key, message, sent};

/// Runs `openssl` in `folder`, which must succeed.
fn openssl(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("openssl").current_dir(folder).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("openssl is needed as a judge of what is signed and encrypted here; install it: apt install openssl ({error})")
    });
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn put(folder: &Path, name: &str, bytes: &[u8]) {
    fs::write(folder.join(name), bytes).unwrap();
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

/// What a signature in the property form covers, written down from MS-MQMQ 2.5 once more.
fn covered(message: &UserMessage, version: SignatureVersion) -> Vec<u8> {
    let wide = |text: &str| [&WideText::from_text(text).as_wire()[..], &[0, 0]].concat();
    let properties = &message.properties;
    let mut covered = [
        &properties.correlation_id[..],
        &properties.app_specific.to_le_bytes(),
        &properties.body,
        &wide("order 4711"),
        &wide(r"DIRECT=OS:win-a\private$\replies"),
        &wide(r"DIRECT=OS:win-a\private$\acks"),
    ]
    .concat();
    if version == SignatureVersion::V3 {
        covered.extend_from_slice(&properties.extension);
        covered.extend_from_slice(&message.multi_queue.as_ref().unwrap().destination.format_name_list);
    }
    if version != SignatureVersion::V1 {
        covered.extend_from_slice(&message.user.source_queue_manager.to_wire());
        covered.extend_from_slice(&[1, 3, 0, 0, 0, 0, 8, 0, 0, 0]);
    }
    if version == SignatureVersion::V2 {
        covered.extend_from_slice(&wide(r"PRIVATE=C778CA24-7C5A-4060-80C0-AEEE428D53AE\0000000A"));
    }
    covered
}

#[test]
fn our_signatures_verify() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = PrivateKey::generate(&mut rand::rng()).unwrap();
    let certificate =
        Certificate::internal(&key, r#"CORP\anna, "A""#, "bridge01", 1_753_805_055, 3650, &mut rand::rng()).unwrap();
    put(folder, "certificate.der", certificate.der());
    openssl(folder, &["x509", "-inform", "DER", "-in", "certificate.der", "-out", "certificate.pem"]);
    let key_pem = openssl(folder, &["x509", "-in", "certificate.pem", "-pubkey", "-noout"]).stdout;
    put(folder, "key.pem", &key_pem);

    for (hash, name) in [
        (HashAlgorithm::Md5, "-md5"),
        (HashAlgorithm::Sha1, "-sha1"),
        (HashAlgorithm::Sha256, "-sha256"),
        (HashAlgorithm::Sha512, "-sha512"),
    ] {
        for version in [SignatureVersion::V1, SignatureVersion::V2, SignatureVersion::V3] {
            let mut message = message(b"the body");
            if version == SignatureVersion::V3 {
                let names = [r"OS:bridge01\private$\a", r"OS:bridge01\private$\orders"];
                let names = names.map(|name| ListName::Direct(WideText::from_text(name)));
                message.multi_queue =
                    Some(MultiQueueHeader { destination: AddressList::new(names), ..MultiQueueHeader::default() });
            }
            let form = SignatureForm::Property;
            let signer = Signer { key: &key, certificate: &certificate, hash, form };
            signer.sign(&mut message, version, &mut rand::rng()).unwrap();
            let message = sent(&message);
            let value = match version {
                SignatureVersion::V3 => message.multi_queue.as_ref().unwrap().signature.value.clone(),
                _ => message.security.as_ref().unwrap().signature.data.clone(),
            };
            put(folder, "covered", &covered(&message, version));
            put(folder, "signature", &reversed(&value));
            openssl(folder, &["dgst", name, "-verify", "key.pem", "-signature", "signature", "covered"]);
        }
    }
}

#[test]
fn our_certificates_are_what_msmq_makes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = key("user-a-1024");
    let made = Certificate::internal(&key, r"CORP\anna", "win-a", 1_753_805_055, 365, &mut rand::rng()).unwrap();
    put(folder, "certificate.der", made.der());
    let shown = openssl(
        folder,
        &[
            "x509",
            "-inform",
            "DER",
            "-in",
            "certificate.der",
            "-noout",
            "-subject",
            "-issuer",
            "-dates",
            "-ext",
            "keyUsage",
        ],
    );
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        r"subject=O = MSMQ, OU = win-a, CN = CORP\\anna",
        r"issuer=O = MSMQ, OU = win-a, CN = CORP\\anna",
        "notBefore=Jul 29 16:04:15 2025 GMT",
        "notAfter=Jul 29 16:04:15 2026 GMT",
        "Digital Signature",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    // Self-signed, and valid when it was made.
    openssl(folder, &["x509", "-inform", "DER", "-in", "certificate.der", "-out", "certificate.pem"]);
    openssl(
        folder,
        &["verify", "-attime", "1753805056", "-auth_level", "0", "-CAfile", "certificate.pem", "certificate.pem"],
    );
    assert_eq!(Certificate::from_der(made.der().clone()).unwrap(), made);
}

#[test]
fn our_encrypted_bodies_open() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (provider, cipher, bits, name) in [
        (Provider::Aes, Cipher::Aes128, 1024, "-aes-128-cbc"),
        (Provider::Aes, Cipher::Aes192, 2048, "-aes-192-cbc"),
        (Provider::Aes, Cipher::Aes256, 4096, "-aes-256-cbc"),
        (Provider::Base, Cipher::Rc2, 512, "-rc2-40-cbc"),
        (Provider::Enhanced, Cipher::Rc2, 1024, "-rc2-cbc"),
        (Provider::Base, Cipher::Rc4, 512, "-rc4-40"),
        (Provider::Enhanced, Cipher::Rc4, 1024, "-rc4"),
    ] {
        let receiver = key(&format!("qm-local-{bits}"));
        let sealing = SealingKey::generate(provider, cipher, receiver.public(), &mut rand::rng()).unwrap();
        for body in [&b""[..], b"the body", &[7; 16], &[7; 4096]] {
            let mut message = message(body);
            sealing.seal(&mut message).unwrap();
            let message = sent(&message);
            put(folder, "receiver.pem", receiver.to_pem().unwrap().as_bytes());
            let blob = &message.security.as_ref().unwrap().encryption_key.data;
            assert_eq!(u32::from_le_bytes(blob[4..8].try_into().unwrap()), cipher.calg());
            put(folder, "wrapped", &reversed(&blob[12..]));
            let unwrap = ["pkeyutl", "-decrypt", "-inkey", "receiver.pem", "-in", "wrapped"];
            let key = openssl(folder, &unwrap).stdout;
            assert_eq!(Some(key.len()), provider.key_size(cipher));
            put(folder, "body", &message.properties.body);
            let key = hex(&key);
            let zeros = "00".repeat(16);
            let iv = &zeros[..if cipher == Cipher::Rc2 { 16 } else { 32 }];
            let mut arguments =
                vec!["enc", "-d", name, "-K", &key, "-in", "body", "-provider", "legacy", "-provider", "default"];
            if cipher != Cipher::Rc4 {
                arguments.extend(["-iv", iv]);
            }
            assert_eq!(Bytes::from(openssl(folder, &arguments).stdout), body, "{name}");
        }
    }
}

/// Windows makes keys of whole multiples of 64 bits, but certificates come from everywhere.
#[test]
fn keys_of_odd_sizes_sign_and_open() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for bits in [520, 1000, 1025, 1031, 2047] {
        let size = format!("rsa_keygen_bits:{bits}");
        openssl(folder, &["genpkey", "-algorithm", "RSA", "-pkeyopt", &size, "-out", "key.pem", "-quiet"]);
        let key = PrivateKey::from_pem(&fs::read_to_string(folder.join("key.pem")).unwrap()).unwrap();
        let public = key.public();
        assert_eq!(&PublicKey::from_pem(&public.to_pem().unwrap()).unwrap(), public, "{bits}");
        assert_eq!(&PublicKey::from_blob(&public.to_blob()).unwrap(), public, "{bits}");

        let certificate = Certificate::internal(&key, "user", "machine", 0, 1, &mut rand::rng()).unwrap();
        let (hash, form) = (HashAlgorithm::Sha1, SignatureForm::Wire);
        let mut message = message(b"the body");
        let signer = Signer { key: &key, certificate: &certificate, hash, form };
        signer.sign(&mut message, SignatureVersion::V2, &mut rand::rng()).unwrap();
        let sealing = SealingKey::generate(Provider::Aes, Cipher::Aes256, public, &mut rand::rng()).unwrap();
        sealing.seal(&mut message).unwrap();

        let message = sent(&message);
        let mut body =
            ClearBody::open(&message, &Keyring::new(&key), &security::any_cipher(), &mut rand::rng()).unwrap();
        assert_eq!(body.plaintext(), &b"the body"[..], "{bits}");
        let authenticity = Authenticity::of(&message, &mut body, &security::ANY_HASH).unwrap();
        assert_eq!(authenticity.proof().unwrap().certificate().key(), public, "{bits}");
    }
}

/// The key of a JWE by RSA-OAEP-256; the body by the counter mode inside GCM, whose first counter is 2. The tag is what
/// OpenSSL's command line can't judge.
#[test]
fn our_jwes_open() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let receiver = key("qm-local-2048");
    let body = b"a body of more than one block";
    let jwe = Jwe::seal(body, receiver.public(), &mut rand::rng()).unwrap();
    let parts: Vec<Vec<u8>> = jwe.as_str().split('.').map(from_base64url).collect();
    let header: serde_json::Value = serde_json::from_slice(&parts[0]).unwrap();
    assert_eq!(header, serde_json::json!({ "alg": "RSA-OAEP-256", "enc": "A256GCM" }));
    put(folder, "receiver.pem", receiver.to_pem().unwrap().as_bytes());
    put(folder, "wrapped", &parts[1]);
    let unwrap = ["pkeyutl", "-decrypt", "-inkey", "receiver.pem", "-in", "wrapped"];
    let oaep = ["-pkeyopt", "rsa_padding_mode:oaep", "-pkeyopt", "rsa_oaep_md:sha256"];
    let key = openssl(folder, &[&unwrap[..], &oaep].concat()).stdout;
    put(folder, "body", &parts[3]);
    let counter = [&parts[2][..], &[0, 0, 0, 2]].concat();
    let (key, counter) = (hex(&key), hex(&counter));
    let opened = openssl(folder, &["enc", "-d", "-aes-256-ctr", "-K", &key, "-iv", &counter, "-in", "body"]);
    assert_eq!(opened.stdout, body);
    assert_eq!((parts.len(), parts[4].len()), (5, 16));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// RFC 4648 5, without padding; by hand, since it is the judge's.
fn from_base64url(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        bits = bits << 6 | ALPHABET.iter().position(|other| *other == letter).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    out
}
