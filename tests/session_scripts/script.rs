//! The script's side of a session.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Event, Outgoing, Receipt, SendToken, Session, SessionSettings, Settled};
use mqbridge::mqqb::wire::{
    ConnectionParameters, EstablishConnection, Guid, Packet, SessionAck, SessionHeader, UserMessage,
    append_session_header,
};

use crate::packets::{Packets, frame, guid, start};

pub(crate) const OURS: Guid = guid(1);
pub(crate) const THEIRS: Guid = guid(2);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);
pub(crate) const SETTINGS: SessionSettings = SessionSettings::new(OURS);

/// A session under test and everything it has said.
pub(crate) struct Script {
    pub(crate) session: Session,
    pub(crate) now: Moment,
    pub(crate) receipts: VecDeque<Receipt>,
    packets: Packets,
    events: VecDeque<Event>,
    ids: u32,
}

/// What the script says that it sent and received.
pub(crate) fn header(ack: u16, base: u16, bits: u32, sent: u16, recoverable_sent: u16) -> SessionHeader {
    SessionHeader {
        ack_sequence_number: ack,
        recoverable_ack_sequence_number: base,
        recoverable_ack_bits: bits,
        user_sequence_number: sent,
        recoverable_sequence_number: recoverable_sent,
        window_size: 64,
        reserved: 0,
    }
}

impl Script {
    pub(crate) fn new(make: impl FnOnce(Moment) -> Session) -> Self {
        let now = start();
        Self {
            session: make(now),
            now,
            receipts: VecDeque::new(),
            packets: Packets::new(),
            events: VecDeque::new(),
            ids: 0,
        }
    }

    pub(crate) fn acceptor() -> Self {
        Self::new(|now| Session::acceptor(SETTINGS, now))
    }

    pub(crate) fn initiator(server: Guid) -> Self {
        Self::new(|now| Session::initiator(SETTINGS, server, now))
    }

    /// An open acceptor whose peer announced this window.
    pub(crate) fn open(settings: SessionSettings, peer_window: u16) -> Self {
        let mut script = Self::new(|now| Session::acceptor(settings, now));
        script.establish(OURS);
        script.parameters(500, 20_000, peer_window);
        script.take_opened();
        script
    }

    /// An open acceptor with the default window on both sides.
    pub(crate) fn open_acceptor() -> Self {
        Self::open(SETTINGS, 64)
    }

    /// An open initiator; a null `server` is a direct name.
    pub(crate) fn open_initiator(server: Guid) -> Self {
        let mut script = Self::initiator(server);
        script.answer(|answer| answer);
        script.parameters(500, 20_000, 64);
        script.take_opened();
        script
    }

    fn take_opened(&mut self) {
        assert!(matches!(self.event(), Some(Event::Opened { remote: THEIRS })));
        assert!(self.session.is_open());
        self.said();
    }

    // What the script says.

    pub(crate) fn comes(&mut self, bytes: Bytes) {
        self.session.handle_frame(self.now, frame(bytes));
        self.collect();
    }

    /// The request of an initiator.
    pub(crate) fn establish(&mut self, server: Guid) {
        self.comes(establish_bytes(&EstablishConnection::request(THEIRS, server, 4711, true)));
    }

    /// The answer to the request that the session under test has made, as changed by `edit`.
    pub(crate) fn answer(&mut self, edit: impl FnOnce(EstablishConnection) -> EstablishConnection) {
        let said = self.said();
        let [Packet::Establish(request)] = said.as_slice() else { panic!("not a request: {said:?}") };
        self.comes(establish_bytes(&edit(request.response(THEIRS, false))));
    }

    pub(crate) fn parameters(&mut self, recoverable_ack: u32, ack: u32, window: u16) {
        self.comes(parameters_bytes(&ConnectionParameters::new(recoverable_ack, ack, window)));
    }

    pub(crate) fn message(&mut self, recoverable: bool) {
        let bytes = self.next_message(recoverable);
        self.comes(bytes);
    }

    pub(crate) fn messages(&mut self, count: usize, recoverable: bool) {
        for _ in 0..count {
            self.message(recoverable);
        }
    }

    pub(crate) fn message_with(&mut self, recoverable: bool, header: &SessionHeader) {
        let bytes = self.next_message(recoverable);
        self.comes(append_session_header(&bytes, header));
    }

    pub(crate) fn ack(&mut self, header: SessionHeader) {
        self.comes(ack_bytes(&SessionAck::new(header)));
    }

    pub(crate) fn later(&mut self, by: Duration) {
        self.now = self.now + by;
    }

    /// Lets time pass up to the moment, with every deadline on the way kept.
    pub(crate) fn wait(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..1000 {
            match self.session.deadline().filter(|deadline| *deadline <= end) {
                None => {
                    self.now = end;
                    return;
                }
                Some(deadline) => {
                    assert!(deadline >= self.now, "a deadline in the past");
                    self.now = deadline;
                    self.session.handle_timeout(deadline);
                    assert!(self.session.deadline().is_none_or(|next| next > deadline), "the deadline does not move");
                    self.collect();
                }
            }
        }
        panic!("a thousand deadlines in {by:?}");
    }

    /// Lets that time pass but for its last millisecond.
    pub(crate) fn wait_almost(&mut self, time: Duration) {
        self.wait(time.saturating_sub(MILLISECOND));
    }

    // What the driver does.

    /// Returns the receipt that has been out longest.
    pub(crate) fn settle(&mut self) {
        let receipt = self.receipts.pop_front().expect("a receipt is out");
        self.session.settle(self.now, receipt, Settled::Stored);
    }

    pub(crate) fn settle_all(&mut self) {
        while !self.receipts.is_empty() {
            self.settle();
        }
    }

    /// Returns the receipts of the messages at these places among those that are out, in this order.
    pub(crate) fn settle_at(&mut self, places: &[usize]) {
        let mut receipts: Vec<Option<Receipt>> = self.receipts.drain(..).map(Some).collect();
        for place in places {
            let receipt = receipts[*place].take().expect("each place once");
            self.session.settle(self.now, receipt, Settled::Stored);
        }
        self.receipts = receipts.into_iter().flatten().collect();
    }

    pub(crate) fn send(&mut self, token: u64, recoverable: bool) -> bool {
        let packet = self.next_message(recoverable);
        self.session.send(self.now, Outgoing { token: SendToken(token), packet, recoverable }).is_ok()
    }

    /// Sends messages with tokens from 1, recoverable or express.
    pub(crate) fn send_all(&mut self, recoverable: &[bool]) {
        for (token, recoverable) in (1..).zip(recoverable) {
            assert!(self.send(token, *recoverable), "no room for {token}");
        }
    }

    pub(crate) fn close(&mut self, cause: CloseCause) {
        self.session.close(self.now, cause);
        self.collect();
    }

    // What the session says.

    fn collect(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.events.push_back(event);
        }
    }

    /// The next event. Receipts of received messages are kept aside.
    pub(crate) fn event(&mut self) -> Option<Event> {
        self.collect();
        self.events.pop_front()
    }

    /// Takes all received messages, keeps their receipts, and leaves the other events.
    pub(crate) fn take_received(&mut self) -> Vec<UserMessage> {
        self.collect();
        let mut messages = Vec::new();
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Received { message, receipt, .. } => {
                    messages.push(*message);
                    self.receipts.push_back(receipt);
                }
                other => self.events.push_back(other),
            }
        }
        messages
    }

    /// The tokens acknowledged since the last call; nothing else may have happened.
    pub(crate) fn acknowledged(&mut self) -> Vec<u64> {
        self.collect();
        std::mem::take(&mut self.events)
            .into_iter()
            .map(|event| match event {
                Event::Acknowledged(SendToken(token)) => token,
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    /// The tokens acknowledged before the end, and why it came.
    pub(crate) fn acknowledged_then_cause(&mut self) -> (Vec<u64>, CloseCause) {
        self.collect();
        let end = self.events.pop_back();
        let tokens = self.acknowledged();
        self.events.extend(end);
        (tokens, self.cause())
    }

    /// Everything that goes out now.
    pub(crate) fn said(&mut self) -> Vec<Packet> {
        std::iter::from_fn(|| self.session.poll_transmit())
            .map(|bytes| Packet::decode(&frame(bytes)).expect("we send what we can read"))
            .collect()
    }

    /// The acknowledgments that go out now; nothing else may go out.
    pub(crate) fn acks(&mut self) -> Vec<SessionHeader> {
        self.said()
            .into_iter()
            .map(|packet| match packet {
                Packet::SessionAck(ack) => ack.header,
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    /// Why the session is over; nothing may follow that event, and received messages may precede it.
    pub(crate) fn cause(&mut self) -> CloseCause {
        self.take_received();
        let event = self.event();
        let Some(Event::Closed(cause)) = event else { panic!("not closed, but {event:?}") };
        assert!(self.event().is_none(), "something happened after the end");
        assert!(self.session.is_closed());
        assert_eq!(self.session.deadline(), None);
        assert_eq!(self.session.window_left(), 0);
        cause
    }

    fn next_message(&mut self, recoverable: bool) -> Bytes {
        self.ids += 1;
        self.packets.message(self.ids, recoverable)
    }
}

pub(crate) fn establish_bytes(packet: &EstablishConnection) -> Bytes {
    let mut bytes = BytesMut::new();
    packet.encode(&mut bytes);
    bytes.freeze()
}

pub(crate) fn parameters_bytes(packet: &ConnectionParameters) -> Bytes {
    let mut bytes = BytesMut::new();
    packet.encode(&mut bytes);
    bytes.freeze()
}

pub(crate) fn ack_bytes(packet: &SessionAck) -> Bytes {
    let mut bytes = BytesMut::new();
    packet.encode(&mut bytes);
    bytes.freeze()
}

/// A captured frame of MS-MQQB 4.1.
pub(crate) fn golden(name: &str) -> Bytes {
    let path = format!("{}/tests/fixtures/golden/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"))
        .collect::<Vec<u8>>()
        .into()
}
