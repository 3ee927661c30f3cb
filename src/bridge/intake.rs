use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connector_api::{Connector, Delivery, Incoming, Inlet, InletOptions, Receipt, Value};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::awaited::Awaited;
use super::backoff::Backoff;
use super::outgoing::{NoQueue, Outgoing, Purpose};
use super::sealer::{Sealer, Unsealed};
use super::translate::{Circumstances, Translated, encode, to_msmq};
use super::{Ordinals, OwnQueues, RouteState, StateBoard};
use crate::config::ReturnRoute;
use crate::mqqb::wire::{FormatName, MessageClass, UserMessage};
use crate::net::{Clock, Stop};
use crate::store::{Enqueued, Foreign, ForeignKey, NewMessage, QueueId, Store, StoreError, Stream};
use crate::telemetry::{Counters, Kind, RouteCounters};

/// A route from a foreign system that runs.
#[derive(Debug)]
pub(super) struct ReturnEntry {
    /// What the operator asked for.
    pub(super) config: ReturnRoute,
    /// What it has done.
    pub(super) counters: RouteCounters,
}

/// Takes the messages of one route: translates each one and stores it for its destination. A delivery is settled when
/// its message has left the store again, or after `settle_after`.
pub(super) struct RouteIntake {
    pub(super) route: Arc<ReturnEntry>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) store: Store,
    pub(super) outgoing: Outgoing,
    pub(super) sealer: Sealer,
    pub(super) ordinals: Ordinals,
    pub(super) awaited: Awaited,
    pub(super) clock: Clock,
    pub(super) states: StateBoard,
    pub(super) counters: Arc<Counters>,
    pub(super) acks: FormatName,
    pub(super) own_queues: Arc<OwnQueues>,
    pub(super) chance: fn() -> f64,
}

/// A message on its way to the disk.
struct Parcel {
    queue: QueueId,
    priority: u8,
    packet: Bytes,
    foreign: Option<Foreign>,
    kind: Kind,
    receipt: Receipt,
}

/// A message as it goes out.
struct Prepared {
    message: UserMessage,
    packet: Bytes,
    destination: FormatName,
    queue: QueueId,
}

/// What is to be done with a delivery.
enum Judged {
    /// It is to be stored.
    Accepted(Parcel),
    /// It was refused.
    Refused,
    /// Nobody can say now, and why.
    Later(Box<Delivery>, String),
}

/// What became of it, when that concerns the intake.
enum Told {
    /// It is on disk, or was known.
    Done,
    /// It could not be stored; the number is its place in the order.
    Held(u64, Parcel, StoreError),
}

/// Why taking has ended.
enum End {
    Stop,
    /// The inlet is of no use any more.
    Lost(String),
}

impl RouteIntake {
    /// Runs until shutdown. What is on its way to the disk then arrives there.
    pub(super) async fn run(self, mut shutdown: Stop) {
        let config = &self.route.config;
        let mut backoff = Backoff::new();
        loop {
            if !matches!(self.states.of(&config.name), RouteState::Failing { .. }) {
                self.states.set(&config.name, RouteState::Waiting);
            }
            let options = InletOptions {
                route: config.name.clone(),
                address: config.from.queue.clone(),
                prefetch: config.from.prefetch,
            };
            let inlet = tokio::select! {
                inlet = self.connector.inlet(options) => inlet,
                () = shutdown.requested() => break,
            };
            match self.take(inlet, &mut backoff, &mut shutdown).await {
                End::Stop => break,
                End::Lost(reason) => self.fail(reason),
            }
            tokio::select! {
                () = self.clock.sleep(backoff.step((self.chance)())) => {}
                () = shutdown.requested() => {}
            }
        }
        self.states.set(&config.name, RouteState::Stopped);
    }

    async fn take(&self, mut inlet: Box<dyn Inlet>, backoff: &mut Backoff, shutdown: &mut Stop) -> End {
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut stream = Stream::new();
        let mut held: BTreeMap<u64, Parcel> = BTreeMap::new();
        // A delivery that could not be judged. Nothing behind it is taken.
        let mut undecided: Option<Box<Delivery>> = None;
        let (mut next, mut on_the_way) = (0, 0);
        let most = usize::from(self.route.config.from.prefetch.max(1));
        // The queue is known to be there only once something was taken from it or nothing is wrong for a while. A full
        // queue that gets a little room is full again at once: it is called working only after a while without trouble.
        let (mut proven, mut troubled) = (false, false);
        let mut calm_at = self.clock.now() + PROBATION;
        loop {
            let retry = async {
                self.clock.sleep(backoff.step((self.chance)())).await;
            };
            let mut fresh = None;
            tokio::select! {
                biased;
                Some(outcome) = told.recv() => {
                    on_the_way -= 1;
                    match outcome {
                        Told::Done => {
                            // Also when those behind it found no room: room is being made, and they need not wait long.
                            backoff.reset();
                            if held.is_empty() && undecided.is_none() && !troubled {
                                proven = true;
                                self.states.set(&self.route.config.name, RouteState::Forwarding);
                            }
                        }
                        Told::Held(number, parcel, error) => {
                            (proven, troubled) = (false, true);
                            calm_at = self.clock.now() + CALM;
                            if error != StoreError::Interrupted {
                                self.fail(trouble(&error));
                            }
                            held.insert(number, parcel);
                        }
                    }
                }
                () = shutdown.requested() => {
                    // What is on its way is stored or comes again; receipts that are dropped put their messages back.
                    while on_the_way > 0 && told.recv().await.is_some() {
                        on_the_way -= 1;
                    }
                    return End::Stop;
                }
                () = retry, if !(held.is_empty() && undecided.is_none()) && on_the_way == 0 => {
                    // In their order, and what comes later behind them.
                    stream = Stream::new();
                    for (number, parcel) in std::mem::take(&mut held) {
                        on_the_way += 1;
                        self.submit(number, parcel, &stream, &tell);
                    }
                    if on_the_way == 0 && let Some(delivery) = undecided.take() {
                        fresh = Some(*delivery);
                    }
                }
                () = self.clock.sleep_until(calm_at), if !proven && held.is_empty() && undecided.is_none() => {
                    (proven, troubled) = (true, false);
                    self.states.set(&self.route.config.name, RouteState::Forwarding);
                }
                delivery = inlet.receive(), if held.is_empty() && undecided.is_none() && on_the_way < most => match delivery {
                    Ok(delivery) => fresh = Some(delivery),
                    Err(error) => return End::Lost(error.to_string()),
                },
            }
            let Some(delivery) = fresh else { continue };
            match self.judge(delivery).await {
                Judged::Accepted(parcel) => {
                    self.store.ready().await;
                    on_the_way += 1;
                    self.submit(next, parcel, &stream, &tell);
                    next += 1;
                }
                Judged::Refused if held.is_empty() && !troubled => {
                    backoff.reset();
                    proven = true;
                    self.states.set(&self.route.config.name, RouteState::Forwarding);
                }
                Judged::Refused => {}
                Judged::Later(delivery, reason) => {
                    self.route.counters.held();
                    self.fail(reason);
                    (proven, calm_at) = (false, self.clock.now() + PROBATION);
                    undecided = Some(delivery);
                }
            }
        }
    }

    /// Translates a delivery and protects it as its route says; refuses it when it has no form in MSMQ.
    async fn judge(&self, delivery: Delivery) -> Judged {
        let Delivery { message: incoming, receipt } = delivery;
        let config = &self.route.config;
        let now = self.clock.unix_now();
        let world = Circumstances {
            fresh: self.ordinals.next().await,
            now,
            acks: &self.acks,
            leads_to: self.own_queues.as_ref(),
        };
        match self.prepare(&incoming, &world).await {
            Ok(Prepared { message, packet, destination, queue }) => {
                tracing::debug!(
                    event = "message_taken", route = %config.name, queue = %destination, message_id = %message.id(),
                    "a message came from the foreign system"
                );
                Judged::Accepted(Parcel {
                    queue,
                    priority: message.base.priority(),
                    packet,
                    foreign: incoming
                        .message_id
                        .as_deref()
                        .map(|id| Foreign { key: self.key(id), may_be_repeated: is_repeated(&incoming) }),
                    kind: if message.is_recoverable() { Kind::Recoverable } else { Kind::Express },
                    receipt,
                })
            }
            Err(Unsealed::Later(reason)) => Judged::Later(Box::new(Delivery { message: incoming, receipt }), reason),
            Err(Unsealed::Refused(reason)) => {
                self.counters.rejected(&config.name, "unsendable", MessageClass::NACK_RECEIVE_REJECTED);
                tracing::warn!(
                    event = "delivery_refused", route = %config.name, queue = %config.from.queue,
                    message_id = incoming.message_id.as_deref(), correlation_id = incoming.correlation_id.as_deref(),
                    exchange = %incoming.address.exchange, routing_key = %incoming.address.routing_key, reason = %reason,
                    "a message can't be sent: it goes to the dead-letter exchange of its queue, and is dropped by the broker where there is none"
                );
                receipt.refuse();
                Judged::Refused
            }
        }
    }

    /// What is stored is what is sent: a body that is to be encrypted never reaches the disk in clear.
    async fn prepare(&self, incoming: &Incoming, world: &Circumstances<'_>) -> Result<Prepared, Unsealed> {
        let config = &self.route.config;
        let refused = |why: &dyn std::fmt::Display| Unsealed::Refused(why.to_string());
        let Translated { destination, message } = to_msmq(incoming, config, world).map_err(|why| refused(&why))?;
        let message = self.sealer.seal(message, &destination, config.protection).await?;
        let packet = encode(&message).map_err(|why| refused(&why))?;
        let queue = self.outgoing.queue(&destination, Purpose::Messages).map_err(|why| match why {
            NoQueue::Never(reason) => Unsealed::Refused(reason),
            NoQueue::NotNow(reason) => Unsealed::Later(reason),
        })?;
        Ok(Prepared { message, packet, destination, queue })
    }

    /// Identifiers are unique within the queue that they came from, if anywhere.
    fn key(&self, message_id: &str) -> ForeignKey {
        let from = &self.route.config.from;
        let mut digest = Sha256::new();
        for part in [from.connector.as_str(), from.queue.as_str(), message_id] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part.as_bytes());
        }
        let mut key = ForeignKey::default();
        key.iter_mut().zip(digest.finalize()).for_each(|(key, byte)| *key = byte);
        key
    }

    fn submit(&self, number: u64, parcel: Parcel, stream: &Stream, tell: &mpsc::UnboundedSender<Told>) {
        let Parcel { queue, priority, packet, foreign, kind, receipt } = parcel;
        let new = NewMessage {
            queue,
            priority,
            frame: packet.clone(),
            received_at: self.clock.unix_now(),
            duplicate_key: None,
            foreign,
            marks: 0,
            queue_quota: self.route.config.to.quota,
            stream: Some(stream.clone()),
            companions: Vec::new(),
        };
        let due = self.clock.now() + self.route.config.from.settle_after;
        let (route, awaited, tell) = (Arc::clone(&self.route), self.awaited.clone(), tell.clone());
        self.store.submit(new, move |outcome| {
            let told = match outcome {
                Ok(Enqueued::Stored(position)) => {
                    route.counters.received(kind, packet.len());
                    awaited.keep(queue, position, receipt, due);
                    Told::Done
                }
                Ok(Enqueued::Duplicate) => {
                    route.counters.duplicate();
                    receipt.accept();
                    Told::Done
                }
                Err(error) => {
                    route.counters.held();
                    Told::Held(number, Parcel { queue, priority, packet, foreign, kind, receipt }, error)
                }
            };
            // An intake that is gone leaves the receipt, and the message goes back.
            let _ = tell.send(told);
        });
    }

    fn fail(&self, reason: String) {
        let since = self.clock.unix_now();
        self.states.set(&self.route.config.name, RouteState::Failing { reason, since });
    }
}

/// An inlet that has not failed for so long works, though nothing has come.
const PROBATION: Duration = Duration::from_millis(500);

/// A route that could not store something works again when it could store everything for so long.
const CALM: Duration = Duration::from_secs(5);

/// Why nothing more is taken, without numbers that change with every attempt: each would be news for the log.
fn trouble(error: &StoreError) -> String {
    match error {
        StoreError::QueueFull { quota, .. } => {
            format!("the outgoing queue is full: as many bytes wait for the destination as to.quota allows ({quota})")
        }
        StoreError::Full { quota, .. } => format!("the store is full: [store] quota allows {quota} bytes"),
        StoreError::VolumeFull { reserve, .. } => {
            format!("the volume of the store is nearly full: the last {reserve} bytes are kept for removals")
        }
        other => other.to_string(),
    }
}

/// The foreign system says so, or a bridge that sent it there.
fn is_repeated(incoming: &Incoming) -> bool {
    incoming.redelivered || incoming.headers.get("msmq-redelivered") == Some(&Value::Bool(true))
}

impl ReturnEntry {
    /// A route that begins.
    pub(super) fn new(config: ReturnRoute) -> Self {
        Self { config, counters: RouteCounters::default() }
    }
}
