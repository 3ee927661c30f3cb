//! Messages on their way: written to the socket first, confirmed later.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Runs the two futures of each message: the one that writes it, `W`, and the one that it gives for the confirm, `C`.
/// The message's subject `T` is handed back with the outcome.
///
/// `FuturesUnordered` could run them, but two promises matter here: a message is handed over when it is started, so
/// that starting keeps the order; and what is seen when is known, which
/// [`Attribution`](crate::attribution::Attribution) builds on. Futures that write are large and short-lived, so that a
/// few are used again and again; those that wait for a confirm are small and many.
pub(crate) struct Flight<R, W, C, T> {
    /// What it takes to write a message.
    resource: R,
    /// In the order in which they were started, which is that in which they are written.
    writing: VecDeque<(Berth<R, W>, T)>,
    spare: Vec<Berth<R, W>>,
    waiting: Vec<Slot<C, T>>,
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// What the last round took; kept for its memory.
    batch: Vec<usize>,
}

/// A place for one message that is being written, used again and again. What the message needs is counted here and not
/// in one place for all, which several threads would contend for.
struct Berth<R, W> {
    resource: Arc<R>,
    write: Pin<Box<Option<W>>>,
    waker: Waker,
}

/// A place for one message that waits for its confirm.
struct Slot<C, T> {
    message: Option<(C, T)>,
    signal: Arc<Signal>,
    waker: Waker,
}

impl<R, W, C, T, O, E> Flight<R, W, C, T>
where
    R: Clone,
    W: Future<Output = Result<C, E>>,
    C: Future<Output = Result<O, E>> + Unpin,
{
    pub(crate) fn new(resource: R) -> Self {
        Self {
            resource,
            writing: VecDeque::new(),
            spare: Vec::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            woken: Arc::default(),
            batch: Vec::new(),
        }
    }

    /// Messages that have no outcome yet.
    pub(crate) fn len(&self) -> usize {
        self.writing.len() + self.waiting.len() - self.free.len()
    }

    /// Whether every message has its outcome.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands a message over, by polling the future that writes it for the first time. An outcome comes at once only
    /// when it fails.
    pub(crate) fn start(&mut self, write: impl FnOnce(Arc<R>) -> W, subject: T) -> Option<(T, Result<O, E>)> {
        let mut berth = self.spare.pop().unwrap_or_else(|| Berth::new(&self.resource, &self.woken));
        berth.write.set(Some(write(Arc::clone(&berth.resource))));
        match berth.poll() {
            Poll::Pending => {
                self.writing.push_back((berth, subject));
                None
            }
            Poll::Ready(outcome) => {
                self.spare.push(berth);
                self.await_confirm(outcome, subject)
            }
        }
    }

    /// Polls what has moved since the last round began, and hands over the outcomes. Returns how much has moved.
    ///
    /// When a message's confirm is seen in one round, then every message that another thread had confirmed *and woken*
    /// before it confirmed that one is seen in the same round or in the next. This rests on that thread reporting a
    /// message as written before it confirms it, and messages as written in the order of their start.
    pub(crate) fn round(&mut self, mut ended: impl FnMut(T, Result<O, E>)) -> usize {
        let mut moved = 0;
        if self.woken.written.swap(false, Ordering::SeqCst) {
            while let Some((mut berth, subject)) = self.writing.pop_front() {
                let Poll::Ready(outcome) = berth.poll() else {
                    self.writing.push_front((berth, subject));
                    break;
                };
                moved += 1;
                self.spare.push(berth);
                if let Some((subject, outcome)) = self.await_confirm(outcome, subject) {
                    ended(subject, outcome);
                }
            }
        }
        let mut batch = std::mem::take(&mut self.batch);
        std::mem::swap(&mut batch, &mut *self.woken.list());
        for index in &batch {
            if let Some((subject, outcome)) = self.poll_confirm(*index) {
                ended(subject, outcome);
            }
        }
        moved += batch.len();
        batch.clear();
        self.batch = batch;
        moved
    }

    /// Ready when the next round has something to poll.
    pub(crate) fn poll_moved(&self, context: &Context<'_>) -> Poll<()> {
        self.woken.task.register(context.waker());
        let moved = self.woken.written.load(Ordering::SeqCst) || !self.woken.list().is_empty();
        if moved { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Wakes the task that waits in [`poll_moved`](Self::poll_moved), for a round in which nothing moves.
    pub(crate) fn wake(&self) {
        self.woken.note_written();
    }

    /// Gives up all messages.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        let written = std::mem::take(&mut self.waiting).into_iter().filter_map(|slot| slot.message);
        let unwritten = std::mem::take(&mut self.writing).into_iter();
        written.map(|(_, subject)| subject).chain(unwritten.map(|(_, subject)| subject))
    }

    fn await_confirm(&mut self, written: Result<C, E>, subject: T) -> Option<(T, Result<O, E>)> {
        let confirm = match written {
            Ok(confirm) => confirm,
            Err(error) => return Some((subject, Err(error))),
        };
        let index = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.waiting.get_mut(index)?.message = Some((confirm, subject));
        self.poll_confirm(index)
    }

    fn add_slot(&mut self) -> usize {
        let index = self.waiting.len();
        let signal = Arc::new(Signal { index, queued: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
        let waker = Waker::from(Arc::clone(&signal));
        self.waiting.push(Slot { message: None, signal, waker });
        index
    }

    fn poll_confirm(&mut self, index: usize) -> Option<(T, Result<O, E>)> {
        let slot = self.waiting.get_mut(index)?;
        // Before polling: what wakes it from now on means another poll.
        slot.signal.queued.store(false, Ordering::SeqCst);
        // A slot may be woken once more after its message has gone.
        let (confirm, _) = slot.message.as_mut()?;
        let Poll::Ready(outcome) = Pin::new(confirm).poll(&mut Context::from_waker(&slot.waker)) else { return None };
        self.free.push(index);
        slot.message.take().map(|(_, subject)| (subject, outcome))
    }
}

impl<R: Clone, W: Future> Berth<R, W> {
    fn new(resource: &R, woken: &Arc<Woken>) -> Self {
        let waker = Waker::from(Arc::new(Written { woken: Arc::clone(woken) }));
        Self { resource: Arc::new(resource.clone()), write: Box::pin(None), waker }
    }

    fn poll(&mut self) -> Poll<W::Output> {
        let Some(write) = self.write.as_mut().as_pin_mut() else { return Poll::Pending };
        let outcome = write.poll(&mut Context::from_waker(&self.waker));
        if outcome.is_ready() {
            self.write.set(None);
        }
        outcome
    }
}

/// What has moved since the last round, and the task that looks after it.
#[derive(Default)]
struct Woken {
    /// Messages were written.
    written: AtomicBool,
    /// Slots whose confirm has come, in order.
    list: Mutex<Vec<usize>>,
    task: AtomicWaker,
}

impl Woken {
    fn list(&self) -> MutexGuard<'_, Vec<usize>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_written(&self) {
        // Looking first spares the other thread a fight for the cache line.
        if !self.written.load(Ordering::SeqCst) && !self.written.swap(true, Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// Notes that a message was written.
struct Written {
    woken: Arc<Woken>,
}

impl Wake for Written {
    fn wake(self: Arc<Self>) {
        self.woken.note_written();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.note_written();
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

    use std::future::poll_fn;

    use super::*;

    type Outcome = Result<&'static str, &'static str>;

    /// Stands for lapin: resolves what a test tells it to.
    #[derive(Clone, Default)]
    struct Other(Arc<Mutex<Vec<Promise>>>);

    #[derive(Default)]
    struct Promise {
        outcome: Option<Outcome>,
        waker: Option<Waker>,
    }

    impl Other {
        fn future(&self) -> (usize, Pin<Box<dyn Future<Output = Outcome>>>) {
            let mut all = self.0.lock().unwrap();
            let index = all.len();
            all.push(Promise::default());
            let this = self.clone();
            let future = poll_fn(move |context| {
                let promise = &mut this.0.lock().unwrap()[index];
                promise.waker = Some(context.waker().clone());
                promise.outcome.map_or(Poll::Pending, Poll::Ready)
            });
            (index, Box::pin(future))
        }

        fn resolve(&self, index: usize, outcome: Outcome) {
            let waker = {
                let promise = &mut self.0.lock().unwrap()[index];
                promise.outcome = Some(outcome);
                promise.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }

    type Confirm = Pin<Box<dyn Future<Output = Outcome>>>;
    type Write = Pin<Box<dyn Future<Output = Result<Confirm, &'static str>>>>;
    type TestFlight = Flight<(), Write, Confirm, usize>;

    /// Starts a message; gives the indexes of its two futures.
    fn start(flight: &mut TestFlight, other: &Other, subject: usize) -> (usize, usize) {
        let (written, write) = other.future();
        let (confirmed, confirm) = other.future();
        let started = flight.start(
            |_| {
                Box::pin(async move {
                    write.await?;
                    Ok(confirm)
                })
            },
            subject,
        );
        assert!(started.is_none());
        (written, confirmed)
    }

    fn round(flight: &mut TestFlight) -> Vec<(usize, Outcome)> {
        let mut ended = Vec::new();
        flight.round(|subject, outcome| ended.push((subject, outcome)));
        ended
    }

    #[test]
    fn a_message_is_written_then_confirmed_and_its_places_are_used_again() {
        let (mut flight, other) = (TestFlight::new(()), Other::default());
        for subject in 0..10 {
            let (written, confirmed) = start(&mut flight, &other, subject);
            assert_eq!((flight.len(), round(&mut flight)), (1, vec![]));
            other.resolve(written, Ok(""));
            assert_eq!((round(&mut flight), flight.len()), (vec![], 1));
            other.resolve(confirmed, Ok("ack"));
            assert_eq!((round(&mut flight), flight.len()), (vec![(subject, Ok("ack"))], 0));
        }
        assert_eq!((flight.waiting.len(), flight.spare.len()), (1, 1));
    }

    #[test]
    fn what_was_confirmed_before_it_was_seen_as_written_is_seen_in_the_next_round() {
        let (mut flight, other) = (TestFlight::new(()), Other::default());
        let early = start(&mut flight, &other, 0);
        let late = start(&mut flight, &other, 1);
        for index in [early.0, late.0, late.1, early.1] {
            other.resolve(index, Ok("ack"));
        }
        assert_eq!(round(&mut flight), [(0, Ok("ack")), (1, Ok("ack"))]);
    }

    #[test]
    fn confirms_are_seen_in_the_order_in_which_they_came() {
        let (mut flight, other) = (TestFlight::new(()), Other::default());
        let messages: Vec<_> = (0..4).map(|subject| start(&mut flight, &other, subject)).collect();
        for (written, _) in &messages {
            other.resolve(*written, Ok(""));
        }
        round(&mut flight);
        for subject in [2, 0, 3] {
            other.resolve(messages[subject].1, Ok("ack"));
        }
        assert_eq!(round(&mut flight).iter().map(|(subject, _)| *subject).collect::<Vec<_>>(), [2, 0, 3]);
    }

    #[test]
    fn failures_have_their_subject_and_the_rest_is_given_back() {
        let (mut flight, other) = (TestFlight::new(()), Other::default());
        let messages: Vec<_> = (0..4).map(|subject| start(&mut flight, &other, subject)).collect();
        other.resolve(messages[0].0, Err("not written"));
        other.resolve(messages[1].0, Ok(""));
        assert_eq!(round(&mut flight), [(0, Err("not written"))]);
        let mut rest: Vec<_> = flight.abandon().collect();
        rest.sort_unstable();
        assert_eq!((rest, flight.len()), (vec![1, 2, 3], 0));
    }
}
