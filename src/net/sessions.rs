use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Peer;
use crate::mqqb::Moment;
use crate::mqqb::wire::Guid;

/// Who is connected. Bounds the sessions, and the connections that have not become one yet.
#[derive(Clone, Debug)]
pub struct Sessions {
    state: Arc<Mutex<State>>,
    max: usize,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Connections that have not finished their handshake, oldest first.
    pending: BTreeMap<u64, Arc<Notify>>,
    open: BTreeMap<u64, SessionReport>,
}

impl State {
    fn evict_oldest(&mut self) {
        if let Some((_, oldest)) = self.pending.pop_first() {
            oldest.notify_one();
        }
    }
}

/// One open session, for `status`.
#[derive(Clone, Copy, Debug)]
pub struct SessionReport {
    /// The other end.
    pub peer: Peer,
    /// When it was opened.
    pub since: Moment,
    /// Messages received on it.
    pub received: u64,
}

/// A place in the list; given up when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    sessions: Sessions,
    number: u64,
    pub(super) evicted: Arc<Notify>,
}

impl Sessions {
    /// At most `max` open sessions, and as many connections that have not become one yet.
    pub fn new(max: usize) -> Self {
        Self { state: Arc::default(), max: max.max(1) }
    }

    /// Whether one more session would be accepted.
    pub fn has_room(&self) -> bool {
        self.locked().open.len() < self.max
    }

    /// The open sessions.
    pub fn report(&self) -> Vec<SessionReport> {
        self.locked().open.values().copied().collect()
    }

    /// How many sessions are open.
    pub fn open(&self) -> usize {
        self.locked().open.len()
    }

    /// Takes a place for a new connection. When all places of connections without a handshake are taken, the oldest
    /// of them is sent away: whoever connects and speaks at once gets in, however many connect and stay silent.
    pub(super) fn admit(&self) -> Seat {
        let mut state = self.locked();
        if state.pending.len() >= self.max {
            state.evict_oldest();
        }
        let number = state.next;
        state.next += 1;
        let evicted = Arc::new(Notify::new());
        state.pending.insert(number, Arc::clone(&evicted));
        drop(state);
        Seat { sessions: self.clone(), number, evicted }
    }

    /// Sends the oldest connection without a handshake away: the system has no room for another.
    pub(super) fn make_room(&self) {
        self.locked().evict_oldest();
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        // The list stays usable after a panic elsewhere: each change to it is a single step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The handshake is done. Other addresses under the same identity are reported: two machines with one GUID.
    pub(super) fn open(&self, peer: Peer, since: Moment) -> Option<Peer> {
        let mut state = self.sessions.locked();
        state.pending.remove(&self.number);
        let twin = state.open.values().map(|report| report.peer).find(|other| is_twin(other, &peer));
        state.open.insert(self.number, SessionReport { peer, since, received: 0 });
        twin
    }

    pub(super) fn is_there_room(&self) -> bool {
        self.sessions.has_room()
    }

    pub(super) fn count(&self, received: u64) {
        if let Some(report) = self.sessions.locked().open.get_mut(&self.number) {
            report.received = received;
        }
    }
}

fn is_twin(other: &Peer, peer: &Peer) -> bool {
    other.queue_manager == peer.queue_manager
        && other.queue_manager != Guid::NULL
        && other.address.ip() != peer.address.ip()
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.sessions.locked();
        state.pending.remove(&self.number);
        state.open.remove(&self.number);
    }
}
