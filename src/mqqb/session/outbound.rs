use std::collections::VecDeque;

use super::inbound::Count;
use super::{CloseCause, Event, SendToken};
use crate::mqqb::wire::SessionHeader;

/// Numbers are compared modulo 2^16, so no more than half of them may be unacknowledged at a time.
pub(super) const HALF_RANGE: u16 = 0x7FFF;

/// What went out on a session and what of it is acknowledged (MS-MQQB 3.1.1.4, 3.1.5.5, 3.1.7.1).
#[derive(Debug)]
pub(super) struct Outbound {
    /// The smaller of our own window and the other side's.
    window: u16,
    own_window: u16,
    sent: Count,
    /// Every message up to this number is covered by an `AckSequenceNumber`.
    covered: u64,
    /// The express messages after `covered`, with their numbers.
    express: VecDeque<(u64, SendToken)>,
    /// The recoverable messages from the first one without an acknowledgment on, up to `sent.recoverable`; those
    /// after it that have one are empty.
    recoverable: VecDeque<Option<SendToken>>,
    /// A message was turned away since there was last room.
    turned_away: bool,
}

impl Outbound {
    pub(super) fn new(own_window: u16, peer_window: u16) -> Self {
        let mut outbound = Self {
            window: 0,
            own_window,
            sent: Count::default(),
            covered: 0,
            express: VecDeque::new(),
            recoverable: VecDeque::new(),
            turned_away: false,
        };
        outbound.set_peer_window(peer_window);
        outbound
    }

    /// The other side has named its window: in its parameters, or in any `SessionHeader`. A window of 0
    /// would be the end of the session; the legal range of a `SessionHeader` begins at 1.
    pub(super) fn set_peer_window(&mut self, window: u16) {
        self.window = window.clamp(1, HALF_RANGE).min(self.own_window.max(1));
    }

    /// The window that both sides keep to.
    pub(super) const fn window(&self) -> u16 {
        self.window
    }

    /// What went out.
    pub(super) const fn sent(&self) -> Count {
        self.sent
    }

    /// How many messages are without the acknowledgment that ends our duty for them.
    pub(super) fn waiting(&self) -> usize {
        self.express.len() + self.recoverable.iter().flatten().count()
    }

    /// Whether there is any such message.
    pub(super) fn is_waiting(&self) -> bool {
        !self.express.is_empty() || !self.recoverable.is_empty()
    }

    /// How many more messages may go out now.
    ///
    /// A message holds its place until every acknowledgment that concerns it has come, and the recoverable ones
    /// before it have theirs. So neither a side that never covers, nor one that never confirms storage, nor one
    /// that leaves out a message, makes us hold more than a window of them.
    pub(super) fn window_left(&self) -> usize {
        let uncovered = usize::try_from(self.sent.all - self.covered).unwrap_or(usize::MAX);
        usize::from(self.window).saturating_sub(uncovered.max(self.express.len() + self.recoverable.len()))
    }

    /// Whether one more message may go out now. If not, [`Self::take_writable`] will tell when.
    pub(super) fn take_place(&mut self) -> bool {
        let room = self.window_left() > 0;
        self.turned_away |= !room;
        room
    }

    /// Whether there is room again after a message was turned away; true once.
    pub(super) fn take_writable(&mut self) -> bool {
        let writable = self.turned_away && self.window_left() > 0;
        self.turned_away &= !writable;
        writable
    }

    /// Counts a message that goes out.
    pub(super) fn send(&mut self, token: SendToken, recoverable: bool) {
        self.sent.add(recoverable);
        if recoverable {
            self.recoverable.push_back(Some(token));
        } else {
            self.express.push_back((self.sent.all, token));
        }
    }

    /// Takes the acknowledgments of a `SessionHeader` (3.1.5.5.1 to 3.1.5.5.3).
    ///
    /// `AckSequenceNumber` ends our duty for express messages. For recoverable ones only their own bit does:
    /// `RecoverableMsgAckSeqNumber` by itself acknowledges nothing.
    pub(super) fn acknowledged(
        &mut self,
        header: &SessionHeader,
        events: &mut VecDeque<Event>,
    ) -> Result<(), CloseCause> {
        let number = header.ack_sequence_number;
        let Some(covered) = sent_number(self.sent.all, number) else {
            return Err(CloseCause::FalseAck { what: "message", number });
        };
        // A header with one lie in it is not believed at all.
        let is_lie = |number: &u16| !matches!(sent_number(self.sent.recoverable, *number), Some(1..));
        if let Some(number) = header.recoverable_acknowledged().find(is_lie) {
            return Err(CloseCause::FalseAck { what: "recoverable message", number });
        }
        self.covered = self.covered.max(covered);
        while let Some((_, token)) = self.express.pop_front_if(|(number, _)| *number <= self.covered) {
            events.push_back(Event::Acknowledged(token));
        }
        for number in header.recoverable_acknowledged() {
            let acknowledged = sent_number(self.sent.recoverable, number).unwrap_or_default();
            let from_the_end = usize::try_from(self.sent.recoverable - acknowledged + 1).unwrap_or(usize::MAX);
            let place = self.recoverable.len().checked_sub(from_the_end).and_then(|at| self.recoverable.get_mut(at));
            // Empty when it was acknowledged before.
            events.extend(place.and_then(Option::take).map(Event::Acknowledged));
        }
        while self.recoverable.pop_front_if(|place| place.is_none()).is_some() {}
        Ok(())
    }
}

/// The latest number up to `sent` that looks like `wire`; `None` when that lies half of all numbers back or more,
/// which is to say that it comes after `sent`.
fn sent_number(sent: u64, wire: u16) -> Option<u64> {
    let back = (sent as u16).wrapping_sub(wire);
    (back <= HALF_RANGE).then(|| sent.checked_sub(u64::from(back))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_modulo_2_to_the_16() {
        assert_eq!(sent_number(0, 0), Some(0));
        assert_eq!(sent_number(0, 1), None);
        assert_eq!(sent_number(3, 2), Some(2));
        assert_eq!(sent_number(3, 0xFFFF), None);
        assert_eq!(sent_number(0x1_0000, 0), Some(0x1_0000));
        assert_eq!(sent_number(0x1_0002, 0xFFFF), Some(0xFFFF));
        assert_eq!(sent_number(0x1_0002, 3), None);
        assert_eq!(sent_number(0x1_7FFF, 0), Some(0x1_0000));
        assert_eq!(sent_number(0x1_8000, 0), None);
    }
}
