use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::Arrival;
use crate::mqqb::session::{Receipt, Settled};

/// What happens to the messages that come in. Implemented by the bridge.
pub trait Reception: Send + Sync + 'static {
    /// A session has begun: its messages are received by what this gives.
    fn begin(&self) -> Box<dyn Intake>;

    /// Resolves when there is room for more: nothing is read from any connection before. Cancel safe.
    fn ready(&self) -> BoxFuture<'static, ()>;
}

/// What happens to the messages of one session.
pub trait Intake: Send {
    /// A message came, after all those that came before. Must be quick: the verdict may be given later, from anywhere.
    fn receive(&mut self, arrival: Arrival, verdict: Verdict);
}

/// A message's fate, to be told exactly once. Dropped untold, it closes the session without an acknowledgment, so that
/// the sender sends the message again.
#[derive(Debug)]
#[must_use = "a verdict that is dropped closes the session"]
pub struct Verdict {
    told: Option<(Receipt, usize)>,
    to: mpsc::UnboundedSender<Told>,
}

/// A verdict on its way to the link.
#[derive(Debug)]
pub(super) enum Told {
    Settled { receipt: Receipt, size: usize, how: Settled },
    Hold(String),
}

impl Verdict {
    pub(super) const fn new(receipt: Receipt, size: usize, to: mpsc::UnboundedSender<Told>) -> Self {
        Self { told: Some((receipt, size)), to }
    }

    /// It is on disk, or known as a duplicate of one that is.
    pub fn stored(mut self) {
        self.settle(Settled::Stored);
    }

    /// It is refused, and that is on record.
    pub fn rejected(mut self) {
        self.settle(Settled::Rejected);
    }

    /// It can't be taken now: the session is closed and nothing is acknowledged, so that the sender keeps it.
    pub fn hold(mut self, why: String) {
        self.told = None;
        // A link that is gone has nothing left to close.
        let _ = self.to.send(Told::Hold(why));
    }

    fn settle(&mut self, how: Settled) {
        if let Some((receipt, size)) = self.told.take() {
            // A link that is gone can't acknowledge any more; the sender sends again, and the history knows it.
            let _ = self.to.send(Told::Settled { receipt, size, how });
        }
    }
}

impl Drop for Verdict {
    fn drop(&mut self) {
        if self.told.take().is_some() {
            let _ = self.to.send(Told::Hold("a message could not be judged".to_owned()));
        }
    }
}
