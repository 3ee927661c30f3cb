use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use rand::TryCryptoRng;

use super::key_cache::lock;
use super::{CannotSeal, Cipher, Provider, PublicKey, SealingKey};
use crate::mqqb::Moment;
use crate::mqqb::wire::Guid;

/// The keys that were made for receivers (MS-MQQB 3.1.7.1.5), so that these, too, have an RSA operation to do now and
/// then only.
pub struct SendKeyCache {
    keys: Mutex<LruCache<(Guid, Provider, Cipher), Held>>,
    lifetime: Duration,
}

struct Held {
    key: Arc<SealingKey>,
    /// Whom it was encrypted for: a machine that publishes a new key gets a new one.
    receiver: PublicKey,
    since: Moment,
}

impl SendKeyCache {
    /// An empty cache of so many keys, each used for `lifetime`.
    pub fn new(keys: NonZeroUsize, lifetime: Duration) -> Self {
        Self { keys: Mutex::new(LruCache::new(keys)), lifetime }
    }

    /// The key for bodies that go to `machine`, whose public key is `receiver`; made when there is none.
    pub fn key_for<R: TryCryptoRng + ?Sized>(
        &self,
        machine: Guid,
        receiver: &PublicKey,
        provider: Provider,
        cipher: Cipher,
        now: Moment,
        random: &mut R,
    ) -> Result<Arc<SealingKey>, CannotSeal> {
        let id = (machine, provider, cipher);
        if let Some(held) = lock(&self.keys).get(&id) {
            let fresh = now.saturating_since(held.since) < self.lifetime;
            if fresh && held.receiver == *receiver {
                return Ok(Arc::clone(&held.key));
            }
        }
        // Without the lock. Two at once make two keys, both of which are good.
        let key = Arc::new(SealingKey::generate(provider, cipher, receiver, random)?);
        let held = Held { key: Arc::clone(&key), receiver: receiver.clone(), since: now };
        lock(&self.keys).put(id, held);
        Ok(key)
    }
}

impl fmt::Debug for SendKeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendKeyCache({} keys)", lock(&self.keys).len())
    }
}
