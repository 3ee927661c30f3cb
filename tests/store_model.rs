//! The store against a model of a few lines: any sequence of operations, restarts and losses of power between them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod store_media;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use mqbridge::mqqb::wire::MessageId;
use mqbridge::store::{
    Depth, Enqueued, NewMessage, Position, QueueId, Reader, SetAside, Store, StoreError, StoreOptions,
};
use proptest::prelude::*;
use store_media::{Disk, LIFETIME, NOW, Random, block_on, id, options, submit_together};

const QUEUES: usize = 3;
const QUOTA: u64 = 60_000;
const QUEUE_QUOTA: u64 = 30_000;
/// A run of ordinals is forgotten as a whole, at most a minute after the message.
const RUN: u64 = 60;

#[derive(Clone, Debug)]
struct New {
    queue: usize,
    priority: u8,
    length: usize,
    key: Option<(u8, u32)>,
}

#[derive(Clone, Debug)]
enum Step {
    /// In one commit.
    Store(Vec<New>),
    /// Messages by their number among all that are there, some of them perhaps gone already.
    Remove(Vec<usize>),
    SetAside(usize, usize),
    Requeue(usize, usize),
    Read {
        queue: usize,
        limit: usize,
        bytes: usize,
    },
    Rewind(usize),
    Later(u64),
    Expire,
    /// Closed clean, closed with messages in flight, the power gone.
    Restart(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![6 => 0..400_usize, 2 => 400..5000_usize, 1 => 5000..25_000_usize];
    let key = proptest::option::weighted(0.8, (0..3_u8, 0..30_u32));
    let new = (0..QUEUES, 0..8_u8, length, key).prop_map(|(queue, priority, length, key)| New {
        queue,
        priority,
        length,
        key,
    });
    let step = prop_oneof![
        6 => prop::collection::vec(new, 1..6).prop_map(Step::Store),
        3 => prop::collection::vec(any::<prop::sample::Index>(), 1..8)
            .prop_map(|chosen| Step::Remove(chosen.iter().map(|index| index.index(1000)).collect())),
        1 => (0..1000_usize, 0..QUEUES).prop_map(|(which, to)| Step::SetAside(which, to)),
        1 => (0..1000_usize, 0..QUEUES).prop_map(|(which, to)| Step::Requeue(which, to)),
        5 => (0..QUEUES, 1..6_usize, prop_oneof![Just(usize::MAX), 1..3000_usize])
            .prop_map(|(queue, limit, bytes)| Step::Read { queue, limit, bytes }),
        1 => (0..QUEUES).prop_map(Step::Rewind),
        1 => (1..LIFETIME).prop_map(Step::Later),
        1 => Just(Step::Expire),
        1 => (0..3_u8).prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug)]
struct Message {
    frame: Bytes,
    received_at: u64,
    may_be_repeated: bool,
    reason: Option<SetAside>,
}

struct Model {
    disk: Arc<Disk>,
    store: Option<Store>,
    queues: Vec<QueueId>,
    readers: Vec<Reader>,
    given: Vec<BTreeSet<Position>>,
    messages: BTreeMap<(QueueId, Position), Message>,
    /// Positions that are gone.
    gone: Vec<(QueueId, Position)>,
    seen: HashMap<MessageId, u64>,
    now: u64,
    random: Random,
    highest: u64,
}

fn model_options() -> StoreOptions {
    StoreOptions { quota: QUOTA, ..options() }
}

fn arrival(position: Position) -> u64 {
    position.to_string().rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap()
}

impl Model {
    fn new() -> Self {
        let disk = Disk::new();
        let store = Store::open_on(disk.clone(), model_options()).unwrap();
        let queues: Vec<QueueId> = (0..QUEUES).map(|n| store.queue(&format!("queue {n}")).unwrap()).collect();
        let readers = queues.iter().map(|queue| store.reader(*queue)).collect();
        Self {
            disk,
            store: Some(store),
            queues,
            readers,
            given: vec![BTreeSet::new(); QUEUES],
            messages: BTreeMap::new(),
            gone: Vec::new(),
            seen: HashMap::new(),
            now: NOW,
            random: Random(7),
            highest: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn depth(&self, queue: QueueId) -> Depth {
        let of_queue = self.messages.iter().filter(|((q, _), _)| *q == queue);
        of_queue.fold(Depth::default(), |depth, (_, message)| Depth {
            messages: depth.messages + 1,
            bytes: depth.bytes + message.frame.len() as u64,
        })
    }

    fn bytes(&self) -> u64 {
        self.messages.values().map(|message| message.frame.len() as u64).sum()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Store(new) => self.store_messages(&new),
            Step::Remove(chosen) => self.remove(&chosen),
            Step::SetAside(which, to) => {
                let reason =
                    SetAside { origin: format!("queue {which}"), class: 0x8000, reason: "no".into(), at: self.now };
                self.relocate(which, to, Some(reason));
            }
            Step::Requeue(which, to) => self.relocate(which, to, None),
            Step::Read { queue, limit, bytes } => self.read(queue, limit, bytes),
            Step::Rewind(queue) => {
                self.readers[queue].rewind();
                self.given[queue].clear();
            }
            Step::Later(seconds) => self.now += seconds,
            Step::Expire => drop(block_on(self.store().expire_history(self.now)).unwrap()),
            Step::Restart(how) => self.restart(how),
        }
        for queue in &self.queues {
            assert_eq!(self.store().depth(*queue), self.depth(*queue));
            let head = self.messages.iter().find(|((q, _), _)| q == queue).map(|(_, message)| message.received_at);
            assert_eq!(self.store().oldest(*queue), Ok(head));
        }
        assert_eq!(self.store().total_depth().bytes, self.bytes());
    }

    fn store_messages(&mut self, new: &[New]) {
        let messages: Vec<NewMessage> = new
            .iter()
            .map(|new| NewMessage {
                queue: self.queues[new.queue],
                priority: new.priority,
                frame: self.random.bytes(new.length).into(),
                received_at: self.now,
                duplicate_key: new.key.map(|(source, ordinal)| id(source, ordinal)),
                foreign: None,
                marks: 0,
                companions: Vec::new(),
                queue_quota: QUEUE_QUOTA,
                stream: None,
            })
            .collect();
        let outcomes = submit_together(self.store(), messages.clone());
        for (message, outcome) in messages.into_iter().zip(outcomes) {
            self.check_outcome(message, &outcome);
        }
    }

    fn check_outcome(&mut self, message: NewMessage, outcome: &Result<Enqueued, StoreError>) {
        let seen = message.duplicate_key.and_then(|key| self.seen.get(&key).copied());
        if let Ok(Enqueued::Duplicate) = outcome {
            let age = self.now - seen.expect("it was seen");
            assert!(age <= LIFETIME + RUN, "forgotten {age} seconds after it came");
            self.seen.insert(message.duplicate_key.unwrap(), self.now);
            return;
        }
        assert!(seen.is_none_or(|seen| self.now - seen > LIFETIME), "a duplicate");
        let length = message.frame.len() as u64;
        let (used, in_queue) = (self.bytes(), self.depth(message.queue).bytes);
        if used + length > QUOTA {
            assert_eq!(outcome, &Err(StoreError::Full { used, quota: QUOTA }));
        } else if in_queue + length > QUEUE_QUOTA {
            assert_eq!(outcome, &Err(StoreError::QueueFull { used: in_queue, quota: QUEUE_QUOTA }));
        } else {
            let position = store_media::stored(outcome);
            assert_eq!(position.priority(), message.priority);
            self.arrived(position);
            let stored = Message {
                frame: message.frame,
                received_at: message.received_at,
                may_be_repeated: false,
                reason: None,
            };
            assert!(self.messages.insert((message.queue, position), stored).is_none());
            if let Some(key) = message.duplicate_key {
                self.seen.insert(key, self.now);
            }
        }
    }

    fn arrived(&mut self, position: Position) {
        assert!(arrival(position) > self.highest, "arrivals grow");
        self.highest = arrival(position);
    }

    fn remove(&mut self, chosen: &[usize]) {
        let mut by_queue: BTreeMap<QueueId, Vec<Position>> = BTreeMap::new();
        for which in chosen {
            // One in five is gone already.
            let places: Vec<_> =
                if which % 5 == 0 { self.gone.clone() } else { self.messages.keys().copied().collect() };
            if let Some((queue, position)) = places.get(which % places.len().max(1)).copied() {
                by_queue.entry(queue).or_default().push(position);
            }
        }
        for (queue, positions) in by_queue {
            block_on(self.store().remove(queue, positions.clone())).unwrap();
            for position in positions {
                self.messages.remove(&(queue, position));
                self.gone.push((queue, position));
            }
        }
    }

    fn relocate(&mut self, which: usize, to: usize, reason: Option<SetAside>) {
        let Some(((from, position), mut message)) = self
            .messages
            .iter()
            .nth(which % self.messages.len().max(1))
            .map(|(place, message)| (*place, message.clone()))
        else {
            return;
        };
        let to = self.queues[to];
        match reason.clone() {
            Some(why) => block_on(self.store().set_aside(from, position, to, why)).unwrap(),
            None => block_on(self.store().requeue(from, position, to)).unwrap(),
        }
        self.messages.remove(&(from, position));
        self.gone.push((from, position));
        message.reason = reason;
        // It is the last of its priority; where, only the store knows.
        let last = block_on(async { self.last_of(to, position.priority()) });
        self.arrived(last);
        assert!(self.messages.insert((to, last), message).is_none());
    }

    fn last_of(&self, queue: QueueId, priority: u8) -> Position {
        let read = store_media::read_all(self.store(), queue);
        read.iter().map(|message| message.position).rfind(|position| position.priority() == priority).unwrap()
    }

    fn read(&mut self, queue: usize, limit: usize, bytes: usize) {
        let read = self.readers[queue].next(limit, bytes).unwrap();
        let mut expected = Vec::new();
        let mut left = bytes;
        for ((_, position), message) in self.messages.iter().filter(|((q, _), _)| *q == self.queues[queue]) {
            // What is behind a cursor was given, or was not there when it passed.
            if self.given[queue].contains(position) {
                continue;
            }
            if expected.len() == limit || left == 0 {
                break;
            }
            left = left.saturating_sub(message.frame.len());
            expected.push((*position, message.clone()));
        }
        let read: Vec<_> = read
            .into_iter()
            .map(|read| {
                let message = Message {
                    frame: read.frame,
                    received_at: read.received_at,
                    may_be_repeated: read.may_be_repeated,
                    reason: read.reason,
                };
                (read.position, message)
            })
            .collect();
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        self.given[queue].extend(expected.iter().map(|(position, _)| *position));
    }

    fn restart(&mut self, how: u8) {
        let store = self.store.take().unwrap();
        match how {
            0 => block_on(store.close(true)).unwrap(),
            1 => block_on(store.close(false)).unwrap(),
            _ => {
                // Everything was acknowledged.
                let found = self.disk.after_power_loss(&mut self.random);
                drop(store);
                self.disk = found;
            }
        }
        if how > 0 {
            self.messages.values_mut().for_each(|message| message.may_be_repeated = true);
        }
        let store = Store::open_on(self.disk.clone(), model_options()).unwrap();
        self.readers = self.queues.iter().map(|queue| store.reader(*queue)).collect();
        self.given.iter_mut().for_each(BTreeSet::clear);
        self.store = Some(store);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_says(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.take(step);
        }
        model.restart(0);
        for queue in 0..QUEUES {
            model.read(queue, usize::MAX, usize::MAX);
        }
    }
}
