//! The certificates that come with signatures (MS-MQMQ 2.2.20.6, 2.2.21, 2.2.22).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rand::TryCryptoRng;
use rsa::pkcs1v15::SigningKey;
use rsa::pkcs8::der::asn1::{Any, BitString, UtcTime};
use rsa::pkcs8::der::oid::ObjectIdentifier;
use rsa::pkcs8::der::{Decode, Encode, Tag};
use rsa::pkcs8::spki::SubjectPublicKeyInfoOwned;
use sha2::Digest;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::{Builder, CertificateBuilder, profile::BuilderProfile};
use x509_cert::certificate::TbsCertificate;
use x509_cert::ext::pkix::{KeyUsage, KeyUsages};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::SubjectPublicKeyInfoRef;
use x509_cert::time::{Time, Validity};

use super::{HashAlgorithm, KeyError, PrivateKey, PublicKey};
use crate::mqqb::wire::Guid;

/// A certificate with an RSA key. Who made it and until when it is valid is not looked at: as in MSMQ, a certificate
/// belongs to a user because the directory says so.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Bytes,
    key: PublicKey,
}

/// Why a certificate is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not DER, or not X.509.
    #[error("the certificate is not X.509")]
    NotX509,
    /// Another kind of key.
    #[error("the certificate's key is not an RSA key")]
    NotRsa,
    /// An RSA key out of bounds.
    #[error("the certificate's RSA key is of no use: {0}")]
    Key(KeyError),
    /// The certificate could not be made.
    #[error("no certificate could be made: {0}")]
    NotMade(&'static str),
}

impl Certificate {
    /// Reads an X.509 certificate in DER.
    pub fn from_der(der: Bytes) -> Result<Self, CertificateError> {
        let certificate = x509_cert::Certificate::from_der(&der).map_err(|_| CertificateError::NotX509)?;
        let info = certificate.tbs_certificate().subject_public_key_info();
        if info.algorithm.oid != rsa::pkcs1::ALGORITHM_OID {
            return Err(CertificateError::NotRsa);
        }
        let bits = info.subject_public_key.as_bytes().ok_or(CertificateError::NotRsa)?;
        let key = PublicKey::from_certificate(bits).map_err(CertificateError::Key)?;
        Ok(Self { der, key })
    }

    /// The certificate as it came.
    pub const fn der(&self) -> &Bytes {
        &self.der
    }

    /// The key that verifies its owner's signatures.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The MD5 hash under which directories list it (MS-MQMQ 2.2.22). It proves nothing.
    pub fn digest(&self) -> [u8; 16] {
        md5::Md5::digest(&self.der).into()
    }

    /// A self-signed certificate as MSMQ makes them for users, "internal" ones: v3, `O=MSMQ`, the machine as
    /// `OU`, the user as `CN`, signed with SHA-256.
    ///
    /// It begins at `not_before`, in seconds since 1970 (UTC), and is valid for `days`.
    pub fn internal<R: TryCryptoRng + ?Sized>(
        key: &PrivateKey,
        user: &str,
        machine: &str,
        not_before: u64,
        days: u16,
        random: &mut R,
    ) -> Result<Self, CertificateError> {
        const NOT_MADE: fn(&'static str) -> CertificateError = CertificateError::NotMade;
        let time = |seconds| UtcTime::from_unix_duration(Duration::from_secs(seconds)).map(Time::UtcTime);
        let not_after = not_before.saturating_add(u64::from(days) * 24 * 60 * 60);
        let (Ok(begin), Ok(end)) = (time(not_before), time(not_after)) else {
            return Err(NOT_MADE("its dates must be between 1970 and 2049"));
        };
        let mut serial = [0; 16];
        random.try_fill_bytes(&mut serial).map_err(|_| NOT_MADE("the source of randomness failed"))?;
        // A serial number is positive and not zero.
        let [first, ..] = &mut serial;
        *first = *first & 0x7F | 0x40;
        let encoding = |_| NOT_MADE("a name in it can't be encoded");
        let profile = Internal(distinguished_name(user, machine).map_err(encoding)?);
        let signer = SigningKey::<sha2::Sha256>::new(key.inner().clone());
        let info = SubjectPublicKeyInfoOwned::from_key(key.inner().as_public_key())
            .map_err(|_| NOT_MADE("its key can't be encoded"))?;
        let serial = SerialNumber::new(&serial).map_err(encoding)?;
        let unsigned = |_| NOT_MADE("it could not be signed");
        let mut builder =
            CertificateBuilder::new(profile, serial, Validity::new(begin, end), info).map_err(unsigned)?;
        let hash = sha2::Sha256::digest(builder.finalize(&signer).map_err(unsigned)?);
        let value = key.sign(HashAlgorithm::Sha256.digest_info(), &hash, random);
        let value = value.ok_or(NOT_MADE("its key is too short, or the source of randomness failed"))?;
        let value = BitString::from_bytes(&value).map_err(encoding)?;
        let made = builder.assemble(value, &signer).map_err(unsigned)?;
        Self::from_der(made.to_der().map_err(encoding)?.into())
    }
}

/// What stands in an internal certificate beside its key: one name for subject and issuer, and what the key is for.
struct Internal(Name);

impl BuilderProfile for Internal {
    fn get_issuer(&self, subject: &Name) -> Name {
        subject.clone()
    }

    fn get_subject(&self) -> Name {
        self.0.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        Ok(vec![(&KeyUsage(KeyUsages::DigitalSignature.into())).to_extension(tbs.subject(), &[])?])
    }
}

/// `O=MSMQ`, the machine, the user, each as UTF-8.
fn distinguished_name(user: &str, machine: &str) -> rsa::pkcs8::der::Result<Name> {
    const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
    const ORGANIZATIONAL_UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");
    const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
    let mut names = RdnSequence::default();
    for (oid, text) in [(ORGANIZATION, "MSMQ"), (ORGANIZATIONAL_UNIT, machine), (COMMON_NAME, user)] {
        let value = Any::new(Tag::Utf8String, text.as_bytes())?;
        let mut name = RelativeDistinguishedName::default();
        name.insert(AttributeTypeAndValue { oid, value })?;
        names.push(name);
    }
    Name::from_der(&names.to_der()?)
}

/// One certificate of a user's list in the directory (MS-MQMQ 2.2.22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCertificate {
    /// Made by whoever registered it.
    pub identifier: Guid,
    /// The certificate, X.509 in DER.
    pub certificate: Bytes,
}

impl UserCertificate {
    /// Reads MQUSERSIGNCERTS (MS-MQMQ 2.2.21), which must take all of `bytes`. `None` when the sizes do not fit, or a
    /// digest is not that of its certificate.
    pub fn decode_all(bytes: &Bytes) -> Option<Vec<Self>> {
        let (count, mut rest) = bytes.split_first_chunk()?;
        let mut all = Vec::new();
        for _ in 0..u32::from_le_bytes(*count) {
            let (digest, behind) = rest.split_first_chunk::<16>()?;
            let (identifier, behind) = behind.split_first_chunk()?;
            let (size, behind) = behind.split_first_chunk()?;
            let (certificate, behind) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
            if *digest != <[u8; 16]>::from(md5::Md5::digest(certificate)) {
                return None;
            }
            all.push(Self { identifier: Guid::from_wire(*identifier), certificate: bytes.slice_ref(certificate) });
            rest = behind;
        }
        rest.is_empty().then_some(all)
    }

    /// Writes MQUSERSIGNCERTS.
    pub fn encode_all(all: &[Self]) -> Vec<u8> {
        let mut out = (all.len() as u32).to_le_bytes().to_vec();
        for one in all {
            out.extend_from_slice(&md5::Md5::digest(&one.certificate));
            out.extend_from_slice(&one.identifier.to_wire());
            out.extend_from_slice(&(one.certificate.len() as u32).to_le_bytes());
            out.extend_from_slice(&one.certificate);
        }
        out
    }
}

/// Bits of the key and the digest: a certificate's names are whatever its maker wrote.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({} bits, md5 ", self.key.bits())?;
        self.digest().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
