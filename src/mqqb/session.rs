//! One TCP session between two queue managers (MS-MQQB 3.1.1.3.1, 3.1.1.4, 3.1.1.6.1, 3.1.5).
//!
//! # Driver contract
//! A [`Session`] does no I/O and reads no clock. Whoever drives it
//! 1. tells it what happened: [`Session::handle_frame`], [`Session::handle_timeout`], [`Session::send`],
//!    [`Session::settle`], [`Session::close`];
//! 2. after each of these, or after several of them, drains [`Session::poll_event`] and
//!    [`Session::poll_transmit`] until both are empty;
//! 3. arms one timer at [`Session::deadline`] and calls [`Session::handle_timeout`] when it is reached.
//!
//! Moments passed in never go back. A stream that can't be cut into frames is reported with [`Session::close`] and
//! [`CloseCause::Malformed`]. A driver that stops reading while [`Session::unsettled`] is a window or more lets TCP
//! slow down a sender that keeps to no window.
//!
//! # What the driver may rely on
//! * Nothing is acknowledged before its receipt has come back, nor before the receipts of all messages that came
//!   before it. Receipts may come back late, in any order, or never.
//! * Settling is cheap and acknowledging is put off until [`Session::poll_transmit`]: a batch of receipts that come
//!   back together costs one acknowledgment packet for every 32 recoverable messages.
//! * Each token of [`Session::send`] comes back in [`Event::Acknowledged`] at most once. When the session closes,
//!   those that have not come back are to be sent again on the next one; the other side may have got them.
//! * [`Event::Closed`] comes once and last.

mod close_cause;
mod event;
mod handshake;
mod inbound;
mod open;
mod outbound;
mod settings;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::Moment;
use super::timers::{Timer, Timers};
use super::wire::{EstablishConnection, Frame, Guid, Packet};
use open::Open;
use settings::Timeouts;

pub use close_cause::CloseCause;
pub use event::{Event, Outgoing, Receipt, SendToken, Settled};
pub use settings::SessionSettings;

/// One session, in either role.
#[derive(Debug)]
pub struct Session {
    settings: SessionSettings,
    /// Tells this session's receipts from all others.
    identity: u64,
    state: State,
    remote: Option<Guid>,
    timers: Timers,
    /// The last moment we were told.
    clock: Moment,
    events: VecDeque<Event>,
    transmit: VecDeque<Bytes>,
    tally: Tally,
}

/// Where a session is (MS-MQQB 3.1.1.3.1, `SessionState`).
///
/// ```text
///   acceptor                                                initiator
///      |                                                        | sends EstablishConnection
///      v                                                        v
///   WaitingForRequest (WAITING_EC_MSG)                      WaitingForAnswer (WAITING_ECR_MSG)
///      | EstablishConnection came, is answered                  | answer came, sends ConnectionParameters
///      v                                                        v
///   WaitingForParameters (WAITING_CP_MSG)                   WaitingForAnsweredParameters (WAITING_CPR_MSG)
///      | ConnectionParameters came, is answered                 | answer came
///      +-----------------------> Open (OPEN) <------------------+
///                                  | UserMessage, SessionAck: stays open
///                                  v
///   every state ---------------> Closed (CLOSED)
///     any other packet, a refusal, a timer, a lying count, our own wish
/// ```
///
/// `WAITING_RECONNECT` belongs to the one who makes sessions.
#[derive(Debug)]
enum State {
    /// The acceptor waits for `EstablishConnection`.
    WaitingForRequest {
        /// Why it will be refused, when it will be.
        refusal: Option<String>,
    },
    /// The acceptor has answered and waits for `ConnectionParameters`.
    WaitingForParameters {
        /// Whether the session was made for a direct format name.
        direct: bool,
    },
    /// The initiator has called and waits for the answer.
    WaitingForAnswer {
        /// The queue manager called; null for a direct format name.
        server: Guid,
        /// When.
        asked: Moment,
    },
    /// The initiator has sent its parameters and waits for the answer.
    WaitingForAnsweredParameters {
        /// What it has sent.
        timeouts: Timeouts,
    },
    /// Messages go both ways.
    Open(Box<Open>),
    /// Nothing happens any more.
    Closed,
}

impl State {
    const fn name(&self) -> &'static str {
        match self {
            Self::WaitingForRequest { .. } => "waiting for EstablishConnection",
            Self::WaitingForParameters { .. } => "waiting for ConnectionParameters",
            Self::WaitingForAnswer { .. } => "waiting for the answer to EstablishConnection",
            Self::WaitingForAnsweredParameters { .. } => "waiting for the answer to ConnectionParameters",
            Self::Open(_) => "open",
            Self::Closed => "closed",
        }
    }
}

/// What has gone over a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages received.
    pub received: u64,
    /// Those of them whose receipts came back as [`Settled::Stored`].
    pub stored: u64,
    /// Those of them whose receipts came back as [`Settled::Rejected`].
    pub rejected: u64,
    /// Messages sent.
    pub sent: u64,
    /// Those of them that the other side has acknowledged.
    pub acknowledged: u64,
}

impl Session {
    /// The side that was called (3.1.5.10). The handshake must be done within the initialization time-out.
    pub fn acceptor(settings: SessionSettings, now: Moment) -> Self {
        Self::new(settings, State::WaitingForRequest { refusal: None }, now)
    }

    /// The side that was called and can't take another session (2.2.1, `InternalHeader.Flags.CS`): answers the
    /// request with a refusal, and closes as [`CloseCause::Local`] with this `reason`.
    pub fn refusing_acceptor(settings: SessionSettings, reason: String, now: Moment) -> Self {
        Self::new(settings, State::WaitingForRequest { refusal: Some(reason) }, now)
    }

    /// The side that calls (3.1.5.2.3). `server` is the queue manager called, null for a direct name.
    pub fn initiator(settings: SessionSettings, server: Guid, now: Moment) -> Self {
        Self::calling(settings, server, false, now)
    }

    /// The side that calls after its ping was answered (3.1.5.2.2), which it says.
    pub fn initiator_after_ping(settings: SessionSettings, server: Guid, now: Moment) -> Self {
        Self::calling(settings, server, true, now)
    }

    fn calling(settings: SessionSettings, server: Guid, ping_sent: bool, now: Moment) -> Self {
        let mut session = Self::new(settings, State::WaitingForAnswer { server, asked: now }, now);
        session.put_establish(&EstablishConnection::request(settings.local, server, now.as_timestamp(), ping_sent));
        session
    }

    fn new(settings: SessionSettings, state: State, now: Moment) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let mut timers = Timers::default();
        timers.start(Timer::Initialization, now, settings.initialization_timeout);
        Self {
            settings,
            identity: SESSIONS.fetch_add(1, Ordering::Relaxed),
            state,
            remote: None,
            timers,
            clock: now,
            events: VecDeque::new(),
            transmit: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// A packet came.
    pub fn handle_frame(&mut self, now: Moment, frame: Frame) {
        self.advance(now);
        if self.is_closed() {
            return;
        }
        let outcome = match Packet::decode(&frame) {
            Ok(Packet::User(message)) => self.handle_message(message, frame),
            Ok(Packet::SessionAck(ack)) => self.handle_session_ack(&ack),
            Ok(Packet::Establish(packet)) => self.handle_establish(&packet),
            Ok(Packet::Parameters(packet)) => self.handle_parameters(&packet),
            Err(malformed) => Err(CloseCause::Malformed(malformed)),
        };
        self.end_on_error(outcome);
    }

    /// The deadline was reached.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.advance(now);
        while let Some(timer) = self.timers.take_ended(now) {
            let outcome = match timer {
                Timer::Initialization => Err(CloseCause::Initialization(self.settings.initialization_timeout)),
                Timer::Cleanup => self.end_cleanup_timer(),
                Timer::AckWait => self.end_ack_wait_timer(),
                Timer::AckSend => {
                    self.end_ack_send_timer();
                    Ok(())
                }
            };
            self.end_on_error(outcome);
        }
    }

    /// A receipt returns. It is acknowledged when [`Session::poll_transmit`] finds it due.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is spent here: that is its point")]
    pub fn settle(&mut self, now: Moment, receipt: Receipt, settled: Settled) {
        self.advance(now);
        let State::Open(open) = &mut self.state else { return };
        if receipt.session != self.identity {
            return;
        }
        open.inbound.settle(receipt.number);
        match settled {
            Settled::Stored => self.tally.stored += 1,
            Settled::Rejected => self.tally.rejected += 1,
        }
    }

    /// Sends a message now.
    ///
    /// # Errors
    /// Gives the message back when the session is not open yet ([`Event::Opened`] will come), when the window is full
    /// ([`Event::Writable`] will come), or when the session is closed.
    pub fn send(&mut self, now: Moment, message: Outgoing) -> Result<(), Outgoing> {
        self.advance(now);
        let State::Open(open) = &mut self.state else { return Err(message) };
        let packet = open.send(message, &mut self.timers, now)?;
        self.transmit.push_back(packet);
        self.tally.sent += 1;
        Ok(())
    }

    /// Ends the session from our side. What was received and settled is acknowledged first.
    pub fn close(&mut self, now: Moment, cause: CloseCause) {
        self.advance(now);
        self.end(cause);
    }

    /// Bytes for the other side, in order.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        if let Some(packet) = self.transmit.pop_front() {
            return Some(packet);
        }
        match &mut self.state {
            State::Open(open) => open.due_acknowledgment(&mut self.timers, self.clock),
            _ => None,
        }
    }

    /// What the driver has to react to, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Session::handle_timeout`] is wanted; `None` when the session is closed.
    pub fn deadline(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// How many more messages may be sent now.
    pub fn window_left(&self) -> usize {
        match &self.state {
            State::Open(open) => open.outbound.window_left(),
            _ => 0,
        }
    }

    /// How many received messages can't be acknowledged yet, because their receipts or earlier ones are still out.
    pub fn unsettled(&self) -> usize {
        match &self.state {
            State::Open(open) => open.inbound.unsettled(),
            _ => 0,
        }
    }

    /// The other queue manager, once it has named itself.
    pub const fn remote(&self) -> Option<Guid> {
        self.remote
    }

    /// Whether the handshake is done and nothing has ended the session.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether the session is over.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// What has gone over the session so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    fn advance(&mut self, now: Moment) {
        self.clock = self.clock.max(now);
    }

    fn unexpected(&self, packet: &'static str) -> CloseCause {
        CloseCause::Unexpected { packet, state: self.state.name() }
    }

    fn end_on_error(&mut self, outcome: Result<(), CloseCause>) {
        if let Err(cause) = outcome {
            self.end(cause);
        }
    }

    /// Closes the session (3.1.5.9). The protocol has no packet for it: the connection simply ends.
    fn end(&mut self, cause: CloseCause) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => return,
            State::Open(mut open) if !cause.breaks_the_count() => self.transmit.extend(open.last_acknowledgments()),
            _ => {}
        }
        self.timers.stop_all();
        self.events.push_back(Event::Closed(cause));
    }
}
