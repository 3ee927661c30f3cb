use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::desk::{Desk, Judged};
use super::examination::{Examiner, NotAdmitted};
use super::opener::Repute;
use super::{Marks, Rejection};
use crate::net::{Arrival, Intake, Verdict};
use crate::store::Stream;

/// The desk for one session. Messages that have to be looked into are, one after the other; those behind wait for them, so
/// that order holds within a session. Once a message could not be stored, none behind it is: the sender sends all of
/// them again.
pub(super) struct Window {
    desk: Desk,
    stream: Stream,
    /// Messages that are being examined or wait behind one that is.
    waiting: Arc<AtomicUsize>,
    /// Made with the first message that has to be examined: most sessions bring none.
    examination: Option<mpsc::UnboundedSender<Judged>>,
}

impl Window {
    pub(super) fn new(desk: Desk) -> Self {
        Self { desk, stream: Stream::new(), waiting: Arc::default(), examination: None }
    }

    /// The link bounds how much can wait here: it stops reading at two windows of messages without a verdict.
    fn examine(&mut self, judged: Judged) {
        let desk = &self.desk;
        let (stream, waiting) = (&self.stream, &self.waiting);
        let examination = self.examination.get_or_insert_with(|| {
            let (sender, messages) = mpsc::unbounded_channel();
            tokio::spawn(examine_all(desk.clone(), stream.clone(), Arc::clone(waiting), messages));
            sender
        });
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // A worker that is gone drops the message's verdict, which closes the session.
        if examination.send(judged).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Intake for Window {
    fn receive(&mut self, arrival: Arrival, verdict: Verdict) {
        let Some(judged) = self.desk.judge(arrival, verdict) else { return };
        let is_next = self.waiting.load(Ordering::Acquire) == 0;
        if is_next && !Examiner::is_needed(&judged.arrival.message, &judged.route) {
            self.desk.store(judged, Marks::default(), &self.stream);
        } else {
            self.examine(judged);
        }
    }
}

/// However many could not be opened, so many good ones make up for them.
const MOST_UNOPENED: u32 = 64;

async fn examine_all(
    desk: Desk,
    stream: Stream,
    waiting: Arc<AtomicUsize>,
    mut messages: mpsc::UnboundedReceiver<Judged>,
) {
    // Bodies that could not be opened, less those that could: it takes as many good ones to be trusted again.
    let mut unopened = 0_u32;
    while let Some(judged) = messages.recv().await {
        let message = &judged.arrival.message;
        let repute = if unopened == 0 { Repute::Good } else { Repute::Suspect };
        let is_sealed = message.is_encrypted();
        let outcome = if Examiner::is_needed(message, &judged.route) {
            desk.examiner.examine(message, &judged.route, repute).await
        } else {
            Ok(Marks::default())
        };
        match &outcome {
            Err(NotAdmitted::Refused(Rejection::Unopened(_))) => unopened = (unopened + 1).min(MOST_UNOPENED),
            Ok(_) if is_sealed => unopened = unopened.saturating_sub(1),
            _ => {}
        }
        match outcome {
            Ok(marks) => desk.store(judged, marks, &stream),
            Err(NotAdmitted::Refused(rejection)) => desk.turn_away(judged, &rejection),
            Err(NotAdmitted::Later(reason)) => {
                Desk::hold(judged, &reason);
                // What waits behind must not overtake it: dropped verdicts leave it with its sender, too.
                return;
            }
        }
        waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
