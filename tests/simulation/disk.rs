//! What a machine still has after a crash, and what is on its way there.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::session::Receipt;
use mqbridge::mqqb::wire::{DeliveryMode, DirectField, Guid, MessageId, Padding, QueueField, UserMessage, WideText};

use crate::packets::{Chance, encode, message};

/// Queues at either machine that the other one sends to.
pub(crate) const DESTINATIONS: usize = 4;

/// A message, as its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) ordinal: u32,
    pub(crate) destination: usize,
    pub(crate) recoverable: bool,
}

#[derive(Default)]
pub(crate) struct Disk {
    /// Recoverable messages that are not known to have arrived, in the order in which they were made.
    pub(crate) outgoing: [VecDeque<Letter>; DESTINATIONS],
    /// Ordinals from here on were never given out.
    next_ordinal: u32,
    /// What came, in the order in which it was stored.
    pub(crate) inbox: Vec<(MessageId, Letter)>,
    /// What ever came.
    history: BTreeSet<MessageId>,
}

/// How fast a store is.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) usual: Duration,
    pub(crate) worst: Duration,
    pub(crate) slow_percent: u64,
}

/// The writers of one life of a machine, one for each queue: one write after the other, each durable some time after it
/// was submitted. So messages of one session become durable out of their order, but not those for one queue.
pub(crate) struct Writers {
    pace: Pace,
    queues: [WriteQueue; DESTINATIONS],
}

#[derive(Default)]
struct WriteQueue {
    waiting: VecDeque<(Moment, Write)>,
    last_due: Moment,
}

pub(crate) enum Write {
    /// A message that came on a connection.
    Arrival { id: MessageId, letter: Letter, connection: u64, receipt: Receipt },
    /// A message of ours has arrived where it was sent to.
    Removal(Letter),
}

/// What a write has done.
pub(crate) enum Written {
    /// It is there for the first time.
    Stored(Letter, u64, Receipt),
    /// It was there before.
    Duplicate(u64, Receipt),
    Removed,
}

impl Disk {
    /// How many ordinals are set aside by one write.
    const BLOCK: u32 = 8;

    pub(crate) fn reserve_ordinals(&mut self) -> Range<u32> {
        let first = self.next_ordinal.max(1);
        self.next_ordinal = first + Self::BLOCK;
        first..self.next_ordinal
    }

    /// A write becomes durable: the message and the history in one transaction.
    pub(crate) fn commit(&mut self, write: Write) -> Written {
        match write {
            Write::Arrival { id, letter, connection, receipt } => {
                if !self.history.insert(id) {
                    return Written::Duplicate(connection, receipt);
                }
                self.inbox.push((id, letter));
                Written::Stored(letter, connection, receipt)
            }
            Write::Removal(letter) => {
                self.outgoing[letter.destination].retain(|waiting| *waiting != letter);
                Written::Removed
            }
        }
    }
}

impl Writers {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, queues: Default::default() }
    }

    pub(crate) fn submit(&mut self, now: Moment, write: Write, chance: &mut Chance) {
        let (Write::Arrival { letter, .. } | Write::Removal(letter)) = &write;
        let limit = if chance.percent(self.pace.slow_percent) { self.pace.worst } else { self.pace.usual };
        let wait = Duration::from_millis(chance.below(limit.as_millis() as u64 + 1));
        let queue = &mut self.queues[letter.destination];
        queue.last_due = queue.last_due.max(now + wait);
        queue.waiting.push_back((queue.last_due, write));
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.queues.iter().filter_map(WriteQueue::next_due).min()
    }

    /// The next write that is durable by now.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<Write> {
        let queue =
            self.queues.iter_mut().min_by_key(|queue| queue.next_due().map_or((true, now), |due| (false, due)))?;
        queue.waiting.pop_front_if(|(due, _)| *due <= now).map(|(_, write)| write)
    }

    /// The machine stops: some of what waits is durable nevertheless, though nobody was told.
    pub(crate) fn take_some(&mut self, chance: &mut Chance) -> Vec<Write> {
        let mut durable = Vec::new();
        for WriteQueue { waiting, .. } in &mut self.queues {
            let count = chance.below(waiting.len() as u64 + 1) as usize;
            durable.extend(waiting.drain(..count).map(|(_, write)| write));
        }
        durable
    }

    /// A message can't be stored. Nothing of its connection that is behind it in its queue is, either: order holds.
    /// Gives the connection.
    pub(crate) fn fail_one(&mut self, chance: &mut Chance) -> Option<u64> {
        let busy = self.queues.iter_mut().filter(|queue| !queue.waiting.is_empty()).collect::<Vec<_>>();
        let chosen = chance.below(busy.len() as u64) as usize;
        let WriteQueue { waiting, .. } = busy.into_iter().nth(chosen)?;
        let at = chance.below(waiting.len() as u64) as usize;
        let (_, Write::Arrival { connection: failed, .. }) = waiting.get(at)? else { return None };
        let failed = *failed;
        let mut place = 0;
        waiting.retain(|(_, write)| {
            place += 1;
            place <= at || !matches!(write, Write::Arrival { connection, .. } if *connection == failed)
        });
        Some(failed)
    }
}

impl WriteQueue {
    fn next_due(&self) -> Option<Moment> {
        self.waiting.front().map(|(due, _)| *due)
    }
}

impl Letter {
    pub(crate) fn packet(&self, source: Guid) -> Bytes {
        let delivery = if self.recoverable { DeliveryMode::Recoverable } else { DeliveryMode::Express };
        let name = format!("OS:there\\private$\\queue{}", self.destination);
        let destination = DirectField { name: WideText::from_text(&name), padding: Padding::default() };
        let mut message = message(delivery);
        message.user.source_queue_manager = source;
        message.user.message_id = self.ordinal;
        message.user.destination = QueueField::Direct(destination);
        encode(&message)
    }

    pub(crate) fn read(message: &UserMessage) -> Self {
        let QueueField::Direct(DirectField { name, .. }) = &message.user.destination else { panic!("a direct name") };
        let digit = name.to_string().chars().last().and_then(|digit| digit.to_digit(10)).expect("a number of a queue");
        Self { ordinal: message.id().ordinal, destination: digit as usize, recoverable: message.is_recoverable() }
    }
}
