use crate::mqqb::wire::{BaseHeader, UserMessage};

/// When a message is of no use any more, in seconds since 1970: both limits run from the sent time (MS-MQQB 3.1.7.1.2);
/// one that must be read by then must also arrive by then. `None` for never.
pub(super) fn deadline(message: &UserMessage) -> Option<u64> {
    let limits = [message.base.time_to_reach_queue, message.user.time_to_be_received];
    let limit = limits.into_iter().filter(|limit| *limit != BaseHeader::INFINITE).min()?;
    Some(u64::from(message.user.sent_time) + u64::from(limit))
}

/// When a queue that can't be sent from is looked through again for expired messages: not before one has expired, and
/// never for more than a twentieth of the time, however long the queue is.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    /// The first deadline of what was looked at.
    first: Option<u64>,
    /// Not before this.
    not_before: u64,
}

impl Sweeps {
    /// A look costs so many times its own length in rest.
    const REST: u64 = 20;
    /// The shortest rest, in seconds.
    const SHORTEST_REST: u64 = 2;

    /// Whether something has expired and it is time for a look at everything.
    pub(super) fn is_due(&self, now: u64) -> bool {
        now >= self.not_before && self.first.is_some_and(|first| now > first)
    }

    /// A look at everything begins.
    pub(super) const fn begin(&mut self) {
        self.first = None;
    }

    /// This message is in the queue and has not expired.
    pub(super) fn saw(&mut self, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.first = Some(self.first.map_or(deadline, |first| first.min(deadline)));
        }
    }

    /// The look has ended.
    pub(super) fn ended(&mut self, began: u64, now: u64) {
        let took = now.saturating_sub(began);
        self.not_before = now.saturating_add((took * Self::REST).max(Self::SHORTEST_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_looked_through_when_something_has_expired_and_not_all_the_time() {
        let mut sweeps = Sweeps::default();
        assert!(!sweeps.is_due(100));
        sweeps.saw(None);
        sweeps.saw(Some(150));
        sweeps.saw(Some(170));
        assert!(!sweeps.is_due(150), "the last second is the message's own");
        assert!(sweeps.is_due(151));
        sweeps.begin();
        sweeps.saw(Some(170));
        sweeps.ended(151, 161);
        assert!(!sweeps.is_due(360), "ten seconds of looking are followed by two hundred of rest");
        assert!(sweeps.is_due(361));
        sweeps.begin();
        sweeps.ended(361, 361);
        assert!(!sweeps.is_due(10_000));
    }
}
