//! What comes in from the foreign system.

use std::fmt;

use bytes::Bytes;

use crate::{Address, Headers};

/// A message as the foreign system hands it over. Nothing in it has been checked: whoever may send to the queue chose
/// every property.
#[derive(Clone, PartialEq)]
pub struct Incoming {
    /// Where it was sent to: the exchange and the routing key that its sender used, not the queue it was taken from.
    pub address: Address,
    /// The key by which a consumer tells repeats, when the sender set one.
    pub message_id: Option<String>,
    /// The message it answers.
    pub correlation_id: Option<String>,
    /// The foreign address for replies.
    pub reply_to: Option<String>,
    /// Seconds since 1970 (UTC).
    pub timestamp: Option<u64>,
    /// 0 to 255; the foreign system's own range is smaller.
    pub priority: Option<u8>,
    /// Survives a restart of the foreign system.
    pub durable: bool,
    /// Milliseconds that it might stay in the foreign system, counted from its arrival there. `None` also for a text that
    /// is no number.
    pub expiration: Option<u64>,
    /// MIME type of the body.
    pub content_type: Option<String>,
    /// What was done to the body, such as `gzip`.
    pub content_encoding: Option<String>,
    /// What kind of message it is, in the application's words (AMQP: `type`).
    pub kind: Option<String>,
    /// The application that sent it.
    pub app_id: Option<String>,
    /// The user who sent it. RabbitMQ checks it against the sender's login.
    pub user_id: Option<String>,
    /// Everything else.
    pub headers: Headers,
    /// It may have been delivered before, to this bridge or to another consumer.
    pub redelivered: bool,
    /// The body.
    pub body: Bytes,
}

/// Tables and lists in the headers of an [`Incoming`] message are nested at most this deep, so that what goes through
/// them may do so by recursion. A deeper one is [`Value::Bytes`](crate::Value::Bytes): its entries as they came.
pub const MAX_DEPTH: usize = 16;

/// The headers of an [`Incoming`] message have at most this many values, those in tables and lists included: a sender
/// can't make one byte on the wire into forty in memory a hundred thousand times. The table or list that goes beyond is
/// [`Value::Bytes`](crate::Value::Bytes), and so are those after it.
pub const MAX_VALUES: usize = 4096;

impl Incoming {
    /// A durable message with that body and no property.
    pub const fn new(address: Address, body: Bytes) -> Self {
        Self {
            address,
            message_id: None,
            correlation_id: None,
            reply_to: None,
            timestamp: None,
            priority: None,
            durable: true,
            expiration: None,
            content_type: None,
            content_encoding: None,
            kind: None,
            app_id: None,
            user_id: None,
            headers: Headers::new(),
            redelivered: false,
            body,
        }
    }
}

/// What finds the message in the foreign system; headers and body are counted, not printed.
impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("address", &self.address)
            .field("message_id", &self.message_id)
            .field("correlation_id", &self.correlation_id)
            .field("redelivered", &self.redelivered)
            .field("headers", &self.headers.len())
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish_non_exhaustive()
    }
}

/// A message, and the right to say what becomes of it. Until that is said the foreign system keeps the message for this
/// bridge, and it counts against [`InletOptions::prefetch`](crate::InletOptions::prefetch).
///
/// The two parts may go separate ways. Dropping the receipt puts the message back.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: Incoming,
    /// By which it is settled.
    pub receipt: Receipt,
}

impl Delivery {
    /// See [`Receipt::accept`].
    pub fn accept(self) {
        self.receipt.accept();
    }

    /// See [`Receipt::refuse`].
    pub fn refuse(self) {
        self.receipt.refuse();
    }

    /// See [`Receipt::requeue`].
    pub fn requeue(self) {
        self.receipt.requeue();
    }
}

/// Settles one delivery, once. In any order, from any thread, with or without a runtime; never blocks.
///
/// Nobody answers to a settlement. When the inlet or its connection was lost before the foreign system heard of it, the
/// system delivers the message again: even an accepted one, so that whoever accepts must know repeats.
///
/// Dropped, it is [`requeue`](Self::requeue).
pub struct Receipt(Option<Settle>);

type Settle = Box<dyn FnOnce(Disposition) + Send + Sync>;

impl Receipt {
    /// For connectors: `settle` is called once. It must not block, and does nothing when the delivery is not this
    /// inlet's any more.
    pub fn new(settle: impl FnOnce(Disposition) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// The bridge has taken responsibility: the foreign system forgets the message.
    pub fn accept(self) {
        self.settle(Disposition::Accept);
    }

    /// Nobody will ever take it: it goes to the dead letters of its queue, or is dropped where there are none. It does
    /// not come again.
    pub fn refuse(self) {
        self.settle(Disposition::Refuse);
    }

    /// Not now: it goes back, and comes again, marked [`redelivered`](Incoming::redelivered), perhaps at once.
    pub fn requeue(self) {
        self.settle(Disposition::Requeue);
    }

    fn settle(mut self, disposition: Disposition) {
        if let Some(settle) = self.0.take() {
            settle(disposition);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle(Disposition::Requeue);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// See [`Receipt::accept`].
    Accept,
    /// See [`Receipt::refuse`].
    Refuse,
    /// See [`Receipt::requeue`].
    Requeue,
}
