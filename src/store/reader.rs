//! Reading a queue in order, beside the writer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::{Bytes, BytesMut};
use redb::{ReadTransaction, ReadableDatabase};
use tokio::sync::watch;

use super::database::{Engine, Fault, guarded};
use super::depth::Queue;
use super::schema::{self, MessageKey, Row};
use super::{Position, QueueId, Shared, StoreError, StoredMessage};

/// Reads a queue in order: priority first, then arrival. A message is given once, until [`Reader::rewind`].
///
/// There is a cursor for each priority, because arrivals grow within a priority only: a message of a higher priority
/// that comes later is the next one given.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    arrivals: watch::Receiver<u64>,
    /// By inverse priority: what arrived before was given.
    given_below: [u64; schema::LOWEST as usize + 1],
    /// The last look at the queue found nothing that was not given.
    drained: bool,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, queue: QueueId) -> Self {
        let queue = shared.queues.by_id_or_empty(queue);
        Self { arrivals: queue.arrivals(), shared, queue, given_below: Default::default(), drained: false }
    }

    /// The next messages, at most `limit` and about `bytes` of them (at least one); empty when there are none.
    ///
    /// # Errors
    /// * [`StoreError::Unreadable`] when the next message is damaged. It is in the way until it is removed or
    ///   [`Reader::skip`]ped. An error of the disk can be the cause, and may pass: it is worth trying again first.
    /// * [`StoreError::Disk`] when the queue can't be read at all for now: try again after a pause.
    /// * [`StoreError::Closed`] when the store has closed.
    pub fn next(&mut self, limit: usize, bytes: usize) -> Result<Vec<StoredMessage>, StoreError> {
        self.drained = false;
        // Seen before the snapshot is taken: what is committed after it counts as not seen.
        self.arrivals.borrow_and_update();
        let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        let Some(engine) = engine.as_ref() else { return Err(self.shared.not_open()) };
        let mut reading = Reading {
            repeated_below: self.shared.repeated_below,
            given_below: &mut self.given_below,
            messages: Vec::new(),
            limit: limit.max(1),
            bytes: bytes.max(1),
        };
        let end = guarded(|| reading.read(engine, self.queue.id));
        let messages = reading.messages;
        match end {
            Ok(End::Queue) => self.drained = true,
            Ok(End::Limit) => {}
            Ok(End::Damaged(position, damage)) => {
                if let Damage::Engine(_) = damage {
                    self.shared.suspect();
                }
                // What is before it is given first, and then it is met again.
                if messages.is_empty() {
                    return Err(self.shared.unreadable(position, damage));
                }
            }
            Err(fault) => {
                self.shared.suspect();
                if messages.is_empty() {
                    return Err(self.shared.place.failed(&fault.why));
                }
            }
        }
        Ok(messages)
    }

    /// Waits until a message may have come that was not given yet, or the store has closed. Cancel safe.
    pub async fn wait(&mut self) {
        if self.drained && !self.shared.closed.load(Ordering::Acquire) {
            // The other end lives in the queue, which is held here: this can't fail.
            let _ = self.arrivals.changed().await;
        }
    }

    /// Begins at the head again: what was given and not removed is given again.
    pub fn rewind(&mut self) {
        self.given_below = Default::default();
        self.drained = false;
    }

    /// Leaves out the message at `position`, which [`Reader::next`] found damaged. It stays in the store, and is met
    /// again after [`Reader::rewind`].
    pub fn skip(&mut self, position: Position) {
        if let Some(below) = self.given_below.get_mut(usize::from(position.inverse_priority)) {
            *below = (*below).max(position.arrival.saturating_add(1));
        }
    }
}

/// Why reading ended.
enum End {
    Queue,
    Limit,
    Damaged(Position, Damage),
}

/// Why a message can't be read.
pub(super) enum Damage {
    /// Its row, or a slice.
    Row(&'static str),
    /// The engine, reading a slice.
    Engine(Fault),
}

impl<E: Into<redb::Error>> From<E> for Damage {
    fn from(error: E) -> Self {
        Self::Engine(Fault::from(error))
    }
}

/// One look at a queue.
struct Reading<'a> {
    repeated_below: u64,
    given_below: &'a mut [u64; schema::LOWEST as usize + 1],
    messages: Vec<StoredMessage>,
    limit: usize,
    bytes: usize,
}

impl Reading<'_> {
    fn read(&mut self, engine: &Engine, queue: QueueId) -> Result<End, Fault> {
        let transaction = engine.get()?.begin_read()?;
        let table = transaction.open_table(schema::MESSAGES)?;
        let mut from = self.next_of(0);
        let last = schema::message_key(queue, Position { inverse_priority: u8::MAX, arrival: u64::MAX });
        'seek: loop {
            for entry in table.range::<&MessageKey>(&schema::message_key(queue, from)..=&last)? {
                if self.messages.len() >= self.limit || self.bytes == 0 {
                    return Ok(End::Limit);
                }
                let (key, value) = entry?;
                let position = schema::position_of(key.value());
                let next = self.next_of(position.inverse_priority);
                if position < next {
                    // Messages of this priority were given and wait for their removal: go past them. That happens
                    // once for each priority, in a file that is not damaged.
                    if next <= from {
                        return Err(Fault::new("the file is damaged: messages are out of order"));
                    }
                    from = next;
                    continue 'seek;
                }
                match self.message(&transaction, key.value(), value.value()) {
                    Ok(message) => {
                        self.bytes = self.bytes.saturating_sub(message.frame.len());
                        self.messages.push(message);
                    }
                    Err(damage) => return Ok(End::Damaged(position, damage)),
                }
                if let Some(below) = self.given_below.get_mut(usize::from(position.inverse_priority)) {
                    *below = position.arrival.saturating_add(1);
                }
            }
            return Ok(End::Queue);
        }
    }

    /// The first position of a priority that was not given.
    fn next_of(&self, inverse_priority: u8) -> Position {
        let arrival = self.given_below.get(usize::from(inverse_priority)).copied().unwrap_or(0);
        Position { inverse_priority, arrival }
    }

    fn message(&self, transaction: &ReadTransaction, key: &MessageKey, value: &[u8]) -> Result<StoredMessage, Damage> {
        let row = Row::decode(key, value).map_err(Damage::Row)?;
        let position = schema::position_of(key);
        let frame = if row.head.slices == 0 {
            Bytes::copy_from_slice(row.inline)
        } else {
            let slices = transaction.open_table(schema::SLICES)?;
            let mut frame = BytesMut::with_capacity(row.head.length as usize);
            for number in 0..row.head.slices {
                let slice = slices.get(&schema::slice_key(row.head.body, number))?;
                let slice = slice.ok_or(Damage::Row("a slice of it is missing"))?;
                frame.extend_from_slice(slice.value());
            }
            frame.extend_from_slice(row.inline);
            frame.freeze()
        };
        if frame.len() != row.head.length as usize {
            return Err(Damage::Row("it is not as long as its head says"));
        }
        if crc32fast::hash(&frame) != row.head.checksum {
            return Err(Damage::Row("the checksum of the frame is wrong"));
        }
        Ok(StoredMessage {
            position,
            frame,
            received_at: row.head.received_at,
            may_be_repeated: row.head.may_be_repeated || position.arrival < self.repeated_below,
            marks: row.head.marks,
            reason: row.reason().map_err(Damage::Row)?,
        })
    }
}

/// When the message at the head of the queue came.
pub(super) fn oldest(shared: &Shared, queue: QueueId) -> Result<Option<u64>, StoreError> {
    let engine = shared.engine.read().unwrap_or_else(PoisonError::into_inner);
    let Some(engine) = engine.as_ref() else { return Err(shared.not_open()) };
    let end = |inverse_priority, arrival| schema::message_key(queue, Position { inverse_priority, arrival });
    let head = guarded(|| {
        let table = engine.get()?.begin_read()?.open_table(schema::MESSAGES)?;
        let Some(entry) = table.range::<&MessageKey>(&end(0, 0)..=&end(u8::MAX, u64::MAX))?.next() else {
            return Ok(None);
        };
        let (key, value) = entry?;
        let received_at = Row::decode(key.value(), value.value()).map(|row| row.head.received_at);
        Ok(Some((schema::position_of(key.value()), received_at)))
    });
    match head {
        Ok(None) => Ok(None),
        Ok(Some((_, Ok(received_at)))) => Ok(Some(received_at)),
        Ok(Some((position, Err(why)))) => Err(shared.unreadable(position, Damage::Row(why))),
        Err(fault) => {
            shared.suspect();
            Err(shared.place.failed(&fault.why))
        }
    }
}
