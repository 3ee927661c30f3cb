use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::destination::{known_machine, machine_key};
use super::expiry::{Sweeps, deadline};
use super::{NO_CALLED_ADDRESS, Outgoing, OutgoingQueue};
use crate::bridge::removals::Removals;
use crate::mqqb::wire::{Frame, MessageClass, MessageId, QueueField, UserHeader, UserMessage};
use crate::net::{Consignment, Lane, Unreachable};
use crate::store::{Position, Reader, SetAside, StoreError, StoredMessage};

/// Sends what is in one outgoing queue, in order: opens a session, keeps within its window, removes what is acknowledged
/// (MS-MQQB 3.1.5.2, 3.1.6.1, 3.1.7.1). After a failure it begins again with the first message that is not acknowledged.
pub(super) struct Courier {
    outgoing: Outgoing,
    queue: Arc<OutgoingQueue>,
    key: String,
    reader: Reader,
    /// Looks for what expires while nothing can be sent.
    watcher: Reader,
    /// Read and not sent yet.
    pending: VecDeque<StoredMessage>,
    removals: Removals,
    sweeps: Sweeps,
}

/// Messages handed to a session and not acknowledged: more than its window, so that it never waits for us.
const MOST_IN_FLIGHT: usize = 128;
/// Bytes of them, whatever their number.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Bytes read from the store at once.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// How often a queue that waits for its machine is looked at for expired messages, and how long after the store failed
/// it is asked again.
const TICK: Duration = Duration::from_secs(1);

/// Why sending has ended.
enum End {
    /// The session is over, without harm.
    Over,
    /// The session is over, and messages were on their way.
    Failed(String),
    /// Nothing more is to be sent.
    Stop,
}

/// What is handed to a session and not acknowledged.
#[derive(Default)]
struct InFlight {
    tickets: HashMap<u64, Ticket>,
    bytes: usize,
    next_token: u64,
}

struct Ticket {
    position: Position,
    id: MessageId,
    size: usize,
}

impl Courier {
    pub(super) fn new(outgoing: Outgoing, queue: Arc<OutgoingQueue>) -> Self {
        let shared = &outgoing.0;
        Self {
            key: machine_key(&queue.name),
            reader: shared.store.reader(queue.id),
            watcher: shared.store.reader(queue.id),
            pending: VecDeque::new(),
            removals: Removals::new(shared.store.clone(), shared.clock, queue.id, queue.name.to_string()),
            sweeps: Sweeps::default(),
            outgoing,
            queue,
        }
    }

    /// Runs until nothing more is to be sent, then until what is on its way is acknowledged or patience is over.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.outgoing.0);
        let mut stop = shared.drain.clone();
        while !stop.is_requested() {
            if let Err(error) = self.read() {
                self.store_failed(&error);
                tokio::select! {
                    () = shared.clock.sleep(TICK) => {}
                    () = stop.requested() => {}
                }
                continue;
            }
            if self.pending.is_empty() && self.removals.is_empty() {
                self.queue.state.idles();
            }
            if self.pending.is_empty() {
                tokio::select! {
                    () = self.reader.wait() => {}
                    gone = self.removals.next() => self.gone(&gone),
                    () = stop.requested() => {}
                }
                continue;
            }
            self.queue.state.waits();
            let name = self.queue.name.clone();
            let opened = tokio::select! {
                opened = shared.lanes.open(&self.key, known_machine(&name), || shared.locator.locate(name.clone())) => opened,
                () = stop.requested() => break,
            };
            match opened {
                Ok(lane) => match self.send(&lane).await {
                    End::Over => {
                        self.queue.state.hung_up();
                        self.rewind().await;
                    }
                    End::Failed(reason) => {
                        let unreachable = shared.lanes.failed(&self.key, reason).await;
                        self.rewind().await;
                        self.wait(&unreachable).await;
                    }
                    End::Stop => break,
                },
                Err(unreachable) => self.wait(&unreachable).await,
            }
        }
        self.queue.state.stops();
    }

    /// Fills up what is to be sent next.
    fn read(&mut self) -> Result<(), StoreError> {
        while self.pending.is_empty() {
            match self.reader.next(MOST_IN_FLIGHT, READ_BYTES) {
                Ok(messages) if messages.is_empty() => break,
                Ok(messages) => self.pending.extend(messages),
                Err(StoreError::Unreadable { position, reason }) => {
                    tracing::error!(
                        event = "message_unreadable", queue = %self.queue.name, position = %position, reason = %reason,
                        "a stored message can't be read and is passed over; it stays in the store"
                    );
                    self.reader.skip(position);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn store_failed(&self, error: &StoreError) {
        if *error != StoreError::Closed {
            self.queue.state.fails(&error.to_string(), self.outgoing.0.clock.unix_now(), 0);
        }
    }

    /// Sends on this session until it ends or nothing more is to be sent.
    async fn send(&mut self, lane: &Lane) -> End {
        let shared = Arc::clone(&self.outgoing.0);
        let mut stop = shared.drain.clone();
        let (acknowledged, mut acknowledgments) = mpsc::unbounded_channel();
        let mut flight = InFlight::default();
        loop {
            let room = flight.tickets.len() < MOST_IN_FLIGHT && flight.bytes < MOST_BYTES;
            if room
                && self.pending.is_empty()
                && let Err(error) = self.read()
            {
                self.store_failed(&error);
                tokio::select! {
                    () = shared.clock.sleep(TICK) => {}
                    () = stop.requested() => {}
                }
            }
            let next = if room { self.consignment(&flight, &acknowledged, lane) } else { None };
            let next = match next {
                Some(Ok(consignment)) => Some(consignment),
                Some(Err(class)) => {
                    self.give_up(class).await;
                    continue;
                }
                None => None,
            };
            let is_drained = self.pending.is_empty();
            let (size, id) =
                next.as_ref().map_or((0, MessageId::default()), |(consignment, id)| (consignment.packet.len(), *id));
            tokio::select! {
                biased;
                Some(token) = acknowledgments.recv() => {
                    self.on_acknowledged(token, &mut acknowledgments, &mut flight, lane).await;
                }
                () = lane.closed() => {
                    while let Ok(token) = acknowledgments.try_recv() {
                        self.on_acknowledged(token, &mut acknowledgments, &mut flight, lane).await;
                    }
                    let harm = !flight.tickets.is_empty() || !self.pending.is_empty();
                    return if harm { End::Failed(lane.reason()) } else { End::Over };
                }
                gone = self.removals.next() => self.gone(&gone),
                sent = hand_over(lane, next) => {
                    // What could not be handed over met the end of the session, which is seen next.
                    if let Some(stored) = if sent { self.pending.pop_front() } else { None } {
                        flight.push(Ticket { position: stored.position, id, size });
                    }
                }
                () = self.reader.wait(), if room && is_drained => {}
                () = stop.requested() => {
                    let _ = tokio::time::timeout(shared.patience, self.drain(&mut flight, &mut acknowledgments, lane)).await;
                    return End::Stop;
                }
            }
            if flight.tickets.is_empty() && self.pending.is_empty() && self.removals.is_empty() {
                self.queue.state.idles();
            }
        }
    }

    /// The next message, ready for the session; or the class that it is given up with.
    fn consignment(
        &self,
        flight: &InFlight,
        acknowledged: &mpsc::UnboundedSender<u64>,
        lane: &Lane,
    ) -> Option<Result<(Consignment, MessageId), Unsent>> {
        let stored = self.pending.front()?;
        let message = match decode(stored) {
            Ok(message) => message,
            Err(reason) => return Some(Err(Unsent { class: MessageClass::NACK_DELETED, reason, message: None })),
        };
        let now = self.outgoing.0.clock.unix_now();
        if deadline(&message).is_some_and(|deadline| now > deadline) {
            return Some(Err(Unsent::expired(message)));
        }
        let id = message.id();
        let packet = match addressed(&stored.frame, &message, lane) {
            Ok(packet) => packet,
            Err(reason) => {
                return Some(Err(Unsent { class: MessageClass::NACK_DELETED, reason, message: Some(message) }));
            }
        };
        let consignment = Consignment {
            token: flight.next_token,
            packet,
            recoverable: message.is_recoverable(),
            acknowledged: acknowledged.clone(),
        };
        Some(Ok((consignment, id)))
    }

    /// Takes this acknowledgment and all that are there.
    async fn on_acknowledged(
        &mut self,
        token: u64,
        more: &mut mpsc::UnboundedReceiver<u64>,
        flight: &mut InFlight,
        lane: &Lane,
    ) {
        let mut positions = Vec::new();
        let mut next = Some(token);
        while let Some(token) = next {
            if let Some(ticket) = flight.take(token) {
                tracing::debug!(
                    event = "message_sent", queue = %self.queue.name, message_id = %ticket.id, peer = %lane.peer(),
                    "the other side has acknowledged a message"
                );
                positions.push(ticket.position);
            }
            next = more.try_recv().ok();
        }
        if positions.is_empty() {
            return;
        }
        self.queue.sent.fetch_add(positions.len() as u64, Ordering::Relaxed);
        self.outgoing.0.lanes.worked(&self.key).await;
        self.queue.state.works(&lane.peer().to_string());
        self.removals.start(positions, Vec::new());
    }

    /// These messages are not in the store any more.
    fn gone(&self, positions: &[Position]) {
        self.outgoing.0.awaited.gone(self.queue.id, positions);
    }

    async fn drain(&mut self, flight: &mut InFlight, acknowledgments: &mut mpsc::UnboundedReceiver<u64>, lane: &Lane) {
        while !flight.tickets.is_empty() && lane.is_open() {
            tokio::select! {
                Some(token) = acknowledgments.recv() => self.on_acknowledged(token, acknowledgments, flight, lane).await,
                () = lane.closed() => {}
            }
        }
        self.finish_removals().await;
    }

    async fn finish_removals(&mut self) {
        while !self.removals.is_empty() {
            let gone = self.removals.next().await;
            self.gone(&gone);
        }
    }

    /// Begins with the first message that is not acknowledged. Removals first: what is acknowledged must not be read again.
    async fn rewind(&mut self) {
        self.finish_removals().await;
        self.pending.clear();
        self.reader.rewind();
    }

    /// Waits until the machine may be called again, and gives up meanwhile what expires.
    async fn wait(&mut self, unreachable: &Unreachable) {
        let shared = Arc::clone(&self.outgoing.0);
        let mut stop = shared.drain.clone();
        self.queue.state.fails(&unreachable.reason, shared.clock.unix_now(), unreachable.attempt);
        self.pending.clear();
        self.reader.rewind();
        while shared.clock.now() < unreachable.again_at && !stop.is_requested() {
            self.sweep().await;
            let tick = (shared.clock.now() + TICK).min(unreachable.again_at);
            tokio::select! {
                () = shared.clock.sleep_until(tick) => {}
                () = stop.requested() => {}
            }
        }
    }

    /// Looks at what has come since the last look, and at everything when something has expired.
    async fn sweep(&mut self) {
        let shared = Arc::clone(&self.outgoing.0);
        let began = shared.clock.unix_now();
        let at_everything = self.sweeps.is_due(began);
        if at_everything {
            self.watcher.rewind();
            self.sweeps.begin();
        }
        loop {
            let messages = match self.watcher.next(MOST_IN_FLIGHT, READ_BYTES) {
                Ok(messages) if messages.is_empty() => break,
                Ok(messages) => messages,
                Err(StoreError::Unreadable { position, .. }) => {
                    self.watcher.skip(position);
                    continue;
                }
                // Whoever reads to send says so.
                Err(_) => return,
            };
            let now = shared.clock.unix_now();
            for stored in messages {
                let Ok(message) = decode(&stored) else { continue };
                match deadline(&message) {
                    Some(deadline) if now > deadline => self.set_aside(stored.position, Unsent::expired(message)).await,
                    deadline => self.sweeps.saw(deadline),
                }
            }
            // Others want to run, too.
            tokio::task::yield_now().await;
        }
        if at_everything {
            self.sweeps.ended(began, shared.clock.unix_now());
        }
    }

    /// The message at the head will not be sent.
    async fn give_up(&mut self, unsent: Unsent) {
        if let Some(stored) = self.pending.pop_front() {
            self.set_aside(stored.position, unsent).await;
        }
    }

    /// Keeps a message as a dead letter when its sender wants that, else drops it; and tells its sender when it asked.
    async fn set_aside(&mut self, position: Position, unsent: Unsent) {
        let shared = Arc::clone(&self.outgoing.0);
        let Unsent { class, reason, message } = unsent;
        let acknowledger = shared.acknowledger.get();
        let companion = message
            .as_ref()
            .zip(acknowledger)
            .and_then(|(message, acknowledger)| acknowledger.companion(message, class, NO_CALLED_ADDRESS));
        let companions: Vec<_> = companion.into_iter().collect();
        // What can't even be read is kept, too.
        let keep = message.as_ref().is_none_or(|message| message.user.has(UserHeader::NEGATIVE_SOURCE_JOURNAL));
        let id = message.as_ref().map(|message| message.id().to_string()).unwrap_or_default();
        let origin = self.queue.name.to_string();
        let result = if keep {
            let why = SetAside {
                origin: format!("{}{origin}", super::PREFIX),
                class: class.0,
                reason: reason.clone(),
                at: shared.clock.unix_now(),
            };
            shared.store.set_aside_with(self.queue.id, position, shared.dead_letters, why, companions).await
        } else {
            shared.store.remove_with(self.queue.id, vec![position], companions).await
        };
        match result {
            Ok(()) => {
                self.gone(&[position]);
                self.queue.expired.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event = "message_not_sent", queue = %origin, message_id = %id, class = %class, reason = %reason,
                    outcome = if keep { "dead-letter" } else { "dropped" }, "a message was given up"
                );
            }
            Err(error) => tracing::warn!(
                event = "dead_letter_failed", queue = %origin, message_id = %id, reason = %error,
                "a message that was given up could not be taken out of its queue and stays there"
            ),
        }
    }
}

/// A message that will not be sent, and why.
struct Unsent {
    class: MessageClass,
    reason: String,
    message: Option<Box<UserMessage>>,
}

impl Unsent {
    fn expired(message: Box<UserMessage>) -> Self {
        let reason = "it expired before it reached its queue".to_owned();
        Self { class: MessageClass::NACK_REACH_QUEUE_TIMEOUT, reason, message: Some(message) }
    }
}

impl InFlight {
    fn push(&mut self, ticket: Ticket) {
        self.bytes += ticket.size;
        self.tickets.insert(self.next_token, ticket);
        self.next_token += 1;
    }

    fn take(&mut self, token: u64) -> Option<Ticket> {
        let ticket = self.tickets.remove(&token)?;
        self.bytes -= ticket.size;
        Some(ticket)
    }
}

/// Whether the message was handed over; never resolves without one. Cancel safe.
async fn hand_over(lane: &Lane, next: Option<(Consignment, MessageId)>) -> bool {
    match next {
        Some((consignment, _)) => lane.send(consignment).await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The packet for the machine at the other end: a public queue is named by its own identifier, so that the queue manager
/// that has it is known only now (MS-MQMQ 2.2.19.2, `QueueManagerAddress`).
fn addressed(frame: &Bytes, message: &UserMessage, lane: &Lane) -> Result<Bytes, String> {
    if !matches!(message.user.destination, QueueField::Public(_)) || !message.user.queue_manager_address.is_null() {
        return Ok(frame.clone());
    }
    let mut message = message.clone();
    message.user.queue_manager_address = lane.peer().queue_manager;
    message.to_packet().map_err(|malformed| malformed.to_string())
}

fn decode(stored: &StoredMessage) -> Result<Box<UserMessage>, String> {
    Frame::new(stored.frame.clone())
        .and_then(|frame| UserMessage::decode(&frame))
        .map(Box::new)
        .map_err(|malformed| format!("the stored packet can't be read any more: {malformed}"))
}
