use rand::TryCryptoRng;

use super::{PrivateKey, Provider, PublicKey, SealedBody, UnwrappedKey, UnwrappedKeys};

/// The private keys of this queue manager: for each provider the one that is published, and former ones that senders
/// may still encrypt for.
///
/// Rotation: [put](Keyring::put) the new key, publish it, and [retire](Keyring::retire) the former one when no sender
/// can have it any more: Windows keeps keys from the directory, and bodies in its outgoing queues, for days.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// The newest of each provider first.
    keys: Vec<(Provider, PrivateKey)>,
}

impl Keyring {
    /// The most keys that a message is tried with; each costs an RSA operation.
    pub const MAX_KEYS_PER_PROVIDER: usize = 4;
    /// The longest key that opens bodies, in bits.
    pub const MAX_BITS: usize = 4096;

    /// One key for all providers.
    pub fn new(key: &PrivateKey) -> Self {
        let mut ring = Self::default();
        for provider in Provider::ALL {
            ring.put(provider, key.clone());
        }
        ring
    }

    /// Makes `key` the one to be published for `provider`. A key that is there already moves to the front; beyond
    /// [`Keyring::MAX_KEYS_PER_PROVIDER`] the oldest one goes. Returns whether it was put in: too long a key is not.
    pub fn put(&mut self, provider: Provider, key: PrivateKey) -> bool {
        if key.public().bits() > Self::MAX_BITS {
            return false;
        }
        self.keys.retain(|(at, held)| *at != provider || held.public() != key.public());
        self.keys.insert(0, (provider, key));
        let mut of_provider = 0;
        self.keys.retain(|(at, _)| {
            of_provider += usize::from(*at == provider);
            *at != provider || of_provider <= Self::MAX_KEYS_PER_PROVIDER
        });
        true
    }

    /// Takes a key out, whatever it was for. Returns whether it was there.
    pub fn retire(&mut self, key: &PublicKey) -> bool {
        let before = self.keys.len();
        self.keys.retain(|(_, held)| held.public() != key);
        self.keys.len() < before
    }

    /// The key that is to be published for a provider.
    pub fn published(&self, provider: Provider) -> Option<&PublicKey> {
        self.of(provider).next().map(PrivateKey::public)
    }

    fn of(&self, provider: Provider) -> impl Iterator<Item = &PrivateKey> {
        self.keys.iter().filter(move |(at, _)| *at == provider).map(|(_, key)| key)
    }

    /// Decrypts the key of a body: one RSA operation for each key of the body's provider and of the right length, which
    /// is one but for rotation. It takes milliseconds and belongs where blocking is allowed.
    ///
    /// Whether a key is the right one shows only when the body is opened with it. There may be none at all, which is
    /// for the body to say, too.
    pub fn unwrap<R: TryCryptoRng + ?Sized>(&self, body: &SealedBody, random: &mut R) -> UnwrappedKeys {
        let (mut keys, mut operations) = (Vec::new(), 0);
        for private in self.of(body.provider()) {
            let Some(value) = body.blob().value_for(private.public().size()) else { continue };
            operations += 1;
            if let Some(opened) = private.decrypt(&value, random) {
                keys.push(UnwrappedKey::new(body.provider(), body.cipher(), &opened, private.public().bits()));
            }
        }
        UnwrappedKeys::new(keys, operations)
    }
}
