use bytes::Bytes;
use rand::TryCryptoRng;

use super::signed_fields::{ending, hash_beginning};
use super::{Certificate, HashAlgorithm, PrivateKey, QueueNames, Reading, SignatureVersion};
use crate::mqqb::wire::{SecurityHeader, SecurityItem, UserMessage};

/// Signs messages for the owner of a certificate (MS-MQQB 3.1.7.1.4).
///
/// Sign what is complete, and before it is encrypted: the signature covers the plaintext, and everything that
/// its version covers. The sender id is not covered by any; the caller puts it in.
#[derive(Debug)]
pub struct Signer<'a> {
    /// The key.
    pub key: &'a PrivateKey,
    /// The certificate with the key's public half.
    pub certificate: &'a Certificate,
    /// What the hash is made with.
    pub hash: HashAlgorithm,
    /// How queues are written.
    pub form: SignatureForm,
}

/// The two forms in which we sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureForm {
    /// Format names as text, which is what every published description suggests that Windows hashes.
    #[default]
    Property,
    /// The fields as they stand in the packet.
    Wire,
}

/// Why a message can't be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotSign {
    /// MD2 and MD4.
    #[error("{0} signatures are not made")]
    ObsoleteHash(HashAlgorithm),
    /// A queue without a format name.
    #[error("a queue of the message has no format name to sign")]
    NoName,
    /// A signature of version 3.0 belongs to a message for several queues.
    #[error("a 3.0 signature needs a message with lists of queues")]
    NoLists,
    /// The certificate is another key's.
    #[error("the certificate has another key than the one that signs")]
    OtherKey,
    /// Too short a key for the hash, or no randomness.
    #[error("the key is too short for a {0} signature, or the source of randomness failed")]
    Failed(HashAlgorithm),
}

impl Signer<'_> {
    /// Puts signature, certificate and hash algorithm into `message`.
    pub fn sign<R: TryCryptoRng + ?Sized>(
        &self,
        message: &mut UserMessage,
        version: SignatureVersion,
        random: &mut R,
    ) -> Result<(), CannotSign> {
        if self.certificate.key() != self.key.public() {
            return Err(CannotSign::OtherKey);
        }
        if version == SignatureVersion::V3 && message.multi_queue.is_none() {
            return Err(CannotSign::NoLists);
        }
        let mut hash = self.hash.start().ok_or(CannotSign::ObsoleteHash(self.hash))?;
        hash_beginning(message, &message.properties.body, &mut hash);
        hash.update(&ending(message, version, self.form.reading()).ok_or(CannotSign::NoName)?);
        let value = self.key.sign(self.hash.digest_info(), &hash.finish(), random);
        let mut value = value.ok_or(CannotSign::Failed(self.hash))?;
        value.reverse();
        let value = Bytes::from(value);

        message.properties.hash_algorithm = self.hash.calg();
        let security = message.security.get_or_insert_default();
        security.flags |= SecurityHeader::DATA_PRESENT | SecurityHeader::DEFAULT_PROVIDER;
        security.sender_certificate = SecurityItem::new(self.certificate.der().clone());
        match (version, &mut message.multi_queue) {
            (SignatureVersion::V3, Some(multi_queue)) => multi_queue.signature.value = value,
            _ => security.signature = SecurityItem::new(value),
        }
        Ok(())
    }
}

impl SignatureForm {
    const fn reading(self) -> Reading {
        match self {
            // An application that names one queue twice has set both properties.
            Self::Property => Reading { same_as_admin_repeated: true, ..Reading::new(QueueNames::Property) },
            Self::Wire => Reading::new(QueueNames::Wire),
        }
    }
}
