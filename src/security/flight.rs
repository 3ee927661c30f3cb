//! One does the work, the others await it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use dashmap::{DashMap, Entry, VacantEntry};

use super::UnwrappedKeys;
use super::key_cache::{KeyId, lock};
use crate::mqqb::wire::Guid;

/// Whose key, and which.
type Route = (Guid, KeyId);

/// The flights that are under way: no more than there are callers.
#[derive(Default)]
pub(super) struct Flights {
    flying: DashMap<Route, Arc<State>>,
    rsa_operations: AtomicU64,
}

impl Flights {
    pub(super) fn entry(&self, source: Guid, id: KeyId) -> Entry<'_, Route, Arc<State>> {
        self.flying.entry((source, id))
    }

    pub(super) fn rsa_operations(&self) -> u64 {
        self.rsa_operations.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flights({})", self.flying.len())
    }
}

/// The right and duty to do an RSA operation that others wait for. Dropped, it lets the next one begin; dropped without
/// having landed, it says so to those who wait.
#[must_use = "others wait for it"]
pub struct Flight {
    route: Route,
    state: Arc<State>,
    flights: Arc<Flights>,
}

impl Flight {
    pub(super) fn begin(flights: &Arc<Flights>, place: VacantEntry<'_, Route, Arc<State>>) -> Self {
        let state = Arc::new(State(Mutex::new(Progress::Flying(Vec::new()))));
        let route = place.key().clone();
        place.insert(Arc::clone(&state));
        Self { route, state, flights: Arc::clone(flights) }
    }

    /// Hands what came out of the RSA operation to those who wait. Each has to open its own body with it.
    pub fn land(&self, keys: &UnwrappedKeys) {
        self.flights.rsa_operations.fetch_add(keys.operations(), Ordering::Relaxed);
        self.state.end(Progress::Landed(keys.clone()));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.flying.remove(&self.route);
        self.state.end(Progress::Lost);
    }
}

impl fmt::Debug for Flight {
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
