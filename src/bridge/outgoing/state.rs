use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// How the way to a destination is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OutgoingState {
    /// There is nothing to send.
    #[default]
    Idle,
    /// A session is being opened.
    Waiting,
    /// Messages go out.
    Connected,
    /// The machine can't be reached, or does not take what is sent.
    Failing {
        /// Why.
        reason: String,
        /// Since when, seconds since 1970.
        since: u64,
        /// Failures since something last went through.
        attempt: u32,
    },
    /// Shut down.
    Stopped,
}

impl OutgoingState {
    /// The word for `status`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Connected => "connected",
            Self::Failing { .. } => "failing",
            Self::Stopped => "stopped",
        }
    }
}

/// The state of one outgoing queue. Changes are logged here, once each.
#[derive(Debug)]
pub(super) struct State {
    queue: String,
    now: Mutex<OutgoingState>,
    /// That messages go out was logged, and the session is still the same. A queue that is empty between two messages is
    /// no news.
    announced: AtomicBool,
}

impl State {
    pub(super) fn new(queue: String) -> Self {
        Self { queue, now: Mutex::default(), announced: AtomicBool::new(false) }
    }

    pub(super) fn get(&self) -> OutgoingState {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is not working stays so until something goes through: only then is it connected.
    pub(super) fn waits(&self) {
        let mut state = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, OutgoingState::Failing { .. }) {
            *state = OutgoingState::Waiting;
        }
    }

    pub(super) fn idles(&self) {
        self.set(OutgoingState::Idle);
    }

    pub(super) fn works(&self, peer: &str) {
        self.set(OutgoingState::Connected);
        if !self.announced.swap(true, Ordering::Relaxed) {
            tracing::info!(event = "outgoing_connected", queue = %self.queue, peer, "messages go out");
        }
    }

    /// The session is over: the next one is news.
    pub(super) fn hung_up(&self) {
        self.announced.store(false, Ordering::Relaxed);
    }

    pub(super) fn fails(&self, reason: &str, now: u64, attempt: u32) {
        self.hung_up();
        let mut state = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, is_news) = match &*state {
            OutgoingState::Failing { reason: old, since, .. } => (*since, old != reason),
            _ => (now, true),
        };
        *state = OutgoingState::Failing { reason: reason.to_owned(), since, attempt };
        drop(state);
        if is_news {
            tracing::warn!(
                event = "outgoing_failing", queue = %self.queue, reason = %reason, attempt,
                "messages can't be sent; they wait in order and nothing is lost"
            );
        } else {
            tracing::debug!(event = "outgoing_retry_failed", queue = %self.queue, reason = %reason, attempt, "still not");
        }
    }

    pub(super) fn stops(&self) {
        self.set(OutgoingState::Stopped);
    }

    fn set(&self, state: OutgoingState) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}
