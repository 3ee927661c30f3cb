//! One TCP session between two queue managers (MS-MQQB 3.1.1.3.1, 3.1.1.4, 3.1.1.6.1, 3.1.5).
//!
//! # Driver contract
//! A [`Session`] does no I/O and reads no clock. Whoever drives it
//! 1. tells it what happened: [`Session::handle_frame`], [`Session::handle_timeout`], [`Session::send`],
//!    [`Session::settle`], [`Session::close`];
//! 2. after each of these, drains [`Session::poll_event`] and [`Session::poll_transmit`] until both are empty;
//! 3. arms one timer at [`Session::deadline`] and calls [`Session::handle_timeout`] when it is reached.
//!
//! Moments passed in never go back.

use std::time::Duration;

use bytes::Bytes;

use super::Moment;
use super::wire::{Frame, Guid, Malformed, UserMessage};

/// What both roles of a session are configured with.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Our own queue manager.
    pub local: Guid,
    /// `WindowSize`: how many messages either side may leave unacknowledged; 64 by default.
    pub window: u16,
    /// `AckWaitTimeout`: 20 s to 120 s.
    pub ack_timeout: Duration,
    /// Session Initialization Timer: 60 s by default.
    pub initialization_timeout: Duration,
    /// Session Cleanup Timer: an idle session is closed after this, 5 min by default.
    pub cleanup_timeout: Duration,
}

/// Handed out with each received message and wanted back by [`Session::settle`]: nothing is acknowledged before
/// its receipt has returned. There is no other way to make one, and no way to copy one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a message whose receipt does not return is never acknowledged"]
pub struct Receipt {
    /// The message's place among all messages of the session, not wrapped.
    number: u64,
    /// Its place among the recoverable ones, when it is one.
    recoverable: Option<u64>,
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

/// The caller's name for a message it sends; comes back in [`Event::Acknowledged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendToken(pub u64);

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
    /// There is room in the window again for [`Session::send`].
    Writable,
    /// The session is over: send what is left in [`Session::poll_transmit`], then close the connection.
    Closed(CloseCause),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseCause {
    /// The other side broke the layout of a packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The other side sent a legal packet at the wrong time.
    #[error("unexpected {packet} packet while {state}")]
    Unexpected {
        /// The packet.
        packet: &'static str,
        /// The state we were in.
        state: &'static str,
    },
    /// We refused the session: it was meant for another queue manager.
    #[error("refused: the session was meant for queue manager {wanted}, this is {own}")]
    WrongServer {
        /// The queue manager it was meant for.
        wanted: Guid,
        /// Our own.
        own: Guid,
    },
    /// The other side refused the session.
    #[error("the other side refused the session")]
    Refused,
    /// The answer came from another queue manager than the one we called, or repeats another client than us.
    #[error("the answer came from queue manager {got}, not from {wanted}")]
    WrongAnswer {
        /// The one we called.
        wanted: Guid,
        /// The one that answered.
        got: Guid,
    },
    /// The handshake took too long (Session Initialization Timer).
    #[error("the handshake took longer than {0:?}")]
    Initialization(Duration),
    /// Messages stayed unacknowledged and nothing came (Session Ack Wait Timer).
    #[error("{unacknowledged} messages stayed unacknowledged and nothing came for {waited:?}")]
    AckTimeout {
        /// How many.
        unacknowledged: usize,
        /// The timer.
        waited: Duration,
    },
    /// No message went either way (Session Cleanup Timer).
    #[error("no message for {0:?}")]
    Idle(Duration),
    /// The two sides count differently (MS-MQQB 3.1.5.5.5).
    #[error("the other side has sent {theirs} {what}, we have received {ours}")]
    Counts {
        /// `messages` or `recoverable messages`.
        what: &'static str,
        /// Their count, modulo 2^16.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// The other side acknowledges what was never sent.
    #[error("the other side acknowledges {0} that was never sent")]
    FalseAck(&'static str),
    /// Our own reason, such as a full store.
    #[error("{0}")]
    Local(String),
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

/// One session, in either role.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
}

impl Session {
    /// The side that was called. The handshake must come within the initialization time-out.
    pub fn acceptor(settings: SessionSettings, now: Moment) -> Self {
        let _ = now;
        Self { settings }
    }

    /// The side that calls. `server` is the queue manager called, null for a direct name.
    pub fn initiator(settings: SessionSettings, server: Guid, now: Moment) -> Self {
        let _ = (server, now);
        Self { settings }
    }

    /// A packet came.
    pub fn handle_frame(&mut self, now: Moment, frame: Frame) {
        let _ = (now, frame, self.settings);
        todo!()
    }

    /// The deadline was reached.
    pub fn handle_timeout(&mut self, now: Moment) {
        let _ = now;
        todo!()
    }

    /// A receipt returns.
    pub fn settle(&mut self, now: Moment, receipt: Receipt, settled: Settled) {
        let _ = (now, receipt, settled);
        todo!()
    }

    /// Sends a message now.
    ///
    /// # Errors
    /// Gives the message back when the session is not open or the window is full.
    pub fn send(&mut self, now: Moment, message: Outgoing) -> Result<(), Outgoing> {
        let _ = now;
        Err(message)
    }

    /// Ends the session from our side. What was received and settled is acknowledged first.
    pub fn close(&mut self, now: Moment, cause: CloseCause) {
        let _ = (now, cause);
        todo!()
    }

    /// Bytes for the other side, in order.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        todo!()
    }

    /// What the driver has to react to, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When [`Session::handle_timeout`] is wanted.
    pub fn deadline(&self) -> Option<Moment> {
        todo!()
    }

    /// How many more messages may be sent now.
    pub fn window_left(&self) -> usize {
        todo!()
    }

    /// The other queue manager, once it has named itself.
    pub fn remote(&self) -> Option<Guid> {
        todo!()
    }
}
