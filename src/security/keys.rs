use std::fmt;

use rand::TryCryptoRng;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use zeroize::Zeroizing;

use super::blob;

/// The RSA key that opens what senders encrypt for this queue manager. Never printed; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    key: rsa::PrivateKey,
    /// Checked once, when the key was made.
    public: PublicKey,
}

/// The half that senders get.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: rsa::PublicKey,
    /// As a PUBLICKEYBLOB has it.
    exponent: u32,
}

/// Why a key is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// PKCS#1.
    #[error("it is a key in the older PKCS#1 form; convert it: openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW")]
    Pkcs1,
    /// Protected by a password.
    #[error("it is protected by a password; take that off: openssl pkcs8 -in OLD -out NEW")]
    Encrypted,
    /// A certificate, a public key, another algorithm, or no PEM at all.
    #[error("it is not an RSA private key in PKCS#8 PEM (BEGIN PRIVATE KEY)")]
    NotAKey,
    /// An exponent of more than 32 bits.
    #[error("its public exponent does not fit into a PUBLICKEYBLOB; use 65537")]
    Exponent,
    /// The key could not be made.
    #[error("no key could be made: the source of randomness failed")]
    Generation,
    /// The key could not be written as PEM.
    #[error("the key can't be written as PEM")]
    Encoding,
}

impl PrivateKey {
    /// Bits of a key that is made here: the largest that every Windows since 2000 takes.
    pub const BITS: usize = 2048;

    /// Makes a key. Takes some tenths of a second.
    pub fn generate<R: TryCryptoRng + ?Sized>(random: &mut R) -> Result<Self, KeyError> {
        let key = rsa::PrivateKey::new(random, Self::BITS).map_err(|_| KeyError::Generation)?;
        Self::new(key)
    }

    /// Reads PKCS#8 PEM.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let key = rsa::PrivateKey::from_pkcs8_pem(text.trim()).map_err(|_| {
            if text.contains("BEGIN RSA PRIVATE KEY") {
                KeyError::Pkcs1
            } else if text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
                KeyError::Encrypted
            } else {
                KeyError::NotAKey
            }
        })?;
        Self::new(key)
    }

    fn new(key: rsa::PrivateKey) -> Result<Self, KeyError> {
        let exponent = blob::exponent(key.as_public_key()).ok_or(KeyError::Exponent)?;
        let public = PublicKey { key: key.to_public_key(), exponent };
        Ok(Self { key, public })
    }

    /// PKCS#8 PEM, for the file that it is kept in and nothing else.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.key.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Encoding)
    }

    /// The half that senders get.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({} bits)", self.public.bits())
    }
}

impl PublicKey {
    /// Bits of the modulus.
    pub fn bits(&self) -> usize {
        self.key.size() * 8
    }

    /// `SubjectPublicKeyInfo` PEM (`BEGIN PUBLIC KEY`).
    pub fn to_pem(&self) -> Result<String, KeyError> {
        self.key.to_public_key_pem(LineEnding::LF).map_err(|_| KeyError::Encoding)
    }

    /// PUBLICKEYBLOB (MS-MQQB 2.4.1).
    pub fn to_blob(&self) -> Vec<u8> {
        blob::encode(&self.key, self.exponent)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} bits)", self.bits())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_key_survives_being_written_and_never_prints() {
        let key = PrivateKey::generate(&mut rand::rng()).unwrap();
        let pem = key.to_pem().unwrap();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(PrivateKey::from_pem(&pem).unwrap(), key);
        assert_eq!(format!("{key:?} {:?}", key.public()), "PrivateKey(2048 bits) PublicKey(2048 bits)");
        assert!(key.public().to_pem().unwrap().starts_with("-----BEGIN PUBLIC KEY-----\n"));
    }

    #[test]
    fn what_is_no_key_says_what_it_is() {
        let begin = |kind: &str| format!("-----BEGIN {kind}-----\nMIIB\n-----END {kind}-----\n");
        assert_eq!(PrivateKey::from_pem(&begin("RSA PRIVATE KEY")).unwrap_err(), KeyError::Pkcs1);
        assert_eq!(PrivateKey::from_pem(&begin("ENCRYPTED PRIVATE KEY")).unwrap_err(), KeyError::Encrypted);
        assert_eq!(PrivateKey::from_pem(&begin("CERTIFICATE")).unwrap_err(), KeyError::NotAKey);
        assert_eq!(PrivateKey::from_pem(&begin("PRIVATE KEY")).unwrap_err(), KeyError::NotAKey);
        assert_eq!(PrivateKey::from_pem("").unwrap_err(), KeyError::NotAKey);
    }
}
