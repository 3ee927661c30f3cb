//! Queues of messages for other machines: one for each destination, durable and in order, each with a courier that sends
//! what is in it.

mod courier;
mod destination;
mod expiry;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinSet;

use super::Admission;
use super::acknowledge::AcknowledgerCell;
use super::awaited::Awaited;
use super::status::OutgoingStatus;
use crate::config::check_sendable;
use crate::mqqb::wire::FormatName;
use crate::net::{Clock, Lanes, Stop};
use crate::store::{QueueId, Store, StoreError};
use courier::Courier;
pub(super) use destination::Locator;
use state::State;

pub use state::OutgoingState;

/// All outgoing queues. Cheap to clone.
#[derive(Clone)]
pub struct Outgoing(Arc<Shared>);

struct Shared {
    admission: Arc<Admission>,
    store: Store,
    lanes: Lanes,
    locator: Locator,
    clock: Clock,
    dead_letters: QueueId,
    awaited: Awaited,
    /// Acknowledgments are sent through outgoing queues themselves.
    acknowledger: AcknowledgerCell,
    queues: Mutex<Queues>,
    drain: Stop,
    patience: Duration,
}

#[derive(Default)]
struct Queues {
    by_name: BTreeMap<String, Arc<OutgoingQueue>>,
    couriers: JoinSet<()>,
}

/// What outgoing queues need.
pub(super) struct OutgoingParts {
    /// Knows which queues are this machine's own.
    pub(super) admission: Arc<Admission>,
    pub(super) store: Store,
    pub(super) lanes: Lanes,
    pub(super) locator: Locator,
    pub(super) clock: Clock,
    pub(super) dead_letters: QueueId,
    pub(super) awaited: Awaited,
    /// Tells senders of ours what expires.
    pub(super) acknowledger: AcknowledgerCell,
    /// Nothing more is sent.
    pub(super) drain: Stop,
    /// How long acknowledgments are waited for then.
    pub(super) patience: Duration,
}

/// One destination.
#[derive(Debug)]
pub(super) struct OutgoingQueue {
    name: FormatName,
    id: QueueId,
    state: State,
    sent: AtomicU64,
    expired: AtomicU64,
}

/// The names of outgoing queues in the store.
const PREFIX: &str = "outgoing:";
/// Destinations at most: whoever may name one could name any number.
const MOST_QUEUES: usize = 10_000;
/// From so many on none is made for acknowledgments, whose senders say where they go: routes keep the rest.
const MOST_ASKED_FOR: usize = 1_000;

/// What a destination is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What a route sends.
    Messages,
    /// What somebody else has asked for.
    Acknowledgments,
}

/// Why there is no queue for a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoQueue {
    /// Nothing can be sent there.
    #[error("{0}")]
    Never(String),
    /// It may be possible later.
    #[error("{0}")]
    NotNow(String),
}

impl Outgoing {
    /// Opens the queues that are in the store.
    pub(super) fn open(parts: OutgoingParts) -> Self {
        let OutgoingParts {
            admission,
            store,
            lanes,
            locator,
            clock,
            dead_letters,
            awaited,
            acknowledger,
            drain,
            patience,
        } = parts;
        let shared = Shared {
            admission,
            store,
            lanes,
            locator,
            clock,
            dead_letters,
            awaited,
            acknowledger,
            queues: Mutex::default(),
            drain,
            patience,
        };
        Self(Arc::new(shared))
    }

    /// Sends what waits, and from now on what comes.
    pub(super) fn start(&self) {
        for (name, id) in self.0.store.queues() {
            let Some(text) = name.strip_prefix(PREFIX) else { continue };
            match text.parse() {
                Ok(name) => {
                    self.enter(name, id);
                }
                Err(error) => tracing::error!(
                    event = "outgoing_queue_unreadable", queue = %name, reason = %error,
                    "the name of a stored queue can't be read; its messages stay"
                ),
            }
        }
    }

    /// The queue of a destination, made when there is none. A new one takes a commit, which this waits for.
    ///
    /// # Errors
    /// A sentence that says why messages can't be sent there.
    pub(super) fn queue(&self, name: &FormatName, purpose: Purpose) -> Result<QueueId, NoQueue> {
        if let Some(queue) = self.locked().by_name.get(&identity(name)) {
            return Ok(queue.id);
        }
        check_sendable(name).map_err(NoQueue::Never)?;
        // A session with ourselves would carry messages round in a circle.
        if self.0.admission.is_ours(name, NO_CALLED_ADDRESS) {
            let why = format!("{name} is a queue of this machine; messages are sent to queues of others");
            return Err(NoQueue::Never(why));
        }
        let most = match purpose {
            Purpose::Messages => MOST_QUEUES,
            Purpose::Acknowledgments => MOST_ASKED_FOR,
        };
        if self.locked().by_name.len() >= most {
            return Err(NoQueue::NotNow(format!("there are {most} destinations already")));
        }
        let id = self.0.store.queue(&format!("{PREFIX}{name}"));
        let id = id.map_err(|error| NoQueue::NotNow(error.to_string()))?;
        Ok(self.enter(name.clone(), id))
    }

    fn enter(&self, name: FormatName, id: QueueId) -> QueueId {
        let mut queues = self.locked();
        let Queues { by_name, couriers } = &mut *queues;
        let queue = by_name.entry(identity(&name)).or_insert_with(|| {
            let state = State::new(name.to_string());
            let queue =
                Arc::new(OutgoingQueue { name, id, state, sent: AtomicU64::new(0), expired: AtomicU64::new(0) });
            couriers.spawn(Courier::new(self.clone(), Arc::clone(&queue)).run());
            queue
        });
        queue.id
    }

    /// For whoever is held by what the outgoing queues hold.
    pub(super) fn downgrade(&self) -> WeakOutgoing {
        WeakOutgoing(Arc::downgrade(&self.0))
    }

    /// Ends everything at once, as if the process were killed.
    pub(super) fn abandon(&self) {
        drop(std::mem::take(&mut self.locked().couriers));
        self.0.lanes.abandon();
    }

    /// Waits for the couriers to end, once they were told to, and for their sessions.
    pub(super) async fn finished(&self) {
        let mut couriers = std::mem::take(&mut self.locked().couriers);
        while couriers.join_next().await.is_some() {}
    }

    /// Waits for the sessions that were opened from here to end, once they were told to.
    pub(super) async fn hung_up(&self) {
        self.0.lanes.finished().await;
    }

    /// The outgoing queues, for `status`.
    pub(super) fn report(&self, now: u64) -> Vec<OutgoingStatus> {
        let queues: Vec<_> = self.locked().by_name.values().cloned().collect();
        queues.iter().map(|queue| self.status_of(queue, now)).collect()
    }

    fn status_of(&self, queue: &OutgoingQueue, now: u64) -> OutgoingStatus {
        let depth = self.0.store.depth(queue.id);
        let state = queue.state.get();
        let (reason, since, attempt) = match &state {
            OutgoingState::Failing { reason, since, attempt } => (Some(reason.clone()), Some(*since), *attempt),
            _ => (None, None, 0),
        };
        OutgoingStatus {
            queue: format!("{PREFIX}{}", queue.name),
            destination: queue.name.to_string(),
            state: state.word().to_owned(),
            reason,
            failing_for_s: since.map(|since| now.saturating_sub(since)),
            attempt,
            sent_messages: queue.sent.load(Ordering::Relaxed),
            expired_messages: queue.expired.load(Ordering::Relaxed),
            queue_messages: depth.messages,
            queue_bytes: depth.bytes,
            queue_oldest_seconds: self.oldest(queue.id).map_or(0, |came| now.saturating_sub(came)),
        }
    }

    fn oldest(&self, queue: QueueId) -> Option<u64> {
        match self.0.store.oldest(queue) {
            Ok(oldest) => oldest,
            Err(StoreError::Closed) => None,
            Err(error) => {
                tracing::debug!(event = "queue_unreadable", reason = %error, "the head of a queue can't be read");
                None
            }
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Queues> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Outgoing`], as long as the bridge is there.
#[derive(Clone, Debug)]
pub(super) struct WeakOutgoing(Weak<Shared>);

impl WeakOutgoing {
    /// See [`Outgoing::queue`].
    pub(super) fn queue(&self, name: &FormatName, purpose: Purpose) -> Result<QueueId, NoQueue> {
        let outgoing = self.0.upgrade().ok_or_else(|| NoQueue::NotNow("the bridge stops".to_owned()))?;
        Outgoing(outgoing).queue(name, purpose)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("queues", &self.locked().by_name.len()).finish_non_exhaustive()
    }
}

/// MSMQ compares names without regard to case.
fn identity(name: &FormatName) -> String {
    name.to_string().to_lowercase()
}

/// Messages of our own came over no connection.
const NO_CALLED_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
