//! What waits for the writer. While one batch is being synced the next gathers here.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Enqueued, NewMessage, Position, QueueId, SetAside, StoreError};

/// Messages that may wait. Removals are not counted: they are bounded by what the readers gave out.
const MOST_MESSAGES: usize = 8192;
/// Bytes of frames that may wait.
const MOST_BYTES: usize = 32 << 20;
/// Requests of one batch, and bytes of its frames.
const BATCH_REQUESTS: usize = 4096;
const BATCH_BYTES: usize = 16 << 20;

/// Called with the outcome on the writer's thread.
pub(super) type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// Something to be written.
pub(super) enum Request {
    Store {
        message: NewMessage,
        done: Done<Enqueued>,
    },
    Remove {
        queue: QueueId,
        positions: Vec<Position>,
        companions: Vec<NewMessage>,
        done: Done<()>,
    },
    Move {
        from: QueueId,
        position: Position,
        to: QueueId,
        why: Option<SetAside>,
        companions: Vec<NewMessage>,
        done: Done<()>,
    },
    TakeOrdinals {
        count: u32,
        done: Done<u32>,
    },
    OpenQueue {
        name: String,
        done: Done<QueueId>,
    },
    Expire {
        now: u64,
        done: Done<usize>,
    },
}

impl Request {
    fn messages(&self) -> usize {
        usize::from(matches!(self, Self::Store { .. }))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Store { message, .. } => message.frame.len(),
            _ => 0,
        }
    }
}

/// How the store is to be closed.
pub(super) struct Closing {
    pub(super) clean: bool,
    pub(super) done: Done<()>,
}

/// What the writer does next.
pub(super) enum Work {
    /// These, in this order. May be empty, when the writer was nudged.
    Batch(Vec<Request>),
    /// There is nothing left, and nothing comes any more.
    Close(Option<Closing>),
}

#[derive(Default)]
pub(super) struct Line {
    waiting: Mutex<Waiting>,
    /// There is work.
    work: Condvar,
    /// There is room, for threads and for tasks.
    room: Condvar,
    room_for_tasks: Notify,
    writer: OnceLock<ThreadId>,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    messages: usize,
    bytes: usize,
    nudged: bool,
    closed: bool,
    closing: Option<Closing>,
}

impl Waiting {
    fn has_room(&self) -> bool {
        self.closed || (self.messages < MOST_MESSAGES && self.bytes < MOST_BYTES)
    }

    fn pop(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        self.messages -= request.messages();
        self.bytes -= request.bytes();
        Some(request)
    }
}

impl Line {
    /// The calling thread is the writer's: it never waits for room, which it alone makes.
    pub(super) fn serve_on_this_thread(&self) {
        let _ = self.writer.set(thread::current().id());
    }

    pub(super) fn on_the_writers_thread(&self) -> bool {
        self.writer.get() == Some(&thread::current().id())
    }

    /// Puts a message in, after waiting for room. Gives the request back when the store is closed.
    #[expect(clippy::result_large_err, reason = "the caller gets back what it gave")]
    pub(super) fn push_when_there_is_room(&self, request: Request) -> Result<(), Request> {
        let mut waiting = self.lock();
        if !self.on_the_writers_thread() {
            while !waiting.has_room() {
                waiting = self.room.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.push_locked(waiting, request)
    }

    /// Puts a request in that makes room, or little use of it. Gives it back when the store is closed.
    #[expect(clippy::result_large_err, reason = "the caller gets back what it gave")]
    pub(super) fn push(&self, request: Request) -> Result<(), Request> {
        self.push_locked(self.lock(), request)
    }

    #[expect(clippy::result_large_err, reason = "the caller gets back what it gave")]
    fn push_locked(&self, mut waiting: MutexGuard<'_, Waiting>, request: Request) -> Result<(), Request> {
        if waiting.closed {
            return Err(request);
        }
        waiting.messages += request.messages();
        waiting.bytes += request.bytes();
        waiting.requests.push_back(request);
        let first = waiting.requests.len() == 1;
        drop(waiting);
        if first {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Resolves when there is room, or the store is closed.
    pub(super) async fn room(&self) {
        loop {
            let mut notified = std::pin::pin!(self.room_for_tasks.notified());
            notified.as_mut().enable();
            if self.lock().has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Takes no more; what waits is done first. The first caller decides how.
    pub(super) fn close(&self, closing: Option<Closing>) -> Result<(), Option<Closing>> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(closing);
        }
        waiting.closed = true;
        waiting.closing = closing;
        drop(waiting);
        self.work.notify_one();
        self.room.notify_all();
        self.room_for_tasks.notify_waiters();
        Ok(())
    }

    /// Wakes the writer to look after the database.
    pub(super) fn nudge(&self) {
        self.lock().nudged = true;
        self.work.notify_one();
    }

    /// Waits for work and takes it: everything that waits, up to what a transaction should hold.
    pub(super) fn take(&self) -> Work {
        let mut waiting = self.lock();
        while waiting.requests.is_empty() && !waiting.closed && !waiting.nudged {
            waiting = self.work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.nudged = false;
        let batch = Self::take_locked(&mut waiting);
        if batch.is_empty() && waiting.closed {
            return Work::Close(waiting.closing.take());
        }
        drop(waiting);
        self.made_room();
        Work::Batch(batch)
    }

    /// Takes what waits without waiting for more; and whether the store is to close.
    pub(super) fn drain(&self) -> (Vec<Request>, bool) {
        let mut waiting = self.lock();
        let batch = Self::take_locked(&mut waiting);
        let closed = waiting.closed;
        drop(waiting);
        self.made_room();
        (batch, closed)
    }

    /// Waits this long, or until the store is closed.
    pub(super) fn pause(&self, how_long: Duration) {
        let waiting = self.lock();
        let result = self.work.wait_timeout_while(waiting, how_long, |waiting| !waiting.closed);
        drop(result.unwrap_or_else(PoisonError::into_inner));
    }

    fn take_locked(waiting: &mut Waiting) -> Vec<Request> {
        let mut batch = Vec::with_capacity(waiting.requests.len().min(BATCH_REQUESTS));
        let mut bytes = 0;
        while batch.len() < BATCH_REQUESTS && bytes < BATCH_BYTES {
            let Some(request) = waiting.pop() else { break };
            bytes += request.bytes();
            batch.push(request);
        }
        batch
    }

    fn made_room(&self) {
        self.room.notify_all();
        self.room_for_tasks.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
