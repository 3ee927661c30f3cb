//! What must not be lost: the durable queues.
//!
//! One database (redb), one writer thread, group commit without a timer: while one commit is being synced the next
//! batch gathers. Only `writer.rs` opens a write transaction; redb's types stay in this room.
//!
//! * `schema` — what is on disk, byte by byte.
//! * `line` — what waits for the writer.
//! * `writer` — the thread: commits, and recovers when a commit fails. `batch` is what it does to the tables.
//! * [`Reader`] — reading in order, beside the writer and without waiting for it.
//! * `depth` — how full the queues are; `history` — which messages were seen.
//! * `database` — where the file is, and what goes in its place in tests.
//!
//! What [`Store::submit`] promises: once `done` is told [`Enqueued::Stored`], the message is read until it is removed,
//! byte for byte, whatever happens to the process or the power. When `done` is told an error the message may
//! nevertheless be on disk: an error of the disk leaves that open. The sender, who was not told either, sends again,
//! and the history knows the message if it is there.

mod batch;
mod database;
mod depth;
mod foreign;
mod history;
mod line;
mod reader;
mod schema;
mod writer;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::oneshot;

use self::database::{Engine, FileNumber, Place, guarded};
use self::depth::Queues;
use self::line::{Closing, Done, Line, Request};
use self::reader::Damage;
use self::writer::Writer;
use crate::mqqb::wire::MessageId;

pub use self::database::Medium;
pub use self::foreign::ForeignKey;
pub use self::reader::Reader;

/// The durable queues. Cheap to clone.
///
/// Dropping the last one finishes what was submitted and closes the file; that takes as long as the commit under way.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Arc<WriterThread>,
}

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

impl QueueId {
    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Where a message stands in its queue: higher priority first, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// 7 less the priority, so that positions sort in reading order.
    inverse_priority: u8,
    /// Running number over all queues, never used twice.
    arrival: u64,
}

impl Position {
    /// 0 to 7.
    pub fn priority(self) -> u8 {
        schema::LOWEST.saturating_sub(self.inverse_priority)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}, arrival {}", self.priority(), self.arrival)
    }
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
    /// For a message of a foreign system.
    pub foreign: Option<Foreign>,
    /// Four bits of the caller's own, kept with the message.
    pub marks: u8,
    /// Bytes that the queue may hold; beyond it the message is not taken.
    pub queue_quota: u64,
    /// The messages that it must not overtake.
    pub stream: Option<Stream>,
    /// Messages of our own that are stored with it, in the same transaction, when it is stored and is no duplicate:
    /// acknowledgments. No quota but that of their own queue stands in their way.
    pub companions: Vec<NewMessage>,
}

/// How a foreign system's message is told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Remembered with the message.
    pub key: ForeignKey,
    /// The foreign system says that it may have delivered it before: only then is it a duplicate when its key is known.
    /// Applications use identifiers twice.
    pub may_be_repeated: bool,
}

/// Messages that are stored in their order or not at all: after one that could not be stored, none of its stream is.
/// Whoever sent them sends them again, and in order.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    broken: Arc<AtomicBool>,
    passes_full_queues: bool,
}

impl Stream {
    /// A stream that is whole.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same stream, for a message that is refused for good when its queue is full, so that those behind it may go on.
    #[must_use]
    pub fn passing_full_queues(&self) -> Self {
        Self { broken: Arc::clone(&self.broken), passes_full_queues: true }
    }

    /// Whether a message of it could not be stored.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
    }
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
    /// What [`NewMessage::marks`] was.
    pub marks: u8,
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
    /// A message before it, of its stream, could not be stored.
    #[error("a message before it could not be stored")]
    Interrupted,
    /// The volume is nearly full: what is left is kept for removals.
    #[error("the volume of the store is nearly full: {free} bytes are free, and {reserve} are kept for removals")]
    VolumeFull {
        /// Bytes that are free.
        free: u64,
        /// Bytes that are kept.
        reserve: u64,
    },
    /// Another process has the state directory.
    #[error(
        "{place} is in use by another process{}; one bridge at a time can have a state directory",
        .pid.map_or_else(String::new, |pid| format!(", pid {pid}"))
    )]
    InUse {
        /// The file.
        place: String,
        /// Who has it, when that is known.
        pid: Option<u32>,
    },
    /// A message is damaged. It can be removed, and [`Reader::skip`] goes past it.
    #[error("the message at {position} can't be read: {reason}")]
    Unreadable {
        /// Where it stands.
        position: Position,
        /// In words.
        reason: String,
    },
    /// The number is not of a queue of this store.
    #[error("the store has no queue of number {}", .0.0)]
    NoSuchQueue(QueueId),
    /// The disk, or what is on it.
    #[error("the store failed: {0}")]
    Disk(String),
    /// The file is no longer where it was opened.
    #[error(
        "{0} has been deleted, moved or replaced while it was open: nothing more is acknowledged, and what was goes on \
         being forwarded from the open file. Move the file back to its place; if that can't be done, restart once \
         nothing waits any more"
    )]
    Missing(String),
    /// The writer has stopped.
    #[error("the store is closed")]
    Closed,
}

impl Store {
    /// Opens the store in the file `path`, making it when absent. Its directory must be there.
    ///
    /// # Errors
    /// When the file can't be made, read or locked, or is of a later version.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_place(Place::File(path.to_owned()), options)
    }

    /// Opens a store that is kept on something other than a file: memory, or a disk that fails on purpose. Nothing
    /// locks it.
    pub fn open_on(medium: Arc<dyn Medium>, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_place(Place::Medium(medium), options)
    }

    fn open_place(place: Place, options: StoreOptions) -> Result<Self, StoreError> {
        let (engine, is_new) = guarded(|| Ok(place.open())).map_err(|fault| place.failed(&fault.why))??;
        let books = writer::prepare(&engine, &place, &options)?;
        if is_new {
            place.settle()?;
        }
        place.note_owner();
        let shared = Arc::new(Shared {
            opened: place.file(),
            is_missing: AtomicBool::new(false),
            place,
            line: Line::default(),
            engine: RwLock::new(Some(engine)),
            queues: Queues::default(),
            repeated_below: books.repeated_below,
            suspect: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            commits: AtomicU64::new(0),
        });
        books.ledger.publish_all(&shared.queues);
        let writer = Writer::new(shared.clone(), options, books);
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || writer.run());
        let thread = thread.map_err(|error| shared.place.failed(&error))?;
        Ok(Self { writer: Arc::new(WriterThread { shared, handle: Mutex::new(Some(thread)) }) })
    }

    /// The queue of this name, made when absent. Names are compared without regard to case.
    ///
    /// A new queue takes a commit, which this waits for.
    pub fn queue(&self, name: &str) -> Result<QueueId, StoreError> {
        if let Some(queue) = self.writer.shared.queues.by_name(name) {
            return Ok(queue);
        }
        if self.writer.shared.line.on_the_writers_thread() {
            return Err(StoreError::Disk(format!("the queue {name} can't be made by what the writer calls back")));
        }
        let (told, outcome) = mpsc::sync_channel(1);
        let done: Done<QueueId> = Box::new(move |result| drop(told.send(result)));
        self.writer.shared.push(Request::OpenQueue { name: name.to_owned(), done });
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Stores a message; `done` is called on the writer's thread once it is on disk or has failed. Must be quick, and
    /// may submit.
    ///
    /// Waits for room when very much waits to be written: some 8000 messages, or 32 MiB. A task had better wait for
    /// [`Store::ready`] first. When the store is closed `done` is called at once.
    pub fn submit(&self, message: NewMessage, done: impl FnOnce(Result<Enqueued, StoreError>) + Send + 'static) {
        let request = Request::Store { message, done: Box::new(done) };
        if let Err(request) = self.writer.shared.line.push_when_there_is_room(request) {
            request.fail(StoreError::Closed);
        }
    }

    /// Resolves when [`Store::submit`] would not wait for room.
    pub fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = self.writer.shared.clone();
        async move { shared.line.room().await }
    }

    /// Removes messages; resolves when that is on disk. Those that are gone already are no error.
    ///
    /// They are removed even when the future is dropped.
    pub fn remove(
        &self,
        queue: QueueId,
        positions: Vec<Position>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        self.remove_with(queue, positions, Vec::new())
    }

    /// Removes messages and stores `companions` in the same transaction: what is said of their removal. No quota
    /// stands in the way of those.
    pub fn remove_with(
        &self,
        queue: QueueId,
        positions: Vec<Position>,
        companions: Vec<NewMessage>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        self.writer.shared.push(Request::Remove { queue, positions, companions, done });
        outcome
    }

    /// Takes `count` numbers that were never taken before and never will be again, whatever happens to the process;
    /// resolves to the first. They count modulo 2^32 and leave out 0.
    pub fn take_ordinals(&self, count: u32) -> impl Future<Output = Result<u32, StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        self.writer.shared.push(Request::TakeOrdinals { count, done });
        outcome
    }

    /// Moves a message to another queue, keeping its frame, in one transaction. One that is gone already is no error.
    /// No quota stands in the way.
    ///
    /// It is moved even when the future is dropped.
    pub fn set_aside(
        &self,
        from: QueueId,
        position: Position,
        to: QueueId,
        why: SetAside,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        self.set_aside_with(from, position, to, why, Vec::new())
    }

    /// Moves a message as [`Store::set_aside`] does and stores `companions` in the same transaction, as
    /// [`Store::remove_with`] does.
    pub fn set_aside_with(
        &self,
        from: QueueId,
        position: Position,
        to: QueueId,
        why: SetAside,
        companions: Vec<NewMessage>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        self.writer.shared.push(Request::Move { from, position, to, why: Some(why), companions, done });
        outcome
    }

    /// Moves a message that was set aside to a queue where it waits again, as [`Store::set_aside`] does the other way.
    pub fn requeue(
        &self,
        from: QueueId,
        position: Position,
        to: QueueId,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        self.writer.shared.push(Request::Move { from, position, to, why: None, companions: Vec::new(), done });
        outcome
    }

    /// Forgets messages last seen more than [`StoreOptions::history_lifetime`] before `now`, in seconds since 1970
    /// (UTC); resolves to the number of rows that went. To be called every minute or so: the store has no clock.
    pub fn expire_history(&self, now: u64) -> impl Future<Output = Result<usize, StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        self.writer.shared.push(Request::Expire { now, done });
        outcome
    }

    /// A reader that begins at the head of the queue.
    pub fn reader(&self, queue: QueueId) -> Reader {
        Reader::new(self.writer.shared.clone(), queue)
    }

    /// How full a queue is.
    pub fn depth(&self, queue: QueueId) -> Depth {
        self.writer.shared.queues.by_id(queue).map(|queue| queue.depth()).unwrap_or_default()
    }

    /// How full all queues together are.
    pub fn total_depth(&self) -> Depth {
        self.writer.shared.queues.depth()
    }

    /// When the message at the head of the queue came, seconds since 1970 (UTC).
    pub fn oldest(&self, queue: QueueId) -> Result<Option<u64>, StoreError> {
        reader::oldest(&self.writer.shared, queue)
    }

    /// All queues by name.
    pub fn queues(&self) -> Vec<(String, QueueId)> {
        self.writer.shared.queues.names()
    }

    /// Whether the file is still where it was opened: what is put into one that nobody will find again would be lost.
    /// Found out anyway with each message that comes; to be called every ten seconds or so for when none does. The log
    /// says it once.
    ///
    /// # Errors
    /// [`StoreError::Missing`], as long as it is not there.
    pub fn look_for_file(&self) -> Result<(), StoreError> {
        self.writer.shared.look_for_file()
    }

    /// Commits since the store was opened.
    pub fn commits(&self) -> u64 {
        self.writer.shared.commits.load(Ordering::Relaxed)
    }

    /// Finishes what was submitted and closes. `clean` says that nothing is in flight to a foreign system, so that
    /// the next start knows that no message was published before.
    ///
    /// Nothing more is taken from the call on, whether the future is awaited or not; when it resolves the file is
    /// free. Only the first call counts.
    pub fn close(&self, clean: bool) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, outcome) = answer();
        if let Err(Some(closing)) = self.writer.shared.line.close(Some(Closing { clean, done })) {
            (closing.done)(Err(StoreError::Closed));
        }
        outcome
    }
}

/// What a request tells, and the future of it.
fn answer<T: Send + 'static>() -> (Done<T>, impl Future<Output = Result<T, StoreError>> + Send + use<T>) {
    let (told, outcome) = oneshot::channel();
    let done: Done<T> = Box::new(move |result| drop(told.send(result)));
    (done, async move { outcome.await.unwrap_or(Err(StoreError::Closed)) })
}

/// What the handles, the readers and the writer's thread have in common.
struct Shared {
    place: Place,
    /// The file that was opened; `None` where there is none.
    opened: Option<FileNumber>,
    /// That file is not in its place, and the log has said so.
    is_missing: AtomicBool,
    line: Line,
    /// Absent while it is being opened anew, and after closing. The writer alone changes that.
    engine: RwLock<Option<Engine>>,
    queues: Queues,
    /// Messages that arrived before may have been published before.
    repeated_below: u64,
    /// A reader has met an error of the engine: the writer opens the database anew.
    suspect: AtomicBool,
    closed: AtomicBool,
    commits: AtomicU64,
}

impl Shared {
    fn push(&self, request: Request) {
        if let Err(request) = self.line.push(request) {
            request.fail(StoreError::Closed);
        }
    }

    fn suspect(&self) {
        self.suspect.store(true, Ordering::Release);
        self.line.nudge();
    }

    fn look_for_file(&self) -> Result<(), StoreError> {
        let is_missing = self.opened.is_some_and(|opened| self.place.has_lost(opened));
        let was_missing = self.is_missing.swap(is_missing, Ordering::AcqRel);
        if is_missing {
            let error = StoreError::Missing(self.place.to_string());
            if !was_missing {
                tracing::error!(event = "store_missing", reason = %error, "the store's file is gone; senders keep what they have");
            }
            return Err(error);
        }
        if was_missing {
            tracing::info!(event = "store_found", place = %self.place, "the store's file is in its place again");
        }
        Ok(())
    }

    /// Why there is no database.
    fn not_open(&self) -> StoreError {
        if self.closed.load(Ordering::Acquire) {
            StoreError::Closed
        } else {
            self.place.failed(&"it is being opened again after an error")
        }
    }

    fn unreadable(&self, position: Position, damage: Damage) -> StoreError {
        let why = match damage {
            Damage::Row(why) => why.to_owned(),
            Damage::Engine(fault) => fault.why,
        };
        StoreError::Unreadable { position, reason: format!("{}: {why}", self.place) }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Ends the writer's thread with the last handle.
#[derive(Debug)]
struct WriterThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // Closed already: then it is ending anyway.
        let _ = self.shared.line.close(None);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What is called back may hold the last handle; a thread can't wait for itself.
        if let Some(handle) = handle.filter(|_| !self.shared.line.on_the_writers_thread()) {
            let _ = handle.join();
        }
    }
}
