//! Disks that fill up, fail and rot: the store says so, loses nothing that was acknowledged, and goes on when it can.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

mod store_media;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mqbridge::store::{Depth, Position, QueueId, Store, StoreError};
use store_media::{Disk, Random, block_on, frames, id, message, options, put, read_all, stored, submit, submit_all};

fn memory() -> (Arc<Disk>, Store, QueueId) {
    let disk = Disk::new();
    let store = Store::open_on(disk.clone(), options()).unwrap();
    let queue = store.queue("q").unwrap();
    (disk, store, queue)
}

/// Tries until it succeeds; fails after half a minute.
fn eventually<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "it does not recover: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room_without_a_restart() {
    let (disk, store, queue) = memory();
    disk.set_capacity(Some(2 << 20));
    let mut kept = Vec::new();
    let mut refusals = Vec::new();
    for number in 0..600_u32 {
        let mut new = message(queue, 3, number.to_be_bytes().repeat(2000));
        new.duplicate_key = Some(id(1, number));
        match submit(&store, new.clone()) {
            Ok(_) => kept.push(new.frame),
            Err(error) => refusals.push((error, new)),
        }
        if refusals.len() == 5 {
            break;
        }
    }
    assert_eq!(refusals.len(), 5, "the disk has filled up");
    for (error, _) in &refusals {
        let text = error.to_string();
        assert!(text.contains("the medium") && text.contains("No space left on device"), "{text}");
    }
    assert!(kept.len() > 100, "{}", kept.len());
    let read = read_all(&store, queue);
    assert!(frames(&read).starts_with(&frames_of(&kept)), "what was stored is read while the disk is full");

    disk.set_capacity(None);
    let mut last = None;
    for (_, new) in refusals {
        // It may have reached the disk the first time.
        last = Some(eventually(|| submit(&store, new.clone())));
        kept.push(new.frame);
    }
    assert!(last.is_some());
    let read = read_all(&store, queue);
    let mut found: Vec<_> = frames(&read);
    found.sort_unstable();
    assert!(found == frames_of(&kept), "each once");
    assert_eq!(store.depth(queue).messages, kept.len() as u64);
    drop(store);
    assert_eq!(Store::open_on(disk, options()).unwrap().depth(queue).messages, kept.len() as u64);
}

fn frames_of(kept: &[bytes::Bytes]) -> Vec<&[u8]> {
    kept.iter().map(|frame| &frame[..]).collect()
}

#[test]
fn while_the_disk_fails_submissions_are_refused_soon_and_the_depth_is_still_known() {
    let (disk, store, queue) = memory();
    put(&store, message(queue, 3, "a"));
    disk.die_in(0);
    let start = Instant::now();
    for _ in 0..20 {
        let error = submit(&store, message(queue, 3, "b")).unwrap_err();
        assert!(matches!(error, StoreError::Disk(_)), "{error}");
    }
    assert!(block_on(store.remove(queue, Vec::new())).is_err());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(store.depth(queue), Depth { messages: 1, bytes: 1 });
    disk.heal();
    eventually(|| submit(&store, message(queue, 3, "c")));
    assert_eq!(frames(&read_all(&store, queue)), [b"a", b"c"]);
}

#[test]
fn a_store_whose_disk_fails_closes_with_an_error_and_ends() {
    let (disk, store, queue) = memory();
    disk.die_in(0);
    submit(&store, message(queue, 3, "b")).unwrap_err();
    let error = block_on(store.close(true)).unwrap_err();
    assert!(matches!(error, StoreError::Disk(_)), "{error}");
    drop(store);
    // It was not closed clean.
    disk.heal();
    let store = Store::open_on(disk, options()).unwrap();
    assert_eq!(store.depth(queue), Depth::default());
}

#[test]
fn an_arrival_given_before_a_failed_commit_is_not_given_again() {
    let (disk, store, queue) = memory();
    let arrival = |position: Position| position.to_string();
    let before = put(&store, message(queue, 3, "a"));
    disk.fail_in(3);
    let _ = submit(&store, message(queue, 3, "b"));
    disk.heal();
    let after = stored(&Ok(eventually(|| submit(&store, message(queue, 3, "c")))));
    assert_eq!(arrival(before), "priority 3, arrival 1");
    assert_eq!(arrival(after), "priority 3, arrival 3");
}

#[test]
fn a_read_that_fails_passes_and_disturbs_no_one_for_long() {
    for reads in 0..12 {
        let (disk, store, queue) = memory();
        let sent: Vec<_> = (0..40_u8).map(|n| vec![n; 20_000]).collect();
        for frame in &sent {
            put(&store, message(queue, 3, frame.clone()));
        }
        drop(store);
        // Nothing is in the engine's cache now.
        let store = Store::open_on(disk.clone(), options()).unwrap();
        let mut reader = store.reader(queue);
        disk.fail_read_in(reads);
        let mut read = Vec::new();
        let mut errors = 0;
        while read.len() < sent.len() {
            match reader.next(3, usize::MAX) {
                Ok(some) => read.extend(some),
                Err(StoreError::Unreadable { .. } | StoreError::Disk(_)) if errors < 2000 => {
                    errors += 1;
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(frames(&read) == sent, "in order, each once");
        eventually(|| submit(&store, message(queue, 3, "more")));
    }
}

/// Several senders that send again what was not acknowledged, a reader that removes what it has read, and a disk that
/// fails again and again.
#[test]
fn with_a_disk_that_fails_now_and_then_every_message_is_read_once() {
    const SENDERS: u8 = 3;
    const EACH: u32 = 300;
    let (disk, store, queue) = memory();
    thread::scope(|scope| {
        for sender in 0..SENDERS {
            let store = store.clone();
            scope.spawn(move || {
                for ordinal in 0..EACH {
                    let mut new = message(queue, 3, [u32::from(sender).to_be_bytes(), ordinal.to_be_bytes()].concat());
                    new.duplicate_key = Some(id(sender, ordinal));
                    eventually(|| submit(&store, new.clone()));
                }
            });
        }
        let mut reader = store.reader(queue);
        let mut random = Random(11);
        let mut read = Vec::new();
        while read.len() < usize::from(SENDERS) * EACH as usize {
            if random.below(20) == 0 {
                disk.fail_in(random.below(40) as u64);
            }
            if random.below(20) == 0 {
                disk.fail_read_in(random.below(10) as u64);
            }
            let some = eventually(|| reader.next(5, usize::MAX));
            let positions: Vec<_> = some.iter().map(|message| message.position).collect();
            if some.is_empty() {
                block_on(async { tokio::time::timeout(Duration::from_millis(20), reader.wait()).await.ok() });
            } else {
                eventually(|| block_on(store.remove(queue, positions.clone())));
            }
            read.extend(some.into_iter().map(|message| message.frame));
        }
        for sender in 0..SENDERS {
            let of_sender: Vec<_> = read.iter().filter(|frame| frame[3] == sender).collect();
            assert_eq!(of_sender.len(), EACH as usize);
            assert!(of_sender.is_sorted(), "in order");
        }
    });
    disk.heal();
    eventually(|| block_on(store.remove(queue, vec![])));
    assert_eq!(store.depth(queue), Depth::default());
}

#[test]
fn a_damaged_message_is_named_and_can_be_skipped_moved_past_and_removed() {
    let (disk, store, queue) = memory();
    // One frame is in its row, one in slices.
    let inline = Random(1).bytes(500);
    let sliced = Random(2).bytes(50_000);
    let sent = [b"first".to_vec(), inline.clone(), b"third".to_vec(), sliced.clone(), b"fifth".to_vec()];
    let positions: Vec<_> = sent.iter().map(|frame| put(&store, message(queue, 3, frame.clone()))).collect();
    drop(store);
    assert!(disk.damage(&inline[..100], |bytes| bytes[50] ^= 1));
    assert!(disk.damage(&sliced[40_000..40_100], |bytes| bytes[0] ^= 0x80));

    let store = Store::open_on(disk.clone(), options()).unwrap();
    let mut reader = store.reader(queue);
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"first"], "what is before it comes first");
    for _ in 0..2 {
        let error = reader.next(9, usize::MAX).unwrap_err();
        let text = error.to_string();
        let StoreError::Unreadable { position, .. } = error else { panic!("{error}") };
        assert_eq!(position, positions[1]);
        assert!(text.contains("priority 3, arrival 2") && text.contains("checksum"), "{text}");
    }
    reader.skip(positions[1]);
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"third"]);
    assert!(matches!(reader.next(9, 9), Err(StoreError::Unreadable { position, .. }) if position == positions[3]));
    reader.skip(positions[3]);
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [b"fifth"]);
    assert!(reader.next(9, usize::MAX).unwrap().is_empty());

    // It is still there, until somebody removes it.
    reader.rewind();
    assert_eq!(reader.next(1, usize::MAX).unwrap().len(), 1);
    assert!(reader.next(1, usize::MAX).is_err());
    assert_eq!(store.depth(queue).messages, 5);
    block_on(store.remove(queue, vec![positions[1], positions[3]])).unwrap();
    assert_eq!(frames(&reader.next(9, usize::MAX).unwrap()), [&b"third"[..], b"fifth"]);
    assert_eq!(store.depth(queue), Depth { messages: 3, bytes: 15 });
}

#[test]
fn a_damaged_head_is_noticed_and_the_books_are_right_again_when_the_queue_is_empty() {
    let (disk, store, queue) = memory();
    let failed = store.queue("failed").unwrap();
    let frame = Random(1).bytes(300);
    let bad = put(&store, message(queue, 3, frame.clone()));
    let good = put(&store, message(queue, 3, "good"));
    drop(store);
    // The length, in the head before the frame: 24 bytes before the checksums begin.
    let mut head = vec![1, 0, 0, 0];
    head.extend(300_u32.to_be_bytes());
    assert!(disk.damage(&head, |bytes| bytes[7] ^= 1));
    let store = Store::open_on(disk, options()).unwrap();
    assert!(matches!(store.reader(queue).next(9, 9), Err(StoreError::Unreadable { position, .. }) if position == bad));
    assert!(matches!(store.oldest(queue), Err(StoreError::Unreadable { position, .. }) if position == bad));
    let why = mqbridge::store::SetAside { origin: "q".into(), class: 1, reason: "r".into(), at: 1 };
    let moved = block_on(store.set_aside(queue, bad, failed, why));
    assert!(matches!(moved, Err(StoreError::Unreadable { position, .. }) if position == bad));
    block_on(store.remove(queue, vec![bad])).unwrap();
    assert_eq!(store.depth(queue).messages, 1);
    block_on(store.remove(queue, vec![good])).unwrap();
    assert_eq!(store.total_depth(), Depth::default());
}

/// Bits anywhere in the file: the engine may refuse, give up, or not notice. The store must answer, and never give a
/// frame that was not stored.
#[test]
fn a_rotten_file_is_an_error_and_nothing_worse() {
    let (disk, store, queue) = memory();
    let sent: Vec<_> = (0..60_u8).map(|n| Random(n.into()).bytes(usize::from(n) * 200)).collect();
    for outcome in submit_all(&store, sent.iter().map(|frame| message(queue, 3, frame.clone())).collect()) {
        stored(&outcome);
    }
    drop(store);
    let mut intact = 0;
    for seed in 0..300 {
        let rotten = disk.copy();
        let mut random = Random(seed);
        for _ in 0..=random.below(20) {
            rotten.flip(random.below(rotten.length() * 8));
        }
        let Ok(store) = Store::open_on(rotten, options()) else { continue };
        let Some((_, queue)) = store.queues().into_iter().next() else { continue };
        let mut reader = store.reader(queue);
        for _ in 0..200 {
            match reader.next(5, usize::MAX) {
                Ok(some) if some.is_empty() => break,
                Ok(some) => {
                    intact += some.len();
                    assert!(some.iter().all(|message| sent.iter().any(|frame| *frame == message.frame)));
                }
                Err(StoreError::Unreadable { position, .. }) => reader.skip(position),
                Err(_) => break,
            }
        }
        let _ = submit(&store, message(queue, 3, "more"));
    }
    assert!(intact > 1000, "{intact}");
}
