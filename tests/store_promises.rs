//! What the store promises, one test for each promise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for whoever wants to see them")]

mod store_media;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mqbridge::store::{Depth, Enqueued, NewMessage, QueueId, SetAside, Store, StoreError, StoreOptions};
use store_media::{
    Disk, LIFETIME, NOW, Random, block_on, frames, id, message, options, put, read_all, stored, submit, submit_all,
    submit_together,
};

/// Longer than a commit in memory takes, for what may never be answered when the power has gone.
const PATIENCE: Duration = Duration::from_millis(100);

fn memory() -> (Arc<Disk>, Store, QueueId) {
    let disk = Disk::new();
    let store = Store::open_on(disk.clone(), options()).unwrap();
    let queue = store.queue(r"private$\orders").unwrap();
    (disk, store, queue)
}

fn expect_stored(outcome: &Result<Enqueued, StoreError>) {
    stored(outcome);
}

fn aside(origin: &str) -> SetAside {
    SetAside { origin: origin.to_owned(), class: 0x8003, reason: "refused: no such exchange".to_owned(), at: NOW + 1 }
}

// --- Order

#[test]
fn messages_are_read_by_priority_and_then_as_they_came() {
    let (_, store, queue) = memory();
    for (priority, frame) in [(3, "a"), (0, "b"), (7, "c"), (3, "d"), (7, "e"), (0, "f"), (5, "g")] {
        put(&store, message(queue, priority, frame));
    }
    assert_eq!(frames(&read_all(&store, queue)), [b"c", b"e", b"g", b"a", b"d", b"b", b"f"]);
    let priorities: Vec<u8> = read_all(&store, queue).iter().map(|read| read.position.priority()).collect();
    assert_eq!(priorities, [7, 7, 5, 3, 3, 0, 0]);
}

#[test]
fn a_later_message_of_a_higher_priority_is_given_next() {
    let (_, store, queue) = memory();
    for frame in ["a", "b", "c"] {
        put(&store, message(queue, 3, frame));
    }
    let mut reader = store.reader(queue);
    assert_eq!(frames(&reader.next(2, usize::MAX).unwrap()), [b"a", b"b"]);
    put(&store, message(queue, 6, "d"));
    put(&store, message(queue, 1, "e"));
    put(&store, message(queue, 3, "f"));
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"d", b"c", b"f", b"e"]);
    assert!(reader.next(9, usize::MAX).unwrap().is_empty());
}

#[test]
fn a_message_is_given_once_until_the_reader_is_rewound() {
    let (_, store, queue) = memory();
    let positions: Vec<_> = ["a", "b", "c"].map(|frame| put(&store, message(queue, 3, frame))).to_vec();
    let mut reader = store.reader(queue);
    assert_eq!(reader.next(9, usize::MAX).unwrap().len(), 3);
    assert!(reader.next(9, usize::MAX).unwrap().is_empty());
    block_on(store.remove(queue, vec![positions[1]])).unwrap();
    reader.rewind();
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"a", b"c"]);
}

#[test]
fn a_reader_gives_at_most_so_many_messages_and_about_so_many_bytes() {
    let (_, store, queue) = memory();
    for _ in 0..10 {
        put(&store, message(queue, 3, vec![1; 1000]));
    }
    let mut reader = store.reader(queue);
    assert_eq!(reader.next(3, usize::MAX).unwrap().len(), 3);
    assert_eq!(reader.next(9, 2000).unwrap().len(), 2);
    assert_eq!(reader.next(9, 1).unwrap().len(), 1, "at least one");
    assert_eq!(reader.next(9, 0).unwrap().len(), 1, "at least one");
    assert_eq!(reader.next(9, usize::MAX).unwrap().len(), 3);
}

#[test]
fn queues_are_apart() {
    let (_, store, orders) = memory();
    let replies = store.queue(r"private$\replies").unwrap();
    put(&store, message(orders, 3, "order"));
    put(&store, message(replies, 7, "reply"));
    assert_eq!(frames(&read_all(&store, orders)), [b"order"]);
    assert_eq!(frames(&read_all(&store, replies)), [b"reply"]);
}

#[test]
fn an_arrival_is_never_given_twice() {
    let disk = Disk::new();
    let mut last = None;
    for round in 0..6 {
        let store = Store::open_on(disk.clone(), options()).unwrap();
        let queue = store.queue(if round % 2 == 0 { "a" } else { "b" }).unwrap();
        for _ in 0..3 {
            let position = put(&store, message(queue, 3, "x"));
            assert!(last < Some(position), "{position} after {last:?}");
            last = Some(position);
            block_on(store.remove(queue, vec![position])).unwrap();
        }
        if round % 3 == 0 {
            block_on(store.close(true)).unwrap();
        }
    }
}

// --- What is kept

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let (disk, store, queue) = memory();
    let other = store.queue("Other").unwrap();
    let first = put(&store, message(queue, 3, "first"));
    put(&store, message(queue, 4, "second"));
    put(&store, message(other, 3, "third"));
    block_on(store.remove(queue, vec![first])).unwrap();
    drop(store);
    let store = Store::open_on(disk, options()).unwrap();
    assert_eq!(store.queues(), [("Other".to_owned(), other), (r"private$\orders".to_owned(), queue)]);
    assert_eq!(store.queue("OTHER"), Ok(other));
    let read = read_all(&store, queue);
    assert_eq!(frames(&read), [b"second"]);
    assert_eq!(read[0].received_at, NOW);
    assert_eq!(read[0].reason, None);
    assert_eq!(store.depth(queue), Depth { messages: 1, bytes: 6 });
    assert_eq!(store.depth(other), Depth { messages: 1, bytes: 5 });
    assert_eq!(store.total_depth(), Depth { messages: 2, bytes: 11 });
    assert_eq!(store.oldest(queue), Ok(Some(NOW)));
}

#[test]
fn frames_of_any_length_come_back_byte_for_byte() {
    let (disk, store, queue) = memory();
    let mut random = Random(1);
    let mut lengths = vec![0, 1, 100, 1024, 300_000, 4 << 20];
    // Around each length at which a frame is cut in another way.
    for page in [2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072] {
        lengths.extend((page - 120)..(page + 8));
    }
    let sent: Vec<Vec<u8>> = lengths.iter().map(|length| random.bytes(*length)).collect();
    for chunk in sent.chunks(32) {
        for outcome in submit_all(&store, chunk.iter().map(|frame| message(queue, 3, frame.clone())).collect()) {
            stored(&outcome);
        }
    }
    assert!(frames(&read_all(&store, queue)) == sent, "while it is open");
    drop(store);
    let store = Store::open_on(disk, options()).unwrap();
    let read = read_all(&store, queue);
    assert!(frames(&read) == sent, "after a restart");
    assert_eq!(store.depth(queue).bytes, lengths.iter().sum::<usize>() as u64);
    block_on(store.remove(queue, read.iter().map(|read| read.position).collect())).unwrap();
    assert_eq!(store.depth(queue), Depth::default());
}

/// What a file takes of the disk.
fn on_disk(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn the_file_does_not_grow_to_twice_the_data_and_is_used_again() {
    let directory = tempfile::tempdir().unwrap();
    for length in [1024, 2100, 5000, 70_000, 4 << 20] {
        let path = directory.path().join(format!("{length}.redb"));
        let store = Store::open(&path, options()).unwrap();
        let queue = store.queue("q").unwrap();
        let frame = bytes::Bytes::from(Random(length as u64).bytes(length));
        let count = (16 << 20) / length;
        let fill = || {
            let messages: Vec<_> = (0..count).map(|_| message(queue, 3, frame.clone())).collect();
            submit_all(&store, messages).iter().for_each(expect_stored);
        };
        fill();
        let at_first = on_disk(&path);
        let percent = at_first * 100 / (count * length) as u64;
        println!("{length} bytes: {percent} % on disk");
        assert!(percent < 175, "{length} bytes take {percent} % on disk");
        for _ in 0..2 {
            let positions = read_all(&store, queue).iter().map(|read| read.position).collect();
            block_on(store.remove(queue, positions)).unwrap();
            fill();
        }
        let later = on_disk(&path);
        assert!(later < at_first + at_first / 2, "{length} bytes: {at_first} at first, {later} in the end");
    }
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let _store = Store::open(&path, options()).unwrap();
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

// --- Removal and moving

#[test]
fn removing_what_is_gone_is_no_error_and_counts_nothing() {
    let (_, store, queue) = memory();
    let positions: Vec<_> = (0..200).map(|n: u8| put(&store, message(queue, n % 8, vec![n; 10]))).collect();
    let every_third: Vec<_> = positions.iter().copied().step_by(3).collect();
    block_on(store.remove(queue, every_third.clone())).unwrap();
    assert_eq!(store.depth(queue), Depth { messages: 133, bytes: 1330 });
    let twice = every_third.iter().chain(&every_third).copied().chain([positions[1]]).collect();
    block_on(store.remove(queue, twice)).unwrap();
    assert_eq!(store.depth(queue), Depth { messages: 132, bytes: 1320 });
    let mut left: Vec<_> = positions.into_iter().enumerate().filter(|(n, _)| n % 3 != 0 && *n != 1).collect();
    left.sort_by_key(|(_, position)| *position);
    let read: Vec<_> = read_all(&store, queue).iter().map(|read| read.position).collect();
    assert_eq!(read, left.into_iter().map(|(_, position)| position).collect::<Vec<_>>());
}

#[test]
fn a_message_set_aside_keeps_its_frame_and_says_why() {
    let (disk, store, queue) = memory();
    let failed = store.queue(r"private$\orders;failed").unwrap();
    let frame = Random(5).bytes(100_000);
    let bad = put(&store, message(queue, 5, frame.clone()));
    put(&store, message(queue, 5, "good"));
    block_on(store.set_aside(queue, bad, failed, aside(r"private$\orders"))).unwrap();
    assert_eq!(frames(&read_all(&store, queue)), [b"good"]);
    assert_eq!(store.depth(failed), Depth { messages: 1, bytes: 100_000 });
    assert_eq!(store.depth(queue), Depth { messages: 1, bytes: 4 });
    drop(store);

    let store = Store::open_on(disk, options()).unwrap();
    let [set_aside] = &read_all(&store, failed)[..] else { panic!("there is one") };
    assert!(set_aside.frame == frame);
    assert_eq!(set_aside.reason, Some(aside(r"private$\orders")));
    assert_eq!(set_aside.position.priority(), 5);
    assert_eq!(set_aside.received_at, NOW);
    // Again, as after an answer that was lost.
    block_on(store.set_aside(queue, bad, failed, aside("again"))).unwrap();
    assert_eq!(store.depth(failed).messages, 1);

    block_on(store.requeue(failed, set_aside.position, queue)).unwrap();
    let read = read_all(&store, queue);
    assert_eq!(read.len(), 2);
    assert!(read[1].frame == frame, "it goes to the end of the queue");
    assert_eq!(read[1].reason, None);
    block_on(store.remove(queue, vec![read[1].position])).unwrap();
    assert_eq!(store.total_depth(), Depth { messages: 1, bytes: 4 });
}

#[test]
fn a_message_set_aside_is_found_by_a_reader_that_had_read_everything() {
    let (_, store, queue) = memory();
    let failed = store.queue("failed").unwrap();
    let position = put(&store, message(queue, 3, "a"));
    put(&store, message(failed, 3, "b"));
    let mut reader = store.reader(failed);
    assert_eq!(reader.next(9, usize::MAX).unwrap().len(), 1);
    block_on(store.set_aside(queue, position, failed, aside("q"))).unwrap();
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"a"]);
}

// --- Duplicates

#[test]
fn a_duplicate_is_told_by_source_and_ordinal_within_its_batch_too() {
    let (_, store, queue) = memory();
    let keyed = |source, ordinal, frame: &'static str| {
        let mut message = message(queue, 3, frame);
        message.duplicate_key = Some(id(source, ordinal));
        message
    };
    let commits = store.commits();
    let outcomes = submit_together(
        &store,
        vec![keyed(1, 7, "a"), keyed(1, 7, "a"), keyed(2, 7, "b"), keyed(1, 8, "c"), keyed(1, 7, "a")],
    );
    assert_eq!(store.commits(), commits + 1);
    let told: Vec<bool> = outcomes.iter().map(|outcome| outcome == &Ok(Enqueued::Duplicate)).collect();
    assert_eq!(told, [false, true, false, false, true]);
    assert_eq!(frames(&read_all(&store, queue)), [b"a", b"b", b"c"]);
    assert_eq!(submit(&store, keyed(2, 7, "b")), Ok(Enqueued::Duplicate));
    assert_eq!(store.commits(), commits + 1, "nothing has changed");
    stored(&submit(&store, keyed(2, 8, "d")));
    // Those without a key are told by other means.
    put(&store, message(queue, 3, "e"));
    put(&store, message(queue, 3, "e"));
}

#[test]
fn a_duplicate_is_known_after_its_message_was_removed_and_after_a_restart() {
    let (disk, store, queue) = memory();
    let mut new = message(queue, 3, "a");
    new.duplicate_key = Some(id(1, 7));
    let position = put(&store, new.clone());
    block_on(store.remove(queue, vec![position])).unwrap();
    assert_eq!(submit(&store, new.clone()), Ok(Enqueued::Duplicate));
    drop(store);
    let store = Store::open_on(disk, options()).unwrap();
    assert_eq!(submit(&store, new), Ok(Enqueued::Duplicate));
    assert_eq!(store.depth(queue).messages, 0);
}

#[test]
fn a_message_is_forgotten_a_lifetime_after_it_came_last() {
    let (disk, store, queue) = memory();
    let at = |received_at| {
        let mut message = message(queue, 3, "a");
        message.duplicate_key = Some(id(1, 7));
        message.received_at = received_at;
        message
    };
    stored(&submit(&store, at(NOW)));
    assert_eq!(submit(&store, at(NOW + LIFETIME)), Ok(Enqueued::Duplicate));
    // That one lives on from then, on disk too.
    drop(store);
    let store = Store::open_on(disk.clone(), options()).unwrap();
    assert_eq!(block_on(store.expire_history(NOW + 2 * LIFETIME)), Ok(0));
    assert_eq!(submit(&store, at(NOW + 2 * LIFETIME)), Ok(Enqueued::Duplicate));
    stored(&submit(&store, at(NOW + 3 * LIFETIME + 1)));
    assert_eq!(block_on(store.expire_history(NOW + 4 * LIFETIME + 2)), Ok(1));
    drop(store);
    let store = Store::open_on(disk, options()).unwrap();
    stored(&submit(&store, at(NOW + 3 * LIFETIME + 2)));
}

#[test]
fn a_message_that_was_not_stored_is_not_remembered() {
    let (_, store, queue) = memory();
    let mut new = message(queue, 3, "abc");
    new.duplicate_key = Some(id(1, 7));
    let mut refused = new.clone();
    refused.queue_quota = 2;
    assert_eq!(submit(&store, refused), Err(StoreError::QueueFull { used: 0, quota: 2 }));
    stored(&submit(&store, new));
}

#[test]
fn the_history_keeps_the_newest_rows() {
    let disk = Disk::new();
    let options = StoreOptions { history_rows: 10, ..options() };
    let store = Store::open_on(disk.clone(), options).unwrap();
    let queue = store.queue("q").unwrap();
    let keyed = |ordinal: u32| {
        let mut message = message(queue, 3, "a");
        message.duplicate_key = Some(id(1, ordinal * 2));
        message
    };
    submit_all(&store, (0..50).map(keyed).collect()).iter().for_each(expect_stored);
    drop(store);
    let store = Store::open_on(disk, options).unwrap();
    for ordinal in 40..50 {
        assert_eq!(submit(&store, keyed(ordinal)), Ok(Enqueued::Duplicate), "{ordinal}");
    }
    stored(&submit(&store, keyed(39)));
}

// --- Quotas

#[test]
fn quotas_are_exact_within_a_batch_and_count_frames() {
    let disk = Disk::new();
    let store = Store::open_on(disk.clone(), StoreOptions { quota: 1000, ..options() }).unwrap();
    let (a, b) = (store.queue("a").unwrap(), store.queue("b").unwrap());
    let limited = |queue, length| {
        let mut message = message(queue, 3, vec![0; length]);
        message.queue_quota = 600;
        message
    };
    let outcomes = submit_together(
        &store,
        vec![limited(a, 400), limited(a, 201), limited(a, 200), limited(b, 401), limited(b, 400), limited(b, 1)],
    );
    stored(&outcomes[0]);
    assert_eq!(outcomes[1], Err(StoreError::QueueFull { used: 400, quota: 600 }));
    let second = stored(&outcomes[2]);
    assert_eq!(outcomes[3], Err(StoreError::Full { used: 600, quota: 1000 }));
    stored(&outcomes[4]);
    assert_eq!(outcomes[5], Err(StoreError::Full { used: 1000, quota: 1000 }));
    drop(store);
    let store = Store::open_on(disk, StoreOptions { quota: 1000, ..options() }).unwrap();
    assert_eq!(submit(&store, limited(b, 1)), Err(StoreError::Full { used: 1000, quota: 1000 }));
    // Setting aside is never refused.
    block_on(store.set_aside(a, second, b, aside("a"))).unwrap();
    assert_eq!(store.depth(b), Depth { messages: 2, bytes: 600 });
    block_on(store.remove(b, read_all(&store, b).iter().map(|read| read.position).collect())).unwrap();
    stored(&submit(&store, limited(b, 600)));
}

// --- Repeated after a crash

#[test]
fn messages_may_be_repeated_when_the_run_before_did_not_close_clean() {
    let (disk, store, queue) = memory();
    let flags =
        |store: &Store| -> Vec<bool> { read_all(store, queue).iter().map(|message| message.may_be_repeated).collect() };
    put(&store, message(queue, 3, "a"));
    assert_eq!(flags(&store), [false]);
    block_on(store.close(true)).unwrap();

    let store = Store::open_on(disk.clone(), options()).unwrap();
    assert_eq!(flags(&store), [false], "after a clean close");
    block_on(store.close(false)).unwrap();

    let store = Store::open_on(disk.clone(), options()).unwrap();
    put(&store, message(queue, 3, "b"));
    assert_eq!(flags(&store), [true, false], "after closing with messages in flight");
    drop(store);

    let store = Store::open_on(disk.clone(), options()).unwrap();
    assert_eq!(flags(&store), [true, true], "after an end that nobody announced");
    put(&store, message(queue, 3, "c"));
    block_on(store.close(true)).unwrap();

    // What was doubtful once remains so: the clean close says nothing about earlier runs.
    let store = Store::open_on(disk.clone(), options()).unwrap();
    assert_eq!(flags(&store), [true, true, false]);
    let failed = store.queue("failed").unwrap();
    let doubtful = read_all(&store, queue)[0].position;
    block_on(store.set_aside(queue, doubtful, failed, aside("q"))).unwrap();
    assert!(read_all(&store, failed)[0].may_be_repeated, "wherever it is moved");
}

// --- Acknowledgments and ordinals

/// What happens to a message for which an acknowledgment is stored.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stored,
    Removed,
    SetAside,
}

#[test]
fn an_acknowledgment_is_stored_exactly_when_what_it_acknowledges_has_happened() {
    for fate in [Fate::Stored, Fate::Removed, Fate::SetAside] {
        let (mut with, mut without) = (0, 0);
        for seed in 0..120 {
            let mut random = Random(seed);
            let (disk, store, queue) = memory();
            let acknowledgments = store.queue("acknowledgments").unwrap();
            let failed = store.queue("failed").unwrap();
            let first = put(&store, message(queue, 3, "first"));
            disk.die_in(seed / 2);
            let acknowledgment = vec![message(acknowledgments, 3, "acknowledgment")];
            // The power may have gone; what counts is what is found.
            let told = match fate {
                Fate::Stored => {
                    let second = NewMessage { companions: acknowledgment, ..message(queue, 3, "second") };
                    submit(&store, second).map(drop)
                }
                Fate::Removed => block_on(async {
                    let removed = store.remove_with(queue, vec![first], acknowledgment);
                    tokio::time::timeout(PATIENCE, removed).await.unwrap_or(Err(StoreError::Closed))
                }),
                Fate::SetAside => block_on(async {
                    let moved = store.set_aside_with(queue, first, failed, aside("q"), acknowledgment);
                    tokio::time::timeout(PATIENCE, moved).await.unwrap_or(Err(StoreError::Closed))
                }),
            };
            let found = disk.after_power_loss(&mut random);
            drop(store);
            let store = Store::open_on(found, options()).unwrap();
            let happened = match fate {
                Fate::Stored => store.depth(queue).messages == 2,
                Fate::Removed => store.depth(queue).messages == 0,
                Fate::SetAside => store.depth(failed).messages == 1,
            };
            assert_eq!(store.depth(acknowledgments).messages == 1, happened, "{fate:?}, seed {seed}");
            assert!(happened || told.is_err(), "{fate:?}, seed {seed}: it was said to have happened");
            *if happened { &mut with } else { &mut without } += 1;
        }
        println!("{fate:?}: {with} happened, {without} did not");
        assert!(with > 0 && without > 0, "{fate:?}: {with} happened, {without} did not");
    }
}

#[test]
fn what_is_not_stored_is_not_acknowledged() {
    let (_, store, queue) = memory();
    let acknowledgments = store.queue("acknowledgments").unwrap();
    let mut new = NewMessage {
        duplicate_key: Some(id(1, 7)),
        companions: vec![message(acknowledgments, 3, "acknowledgment")],
        ..message(queue, 3, "order")
    };
    put(&store, new.clone());
    assert_eq!(submit(&store, new.clone()), Ok(Enqueued::Duplicate));
    (new.duplicate_key, new.queue_quota) = (None, 0);
    submit(&store, new).unwrap_err();
    assert_eq!(store.depth(acknowledgments).messages, 1, "neither a duplicate nor what is refused");
}

#[test]
fn an_ordinal_is_never_given_twice() {
    let mut given = std::collections::BTreeSet::new();
    let mut disk = Disk::new();
    for round in 0..60 {
        let mut random = Random(round);
        let store = Store::open_on(disk.clone(), options()).unwrap();
        disk.die_in(random.below(120) as u64);
        for _ in 0..5 {
            let count = 1 + random.below(9) as u32;
            let taken = block_on(async { tokio::time::timeout(PATIENCE, store.take_ordinals(count)).await });
            let Ok(Ok(first)) = taken else { break };
            assert!(first > 0);
            for ordinal in first..first + count {
                assert!(given.insert(ordinal), "{ordinal} is given again in round {round}");
            }
        }
        let found = disk.after_power_loss(&mut random);
        drop(store);
        disk = found;
    }
    println!("{} ordinals", given.len());
    assert!(given.len() > 200, "only {} were given", given.len());
}
