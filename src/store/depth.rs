//! How full the queues are: the writer's own books, and what everybody else sees of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::schema::QueueRow;
use super::{Depth, QueueId};

/// The writer's books. They run ahead of the disk within a batch; when its commit fails they are read from the disk
/// again.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<u32, Account>,
    by_name: HashMap<String, QueueId>,
    /// Bytes of the frames in all queues.
    bytes: u64,
    /// The arrival of the next message, whatever its queue.
    next_arrival: u64,
}

/// A queue in the books.
#[derive(Debug)]
pub(super) struct Account {
    row: QueueRow,
    /// The row on disk is older.
    changed: bool,
    /// The batch brought messages.
    arrived: bool,
}

impl Account {
    pub(super) fn bytes(&self) -> u64 {
        self.row.bytes
    }
}

impl Ledger {
    pub(super) fn from_rows(rows: impl IntoIterator<Item = (u32, QueueRow)>) -> Self {
        let mut ledger = Self { next_arrival: 1, ..Self::default() };
        for (queue, row) in rows {
            ledger.bytes += row.bytes;
            ledger.next_arrival = ledger.next_arrival.max(row.next_arrival);
            ledger.open(QueueId(queue), row, false);
        }
        ledger
    }

    fn open(&mut self, queue: QueueId, row: QueueRow, changed: bool) {
        self.by_name.insert(fold(&row.name), queue);
        self.accounts.insert(queue.0, Account { row, changed, arrived: false });
    }

    /// The queue of this name, opened when it is not there. `None` when there are 2³² queues.
    pub(super) fn queue(&mut self, name: &str) -> Option<QueueId> {
        if let Some(queue) = self.by_name.get(&fold(name)) {
            return Some(*queue);
        }
        let last = self.accounts.last_key_value().map_or(0, |(last, _)| *last);
        let queue = QueueId(last.checked_add(1)?);
        self.open(queue, QueueRow { name: name.to_owned(), messages: 0, bytes: 0, next_arrival: 0 }, true);
        Some(queue)
    }

    pub(super) fn account(&self, queue: QueueId) -> Option<&Account> {
        self.accounts.get(&queue.0)
    }

    /// Bytes of the frames in all queues.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages in all queues.
    pub(super) fn messages(&self) -> u64 {
        self.accounts.values().map(|account| account.row.messages).sum()
    }

    /// One more than the last arrival given.
    pub(super) fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    /// Numbers given before a failed commit are not given again.
    pub(super) fn skip_arrivals(&mut self, next: u64) {
        self.next_arrival = self.next_arrival.max(next);
    }

    /// Books a message into a queue and gives its arrival; `None` for a queue that is not there.
    pub(super) fn add(&mut self, queue: QueueId, bytes: u64) -> Option<u64> {
        let account = self.accounts.get_mut(&queue.0)?;
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        account.row.messages += 1;
        account.row.bytes += bytes;
        account.row.next_arrival = self.next_arrival;
        account.changed = true;
        account.arrived = true;
        self.bytes += bytes;
        Some(arrival)
    }

    /// Books a message out of a queue. Of an unreadable row the bytes are not known: an empty queue has none, so that
    /// the books are right again at the latest then.
    pub(super) fn subtract(&mut self, queue: QueueId, bytes: u64) {
        let Some(account) = self.accounts.get_mut(&queue.0) else { return };
        account.row.messages = account.row.messages.saturating_sub(1);
        let bytes = if account.row.messages == 0 { account.row.bytes } else { bytes.min(account.row.bytes) };
        account.row.bytes -= bytes;
        account.changed = true;
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The rows to be written.
    pub(super) fn changed(&self) -> impl Iterator<Item = (u32, &QueueRow)> {
        self.accounts.iter().filter(|(_, account)| account.changed).map(|(queue, account)| (*queue, &account.row))
    }

    /// The batch is on disk: shows it to everybody else and wakes the readers of queues that got messages.
    pub(super) fn publish(&mut self, queues: &Queues) {
        for (queue, account) in &mut self.accounts {
            if account.changed {
                queues.publish(QueueId(*queue), &account.row, account.arrived);
                account.changed = false;
                account.arrived = false;
            }
        }
    }

    /// The books were read from disk: shows all of them. Wakes nobody.
    pub(super) fn publish_all(&self, queues: &Queues) {
        for (queue, account) in &self.accounts {
            queues.publish(QueueId(*queue), &account.row, false);
        }
    }
}

/// Names of queues are compared without regard to case.
fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The queues as everybody but the writer sees them: what is on disk.
#[derive(Debug, Default)]
pub(super) struct Queues(RwLock<Directory>);

#[derive(Debug, Default)]
struct Directory {
    by_name: HashMap<String, QueueId>,
    by_id: BTreeMap<u32, Arc<Queue>>,
}

/// A queue as its readers see it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    name: String,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Changes when messages have come, and when the store has closed.
    arrivals: watch::Sender<u64>,
}

impl Queue {
    fn new(id: QueueId, name: String) -> Self {
        Self { id, name, messages: AtomicU64::new(0), bytes: AtomicU64::new(0), arrivals: watch::Sender::new(0) }
    }

    pub(super) fn depth(&self) -> Depth {
        Depth { messages: self.messages.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    pub(super) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    fn wake(&self) {
        self.arrivals.send_modify(|count| *count += 1);
    }
}

impl Queues {
    pub(super) fn by_name(&self, name: &str) -> Option<QueueId> {
        self.read(|directory| directory.by_name.get(&fold(name)).copied())
    }

    pub(super) fn by_id(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.read(|directory| directory.by_id.get(&id.0).cloned())
    }

    /// The queue, or an empty one that nobody fills: a [`QueueId`] comes from a store, if not always from this.
    pub(super) fn by_id_or_empty(&self, id: QueueId) -> Arc<Queue> {
        self.by_id(id).unwrap_or_else(|| Arc::new(Queue::new(id, String::new())))
    }

    pub(super) fn names(&self) -> Vec<(String, QueueId)> {
        let mut names: Vec<_> =
            self.read(|directory| directory.by_id.values().map(|queue| (queue.name.clone(), queue.id)).collect());
        names.sort_unstable();
        names
    }

    /// All queues together.
    pub(super) fn depth(&self) -> Depth {
        self.read(|directory| {
            directory.by_id.values().map(|queue| queue.depth()).fold(Depth::default(), |sum, depth| Depth {
                messages: sum.messages + depth.messages,
                bytes: sum.bytes + depth.bytes,
            })
        })
    }

    /// Wakes every reader: the store was opened again, or has closed.
    pub(super) fn wake_all(&self) {
        self.read(|directory| directory.by_id.values().for_each(|queue| queue.wake()));
    }

    fn publish(&self, id: QueueId, row: &QueueRow, arrived: bool) {
        let queue = self.by_id(id).unwrap_or_else(|| {
            let queue = Arc::new(Queue::new(id, row.name.clone()));
            let mut directory = self.0.write().unwrap_or_else(PoisonError::into_inner);
            directory.by_name.insert(fold(&row.name), id);
            directory.by_id.insert(id.0, queue.clone());
            queue
        });
        queue.messages.store(row.messages, Ordering::Relaxed);
        queue.bytes.store(row.bytes, Ordering::Relaxed);
        if arrived {
            queue.wake();
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Directory) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn names_are_one_queue_whatever_their_case() {
        let mut ledger = Ledger::from_rows([]);
        let orders = ledger.queue("private$\\Aufträge").unwrap();
        assert_eq!(ledger.queue("PRIVATE$\\AUFTRÄGE"), Some(orders));
        assert_ne!(ledger.queue("private$\\other"), Some(orders));
    }

    #[test]
    fn an_empty_queue_has_no_bytes_whatever_the_books_say() {
        let mut ledger = Ledger::from_rows([]);
        let queue = ledger.queue("q").unwrap();
        ledger.add(queue, 100);
        ledger.add(queue, 100);
        ledger.subtract(queue, 0);
        assert_eq!(ledger.bytes(), 200);
        ledger.subtract(queue, 100);
        assert_eq!((ledger.bytes(), ledger.account(queue).unwrap().bytes()), (0, 0));
        ledger.subtract(queue, 100);
        assert_eq!(ledger.bytes(), 0);
    }

    #[test]
    fn arrivals_go_on_after_the_highest_of_all_queues() {
        let row = |next_arrival: u64| QueueRow { name: next_arrival.to_string(), messages: 0, bytes: 0, next_arrival };
        let ledger = Ledger::from_rows([(1, row(17)), (2, row(40)), (3, row(0))]);
        assert_eq!(ledger.next_arrival(), 40);
    }
}
