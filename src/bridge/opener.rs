use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::mqqb::wire::UserMessage;
use crate::net::Clock;
use crate::security::{CacheFigures, CipherPolicy, ClearBody, KeyCache, Keyring, Lookup, SealedBody, Unopened};

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
    clock: Clock,
}

/// How often somebody who waits for another one's RSA operation looks again when that one gave up.
const TRIES: usize = 16;

impl Opener {
    /// With these keys, and so many RSA operations at once.
    pub(super) fn new(keyring: Keyring, cache: KeyCache, permits: usize, clock: Clock) -> Self {
        let inner = Inner { keyring: Arc::new(keyring), cache, permits: Semaphore::new(permits.max(1)), clock };
        Self(Arc::new(inner))
    }

    /// The body of a message, opened when it is encrypted.
    ///
    /// # Errors
    /// One and the same for everything that depends on the key.
    pub(super) async fn open(&self, message: &UserMessage, policy: &CipherPolicy) -> Result<ClearBody, Unopened> {
        if let Some(body) = ClearBody::of(message) {
            return Ok(body);
        }
        let Inner { keyring, cache, permits, clock } = &*self.0;
        let sealed = SealedBody::of(message, policy)?;
        for _ in 0..TRIES {
            let (keys, _flight) = match cache.look_up(&sealed, clock.now()) {
                Lookup::Hit(keys) => return sealed.open(&keys, policy).map(|(body, _)| body),
                Lookup::Joined(landing) => match landing.await {
                    Some(keys) => (keys, None),
                    None => continue,
                },
                Lookup::Miss(flight) => {
                    // The semaphore is never closed, and a task that blocks does not panic.
                    let _permit = permits.acquire().await.map_err(|_| Unopened::Closed)?;
                    let (keyring, body) = (Arc::clone(keyring), sealed.clone());
                    let unwrapped = tokio::task::spawn_blocking(move || keyring.unwrap(&body, &mut rand::rng()));
                    let keys = unwrapped.await.map_err(|_| Unopened::Closed)?;
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

    /// What the cache did and holds.
    pub fn figures(&self) -> CacheFigures {
        self.0.cache.figures()
    }

    /// Forgets keys whose time is up.
    pub(super) fn sweep(&self) {
        self.0.cache.sweep(self.0.clock.now());
    }
}
