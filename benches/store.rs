//! What a message costs in the store: messages per second, and CPU time of the whole process per message.
//!
//! `cargo bench --bench store` prints a table. Frames are of 1 KiB unless the row says otherwise. "Batch" is the number
//! of messages under way at a time, and so in a commit: a disk that syncs slowly makes its own batches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "it measures and prints")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mqbridge::mqqb::wire::{Guid, MessageId};
use mqbridge::store::{NewMessage, QueueId, Reader, Store, StoreOptions};

const KIB: usize = 1024;

fn main() {
    // Cargo passes --bench; a test run of the benchmarks passes --test and wants a quick pass.
    let quick = std::env::args().any(|argument| argument == "--test");
    let scale = if quick { 100 } else { 1 };
    // Numbers choose among the batches.
    let chosen: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let batches = || [1, 16, 64, 256].into_iter().filter(|batch| chosen.is_empty() || chosen.contains(batch));
    println!(
        "{:<36} {:>6} {:>12} {:>12} {:>12} {:>10}",
        "", "batch", "messages/s", "CPU us/msg", "commits/1000", "KiB/msg"
    );
    for batch in batches() {
        let count = match batch {
            1 => 20_000,
            16 => 100_000,
            _ => 300_000,
        } / scale;
        let directory = tempfile::tempdir().unwrap();
        let (store, queue) = open(directory.path());
        let kib = || Some(on_disk(directory.path()) / count as f64 / KIB as f64);
        let appended = measure(&store, count, || append(&store, queue, batch, count, KIB));
        print("append", batch, &appended, kib());
        let removed = measure(&store, count, || drain(&store, queue, batch, count));
        print("read and remove", batch, &removed, kib());
        let both = appended.cpu_per_message + removed.cpu_per_message;
        println!("{:<36} {:>6} {:>12} {:>12.2}", "both", batch, "", both);
    }
    for batch in batches() {
        let rounds = if batch == 1 { 10_000 } else { 200_000 / batch } / scale;
        let directory = tempfile::tempdir().unwrap();
        let (store, queue) = open(directory.path());
        append(&store, queue, 256, 2_000, KIB);
        let count = rounds * batch;
        let steady = measure(&store, count, || steady(&store, queue, batch, rounds));
        print("append, read, remove; 2000 waiting", batch, &steady, None);
    }
    let sizes = [(100, 300_000), (2_100, 100_000), (5_000, 100_000), (64 * KIB, 10_000), (4096 * KIB, 200)];
    for (size, count) in sizes.into_iter().filter(|_| chosen.is_empty()) {
        let count = count / scale + 1;
        let directory = tempfile::tempdir().unwrap();
        let (store, queue) = open(directory.path());
        let batch = (1_000_000 / size).clamp(1, 64);
        let appended = measure(&store, count, || append(&store, queue, batch, count, size));
        let ratio = on_disk(directory.path()) / (count * size) as f64;
        print(&format!("append {size} bytes, on disk {ratio:.2}x"), batch, &appended, None);
        let removed = measure(&store, count, || drain(&store, queue, batch, count));
        print(&format!("read and remove {size} bytes"), batch, &removed, None);
    }
    if chosen.is_empty() {
        large_backlogs(scale);
    }
}

/// What depends on how much is stored: a commit notes which pages are free, and opening must not look at everything.
fn large_backlogs(scale: usize) {
    let directory = tempfile::tempdir().unwrap();
    let (store, queue) = open(directory.path());
    append(&store, queue, 16, (16 << 10) / scale, 64 * KIB);
    let count = 100_000 / scale;
    let appended = measure(&store, count, || append(&store, queue, 64, count, KIB));
    print("append, 1 GiB waiting", 64, &appended, None);
    drop(store);

    let directory = tempfile::tempdir().unwrap();
    let (store, queue) = open(directory.path());
    append(&store, queue, 1024, 1_000_000 / scale, 100);
    let crashed = tempfile::tempdir().unwrap();
    fs::copy(directory.path().join("store.redb"), crashed.path().join("store.redb")).unwrap();
    let start = Instant::now();
    let (reopened, queue) = open(crashed.path());
    let opened = start.elapsed();
    reopened.reader(queue).next(10, usize::MAX).unwrap();
    println!(
        "after a crash with {} messages waiting: open in {opened:?}, first read after {:?}",
        reopened.depth(queue).messages,
        start.elapsed()
    );
}

struct Figures {
    per_second: f64,
    cpu_per_message: f64,
    commits_per_thousand: f64,
}

fn print(what: &str, batch: usize, figures: &Figures, kib: Option<f64>) {
    let kib = kib.map_or(String::new(), |kib| format!("{kib:.2}"));
    println!(
        "{:<36} {:>6} {:>12.0} {:>12.2} {:>12.1} {:>10}",
        what, batch, figures.per_second, figures.cpu_per_message, figures.commits_per_thousand, kib
    );
}

fn measure(store: &Store, count: usize, work: impl FnOnce()) -> Figures {
    let (commits, cpu, start) = (store.commits(), cpu_time(), Instant::now());
    work();
    let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    Figures {
        per_second: count as f64 / elapsed.as_secs_f64(),
        cpu_per_message: cpu.as_secs_f64() * 1e6 / count as f64,
        commits_per_thousand: (store.commits() - commits) as f64 * 1000.0 / count as f64,
    }
}

/// Time on the CPU of all threads that live, from the kernel's own count in nanoseconds.
fn cpu_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = tasks.map(|task| {
        let line = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        line.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn on_disk(directory: &Path) -> f64 {
    fs::read_dir(directory).unwrap().map(|file| file.unwrap().metadata().unwrap().blocks() as f64 * 512.0).sum()
}

fn open(directory: &Path) -> (Store, QueueId) {
    let options = StoreOptions { quota: 1 << 40, history_lifetime: Duration::from_mins(30), history_rows: 100_000 };
    let store = Store::open(&directory.join("store.redb"), options).unwrap();
    let queue = store.queue(r"private$\orders").unwrap();
    (store, queue)
}

/// Messages that are submitted as others are stored, from where the writer calls back: so that each commit takes as
/// many as are under way.
struct Feed {
    store: Store,
    queue: QueueId,
    frame: Bytes,
    left: AtomicI64,
    /// Nothing is sent: that all have dropped it tells that all are stored, and costs nothing.
    _stored: mpsc::Sender<()>,
}

fn append(store: &Store, queue: QueueId, batch: usize, count: usize, size: usize) {
    let (stored, all) = mpsc::channel::<()>();
    let frame = Bytes::from(vec![0x5A; size]);
    let left = AtomicI64::new(i64::try_from(count).unwrap());
    let feed = Arc::new(Feed { store: store.clone(), queue, frame, left, _stored: stored });
    for _ in 0..batch {
        feed_one(feed.clone());
    }
    drop(feed);
    assert!(all.recv().is_err());
}

fn feed_one(feed: Arc<Feed>) {
    let left = feed.left.fetch_sub(1, Ordering::Relaxed);
    if left <= 0 {
        return;
    }
    let id = MessageId { source: Guid::from_wire([7; 16]), ordinal: u32::MAX - u32::try_from(left).unwrap() };
    let message = NewMessage {
        queue: feed.queue,
        priority: 3,
        frame: feed.frame.clone(),
        received_at: 1_700_000_000,
        duplicate_key: Some(id),
        foreign: None,
        marks: 0,
        companions: Vec::new(),
        queue_quota: u64::MAX,
        stream: None,
    };
    let store = feed.store.clone();
    store.submit(message, move |result| {
        result.unwrap();
        feed_one(feed);
    });
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn drain(store: &Store, queue: QueueId, batch: usize, count: usize) {
    let mut reader = store.reader(queue);
    block_on(async {
        let mut removed = 0;
        while removed < count {
            removed += remove_some(store, queue, &mut reader, batch).await;
        }
    });
}

async fn remove_some(store: &Store, queue: QueueId, reader: &mut Reader, batch: usize) -> usize {
    let messages = reader.next(batch, usize::MAX).unwrap();
    let positions: Vec<_> = messages.iter().map(|message| message.position).collect();
    let count = positions.len();
    store.remove(queue, positions).await.unwrap();
    count
}

fn steady(store: &Store, queue: QueueId, batch: usize, rounds: usize) {
    let mut reader = store.reader(queue);
    block_on(async {
        let (stored, all) = mpsc::channel::<()>();
        for round in 0..rounds {
            for n in 0..batch {
                let ordinal = u32::try_from(round * batch + n).unwrap();
                let message = NewMessage {
                    queue,
                    priority: 3,
                    frame: Bytes::from(vec![0x5A; KIB]),
                    received_at: 1_700_000_000,
                    duplicate_key: Some(MessageId { source: Guid::from_wire([8; 16]), ordinal }),
                    foreign: None,
                    marks: 0,
                    companions: Vec::new(),
                    queue_quota: u64::MAX,
                    stream: None,
                };
                let stored = stored.clone();
                store.submit(message, move |result| {
                    result.unwrap();
                    drop(stored);
                });
            }
            remove_some(store, queue, &mut reader, batch).await;
        }
        drop(stored);
        assert!(all.recv().is_err());
    });
}
