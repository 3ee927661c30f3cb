use std::fmt;

use rand::TryCryptoRng;
use rsa::BoxedUint;
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, LineEnding};
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
    /// A public key in another form.
    #[error("it is not an RSA public key: neither PEM (BEGIN PUBLIC KEY) nor a PUBLICKEYBLOB")]
    NotAPublicKey,
    /// Too short or too long.
    #[error("it has {0} bits; a key has {min} to {max}", min = PublicKey::MIN_BITS, max = PublicKey::MAX_BITS)]
    Size(usize),
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
    /// The shortest key that is read: what Windows made for its base provider.
    pub const MIN_BITS: usize = 512;
    /// The longest.
    pub const MAX_BITS: usize = 8192;

    /// Reads a PUBLICKEYBLOB (MS-MQQB 2.4.1).
    pub fn from_blob(bytes: &[u8]) -> Result<Self, KeyError> {
        let (modulus, exponent) = blob::decode(bytes).ok_or(KeyError::NotAPublicKey)?;
        if modulus.len() > Self::MAX_BITS / 8 {
            return Err(KeyError::Size(modulus.len() * 8));
        }
        let modulus: Vec<u8> = modulus.iter().rev().copied().collect();
        let number = |bytes: &[u8]| BoxedUint::from_be_slice(bytes, bytes.len() as u32 * 8);
        let (Ok(modulus), Ok(exponent)) = (number(&modulus), number(&exponent.to_be_bytes())) else {
            return Err(KeyError::NotAPublicKey);
        };
        let key = rsa::PublicKey::new_with_size_limits(modulus, exponent, Self::MIN_BITS..=Self::MAX_BITS);
        Self::new(key.map_err(|_| KeyError::NotAPublicKey)?)
    }

    /// Reads `SubjectPublicKeyInfo` PEM (`BEGIN PUBLIC KEY`).
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        Self::new(rsa::PublicKey::from_public_key_pem(text.trim()).map_err(|_| KeyError::NotAPublicKey)?)
    }

    fn new(key: rsa::PublicKey) -> Result<Self, KeyError> {
        let bits = key.n().bit_width() as usize;
        if !(Self::MIN_BITS..=Self::MAX_BITS).contains(&bits) {
            return Err(KeyError::Size(bits));
        }
        let exponent = blob::exponent(&key).ok_or(KeyError::Exponent)?;
        Ok(Self { key, exponent })
    }

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
        let public = key.public();
        assert!(public.to_pem().unwrap().starts_with("-----BEGIN PUBLIC KEY-----\n"));
        assert_eq!(PublicKey::from_pem(&public.to_pem().unwrap()).unwrap(), *public);
        assert_eq!(PublicKey::from_blob(&public.to_blob()).unwrap(), *public);
        for cut in 0..public.to_blob().len() {
            assert_eq!(PublicKey::from_blob(&public.to_blob()[..cut]), Err(KeyError::NotAPublicKey));
        }
        assert_eq!(PublicKey::from_pem(&pem), Err(KeyError::NotAPublicKey));
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
