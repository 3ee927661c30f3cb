use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{Lane, Peer};
use crate::mqqb::Moment;
use crate::mqqb::wire::Guid;

/// Who is connected. Bounds the sessions, and the connections that have not become one yet.
#[derive(Clone, Debug)]
pub struct Sessions {
    state: Arc<Mutex<State>>,
    places: Places,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// For open sessions.
    pub open: usize,
    /// For connections that have not become a session yet.
    pub pending: usize,
}

/// Open files that are not for senders.
const RESERVED_FILES: u64 = 64 /* health checks */ + 16 /* control socket */ + 32 /* brokers, name look-ups */
    + 16 /* store, log, ports, event loop */;

impl Places {
    /// At most `max` open sessions, and as many connections that have not become one yet.
    pub fn new(max: usize) -> Self {
        Self { open: max.max(1), pending: max.max(1) }
    }

    /// The same within a limit of open files: each connection is one. Open sessions go first; an eighth of the room is
    /// kept for connections that want to become one.
    pub fn within(max: usize, open_files: u64) -> Self {
        let room = open_files.saturating_sub(RESERVED_FILES).max(open_files / 2);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let open = max.min(room - room / 8).max(1);
        Self { open, pending: max.min(room.saturating_sub(open)).max(1) }
    }
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Connections that have not finished their handshake, oldest first.
    pending: BTreeMap<u64, Arc<Notify>>,
    open: BTreeMap<u64, OpenSession>,
}

#[derive(Debug)]
struct OpenSession {
    report: SessionReport,
    lane: Lane,
}

impl State {
    /// Sessions that were opened from here are bounded by what there is to send.
    fn accepted(&self) -> usize {
        self.open.values().filter(|session| session.report.role == SessionRole::Acceptor).count()
    }

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
    /// Who called whom.
    pub role: SessionRole,
    /// When it was opened.
    pub since: Moment,
    /// Messages received on it.
    pub received: u64,
}

/// Who opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionRole {
    /// The other side.
    Acceptor,
    /// This side.
    Initiator,
}

impl SessionRole {
    /// The word for `status` and the log: what this side is.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Acceptor => "acceptor",
            Self::Initiator => "initiator",
        }
    }
}

/// A place in the list; given up when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    sessions: Sessions,
    number: u64,
    pub(super) evicted: Arc<Notify>,
}

impl Sessions {
    /// With room for so many.
    pub fn new(places: Places) -> Self {
        Self { state: Arc::default(), places }
    }

    /// How many there may be.
    pub const fn places(&self) -> Places {
        self.places
    }

    /// Whether one more session would be accepted.
    pub fn has_room(&self) -> bool {
        self.locked().accepted() < self.places.open
    }

    /// The open sessions.
    pub fn report(&self) -> Vec<SessionReport> {
        self.locked().open.values().map(|session| session.report).collect()
    }

    /// How many sessions are open.
    pub fn open(&self) -> usize {
        self.locked().open.len()
    }

    /// Takes a place for a new connection. When all places of connections without a handshake are taken, the oldest
    /// of them is sent away: whoever connects and speaks at once gets in, however many connect and stay silent.
    pub(super) fn admit(&self) -> Seat {
        let mut state = self.locked();
        if state.pending.len() >= self.places.pending {
            state.evict_oldest();
        }
        let number = state.next;
        state.next += 1;
        let evicted = Arc::new(Notify::new());
        state.pending.insert(number, Arc::clone(&evicted));
        drop(state);
        Seat { sessions: self.clone(), number, evicted }
    }

    /// A place for a connection that we made.
    pub(super) fn own(&self) -> Seat {
        let mut state = self.locked();
        let number = state.next;
        state.next += 1;
        drop(state);
        Seat { sessions: self.clone(), number, evicted: Arc::default() }
    }

    /// An open session with a queue manager, whoever opened it: messages go both ways on it.
    pub fn lane_to(&self, queue_manager: Guid) -> Option<Lane> {
        let state = self.locked();
        let mut sessions = state.open.values().filter(|session| session.report.peer.queue_manager == queue_manager);
        sessions.find(|session| session.lane.is_open()).map(|session| session.lane.clone())
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
    pub(super) fn open(&self, peer: Peer, since: Moment, role: SessionRole, lane: Lane) -> Option<Peer> {
        let mut state = self.sessions.locked();
        state.pending.remove(&self.number);
        let twin = state.open.values().map(|session| session.report.peer).find(|other| is_twin(other, &peer));
        let report = SessionReport { peer, role, since, received: 0 };
        state.open.insert(self.number, OpenSession { report, lane });
        twin
    }

    pub(super) fn is_there_room(&self) -> bool {
        self.sessions.has_room()
    }

    pub(super) fn count(&self, received: u64) {
        if let Some(session) = self.sessions.locked().open.get_mut(&self.number) {
            session.report.received = received;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stay_within_the_limit_of_open_files() {
        for files in [0, 1, 64, 128, 256, 1024, 4096, 1 << 20, u64::MAX] {
            for max in [1, 100, 1024, 65_535] {
                let Places { open, pending } = Places::within(max, files);
                assert!((1..=max).contains(&open) && (1..=max).contains(&pending), "{files} {max}");
                assert!(files < 256 || (open + pending) as u64 <= files - RESERVED_FILES, "{files} {max}");
            }
        }
        assert_eq!(Places::within(1024, 1 << 20), Places::new(1024), "there is room for all");
        assert_eq!(Places::within(1024, 1024), Places { open: 784, pending: 112 });
        assert_eq!(Places::within(700, 1024), Places { open: 700, pending: 196 }, "sessions go first");
    }
}
