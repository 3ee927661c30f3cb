//! One queue manager: an outgoing queue, a session, a store that takes its time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Event, Outgoing, Receipt, SendToken, Session, SessionSettings, Settled};
use mqbridge::mqqb::wire::{BaseHeader, FrameCutter, MAX_PACKET_SIZE, Packet};

use crate::auditor::{Auditor, Fate, Id};
use crate::packets::{Chance, Packets, frame};

pub(crate) struct Side {
    pub(crate) settings: SessionSettings,
    pub(crate) session: Option<Session>,
    /// The number of the connection that the session is on.
    pub(crate) connection: u64,
    cutter: FrameCutter,
    buffer: BytesMut,
    /// Messages that applications will make, with their moments, the next one first.
    pub(crate) plan: VecDeque<(Moment, Id, bool)>,
    /// Messages made and not acknowledged. The recoverable ones are on disk.
    pub(crate) outgoing: VecDeque<(Id, bool)>,
    /// Every recoverable message ever made.
    pub(crate) made_recoverable: Vec<Id>,
    /// How many of `outgoing` are behind the session's last one sent.
    unsent: usize,
    storing: Vec<Storing>,
    store: Store,
    pub(crate) down_until: Option<Moment>,
}

/// How the store behaves.
#[derive(Clone, Copy)]
pub(crate) struct Store {
    pub(crate) usual: Duration,
    pub(crate) worst: Duration,
    pub(crate) slow_percent: u64,
    pub(crate) refuse_percent: u64,
}

/// A message on its way to the disk.
struct Storing {
    due: Moment,
    id: Id,
    fate: Fate,
    /// None when the store loses it.
    receipt: Option<Receipt>,
    connection: u64,
    place: usize,
}

/// The two directions of messages as one side sees them.
pub(crate) struct Books<'a> {
    pub(crate) sending: &'a mut Auditor,
    pub(crate) receiving: &'a mut Auditor,
}

/// What a side asks of the world after it was moved.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) packets: Vec<Bytes>,
    pub(crate) closed: Option<CloseCause>,
}

impl Side {
    pub(crate) fn new(settings: SessionSettings, plan: VecDeque<(Moment, Id, bool)>, store: Store) -> Self {
        Self {
            settings,
            session: None,
            connection: 0,
            cutter: FrameCutter::new(MAX_PACKET_SIZE),
            buffer: BytesMut::new(),
            plan,
            outgoing: VecDeque::new(),
            made_recoverable: Vec::new(),
            unsent: 0,
            storing: Vec::new(),
            store,
            down_until: None,
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn plan_end(&self) -> Option<Moment> {
        self.plan.back().map(|(at, ..)| *at)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.plan.is_empty() && self.outgoing.is_empty()
    }

    pub(crate) fn connect(&mut self, session: Session, connection: u64) {
        self.session = Some(session);
        self.connection = connection;
        self.buffer.clear();
        self.unsent = self.outgoing.len();
    }

    /// The earliest moment at which this side does something by itself.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        let deadline = self.session.as_ref().and_then(Session::deadline);
        let stored = self.storing.iter().map(|storing| storing.due).min();
        let planned = self.plan.front().map(|(at, ..)| *at).filter(|_| self.down_until.is_none());
        [deadline, stored, planned, self.down_until].into_iter().flatten().min()
    }

    /// Does what is due by now.
    pub(crate) fn advance(&mut self, now: Moment, books: &mut Books<'_>) {
        if self.down_until.is_some_and(|until| until <= now) {
            self.down_until = None;
        }
        while self.down_until.is_none()
            && let Some((_, id, recoverable)) = self.plan.pop_front_if(|(at, ..)| *at <= now)
        {
            self.outgoing.push_back((id, recoverable));
            self.made_recoverable.extend(recoverable.then_some(id));
            self.unsent += 1;
        }
        let mut at = 0;
        while at < self.storing.len() {
            if self.storing[at].due > now {
                at += 1;
                continue;
            }
            // Takes them out of order, too.
            let Storing { id, fate, receipt, connection, place, .. } = self.storing.swap_remove(at);
            let Some(receipt) = receipt else { continue };
            books.receiving.settled(id, fate);
            if let Some(session) = &mut self.session {
                let settled = if fate == Fate::OnDisk { Settled::Stored } else { Settled::Rejected };
                books.receiving.receipt_returned(connection, place);
                session.settle(now, receipt, settled);
            }
        }
        if let Some(session) = &mut self.session
            && session.deadline().is_some_and(|deadline| deadline <= now)
        {
            session.handle_timeout(now);
            assert!(session.deadline().is_none_or(|deadline| deadline > now), "the deadline does not move");
        }
    }

    pub(crate) fn hears(&mut self, now: Moment, bytes: &[u8], books: &mut Books<'_>, chance: &mut Chance) -> Said {
        let mut said = Said::default();
        self.buffer.extend_from_slice(bytes);
        while let Some(frame) = self.cutter.cut(&mut self.buffer).expect("TCP does not change bytes") {
            let Some(session) = &mut self.session else { break };
            session.handle_frame(now, frame);
            if chance.percent(50) {
                self.drain(now, books, chance, &mut said);
            }
        }
        self.drain(now, books, chance, &mut said);
        said
    }

    pub(crate) fn speaks(&mut self, now: Moment, books: &mut Books<'_>, chance: &mut Chance) -> Said {
        let mut said = Said::default();
        self.drain(now, books, chance, &mut said);
        said
    }

    /// Empties the session until it has nothing more to say, and sends what there is room for.
    fn drain(&mut self, now: Moment, books: &mut Books<'_>, chance: &mut Chance, said: &mut Said) {
        loop {
            self.pump(now, books);
            let Some(session) = &mut self.session else { return };
            let mut quiet = true;
            while let Some(event) = session.poll_event() {
                quiet = false;
                match event {
                    Event::Opened { .. } | Event::Writable => {}
                    Event::Received { message, receipt, .. } => {
                        let id = message.user.message_id;
                        let place = books.receiving.received(id, message.is_recoverable());
                        let storing = self.store.take(now, id, receipt, (self.connection, place), books, chance);
                        self.storing.push(storing);
                    }
                    Event::Acknowledged(SendToken(token)) => {
                        let id = token as Id;
                        books.sending.acknowledged(id);
                        let at = self.outgoing.iter().position(|(waiting, _)| *waiting == id).expect("is waiting");
                        self.outgoing.remove(at);
                    }
                    Event::Closed(cause) => said.closed = Some(cause),
                }
            }
            while let Some(packet) = session.poll_transmit() {
                quiet = false;
                let packet_frame = frame(packet.clone());
                if packet_frame.base().has(BaseHeader::SESSION_HEADER) {
                    match Packet::decode(&packet_frame).expect("we send what we can read") {
                        Packet::SessionAck(ack) => books.receiving.header_leaves(&ack.header),
                        Packet::User(message) => {
                            message.session.iter().for_each(|session| books.receiving.header_leaves(&session.header));
                        }
                        _ => {}
                    }
                }
                said.packets.push(packet);
            }
            if quiet {
                return;
            }
        }
    }

    fn pump(&mut self, now: Moment, books: &mut Books<'_>) {
        let Some(session) = &mut self.session else { return };
        while self.unsent > 0 {
            let (id, recoverable) = self.outgoing[self.outgoing.len() - self.unsent];
            let packet = PACKETS.with(|packets| packets.message(id, recoverable));
            let room = session.window_left();
            let outcome = session.send(now, Outgoing { token: SendToken(u64::from(id)), packet, recoverable });
            assert_eq!(outcome.is_ok(), room > 0);
            if outcome.is_err() {
                return;
            }
            books.sending.sent(id, recoverable);
            self.unsent -= 1;
        }
    }

    /// The session is gone, by whoever's wish. What the store has in hand goes on.
    pub(crate) fn disconnect(&mut self) {
        self.session = None;
        self.buffer.clear();
    }

    /// The machine stops: express messages are lost, and so is what the store had not finished; nobody can tell
    /// which of it is on disk.
    pub(crate) fn crash(&mut self, until: Moment, books: &mut Books<'_>, chance: &mut Chance) {
        self.disconnect();
        self.down_until = Some(until);
        self.outgoing.retain(|(_, recoverable)| *recoverable);
        self.unsent = self.outgoing.len();
        for storing in self.storing.drain(..) {
            if storing.receipt.is_some() && chance.percent(50) {
                books.receiving.settled(storing.id, storing.fate);
            }
        }
    }

    /// The store drops one message that it has in hand, receipt and all.
    pub(crate) fn lose_one(&mut self, chance: &mut Chance) -> bool {
        let at = chance.below(self.storing.len() as u64) as usize;
        self.storing.get_mut(at).is_some_and(|storing| storing.receipt.take().is_some())
    }
}

impl Store {
    fn take(
        &self,
        now: Moment,
        id: Id,
        receipt: Receipt,
        (connection, place): (u64, usize),
        books: &Books<'_>,
        chance: &mut Chance,
    ) -> Storing {
        let slow = chance.percent(self.slow_percent);
        let limit = if slow { self.worst } else { self.usual };
        // A duplicate is known at once.
        let known = books.receiving.is_settled(id);
        let wait = if known { 0 } else { chance.below(limit.as_millis() as u64 + 1) };
        let fate = if chance.percent(self.refuse_percent) { Fate::Refused } else { Fate::OnDisk };
        Storing { due: now + Duration::from_millis(wait), id, fate, receipt: Some(receipt), connection, place }
    }
}

thread_local! {
    static PACKETS: Packets = Packets::new();
}
