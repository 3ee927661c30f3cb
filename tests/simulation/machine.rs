//! A queue manager in two parts: a disk, and a memory that a crash takes away.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::{CloseCause, Event, Outgoing, SendToken, Session, SessionSettings, Settled};
use mqbridge::mqqb::wire::{FrameCutter, MAX_PACKET_SIZE};

use crate::disk::{DESTINATIONS, Disk, Letter, Pace, Write, Writers, Written};
use crate::ledger::Ledger;
use crate::packets::Chance;

pub(crate) struct Machine {
    pub(crate) settings: SessionSettings,
    /// What its applications will send, and when: to which queue, and whether recoverable.
    pub(crate) plan: VecDeque<(Moment, usize, bool)>,
    pub(crate) disk: Disk,
    /// None while it is down.
    pub(crate) memory: Option<Memory>,
    pub(crate) up_at: Option<Moment>,
    /// How often it has crashed.
    pub(crate) life: u64,
    pace: Pace,
}

/// What a crash takes away.
pub(crate) struct Memory {
    queues: [Queue; DESTINATIONS],
    ordinals: Range<u32>,
    writers: Writers,
    ends: BTreeMap<u64, End>,
    /// The connection that messages are sent on: all queues share its window.
    lane: Option<u64>,
    /// Failures since something last went through.
    failures: u32,
    /// The other machine is not called before.
    call_at: Moment,
}

/// One destination's messages.
#[derive(Default)]
struct Queue {
    letters: VecDeque<Letter>,
    /// How many of them, from the first on, were sent on the lane.
    sent: usize,
}

/// This machine's end of a connection.
struct End {
    session: Session,
    cutter: FrameCutter,
    buffer: BytesMut,
}

/// The two directions of messages.
pub(crate) struct Ledgers<'a> {
    pub(crate) sending: &'a mut Ledger,
    pub(crate) receiving: &'a mut Ledger,
}

/// What is to be put on the wires.
pub(crate) enum Said {
    Packet(u64, Bytes),
    Closed(u64, CloseCause),
}

impl Machine {
    pub(crate) fn new(
        settings: SessionSettings,
        plan: VecDeque<(Moment, usize, bool)>,
        pace: Pace,
        now: Moment,
    ) -> Self {
        let memory = Some(Memory::new(&Disk::default(), pace, now));
        Self { settings, plan, disk: Disk::default(), memory, up_at: None, life: 0, pace }
    }

    /// The earliest moment at which it does something by itself, calls aside.
    pub(crate) fn next_moment(&self) -> Option<Moment> {
        let Some(memory) = &self.memory else { return self.up_at };
        let deadlines = memory.ends.values().filter_map(|end| end.session.deadline());
        let planned = self.plan.front().map(|(at, ..)| *at);
        deadlines.chain(planned).chain(memory.writers.next_due()).min()
    }

    /// When it wants to call the other machine.
    pub(crate) fn wants_to_call_at(&self) -> Option<Moment> {
        let memory = self.memory.as_ref()?;
        let has_work = memory.queues.iter().any(|queue| !queue.letters.is_empty());
        (has_work && memory.ends.is_empty()).then_some(memory.call_at)
    }

    /// Nothing is left to be sent or written.
    pub(crate) fn is_done(&self) -> bool {
        let Some(memory) = &self.memory else { return false };
        self.plan.is_empty()
            && memory.writers.next_due().is_none()
            && memory.queues.iter().all(|queue| queue.letters.is_empty())
    }

    /// Does what is due by now.
    pub(crate) fn advance(&mut self, now: Moment, ledgers: &mut Ledgers<'_>) {
        if self.up_at.is_some_and(|at| at <= now) {
            self.up_at = None;
            self.memory = Some(Memory::new(&self.disk, self.pace, now));
        }
        let Some(memory) = &mut self.memory else { return };
        while let Some((_, destination, recoverable)) = self.plan.pop_front_if(|(at, ..)| *at <= now) {
            if memory.ordinals.is_empty() {
                memory.ordinals = self.disk.reserve_ordinals();
            }
            let ordinal = memory.ordinals.next().expect("some were reserved");
            let letter = Letter { ordinal, destination, recoverable };
            ledgers.sending.made(letter, self.life);
            memory.queues[destination].letters.push_back(letter);
            // The application is told when it is on disk.
            self.disk.outgoing[destination].extend(recoverable.then_some(letter));
        }
        while let Some(write) = memory.writers.take_due(now) {
            let (connection, receipt) = match self.disk.commit(write) {
                Written::Stored(letter, connection, receipt) => {
                    ledgers.receiving.stored(letter);
                    (connection, receipt)
                }
                Written::Duplicate(connection, receipt) => {
                    ledgers.receiving.duplicates += 1;
                    (connection, receipt)
                }
                Written::Removed => continue,
            };
            if let Some(end) = memory.ends.get_mut(&connection) {
                end.session.settle(now, receipt, Settled::Stored);
            }
        }
        for end in memory.ends.values_mut() {
            if end.session.deadline().is_some_and(|deadline| deadline <= now) {
                end.session.handle_timeout(now);
            }
        }
    }

    pub(crate) fn connect(&mut self, connection: u64, session: Session) {
        if let Some(memory) = &mut self.memory {
            let end = End { session, cutter: FrameCutter::new(MAX_PACKET_SIZE), buffer: BytesMut::new() };
            memory.ends.insert(connection, end);
        }
    }

    /// The other machine could not be called.
    pub(crate) fn call_failed(&mut self, now: Moment) {
        if let Some(memory) = &mut self.memory {
            memory.fail(now);
        }
    }

    pub(crate) fn has_end(&self, connection: u64) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.ends.contains_key(&connection))
    }

    /// Bytes came on a connection.
    pub(crate) fn hears(&mut self, now: Moment, connection: u64, bytes: &[u8]) {
        let Some(end) = self.memory.as_mut().and_then(|memory| memory.ends.get_mut(&connection)) else { return };
        end.buffer.extend_from_slice(bytes);
        while let Some(frame) = end.cutter.cut(&mut end.buffer).expect("TCP does not change bytes") {
            end.session.handle_frame(now, frame);
        }
    }

    /// The other side has closed a connection.
    pub(crate) fn hears_end(&mut self, now: Moment, connection: u64) {
        if let Some(memory) = &mut self.memory {
            memory.leave(now, connection);
        }
    }

    /// Closes a session for a reason of its own.
    pub(crate) fn close_one(&mut self, now: Moment, chance: &mut Chance) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        let at = chance.below(memory.ends.len() as u64) as usize;
        let Some(end) = memory.ends.values_mut().nth(at) else { return false };
        end.session.close(now, CloseCause::Local("the operator wants it".into()));
        true
    }

    /// A message can't be stored: the session that brought it is closed.
    pub(crate) fn fail_write(&mut self, now: Moment, chance: &mut Chance) -> bool {
        let Some(memory) = &mut self.memory else { return false };
        let Some(connection) = memory.writers.fail_one(chance) else { return false };
        if let Some(end) = memory.ends.get_mut(&connection) {
            end.session.close(now, CloseCause::Local("the disk is full".into()));
        }
        true
    }

    /// The machine stops until then. Gives the connections that it had.
    pub(crate) fn crash(&mut self, until: Moment, ledgers: &mut Ledgers<'_>, chance: &mut Chance) -> Vec<u64> {
        let Some(mut memory) = self.memory.take() else { return Vec::new() };
        self.up_at = Some(until);
        self.life += 1;
        for write in memory.writers.take_some(chance) {
            match self.disk.commit(write) {
                Written::Stored(letter, ..) => ledgers.receiving.stored(letter),
                Written::Duplicate(..) => ledgers.receiving.duplicates += 1,
                Written::Removed => {}
            }
        }
        memory.ends.into_keys().collect()
    }

    /// Sends what there is room for, and does what the sessions say, until they have nothing more to say.
    pub(crate) fn speaks(&mut self, now: Moment, ledgers: &mut Ledgers<'_>, chance: &mut Chance) -> Vec<Said> {
        let mut said = Vec::new();
        let Some(memory) = &mut self.memory else { return said };
        loop {
            memory.pump(now, self.settings, chance);
            let before = said.len();
            let mut quiet = true;
            for connection in memory.ends.keys().copied().collect::<Vec<_>>() {
                while let Some(event) = memory.ends.get_mut(&connection).and_then(|end| end.session.poll_event()) {
                    quiet = false;
                    let closed = memory.react(now, connection, event, ledgers, chance);
                    let Some(end) = memory.ends.get_mut(&connection) else { continue };
                    said.extend(
                        std::iter::from_fn(|| end.session.poll_transmit()).map(|it| Said::Packet(connection, it)),
                    );
                    if let Some(cause) = closed {
                        memory.leave(now, connection);
                        said.push(Said::Closed(connection, cause));
                    }
                }
                if let Some(end) = memory.ends.get_mut(&connection) {
                    said.extend(
                        std::iter::from_fn(|| end.session.poll_transmit()).map(|it| Said::Packet(connection, it)),
                    );
                }
            }
            if quiet && said.len() == before {
                return said;
            }
        }
    }
}

impl Memory {
    /// A machine starts: what is on disk is to be sent.
    fn new(disk: &Disk, pace: Pace, now: Moment) -> Self {
        Self {
            queues: disk.outgoing.each_ref().map(|letters| Queue { letters: letters.clone(), sent: 0 }),
            ordinals: 0..0,
            writers: Writers::new(pace),
            ends: BTreeMap::new(),
            lane: None,
            failures: 0,
            call_at: now,
        }
    }

    fn react(
        &mut self,
        now: Moment,
        connection: u64,
        event: Event,
        ledgers: &mut Ledgers<'_>,
        chance: &mut Chance,
    ) -> Option<CloseCause> {
        match event {
            Event::Opened { .. } => {
                self.lane.get_or_insert(connection);
            }
            Event::Writable => {}
            Event::Received { message, receipt, .. } => {
                let (id, letter) = (message.id(), Letter::read(&message));
                self.writers.submit(now, Write::Arrival { id, letter, connection, receipt }, chance);
            }
            Event::Acknowledged(SendToken(token)) => {
                assert_eq!(self.lane, Some(connection), "an acknowledgment from a session that was given up");
                self.failures = 0;
                let mut queues = self.queues.iter_mut();
                let letter = queues.find_map(|queue| queue.take(token)).expect("acknowledged once, after it was sent");
                ledgers.sending.acknowledged(letter);
                if letter.recoverable {
                    self.writers.submit(now, Write::Removal(letter), chance);
                }
            }
            Event::Closed(cause) => return Some(cause),
        }
        None
    }

    /// All queues share the window, in no particular order.
    fn pump(&mut self, now: Moment, settings: SessionSettings, chance: &mut Chance) {
        let Some(end) = self.lane.and_then(|lane| self.ends.get_mut(&lane)) else { return };
        let mut turn = chance.below(DESTINATIONS as u64) as usize;
        let mut passed = 0;
        while passed < DESTINATIONS && end.session.window_left() > 0 {
            let queue = &mut self.queues[turn % DESTINATIONS];
            turn += 1;
            passed += 1;
            let Some(letter) = queue.letters.get(queue.sent).copied() else { continue };
            let (token, packet) = (SendToken(u64::from(letter.ordinal)), letter.packet(settings.local));
            let outcome = end.session.send(now, Outgoing { token, packet, recoverable: letter.recoverable });
            outcome.expect("there was room");
            queue.sent += 1;
            passed = 0;
        }
    }

    /// A connection is no more. What was sent on it and not acknowledged is sent again, on another one that is open or
    /// on a new one.
    fn leave(&mut self, now: Moment, connection: u64) {
        if self.ends.remove(&connection).is_none() {
            return;
        }
        if self.lane == Some(connection) {
            let open = self.ends.iter().rev().find(|(_, end)| end.session.is_open());
            self.lane = open.map(|(connection, _)| *connection);
            self.queues.iter_mut().for_each(|queue| queue.sent = 0);
        }
        self.fail(now);
    }

    fn fail(&mut self, now: Moment) {
        let wait = Duration::from_millis(200) * (1 << self.failures.min(5));
        self.failures += 1;
        self.call_at = now + wait;
    }
}

impl Queue {
    fn take(&mut self, token: u64) -> Option<Letter> {
        let at = self.letters.iter().take(self.sent).position(|letter| u64::from(letter.ordinal) == token)?;
        self.sent -= 1;
        self.letters.remove(at)
    }
}
