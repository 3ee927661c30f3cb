//! One batch of requests, applied to the tables within the writer's transaction.
//!
//! Requests are taken in order, so that quotas and duplicates are judged as if each had its own transaction. Rows
//! that come are collected and put in at the end, sorted: the engine then packs its pages and touches each once.

use std::ops::Range;

use bytes::Bytes;
use redb::{ReadableTable, Table, WriteTransaction};

use super::database::Fault;
use super::depth::Ledger;
use super::foreign::ForeignHistory;
use super::history::History;
use super::line::Request;
use super::schema::{self, Head, MessageKey, Row, cut};
use super::{Enqueued, Foreign, NewMessage, Position, QueueId, SetAside, StoreError};

/// Whether quotas are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    WithinQuotas,
    AsMuchAsThereIs,
}

/// Positions further apart are sought one by one; nearer ones are found by walking over what is between.
const NEAR: u64 = 32;

/// What the writer knows beside the database, and what it needs for every batch.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    pub(super) history: History,
    pub(super) foreign: ForeignHistory,
    /// Bytes that all queues together may hold.
    pub(super) quota: u64,
    /// What the volume has left, as far as that can be known.
    pub(super) volume: Option<Volume>,
    /// Messages that arrived before may have been published before.
    pub(super) repeated_below: u64,
    /// The next of the numbers that are given out, and whether that has changed in this batch.
    pub(super) ordinals: Ordinals,
}

/// Space on the volume of the store. Removals need some too: what is reserved is not given to messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) free: u64,
    pub(super) reserve: u64,
}

/// Numbers for messages of our own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ordinals {
    pub(super) next: u32,
    pub(super) changed: bool,
}

impl Volume {
    /// The file does not shrink: what was removed from it is room for what comes. How much that is the engine does not
    /// say cheaply; this is what is surely there.
    pub(super) fn with_free_pages(self, allocated: u64, content: &Content) -> Self {
        /// Tables, the engine's own books, and the pages that a transaction changes before the old ones are free.
        const FIXED: u64 = 2 << 20;
        /// A message's row with what is lost at the ends of pages; its frame takes 1.6 times its bytes at the most.
        const EACH: u64 = 128;
        /// A row of a history.
        const ROW: u64 = 96;
        let used = (content.bytes / 5)
            .saturating_mul(8)
            .saturating_add(content.messages.saturating_mul(EACH))
            .saturating_add(content.history_rows.saturating_mul(ROW))
            .saturating_add(FIXED);
        Self { free: self.free.saturating_add(allocated.saturating_sub(used)), ..self }
    }
}

/// What the file holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) history_rows: u64,
}

impl Books {
    /// What the file holds.
    pub(super) fn content(&self) -> Content {
        let history_rows = self.history.rows() as u64 + self.foreign.rows() as u64;
        Content { bytes: self.ledger.bytes(), messages: self.ledger.messages(), history_rows }
    }

    fn changed(&self) -> bool {
        self.ordinals.changed
            || self.foreign.is_changed()
            || self.ledger.changed().next().is_some()
            || self.history.changed().next().is_some()
    }

    /// 0 is left out, and no run of numbers goes over the end.
    fn take_ordinals(&mut self, count: u32) -> u32 {
        let first = self.ordinals.next.max(1);
        let (first, next) = match first.checked_add(count) {
            Some(next) => (first, next),
            None => (1, count.saturating_add(1)),
        };
        self.ordinals = Ordinals { next, changed: true };
        first
    }
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Store(Result<Enqueued, StoreError>),
    Done(Result<(), StoreError>),
    OpenQueue(Result<QueueId, StoreError>),
    Expire(usize),
    TakeOrdinals(u32),
}

impl Request {
    /// Tells whoever asked.
    pub(super) fn settle(self, outcome: Outcome) {
        match (self, outcome) {
            (Self::Store { done, .. }, Outcome::Store(result)) => done(result),
            (Self::Remove { done, .. } | Self::Move { done, .. }, Outcome::Done(result)) => done(result),
            (Self::OpenQueue { done, .. }, Outcome::OpenQueue(result)) => done(result),
            (Self::Expire { done, .. }, Outcome::Expire(rows)) => done(Ok(rows)),
            (Self::TakeOrdinals { done, .. }, Outcome::TakeOrdinals(first)) => done(Ok(first)),
            (request, outcome) => request.fail(StoreError::Disk(format!("{outcome:?} is no answer to the request"))),
        }
    }

    /// Tells whoever asked that nothing was done, or that it is not known to be on disk.
    pub(super) fn fail(self, error: StoreError) {
        match self {
            Self::Store { message, done } => {
                if let Some(stream) = &message.stream {
                    stream.break_off();
                }
                done(Err(error));
            }
            Self::Remove { done, .. } | Self::Move { done, .. } => done(Err(error)),
            Self::OpenQueue { done, .. } => done(Err(error)),
            Self::Expire { done, .. } => done(Err(error)),
            Self::TakeOrdinals { done, .. } => done(Err(error)),
        }
    }
}

/// Applies the requests; `None` when they change nothing, so that there is nothing to commit.
///
/// `rows` is scratch space.
pub(super) fn apply(
    transaction: &WriteTransaction,
    books: &mut Books,
    rows: &mut Vec<u8>,
    requests: &[Request],
) -> Result<(Vec<Outcome>, bool), Fault> {
    rows.clear();
    let mut batch = Batch {
        messages: transaction.open_table(schema::MESSAGES)?,
        books,
        rows,
        new_rows: Vec::with_capacity(requests.len()),
        new_slices: Vec::new(),
        dropped_slices: Vec::new(),
    };
    let mut outcomes = Vec::with_capacity(requests.len());
    for request in requests {
        outcomes.push(match request {
            Request::Store { message, .. } => Outcome::Store(batch.store_in_stream(message)),
            Request::Remove { queue, positions, companions, .. } => {
                batch.remove(*queue, positions)?;
                batch.accompany(companions);
                Outcome::Done(Ok(()))
            }
            Request::Move { from, position, to, why, companions, .. } => {
                let moved = batch.relocate(*from, *position, *to, why.as_ref())?;
                if moved.is_ok() {
                    batch.accompany(companions);
                }
                Outcome::Done(moved)
            }
            Request::TakeOrdinals { count, .. } => Outcome::TakeOrdinals(batch.books.take_ordinals(*count)),
            Request::OpenQueue { name, .. } => Outcome::OpenQueue(batch.open_queue(name)),
            Request::Expire { now, .. } => Outcome::Expire(batch.books.history.expire(*now)),
        });
    }
    let changed = batch.books.changed();
    if changed {
        batch.write(transaction)?;
    }
    Ok((outcomes, changed))
}

struct Batch<'t, 'r> {
    messages: Table<'t, &'static MessageKey, &'static [u8]>,
    books: &'r mut Books,
    rows: &'r mut Vec<u8>,
    /// Rows to be put in: their place in `rows`.
    new_rows: Vec<(MessageKey, Range<usize>)>,
    /// Slices to be put in: body, frame, where to cut it.
    new_slices: Vec<(u64, &'r Bytes, Vec<Range<usize>>)>,
    /// Slices of messages that were removed: body and number.
    dropped_slices: Vec<(u64, u16)>,
}

impl<'r> Batch<'_, 'r> {
    /// Stores what goes with a message or with its removal. An acknowledgment that can't be stored is no reason to
    /// refuse what it acknowledges: it is missing, and that is logged.
    fn accompany(&mut self, companions: &'r [NewMessage]) {
        for companion in companions {
            if let Err(error) = self.store(companion, Room::AsMuchAsThereIs) {
                tracing::warn!(event = "companion_not_stored", reason = %error, "an acknowledgment could not be stored and is lost");
            }
        }
    }

    /// Nothing of a stream is stored behind a gap.
    fn store_in_stream(&mut self, message: &'r NewMessage) -> Result<Enqueued, StoreError> {
        let Some(stream) = &message.stream else { return self.store(message, Room::WithinQuotas) };
        if stream.is_broken() {
            return Err(StoreError::Interrupted);
        }
        let result = self.store(message, Room::WithinQuotas);
        let breaks = match &result {
            Ok(_) => false,
            Err(StoreError::QueueFull { .. }) => !stream.passes_full_queues,
            Err(_) => true,
        };
        if breaks {
            stream.break_off();
        }
        result
    }

    fn store(&mut self, message: &'r NewMessage, room: Room) -> Result<Enqueued, StoreError> {
        let Books { ledger, history, foreign, quota, volume, .. } = &mut *self.books;
        let account = ledger.account(message.queue).ok_or(StoreError::NoSuchQueue(message.queue))?;
        if let Some(id) = message.duplicate_key
            && history.recall(id, message.received_at)
        {
            return Ok(Enqueued::Duplicate);
        }
        if let Some(Foreign { key, may_be_repeated: true }) = &message.foreign
            && foreign.knows(key)
        {
            return Ok(Enqueued::Duplicate);
        }
        let length = u32::try_from(message.frame.len())
            .map_err(|_| StoreError::Disk(format!("a frame of {} bytes is too long", message.frame.len())))?;
        let bytes = u64::from(length);
        if let Some(Volume { free, reserve }) = volume {
            // Pages, copies of the tree and what else goes with a message take as much again.
            let left = free.saturating_sub(2 * bytes);
            if left < *reserve {
                return Err(StoreError::VolumeFull { free: *free, reserve: *reserve });
            }
            *free = left;
        }
        let limited = room == Room::WithinQuotas;
        if limited && ledger.bytes().saturating_add(bytes) > *quota {
            return Err(StoreError::Full { used: ledger.bytes(), quota: *quota });
        }
        // What accompanies a message keeps to the quota of its own queue, and may fill the store beyond its own.
        if account.bytes().saturating_add(bytes) > message.queue_quota {
            return Err(StoreError::QueueFull { used: account.bytes(), quota: message.queue_quota });
        }
        let arrival = ledger.add(message.queue, bytes).ok_or(StoreError::NoSuchQueue(message.queue))?;
        if let Some(id) = message.duplicate_key {
            history.remember(id, message.received_at);
        }
        if let Some(Foreign { key, .. }) = message.foreign {
            foreign.remember(key);
        }
        let position = Position { inverse_priority: schema::LOWEST - message.priority.min(schema::LOWEST), arrival };
        let slices = cut::slices(message.frame.len());
        let head = Head {
            may_be_repeated: false,
            marks: message.marks,
            slices: slices.len() as u16,
            length,
            received_at: message.received_at,
            body: arrival,
            checksum: crc32fast::hash(&message.frame),
        };
        let inline = message.frame.get(slices.last().map_or(0, |last| last.end)..).unwrap_or_default();
        self.put(schema::message_key(message.queue, position), head, None, inline);
        if !slices.is_empty() {
            self.new_slices.push((arrival, &message.frame, slices));
        }
        self.accompany(&message.companions);
        Ok(Enqueued::Stored(position))
    }

    fn put(&mut self, key: MessageKey, head: Head, reason: Option<&SetAside>, inline: &[u8]) {
        let start = self.rows.len();
        schema::encode_row(self.rows, &key, head, reason, inline);
        self.new_rows.push((key, start..self.rows.len()));
    }

    fn remove(&mut self, queue: QueueId, positions: &[Position]) -> Result<(), Fault> {
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        positions.dedup();
        let mut removed = Vec::with_capacity(positions.len());
        let near =
            |a: &Position, b: &Position| a.inverse_priority == b.inverse_priority && b.arrival - a.arrival <= NEAR;
        for run in positions.chunk_by(near) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (first, last) = (schema::message_key(queue, *first), schema::message_key(queue, *last));
            let mut wanted = run;
            self.messages.retain_in::<&MessageKey, _>(&first..=&last, |key, value| {
                let position = schema::position_of(key);
                while let [gone, rest @ ..] = wanted
                    && *gone < position
                {
                    wanted = rest;
                }
                if wanted.first() != Some(&position) {
                    return true;
                }
                // The length of a row that can't be read is not known. Its slices are left behind.
                removed.push(Row::decode(key, value).ok().map(|row| row.head));
                false
            })?;
        }
        for head in removed {
            self.books.ledger.subtract(queue, head.map_or(0, |head| u64::from(head.length)));
            if let Some(head) = head.filter(|head| head.slices > 0) {
                self.dropped_slices.push((head.body, head.slices));
            }
        }
        Ok(())
    }

    fn relocate(
        &mut self,
        from: QueueId,
        position: Position,
        to: QueueId,
        why: Option<&SetAside>,
    ) -> Result<Result<(), StoreError>, Fault> {
        if self.books.ledger.account(to).is_none() {
            return Ok(Err(StoreError::NoSuchQueue(to)));
        }
        let key = schema::message_key(from, position);
        let Some(value) = self.messages.get(&key)?.map(|value| value.value().to_vec()) else {
            return Ok(Ok(()));
        };
        let row = match Row::decode(&key, &value) {
            Ok(row) => row,
            Err(reason) => return Ok(Err(StoreError::Unreadable { position, reason: reason.to_owned() })),
        };
        let bytes = u64::from(row.head.length);
        let Some(arrival) = self.books.ledger.add(to, bytes) else { return Ok(Err(StoreError::NoSuchQueue(to))) };
        self.books.ledger.subtract(from, bytes);
        self.messages.remove(&key)?;
        let head = Head {
            may_be_repeated: row.head.may_be_repeated || position.arrival < self.books.repeated_below,
            ..row.head
        };
        let moved = Position { inverse_priority: position.inverse_priority, arrival };
        self.put(schema::message_key(to, moved), head, why, row.inline);
        Ok(Ok(()))
    }

    fn open_queue(&mut self, name: &str) -> Result<QueueId, StoreError> {
        self.books.ledger.queue(name).ok_or_else(|| StoreError::Disk("there are too many queues".to_owned()))
    }

    /// Puts in what was collected, and the changed books.
    fn write(mut self, transaction: &WriteTransaction) -> Result<(), Fault> {
        self.new_rows.sort_unstable_by_key(|(key, _)| *key);
        // Of one queue and priority the new rows follow each other, and all that are there.
        let same_queue_and_priority =
            |a: &(MessageKey, Range<usize>), b: &(MessageKey, Range<usize>)| a.0[..5] == b.0[..5];
        for run in self.new_rows.chunk_by(same_queue_and_priority) {
            let Some((first, _)) = run.first() else { continue };
            let mut cursor = self.messages.upper_bound_mut(std::ops::Bound::Included(first))?;
            for (key, place) in run {
                let row = self.rows.get(place.clone()).unwrap_or_default();
                cursor.insert_before(key, row)?;
            }
            cursor.close()?;
        }
        if !self.new_slices.is_empty() || !self.dropped_slices.is_empty() {
            let mut slices = transaction.open_table(schema::SLICES)?;
            for (body, count) in &self.dropped_slices {
                let (first, end) = (schema::slice_key(*body, 0), schema::slice_key(*body, *count));
                slices.retain_in::<&schema::SliceKey, _>(&first..&end, |_, _| false)?;
            }
            let mut cursor = slices.upper_bound_mut(std::ops::Bound::<&schema::SliceKey>::Unbounded)?;
            for (body, frame, cuts) in &self.new_slices {
                for (number, cut) in (0..).zip(cuts) {
                    let slice = frame.get(cut.clone()).unwrap_or_default();
                    cursor.insert_before(&schema::slice_key(*body, number), slice)?;
                }
            }
            cursor.close()?;
        }
        if self.books.ordinals.changed {
            let next = u64::from(self.books.ordinals.next);
            transaction.open_table(schema::META)?.insert(schema::META_NEXT_ORDINAL, next)?;
        }
        if self.books.foreign.is_changed() {
            let mut table = transaction.open_table(schema::FOREIGN)?;
            if let Some(below) = self.books.foreign.dropped_below() {
                table.retain_in(..below, |_, _| false)?;
            }
            for (number, key) in self.books.foreign.added() {
                table.insert(number, key)?;
            }
        }
        let mut queues = transaction.open_table(schema::QUEUES)?;
        for (queue, row) in self.books.ledger.changed() {
            queues.insert(queue, row.encode().as_slice())?;
        }
        let mut changed_runs = self.books.history.changed().peekable();
        if changed_runs.peek().is_some() {
            let mut history = transaction.open_table(schema::HISTORY)?;
            for (key, row) in changed_runs {
                match row {
                    Some(row) => history.insert(&key, &row)?,
                    None => history.remove(&key)?,
                };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_from_the_file_is_room_again() {
        const MIB: u64 = 1 << 20;
        let volume = Volume { free: 3 * MIB, reserve: 2 * MIB };
        let free = |bytes, messages| {
            let content = Content { bytes, messages, history_rows: 1000 };
            volume.with_free_pages(44 * MIB, &content).free / MIB
        };
        assert_eq!(free(40 * MIB, 400), 3, "a full file has no room");
        assert_eq!(free(20 * MIB, 200), 12);
        assert_eq!(free(0, 0), 44, "an emptied one has nearly all of it");
        assert_eq!(free(u64::MAX, u64::MAX), 3);
    }
}
