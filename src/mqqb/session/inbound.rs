use std::collections::VecDeque;

use super::open::on_the_wire;

/// How many recoverable messages one acknowledgment reaches: the bits of `RecoverableMsgAckFlags`.
pub(super) const BIT_FIELD: u64 = 32;

/// What came in on a session and what of it is acknowledged (MS-MQQB 3.1.1.4, 3.1.5.8.2, 3.1.5.8.7).
///
/// Messages are numbered from 1, the recoverable ones a second time among themselves. Both numbers are 16 bits
/// on the wire; here they never wrap.
///
/// INVARIANT: `acknowledged <= settled <= received`, for either numbering, and a number counts as settled only
/// when all before it are. So an acknowledgment is true in each of the ways the specification can be read: whether
/// a sender takes `RecoverableMsgAckSeqNumber` as "everything up to here" (3.1.5.5.3) or the bits for the truth
/// it drops nothing that is not on disk; and no recoverable message is acknowledged by its bit before
/// `AckSequenceNumber` covers it, which would leak a place in the window of a sender that counts that number only
/// (3.1.5.5.1).
#[derive(Debug, Default)]
pub(super) struct Inbound {
    received: Count,
    settled: Count,
    acknowledged: Count,
    /// The messages after `settled`, up to `received`.
    open: VecDeque<Place>,
}

/// A number of messages, and how many of them were recoverable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) all: u64,
    pub(super) recoverable: u64,
}

impl Count {
    pub(super) const fn add(&mut self, recoverable: bool) {
        self.all += 1;
        self.recoverable += recoverable as u64;
    }
}

/// A message whose receipt is out, or waits for one before it.
#[derive(Clone, Copy, Debug)]
struct Place {
    recoverable: bool,
    settled: bool,
}

/// The half of a `SessionHeader` that acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledgment {
    pub(super) sequence_number: u16,
    pub(super) recoverable_sequence_number: u16,
    pub(super) recoverable_bits: u32,
}

impl Inbound {
    /// Counts a message that came, and gives it its number.
    pub(super) fn receive(&mut self, recoverable: bool) -> u64 {
        self.received.add(recoverable);
        self.open.push_back(Place { recoverable, settled: false });
        self.received.all
    }

    /// Marks a message as settled. Numbers that are not open are ignored.
    pub(super) fn settle(&mut self, number: u64) {
        let place = number.checked_sub(self.settled.all + 1).and_then(|index| usize::try_from(index).ok());
        let Some(place) = place.and_then(|index| self.open.get_mut(index)) else { return };
        place.settled = true;
        while let Some(first) = self.open.pop_front_if(|first| first.settled) {
            self.settled.add(first.recoverable);
        }
    }

    /// What came.
    pub(super) const fn received(&self) -> Count {
        self.received
    }

    /// How many messages have come and are not settled, or wait for one before them that is not.
    pub(super) fn unsettled(&self) -> usize {
        self.open.len()
    }

    /// Settled, and not acknowledged yet.
    pub(super) const fn owed(&self) -> Count {
        Count {
            all: self.settled.all - self.acknowledged.all,
            recoverable: self.settled.recoverable - self.acknowledged.recoverable,
        }
    }

    /// Received, and not acknowledged yet.
    pub(super) const fn unacknowledged(&self) -> Count {
        Count {
            all: self.received.all - self.acknowledged.all,
            recoverable: self.received.recoverable - self.acknowledged.recoverable,
        }
    }

    /// Acknowledges what is owed, as far as the bits reach.
    pub(super) fn acknowledge(&mut self) -> Acknowledgment {
        let recoverable = self.owed().recoverable.min(BIT_FIELD);
        // 0 says "none since the last header", with no bit set.
        let first = if recoverable == 0 { 0 } else { self.acknowledged.recoverable + 1 };
        self.acknowledged.all = self.settled.all;
        self.acknowledged.recoverable += recoverable;
        Acknowledgment {
            sequence_number: on_the_wire(self.acknowledged.all),
            recoverable_sequence_number: on_the_wire(first),
            recoverable_bits: ((1_u64 << recoverable) - 1) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_owed_behind_a_message_that_is_not_settled() {
        let mut inbound = Inbound::default();
        let numbers: Vec<u64> = [true, false, true, true].map(|recoverable| inbound.receive(recoverable)).into();
        assert_eq!(numbers, [1, 2, 3, 4]);
        inbound.settle(4);
        inbound.settle(3);
        inbound.settle(1);
        assert_eq!(inbound.owed(), Count { all: 1, recoverable: 1 });
        assert_eq!(inbound.unsettled(), 3);
        inbound.settle(2);
        assert_eq!(inbound.owed(), Count { all: 4, recoverable: 3 });
        let acknowledgment = inbound.acknowledge();
        assert_eq!(
            acknowledgment,
            Acknowledgment { sequence_number: 4, recoverable_sequence_number: 1, recoverable_bits: 0b111 }
        );
        assert_eq!(inbound.owed(), Count::default());
    }

    #[test]
    fn numbers_that_are_not_open_change_nothing() {
        let mut inbound = Inbound::default();
        inbound.receive(true);
        for number in [0, 2, u64::MAX] {
            inbound.settle(number);
        }
        assert_eq!(inbound.owed(), Count::default());
        inbound.settle(1);
        inbound.settle(1);
        assert_eq!(inbound.owed(), Count { all: 1, recoverable: 1 });
    }

    #[test]
    fn one_acknowledgment_reaches_32_recoverable_messages() {
        let mut inbound = Inbound::default();
        for _ in 0..70 {
            let number = inbound.receive(true);
            inbound.settle(number);
        }
        let bases: Vec<(u16, u32)> = (0..4)
            .map(|_| inbound.acknowledge())
            .map(|acknowledgment| {
                assert_eq!(acknowledgment.sequence_number, 70);
                (acknowledgment.recoverable_sequence_number, acknowledgment.recoverable_bits)
            })
            .collect();
        assert_eq!(bases, [(1, u32::MAX), (33, u32::MAX), (65, 0b11_1111), (0, 0)]);
    }
}
