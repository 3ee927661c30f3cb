//! Which message was returned.
//!
//! The broker sends a message back before it confirms it, but `basic.return` carries no delivery tag, and confirms of
//! other messages may come in between. lapin hands a returned message to whichever confirm it handles next. Taken at
//! its word, the routable neighbour would go to the dead letters and the unroutable message would be forgotten. So
//! returned messages are told by their message-id, and a confirm counts as success only when no return can still
//! belong to it.
//!
//! What that takes is a fact about lapin: its thread handles frames one after the other, and a confirm takes the
//! oldest return that waits, whether it is its own or not. Hence
//!
//! * a confirm that came with no return found none waiting. When its message was returned, that return has been taken
//!   by an earlier confirm: it is enough to have seen all earlier ones;
//! * a confirm that came with another message's return says nothing of returns that waited behind it. They have been
//!   taken when a later confirm finds none waiting, or when no message is outstanding.
//!
//! Confirms are seen in *rounds* (see [`Flight::round`](crate::flight::Flight::round)): what lapin resolved before
//! something that is seen in one round is itself seen at the end of the next.

use std::collections::{HashMap, VecDeque};

/// Finds the broker's verdict on each message. `T` is what it takes to settle one, and tells its message-id.
#[derive(Debug)]
pub(crate) struct Attribution<T> {
    round: u64,
    /// Positive confirms that are not decided yet, in the order in which they were seen.
    held: VecDeque<Held<T>>,
    /// Returned messages whose own confirm has not been decided yet. An id occurs several times only when its sender
    /// repeats ids.
    returned: HashMap<String, Vec<String>>,
    /// The latest rounds in which a confirm without a return was seen: the one that counts, and one that is too young.
    found_none: [Option<u64>; 2],
}

#[derive(Debug)]
struct Held<T> {
    round: u64,
    /// It took a return that is not its own.
    took_another: bool,
    subject: T,
}

/// The answer for one published message, as lapin gives it.
#[derive(Debug)]
pub(crate) struct Confirm {
    pub(crate) positive: bool,
    /// The returned message that came with it: anybody's.
    pub(crate) returned: Option<Returned>,
}

/// A message that the broker sent back.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) message_id: String,
    /// Reply code and text.
    pub(crate) reason: String,
}

/// What the foreign system has done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has taken responsibility.
    Taken,
    /// It has no place for it.
    Unroutable(String),
    /// It has not taken it this time.
    NotTaken,
}

impl<T: AsRef<str>> Attribution<T> {
    pub(crate) fn new() -> Self {
        Self { round: 0, held: VecDeque::new(), returned: HashMap::new(), found_none: [None; 2] }
    }

    /// Notes a confirm that is seen in the present round. A negative one is decided at once.
    pub(crate) fn observe(&mut self, subject: T, confirm: Confirm, decide: &mut impl FnMut(T, Verdict)) {
        let mut took_another = false;
        match confirm.returned {
            None => self.note_none(),
            Some(returned) if returned.message_id == subject.as_ref() => {
                decide(subject, Verdict::Unroutable(returned.reason));
                return;
            }
            Some(Returned { message_id, reason }) => {
                took_another = true;
                self.returned.entry(message_id).or_default().push(reason);
            }
        }
        if confirm.positive {
            self.held.push_back(Held { round: self.round, took_another, subject });
        } else {
            decide(subject, Verdict::NotTaken);
        }
    }

    /// Ends the present round and decides what can be decided. `outstanding` messages have not been answered yet.
    pub(crate) fn close_round(&mut self, outstanding: usize, decide: &mut impl FnMut(T, Verdict)) {
        let closed = self.round;
        self.round += 1;
        let all_answered = outstanding == 0;
        let mut undecided = VecDeque::new();
        while let Some(held) = self.held.pop_front_if(|held| held.round < closed || all_answered) {
            if let Some(reason) = self.take_return(held.subject.as_ref()) {
                decide(held.subject, Verdict::Unroutable(reason));
            } else if !held.took_another || all_answered || self.found_none_since(held.round, closed) {
                decide(held.subject, Verdict::Taken);
            } else {
                undecided.push_back(held);
            }
        }
        if !undecided.is_empty() {
            undecided.append(&mut self.held);
            self.held = undecided;
        }
        if all_answered {
            self.returned.clear();
        }
    }

    /// Gives up everything that is not decided.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = T> {
        self.returned.clear();
        self.held.drain(..).map(|held| held.subject)
    }

    fn note_none(&mut self) {
        if self.found_none[1] != Some(self.round) {
            self.found_none = [self.found_none[1], Some(self.round)];
        }
    }

    /// Whether a confirm that lapin resolved after one seen in round `since` found no return waiting, and all that were
    /// resolved before that have been seen too.
    ///
    /// Resolved after: seen at least two rounds later. All seen: its own round is over and the next one too.
    fn found_none_since(&self, since: u64, closed: u64) -> bool {
        self.found_none.into_iter().flatten().any(|round| round >= since + 2 && round < closed)
    }

    fn take_return(&mut self, message_id: &str) -> Option<String> {
        if self.returned.is_empty() {
            return None;
        }
        let reasons = self.returned.get_mut(message_id)?;
        let reason = reasons.pop();
        if reasons.is_empty() {
            self.returned.remove(message_id);
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, clippy::unwrap_used, reason = "a failed expectation is a failed test")]

    use super::*;

    fn positive(returned: Option<&str>) -> Confirm {
        Confirm { positive: true, returned: returned.map(message) }
    }

    fn message(id: &str) -> Returned {
        Returned { message_id: id.to_owned(), reason: "312 NO_ROUTE".to_owned() }
    }

    /// Runs rounds of observations; the subject is the message's id.
    struct Rounds {
        attribution: Attribution<String>,
        decided: Vec<(String, Verdict)>,
    }

    impl Rounds {
        fn new() -> Self {
            Self { attribution: Attribution::new(), decided: Vec::new() }
        }

        fn round(&mut self, seen: &[(&str, Confirm)], outstanding: usize) -> Vec<(String, Verdict)> {
            let mut decide = |subject, verdict| self.decided.push((subject, verdict));
            for (id, confirm) in seen {
                let returned = confirm.returned.as_ref().map(|one| message(&one.message_id));
                let confirm = Confirm { positive: confirm.positive, returned };
                self.attribution.observe((*id).to_owned(), confirm, &mut decide);
            }
            self.attribution.close_round(outstanding, &mut decide);
            std::mem::take(&mut self.decided)
        }
    }

    fn taken(id: &str) -> (String, Verdict) {
        (id.to_owned(), Verdict::Taken)
    }

    fn unroutable(id: &str) -> (String, Verdict) {
        (id.to_owned(), Verdict::Unroutable("312 NO_ROUTE".to_owned()))
    }

    #[test]
    fn a_plain_confirm_is_decided_after_the_round_in_which_earlier_ones_may_still_show() {
        let mut rounds = Rounds::new();
        assert_eq!(rounds.round(&[("a", positive(None))], 1), []);
        assert_eq!(rounds.round(&[], 1), [taken("a")]);
        assert_eq!(rounds.round(&[("b", positive(None))], 0), [taken("b")], "nothing can show any more");
    }

    #[test]
    fn a_return_that_came_with_a_neighbour_finds_its_message() {
        // The broker sent: return of b, confirm of a, confirm of b.
        let mut rounds = Rounds::new();
        assert_eq!(rounds.round(&[("b", positive(None)), ("a", positive(Some("b")))], 1), []);
        assert_eq!(rounds.round(&[], 1), [unroutable("b")], "a may still have been returned, b has been");
        assert_eq!(rounds.round(&[("c", positive(None))], 1), [], "c has just been seen");
        assert_eq!(rounds.round(&[], 1), [taken("c"), taken("a")].map(|one| one).into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_negative_confirm_is_not_taken_and_its_foreign_return_is_kept() {
        let mut rounds = Rounds::new();
        let nack = Confirm { positive: false, returned: Some(message("b")) };
        assert_eq!(rounds.round(&[("a", nack)], 1), [("a".to_owned(), Verdict::NotTaken)]);
        assert_eq!(rounds.round(&[("b", positive(None))], 0), [unroutable("b")]);
    }

    #[test]
    fn verdicts_are_right_and_complete_in_every_interleaving() {
        for seed in 0..3000 {
            Model::new(seed).run();
        }
    }

    /// The returned message, if any, that a confirm took.
    #[derive(Clone, Copy)]
    struct Carried(Option<usize>);

    /// A broker, lapin's thread, and the task that polls, stepping in random order.
    struct Model {
        random: u64,
        unroutable: Vec<bool>,
        // The broker: what it has yet to send.
        to_return: Vec<usize>,
        to_confirm: Vec<usize>,
        // lapin: returns that wait, confirms with what they carry, and the one whose waker is yet to be called.
        waiting: VecDeque<usize>,
        confirmed: Vec<Option<Carried>>,
        to_wake: Option<usize>,
        // The list of woken slots.
        queued: Vec<bool>,
        woken: Vec<usize>,
        // The task.
        batch: VecDeque<usize>,
        seen: Vec<bool>,
        attribution: Attribution<String>,
        verdicts: Vec<Option<Verdict>>,
    }

    impl Model {
        fn new(seed: u64) -> Self {
            let mut model = Self {
                random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
                unroutable: Vec::new(),
                to_return: Vec::new(),
                to_confirm: Vec::new(),
                waiting: VecDeque::new(),
                confirmed: Vec::new(),
                to_wake: None,
                queued: Vec::new(),
                woken: Vec::new(),
                batch: VecDeque::new(),
                seen: Vec::new(),
                attribution: Attribution::new(),
                verdicts: Vec::new(),
            };
            let total = 1 + model.below(12);
            model.unroutable = (0..total).map(|_| model.below(2) == 0).collect();
            for (number, unroutable) in model.unroutable.iter().enumerate() {
                if *unroutable { model.to_return.push(number) } else { model.to_confirm.push(number) }
            }
            model.confirmed = vec![None; total];
            model.queued = vec![false; total];
            model.seen = vec![false; total];
            model.verdicts = vec![None; total];
            model
        }

        fn below(&mut self, bound: usize) -> usize {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random % bound as u64) as usize
        }

        fn run(mut self) {
            for _ in 0..10_000 {
                match self.below(4) {
                    0 => self.broker_and_lapin(),
                    1 => {
                        // Woken for another reason, such as a frame that has been sent.
                        let any = self.below(self.queued.len());
                        self.wake(any);
                    }
                    _ => self.task(),
                }
                if self.verdicts.iter().all(Option::is_some) {
                    break;
                }
            }
            for (number, verdict) in self.verdicts.iter().enumerate() {
                match verdict {
                    Some(Verdict::Unroutable(_)) if self.unroutable[number] => {}
                    Some(Verdict::Taken) if !self.unroutable[number] => {}
                    other => panic!("message {number} of {:?}: {other:?}", self.unroutable),
                }
            }
        }

        fn broker_and_lapin(&mut self) {
            if let Some(number) = self.to_wake.take() {
                return self.wake(number);
            }
            let choices = self.to_return.len() + self.to_confirm.len();
            if choices == 0 {
                return;
            }
            let choice = self.below(choices);
            if choice < self.to_return.len() {
                let number = self.to_return.swap_remove(choice);
                self.waiting.push_back(number);
                self.to_confirm.push(number);
            } else {
                let number = self.to_confirm.swap_remove(choice - self.to_return.len());
                self.confirmed[number] = Some(Carried(self.waiting.pop_front()));
                self.to_wake = Some(number);
            }
        }

        fn wake(&mut self, number: usize) {
            if !std::mem::replace(&mut self.queued[number], true) {
                self.woken.push(number);
            }
        }

        fn task(&mut self) {
            let verdicts = &mut self.verdicts;
            let mut decide = |number: String, verdict| {
                let number = number.parse::<usize>().unwrap();
                assert_eq!(verdicts[number].replace(verdict), None, "decided once");
            };
            if let Some(number) = self.batch.pop_front() {
                self.queued[number] = false;
                if let (Some(Carried(carried)), false) = (self.confirmed[number], self.seen[number]) {
                    self.seen[number] = true;
                    let returned = carried.map(|other| message(&other.to_string()));
                    let confirm = Confirm { positive: true, returned };
                    self.attribution.observe(number.to_string(), confirm, &mut decide);
                }
                return;
            }
            let outstanding = self.seen.iter().filter(|seen| !**seen).count();
            self.attribution.close_round(outstanding, &mut decide);
            self.batch = std::mem::take(&mut self.woken).into();
        }
    }
}
