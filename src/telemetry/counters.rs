use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::mqqb::wire::MessageClass;

/// What the bridge has done since it started.
#[derive(Debug, Default)]
pub struct Counters {
    rejected: Mutex<BTreeMap<Refusal, u64>>,
}

/// A kind of refusal that is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// The route; empty when the message was for none.
    pub route: String,
    /// The stable word.
    pub reason: &'static str,
    /// What the sender would be told.
    pub class: MessageClass,
}

impl Counters {
    /// A message was refused.
    pub fn rejected(&self, route: &str, reason: &'static str, class: MessageClass) {
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        *rejected.entry(Refusal { route: route.to_owned(), reason, class }).or_default() += 1;
    }

    /// All refusals.
    pub fn refusals(&self) -> BTreeMap<Refusal, u64> {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The refusals of one route.
    pub fn rejected_by(&self, route: &str) -> u64 {
        let rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        rejected.iter().filter(|(refusal, _)| refusal.route == route).map(|(_, count)| count).sum()
    }
}

/// How a message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Express.
    Express,
    /// Recoverable.
    Recoverable,
    /// Transactional.
    Transactional,
}

/// What one route has done since the bridge started.
#[derive(Debug, Default)]
pub struct RouteCounters {
    express: AtomicU64,
    recoverable: AtomicU64,
    transactional: AtomicU64,
    received_bytes: AtomicU64,
    duplicates: AtomicU64,
    held: AtomicU64,
    confirmed: AtomicU64,
    retried: AtomicU64,
    dead_lettered: AtomicU64,
}

/// A reading of a route's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteReading {
    /// Messages stored, express ones.
    pub express: u64,
    /// Messages stored, recoverable ones.
    pub recoverable: u64,
    /// Messages stored, transactional ones.
    pub transactional: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that came again and were known.
    pub duplicates: u64,
    /// Messages that could not be stored, so that their sender kept them.
    pub held: u64,
    /// Messages that the foreign system has confirmed.
    pub confirmed: u64,
    /// Deliveries that failed and were tried again.
    pub retried: u64,
    /// Messages set aside.
    pub dead_lettered: u64,
}

impl RouteReading {
    /// All messages stored.
    pub const fn received(&self) -> u64 {
        self.express + self.recoverable + self.transactional
    }
}

impl RouteCounters {
    /// A message of `size` bytes is on disk.
    pub fn received(&self, kind: Kind, size: usize) {
        let counter = match kind {
            Kind::Express => &self.express,
            Kind::Recoverable => &self.recoverable,
            Kind::Transactional => &self.transactional,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.received_bytes.fetch_add(size as u64, Ordering::Relaxed);
    }

    /// A message came again and was known.
    pub fn duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::Relaxed);
    }

    /// A message could not be stored.
    pub fn held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// The foreign system has confirmed `count` messages.
    pub fn confirmed(&self, count: u64) {
        self.confirmed.fetch_add(count, Ordering::Relaxed);
    }

    /// A delivery failed and will be tried again.
    pub fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    /// A message was set aside.
    pub fn dead_lettered(&self) {
        self.dead_lettered.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them.
    pub fn read(&self) -> RouteReading {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RouteReading {
            express: read(&self.express),
            recoverable: read(&self.recoverable),
            transactional: read(&self.transactional),
            received_bytes: read(&self.received_bytes),
            duplicates: read(&self.duplicates),
            held: read(&self.held),
            confirmed: read(&self.confirmed),
            retried: read(&self.retried),
            dead_lettered: read(&self.dead_lettered),
        }
    }
}
