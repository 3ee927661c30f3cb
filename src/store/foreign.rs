//! Which messages of foreign systems were taken: the last hundred thousand of their keys, in the order in which they
//! came. A foreign system delivers again what was not settled, and that is never long ago.
//!
//! Keys have no order of their own, so they are kept under running numbers: a batch of them then is one page at the end of
//! the table.

use std::collections::{HashMap, VecDeque};

/// A digest of what tells a foreign message from all others.
pub type ForeignKey = [u8; 16];

/// Keys that are remembered.
const KEPT: usize = 100_000;
/// So many more are let come before the oldest go, all at once.
const SLACK: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct ForeignHistory {
    numbers: HashMap<ForeignKey, u64>,
    keys: VecDeque<(u64, ForeignKey)>,
    next: u64,
    /// The first number that is not on disk.
    unsaved: u64,
    /// Numbers below this go from the disk with the next commit.
    dropped_below: Option<u64>,
}

impl ForeignHistory {
    /// A row of the table; they come in their order.
    pub(super) fn load(&mut self, number: u64, key: ForeignKey) {
        self.numbers.insert(key, number);
        self.keys.push_back((number, key));
        self.next = number.saturating_add(1);
        self.unsaved = self.next;
    }

    pub(super) fn knows(&self, key: &ForeignKey) -> bool {
        self.numbers.contains_key(key)
    }

    pub(super) fn remember(&mut self, key: ForeignKey) {
        let number = self.next;
        self.next += 1;
        self.numbers.insert(key, number);
        self.keys.push_back((number, key));
        if self.keys.len() > KEPT + SLACK {
            while self.keys.len() > KEPT {
                let Some((number, key)) = self.keys.pop_front() else { break };
                // One that came again later is still wanted.
                if self.numbers.get(&key) == Some(&number) {
                    self.numbers.remove(&key);
                }
            }
            self.dropped_below = self.keys.front().map(|(number, _)| *number);
        }
    }

    pub(super) const fn is_changed(&self) -> bool {
        self.unsaved < self.next
    }

    /// The rows to be put in.
    pub(super) fn added(&self) -> impl Iterator<Item = (u64, &ForeignKey)> {
        let count = usize::try_from(self.next - self.unsaved).unwrap_or(usize::MAX).min(self.keys.len());
        self.keys.range(self.keys.len() - count..).map(|(number, key)| (*number, key))
    }

    /// Rows below this number are to go.
    pub(super) const fn dropped_below(&self) -> Option<u64> {
        self.dropped_below
    }

    /// All changes are on disk.
    pub(super) const fn saved(&mut self) {
        self.unsaved = self.next;
        self.dropped_below = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> ForeignKey {
        (n as u128).to_be_bytes()
    }

    #[test]
    fn the_last_hundred_thousand_are_known_and_what_is_on_disk_is_the_same() {
        let mut history = ForeignHistory::default();
        let mut disk = std::collections::BTreeMap::new();
        for n in 0..250_000 {
            assert!(!history.knows(&key(n)));
            history.remember(key(n));
            if n % 100 == 0 {
                disk.extend(history.added().map(|(number, key)| (number, *key)));
                if let Some(below) = history.dropped_below() {
                    disk = disk.split_off(&below);
                }
                history.saved();
                assert!(!history.is_changed());
            }
        }
        assert!((250_000 - KEPT..250_000).all(|n| history.knows(&key(n))));
        assert!(!history.knows(&key(100_000)));
        disk.extend(history.added().map(|(number, key)| (number, *key)));
        let mut loaded = ForeignHistory::default();
        for (number, key) in disk {
            loaded.load(number, key);
        }
        assert!((0..250_000).all(|n| loaded.knows(&key(n)) == history.knows(&key(n)) || n < 250_000 - KEPT));
        assert_eq!(loaded.next, history.next);
    }

    #[test]
    fn a_key_that_comes_again_is_known_from_then_on() {
        let mut history = ForeignHistory::default();
        history.remember(key(1));
        (0..KEPT - 10).for_each(|n| history.remember(key(n + 10)));
        history.remember(key(1));
        (0..SLACK + 20).for_each(|n| history.remember(key(n + 1_000_000)));
        assert!(history.knows(&key(1)));
        assert!(!history.knows(&key(10)));
    }
}
