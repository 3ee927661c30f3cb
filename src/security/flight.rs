//! One does the work, the others await it.

use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use dashmap::{DashMap, Entry, VacantEntry};

use super::UnwrappedKeys;
use super::key_cache::lock;

/// The flights that are under way: no more than there are callers.
pub(super) struct Flights<K: Eq + Hash> {
    flying: DashMap<K, Arc<State>>,
    rsa_operations: AtomicU64,
}

impl<K: Eq + Hash> Flights<K> {
    pub(super) fn entry(&self, key: K) -> Entry<'_, K, Arc<State>> {
        self.flying.entry(key)
    }

    pub(super) fn rsa_operations(&self) -> u64 {
        self.rsa_operations.load(Ordering::Relaxed)
    }
}

impl<K: Eq + Hash> Default for Flights<K> {
    fn default() -> Self {
        Self { flying: DashMap::new(), rsa_operations: AtomicU64::new(0) }
    }
}

impl<K: Eq + Hash> fmt::Debug for Flights<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flights({})", self.flying.len())
    }
}

/// The right and duty to do an RSA operation that others wait for. Dropped, it lets the next one begin; dropped without
/// having landed, it says so to those who wait.
#[must_use = "others wait for it"]
pub struct Flight<K: Eq + Hash> {
    key: K,
    state: Arc<State>,
    flights: Arc<Flights<K>>,
}

impl<K: Clone + Eq + Hash> Flight<K> {
    pub(super) fn begin(flights: &Arc<Flights<K>>, place: VacantEntry<'_, K, Arc<State>>) -> Self {
        let state = Arc::new(State(Mutex::new(Progress::Flying(Vec::new()))));
        let key = place.key().clone();
        place.insert(Arc::clone(&state));
        Self { key, state, flights: Arc::clone(flights) }
    }
}

impl<K: Eq + Hash> Flight<K> {
    /// Hands what came out of the RSA operation to those who wait. Each has to open its own body with it.
    pub fn land(&self, keys: &UnwrappedKeys) {
        self.flights.rsa_operations.fetch_add(keys.operations(), Ordering::Relaxed);
        self.state.end(Progress::Landed(keys.clone()));
    }
}

impl<K: Eq + Hash> Drop for Flight<K> {
    fn drop(&mut self) {
        self.flights.flying.remove(&self.key);
        self.state.end(Progress::Lost);
    }
}

impl<K: Eq + Hash> fmt::Debug for Flight<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flight")
    }
}

/// How far a flight is.
pub(super) struct State(Mutex<Progress>);

enum Progress {
    Flying(Vec<Waker>),
    Landed(UnwrappedKeys),
    Lost,
}

impl State {
    pub(super) fn landing(self: &Arc<Self>) -> Landing {
        Landing(Arc::clone(self))
    }

    /// Only the first end counts.
    fn end(&self, end: Progress) {
        let mut progress = lock(&self.0);
        if let Progress::Flying(waiting) = &mut *progress {
            let waiting = std::mem::take(waiting);
            *progress = end;
            drop(progress);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Another one's RSA operation: a future of what comes out of it, for whatever runs futures. `None` when it gave up.
#[must_use = "it does nothing unless awaited"]
pub struct Landing(Arc<State>);

impl Future for Landing {
    type Output = Option<UnwrappedKeys>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *lock(&self.0.0) {
            Progress::Landed(keys) => Poll::Ready(Some(keys.clone())),
            Progress::Lost => Poll::Ready(None),
            Progress::Flying(waiting) => {
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Landing")
    }
}
