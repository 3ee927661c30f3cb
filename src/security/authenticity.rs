//! Is a message what its sender signed (MS-MQQB 3.1.5.8.3, first half)?

use bytes::Bytes;

use super::signed_fields::{find_reading, hash_beginning};
use super::{Certificate, CertificateError, ClearBody, HashAlgorithm, Reading, SignatureVersion};
use crate::mqqb::wire::UserMessage;

/// What is known of the bytes of a message. A [`Proof`] can only come from [`Authenticity::of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// There is no signature. A certificate that came along is no more than that.
    Unsigned,
    /// The owner of the certificate signed them. Whose certificate it is, is another question: see
    /// [`Owner`](super::Owner).
    Proven(Box<Proof>),
}

/// What a verified signature is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    certificate: Certificate,
    version: SignatureVersion,
    hash: HashAlgorithm,
    reading: Reading,
}

/// What a signature must be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignaturePolicy {
    /// The weakest hash.
    pub min_hash: HashAlgorithm,
    /// The shortest key, in bits.
    pub min_key_bits: usize,
}

/// SHA-1, and keys of 1024 bits: what Windows made for many years.
impl Default for SignaturePolicy {
    fn default() -> Self {
        Self { min_hash: HashAlgorithm::Sha1, min_key_bits: 1024 }
    }
}

/// Why a signed message is not taken for genuine. To the sender all of them are a bad signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    /// Nothing to verify it with.
    #[error("there is a signature but no certificate")]
    NoCertificate,
    /// A certificate that can't verify it.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A number outside the table of MS-MQMQ 2.2.19.3.
    #[error("the hash algorithm 0x{0:X} is unknown")]
    UnknownHash(u32),
    /// MD2 or MD4.
    #[error("the hash algorithm {0} is obsolete and not supported")]
    ObsoleteHash(HashAlgorithm),
    /// Below the policy.
    #[error("the hash algorithm {found} is weaker than {least}, the least that is accepted here")]
    WeakHash {
        /// The message's.
        found: HashAlgorithm,
        /// The policy's.
        least: HashAlgorithm,
    },
    /// Below the policy.
    #[error("the certificate's key has {found} bits, {least} is the least that is accepted here")]
    ShortKey {
        /// The certificate's.
        found: usize,
        /// The policy's.
        least: usize,
    },
    /// Not as long as the key.
    #[error("the signature has {found} octets, the certificate's key {modulus}")]
    Length {
        /// Octets of the signature.
        found: usize,
        /// Octets of the modulus.
        modulus: usize,
    },
    /// The certificate's key does not make a hash of the named kind of it.
    #[error("the certificate's key does not open the signature as one of a {0} hash")]
    NotOpened(HashAlgorithm),
    /// Under no reading does the message give the hash that was signed.
    #[error("the message is not the one that was signed: its hash differs")]
    HashDiffers,
}

/// A signature of a message, and which versions it can be, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedSignature {
    /// The value, as on the wire.
    pub value: Bytes,
    /// What it can be.
    pub versions: &'static [SignatureVersion],
}

impl CarriedSignature {
    /// The signature that counts: that of the security header, else that of the lists (MS-MQQB 3.1.5.8.3, A-22, A-53).
    pub fn of(message: &UserMessage) -> Option<Self> {
        use SignatureVersion::{V1, V2, V3};
        let header = message.security.as_ref().map(|security| &security.signature.data);
        if let Some(value) = header.filter(|value| !value.is_empty()) {
            return Some(Self { value: value.clone(), versions: &[V2, V1, V3] });
        }
        let lists = message.multi_queue.as_ref().map(|multi_queue| &multi_queue.signature.value);
        let value = lists.filter(|value| !value.is_empty())?;
        Some(Self { value: value.clone(), versions: &[V3] })
    }
}

impl Authenticity {
    /// Verifies the signature of `message`, whose opened body is `body`.
    ///
    /// What is hashed is the plaintext. Where two plaintexts are possible (RC2 and RC4 with the salts and lengths of
    /// ) the signature decides which it is, and `body` has it afterwards.
    pub fn of(message: &UserMessage, body: &mut ClearBody, policy: &SignaturePolicy) -> Result<Self, BadSignature> {
        let Some(signature) = CarriedSignature::of(message) else { return Ok(Self::Unsigned) };
        let calg = message.properties.hash_algorithm;
        let hash = HashAlgorithm::from_calg(calg).ok_or(BadSignature::UnknownHash(calg))?;
        let start = hash.start().ok_or(BadSignature::ObsoleteHash(hash))?;
        if hash < policy.min_hash {
            return Err(BadSignature::WeakHash { found: hash, least: policy.min_hash });
        }
        let security = message.security.as_ref();
        let certificate = security.map(|security| &security.sender_certificate.data);
        let certificate = certificate.filter(|certificate| !certificate.is_empty());
        let certificate = Certificate::from_der(certificate.ok_or(BadSignature::NoCertificate)?.clone())?;
        let signed = SignedHash::open(&signature.value, &certificate, hash, policy)?;

        // The plaintext, the other plaintext when there is one, and the ciphertext.
        let ciphertext = message.is_encrypted().then_some(&message.properties.body);
        let plaintexts = [Some(body.plaintext()), body.alternative()];
        let bodies = plaintexts.into_iter().chain([ciphertext]).enumerate();
        let matched = bodies.filter_map(|(at, bytes)| Some((at, bytes?))).find_map(|(at, bytes)| {
            let mut beginning = start.clone();
            hash_beginning(message, bytes, &mut beginning);
            signature.versions.iter().find_map(|version| {
                let reading = find_reading(message, *version, |ending| {
                    let mut hash = beginning.clone();
                    hash.update(ending);
                    hash.finish() == signed.hash
                })?;
                Some((at, *version, reading))
            })
        });
        let (at, version, mut reading) = matched.ok_or(BadSignature::HashDiffers)?;
        reading.ciphertext = at == 2;
        reading.digest_info = signed.digest_info;
        reading.big_endian = signed.big_endian;
        if at == 1 {
            body.take_alternative();
        }
        Ok(Self::Proven(Box::new(Proof { certificate, version, hash, reading })))
    }

    /// The proof, when there is one.
    pub fn proof(&self) -> Option<&Proof> {
        match self {
            Self::Unsigned => None,
            Self::Proven(proof) => Some(proof),
        }
    }
}

impl Proof {
    /// The certificate whose owner signed.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// What the signature covers.
    pub const fn version(&self) -> SignatureVersion {
        self.version
    }

    /// How strong it is.
    pub const fn hash(&self) -> HashAlgorithm {
        self.hash
    }

    /// Which reading of the specification it follows.
    pub const fn reading(&self) -> Reading {
        self.reading
    }
}

/// The hash inside a signature.
struct SignedHash {
    hash: Vec<u8>,
    digest_info: bool,
    big_endian: bool,
}

impl SignedHash {
    /// Opens a signature (RFC 8017 8.2.2): little-endian, else big-endian, with a `DigestInfo` or without.
    fn open(
        value: &[u8],
        certificate: &Certificate,
        hash: HashAlgorithm,
        policy: &SignaturePolicy,
    ) -> Result<Self, BadSignature> {
        let key = certificate.key();
        if key.bits() < policy.min_key_bits {
            return Err(BadSignature::ShortKey { found: key.bits(), least: policy.min_key_bits });
        }
        if value.len() != key.size() {
            return Err(BadSignature::Length { found: value.len(), modulus: key.size() });
        }
        let mut reversed = value.to_vec();
        reversed.reverse();
        for (value, big_endian) in [(&reversed[..], false), (value, true)] {
            let Some(encoded) = key.open_signature(value) else { continue };
            let Some(content) = unpad(&encoded) else { continue };
            let (digest, digest_info) = match content.strip_prefix(hash.digest_info()) {
                Some(digest) => (digest, true),
                None => (content, false),
            };
            if digest.len() == hash.size() {
                return Ok(Self { hash: digest.to_vec(), digest_info, big_endian });
            }
        }
        Err(BadSignature::NotOpened(hash))
    }
}

/// Takes off the padding of a signature: `00 01 FF … FF 00`, at least eight FF.
fn unpad(encoded: &[u8]) -> Option<&[u8]> {
    let padded = encoded.strip_prefix(&[0, 1])?;
    let padding = padded.iter().take_while(|byte| **byte == 0xFF).count();
    if padding < 8 {
        return None;
    }
    padded.get(padding..)?.strip_prefix(&[0])
}
