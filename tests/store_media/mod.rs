//! What the tests of the store have in common: a disk made of memory that can fail, fill up, and lose what was not
//! synced; and ways to ask the store and wait for the answer.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use bytes::Bytes;
use mqbridge::mqqb::wire::{Guid, MessageId};
use mqbridge::store::{
    Enqueued, Medium, NewMessage, Position, QueueId, Store, StoreError, StoreOptions, StoredMessage,
};

/// The unit in which a write is torn.
const SECTOR: usize = 512;

/// A disk of memory.
#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    /// Syncs wait while somebody else holds it.
    pub gate: RwLock<()>,
}

#[derive(Default)]
struct State {
    /// What is read back now.
    live: Vec<u8>,
    /// What was there at the last sync.
    synced: Vec<u8>,
    /// What was written since.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Operations so far: writes, changes of the length and syncs.
    operations: u64,
    /// Reads so far.
    reads: u64,
    /// The power goes at this operation: it and all that follow fail.
    dies_at: Option<u64>,
    /// This operation fails, and what it was to do may have been done or not.
    fails_at: Option<u64>,
    /// This read fails.
    read_fails_at: Option<u64>,
    /// There is no room for more bytes that are not zero.
    capacity: Option<usize>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes after {} operations", self.live.len(), self.operations)
    }
}

impl Disk {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn dying_at(operation: u64) -> Arc<Self> {
        let disk = Self::default();
        disk.state().dies_at = Some(operation);
        Arc::new(disk)
    }

    /// The operation to come, counted from now, fails; those after it do not.
    pub fn fail_in(&self, operations: u64) {
        let mut state = self.state();
        state.fails_at = Some(state.operations + operations);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.fails_at, state.read_fails_at, state.dies_at, state.capacity) = (None, None, None, None);
    }

    /// The power goes after so many more operations.
    pub fn die_in(&self, operations: u64) {
        let mut state = self.state();
        state.dies_at = Some(state.operations + operations);
    }

    pub fn fail_read_in(&self, reads: u64) {
        let mut state = self.state();
        state.read_fails_at = Some(state.reads + reads);
    }

    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.state().capacity = bytes;
    }

    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    pub fn length(&self) -> usize {
        self.state().live.len()
    }

    /// A copy of what is read back now.
    pub fn copy(&self) -> Arc<Self> {
        let live = self.state().live.clone();
        Self::with(live)
    }

    fn with(live: Vec<u8>) -> Arc<Self> {
        let state = Mutex::new(State { synced: live.clone(), live, ..State::default() });
        Arc::new(Self { state, gate: RwLock::default() })
    }

    /// What is found after the power has gone: what was synced, and any part of what was not.
    pub fn after_power_loss(&self, random: &mut Random) -> Arc<Self> {
        let state = self.state();
        let mut image = state.synced.clone();
        let fate = random.below(4);
        if fate != 0 && state.live.len() > image.len() && random.below(2) == 0 {
            image.resize(state.live.len(), 0);
        }
        for (start, data) in &state.unsynced {
            for (number, sector) in data.chunks(SECTOR).enumerate() {
                let at = start + number * SECTOR;
                let kept = match fate {
                    0 => 0,
                    1 => sector.len(),
                    2 => sector.len() * random.below(2),
                    _ if random.below(8) == 0 => random.below(sector.len() + 1),
                    _ => sector.len() * random.below(2),
                };
                if let Some(place) = image.get_mut(at..at + kept) {
                    place.copy_from_slice(&sector[..kept]);
                }
            }
        }
        Self::with(image)
    }

    /// Changes bytes behind the store's back. Gives whether `old` was found, and where.
    pub fn damage(&self, old: &[u8], change: impl FnOnce(&mut [u8])) -> bool {
        let mut state = self.state();
        let found = state.live.windows(old.len()).position(|window| window == old);
        if let Some(at) = found {
            change(&mut state.live[at..at + old.len()]);
        }
        found.is_some()
    }

    pub fn flip(&self, bit: usize) {
        self.state().live[bit / 8] ^= 1 << (bit % 8);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Counts an operation. An error without a value before the operation, or with one after it.
    fn operation(&mut self) -> io::Result<bool> {
        let number = self.operations;
        self.operations += 1;
        if self.dies_at.is_some_and(|dies_at| number >= dies_at) {
            return Err(io::Error::other("the power has gone"));
        }
        Ok(self.fails_at == Some(number))
    }
}

fn injected() -> io::Error {
    io::Error::from_raw_os_error(5 /* EIO */)
}

impl Medium for Disk {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        let number = state.reads;
        state.reads += 1;
        if state.read_fails_at == Some(number) {
            return Err(injected());
        }
        let start = usize::try_from(offset).unwrap();
        let bytes = state.live.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.operation()?;
        // As a file system does, a change of the length is kept with what is written later, or is synced.
        state.live.resize(usize::try_from(length).unwrap(), 0);
        if fails { Err(injected()) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let fails = state.operation()?;
        let start = usize::try_from(offset).unwrap();
        if state.capacity.is_some_and(|capacity| start + data.len() > capacity) {
            return Err(io::Error::from_raw_os_error(28 /* ENOSPC */));
        }
        // A failed write may have written a part.
        let data = if fails { &data[..data.len() / 2] } else { data };
        let place = state.live.get_mut(start..start + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(data);
        state.unsynced.push((start, data.to_vec()));
        if fails { Err(injected()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        drop(self.gate.read().unwrap());
        let mut state = self.state();
        if state.operation()? {
            // As on Linux: what was written is still read back, and counts as written, though it never reached the
            // disk. A later sync, which succeeds, does not bring it there either.
            state.unsynced.clear();
            return Err(injected());
        }
        let state = &mut *state;
        state.synced.resize(state.live.len(), 0);
        for (start, data) in state.unsynced.drain(..) {
            // It may have been cut off since.
            let end = (start + data.len()).min(state.synced.len());
            if let Some(place) = state.synced.get_mut(start..end) {
                place.copy_from_slice(&data[..end - start]);
            }
        }
        Ok(())
    }
}

/// `SplitMix64`: the same numbers for the same seed, always.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

pub const LIFETIME: u64 = 1800;
pub const NOW: u64 = 1_700_000_000;

pub fn options() -> StoreOptions {
    StoreOptions { quota: 1 << 40, history_lifetime: Duration::from_secs(LIFETIME), history_rows: 10_000 }
}

pub fn message(queue: QueueId, priority: u8, frame: impl Into<Bytes>) -> NewMessage {
    let frame = frame.into();
    NewMessage {
        queue,
        priority,
        frame,
        received_at: NOW,
        duplicate_key: None,
        foreign: None,
        marks: 0,
        queue_quota: u64::MAX,
        stream: None,
        companions: Vec::new(),
    }
}

pub fn id(source: u8, ordinal: u32) -> MessageId {
    MessageId { source: Guid::from_wire([source; 16]), ordinal }
}

/// Submits all of them and waits for what becomes of each.
pub fn submit_all(store: &Store, messages: Vec<NewMessage>) -> Vec<Result<Enqueued, StoreError>> {
    let (told, outcomes) = mpsc::channel();
    let count = messages.len();
    for (number, message) in messages.into_iter().enumerate() {
        let told = told.clone();
        store.submit(message, move |outcome| told.send((number, outcome)).unwrap());
    }
    let mut results: Vec<_> = outcomes.iter().take(count).collect();
    results.sort_by_key(|(number, _)| *number);
    assert_eq!(results.len(), count, "each is told once");
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

/// As [`submit_all`], and all in one commit: they are submitted while the writer calls back, so that it finds them
/// waiting together.
pub fn submit_together(store: &Store, messages: Vec<NewMessage>) -> Vec<Result<Enqueued, StoreError>> {
    let Some(first) = messages.first() else { return Vec::new() };
    let (told, outcomes) = mpsc::channel();
    let count = messages.len();
    // Refused, whatever it is.
    let nothing = NewMessage { queue_quota: 0, duplicate_key: None, frame: Bytes::from_static(b"x"), ..first.clone() };
    let together = store.clone();
    store.submit(nothing, move |_| {
        for (number, message) in messages.into_iter().enumerate() {
            let told = told.clone();
            together.submit(message, move |outcome| told.send((number, outcome)).unwrap());
        }
    });
    let mut results: Vec<_> = outcomes.iter().take(count).collect();
    results.sort_by_key(|(number, _)| *number);
    assert_eq!(results.len(), count, "each is told once");
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

pub fn submit(store: &Store, message: NewMessage) -> Result<Enqueued, StoreError> {
    submit_all(store, vec![message]).remove(0)
}

/// Stores a message and gives its position.
pub fn put(store: &Store, message: NewMessage) -> Position {
    stored(&submit(store, message))
}

pub fn stored(outcome: &Result<Enqueued, StoreError>) -> Position {
    match outcome {
        Ok(Enqueued::Stored(position)) => *position,
        other => panic!("not stored: {other:?}"),
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// All messages of a queue, in the order in which a reader gives them. Waits while the store overcomes an error.
pub fn read_all(store: &Store, queue: QueueId) -> Vec<StoredMessage> {
    let mut reader = store.reader(queue);
    let mut all = Vec::new();
    let mut patience = 2000;
    loop {
        let disturbed = match reader.next(100, 1 << 20) {
            Ok(some) if some.is_empty() => {
                // When the store was opened anew between two looks, a batch whose commit had failed and had reached the
                // disk all the same has come in between.
                if all.is_sorted_by_key(|message: &StoredMessage| message.position) {
                    return all;
                }
                true
            }
            Ok(some) => {
                all.extend(some);
                false
            }
            Err(StoreError::Disk(_)) => {
                std::thread::sleep(Duration::from_millis(5));
                true
            }
            Err(error) => panic!("{error}"),
        };
        if disturbed {
            assert!(patience > 0, "the queue can't be read in order");
            patience -= 1;
            reader.rewind();
            all.clear();
        }
    }
}

pub fn frames(messages: &[StoredMessage]) -> Vec<&[u8]> {
    messages.iter().map(|message| &message.frame[..]).collect()
}
