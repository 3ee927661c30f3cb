use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use base64ct::{Base64UrlUnpadded, Encoding};
use bytes::Bytes;
use rand::TryCryptoRng;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{PrivateKey, PublicKey};

/// A body in the compact form of JSON Web Encryption (RFC 7516): a key for it under RSA-OAEP-256, the body under
/// A256GCM. Any library of any language opens it, and unlike MSMQ's own form it shows whether it was altered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwe(String);

/// Why a JWE can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver's key is too short for RSA-OAEP-256 (it needs 784 bits), or the source of randomness failed")]
pub struct CannotSealJwe;

/// Why a JWE stays closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnopenedJwe {
    /// Not five parts of base64url with a JSON header.
    #[error("it is not a JWE in compact form")]
    Form,
    /// Made with something else.
    #[error(
        "it is made with {0}; RSA-OAEP-256 with A256GCM is expected, neither compressed nor with critical extensions"
    )]
    Algorithm(String),
    /// Everything else, in one word for all of it.
    #[error("it can't be opened: damaged, or encrypted for another receiver")]
    Closed,
}

/// What is looked at in a header.
#[derive(Deserialize)]
struct Header {
    alg: String,
    enc: String,
    zip: Option<String>,
    crit: Option<Vec<String>>,
}

const HEADER: &str = r#"{"alg":"RSA-OAEP-256","enc":"A256GCM"}"#;
const KEY_SIZE: usize = 32;
const NONCE_SIZE: usize = 12;
const TAG_SIZE: usize = 16;

impl Jwe {
    /// Encrypts a body for `receiver`. Each has a key of its own.
    pub fn seal<R: TryCryptoRng + ?Sized>(
        plaintext: &[u8],
        receiver: &PublicKey,
        random: &mut R,
    ) -> Result<Self, CannotSealJwe> {
        let mut key = Zeroizing::new([0; KEY_SIZE]);
        let mut nonce = [0; NONCE_SIZE];
        random.try_fill_bytes(&mut key[..]).map_err(|_| CannotSealJwe)?;
        random.try_fill_bytes(&mut nonce).map_err(|_| CannotSealJwe)?;
        let wrapped = receiver.encrypt_oaep(&key[..], random).ok_or(CannotSealJwe)?;
        let header = Base64UrlUnpadded::encode_string(HEADER.as_bytes());
        let mut body = plaintext.to_vec();
        let tag = Aes256Gcm::new(&(*key).into())
            .encrypt_inout_detached(&Nonce::from(nonce), header.as_bytes(), body.as_mut_slice().into())
            .map_err(|_| CannotSealJwe)?;
        let parts = [&wrapped[..], &nonce, &body, &tag].map(Base64UrlUnpadded::encode_string);
        Ok(Self(format!("{header}.{}", parts.join("."))))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Opens a text with the first of `keys` that does.
    pub fn open<'a, R: TryCryptoRng + ?Sized>(
        text: &str,
        keys: impl IntoIterator<Item = &'a PrivateKey>,
        random: &mut R,
    ) -> Result<Bytes, UnopenedJwe> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(UnopenedJwe::Form);
        let header = part()?;
        let mut decoded = || Base64UrlUnpadded::decode_vec(part()?).map_err(|_| UnopenedJwe::Form);
        let (wrapped, nonce, body, tag) = (decoded()?, decoded()?, decoded()?, decoded()?);
        if parts.next().is_some() {
            return Err(UnopenedJwe::Form);
        }
        read_header(header)?;
        let nonce = <[u8; NONCE_SIZE]>::try_from(nonce).map_err(|_| UnopenedJwe::Form)?;
        let tag = <[u8; TAG_SIZE]>::try_from(tag).map_err(|_| UnopenedJwe::Form)?;
        for key in keys {
            let Some(key) = key.decrypt_oaep(&wrapped, random) else { continue };
            let Ok(cipher) = Aes256Gcm::new_from_slice(&key) else { continue };
            let mut plaintext = body.clone();
            let opened = cipher.decrypt_inout_detached(
                &Nonce::from(nonce),
                header.as_bytes(),
                plaintext.as_mut_slice().into(),
                &Tag::from(tag),
            );
            if opened.is_ok() {
                return Ok(plaintext.into());
            }
        }
        Err(UnopenedJwe::Closed)
    }
}

fn read_header(header: &str) -> Result<(), UnopenedJwe> {
    let header = Base64UrlUnpadded::decode_vec(header).map_err(|_| UnopenedJwe::Form)?;
    let header: Header = serde_json::from_slice(&header).map_err(|_| UnopenedJwe::Form)?;
    let expected = header.alg == "RSA-OAEP-256" && header.enc == "A256GCM";
    if expected && header.zip.is_none() && header.crit.is_none() {
        return Ok(());
    }
    let zip = header.zip.map(|zip| format!(", compressed by {zip}")).unwrap_or_default();
    Err(UnopenedJwe::Algorithm(format!("{} with {}{zip}", header.alg, header.enc)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn key() -> PrivateKey {
        PrivateKey::from_pem(include_str!("../../tests/fixtures/vectors/keys/qm-local-1024.pem")).unwrap()
    }

    fn other_key() -> PrivateKey {
        PrivateKey::from_pem(include_str!("../../tests/fixtures/vectors/keys/qm-other-1024.pem")).unwrap()
    }

    fn open(text: &str) -> Result<Bytes, UnopenedJwe> {
        Jwe::open(text, [&other_key(), &key()], &mut rand::rng())
    }

    #[test]
    fn what_is_sealed_opens_for_its_receiver_alone() {
        for body in [&b""[..], b"body", &vec![7; 100_000]] {
            let jwe = Jwe::seal(body, key().public(), &mut rand::rng()).unwrap();
            assert_eq!(jwe.as_str().matches('.').count(), 4);
            assert_eq!(open(jwe.as_str()).unwrap(), body);
            let opened = Jwe::open(jwe.as_str(), [&other_key()], &mut rand::rng());
            assert_eq!(opened, Err(UnopenedJwe::Closed));
        }
    }

    #[test]
    fn every_octet_is_covered() {
        let jwe = Jwe::seal(b"body", key().public(), &mut rand::rng()).unwrap();
        let parts: Vec<&str> = jwe.as_str().split('.').collect();
        for part in 0..parts.len() {
            for at in [0, parts[part].len() / 2] {
                let mut altered: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
                let letter = if altered[part].as_bytes()[at] == b'A' { "B" } else { "A" };
                altered[part].replace_range(at..=at, letter);
                assert!(open(&altered.join(".")).is_err(), "{part} {at}");
            }
        }
    }

    #[test]
    fn what_is_no_jwe_of_ours_says_so() {
        let jwe = Jwe::seal(b"body", key().public(), &mut rand::rng()).unwrap();
        let rest = jwe.as_str().split_once('.').unwrap().1;
        for text in
            ["", ".", "....", "a.b.c", &format!("{}.", jwe.as_str()), &format!("%.{rest}"), &format!("e30.{rest}")]
        {
            assert_eq!(open(text), Err(UnopenedJwe::Form), "{text}");
        }
        for header in [
            r#"{"alg":"RSA1_5","enc":"A256GCM"}"#,
            r#"{"alg":"RSA-OAEP-256","enc":"A128CBC-HS256"}"#,
            r#"{"alg":"RSA-OAEP-256","enc":"A256GCM","zip":"DEF"}"#,
            r#"{"alg":"RSA-OAEP-256","enc":"A256GCM","crit":["exp"]}"#,
        ] {
            let text = format!("{}.{rest}", Base64UrlUnpadded::encode_string(header.as_bytes()));
            assert!(matches!(open(&text), Err(UnopenedJwe::Algorithm(_))), "{header}");
        }
        // Another header, even one that means the same, is not the one that was sealed.
        let header = r#"{"enc":"A256GCM","alg":"RSA-OAEP-256"}"#;
        let text = format!("{}.{rest}", Base64UrlUnpadded::encode_string(header.as_bytes()));
        assert_eq!(open(&text), Err(UnopenedJwe::Closed));
    }
}
