use bytes::Bytes;

use crate::mqqb::wire::{Frame, Guid, UserMessage};

use super::CloseCause;

/// What the driver has to react to.
#[derive(Debug)]
pub enum Event {
    /// The handshake is done.
    Opened {
        /// The queue manager at the other end.
        remote: Guid,
    },
    /// A message came.
    Received {
        /// The message.
        message: Box<UserMessage>,
        /// The bytes it came in.
        frame: Frame,
        /// To be returned.
        receipt: Receipt,
    },
    /// The other side has acknowledged this message: received for express, on disk for recoverable ones.
    Acknowledged(SendToken),
    /// There is room in the window again for [`Session::send`](super::Session::send), which had refused a message.
    Writable,
    /// The session is over: send what is left in [`Session::poll_transmit`](super::Session::poll_transmit), then
    /// close the connection.
    Closed(CloseCause),
}

/// Handed out with each received message and wanted back by [`Session::settle`](super::Session::settle): nothing is
/// acknowledged before its receipt has returned. There is no other way to make one, and no way to copy one.
///
/// A receipt belongs to the session it came from; any other one ignores it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a message whose receipt does not return is never acknowledged, nor is any after it"]
pub struct Receipt {
    /// The session.
    pub(super) session: u64,
    /// The message's place among all messages of the session, not wrapped.
    pub(super) number: u64,
}

/// What a receipt comes back as. Both are acknowledged to the sender's session; a rejected message is discarded
/// by the receiver as the protocol wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// On disk, or known as a duplicate of one that is.
    Stored,
    /// Refused, and the refusal is on record.
    Rejected,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The caller's name for it.
    pub token: SendToken,
    /// The encoded packet, without a `SessionHeader`; the session adds one when an acknowledgment is due.
    pub packet: Bytes,
    /// Whether it is recoverable or transactional.
    pub recoverable: bool,
}

/// The caller's name for a message it sends; comes back in [`Event::Acknowledged`], once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendToken(pub u64);
