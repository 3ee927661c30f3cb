//! What one machine has sent to the other, kept by somebody who sees both of them.

use std::collections::BTreeSet;

use mqbridge::mqqb::wire::MessageId;

use crate::disk::{DESTINATIONS, Letter};

#[derive(Default)]
pub(crate) struct Ledger {
    /// Everything ever made, with the life of its sender that made it.
    made: Vec<(Letter, u64)>,
    /// What is on the receiver's disk.
    stored: BTreeSet<u32>,
    acknowledged: BTreeSet<u32>,
    /// How often a message came to the disk that was there before.
    pub(crate) duplicates: u64,
    pub(crate) acknowledgments: u64,
}

impl Ledger {
    pub(crate) fn made(&mut self, letter: Letter, life: u64) {
        let latest = self.made.last().map_or(0, |(latest, _)| latest.ordinal);
        assert!(letter.ordinal > latest, "ordinal {} is given out after {latest}", letter.ordinal);
        self.made.push((letter, life));
    }

    pub(crate) fn stored(&mut self, letter: Letter) {
        assert!(self.made.iter().any(|(made, _)| *made == letter), "{letter:?} was never sent");
        assert!(self.stored.insert(letter.ordinal), "{letter:?} is stored twice");
    }

    /// The sender takes a message for arrived.
    pub(crate) fn acknowledged(&mut self, letter: Letter) {
        assert!(self.stored.contains(&letter.ordinal), "{letter:?} is acknowledged and not on disk");
        self.acknowledged.insert(letter.ordinal);
        self.acknowledgments += 1;
    }

    /// Everything has been sent: what the receiver has on its disk, in its order, against what was made. `life` is the
    /// sender's last one.
    pub(crate) fn audit(&self, inbox: &[(MessageId, Letter)], life: u64) {
        let there: BTreeSet<u32> = inbox.iter().map(|(_, letter)| letter.ordinal).collect();
        assert_eq!(there.len(), inbox.len(), "something is there twice");
        for (letter, made_in) in &self.made {
            // Express messages are in their sender's memory until they are acknowledged, and nowhere else.
            let may_be_lost = !letter.recoverable && *made_in != life && !self.acknowledged.contains(&letter.ordinal);
            assert!(may_be_lost || there.contains(&letter.ordinal), "{letter:?} never arrived");
        }
        for destination in 0..DESTINATIONS {
            // What flew when its sender crashed may land after what the next life sent again: the recoverable ones
            // are known by then, the express ones are not.
            let counts = |letter: &Letter| letter.destination == destination && (letter.recoverable || life == 0);
            let ordinals: Vec<u32> =
                inbox.iter().filter(|(_, letter)| counts(letter)).map(|(_, letter)| letter.ordinal).collect();
            assert!(ordinals.is_sorted(), "queue {destination} is out of order: {ordinals:?}");
        }
    }
}
