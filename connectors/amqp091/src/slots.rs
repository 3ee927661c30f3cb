//! The futures of messages on their way, polled in the order in which they were woken.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Futures that run side by side, each with a subject that is handed back with its output.
///
/// What `FuturesUnordered` does, with two promises more, which [`Attribution`](crate::attribution::Attribution) builds
/// on: a future is first polled when it is started, so that starting keeps the order; and futures are polled in
/// [rounds](Self::round).
pub(crate) struct Slots<F, T> {
    slots: Vec<Slot<F, T>>,
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// What the last round took; kept for its memory.
    batch: Vec<usize>,
}

struct Slot<F, T> {
    /// Stays where it is for the slot's life, so that a future costs no allocation of its own.
    future: Pin<Box<Option<F>>>,
    subject: Option<T>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<F: Future, T> Slots<F, T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), woken: Arc::default(), batch: Vec::new() }
    }

    /// Futures that have not ended.
    pub(crate) const fn running(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Polls a future for the first time and keeps it unless it ends at once.
    pub(crate) fn start(&mut self, future: F, subject: T) -> Option<(T, F::Output)> {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let slot = self.slots.get_mut(index)?;
        slot.future.set(Some(future));
        slot.subject = Some(subject);
        self.poll(index)
    }

    /// Polls what was woken since the last round began, and hands over what ended. Returns how many were polled.
    ///
    /// A waker puts its future on the list for the next round. So when a future is seen to have ended in one round,
    /// every future that another thread had completed *and woken* before it completed that one is polled in the same
    /// round or in the next.
    pub(crate) fn round(&mut self, mut ended: impl FnMut(T, F::Output)) -> usize {
        let mut batch = std::mem::take(&mut self.batch);
        std::mem::swap(&mut batch, &mut *self.woken.list());
        for index in &batch {
            if let Some((subject, output)) = self.poll(*index) {
                ended(subject, output);
            }
        }
        let polled = batch.len();
        batch.clear();
        self.batch = batch;
        polled
    }

    /// Ready when the next round has something to poll.
    pub(crate) fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        self.woken.task.register(context.waker());
        if self.woken.list().is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Drops all futures and gives back their subjects.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| slot.subject)
    }

    fn grow(&mut self) -> usize {
        let index = self.slots.len();
        let signal = Arc::new(Signal { index, queued: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
        let waker = Waker::from(Arc::clone(&signal));
        self.slots.push(Slot { future: Box::pin(None), subject: None, signal, waker });
        index
    }

    fn poll(&mut self, index: usize) -> Option<(T, F::Output)> {
        let slot = self.slots.get_mut(index)?;
        // Before polling: what wakes it from now on means another poll.
        slot.signal.queued.store(false, Ordering::SeqCst);
        // A slot may be woken once more after its future has ended.
        let future = slot.future.as_mut().as_pin_mut()?;
        let Poll::Ready(output) = future.poll(&mut Context::from_waker(&slot.waker)) else { return None };
        slot.future.set(None);
        self.free.push(index);
        slot.subject.take().map(|subject| (subject, output))
    }
}

/// The slots that were woken, in order, and the task that polls them.
#[derive(Default)]
struct Woken {
    list: Mutex<Vec<usize>>,
    task: AtomicWaker,
}

impl Woken {
    fn list(&self) -> MutexGuard<'_, Vec<usize>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts one slot on the list.
struct Signal {
    index: usize,
    /// On the list already.
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            let mut list = self.woken.list();
            let first = list.is_empty();
            list.push(self.index);
            drop(list);
            // The task that was woken for the first one takes all.
            if first {
                self.woken.task.wake();
            }
        }
    }
}
