//! The keys of bodies that were opened, by the machine that sent them (MS-MQQB 3.1.1.3.3).
//!
//! RSA costs milliseconds, a look-up less than a microsecond, and senders use a key for hours. The cache never does RSA
//! itself, never holds a lock while somebody does, and never waits: it says who is to do it, and lets others await it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dashmap::{DashMap, Entry};
use lru::LruCache;

use super::flight::{Flight, Flights, Landing};
use super::{Cipher, ProvenKey, Provider, SealedBody, UnwrappedKeys};
use crate::mqqb::Moment;
use crate::mqqb::wire::Guid;

/// How much a cache may hold, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Machines. Beyond them the one that was quiet for longest goes, with its keys.
    pub machines: NonZeroUsize,
    /// Keys of each. Beyond them its least recently used one goes: a machine that floods the cache loses its own keys.
    pub keys_per_machine: NonZeroUsize,
    /// How long a key is kept, from the message that brought it.
    pub lifetime: Duration,
}

/// Keys of bodies, wiped when they leave. For many threads.
///
/// What a source machine is, is the sender's word. Whoever can encrypt for us can invent machines, and so drive out
/// others; it takes a well-formed message and an RSA operation for each.
#[derive(Debug)]
pub struct KeyCache {
    machines: DashMap<Guid, Arc<Machine>>,
    /// Held while a machine is added, so that there are never too many.
    growing: Mutex<()>,
    flights: Arc<Flights>,
    limits: CacheLimits,
    hits: AtomicU64,
    misses: AtomicU64,
    joined: AtomicU64,
    evictions: AtomicU64,
}

/// What a cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Look-ups that found a key.
    pub hits: u64,
    /// Look-ups that have to do RSA.
    pub misses: u64,
    /// Look-ups that wait for another one's RSA.
    pub joined: u64,
    /// Keys that went: for room, for age, or by [`KeyCache::clear`].
    pub evictions: u64,
    /// RSA operations.
    pub rsa_operations: u64,
    /// Machines in the cache.
    pub machines: usize,
    /// Keys in the cache.
    pub keys: usize,
}

/// What the cache knows of a body's key.
#[derive(Debug)]
pub enum Lookup {
    /// The key. Open the body.
    Hit(UnwrappedKeys),
    /// Nothing. Do the RSA operation, [land](Flight::land) what comes out, open the body, put the key into the cache,
    /// and drop the flight only then.
    Miss(Flight),
    /// Another one does the RSA operation for this key just now: await it, open the body, and put the key into the cache,
    /// since the other one's body may not have opened. `None` means that it gave up; look again.
    Joined(Landing),
}

/// What a key is found by, within its machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeyId {
    provider: Provider,
    cipher: Cipher,
    encryption_key: Bytes,
}

#[derive(Debug)]
struct Machine {
    keys: Mutex<LruCache<KeyId, Held>>,
    /// Nanoseconds since the start of time.
    last_used: AtomicU64,
}

#[derive(Debug)]
struct Held {
    key: UnwrappedKeys,
    since: Moment,
}

impl KeyCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            machines: DashMap::new(),
            growing: Mutex::new(()),
            flights: Arc::default(),
            limits,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Looks for the key of `body`.
    pub fn look_up(&self, body: &SealedBody, now: Moment) -> Lookup {
        let id =
            KeyId { provider: body.provider(), cipher: body.cipher(), encryption_key: body.encryption_key().clone() };
        if let Some(key) = self.find(body.source(), &id, now) {
            return self.hit(key);
        }
        match self.flights.entry(body.source(), id) {
            Entry::Occupied(flying) => {
                self.joined.fetch_add(1, Ordering::Relaxed);
                Lookup::Joined(flying.get().landing())
            }
            Entry::Vacant(place) => {
                // The key may have come since it was looked for: whoever brings one ends the flight afterwards.
                let (source, id) = place.key();
                if let Some(key) = self.find(*source, id, now) {
                    return self.hit(key);
                }
                self.misses.fetch_add(1, Ordering::Relaxed);
                Lookup::Miss(Flight::begin(&self.flights, place))
            }
        }
    }

    fn hit(&self, key: UnwrappedKeys) -> Lookup {
        self.hits.fetch_add(1, Ordering::Relaxed);
        Lookup::Hit(key)
    }

    fn find(&self, source: Guid, id: &KeyId, now: Moment) -> Option<UnwrappedKeys> {
        // The guard of the map lives no longer than this line.
        let machine = self.machines.get(&source).map(|machine| Arc::clone(&machine))?;
        machine.last_used.store(nanoseconds(now), Ordering::Relaxed);
        let mut keys = lock(&machine.keys);
        let held = keys.get(id)?;
        if now.saturating_since(held.since) < self.limits.lifetime {
            return Some(held.key.clone());
        }
        keys.pop(id);
        self.evictions.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Keeps a key that a body was opened with.
    pub fn put(&self, key: &ProvenKey, now: Moment) {
        let machine = self.machine(key.source, now);
        // A copy: a slice of the message would keep all of it in memory.
        let encryption_key = Bytes::copy_from_slice(&key.encryption_key);
        let id = KeyId { provider: key.provider, cipher: key.cipher, encryption_key };
        let mut keys = lock(&machine.keys);
        if keys.contains(&id) {
            return;
        }
        if keys.push(id, Held { key: key.keys.clone(), since: now }).is_some() {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The machine in the cache, made when it is not there.
    fn machine(&self, source: Guid, now: Moment) -> Arc<Machine> {
        if let Some(machine) = self.machines.get(&source) {
            return Arc::clone(&machine);
        }
        let _growing = lock(&self.growing);
        while self.machines.len() >= self.limits.machines.get() && !self.machines.contains_key(&source) {
            let quietest = self.machines.iter().min_by_key(|machine| machine.last_used.load(Ordering::Relaxed));
            let Some(quietest) = quietest.map(|machine| *machine.key()) else { break };
            self.remove(quietest);
        }
        let new = || {
            Arc::new(Machine {
                keys: Mutex::new(LruCache::new(self.limits.keys_per_machine)),
                last_used: AtomicU64::new(nanoseconds(now)),
            })
        };
        Arc::clone(&self.machines.entry(source).or_insert_with(new))
    }

    fn remove(&self, source: Guid) {
        if let Some((_, machine)) = self.machines.remove(&source) {
            let keys = lock(&machine.keys).len() as u64;
            self.evictions.fetch_add(keys, Ordering::Relaxed);
        }
    }

    /// Lets keys go whose time is over, and machines that have none left. To be called now and then: a key that nobody
    /// asks for would stay.
    pub fn sweep(&self, now: Moment) {
        let mut expired = 0;
        self.machines.retain(|_, machine| {
            let mut keys = lock(&machine.keys);
            let old: Vec<KeyId> = keys
                .iter()
                .filter(|(_, held)| now.saturating_since(held.since) >= self.limits.lifetime)
                .map(|(id, _)| id.clone())
                .collect();
            for id in old {
                keys.pop(&id);
                expired += 1;
            }
            !keys.is_empty()
        });
        self.evictions.fetch_add(expired, Ordering::Relaxed);
    }

    /// Lets all keys go, as when the private keys were replaced because they got into wrong hands.
    pub fn clear(&self) {
        let sources: Vec<Guid> = self.machines.iter().map(|machine| *machine.key()).collect();
        for source in sources {
            self.remove(source);
        }
    }

    /// What the cache did and holds.
    pub fn figures(&self) -> CacheFigures {
        CacheFigures {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            joined: self.joined.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            rsa_operations: self.flights.rsa_operations(),
            machines: self.machines.len(),
            keys: self.machines.iter().map(|machine| lock(&machine.keys).len()).sum(),
        }
    }
}

fn nanoseconds(moment: Moment) -> u64 {
    u64::try_from(moment.since_start().as_nanos()).unwrap_or(u64::MAX)
}

/// What a lock guards here is whole at any time: a thread that panicked elsewhere while it held it changes nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
