//! What must not be lost: the durable queues.
//!
//! One database (redb), one writer thread, group commit without a timer: while one commit is being synced the next
//! batch gathers. Only `writer.rs` opens a write transaction; redb's types stay in this room.

use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use tokio::sync::watch;

use crate::mqqb::wire::MessageId;

/// The durable queues. Cheap to clone; the last one dropped stops the writer.
#[derive(Clone, Debug)]
pub struct Store {}

/// Limits of the store.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Bytes of messages in all queues together, beyond which nothing is taken.
    pub quota: u64,
    /// How long a message's id is remembered to recognise a resent one: 30 minutes by default (MS-MQQB 3.1.2.8).
    pub history_lifetime: std::time::Duration,
    /// At most this many history rows.
    pub history_rows: usize,
}

/// A queue of the store, by the number it has had since it was first opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub(crate) u32);

/// Where a message stands in its queue: higher priority first, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// 7 less the priority, so that positions sort in reading order.
    inverse_priority: u8,
    /// Running number over all queues, never used twice.
    arrival: u64,
}

/// A message to be stored.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Where to.
    pub queue: QueueId,
    /// 0 to 7.
    pub priority: u8,
    /// The packet, exactly as it came.
    pub frame: Bytes,
    /// Seconds since 1970 (UTC).
    pub received_at: u64,
    /// For the history of messages seen; `None` when duplicates are told by other means.
    pub duplicate_key: Option<MessageId>,
    /// Bytes that the queue may hold; beyond it the message is not taken.
    pub queue_quota: u64,
}

/// What became of a message that was to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// On disk.
    Stored(Position),
    /// The same message is on disk, or was until it was forwarded.
    Duplicate,
}

/// A message as it is read back.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    /// Where it stands.
    pub position: Position,
    /// The packet, exactly as it came.
    pub frame: Bytes,
    /// Seconds since 1970 (UTC).
    pub received_at: u64,
    /// It was in the store when the bridge started after a crash, so that it may have been published before
    /// without its removal being recorded.
    pub may_be_repeated: bool,
    /// Why it was set aside; `None` in a queue where it waits.
    pub reason: Option<SetAside>,
}

/// Why a message is in a dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The queue it came from.
    pub origin: String,
    /// The class that a sender would be told.
    pub class: u16,
    /// In words.
    pub reason: String,
    /// Seconds since 1970 (UTC).
    pub at: u64,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Errors of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store's quota.
    #[error("the store is full: {used} of {quota} bytes are in use")]
    Full {
        /// Bytes in use.
        used: u64,
        /// The limit.
        quota: u64,
    },
    /// The queue's quota.
    #[error("the queue is full: {used} of {quota} bytes are in use")]
    QueueFull {
        /// Bytes in use.
        used: u64,
        /// The limit.
        quota: u64,
    },
    /// Another process has the state directory.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// The disk, or what is on it.
    #[error("the store failed: {0}")]
    Disk(String),
    /// The writer has stopped.
    #[error("the store is closed")]
    Closed,
}

impl Store {
    /// Opens the store in `path`, making it when absent.
    ///
    /// # Errors
    /// When the file can't be made, read or locked, or is of a later version.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let _ = (path, options);
        todo!()
    }

    /// The queue of this name, made when absent. Names are compared without regard to case.
    pub fn queue(&self, name: &str) -> Result<QueueId, StoreError> {
        let _ = name;
        todo!()
    }

    /// Stores a message; `done` is called on the writer's thread once it is on disk or has failed. Must be quick.
    pub fn submit(&self, message: NewMessage, done: impl FnOnce(Result<Enqueued, StoreError>) + Send + 'static) {
        let _ = (message, &done);
        todo!()
    }

    /// Removes messages; resolves when that is on disk. Those that are gone already are no error.
    pub fn remove(
        &self,
        queue: QueueId,
        positions: Vec<Position>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let _ = (queue, positions);
        async { todo!() }
    }

    /// Moves a message to another queue, keeping its frame, in one transaction.
    pub fn set_aside(
        &self,
        from: QueueId,
        position: Position,
        to: QueueId,
        why: SetAside,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let _ = (from, position, to, why);
        async { todo!() }
    }

    /// A reader that begins at the head of the queue.
    pub fn reader(&self, queue: QueueId) -> Reader {
        let _ = queue;
        todo!()
    }

    /// How full a queue is.
    pub fn depth(&self, queue: QueueId) -> Depth {
        let _ = queue;
        todo!()
    }

    /// When the message at the head of the queue came, seconds since 1970 (UTC).
    pub fn oldest(&self, queue: QueueId) -> Result<Option<u64>, StoreError> {
        let _ = queue;
        todo!()
    }

    /// All queues by name.
    pub fn queues(&self) -> Vec<(String, QueueId)> {
        todo!()
    }

    /// Finishes what was submitted and closes. `clean` says that nothing is in flight to a foreign system, so that
    /// the next start knows that no message was published before.
    pub fn close(&self, clean: bool) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let _ = clean;
        async { todo!() }
    }
}

/// Reads a queue in order: priority first, then arrival. A message is given once, until [`Reader::rewind`].
#[derive(Debug)]
pub struct Reader {
    arrivals: watch::Receiver<u64>,
}

impl Reader {
    /// The next messages, at most `limit` and about `bytes` of them (at least one); empty when there are none.
    pub fn next(&mut self, limit: usize, bytes: usize) -> Result<Vec<StoredMessage>, StoreError> {
        let _ = (limit, bytes);
        todo!()
    }

    /// Waits until a message may have come that was not given yet. Cancel safe.
    pub async fn wait(&mut self) {
        let _ = self.arrivals.changed().await;
        todo!()
    }

    /// Begins at the head again: what was given and not removed is given again.
    pub fn rewind(&mut self) {
        todo!()
    }
}
