//! The power goes, or the process is killed: what was acknowledged is there, nothing is half there, order and counters
//! are right.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod store_media;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use mqbridge::mqqb::wire::MessageId;
use mqbridge::store::{Depth, Enqueued, NewMessage, Position, QueueId, SetAside, Store, StoreError, StoredMessage};
use store_media::{Disk, NOW, Random, block_on, id, message, options, read_all, submit_together};

/// What a user of the store knows.
#[derive(Default)]
struct Knowledge {
    queues: Vec<QueueId>,
    /// Acknowledged, and no removal asked for.
    stored: BTreeMap<(QueueId, Position), Bytes>,
    /// Asked to be stored, and not answered.
    maybe_stored: BTreeMap<Bytes, MessageId>,
    /// Asked to be removed, and not answered.
    maybe_removed: BTreeMap<(QueueId, Position), Bytes>,
    /// Asked to be moved, and not answered.
    maybe_moved: BTreeMap<(QueueId, Position), Bytes>,
    /// Acknowledged to be moved to the last queue.
    moved: BTreeSet<Bytes>,
    removed: BTreeSet<Bytes>,
    ids: BTreeMap<Bytes, MessageId>,
    next_ordinal: u32,
    highest: Option<Position>,
}

const QUEUES: [&str; 3] = ["a", "b", "dead"];

/// Works with the store until something fails; at most `steps` steps.
fn work(store: &Store, random: &mut Random, steps: usize) -> Knowledge {
    let mut known = Knowledge::default();
    for name in QUEUES {
        match store.queue(name) {
            Ok(queue) => known.queues.push(queue),
            Err(_) => return known,
        }
    }
    for _ in 0..steps {
        let going_on = match random.below(6) {
            0..3 => known.store_some(store, random),
            3 => known.remove_some(store, random),
            4 => known.store_and_remove_in_one_commit(store, random),
            _ => known.move_one(store, random),
        };
        if !going_on {
            break;
        }
    }
    known
}

impl Knowledge {
    fn new_messages(&mut self, random: &mut Random) -> Vec<NewMessage> {
        let count = 1 + random.below(6);
        let new = (0..count).map(|_| {
            let ordinal = self.next_ordinal;
            self.next_ordinal += 1;
            let length = match random.below(12) {
                0 => random.below(40_000),
                1..4 => random.below(6000),
                _ => random.below(300),
            };
            let mut frame = ordinal.to_be_bytes().to_vec();
            frame.extend(random.bytes(length));
            let mut new = message(self.queues[random.below(2)], random.below(8) as u8, frame);
            new.duplicate_key = Some(id(3, ordinal));
            self.ids.insert(new.frame.clone(), id(3, ordinal));
            new
        });
        new.collect()
    }

    fn told(&mut self, new: &[NewMessage], outcomes: &[Result<Enqueued, StoreError>]) -> bool {
        let mut good = true;
        for (new, outcome) in new.iter().zip(outcomes) {
            match outcome {
                Ok(Enqueued::Stored(position)) => {
                    self.highest = self.highest.max(Some(*position));
                    self.stored.insert((new.queue, *position), new.frame.clone());
                }
                Ok(Enqueued::Duplicate) => panic!("it was new"),
                Err(_) => {
                    self.maybe_stored.insert(new.frame.clone(), self.ids[&new.frame]);
                    good = false;
                }
            }
        }
        good
    }

    fn store_some(&mut self, store: &Store, random: &mut Random) -> bool {
        let new = self.new_messages(random);
        let outcomes = submit_together(store, new.clone());
        self.told(&new, &outcomes)
    }

    /// Some of one queue, out of what is left of it.
    fn choose(&mut self, random: &mut Random) -> (QueueId, Vec<(Position, Bytes)>) {
        let queue = self.queues[random.below(2)];
        let of_queue = self.stored.iter().filter(|((q, _), _)| *q == queue);
        let some = of_queue.filter(|_| random.below(3) == 0).take(5);
        (queue, some.map(|((_, position), frame)| (*position, frame.clone())).collect())
    }

    fn remove_some(&mut self, store: &Store, random: &mut Random) -> bool {
        let (queue, chosen) = self.choose(random);
        let result = block_on(store.remove(queue, chosen.iter().map(|(position, _)| *position).collect()));
        self.told_removed(queue, chosen, &result)
    }

    fn told_removed(
        &mut self,
        queue: QueueId,
        chosen: Vec<(Position, Bytes)>,
        result: &Result<(), StoreError>,
    ) -> bool {
        for (position, frame) in chosen {
            self.stored.remove(&(queue, position));
            if result.is_ok() {
                self.removed.insert(frame);
            } else {
                self.maybe_removed.insert((queue, position), frame);
            }
        }
        result.is_ok()
    }

    fn store_and_remove_in_one_commit(&mut self, store: &Store, random: &mut Random) -> bool {
        let (queue, chosen) = self.choose(random);
        let new = self.new_messages(random);
        let positions = chosen.iter().map(|(position, _)| *position).collect();
        let (told, removal) = mpsc::channel();
        let handle = store.clone();
        let nothing = NewMessage { queue_quota: 0, ..message(queue, 0, "x") };
        store.submit(nothing, move |_| {
            told.send(handle.remove(queue, positions)).unwrap();
        });
        let outcomes = submit_together(store, new.clone());
        let removed = block_on(removal.recv().unwrap());
        let good = self.told_removed(queue, chosen, &removed);
        self.told(&new, &outcomes) && good
    }

    fn move_one(&mut self, store: &Store, random: &mut Random) -> bool {
        let (queue, chosen) = self.choose(random);
        let Some((position, frame)) = chosen.into_iter().next() else { return true };
        let why = SetAside { origin: "a".into(), class: 1, reason: "refused".into(), at: NOW };
        let result = block_on(store.set_aside(queue, position, self.queues[2], why));
        self.stored.remove(&(queue, position));
        if result.is_ok() {
            self.moved.insert(frame);
        } else {
            self.maybe_moved.insert((queue, position), frame);
        }
        result.is_ok()
    }

    /// Compares with what is in the store. `after_restart`: the store was opened anew after an unclean end.
    fn check(&self, store: &Store, after_restart: bool) {
        let mut expected = self.stored.clone();
        let mut seen = BTreeSet::new();
        let mut total = Depth::default();
        for (number, name) in QUEUES.iter().enumerate() {
            let Some((_, queue)) = store.queues().into_iter().find(|(n, _)| n == name) else {
                assert!(self.queues.get(number).is_none(), "the queue {name} was acknowledged");
                continue;
            };
            let (read, depth) = read_with_depth(store, queue, name);
            assert!(read.is_sorted_by_key(|message| message.position), "in order");
            total = Depth { messages: total.messages + depth.messages, bytes: total.bytes + depth.bytes };
            for message in read {
                let place = (queue, message.position);
                assert!(seen.insert(message.frame.clone()), "each once");
                assert_eq!(message.reason.is_some(), number == 2, "a reason in the last queue, and there only");
                assert!(!after_restart || message.may_be_repeated);
                if let Some(frame) = expected.remove(&place) {
                    assert_eq!(frame, message.frame);
                } else if number == 2 {
                    let known = self.moved.contains(&message.frame)
                        || self.maybe_moved.values().any(|frame| *frame == message.frame);
                    assert!(known, "nobody moved it");
                } else {
                    let known = self.maybe_stored.contains_key(&message.frame)
                        || self.maybe_removed.get(&place) == Some(&message.frame)
                        || self.maybe_moved.get(&place) == Some(&message.frame);
                    assert!(known, "nobody stored it, or its removal was acknowledged");
                }
            }
        }
        assert_eq!(store.total_depth(), total);
        assert!(expected.is_empty(), "{} acknowledged messages are lost", expected.len());
        for frame in self.moved.iter().chain(self.maybe_moved.values()) {
            assert!(seen.contains(frame), "moved, and in neither queue");
        }
    }

    /// What was acknowledged is a duplicate now; what was not is one when it is there; and no arrival comes again.
    fn check_what_comes_next(&self, store: &Store) {
        let [a, ..] = self.queues[..] else { return };
        let before: BTreeSet<Bytes> =
            self.queues.iter().flat_map(|queue| read_all(store, *queue)).map(|message| message.frame).collect();
        for (frame, id) in &self.ids {
            let mut again = message(a, 3, frame.clone());
            again.duplicate_key = Some(*id);
            let outcome = store_media::submit(store, again).unwrap();
            match outcome {
                Enqueued::Duplicate => assert!(
                    !self.maybe_stored.contains_key(frame) || before.contains(frame),
                    "what is not there is no duplicate"
                ),
                Enqueued::Stored(position) => {
                    assert!(self.maybe_stored.contains_key(frame), "it was acknowledged, and not known again");
                    assert!(!before.contains(frame), "it is there, and not known again");
                    let highest = self.highest.map(|highest| highest.to_string());
                    assert!(self.is_after_all(position), "{position} after {highest:?}");
                }
            }
        }
    }

    fn is_after_all(&self, position: Position) -> bool {
        let arrival = |position: Position| -> u64 {
            position.to_string().rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap()
        };
        self.stored.keys().all(|(_, earlier)| arrival(*earlier) < arrival(position))
    }
}

/// The messages of a queue, and its counters, which must say the same. A writer that has just failed opens the database anew
/// after it has told whoever asked: what it finds there may come between the two looks, once.
fn read_with_depth(store: &Store, queue: QueueId, name: &str) -> (Vec<StoredMessage>, Depth) {
    let mut looks = 0;
    loop {
        let read = read_all(store, queue);
        let bytes = read.iter().map(|message| message.frame.len() as u64).sum();
        let depth = Depth { messages: read.len() as u64, bytes };
        if store.depth(queue) == depth {
            return (read, depth);
        }
        looks += 1;
        assert!(looks < 3, "the counters of {name}: {:?}, and {depth:?} in the queue", store.depth(queue));
    }
}

/// Runs `test` for each number below `count`, on several threads: it waits more than it computes.
fn for_each_seed(count: u64, test: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        break;
                    }
                    test(seed);
                }
            });
        }
    });
}

#[test]
fn after_a_loss_of_power_at_any_point_what_was_acknowledged_is_there() {
    for_each_seed(2000, |seed| {
        let mut random = Random(seed);
        // From when the file is made to after all the work.
        let disk = Disk::dying_at(random.below(600) as u64);
        // One that was never whole need not open: a file gets its name only then.
        let Ok(store) = Store::open_on(disk.clone(), options()) else { return };
        let known = work(&store, &mut random, 25);
        drop(store);
        for _ in 0..2 {
            let found = disk.after_power_loss(&mut random);
            let store = Store::open_on(found, options()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            known.check(&store, true);
            known.check_what_comes_next(&store);
        }
    });
}

#[test]
fn power_may_go_again_while_the_store_recovers() {
    for_each_seed(300, |seed| {
        let mut random = Random(seed ^ 0xABCD);
        let disk = Disk::dying_at(200 + random.below(200) as u64);
        let Ok(store) = Store::open_on(disk.clone(), options()) else { return };
        let known = work(&store, &mut random, 25);
        drop(store);
        let mut found = disk.after_power_loss(&mut random);
        for _ in 0..3 {
            found.die_in(random.below(12) as u64);
            drop(Store::open_on(found.clone(), options()));
            found = found.after_power_loss(&mut random);
        }
        known.check(&Store::open_on(found, options()).unwrap(), true);
    });
}

#[test]
fn an_operation_that_fails_leaves_nothing_half_done_and_the_store_goes_on() {
    for_each_seed(600, |seed| {
        let mut random = Random(seed);
        let disk = Disk::new();
        let store = Store::open_on(disk.clone(), options()).unwrap();
        disk.fail_in(seed);
        let mut known = work(&store, &mut random, 25);
        known.check(&store, false);
        disk.heal();
        // Without a restart.
        if known.queues.len() < QUEUES.len() {
            known.queues = QUEUES.iter().map(|name| store.queue(name).unwrap()).collect();
        }
        assert!(known.store_some(&store, &mut random), "seed {seed}: it goes on");
        known.check(&store, false);
        known.check_what_comes_next(&store);
        drop(store);
        // What was not told may have reached the disk; what was told has.
        let found = disk.after_power_loss(&mut random);
        known.check(&Store::open_on(found, options()).unwrap(), false);
    });
}

// --- A real process, killed

const CHILD: &str = "MQBRIDGE_TEST_STORE_CHILD";

/// What the killed process does. On its own this test does nothing.
#[test]
fn child_that_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = Store::open(path.as_ref(), options()).unwrap();
    let queue = store.queue("q").unwrap();
    let (told, outcomes) = mpsc::channel();
    let under_way = 40_u32;
    let submit = |number: u32| {
        let told = told.clone();
        let mut new = message(queue, (number % 8) as u8, frame_of(number));
        new.duplicate_key = Some(id(1, number));
        store.submit(new, move |outcome| told.send((number, outcome)).unwrap());
    };
    (0..under_way).for_each(submit);
    let mut out = std::io::stdout().lock();
    let mut to_remove = Vec::new();
    // More than it lives to see.
    for (next, (number, outcome)) in (under_way..10_000_000).zip(&outcomes) {
        let Ok(Enqueued::Stored(position)) = outcome else { panic!("{outcome:?}") };
        writeln!(out, "stored {number}").unwrap();
        if number % 3 == 0 {
            to_remove.push((number, position));
        }
        if to_remove.len() == 20 {
            block_on(store.remove(queue, to_remove.iter().map(|(_, position)| *position).collect())).unwrap();
            for (number, _) in to_remove.drain(..) {
                writeln!(out, "removed {number}").unwrap();
            }
        }
        submit(next);
    }
}

fn frame_of(number: u32) -> Vec<u8> {
    let mut frame = number.to_be_bytes().to_vec();
    frame.resize(4 + (number as usize * 37) % 3000, number as u8);
    frame
}

#[test]
fn after_kill_9_what_was_acknowledged_is_there() {
    for round in 0..5_u64 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.redb");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stored = BTreeSet::new();
        let mut removed = BTreeSet::new();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut killed = false;
        for line in lines.map_while(Result::ok) {
            // Only whole lines count: the last may have been cut.
            let mut words = line.split(' ');
            match (words.next(), words.next().and_then(|number| number.parse::<u32>().ok())) {
                (Some("stored"), Some(number)) => drop(stored.insert(number)),
                (Some("removed"), Some(number)) => drop(removed.insert(number)),
                _ => {}
            }
            if !killed && stored.len() as u64 > 300 + round * 211 {
                child.kill().unwrap();
                killed = true;
            }
        }
        assert!(killed, "it ended by itself");
        child.wait().unwrap();

        let store = Store::open(&path, options()).unwrap();
        let queue = store.queue("q").unwrap();
        let read = read_all(&store, queue);
        assert!(read.is_sorted_by_key(|message| message.position));
        assert_eq!(store.depth(queue).messages, read.len() as u64);
        let mut found = BTreeSet::new();
        for message in &read {
            let number = u32::from_be_bytes(message.frame[..4].try_into().unwrap());
            assert!(message.frame == frame_of(number), "{number} is whole");
            assert!(message.may_be_repeated);
            assert!(found.insert(number), "{number} is there once");
        }
        // The last line may be cut to a number that is the beginning of the right one.
        let last = stored.iter().next_back().copied();
        for number in stored.difference(&removed).filter(|number| Some(**number) != last) {
            let asked = number % 3 == 0;
            assert!(asked || found.contains(number), "{number} was acknowledged and is lost");
        }
        for number in &removed {
            assert!(!found.contains(number), "the removal of {number} was acknowledged");
        }
        let mut again = message(queue, 3, frame_of(1));
        again.duplicate_key = Some(id(1, 1));
        assert_eq!(store_media::submit(&store, again), Ok(Enqueued::Duplicate));
    }
}

/// The seeds of a run are independent of each other and of the machine.
#[test]
fn the_disk_loses_what_was_not_synced() {
    use mqbridge::store::Medium;
    let disk: Arc<Disk> = Disk::new();
    disk.set_length(4096).unwrap();
    disk.write(0, &[1; 1024]).unwrap();
    disk.sync().unwrap();
    disk.write(1024, &[2; 2048]).unwrap();
    let mut lost = 0;
    for seed in 0..100 {
        let found = disk.after_power_loss(&mut Random(seed));
        let mut bytes = [0; 4096];
        found.read(0, &mut bytes).unwrap();
        assert_eq!(bytes[..1024], [1; 1024], "what was synced stays");
        lost += usize::from(bytes[1024..3072] != [2; 2048]);
    }
    assert!((30..95).contains(&lost), "{lost}");
}
