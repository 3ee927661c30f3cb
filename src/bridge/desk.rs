use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::acknowledge::AcknowledgerCell;
use super::examination::Examiner;
use super::window::Window;
use super::{Admission, Marks, Rejection, RouteEntry};
use crate::config::OnQuota;
use crate::mqqb::wire::{DeliveryMode, MessageClass, MessageId, SenderId, UserKind, UserMessage};
use crate::net::{Arrival, Clock, Intake, Peer, Reception, Verdict};
use crate::store::{Enqueued, NewMessage, Store, StoreError, Stream};
use crate::telemetry::{Counters, Kind};

/// Where messages arrive: each one is judged, stored when it is admitted, and answered for.
#[derive(Clone, Debug)]
pub struct Desk {
    admission: Arc<Admission>,
    store: Store,
    clock: Clock,
    counters: Arc<Counters>,
    acknowledger: AcknowledgerCell,
    pub(super) examiner: Examiner,
}

impl Desk {
    /// A desk before `store`.
    pub(super) const fn new(
        admission: Arc<Admission>,
        store: Store,
        clock: Clock,
        counters: Arc<Counters>,
        acknowledger: AcknowledgerCell,
        examiner: Examiner,
    ) -> Self {
        Self { admission, store, clock, counters, acknowledger, examiner }
    }
}

/// What the log says of every message that is not simply stored.
struct Traces {
    peer: Peer,
    id: MessageId,
    destination: String,
    /// Who sent it, as it says itself.
    sender: Option<String>,
}

impl Reception for Desk {
    fn ready(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.store.ready())
    }

    fn begin(&self) -> Box<dyn Intake> {
        Box::new(Window::new(self.clone()))
    }
}

/// A message that the admission has let through.
pub(super) struct Judged {
    pub(super) arrival: Arrival,
    pub(super) route: Arc<RouteEntry>,
    verdict: Verdict,
    now: u64,
}

impl Desk {
    /// What can be said of a message at once; `None` when that was all.
    pub(super) fn judge(&self, arrival: Arrival, verdict: Verdict) -> Option<Judged> {
        let Arrival { message, frame, peer } = &arrival;
        let peer = *peer;
        if message.kind() != UserKind::Message {
            tracing::debug!(
                event = "acknowledgment_ignored", peer = %peer, source_machine = %message.id().source,
                "an order or final acknowledgment for nothing that was sent from here"
            );
            verdict.rejected();
            return None;
        }
        self.note_acknowledgment(message, peer);
        let now = self.clock.unix_now();
        match self.admission.judge(message, frame.bytes().len(), peer.local.ip(), now) {
            Ok(route) => {
                let route = Arc::clone(route);
                return Some(Judged { arrival, route, verdict, now });
            }
            Err(_) if self.is_for_acks(message, peer) => verdict.rejected(),
            Err(rejection) => {
                let route = message.destination().and_then(|name| self.admission.find(&name, peer.local.ip()).ok());
                let route = route.map_or("", |route| route.config.name.as_str());
                refuse(&self.counters, route, &Traces::of(message, peer), &rejection);
                self.answer(message, peer, &rejection, verdict);
            }
        }
        None
    }

    /// Refuses a message that the admission had let through.
    pub(super) fn turn_away(&self, judged: Judged, rejection: &Rejection) {
        let Judged { arrival: Arrival { message, peer, .. }, route, verdict, .. } = judged;
        refuse(&self.counters, &route.config.name, &Traces::of(&message, peer), rejection);
        self.answer(&message, peer, rejection, verdict);
    }

    /// Leaves a message with its sender.
    pub(super) fn hold(judged: Judged, reason: &str) {
        let Judged { arrival: Arrival { message, peer, .. }, route, verdict, .. } = judged;
        route.counters.held();
        tracing::warn!(
            event = "message_held", route = %route.config.name, queue = %route.config.from.queue, peer = %peer,
            message_id = %message.id(), reason = %reason,
            "a message could not be judged; its session is closed and the sender keeps it"
        );
        verdict.hold(reason.to_owned());
    }

    /// Stores a message, and says so to its session.
    pub(super) fn store(&self, judged: Judged, marks: Marks, stream: &Stream) {
        let Judged { arrival: Arrival { message, frame, peer }, route, verdict, now } = judged;
        let kind = match message.delivery {
            DeliveryMode::Express => Kind::Express,
            DeliveryMode::Recoverable => Kind::Recoverable,
            DeliveryMode::Transactional(_) => Kind::Transactional,
        };
        let size = frame.bytes().len();
        let new = NewMessage {
            queue: route.queue,
            priority: message.base.priority(),
            frame: frame.bytes().clone(),
            received_at: now,
            duplicate_key: Some(message.id()),
            foreign: None,
            marks: marks.to_bits(),
            companions: self.companions(&message, MessageClass::ACK_REACH_QUEUE, peer),
            queue_quota: route.config.from.quota,
            stream: Some(match route.config.from.on_quota {
                OnQuota::Hold => stream.clone(),
                OnQuota::Refuse => stream.passing_full_queues(),
            }),
        };
        let traces = tracing::enabled!(tracing::Level::DEBUG).then(|| Traces::of(&message, peer));
        let counters = Arc::clone(&self.counters);
        let id = message.id();
        // Made now: what the writer calls back can't make a queue.
        let refusal = match route.config.from.on_quota {
            OnQuota::Refuse => self.companions(&message, MessageClass::NACK_Q_EXCEED_QUOTA, peer).pop(),
            OnQuota::Hold => None,
        };
        let store = self.store.clone();
        self.store.submit(new, move |outcome| match outcome {
            Ok(Enqueued::Stored(_)) => {
                route.counters.received(kind, size);
                if let Some(traces) = traces {
                    traces.stored(&route.config.name);
                }
                verdict.stored();
            }
            Ok(Enqueued::Duplicate) => {
                route.counters.duplicate();
                tracing::debug!(
                    event = "message_duplicate", route = %route.config.name, peer = %peer, message_id = %id,
                    "a message came again and is on disk already"
                );
                verdict.stored();
            }
            Err(full @ StoreError::QueueFull { .. }) if route.config.from.on_quota == OnQuota::Refuse => {
                let rejection = Rejection::QueueFull(full.to_string());
                let traces = Traces { peer, id, destination: route.config.from.queue.to_string(), sender: None };
                refuse(&counters, &route.config.name, &traces, &rejection);
                match refusal {
                    Some(answer) => send_answer(&store, answer, verdict),
                    None => verdict.rejected(),
                }
            }
            // The first that could not be stored has said why.
            Err(StoreError::Interrupted) => {
                route.counters.held();
                verdict.hold(StoreError::Interrupted.to_string());
            }
            Err(error) => {
                route.counters.held();
                tracing::warn!(
                    event = "message_held", route = %route.config.name, queue = %route.config.from.queue, peer = %peer,
                    message_id = %id, reason = %error,
                    "a message could not be stored; its session is closed and the sender keeps it"
                );
                verdict.hold(error.to_string());
            }
        });
    }
}

impl Desk {
    /// The acknowledgment message of this class, when its sender wants one.
    fn companions(&self, message: &UserMessage, class: MessageClass, peer: Peer) -> Vec<NewMessage> {
        let acknowledger = self.acknowledger.get();
        acknowledger
            .and_then(|acknowledger| acknowledger.companion(message, class, peer.local.ip()))
            .into_iter()
            .collect()
    }

    /// Tells the sender of a refused message why, when it asked: nothing is acknowledged to its session before that is on
    /// disk.
    fn answer(&self, message: &UserMessage, peer: Peer, rejection: &Rejection, verdict: Verdict) {
        let Some(answer) = self.companions(message, rejection.terms().class, peer).pop() else {
            return verdict.rejected();
        };
        send_answer(&self.store, answer, verdict);
    }

    /// Whether this is an acknowledgment for what was sent from here: when no route wants it, it is in the log.
    fn is_for_acks(&self, message: &UserMessage, peer: Peer) -> bool {
        message.properties.class.is_acknowledgment()
            && message.destination().is_some_and(|name| self.admission.is_acks(&name, peer.local.ip()))
    }

    fn note_acknowledgment(&self, message: &UserMessage, peer: Peer) {
        let class = message.properties.class;
        if !self.is_for_acks(message, peer) {
            return;
        }
        let about = MessageId::from_wire(message.properties.correlation_id);
        if class.is_negative() {
            tracing::warn!(
                event = "message_not_delivered", message_id = %about, class = %class, peer = %peer,
                source_machine = %message.id().source, "a message that was sent from here has come to nothing"
            );
        } else {
            tracing::debug!(
                event = "message_delivered", message_id = %about, class = %class, peer = %peer,
                source_machine = %message.id().source, "a message that was sent from here has arrived or was read"
            );
        }
    }
}

/// Nothing is acknowledged before the answer is on disk. One for which there is no room is given up: a refused message must
/// not be able to close the sessions of others.
fn send_answer(store: &Store, answer: NewMessage, verdict: Verdict) {
    store.submit(answer, move |outcome| match outcome {
        Ok(_) => verdict.rejected(),
        Err(error @ (StoreError::QueueFull { .. } | StoreError::Full { .. })) => {
            tracing::warn!(
                event = "companion_not_stored", reason = %error, "an acknowledgment could not be stored and is lost"
            );
            verdict.rejected();
        }
        Err(error) => verdict.hold(error.to_string()),
    });
}

fn refuse(counters: &Counters, route: &str, traces: &Traces, rejection: &Rejection) {
    let terms = rejection.terms();
    counters.rejected(route, terms.reason, terms.class);
    tracing::warn!(
        event = "message_refused", route = (!route.is_empty()).then_some(route), queue = %traces.destination, peer = %traces.peer,
        source_machine = %traces.id.source, message_id = %traces.id, sender_id = traces.sender.as_deref(), class = %terms.class, outcome = terms.reason,
        reason = %rejection,
        "a message was refused"
    );
}

impl Traces {
    fn of(message: &UserMessage, peer: Peer) -> Self {
        let destination = message.destination().map(|name| name.to_string()).unwrap_or_default();
        let sender = message.security.as_ref().and_then(|security| match security.sender() {
            Ok(SenderId::Sid(sid)) => Some(sid.to_string()),
            Ok(SenderId::QueueManager(machine)) => Some(machine.to_string()),
            Ok(SenderId::None) | Err(_) => None,
        });
        Self { peer, id: message.id(), destination, sender }
    }

    fn stored(&self, route: &str) {
        tracing::debug!(
            event = "message_stored", route = %route, queue = %self.destination, peer = %self.peer,
            source_machine = %self.id.source, message_id = %self.id,
            "a message is on disk"
        );
    }
}
