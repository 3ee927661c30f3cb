//! The only place that opens a write transaction: one thread, and group commit without a timer.
//!
//! The writer takes everything that waits, applies it in one transaction, commits, and tells whoever asked. While it
//! syncs, the next batch gathers; so a batch is as large as the disk is slow, and one message alone waits for nothing.
//!
//! A failed commit fails its whole batch, and may nevertheless have reached the disk. The engine does nothing more
//! after an error of the disk, so the writer opens the database anew, reads its books from it, and goes on. When that
//! fails, or the next batch does, it backs off; what comes meanwhile is refused at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redb::{Durability, ReadTransaction, ReadableDatabase, ReadableTable, TableError, TableHandle, WriteTransaction};

use super::batch::{self, Books, Ordinals, Outcome};
use super::database::{Engine, Fault, Place, guarded};
use super::depth::Ledger;
use super::foreign::ForeignHistory;
use super::history::History;
use super::line::{Closing, Request, Work};
use super::schema::{self, QueueRow};
use super::{Shared, StoreError, StoreOptions};

/// How often a writer that backs off looks at what waits.
const TICK: Duration = Duration::from_millis(25);
/// Ticks of the first back-off, and of the longest: 50 ms and 3.2 s.
const FIRST_BACK_OFF: u32 = 2;
const LONGEST_BACK_OFF: u32 = 128;
/// Scratch space kept between batches.
const SCRATCH_BYTES: usize = 1 << 20;

/// Makes the database ready to be served: makes its tables when it is new, and notes durably that it is open.
pub(super) fn prepare(engine: &Engine, place: &Place, options: &StoreOptions) -> Result<Books, StoreError> {
    guarded(|| prepare_or_refuse(engine, options)).map_err(|fault| place.failed(&fault.why))
}

fn prepare_or_refuse(engine: &Engine, options: &StoreOptions) -> Result<Books, Fault> {
    let transaction = begin(engine)?;
    let is_ours = transaction.list_tables()?.any(|table| table.name() == schema::META.name());
    if !is_ours && transaction.list_tables()?.next().is_some() {
        return Err(Fault::new("it is a database of another program"));
    }
    let ledger;
    let repeated_below;
    let ordinals;
    {
        let mut meta = transaction.open_table(schema::META)?;
        let number = |value: Option<redb::AccessGuard<'_, u64>>| value.map(|value| value.value());
        let version = number(meta.get(schema::META_VERSION)?);
        if let Some(version) = version.filter(|version| *version != schema::VERSION) {
            return Err(Fault::new(format!(
                "it was written by a later version of mqbridge, in format {version}; this one reads format {}",
                schema::VERSION
            )));
        }
        ledger = read_ledger(&transaction.open_table(schema::QUEUES)?)?;
        let is_new = version.is_none();
        let is_clean = number(meta.get(schema::META_CLEAN)?) == Some(1);
        repeated_below = if is_new || is_clean {
            number(meta.get(schema::META_REPEATED_BELOW)?).unwrap_or(0)
        } else {
            ledger.next_arrival()
        };
        ordinals = read_ordinals(&meta)?;
        meta.insert(schema::META_VERSION, schema::VERSION)?;
        meta.insert(schema::META_CLEAN, 0)?;
        meta.insert(schema::META_REPEATED_BELOW, repeated_below)?;
        transaction.open_table(schema::MESSAGES)?;
        transaction.open_table(schema::SLICES)?;
    }
    let history = read_history(&transaction.open_table(schema::HISTORY)?, options)?;
    let foreign = read_foreign(&transaction.open_table(schema::FOREIGN)?)?;
    transaction.commit()?;
    Ok(Books { ledger, history, foreign, quota: options.quota, volume: None, repeated_below, ordinals })
}

fn begin(engine: &Engine) -> Result<WriteTransaction, Fault> {
    let mut transaction = engine.get()?.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    // Opening after a crash then takes milliseconds however much is stored, and a commit is two-phase: when the first
    // sync fails the last state stands, when the second fails everything the new one refers to is on disk.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn read_ordinals(meta: &impl ReadableTable<&'static str, u64>) -> Result<Ordinals, Fault> {
    let next = meta.get(schema::META_NEXT_ORDINAL)?.map_or(1, |next| next.value());
    Ok(Ordinals { next: u32::try_from(next).unwrap_or(1), changed: false })
}

fn read_ledger(queues: &impl ReadableTable<u32, &'static [u8]>) -> Result<Ledger, Fault> {
    let mut rows = Vec::new();
    for entry in queues.iter()? {
        let (queue, row) = entry?;
        let row = QueueRow::decode(row.value())
            .map_err(|why| Fault::new(format!("the row of queue {} can't be read: {why}", queue.value())))?;
        rows.push((queue.value(), row));
    }
    Ok(Ledger::from_rows(rows))
}

fn read_history(
    table: &impl ReadableTable<&'static schema::HistoryKey, &'static schema::HistoryRow>,
    options: &StoreOptions,
) -> Result<History, Fault> {
    let mut history = History::new(options.history_lifetime.as_secs(), options.history_rows);
    for entry in table.iter()? {
        let (key, row) = entry?;
        history.load(key.value(), row.value());
    }
    Ok(history)
}

fn read_foreign(table: &impl ReadableTable<u64, &'static super::foreign::ForeignKey>) -> Result<ForeignHistory, Fault> {
    let mut history = ForeignHistory::default();
    for entry in table.iter()? {
        let (number, key) = entry?;
        history.load(number.value(), *key.value());
    }
    Ok(history)
}

/// The writer's thread.
pub(super) struct Writer {
    shared: Arc<Shared>,
    options: StoreOptions,
    books: Books,
    scratch: Vec<u8>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, options: StoreOptions, books: Books) -> Self {
        Self { shared, options, books, scratch: Vec::new() }
    }

    /// Serves until the store is closed and everything that was submitted is done.
    pub(super) fn run(mut self) {
        self.shared.line.serve_on_this_thread();
        let mut failures = 0;
        loop {
            let batch = match self.shared.line.take() {
                Work::Batch(batch) => batch,
                Work::Close(closing) => return self.close(closing),
            };
            if self.shared.suspect.swap(false, Ordering::AcqRel)
                && let Err(error) = self.reopen()
            {
                refuse(batch, &error);
                self.recover(&mut failures, error);
                continue;
            }
            let batch = self.refuse_without_file(batch);
            if batch.is_empty() {
                continue;
            }
            match self.write(&batch) {
                Ok(outcomes) => {
                    failures = 0;
                    for (request, outcome) in batch.into_iter().zip(outcomes) {
                        undisturbed(|| request.settle(outcome));
                    }
                }
                Err(error) => {
                    let (messages, others): (Vec<_>, Vec<_>) =
                        batch.into_iter().partition(|request| matches!(request, Request::Store { .. }));
                    refuse(messages, &error);
                    let rest = self.write_one_by_one(others);
                    if rest.as_ref().is_some_and(Vec::is_empty) {
                        tracing::error!(event = "store_failed", reason = %error, "messages could not be stored; removals could");
                        failures = 0;
                        continue;
                    }
                    refuse(rest.unwrap_or_default(), &error);
                    self.recover(&mut failures, error);
                }
            }
        }
    }

    /// Whoever acknowledges what is put into a file that nobody will find again loses it. Removals from it may go on.
    fn refuse_without_file(&self, batch: Vec<Request>) -> Vec<Request> {
        let is_message = |request: &Request| matches!(request, Request::Store { .. });
        if !batch.iter().any(is_message) {
            return batch;
        }
        let Err(error) = self.shared.look_for_file() else { return batch };
        let (messages, others) = batch.into_iter().partition(is_message);
        refuse(messages, &error);
        others
    }

    /// On a full disk a removal may go through that the messages of its batch kept from it, and then makes room. Gives
    /// back what did not; `None` when there was nothing to try.
    fn write_one_by_one(&mut self, requests: Vec<Request>) -> Option<Vec<Request>> {
        if requests.is_empty() {
            return None;
        }
        let mut requests = requests.into_iter();
        if self.reopen().is_ok() {
            while let Some(request) = requests.next() {
                let Ok(outcomes) = self.write(std::slice::from_ref(&request)) else {
                    return Some(std::iter::once(request).chain(requests).collect());
                };
                if let Some(outcome) = outcomes.into_iter().next() {
                    undisturbed(|| request.settle(outcome));
                }
            }
        }
        Some(requests.collect())
    }

    /// Applies a batch and commits it.
    fn write(&mut self, batch: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let transaction = if let Ok(transaction) = guarded(|| self.begin()) {
            transaction
        } else {
            // A reader has met an error, say. Nothing of this batch has been tried yet.
            self.reopen()?;
            guarded(|| self.begin()).map_err(|fault| self.failed(&fault))?
        };
        if batch.iter().any(|request| matches!(request, Request::Store { .. })) {
            let allocated = self.shared.place.allocated();
            self.books.volume =
                self.shared.place.volume().map(|volume| volume.with_free_pages(allocated, &self.books.content()));
        }
        let (books, scratch) = (&mut self.books, &mut self.scratch);
        let result = guarded(|| {
            let (outcomes, changed) = batch::apply(&transaction, books, scratch, batch)?;
            if changed {
                transaction.commit()?;
            } else {
                transaction.abort()?;
            }
            Ok((outcomes, changed))
        });
        scratch.clear();
        scratch.shrink_to(SCRATCH_BYTES);
        let (outcomes, changed) = result.map_err(|fault| self.failed(&fault))?;
        if changed {
            self.shared.commits.fetch_add(1, Ordering::Relaxed);
            self.books.history.saved();
            self.books.foreign.saved();
            self.books.ordinals.changed = false;
            self.books.ledger.publish(&self.shared.queues);
        }
        Ok(outcomes)
    }

    fn begin(&self) -> Result<WriteTransaction, Fault> {
        let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        begin(engine.as_ref().ok_or_else(|| Fault::new("the database is not open"))?)
    }

    /// After a failed batch: opens the database anew. Waits before that, longer each time, when the batch before
    /// failed too, and refuses what comes meanwhile.
    fn recover(&mut self, failures: &mut u32, mut error: StoreError) {
        loop {
            tracing::error!(
                event = "store_failed",
                reason = %error,
                attempt = *failures + 1,
                "the store could not write; nothing is acknowledged until it can"
            );
            if *failures > 0 && !self.back_off(*failures, &error) {
                return;
            }
            *failures = failures.saturating_add(1);
            match self.reopen() {
                Ok(()) => return,
                Err(again) => error = again,
            }
        }
    }

    /// False when the store is being closed.
    fn back_off(&self, failures: u32, error: &StoreError) -> bool {
        let ticks = FIRST_BACK_OFF.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_BACK_OFF);
        for _ in 0..ticks {
            let (batch, closed) = self.shared.line.drain();
            refuse(batch, error);
            if closed {
                return false;
            }
            self.shared.line.pause(TICK);
        }
        true
    }

    /// Opens the database anew and reads the books from it.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.shared.look_for_file()?;
        drop(self.shared.engine.write().unwrap_or_else(PoisonError::into_inner).take());
        let books = &mut self.books;
        let result = guarded(|| {
            let engine = self.shared.place.reopen().map_err(|error| Fault::new(error.to_string()))?;
            let transaction = engine.get()?.begin_read()?;
            check_version(&transaction)?;
            let mut ledger = read_ledger(&transaction.open_table(schema::QUEUES)?)?;
            ledger.skip_arrivals(books.ledger.next_arrival());
            books.history = read_history(&transaction.open_table(schema::HISTORY)?, &self.options)?;
            books.foreign = read_foreign(&transaction.open_table(schema::FOREIGN)?)?;
            // What was given out before and did not reach the disk was told to nobody; what did is not given again.
            let next = read_ordinals(&transaction.open_table(schema::META)?)?.next.max(books.ordinals.next);
            books.ordinals = Ordinals { next, changed: false };
            books.ledger = ledger;
            transaction.close()?;
            Ok(engine)
        });
        let engine = result.map_err(|fault| self.failed(&fault))?;
        // The depths first, for what is read from now on must agree with them; and then the readers may look.
        self.books.ledger.publish_all(&self.shared.queues);
        *self.shared.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(engine);
        self.shared.queues.wake_all();
        tracing::info!(event = "store_reopened", place = %self.shared.place, "the store writes again");
        Ok(())
    }

    fn close(&mut self, closing: Option<Closing>) {
        let clean = closing.as_ref().is_some_and(|closing| closing.clean);
        let marked = guarded(|| {
            if clean {
                let transaction = self.begin()?;
                transaction.open_table(schema::META)?.insert(schema::META_CLEAN, 1)?;
                transaction.commit()?;
            }
            Ok(())
        });
        let engine = self.shared.engine.write().unwrap_or_else(PoisonError::into_inner).take();
        let closed = engine.ok_or_else(|| Fault::new("the database is not open")).and_then(Engine::close);
        self.shared.closed.store(true, Ordering::Release);
        self.shared.queues.wake_all();
        if let Some(closing) = closing {
            let result = marked.and(closed).map_err(|fault| self.failed(&fault));
            undisturbed(|| (closing.done)(result));
        }
    }

    fn failed(&self, fault: &Fault) -> StoreError {
        self.shared.place.failed(&fault.why)
    }
}

/// What is opened again must be what was open before.
fn check_version(transaction: &ReadTransaction) -> Result<(), Fault> {
    let meta = match transaction.open_table(schema::META) {
        Err(TableError::TableDoesNotExist(_)) => return Err(Fault::new("the file is another one than before")),
        meta => meta?,
    };
    match meta.get(schema::META_VERSION)?.map(|version| version.value()) {
        Some(schema::VERSION) => Ok(()),
        _ => Err(Fault::new("the file is another one than before")),
    }
}

fn refuse(batch: Vec<Request>, error: &StoreError) {
    for request in batch {
        undisturbed(|| request.fail(error.clone()));
    }
}

/// Calls back. One caller's panic must not keep the others from being told, nor end the writer.
fn undisturbed(call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        tracing::error!(event = "store_callback_panicked", "a caller of the store has panicked: please report this");
    }
}
