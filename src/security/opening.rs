//! What is in a body (MS-MQQB 3.1.5.8.3, decryption).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rand::TryCryptoRng;
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

use super::simple_blob::SimpleBlob;
use super::{Cipher, KeyForm, Keyring, Provider};
use crate::mqqb::wire::{Guid, UserMessage};

/// A body that can be read, because it was never encrypted or because it was opened well. Can only come from
/// [`ClearBody::of`] and [`SealedBody::open`].
#[derive(Clone, PartialEq, Eq)]
pub struct ClearBody {
    plaintext: Bytes,
    sealed_with: Option<SealedWith>,
    alternative: Option<(Bytes, KeyForm)>,
}

/// How a body was encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedWith {
    /// The provider that its privacy level selects.
    pub provider: Provider,
    /// The cipher.
    pub cipher: Cipher,
    /// Bits of our RSA key that its key was encrypted for.
    pub key_bits: usize,
    /// Which way the key was used.
    pub form: KeyForm,
}

/// Which encrypted bodies a queue opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherPolicy {
    /// The ciphers.
    pub ciphers: Vec<Cipher>,
    /// The shortest RSA key: 1024 bits, or 512 where "rsa512" is allowed.
    pub min_key_bits: usize,
}

/// AES, under keys of 1024 bits or more.
impl Default for CipherPolicy {
    fn default() -> Self {
        Self { ciphers: vec![Cipher::Aes128, Cipher::Aes192, Cipher::Aes256], min_key_bits: 1024 }
    }
}

/// Why a body stays closed. To the sender both are bad encryption.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// The queue does not want what the message openly says it is encrypted with.
    #[error("the body is encrypted with {0}, which the queue does not accept")]
    Cipher(Cipher),
    /// The key was encrypted for a key of ours that is too short for the queue.
    #[error("the body's key is encrypted for an RSA key of {found} bits, {least} is the least that the queue accepts")]
    ShortKey {
        /// The key that it would take.
        found: usize,
        /// The policy's.
        least: usize,
    },
    /// Everything else. Nobody is told more: who knows which step failed can find out what is in the body.
    #[error("the body can't be opened: damaged, encrypted for another queue manager, or not as its header says")]
    Closed,
}

impl ClearBody {
    /// The body of a message that is not encrypted; `None` when it is.
    pub fn of(message: &UserMessage) -> Option<Self> {
        let plaintext = message.properties.body.clone();
        (!message.is_encrypted()).then_some(Self { plaintext, sealed_with: None, alternative: None })
    }

    /// Opens the body of `message`, whether it is encrypted or not, without a key cache. May take milliseconds.
    pub fn open<R: TryCryptoRng + ?Sized>(
        message: &UserMessage,
        keyring: &Keyring,
        policy: &CipherPolicy,
        random: &mut R,
    ) -> Result<Self, Unopened> {
        if let Some(clear) = Self::of(message) {
            return Ok(clear);
        }
        let sealed = SealedBody::of(message, policy)?;
        Ok(sealed.open(&keyring.unwrap(&sealed, random), policy)?.0)
    }

    /// What is in it.
    pub const fn plaintext(&self) -> &Bytes {
        &self.plaintext
    }

    /// How it was encrypted; `None` when it was not.
    pub const fn sealed_with(&self) -> Option<SealedWith> {
        self.sealed_with
    }

    /// What else it can be: where the specification leaves open how a 40-bit key is used, and no padding tells.
    pub(super) fn alternative(&self) -> Option<&Bytes> {
        self.alternative.as_ref().map(|(plaintext, _)| plaintext)
    }

    /// The signature says that the other plaintext is the right one.
    pub(super) fn take_alternative(&mut self) {
        if let (Some((plaintext, form)), Some(sealed_with)) = (self.alternative.take(), &mut self.sealed_with) {
            self.plaintext = plaintext;
            sealed_with.form = form;
        }
    }
}

/// The size and how it was encrypted, never the contents.
impl fmt::Debug for ClearBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClearBody({} bytes, {:?})", self.plaintext.len(), self.sealed_with)
    }
}

/// An encrypted body with all it takes to open it but the key. Owned, so that it can be taken to where RSA may block.
#[derive(Clone, Debug)]
pub struct SealedBody {
    source: Guid,
    provider: Provider,
    cipher: Cipher,
    encryption_key: Bytes,
    blob: SimpleBlob,
    body: Bytes,
}

impl SealedBody {
    /// The encrypted body of a message, as far as it makes sense without a key and `policy` wants it.
    pub fn of(message: &UserMessage, policy: &CipherPolicy) -> Result<Self, Unopened> {
        let properties = &message.properties;
        let security = message.security.as_ref().filter(|security| security.is_encrypted()).ok_or(Unopened::Closed)?;
        let cipher = Cipher::from_calg(properties.encryption_algorithm).ok_or(Unopened::Closed)?;
        if !policy.ciphers.contains(&cipher) {
            return Err(Unopened::Cipher(cipher));
        }
        let provider = Provider::of_privacy_level(properties.privacy_level).ok_or(Unopened::Closed)?;
        let encryption_key = security.encryption_key.data.clone();
        let blob = SimpleBlob::decode(&encryption_key).ok_or(Unopened::Closed)?;
        let makes_sense = provider.key_size(cipher).is_some()
            && blob.calg == cipher.calg()
            && cipher.may_have_length(properties.body.len());
        if !makes_sense {
            return Err(Unopened::Closed);
        }
        let source = message.user.source_queue_manager;
        Ok(Self { source, provider, cipher, encryption_key, blob, body: properties.body.clone() })
    }

    /// The queue manager that sent the message first, by its own word.
    pub const fn source(&self) -> Guid {
        self.source
    }

    /// The provider that the privacy level selects.
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// The cipher.
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// `EncryptionKey`, as on the wire.
    pub const fn encryption_key(&self) -> &Bytes {
        &self.encryption_key
    }

    pub(super) const fn blob(&self) -> &SimpleBlob {
        &self.blob
    }

    /// Opens the body with the keys that its key may be. The one that did comes with it, for the cache.
    pub fn open(&self, keys: &UnwrappedKeys, policy: &CipherPolicy) -> Result<(ClearBody, ProvenKey), Unopened> {
        let least = policy.min_key_bits;
        let (allowed, short): (Vec<_>, Vec<_>) = keys.keys.iter().partition(|key| key.key_bits >= least);
        if let (Some(short), true) = (short.first(), allowed.is_empty()) {
            return Err(Unopened::ShortKey { found: short.key_bits, least });
        }
        let mut opened = allowed.into_iter().filter_map(|key| Some((key, self.open_with(key)?)));
        let (key, body) = opened.next().ok_or(Unopened::Closed)?;
        if opened.next().is_some() {
            // The wrong one of two private keys gives a fake of the right length once in a hundred times, and RC4 has no
            // padding that would tell. Better refused than garbled.
            return Err(Unopened::Closed);
        }
        let proven = ProvenKey {
            source: self.source,
            provider: self.provider,
            cipher: self.cipher,
            encryption_key: self.encryption_key.clone(),
            keys: UnwrappedKeys { keys: [key.clone()].into(), operations: 0 },
        };
        Ok((body, proven))
    }

    /// `None` when the key is not the right one, or the body not one of it: both take as long as success.
    fn open_with(&self, key: &UnwrappedKey) -> Option<ClearBody> {
        let forms = self.cipher.key_forms(key.octets.len());
        let mut found: Vec<_> = Vec::new();
        for form in forms {
            let decrypted = self.cipher.decrypt(&key.octets, *form, &self.body)?;
            if (decrypted.well_padded & key.genuine()).into() {
                found.push((decrypted, *form));
            }
        }
        // Two forms may both look right, one of them by chance, which a longer padding makes less likely.
        found.sort_by_key(|(decrypted, _)| std::cmp::Reverse(decrypted.padding()));
        let mut found = found.into_iter().map(|(decrypted, form)| (Bytes::from(decrypted.into_plaintext()), form));
        let (plaintext, form) = found.next()?;
        let sealed_with = SealedWith { provider: self.provider, cipher: self.cipher, key_bits: key.key_bits, form };
        Some(ClearBody { plaintext, sealed_with: Some(sealed_with), alternative: found.next() })
    }
}

/// What may be the key of a body: for each private key that was tried, what came out. No more than a guess until a
/// body was opened with it. Clones share one copy, which is wiped with the last of them.
#[derive(Clone, Debug, Default)]
pub struct UnwrappedKeys {
    keys: Arc<[UnwrappedKey]>,
    operations: u64,
}

impl UnwrappedKeys {
    /// What came out of so many RSA operations.
    pub(super) fn new(keys: Vec<UnwrappedKey>, operations: u64) -> Self {
        Self { keys: keys.into(), operations }
    }

    /// RSA operations that it took.
    pub const fn operations(&self) -> u64 {
        self.operations
    }
}

/// One of them. It always has the length that cipher and provider ask for, so that it can be tried.
#[derive(Clone)]
pub(super) struct UnwrappedKey {
    octets: Zeroizing<Vec<u8>>,
    /// 1 when what came out of RSA had that length, else 0.
    right_length: u8,
    key_bits: usize,
}

impl UnwrappedKey {
    pub(super) fn new(provider: Provider, cipher: Cipher, opened: &[u8], key_bits: usize) -> Self {
        let size = provider.key_size(cipher).unwrap_or_default();
        let mut octets = Zeroizing::new(vec![0; size]);
        for (octet, opened) in octets.iter_mut().zip(opened) {
            *octet = *opened;
        }
        Self { octets, right_length: opened.len().ct_eq(&size).unwrap_u8(), key_bits }
    }

    fn genuine(&self) -> Choice {
        Choice::from(self.right_length)
    }
}

/// Only how long it is.
impl fmt::Debug for UnwrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnwrappedKey({} bits)", self.octets.len() * 8)
    }
}

/// A key with which a body was opened well: the only thing that a key cache takes.
#[derive(Clone, Debug)]
pub struct ProvenKey {
    pub(super) source: Guid,
    pub(super) provider: Provider,
    pub(super) cipher: Cipher,
    pub(super) encryption_key: Bytes,
    pub(super) keys: UnwrappedKeys,
}
