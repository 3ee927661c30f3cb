//! How the store lives: opening and closing, one writer with readers beside it, waiting and being woken.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for whoever wants to see them")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

mod store_media;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mqbridge::store::{Depth, Enqueued, QueueId, Store, StoreError};
use store_media::{Disk, Random, block_on, frames, id, message, options, put, read_all, stored, submit, submit_all};

fn memory() -> (Arc<Disk>, Store, QueueId) {
    let disk = Disk::new();
    let store = Store::open_on(disk.clone(), options()).unwrap();
    let queue = store.queue(r"private$\orders").unwrap();
    (disk, store, queue)
}

fn expect_stored(outcome: &Result<Enqueued, StoreError>) {
    stored(outcome);
}

// --- Waiting

#[test]
fn a_reader_that_waits_is_woken_by_a_message_and_by_closing() {
    let (_, store, queue) = memory();
    let other = store.queue("other").unwrap();
    block_on(async {
        let mut reader = store.reader(queue);
        let soon = Duration::from_millis(50);
        let long = Duration::from_secs(20);
        tokio::time::timeout(long, reader.wait()).await.expect("it has not looked yet");
        assert!(reader.next(9, usize::MAX).unwrap().is_empty());
        assert!(tokio::time::timeout(soon, reader.wait()).await.is_err(), "nothing has come");
        store.submit(message(other, 3, "elsewhere"), |outcome| expect_stored(&outcome));
        assert!(tokio::time::timeout(soon, reader.wait()).await.is_err(), "nothing has come here");
        store.submit(message(queue, 3, "a"), |outcome| expect_stored(&outcome));
        tokio::time::timeout(long, reader.wait()).await.expect("a message has come");
        assert_eq!(reader.next(9, usize::MAX).unwrap().len(), 1);
        assert!(tokio::time::timeout(soon, reader.wait()).await.is_err() || reader.next(9, 1).unwrap().is_empty());
        let closing = store.close(true);
        tokio::time::timeout(long, async {
            while reader.next(9, 9).map(drop) != Err(StoreError::Closed) {
                reader.wait().await;
            }
        })
        .await
        .expect("the store has closed");
        closing.await.unwrap();
    });
}

#[test]
fn a_full_look_is_followed_by_another_without_waiting() {
    let (_, store, queue) = memory();
    submit_all(&store, (0..4).map(|_| message(queue, 3, "x")).collect());
    block_on(async {
        let mut reader = store.reader(queue);
        for _ in 0..2 {
            tokio::time::timeout(Duration::from_secs(20), reader.wait()).await.expect("there are more");
            assert_eq!(reader.next(2, usize::MAX).unwrap().len(), 2);
        }
    });
}

#[test]
fn no_wakeup_is_missed_whenever_the_reader_looks() {
    let (_, store, queue) = memory();
    let (ask, asked) = mpsc::channel();
    let feeder = store.clone();
    let feed = thread::spawn(move || {
        for () in asked {
            feeder.submit(message(queue, 3, "x"), |outcome| expect_stored(&outcome));
        }
    });
    block_on(async {
        let mut reader = store.reader(queue);
        let mut random = Random(3);
        for _ in 0..3000 {
            ask.send(()).unwrap();
            // Looks at any time before, while and after the message is committed.
            for _ in 0..random.below(30_000) {
                std::hint::spin_loop();
            }
            while reader.next(7, usize::MAX).unwrap().is_empty() {
                tokio::time::timeout(Duration::from_secs(20), reader.wait()).await.expect("a message has come");
            }
        }
    });
    drop(ask);
    feed.join().unwrap();
}

#[test]
fn a_wait_that_is_cancelled_loses_nothing() {
    const COUNT: usize = 1000;
    let (_, store, queue) = memory();
    let feeder = store.clone();
    let feed = thread::spawn(move || {
        for _ in 0..COUNT {
            put(&feeder, message(queue, 3, "x"));
        }
    });
    block_on(async {
        let mut reader = store.reader(queue);
        let mut seen = 0;
        while seen < COUNT {
            let wait = tokio::time::timeout(Duration::from_micros(seen as u64 % 300), reader.wait());
            if wait.await.is_err() {
                tokio::time::timeout(Duration::from_secs(20), reader.wait()).await.expect("more come");
            }
            seen += reader.next(7, usize::MAX).unwrap().len();
        }
        assert_eq!(seen, COUNT);
    });
    feed.join().unwrap();
}

// --- One writer, and what happens beside it

#[test]
fn while_one_commit_is_synced_the_next_batch_gathers_and_readers_read() {
    let (disk, store, queue) = memory();
    put(&store, message(queue, 3, "before"));
    let commits = store.commits();
    let held = disk.gate.write().unwrap();
    let (told, outcomes) = mpsc::channel();
    let submit = |frame: Vec<u8>| {
        let told = told.clone();
        store.submit(message(queue, 3, frame), move |outcome| told.send(outcome).unwrap());
    };
    submit(b"alone".to_vec());
    // The writer has taken that one when it writes to the disk.
    let operations = disk.operations();
    while disk.operations() == operations {
        thread::yield_now();
    }
    (0..100).for_each(|n| submit(vec![n]));
    let removal = store.remove(queue, vec![]);
    assert_eq!(frames(&read_all(&store, queue)), [b"before"], "readers do not wait, and see what is on disk");
    assert_eq!(store.depth(queue).messages, 1);
    assert!(outcomes.try_recv().is_err(), "nobody is told before it is on disk");
    drop(held);
    for outcome in outcomes.iter().take(101) {
        expect_stored(&outcome);
    }
    block_on(removal).unwrap();
    assert_eq!(store.commits(), commits + 2);
}

#[test]
fn submitting_waits_when_very_much_waits_already() {
    let (disk, store, queue) = memory();
    let held = disk.gate.write().unwrap();
    let feeder = store.clone();
    let submitted = Arc::new(AtomicUsize::new(0));
    let count = submitted.clone();
    let feed = thread::spawn(move || {
        for _ in 0..20_000 {
            feeder.submit(message(queue, 3, "x"), |outcome| expect_stored(&outcome));
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let long = Duration::from_secs(20);
    block_on(async {
        // Room is there as long as some thousands wait, and then no more.
        while tokio::time::timeout(Duration::from_millis(20), store.ready()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        let waiting = submitted.load(Ordering::SeqCst);
        // A batch under way besides.
        assert!((8000..13_000).contains(&waiting), "{waiting}");
        drop(held);
        tokio::time::timeout(long, store.ready()).await.expect("there is room again");
    });
    feed.join().unwrap();
    block_on(store.remove(queue, vec![])).unwrap();
    assert_eq!(store.depth(queue).messages, 20_000);
}

// --- Opening and closing

#[test]
fn a_file_that_was_half_made_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let unfinished = directory.path().join("store.redb.new");
    fs::write(&unfinished, Random(1).bytes(5000)).unwrap();
    let store = Store::open(&path, options()).unwrap();
    let queue = store.queue("q").unwrap();
    put(&store, message(queue, 3, "x"));
    assert!(path.exists() && !unfinished.exists());
    drop(store);
    assert_eq!(read_all(&Store::open(&path, options()).unwrap(), queue).len(), 1);
    // Somebody else is at it.
    fs::remove_file(&path).unwrap();
    let other = fs::File::create(&unfinished).unwrap();
    other.lock().unwrap();
    assert_eq!(
        Store::open(&path, options()).unwrap_err(),
        StoreError::InUse { place: path.display().to_string(), pid: Some(std::process::id()) }
    );
}

#[test]
fn a_store_is_opened_once_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Store::open(&path, options()).unwrap();
    let error = Store::open(&path, options()).unwrap_err();
    let pid = std::process::id();
    assert_eq!(error, StoreError::InUse { place: path.display().to_string(), pid: Some(pid) });
    assert_eq!(
        error.to_string(),
        format!(
            "{} is in use by another process, pid {pid}; one bridge at a time can have a state directory",
            path.display()
        )
    );
    // Who it is helps, and is not what keeps others out.
    fs::write(directory.path().join("store.pid"), "nobody").unwrap();
    let error = Store::open(&path, options()).unwrap_err();
    assert_eq!(error, StoreError::InUse { place: path.display().to_string(), pid: None });
    drop(store);
    Store::open(&path, options()).unwrap();
}

#[test]
fn a_file_that_was_taken_away_takes_no_more_messages_and_gives_up_those_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&state).unwrap();
    let path = state.join("store.redb");
    let store = Store::open(&path, options()).unwrap();
    let queue = store.queue("q").unwrap();
    let first = put(&store, message(queue, 3, "first"));
    assert_eq!(store.look_for_file(), Ok(()));
    let missing = StoreError::Missing(path.display().to_string());

    fs::rename(&state, &elsewhere).unwrap();
    assert_eq!(store.look_for_file(), Err(missing.clone()));
    assert_eq!(submit(&store, message(queue, 3, "second")).unwrap_err(), missing);
    // Another one in its place is not the one that is written to.
    fs::create_dir(&state).unwrap();
    fs::copy(elsewhere.join("store.redb"), &path).unwrap();
    assert_eq!(submit(&store, message(queue, 3, "second")).unwrap_err(), missing);
    assert_eq!(frames(&read_all(&store, queue)), [b"first"]);

    fs::remove_dir_all(&state).unwrap();
    fs::rename(&elsewhere, &state).unwrap();
    assert_eq!(store.look_for_file(), Ok(()));
    put(&store, message(queue, 3, "third"));
    block_on(store.remove(queue, vec![first])).unwrap();

    fs::remove_dir_all(&state).unwrap();
    assert_eq!(submit(&store, message(queue, 3, "fourth")).unwrap_err(), missing);
    let read = read_all(&store, queue);
    assert_eq!(frames(&read), [b"third"], "what was acknowledged is still there to be forwarded");
    block_on(store.remove(queue, vec![read[0].position])).unwrap();
    assert_eq!(read_all(&store, queue).len(), 0);
    block_on(store.close(true)).unwrap();
    assert!(!state.exists(), "nothing is made in its place");
}

#[test]
fn what_can_not_be_opened_says_which_file_and_why() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent").join("store.redb");
    let error = Store::open(&absent, options()).unwrap_err().to_string();
    assert!(error.contains("absent/store.redb") && error.contains("No such file"), "{error}");

    let text = directory.path().join("notes.txt");
    fs::write(&text, "x".repeat(10_000)).unwrap();
    let error = Store::open(&text, options()).unwrap_err().to_string();
    assert!(error.contains("notes.txt"), "{error}");

    let foreign = directory.path().join("foreign.redb");
    {
        let database = redb::Database::create(&foreign).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(redb::TableDefinition::<u64, u64>::new("other")).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    }
    let error = Store::open(&foreign, options()).unwrap_err().to_string();
    assert!(error.contains("foreign.redb") && error.contains("another program"), "{error}");
}

#[test]
fn a_damaged_file_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Store::open(&path, options()).unwrap();
    let queue = store.queue("q").unwrap();
    for number in 0..100_u32 {
        put(&store, message(queue, 3, Random(number.into()).bytes(5000)));
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut random = Random(7);
    // Whatever is broken: an error, when there is one, has its remedy. That messages themselves are damaged shows when
    // they are read.
    let mut refused = 0;
    let begin = |from: usize| from..(from + 4096).min(whole.len());
    for range in (0..whole.len()).step_by(4096).map(begin).chain([0..9, 64..128, 0..whole.len()]) {
        let mut broken = whole.clone();
        broken[range.clone()].copy_from_slice(&random.bytes(range.len()));
        fs::write(&path, broken).unwrap();
        if let Err(error) = Store::open(&path, options()) {
            let text = error.to_string();
            refused += 1;
            assert!(text.contains("store.redb") && text.contains("restore the state directory"), "{range:?}: {text}");
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_store_of_a_later_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(Store::open(&path, options()).unwrap());
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(meta).unwrap().insert("version", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = Store::open(&path, options()).unwrap_err().to_string();
    assert!(error.contains("store.redb") && error.contains("later version") && error.contains("format 2"), "{error}");
}

#[test]
fn closing_finishes_what_was_submitted_and_takes_nothing_more() {
    let (disk, store, queue) = memory();
    let told = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let told = told.clone();
        store.submit(message(queue, 3, "x"), move |outcome| {
            stored(&outcome);
            told.fetch_add(1, Ordering::SeqCst);
        });
    }
    let clone = store.clone();
    let closing = store.close(true);
    assert_eq!(submit(&clone, message(queue, 3, "late")), Err(StoreError::Closed));
    assert_eq!(block_on(clone.remove(queue, vec![])), Err(StoreError::Closed));
    assert_eq!(clone.queue("new"), Err(StoreError::Closed));
    block_on(closing).unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 100);
    assert_eq!(block_on(clone.close(true)), Err(StoreError::Closed));
    assert_eq!(clone.oldest(queue), Err(StoreError::Closed));
    assert_eq!(clone.reader(queue).next(1, 1).unwrap_err(), StoreError::Closed);
    assert_eq!(Store::open_on(disk, options()).unwrap().depth(queue).messages, 100);
}

#[test]
fn dropping_the_last_handle_finishes_what_was_submitted() {
    let (disk, store, queue) = memory();
    let (told, outcomes) = mpsc::channel();
    for _ in 0..100 {
        let told = told.clone();
        store.submit(message(queue, 3, "x"), move |outcome| told.send(outcome).unwrap());
    }
    drop(store);
    assert_eq!(outcomes.try_iter().flatten().count(), 100);
    assert_eq!(Store::open_on(disk, options()).unwrap().depth(queue).messages, 100);
}

#[test]
fn what_is_called_back_may_submit_panic_and_hold_the_last_handle() {
    let (disk, store, queue) = memory();
    let (told, outcomes) = mpsc::channel();
    let last = store.clone();
    store.submit(message(queue, 3, "a"), |_| panic!("of the caller, on purpose"));
    store.submit(message(queue, 3, "b"), move |_| {
        assert!(last.queue("new").is_err(), "it can't wait for itself");
        last.submit(message(queue, 3, "c"), move |outcome| told.send(outcome).unwrap());
    });
    drop(store);
    stored(&outcomes.recv_timeout(Duration::from_secs(20)).unwrap());
    // The thread ends by itself: the file is free shortly after.
    while Arc::strong_count(&disk) > 1 {
        thread::yield_now();
    }
    assert_eq!(Store::open_on(disk, options()).unwrap().depth(queue).messages, 3);
}

#[test]
fn a_store_with_a_long_backlog_opens_at_once_after_a_crash() {
    const COUNT: usize = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = Store::open(&path, options()).unwrap();
    let queue = store.queue("q").unwrap();
    for first in (0..COUNT).step_by(4000) {
        let messages = (first..first + 4000).map(|n| {
            let mut message = message(queue, 3, vec![0x55; 100]);
            message.duplicate_key = Some(id(1, u32::try_from(n).unwrap()));
            message
        });
        submit_all(&store, messages.collect());
    }
    // The best of three: the machine may be busy with other things.
    let best = (0..3).map(|n| {
        // What a crash leaves is the file as it is now.
        let crashed = directory.path().join(format!("crashed{n}.redb"));
        fs::copy(&path, &crashed).unwrap();
        let start = Instant::now();
        let reopened = Store::open(&crashed, options()).unwrap();
        let first = reopened.reader(queue).next(10, usize::MAX).unwrap();
        let elapsed = start.elapsed();
        println!("{COUNT} messages: open and first read after {elapsed:?}");
        assert_eq!(reopened.depth(queue), Depth { messages: COUNT as u64, bytes: COUNT as u64 * 100 });
        assert_eq!(first.len(), 10);
        assert!(first[0].may_be_repeated);
        elapsed
    });
    let best = best.min().unwrap();
    assert!(best < Duration::from_millis(500), "{best:?}");
}
