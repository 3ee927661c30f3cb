use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::inbound::{BIT_FIELD, Inbound};
use super::outbound::{HALF_RANGE, Outbound};
use super::settings::Timeouts;
use super::{CloseCause, Event, Outgoing, Receipt, Session, State};
use crate::mqqb::Moment;
use crate::mqqb::timers::{Timer, Timers};
use crate::mqqb::wire::{Frame, Malformed, Reason, SessionAck, SessionHeader, UserMessage, append_session_header};

/// A session that is open: what it has received and sent, and when it acknowledges.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    own_window: u16,
    timeouts: Timeouts,
    /// `SessionActive`: a message went one way or the other since the Session Cleanup Timer last ended.
    active: bool,
    /// `ReceivedAck`: a packet came since the Session Ack Wait Timer last ended.
    heard: bool,
    /// The Session Ack Send Timer has ended: what is owed, or will be, is acknowledged at once.
    overdue: bool,
}

/// What happens on an open session (MS-MQQB 3.1.5.5, 3.1.5.8, 3.1.6.2 to 3.1.6.4).
impl Session {
    /// 3.1.5.8. Every packet that is not internal counts, whatever it says and whatever becomes of it.
    pub(super) fn handle_message(&mut self, message: Box<UserMessage>, frame: Frame) -> Result<(), CloseCause> {
        let State::Open(open) = &mut self.state else { return Err(self.unexpected("UserMessage")) };
        if message.soap.is_some() {
            let reason = Reason::Because("only messages that came by way of SOAP have one, and none of them come here");
            return Err(Malformed { field: "SoapHeader", reason }.into());
        }
        if open.inbound.unsettled() >= usize::from(HALF_RANGE) {
            return Err(CloseCause::Overrun(open.inbound.unsettled()));
        }
        let recoverable = message.is_recoverable();
        let number = open.inbound.receive(recoverable);
        open.active = true;
        open.heard = true;
        self.timers.start_or_shorten(Timer::AckSend, self.clock, open.acknowledgment_delay(recoverable));
        self.tally.received += 1;
        let piggy_backed = message.session;
        let receipt = Receipt { session: self.identity, number };
        self.events.push_back(Event::Received { message, frame, receipt });
        // After the message is counted, and delivered even if the counts do not agree (MS-MQMQ note 14).
        piggy_backed.map_or(Ok(()), |session| self.handle_session_header(&session.header))
    }

    /// 3.1.5.5.
    pub(super) fn handle_session_ack(&mut self, ack: &SessionAck) -> Result<(), CloseCause> {
        self.handle_session_header(&ack.header)
    }

    fn handle_session_header(&mut self, header: &SessionHeader) -> Result<(), CloseCause> {
        let State::Open(open) = &mut self.state else { return Err(self.unexpected("SessionAck")) };
        open.heard = true;
        let before = self.events.len();
        open.outbound.set_peer_window(header.window_size);
        open.outbound.acknowledged(header, &mut self.events)?;
        self.tally.acknowledged += (self.events.len() - before) as u64;
        open.validate_counts(header)?;
        if open.outbound.is_waiting() {
            self.timers.start(Timer::AckWait, self.clock, open.timeouts.ack_wait());
        }
        if open.outbound.take_writable() {
            self.events.push_back(Event::Writable);
        }
        Ok(())
    }

    /// 3.1.6.2.
    pub(super) fn end_cleanup_timer(&mut self) -> Result<(), CloseCause> {
        let State::Open(open) = &mut self.state else { return Ok(()) };
        if !std::mem::take(&mut open.active) {
            return Err(CloseCause::Idle(self.settings.cleanup_timeout));
        }
        self.timers.start(Timer::Cleanup, self.clock, self.settings.cleanup_timeout);
        Ok(())
    }

    /// 3.1.6.3.
    pub(super) fn end_ack_wait_timer(&mut self) -> Result<(), CloseCause> {
        let State::Open(open) = &mut self.state else { return Ok(()) };
        let heard = std::mem::take(&mut open.heard);
        if !open.outbound.is_waiting() {
            return Ok(());
        }
        let waited = open.timeouts.ack_wait();
        if !heard {
            return Err(CloseCause::AckTimeout { unacknowledged: open.outbound.waiting(), waited });
        }
        self.timers.start(Timer::AckWait, self.clock, waited);
        Ok(())
    }

    /// 3.1.6.4.
    pub(super) fn end_ack_send_timer(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.overdue = true;
        }
    }
}

impl Open {
    pub(super) fn new(own_window: u16, peer_window: u16, timeouts: Timeouts) -> Self {
        Self {
            inbound: Inbound::default(),
            outbound: Outbound::new(own_window, peer_window),
            own_window,
            timeouts,
            active: false,
            heard: false,
            overdue: false,
        }
    }

    /// Takes a message that goes out, and gives its bytes: with a `SessionHeader` when an acknowledgment is due,
    /// or soon will be (3.1.7.1.3, 3.1.7.11).
    pub(super) fn send(&mut self, message: Outgoing, timers: &mut Timers, now: Moment) -> Result<Bytes, Outgoing> {
        if !self.outbound.take_place() {
            return Err(message);
        }
        let Outgoing { token, packet, recoverable } = message;
        self.outbound.send(token, recoverable);
        self.active = true;
        timers.start_if_stopped(Timer::AckWait, now, self.timeouts.ack_wait());
        let soon = self.owes() && timers.is_mostly_over(Timer::AckSend, now);
        if !soon && !self.is_acknowledgment_due() {
            return Ok(packet);
        }
        Ok(append_session_header(&packet, &self.acknowledge(timers, now)))
    }

    /// A `SessionAck` packet, when one is due.
    pub(super) fn due_acknowledgment(&mut self, timers: &mut Timers, now: Moment) -> Option<Bytes> {
        self.is_acknowledgment_due().then(|| encode(self.acknowledge(timers, now)))
    }

    /// `SessionAck` packets for all that is settled, before the session ends.
    pub(super) fn last_acknowledgments(&mut self) -> VecDeque<Bytes> {
        let mut packets = VecDeque::new();
        while self.owes() {
            packets.push_back(encode(self.header()));
        }
        packets
    }

    /// Whether anything that is settled is not acknowledged.
    fn owes(&self) -> bool {
        let owed = self.inbound.owed();
        owed.all > 0 || owed.recoverable > 0
    }

    /// Whether to acknowledge now: half the smaller window is owed, or as many recoverable messages as one
    /// acknowledgment reaches, or the time is over. Half a window is one message at least.
    fn is_acknowledgment_due(&self) -> bool {
        let owed = self.inbound.owed();
        let half = u64::from(self.outbound.window() / 2).max(1);
        owed.all >= half || owed.recoverable >= BIT_FIELD || self.overdue && self.owes()
    }

    /// The header of an acknowledgment that leaves now. The timer begins anew for what it does not acknowledge.
    fn acknowledge(&mut self, timers: &mut Timers, now: Moment) -> SessionHeader {
        let header = self.header();
        self.overdue &= self.owes();
        let left = self.inbound.unacknowledged();
        if left.all == 0 && left.recoverable == 0 {
            timers.stop(Timer::AckSend);
        } else {
            timers.start(Timer::AckSend, now, self.acknowledgment_delay(left.recoverable > 0));
        }
        header
    }

    fn header(&mut self) -> SessionHeader {
        let acknowledgment = self.inbound.acknowledge();
        let sent = self.outbound.sent();
        SessionHeader {
            ack_sequence_number: acknowledgment.sequence_number,
            recoverable_ack_sequence_number: acknowledgment.recoverable_sequence_number,
            recoverable_ack_bits: acknowledgment.recoverable_bits,
            user_sequence_number: on_the_wire(sent.all),
            recoverable_sequence_number: on_the_wire(sent.recoverable),
            window_size: self.own_window,
            reserved: 0,
        }
    }

    fn acknowledgment_delay(&self, recoverable: bool) -> Duration {
        if recoverable { self.timeouts.recoverable_ack_delay() } else { self.timeouts.express_ack_delay() }
    }

    /// 3.1.5.5.5.
    fn validate_counts(&self, header: &SessionHeader) -> Result<(), CloseCause> {
        let received = self.inbound.received();
        for (what, theirs, ours) in [
            ("messages", header.user_sequence_number, on_the_wire(received.all)),
            ("recoverable messages", header.recoverable_sequence_number, on_the_wire(received.recoverable)),
        ] {
            if theirs != ours {
                return Err(CloseCause::Counts { what, theirs, ours });
            }
        }
        Ok(())
    }
}

/// A number as a `SessionHeader` has it: modulo 2^16.
pub(super) const fn on_the_wire(number: u64) -> u16 {
    number as u16
}

fn encode(header: SessionHeader) -> Bytes {
    let mut bytes = BytesMut::with_capacity(SessionAck::PACKET_SIZE);
    SessionAck::new(header).encode(&mut bytes);
    bytes.freeze()
}
