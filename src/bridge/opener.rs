use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::mqqb::wire::UserMessage;
use crate::net::Clock;
use crate::security::{
    CacheFigures, CipherPolicy, ClearBody, KeyCache, Keyring, Lookup, SealedBody, Unopened, UnwrappedKeys,
};

/// Opens encrypted bodies: with a cached key where there is one, else with RSA, where blocking is allowed. Routes that
/// pass bodies on as they came have none of these. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Opener(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keyring: Arc<Keyring>,
    cache: KeyCache,
    /// RSA operations at once. They are given in turn, so that a session full of new keys waits behind all others.
    permits: Semaphore,
    /// One of the suspects at a time.
    suspects: Semaphore,
    clock: Clock,
}

/// Whether a sender's encrypted keys have been worth the RSA operation that each of them costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repute {
    /// As far as is known.
    Good,
    /// Its last bodies could not be opened. All such senders together get a fifth of one processor: whoever invents keys
    /// must not take RSA away from the others.
    Suspect,
}

/// A suspect's operation is followed by a rest of so many times its length, during which no other suspect has a turn.
const REST: u32 = 4;

/// How often somebody who waits for another one's RSA operation looks again when that one gave up.
const TRIES: usize = 16;

impl Opener {
    /// With these keys, and so many RSA operations at once.
    pub(super) fn new(keyring: Keyring, cache: KeyCache, permits: usize, clock: Clock) -> Self {
        let inner = Inner {
            keyring: Arc::new(keyring),
            cache,
            permits: Semaphore::new(permits.max(1)),
            suspects: Semaphore::new(1),
            clock,
        };
        Self(Arc::new(inner))
    }

    /// The body of a message, opened when it is encrypted.
    ///
    /// # Errors
    /// One and the same for everything that depends on the key.
    pub(super) async fn open(
        &self,
        message: &UserMessage,
        policy: &CipherPolicy,
        repute: Repute,
    ) -> Result<ClearBody, Unopened> {
        if let Some(body) = ClearBody::of(message) {
            return Ok(body);
        }
        let Inner { cache, clock, .. } = &*self.0;
        let sealed = SealedBody::of(message, policy)?;
        for _ in 0..TRIES {
            let (keys, _flight) = match cache.look_up(&sealed, clock.now()) {
                Lookup::Hit(keys) => return sealed.open(&keys, policy).map(|(body, _)| body),
                Lookup::Joined(landing) => match landing.await {
                    Some(keys) => (keys, None),
                    None => continue,
                },
                Lookup::Miss(flight) => {
                    let keys = self.unwrap(&sealed, repute).await?;
                    flight.land(&keys);
                    (keys, Some(flight))
                }
            };
            let (body, proven) = sealed.open(&keys, policy)?;
            cache.put(&proven, clock.now());
            return Ok(body);
        }
        Err(Unopened::Closed)
    }

    /// Does the RSA operation, when its turn has come.
    async fn unwrap(&self, sealed: &SealedBody, repute: Repute) -> Result<UnwrappedKeys, Unopened> {
        let Inner { keyring, permits, suspects, clock, .. } = &*self.0;
        // The semaphores are never closed, and a task that blocks does not panic.
        let turn = match repute {
            Repute::Good => None,
            Repute::Suspect => Some(suspects.acquire().await.map_err(|_| Unopened::Closed)?),
        };
        let permit = permits.acquire().await.map_err(|_| Unopened::Closed)?;
        let began = clock.now();
        let (keyring, body) = (Arc::clone(keyring), sealed.clone());
        let unwrapped = tokio::task::spawn_blocking(move || keyring.unwrap(&body, &mut rand::rng()));
        let keys = unwrapped.await.map_err(|_| Unopened::Closed)?;
        drop(permit);
        if turn.is_some() {
            clock.sleep((clock.now() - began) * REST).await;
        }
        Ok(keys)
    }

    /// What the cache did and holds.
    pub fn figures(&self) -> CacheFigures {
        self.0.cache.figures()
    }

    /// Forgets keys whose time is up.
    pub(super) fn sweep(&self) {
        self.0.cache.sweep(self.0.clock.now());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::num::NonZeroUsize;
    use std::time::Duration;

    use super::*;
    use crate::mqqb::wire::{Guid, MessageId, QueueField};
    use crate::security::{CacheLimits, Cipher, PrivateKey, Provider, SealingKey};

    /// Each with a key of its own.
    fn sealed(key: &PrivateKey) -> UserMessage {
        let id = MessageId { source: Guid::from_random([1; 16]), ordinal: 1 };
        let mut message = UserMessage::new(id, 0, Guid::NULL, QueueField::PrivateOnDestination(1));
        let sealing = SealingKey::generate(Provider::Aes, Cipher::Aes128, key.public(), &mut rand::rng()).unwrap();
        message.properties.set_body(bytes::Bytes::from_static(b"x"), 8);
        sealing.seal(&mut message).unwrap();
        message
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn suspects_share_a_fifth_of_a_processor_and_keep_nobody_else_waiting() {
        let key = PrivateKey::generate(&mut rand::rng()).unwrap();
        let some = NonZeroUsize::new(100).unwrap();
        let limits = CacheLimits { machines: some, keys_per_machine: some, lifetime: Duration::from_hours(1) };
        let clock = Clock::start();
        let opener = Opener::new(Keyring::new(&key), KeyCache::new(limits), 1, clock);
        let open = async |repute| {
            let began = clock.now();
            opener.open(&sealed(&key), &CipherPolicy::default(), repute).await.unwrap();
            clock.now() - began
        };
        let mut shortest = Duration::MAX;
        for _ in 0..4 {
            shortest = shortest.min(open(Repute::Good).await);
        }
        let began = clock.now();
        let suspects = async { tokio::join!(open(Repute::Suspect), open(Repute::Suspect), open(Repute::Suspect)) };
        let honest = async {
            open(Repute::Good).await;
            open(Repute::Good).await;
            clock.now() - began
        };
        let (_, honest) = tokio::join!(suspects, honest);
        let all = clock.now() - began;
        assert!(all >= shortest * 3 * REST / 2, "{all:?} for three, {shortest:?} for one");
        assert!(honest < all, "{honest:?} of {all:?}");
    }
}
