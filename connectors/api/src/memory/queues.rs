//! Queues of the system in memory, and the inlets that take from them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::{MemorySystem, PEER, Shared};
use crate::{Address, Body, Delivery, Disposition, Incoming, Inlet, InletError, InletOptions, Message, Receipt};

impl MemorySystem {
    /// Makes a queue, unless it is there. Messages to the default exchange under its name go there from then on, and not
    /// to [`arrived`](Self::arrived).
    pub fn declare(&self, queue: impl Into<String>) {
        self.0.state().queues.by_name.entry(queue.into()).or_default();
        self.0.wake_inlets();
    }

    /// Deletes a queue with all that is in it; inlets that take from it fail.
    pub fn delete(&self, queue: &str) {
        let mut state = self.0.state();
        state.queues.by_name.remove(queue);
        state.queues.cancel(queue, &format!("queue {queue:?} was deleted"));
        drop(state);
        self.0.wake_inlets();
    }

    /// Cancels the inlets of a queue as a broker does that moves it; others may be opened at once.
    pub fn cancel_inlets(&self, queue: &str, reason: &str) {
        self.0.state().queues.cancel(queue, reason);
        self.0.wake_inlets();
    }

    /// From now on inlets of this queue fail; `None` lets them again.
    pub fn forbid(&self, queue: &str, reason: Option<&str>) {
        let mut state = self.0.state();
        if let Some(found) = state.queues.by_name.get_mut(queue) {
            found.forbidden = reason.map(ToOwned::to_owned);
        }
        if let Some(reason) = reason {
            state.queues.cancel(queue, reason);
        }
        drop(state);
        self.0.wake_inlets();
    }

    /// Puts a message into a queue, which is made when it is not there.
    pub fn put(&self, queue: impl Into<String>, message: Incoming) {
        self.0.state().queues.by_name.entry(queue.into()).or_default().push(message);
        self.0.wake_inlets();
    }

    /// How many messages wait in a queue to be delivered.
    pub fn waiting(&self, queue: &str) -> usize {
        self.0.state().queues.by_name.get(queue).map_or(0, |queue| queue.ready.len())
    }

    /// How many messages of a queue are delivered and not settled.
    pub fn unsettled(&self, queue: &str) -> usize {
        let state = self.0.state();
        state.queues.consumers.values().filter(|one| one.queue == queue).map(|one| one.open.len()).sum()
    }

    /// Takes out what waits in a queue.
    pub fn drain(&self, queue: &str) -> Vec<Incoming> {
        let mut state = self.0.state();
        let found = state.queues.by_name.get_mut(queue);
        found.map(|queue| std::mem::take(&mut queue.ready).into_values().collect()).unwrap_or_default()
    }

    /// Takes out what was refused, in the order in which that happened: the dead letters of a queue.
    pub fn refused(&self, queue: &str) -> Vec<Incoming> {
        let mut state = self.0.state();
        state.queues.by_name.get_mut(queue).map(|queue| std::mem::take(&mut queue.refused)).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    by_name: HashMap<String, Queue>,
    consumers: HashMap<u64, Consumer>,
    next_consumer: u64,
    /// How often in a row inlets have failed, by connector and route.
    failures: HashMap<(u64, String), u32>,
}

#[derive(Debug, Default)]
struct Queue {
    /// By their place: what is put back gets its old one.
    ready: BTreeMap<u64, Incoming>,
    next_place: u64,
    refused: Vec<Incoming>,
    /// Why nobody may take from it.
    forbidden: Option<String>,
}

impl Queue {
    fn push(&mut self, message: Incoming) {
        self.ready.insert(self.next_place, message);
        self.next_place += 1;
    }
}

/// What the system knows of an inlet.
#[derive(Debug)]
struct Consumer {
    /// The connector's number.
    line: u64,
    queue: String,
    prefetch: usize,
    /// Delivered and not settled, by place.
    open: BTreeMap<u64, Incoming>,
    /// Why it gets nothing more.
    ended: Option<String>,
}

impl Queues {
    pub(super) fn has(&self, queue: &str) -> bool {
        self.by_name.contains_key(queue)
    }

    /// Takes a message to the default exchange, when a queue has that name.
    pub(super) fn route(&mut self, message: &Message) -> bool {
        let Address { exchange, routing_key } = &message.address;
        let queue = if exchange.is_empty() { self.by_name.get_mut(routing_key) } else { None };
        queue.map(|queue| queue.push(Incoming::from(message))).is_some()
    }

    /// The connections of these connectors are lost: whatever their inlets have open goes back.
    pub(super) fn recover(&mut self, is_lost: impl Fn(u64) -> bool) {
        for (_, consumer) in self.consumers.extract_if(|_, consumer| is_lost(consumer.line)) {
            if let Some(queue) = self.by_name.get_mut(&consumer.queue) {
                queue.ready.extend(consumer.open.into_iter().map(|(place, mut message)| {
                    message.redelivered = true;
                    (place, message)
                }));
            }
        }
    }

    /// How long the route's next inlet waits: doubling from 100 ms to 10 s with each failure.
    pub(super) fn pause(&self, line: u64, route: &str) -> Option<Duration> {
        let failures = self.failures.get(&(line, route.to_owned()))?;
        let doublings = failures.saturating_sub(1).min(7);
        Some(Duration::from_millis(100 * 2_u64.pow(doublings)).min(Duration::from_secs(10)))
    }

    fn count_failure(&mut self, line: u64, route: &str) {
        let failures = self.failures.entry((line, route.to_owned())).or_default();
        *failures = failures.saturating_add(1);
    }

    pub(super) fn subscribe(&mut self, line: u64, options: &InletOptions) -> Result<u64, String> {
        match self.by_name.get(&options.address) {
            None => return Err(format!("404 NOT_FOUND - no queue {:?}", options.address)),
            Some(Queue { forbidden: Some(reason), .. }) => return Err(reason.clone()),
            Some(_) => {}
        }
        self.next_consumer += 1;
        let prefetch = usize::from(options.prefetch.max(1));
        let queue = options.address.clone();
        let consumer = Consumer { line, queue, prefetch, open: BTreeMap::new(), ended: None };
        self.consumers.insert(self.next_consumer, consumer);
        Ok(self.next_consumer)
    }

    /// The next message for an inlet, when there is one and it may have it.
    fn deliver(&mut self, consumer: u64) -> Result<Option<(u64, Incoming)>, String> {
        let Some(found) = self.consumers.get_mut(&consumer) else { return Err("cancelled".to_owned()) };
        if let Some(reason) = &found.ended {
            return Err(reason.clone());
        }
        let queue = self.by_name.get_mut(&found.queue);
        let next = queue.filter(|_| found.open.len() < found.prefetch).and_then(|queue| queue.ready.pop_first());
        Ok(next.inspect(|(place, message)| {
            found.open.insert(*place, message.clone());
        }))
    }

    fn settle(&mut self, consumer: u64, place: u64, disposition: Disposition) {
        let Some(found) = self.consumers.get_mut(&consumer) else { return };
        let Some(mut message) = found.open.remove(&place) else { return };
        if let Some(queue) = self.by_name.get_mut(&found.queue) {
            match disposition {
                Disposition::Accept => {}
                Disposition::Refuse => queue.refused.push(message),
                Disposition::Requeue => {
                    message.redelivered = true;
                    queue.ready.insert(place, message);
                }
            }
        }
        if found.ended.is_some() && found.open.is_empty() {
            self.consumers.remove(&consumer);
        }
    }

    /// Ends the inlets of a queue; what they have open may still be settled.
    fn cancel(&mut self, queue: &str, reason: &str) {
        for consumer in self.consumers.values_mut().filter(|consumer| consumer.queue == queue) {
            consumer.ended.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Ends an inlet that was dropped.
    fn leave(&mut self, consumer: u64) {
        if let Some(found) = self.consumers.get_mut(&consumer) {
            found.ended.get_or_insert_with(|| "the inlet is gone".to_owned());
            if found.open.is_empty() {
                self.consumers.remove(&consumer);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct MemoryInlet {
    pub(super) route: String,
    pub(super) system: Arc<Shared>,
    /// The connector's number.
    pub(super) line: u64,
    pub(super) link: watch::Receiver<Option<u64>>,
    /// The link that it was opened on.
    pub(super) generation: Option<u64>,
    /// Its number in the system, or why it is of no use.
    pub(super) consumer: Result<u64, String>,
    /// Its failure has been counted.
    pub(super) failed: bool,
}

impl Inlet for MemoryInlet {
    fn receive(&mut self) -> BoxFuture<'_, Result<Delivery, InletError>> {
        async move {
            let mut changes = self.system.changes.subscribe();
            loop {
                match self.try_receive() {
                    Ok(Some(delivery)) => return Ok(delivery),
                    Ok(None) => {}
                    Err(reason) => return Err(self.fail(reason)),
                }
                tokio::select! {
                    _ = changes.changed() => {}
                    // With the connector gone this is an error, and found by the next try.
                    _ = self.link.changed() => {}
                }
            }
        }
        .boxed()
    }
}

impl MemoryInlet {
    fn try_receive(&self) -> Result<Option<Delivery>, String> {
        let consumer = self.consumer.clone()?;
        if self.link.has_changed().is_err() || *self.link.borrow() != self.generation {
            return Err(format!("connection to {PEER} lost"));
        }
        let mut state = self.system.state();
        let delivered = state.queues.deliver(consumer)?;
        Ok(delivered.map(|(place, message)| {
            state.queues.failures.remove(&(self.line, self.route.clone()));
            let system = Arc::clone(&self.system);
            let receipt = Receipt::new(move |disposition| {
                system.state().queues.settle(consumer, place, disposition);
                system.wake_inlets();
            });
            Delivery { message, receipt }
        }))
    }

    fn fail(&mut self, reason: String) -> InletError {
        let is_linked = *self.link.borrow() == self.generation;
        if is_linked && !std::mem::replace(&mut self.failed, true) {
            self.system.state().queues.count_failure(self.line, &self.route);
        }
        InletError { reason }
    }
}

impl Drop for MemoryInlet {
    fn drop(&mut self) {
        if let Ok(consumer) = self.consumer {
            self.system.state().queues.leave(consumer);
        }
    }
}

/// As it looks to whoever takes it out again.
impl From<&Message> for Incoming {
    fn from(message: &Message) -> Self {
        let body = match &message.body {
            Body::Clear(bytes) | Body::Sealed { ciphertext: bytes, .. } => bytes.clone(),
        };
        Self {
            message_id: Some(message.message_id.clone()),
            correlation_id: message.correlation_id.clone(),
            reply_to: message.reply_to.clone(),
            timestamp: message.timestamp,
            priority: Some(message.priority),
            durable: message.durable,
            expiration: message.expiration,
            content_type: Some(message.content_type.clone()),
            headers: message.headers.clone(),
            ..Self::new(message.address.clone(), body)
        }
    }
}
