//! Drives a session with operations read from the input, and compares it with what it must not do.
//!
//! The input is a role, a window, and then operations: frames of the other side, honest or not, receipts, messages,
//! time. Whatever they are, the session does not panic, acknowledges nothing that is not settled, takes nothing for
//! acknowledged that was not, holds a bounded number of messages, and is over once.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Event, Outgoing, Receipt, SendToken, Session, SessionSettings, Settled};
use mqbridge::mqqb::wire::{
    BaseHeader, ConnectionParameters, EstablishConnection, Frame, Guid, Packet, SessionAck, SessionHeader,
    append_session_header,
};

use crate::packets::{Packets, guid, start};

/// Beyond this the numbers on the wire wrap, and the comparisons below would have to.
const MOST_MESSAGES: usize = 60_000;
/// The most that either side may leave unacknowledged.
const MOST_UNACKNOWLEDGED: usize = 0x7FFF;

/// Runs the operations of the input.
pub fn session(input: &[u8]) {
    let mut input = Input(input);
    let mut driver = Driver::new(&mut input);
    while let Some(operation) = input.byte() {
        driver.operate(operation, &mut input);
        if operation & 0x80 == 0 {
            driver.drain();
        }
        driver.check();
    }
    driver.drain();
    driver.check();
}

/// The bytes that are left; numbers read beyond their end are zero.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn small(&mut self) -> u8 {
        self.byte().unwrap_or_default()
    }

    fn number(&mut self) -> u16 {
        u16::from_le_bytes([self.small(), self.small()])
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// The session, and what is known about it from outside.
struct Driver {
    session: Session,
    now: Moment,
    window: u16,
    packets: Packets,
    receipts: Vec<(usize, Receipt)>,
    /// The messages that came: whether recoverable, whether settled.
    received: Vec<(bool, bool)>,
    recoverable_received: usize,
    /// How many of them, and of the recoverable ones among them, are settled without a gap.
    row: usize,
    recoverable_row: usize,
    /// The messages handed to the session for sending.
    sent: Vec<Sent>,
    recoverable_sent: usize,
    /// How many of them, and of the recoverable ones, have left.
    left: usize,
    recoverable_left: usize,
    acknowledged: usize,
    /// What the other side has claimed to have received.
    claimed: u16,
    claimed_recoverable: Vec<bool>,
    closed: bool,
}

struct Sent {
    /// Its number among the recoverable ones, when it is one.
    recoverable: Option<usize>,
    acknowledged: bool,
}

impl Driver {
    fn new(input: &mut Input<'_>) -> Self {
        let role = input.small();
        let window = input.number();
        let settings = SessionSettings { window, ..SessionSettings::new(guid(1)) };
        let now = start();
        let server = if role & 2 == 0 { guid(2) } else { Guid::NULL };
        let session = match role % 4 {
            0 | 2 => Session::initiator(settings, server, now),
            1 => Session::acceptor(settings, now),
            _ => Session::refusing_acceptor(settings, "full".into(), now),
        };
        let mut driver = Self {
            session,
            now,
            window,
            packets: Packets::new(),
            receipts: Vec::new(),
            received: Vec::new(),
            recoverable_received: 0,
            row: 0,
            recoverable_row: 0,
            sent: Vec::new(),
            recoverable_sent: 0,
            left: 0,
            recoverable_left: 0,
            acknowledged: 0,
            claimed: 0,
            claimed_recoverable: vec![false; MOST_MESSAGES + 1],
            closed: false,
        };
        driver.drain();
        if role & 4 == 0 {
            driver.shake_hands(role, input);
        }
        driver
    }

    /// Most inputs should not spend their bytes on finding the handshake.
    fn shake_hands(&mut self, role: u8, input: &mut Input<'_>) {
        let request = EstablishConnection::request(guid(1), guid(2), 0, false);
        let establish = match role % 2 {
            0 => request.response(guid(2), false),
            _ => EstablishConnection::request(guid(2), guid(1), 0, true),
        };
        self.hear(encoded(|out| establish.encode(out)));
        self.hear(encoded(|out| ConnectionParameters::new(500, 20_000, input.number()).encode(out)));
        self.drain();
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        match operation & 0x7F {
            0..14 => self.messages(operation & 1 != 0, usize::from(input.small() & 0x1F) + 1, None),
            14 | 15 => self.messages(operation & 1 != 0, usize::from(input.small()) + 1, None),
            16..24 => {
                let header = self.header(input);
                self.messages(operation & 1 != 0, 1, Some(header));
            }
            24..40 => {
                let header = self.header(input);
                self.hear(encoded(|out| SessionAck::new(header).encode(out)));
            }
            40..56 => self.settle(usize::from(input.small()), Settled::Stored),
            56..60 => self.settle(usize::from(input.small()), Settled::Rejected),
            60..64 => {
                while !self.receipts.is_empty() {
                    self.settle(0, Settled::Stored);
                }
            }
            64 => drop(self.take_receipt(usize::from(input.small()))),
            65..80 => {
                for _ in 0..=input.small() {
                    self.send(operation & 1 != 0);
                }
            }
            80..96 => self.wait(Duration::from_millis(u64::from(input.number()))),
            96..104 => self.wait_for_deadline(),
            104 => self.session.close(self.now, CloseCause::Local("enough".into())),
            105 => {
                let request = EstablishConnection::request(guid(input.small()), guid(input.small()), 0, true);
                self.hear(encoded(|out| request.encode(out)));
            }
            106 => {
                let request = EstablishConnection::request(guid(input.small()), guid(input.small()), 0, true);
                let answer = request.response(guid(input.small()), input.small() & 1 != 0);
                self.hear(encoded(|out| answer.encode(out)));
            }
            107 => {
                let parameters =
                    ConnectionParameters::new(input.number().into(), input.number().into(), input.number());
                self.hear(encoded(|out| parameters.encode(out)));
            }
            108..112 => {
                let length = usize::from(input.number());
                if let Ok(frame) = Frame::new(Bytes::copy_from_slice(input.bytes(length))) {
                    self.hear_frame(frame);
                }
            }
            _ => self.wait(Duration::from_secs(u64::from(input.small()))),
        }
    }

    /// A header of the other side: honest, about the last few messages, unless the input wants otherwise.
    fn header(&mut self, input: &mut Input<'_>) -> SessionHeader {
        let lies = input.small();
        let received = self.received.len();
        let recoverable = self.recoverable_received;
        let ack = self.left.saturating_sub(usize::from(input.small() & 0xF));
        let base = self.recoverable_left.saturating_sub(usize::from(input.small() & 0x3F)).max(1);
        let true_bits = (1_u64 << (self.recoverable_left + 1 - base).min(32)) - 1;
        let bits = u32::from(input.number()) | u32::from(input.number()) << 16;
        SessionHeader {
            ack_sequence_number: if lies & 1 == 0 { ack as u16 } else { input.number() },
            recoverable_ack_sequence_number: if lies & 16 == 0 { base as u16 } else { input.number() },
            recoverable_ack_bits: if lies & 32 == 0 { bits & true_bits as u32 } else { bits },
            user_sequence_number: if lies & 2 == 0 { received as u16 } else { input.number() },
            recoverable_sequence_number: if lies & 4 == 0 { recoverable as u16 } else { input.number() },
            window_size: if lies & 8 == 0 { 64 } else { input.number() },
            reserved: 0,
        }
    }

    fn messages(&mut self, recoverable: bool, count: usize, header: Option<SessionHeader>) {
        for _ in 0..count {
            if self.received.len() >= MOST_MESSAGES {
                return;
            }
            let mut bytes = self.packets.message(self.received.len() as u32, recoverable);
            if let Some(mut header) = header {
                header.user_sequence_number = header.user_sequence_number.wrapping_add(1);
                header.recoverable_sequence_number =
                    header.recoverable_sequence_number.wrapping_add(u16::from(recoverable));
                bytes = append_session_header(&bytes, &header);
            }
            self.hear(bytes);
        }
    }

    fn hear(&mut self, bytes: Bytes) {
        self.hear_frame(Frame::new(bytes).expect("we make whole packets"));
    }

    /// Notes what a frame claims, then lets the session have it.
    fn hear_frame(&mut self, frame: Frame) {
        let header = match Packet::decode(&frame) {
            Ok(Packet::SessionAck(ack)) => Some(ack.header),
            Ok(Packet::User(message)) => message.session.map(|session| session.header),
            _ => None,
        };
        if let Some(header) = &header {
            self.claimed = self.claimed.max(header.ack_sequence_number);
            for number in header.recoverable_acknowledged() {
                if let Some(claimed) = self.claimed_recoverable.get_mut(usize::from(number)) {
                    *claimed = true;
                }
            }
        }
        self.session.handle_frame(self.now, frame);
        if let Some(header) = header {
            let truth = could_be(self.sent.len(), header.ack_sequence_number)
                && header
                    .recoverable_acknowledged()
                    .all(|number| could_be(self.recoverable_sent, number) && number > 0);
            assert!(truth || self.session.is_closed(), "{header:?}: {} were sent", self.sent.len());
        }
    }

    fn take_receipt(&mut self, place: usize) -> Option<(usize, Receipt)> {
        let place = place.checked_rem(self.receipts.len())?;
        Some(self.receipts.swap_remove(place))
    }

    fn settle(&mut self, place: usize, settled: Settled) {
        if let Some((number, receipt)) = self.take_receipt(place) {
            self.received[number].1 = true;
            self.session.settle(self.now, receipt, settled);
        }
    }

    fn send(&mut self, recoverable: bool) {
        if self.sent.len() >= MOST_MESSAGES {
            return;
        }
        let room = self.session.window_left();
        let packet = self.packets.message(self.sent.len() as u32, recoverable);
        let token = SendToken(self.sent.len() as u64);
        let sent = self.session.send(self.now, Outgoing { token, packet, recoverable }).is_ok();
        assert_eq!(sent, room > 0, "room for {room}");
        if sent {
            self.recoverable_sent += usize::from(recoverable);
            let recoverable = recoverable.then_some(self.recoverable_sent);
            self.sent.push(Sent { recoverable, acknowledged: false });
        }
    }

    fn wait(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..100 {
            if self.session.deadline().is_none_or(|deadline| deadline > end) {
                self.now = end;
                return;
            }
            self.wait_for_deadline();
        }
        panic!("a hundred deadlines in {by:?}");
    }

    fn wait_for_deadline(&mut self) {
        let Some(deadline) = self.session.deadline() else { return };
        self.now = self.now.max(deadline);
        self.session.handle_timeout(self.now);
        assert!(self.session.deadline().is_none_or(|next| next > self.now), "the deadline does not move");
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            assert!(!self.closed, "something happens after the end");
            match event {
                Event::Received { message, receipt, .. } => {
                    self.receipts.push((self.received.len(), receipt));
                    self.received.push((message.is_recoverable(), false));
                    self.recoverable_received += usize::from(message.is_recoverable());
                }
                Event::Acknowledged(SendToken(token)) => self.acknowledged(token as usize),
                Event::Closed(_) => self.closed = true,
                Event::Opened { .. } | Event::Writable => {}
            }
        }
        while let Some(bytes) = self.session.poll_transmit() {
            let frame = Frame::new(bytes).expect("we send whole packets");
            if !frame.base().has(BaseHeader::INTERNAL) {
                self.recoverable_left += usize::from(self.sent[self.left].recoverable.is_some());
                self.left += 1;
            }
            if frame.base().has(BaseHeader::SESSION_HEADER) {
                match Packet::decode(&frame).expect("we send what we can read") {
                    Packet::SessionAck(ack) => self.leaves(&ack.header),
                    Packet::User(message) => self.leaves(&message.session.expect("it is flagged").header),
                    other => panic!("a session header on {other:?}"),
                }
            }
        }
        assert_eq!(self.closed, self.session.is_closed());
    }

    /// An acknowledgment of ours is true for every way to read it, and its counts are those of what went before.
    fn leaves(&mut self, header: &SessionHeader) {
        while let Some((recoverable, true)) = self.received.get(self.row) {
            self.row += 1;
            self.recoverable_row += usize::from(*recoverable);
        }
        let (row, recoverable_row) = (self.row, self.recoverable_row);
        assert!(usize::from(header.ack_sequence_number) <= row, "{header:?}: {row} are settled");
        assert!(usize::from(header.recoverable_ack_sequence_number) <= recoverable_row, "{header:?}");
        for number in header.recoverable_acknowledged() {
            assert!((1..=recoverable_row).contains(&usize::from(number)), "{header:?}: {recoverable_row} are settled");
        }
        assert_eq!(usize::from(header.user_sequence_number), self.left, "{header:?}");
        assert_eq!(usize::from(header.recoverable_sequence_number), self.recoverable_left, "{header:?}");
        assert_ne!(header.window_size, 0, "{header:?}");
    }

    fn acknowledged(&mut self, token: usize) {
        let sent = &mut self.sent[token];
        assert!(!std::mem::replace(&mut sent.acknowledged, true), "{token} is acknowledged twice");
        self.acknowledged += 1;
        match sent.recoverable {
            Some(number) => assert!(self.claimed_recoverable[number], "nobody claimed to have stored {number}"),
            None => assert!(token < usize::from(self.claimed), "nobody claimed to have received {token}"),
        }
    }

    fn check(&self) {
        assert!(self.session.unsettled() <= MOST_UNACKNOWLEDGED);
        assert!(self.session.window_left() <= usize::from(self.window.clamp(1, MOST_UNACKNOWLEDGED as u16)));
        assert_eq!(self.session.deadline().is_none(), self.session.is_closed());
        assert!(self.sent.len() - self.acknowledged <= MOST_UNACKNOWLEDGED);
    }
}

/// Whether that number, modulo 2^16, is one of the latest half of all that were sent.
fn could_be(sent: usize, number: u16) -> bool {
    let back = usize::from((sent as u16).wrapping_sub(number));
    back <= sent.min(0x7FFF)
}

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::new();
    encode(&mut bytes);
    bytes.freeze()
}
