//! Which messages were seen: duplicates of non-transactional messages are told by it.
//!
//! MS-MQQB 3.1.5.8.1 looks a message up by its ordinal alone; the entry holds the whole identifier, and two senders
//! may count alike, so source and ordinal together are the key here. The lifetime is that of the timer of 3.1.2.8.
//!
//! A sender counts its messages one by one. So a row is a *run* of consecutive ordinals, and a steady sender costs
//! one row, updated once per commit. A row expires as a whole: so a run ends after a minute, and a message that is
//! repeated later leaves its run.
//!
//! The whole table is held in memory too; the rows that a batch changes are written in its transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::mqqb::wire::{Guid, MessageId};

use super::schema::{HistoryKey, HistoryRow};

/// All of a run were last seen within so many seconds.
const RUN_LIFETIME: u64 = 60;

/// The table in memory.
#[derive(Debug)]
pub(super) struct History {
    runs: HashMap<Guid, BTreeMap<u32, Run>>,
    /// The runs by when they were last seen, then by when they began.
    by_age: BTreeMap<(u64, u64), (Guid, u32)>,
    /// Runs that differ from their rows.
    changed: BTreeSet<(Guid, u32)>,
    /// For the next run.
    next_serial: u64,
    /// Seconds.
    lifetime: u64,
    limit: usize,
}

/// Consecutive ordinals of one source, the first of which is the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    last: u32,
    first_seen: u64,
    last_seen: u64,
    /// Tells runs last seen in the same second apart: the one that began first goes first.
    serial: u64,
}

impl History {
    pub(super) fn new(lifetime: u64, limit: usize) -> Self {
        Self {
            runs: HashMap::new(),
            by_age: BTreeMap::new(),
            changed: BTreeSet::new(),
            next_serial: 0,
            lifetime,
            limit,
        }
    }

    /// Adds a row of the table.
    pub(super) fn load(&mut self, key: &HistoryKey, row: &HistoryRow) {
        let (source, first) = decode_key(key);
        let (last, first_seen, last_seen) = decode_row(row);
        self.begin(source, first, Run { last, first_seen, last_seen, serial: 0 });
        self.changed.remove(&(source, first));
    }

    /// Whether the message was seen within the lifetime before `now`; a repeated one lives on from now.
    pub(super) fn recall(&mut self, id: MessageId, now: u64) -> bool {
        let Some(runs) = self.runs.get_mut(&id.source) else { return false };
        let Some((first, run)) = runs.range_mut(..=id.ordinal).next_back() else { return false };
        if run.last < id.ordinal || run.last_seen.saturating_add(self.lifetime) < now {
            return false;
        }
        let (first, run) = (*first, *run);
        if run.is_young(now) {
            if run.last_seen < now {
                self.touch(id.source, first, now);
            }
        } else {
            // The others of the run do not live on with it.
            self.forget(id.source, first);
            if first < id.ordinal {
                self.begin(id.source, first, Run { last: id.ordinal - 1, ..run });
            }
            if id.ordinal < run.last {
                self.begin(id.source, id.ordinal + 1, run);
            }
            self.remember(id, now);
        }
        true
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.by_age.len()
    }

    /// Remembers a message that was not seen.
    pub(super) fn remember(&mut self, id: MessageId, now: u64) {
        let before = self.runs.get_mut(&id.source).and_then(|runs| runs.range_mut(..=id.ordinal).next_back());
        match before {
            Some((first, run)) if run.last.checked_add(1) == Some(id.ordinal) && run.is_young(now) => {
                run.last = id.ordinal;
                let first = *first;
                self.touch(id.source, first, now);
            }
            before => {
                // It may be in the middle of a run that has expired, and is still there.
                let expired = before.filter(|(_, run)| run.last >= id.ordinal).map(|(first, _)| *first);
                if let Some(first) = expired {
                    self.forget(id.source, first);
                }
                self.begin(id.source, id.ordinal, Run { last: id.ordinal, first_seen: now, last_seen: now, serial: 0 });
            }
        }
        while self.by_age.len() > self.limit {
            self.forget_oldest();
        }
    }

    /// Forgets what was last seen more than the lifetime before `now`; gives the number of rows.
    pub(super) fn expire(&mut self, now: u64) -> usize {
        let mut rows = 0;
        while let Some((&(last_seen, _), _)) = self.by_age.first_key_value() {
            if last_seen.saturating_add(self.lifetime) >= now {
                break;
            }
            self.forget_oldest();
            rows += 1;
        }
        rows
    }

    /// The rows that differ from the table: `None` for one to be deleted.
    pub(super) fn changed(&self) -> impl Iterator<Item = (HistoryKey, Option<HistoryRow>)> {
        self.changed.iter().map(|(source, first)| {
            let run = self.runs.get(source).and_then(|runs| runs.get(first));
            (encode_key(*source, *first), run.map(Run::encode))
        })
    }

    /// What was changed is on disk.
    pub(super) fn saved(&mut self) {
        self.changed.clear();
    }

    /// A run has changed, and was last seen now.
    fn touch(&mut self, source: Guid, first: u32, now: u64) {
        let Some(run) = self.runs.get_mut(&source).and_then(|runs| runs.get_mut(&first)) else { return };
        if run.last_seen < now {
            self.by_age.remove(&(run.last_seen, run.serial));
            run.last_seen = now;
            self.by_age.insert((now, run.serial), (source, first));
        }
        self.changed.insert((source, first));
    }

    fn begin(&mut self, source: Guid, first: u32, run: Run) {
        let run = Run { serial: self.next_serial, ..run };
        self.next_serial += 1;
        self.by_age.insert((run.last_seen, run.serial), (source, first));
        self.runs.entry(source).or_default().insert(first, run);
        self.changed.insert((source, first));
    }

    fn forget_oldest(&mut self) {
        if let Some((_, (source, first))) = self.by_age.pop_first() {
            self.forget(source, first);
        }
    }

    fn forget(&mut self, source: Guid, first: u32) {
        if let Some(runs) = self.runs.get_mut(&source) {
            if let Some(run) = runs.remove(&first) {
                self.by_age.remove(&(run.last_seen, run.serial));
            }
            if runs.is_empty() {
                self.runs.remove(&source);
            }
        }
        self.changed.insert((source, first));
    }
}

impl Run {
    /// Whether what is seen now may still be of the run.
    fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.first_seen) <= RUN_LIFETIME
    }

    fn encode(&self) -> HistoryRow {
        let mut row = [0; size_of::<HistoryRow>()];
        row[..4].copy_from_slice(&self.last.to_be_bytes());
        row[4..12].copy_from_slice(&self.first_seen.to_be_bytes());
        row[12..].copy_from_slice(&self.last_seen.to_be_bytes());
        row
    }
}

fn encode_key(source: Guid, first: u32) -> HistoryKey {
    let mut key = [0; size_of::<HistoryKey>()];
    key[..16].copy_from_slice(&source.to_wire());
    key[16..].copy_from_slice(&first.to_be_bytes());
    key
}

fn decode_key(key: &HistoryKey) -> (Guid, u32) {
    let mut source = [0; 16];
    source.copy_from_slice(&key[..16]);
    let [.., a, b, c, d] = *key;
    (Guid::from_wire(source), u32::from_be_bytes([a, b, c, d]))
}

fn decode_row(row: &HistoryRow) -> (u32, u64, u64) {
    let mut last = [0; 4];
    last.copy_from_slice(&row[..4]);
    let mut first_seen = [0; 8];
    first_seen.copy_from_slice(&row[4..12]);
    let mut last_seen = [0; 8];
    last_seen.copy_from_slice(&row[12..]);
    (u32::from_be_bytes(last), u64::from_be_bytes(first_seen), u64::from_be_bytes(last_seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: u64 = 1800;

    fn id(source: u8, ordinal: u32) -> MessageId {
        MessageId { source: Guid::from_wire([source; 16]), ordinal }
    }

    /// What the store does with a message: whether it is a duplicate.
    fn see(history: &mut History, id: MessageId, now: u64) -> bool {
        let seen = history.recall(id, now);
        if !seen {
            history.remember(id, now);
        }
        seen
    }

    fn rows(history: &History) -> usize {
        history.by_age.len()
    }

    #[test]
    fn source_and_ordinal_together_tell_a_duplicate() {
        let mut history = History::new(LIFETIME, 100);
        assert!(!see(&mut history, id(1, 5), 0));
        assert!(see(&mut history, id(1, 5), 0));
        assert!(!see(&mut history, id(2, 5), 0));
        assert!(!see(&mut history, id(1, 4), 0));
        assert!(!see(&mut history, id(1, 6), 0));
        assert!(see(&mut history, id(1, 4), 0));
    }

    #[test]
    fn a_steady_sender_costs_a_row_a_minute() {
        let mut history = History::new(LIFETIME, 100);
        for second in 0..600 {
            for n in 0..10 {
                assert!(!see(&mut history, id(1, second * 10 + n), u64::from(second)));
            }
        }
        assert_eq!(rows(&history), 10);
        for ordinal in 0..6000 {
            assert!(history.recall(id(1, ordinal), 600), "{ordinal}");
        }
    }

    #[test]
    fn a_message_is_forgotten_a_lifetime_after_it_was_last_seen() {
        let mut history = History::new(LIFETIME, 100);
        see(&mut history, id(1, 1), 1000);
        assert!(see(&mut history, id(1, 1), 2000));
        assert_eq!(history.expire(2000 + LIFETIME), 0);
        assert!(history.recall(id(1, 1), 2000));
        assert_eq!(history.expire(2001 + LIFETIME), 1);
        assert!(!history.recall(id(1, 1), 2000));
        assert!(history.runs.is_empty() && history.by_age.is_empty());
    }

    #[test]
    fn a_repeated_message_does_not_keep_its_neighbours() {
        let mut history = History::new(LIFETIME, 100);
        for ordinal in 1..=9 {
            see(&mut history, id(1, ordinal), 0);
        }
        // Again and again, and those that come with it.
        for time in (30..=LIFETIME).step_by(30) {
            assert!(see(&mut history, id(1, 4), time));
            assert!(see(&mut history, id(1, 5), time));
            assert!(rows(&history) <= 4, "{}", rows(&history));
        }
        let later = LIFETIME + RUN_LIFETIME + 1;
        let known: Vec<u32> = (1..=9).filter(|ordinal| history.recall(id(1, *ordinal), later)).collect();
        assert_eq!(known, [4, 5]);
    }

    #[test]
    fn a_message_that_has_expired_is_no_duplicate_though_its_row_is_there() {
        let mut history = History::new(LIFETIME, 100);
        for ordinal in 1..=3 {
            see(&mut history, id(1, ordinal), 0);
        }
        let later = LIFETIME + 1;
        assert!(!see(&mut history, id(1, 2), later));
        assert!(see(&mut history, id(1, 2), later));
        assert!(!see(&mut history, id(1, 3), later));
        assert!(!see(&mut history, id(1, 1), later));
    }

    #[test]
    fn the_oldest_rows_go_when_there_are_too_many() {
        let mut history = History::new(LIFETIME, 3);
        for n in 0..5 {
            see(&mut history, id(1, n * 10), 7);
        }
        assert_eq!(rows(&history), 3);
        let known: Vec<bool> = (0..5).map(|n| history.recall(id(1, n * 10), 7)).collect();
        assert_eq!(known, [false, false, true, true, true]);
    }

    #[test]
    fn a_limit_of_no_rows_remembers_nothing() {
        let mut history = History::new(LIFETIME, 0);
        assert!(!see(&mut history, id(1, 1), 0));
        assert!(!see(&mut history, id(1, 1), 0));
    }

    #[test]
    fn the_last_ordinal_of_all_ends_a_run() {
        let mut history = History::new(LIFETIME, 100);
        assert!(!see(&mut history, id(1, u32::MAX), 0));
        assert!(!see(&mut history, id(1, 0), 0));
        assert!(see(&mut history, id(1, u32::MAX), 0));
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let mut history = History::new(LIFETIME, 100);
        see(&mut history, id(1, 1), 10_000);
        assert!(see(&mut history, id(1, 1), 10));
        assert!(!see(&mut history, id(1, 2), 10));
        assert!(see(&mut history, id(1, 2), 10));
        assert_eq!(history.expire(9000), 0);
    }

    #[test]
    fn what_is_loaded_is_what_was_saved() {
        let mut history = History::new(LIFETIME, 100);
        let mut table = BTreeMap::new();
        let save = |history: &mut History, table: &mut BTreeMap<HistoryKey, HistoryRow>| {
            for (key, row) in history.changed() {
                match row {
                    Some(row) => table.insert(key, row),
                    None => table.remove(&key),
                };
            }
            history.saved();
        };
        for n in 0..200_u32 {
            see(&mut history, id((n % 3) as u8, n * n % 50), u64::from(n) * 30);
            history.expire(u64::from(n) * 30);
            save(&mut history, &mut table);
        }
        let mut loaded = History::new(LIFETIME, 100);
        for (key, row) in &table {
            loaded.load(key, row);
        }
        let plain = |history: &History| -> BTreeMap<(Guid, u32), (u32, u64, u64)> {
            let runs = history.runs.iter().flat_map(|(source, runs)| {
                runs.iter().map(|(first, run)| ((*source, *first), (run.last, run.first_seen, run.last_seen)))
            });
            runs.collect()
        };
        assert!(!plain(&history).is_empty());
        assert_eq!(plain(&loaded), plain(&history));
    }
}
