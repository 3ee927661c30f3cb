//! What a foreign message system looks like from the bridge.
//!
//! A [`Connector`] is one configured system, such as a RabbitMQ cluster. An [`Outlet`] takes messages out of the
//! bridge and answers for each one when the foreign system has taken responsibility for it. An [`Inlet`] brings messages
//! in, and the foreign system keeps each one until the bridge has taken responsibility. Connectors know nothing of
//! MSMQ: the bridge translates.
//!
//! [`memory`] is a foreign system in this process, with faults on demand, for tests of what stands before it.
//! [`conformance`] checks any connector against this contract; `connectors/README.md` says how to write one.

pub mod conformance;
mod incoming;
pub mod memory;
mod message;

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

pub use incoming::{Delivery, Disposition, Incoming, MAX_DEPTH, MAX_VALUES, Receipt};
pub use message::{Address, Body, Headers, Message, Value};

/// One configured foreign system.
pub trait Connector: Send + Sync + fmt::Debug {
    /// The name it has in the configuration.
    fn name(&self) -> &str;

    /// Starts whatever keeps the connection of the outlets alive, unless it has been started, and reports on it. Never
    /// fails for an absent peer: that is a state, not an error. It says nothing of inlets, which have a connection of
    /// their own where one that is [`Blocked`](Status::Blocked) for sending could hold up receiving.
    fn status(&self) -> watch::Receiver<Status>;

    /// The same for the connection of the inlets, which is made only when this or [`inlet`](Self::inlet) is called: a
    /// bridge that takes nothing in costs the foreign system no second connection. Up says that the system is there,
    /// not that a queue is: what is wrong with one queue is told by its inlet.
    fn inlet_status(&self) -> watch::Receiver<Status>;

    /// Opens an outlet, waiting as long as the foreign system is not there; after [`close`](Self::close), for ever.
    /// When outlets of the same route fail again and again before anything was settled well, it waits longer each
    /// time, so that the caller may simply open the next one. Cancel safe. Starts the connection like
    /// [`status`](Self::status).
    fn outlet(&self, options: OutletOptions) -> BoxFuture<'_, Box<dyn Outlet>>;

    /// Opens an inlet, waiting as long as the foreign system is not there; after [`close`](Self::close), for ever. When
    /// inlets of the same route fail again and again before a delivery was received, it waits longer each time, so that
    /// the caller may simply open the next one. Cancel safe. Starts the connection like
    /// [`inlet_status`](Self::inlet_status).
    ///
    /// Whether the queue is there is not known yet when the inlet is: a missing one is the error of the first
    /// [`receive`](Inlet::receive).
    fn inlet(&self, options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>>;

    /// Tries once to connect and log in, for `check --online`, and disconnects again. Does not touch the connections
    /// that outlets and inlets use. The error is a sentence that names the peer, what it said, and the remedy.
    fn probe(&self, timeout: Duration) -> BoxFuture<'_, Result<(), String>>;

    /// [`probe`](Self::probe), and looks which places are there, declaring nothing. A sentence for each one that is
    /// missing or can't be used, in their order; the error is that of `probe`.
    fn missing<'a>(&'a self, wanted: &'a [Place], timeout: Duration) -> BoxFuture<'a, Result<Vec<String>, String>>;

    /// Lets go of the connections for good; what is still open settles as [`DeliveryError::Retry`], and inlets fail.
    /// Bounded to a few seconds: a peer that does not answer is left behind. Dropping the connector does the same
    /// without waiting.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// How an outlet is to be used.
#[derive(Clone, Debug)]
pub struct OutletOptions {
    /// The route, for names and logs.
    pub route: String,
    /// At most this many messages are handed over and not yet settled: the caller's promise, by which the outlet may
    /// size what it keeps.
    pub max_in_flight: usize,
}

/// The way out for one route. Keeps order: messages reach the foreign system in the order of the calls.
pub trait Outlet: Send {
    /// Hands over a burst without waiting for its confirmation. The outer future resolves when the burst is on
    /// its way, with one [`Settlement`] for each message, in the same order. It does not wait for room in the foreign
    /// system: the window that [`OutletOptions::max_in_flight`] promises is the brake.
    ///
    /// When the connection is lost every settlement that is still open resolves to [`DeliveryError::Retry`], and
    /// so does everything handed over afterwards: the outlet is then of no use and a new one is to be opened. Some
    /// messages that settle so may have arrived all the same; [`Message::message_id`] tells them.
    ///
    /// Dropping the outlet leaves its open settlements to resolve as if it were there.
    fn deliver(&mut self, burst: Vec<Message>) -> BoxFuture<'_, Vec<Settlement>>;
}

/// Resolves when the foreign system has taken responsibility for a message, or has not. It needs no polling to make
/// progress, and dropping it means only that nobody wants to know.
pub type Settlement = BoxFuture<'static, Result<(), DeliveryError>>;

/// Why the foreign system has not taken responsibility.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Not the message's fault: connection lost, negative confirm. To be delivered again, later.
    #[error("{reason}")]
    Retry {
        /// In words, for the log.
        reason: String,
    },
    /// The foreign system has no place for the message: returned as unroutable.
    #[error("returned as unroutable: {reason}")]
    Unroutable {
        /// In words, with the reply code.
        reason: String,
    },
    /// The message can't be put into the foreign system's form, however often it is tried.
    #[error("{reason}")]
    Refused {
        /// In words.
        reason: String,
    },
}

impl DeliveryError {
    /// A [`Retry`](Self::Retry) for that reason.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into() }
    }
}

/// How an inlet is to be used.
#[derive(Clone, Debug)]
pub struct InletOptions {
    /// The route, for names and logs.
    pub route: String,
    /// Where to take messages from: the queue.
    pub address: String,
    /// At most this many deliveries are handed over and not yet settled, so many are in memory at most. 0 counts as 1.
    pub prefetch: u16,
}

/// The way in for one route. Deliveries come in the order of the queue, except those that come again.
pub trait Inlet: Send {
    /// The next delivery; waits while there is none. Cancel safe.
    ///
    /// An error means that this inlet is of no use any more, and is the answer to every later call too: open another.
    /// Deliveries that were open then come again, and settling them does nothing.
    ///
    /// Dropping the inlet leaves its open deliveries to be settled as if it were there; what it had not handed over goes
    /// back to the queue.
    fn receive(&mut self) -> BoxFuture<'_, Result<Delivery, InletError>>;
}

/// Why an inlet is of no use any more: connection lost, queue missing or deleted, access refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InletError {
    /// In the foreign system's words, where it gave any.
    pub reason: String,
}

impl InletError {
    /// For that reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// A place in the foreign system that a route needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Messages are sent to it, by this name. The default one, whose name is empty, is always there.
    Exchange(String),
    /// Messages wait in it, by this name.
    Queue(String),
}

/// As in a sentence.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(name) => write!(f, "exchange {name:?}"),
            Self::Queue(name) => write!(f, "queue {name:?}"),
        }
    }
}

/// How the foreign system is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not connected yet, or not any more.
    Connecting {
        /// Failed attempts since it was last connected.
        attempt: u32,
        /// Why the last one failed.
        reason: Option<String>,
    },
    /// Connected.
    Up {
        /// Where to, without credentials.
        peer: String,
    },
    /// Connected, but the foreign system takes nothing for now (`connection.blocked`).
    Blocked {
        /// Where to, without credentials.
        peer: String,
        /// What it said.
        reason: String,
    },
    /// Closed for good by [`Connector::close`].
    Closed,
}
