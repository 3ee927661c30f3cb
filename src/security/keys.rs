use std::fmt;

use rand::TryCryptoRng;
use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::pkcs8::der::{Decode, DecodePem};
use rsa::pkcs8::spki::SubjectPublicKeyInfoOwned;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::traits::PublicKeyParts;
use rsa::{BoxedUint, Pkcs1v15Encrypt, pkcs1};
use zeroize::Zeroizing;

use super::public_key_blob as blob;

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
        let public = PublicKey::new(key.to_public_key())?;
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

    /// Signs a hash, RSASSA-PKCS1-v1_5; the value big-endian. `None` when the key is too short for the hash, or the
    /// source of randomness failed.
    pub(super) fn sign<R: TryCryptoRng + ?Sized>(&self, prefix: &[u8], hash: &[u8], random: &mut R) -> Option<Vec<u8>> {
        let scheme = Pkcs1v15Sign { hash_len: Some(hash.len()), prefix: prefix.into() };
        self.key.sign_with_rng(random, scheme, hash).ok()
    }

    /// Opens what was encrypted for this key, RSAES-PKCS1-v1_5; the value big-endian, as long as the modulus.
    ///
    /// A value that does not open well gives octets and a length that look like chance but are always the same for it:
    /// nothing here tells them from a genuine key. `None` only for what no sender can have encrypted.
    pub(super) fn decrypt<R: TryCryptoRng + ?Sized>(&self, value: &[u8], random: &mut R) -> Option<Zeroizing<Vec<u8>>> {
        self.key.decrypt_blinded(random, Pkcs1v15Encrypt, value).ok().map(Zeroizing::new)
    }

    /// Opens what was encrypted with RSAES-OAEP and SHA-256; big-endian. `None` when it is nothing of that kind.
    pub(super) fn decrypt_oaep<R: TryCryptoRng + ?Sized>(
        &self,
        value: &[u8],
        random: &mut R,
    ) -> Option<Zeroizing<Vec<u8>>> {
        self.key.oaep_decrypt_with_rng::<sha2::Sha256, _>(random, value).ok().map(Zeroizing::new)
    }

    /// The key of the library, to sign certificates with.
    pub(super) const fn inner(&self) -> &rsa::PrivateKey {
        &self.key
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({} bits)", self.public.bits())
    }
}

impl PublicKey {
    /// The shortest key that is read at all: what Windows made for its base provider. Policy may ask for more.
    pub const MIN_BITS: usize = 512;
    /// The longest: what a signature may cost is bounded by it.
    pub const MAX_BITS: usize = 8192;

    fn new(key: rsa::PublicKey) -> Result<Self, KeyError> {
        let bits = key.n().bit_width_vartime() as usize;
        if !(Self::MIN_BITS..=Self::MAX_BITS).contains(&bits) {
            return Err(KeyError::Size(bits));
        }
        let exponent = blob::exponent(&key).ok_or(KeyError::Exponent)?;
        Ok(Self { key, exponent })
    }

    /// From the numbers, each big-endian.
    fn from_numbers(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
        let modulus = modulus.get(zeros..).unwrap_or_default();
        let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
        if !(Self::MIN_BITS..=Self::MAX_BITS).contains(&bits) {
            return Err(KeyError::Size(bits));
        }
        if exponent.len() > 8 {
            return Err(KeyError::Exponent);
        }
        let number = |bytes: &[u8]| BoxedUint::from_be_slice(bytes, bytes.len() as u32 * 8);
        let (Ok(modulus), Ok(exponent)) = (number(modulus), number(exponent)) else {
            return Err(KeyError::NotAPublicKey);
        };
        let key = rsa::PublicKey::new_with_size_limits(modulus, exponent, Self::MIN_BITS..=Self::MAX_BITS)
            .map_err(|_| KeyError::NotAPublicKey)?;
        Self::new(key)
    }

    /// Reads a PUBLICKEYBLOB (MS-MQQB 2.4.1), of a key for encryption or for signatures.
    pub fn from_blob(bytes: &[u8]) -> Result<Self, KeyError> {
        Self::from_blob_numbers(&blob::decode(bytes).ok_or(KeyError::NotAPublicKey)?)
    }

    /// Reads the key of a certificate: the PKCS#1 form, or a PUBLICKEYBLOB in its place.
    pub(super) fn from_certificate(bits: &[u8]) -> Result<Self, KeyError> {
        match pkcs1::RsaPublicKeyRef::from_der(bits) {
            Ok(key) => Self::from_numbers(key.modulus.as_bytes(), key.public_exponent.as_bytes()),
            Err(_) => Self::from_blob_numbers(&blob::decode_in_certificate(bits).ok_or(KeyError::NotAPublicKey)?),
        }
    }

    fn from_blob_numbers(numbers: &blob::Numbers<'_>) -> Result<Self, KeyError> {
        let mut modulus = numbers.modulus.to_vec();
        modulus.reverse();
        Self::from_numbers(&modulus, &numbers.exponent.to_be_bytes())
    }

    /// Reads `SubjectPublicKeyInfo` PEM (`BEGIN PUBLIC KEY`).
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let info = SubjectPublicKeyInfoOwned::from_pem(text.trim()).map_err(|_| KeyError::NotAPublicKey)?;
        if info.algorithm.oid != pkcs1::ALGORITHM_OID {
            return Err(KeyError::NotAPublicKey);
        }
        let key = info.subject_public_key.as_bytes().map(pkcs1::RsaPublicKeyRef::from_der);
        let Some(Ok(key)) = key else { return Err(KeyError::NotAPublicKey) };
        Self::from_numbers(key.modulus.as_bytes(), key.public_exponent.as_bytes())
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> usize {
        self.key.size() * 8
    }

    /// Octets of the modulus, and so of every signature and every encrypted key.
    pub(super) fn size(&self) -> usize {
        self.key.size()
    }

    /// Encrypts a symmetric key, RSAES-PKCS1-v1_5; the value big-endian. `None` when the key does not fit, or the
    /// source of randomness failed.
    pub(super) fn encrypt<R: TryCryptoRng + ?Sized>(&self, key: &[u8], random: &mut R) -> Option<Vec<u8>> {
        self.key.encrypt(random, Pkcs1v15Encrypt, key).ok()
    }

    /// Encrypts a symmetric key, RSAES-OAEP with SHA-256; the value big-endian. `None` when the key does not fit, or the
    /// source of randomness failed.
    pub(super) fn encrypt_oaep<R: TryCryptoRng + ?Sized>(&self, key: &[u8], random: &mut R) -> Option<Vec<u8>> {
        self.key.oaep_encrypt_with_rng::<sha2::Sha256, _>(random, key).ok()
    }

    /// The encoded message inside a signature (RSAVP1, RFC 8017 5.2.2), as long as the modulus; both big-endian.
    /// `None` when the value is not below the modulus.
    pub(super) fn open_signature(&self, value: &[u8]) -> Option<Vec<u8>> {
        let modulus: &BoxedUint = self.key.n();
        let value = BoxedUint::from_be_slice(value, modulus.bits_precision()).ok()?;
        if value >= *modulus {
            return None;
        }
        let opened = rsa::hazmat::rsa_encrypt(&self.key, &value).ok()?.to_be_bytes();
        let at = opened.len().checked_sub(self.size())?;
        opened.get(at..).map(<[u8]>::to_vec)
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
