use std::fmt;

use bytes::Bytes;
use rand::TryCryptoRng;
use zeroize::Zeroizing;

use super::simple_blob::SimpleBlob;
use super::{Cipher, Provider, PublicKey};
use crate::mqqb::wire::{SecurityHeader, SecurityItem, UserMessage};

/// A symmetric key for one receiver, and how it travels to it (MS-MQQB 3.1.7.1.5). Made once and used for many bodies:
/// see [`SendKeyCache`](super::SendKeyCache).
pub struct SealingKey {
    provider: Provider,
    cipher: Cipher,
    octets: Zeroizing<Vec<u8>>,
    encryption_key: Bytes,
}

/// Why a body can't be encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotSeal {
    /// AES with the base or enhanced provider, or the like.
    #[error("the {provider} provider has no {cipher}")]
    NoSuchCipher {
        /// The provider.
        provider: Provider,
        /// What it does not have.
        cipher: Cipher,
    },
    /// Too short an RSA key, or no randomness.
    #[error("the receiver's key is too short, or the source of randomness failed")]
    Failed,
    /// Encrypted already.
    #[error("the message is encrypted already")]
    Encrypted,
}

impl SealingKey {
    /// Makes a key and encrypts it for `receiver`.
    pub fn generate<R: TryCryptoRng + ?Sized>(
        provider: Provider,
        cipher: Cipher,
        receiver: &PublicKey,
        random: &mut R,
    ) -> Result<Self, CannotSeal> {
        let size = provider.key_size(cipher).ok_or(CannotSeal::NoSuchCipher { provider, cipher })?;
        let mut octets = Zeroizing::new(vec![0; size]);
        random.try_fill_bytes(&mut octets).map_err(|_| CannotSeal::Failed)?;
        let value = receiver.encrypt(&octets, random).ok_or(CannotSeal::Failed)?;
        Ok(Self { provider, cipher, octets, encryption_key: SimpleBlob::encode(cipher, &value) })
    }

    /// The provider, and so the privacy level.
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// The cipher.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts the body of `message` and says so in its headers. Sign before.
    ///
    /// A signed message leaves the provider to the privacy level, an unsigned one names it.
    pub fn seal(&self, message: &mut UserMessage) -> Result<(), CannotSeal> {
        if message.is_encrypted() {
            return Err(CannotSeal::Encrypted);
        }
        let signed = message.is_signed();
        let properties = &mut message.properties;
        let body = self.cipher.encrypt(&self.octets, &properties.body).ok_or(CannotSeal::Failed)?;
        let body_type = properties.body_type;
        properties.set_body(body.into(), body_type);
        properties.encryption_algorithm = self.cipher.calg();
        properties.privacy_level = self.provider.privacy_level();

        let security = message.security.get_or_insert_default();
        security.flags |= SecurityHeader::ENCRYPTED | SecurityHeader::DATA_PRESENT;
        security.encryption_key = SecurityItem::new(self.encryption_key.clone());
        if !signed {
            security.flags &= !SecurityHeader::DEFAULT_PROVIDER;
            security.provider_info = SecurityItem::new(self.provider.info());
        }
        Ok(())
    }
}

/// Never the key.
impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({}, {})", self.provider, self.cipher)
    }
}
