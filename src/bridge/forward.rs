use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use connector_api::{Connector, DeliveryError, Outlet, OutletOptions, Status};
use tokio::sync::watch;

use super::acknowledge::AcknowledgerCell;
use super::backoff::Backoff;
use super::in_flight::{Delivered, InFlight, Ticket};
use super::opener::Repute;
use super::removals::Removals;
use super::resealer::NotResealed;
use super::translate::{Contents, Found, Untranslatable, to_amqp};
use super::{Handling, Marks, RouteEntry, RouteState, StateBoard};
use crate::config::Unroutable;
use crate::mqqb::wire::{AckRequest, Frame, MessageClass, MessageId, UserMessage};
use crate::net::{Clock, Stop};
use crate::security::{Authenticity, Unopened};
use crate::store::{NewMessage, Position, QueueId, Reader, SetAside, Store, StoreError, StoredMessage};

/// Forwards one route: reads its queue in order, keeps up to `max_in_flight` messages on their way, removes what is
/// confirmed. After a failure it waits, and begins again with the first message that is not confirmed.
pub(super) struct Forwarder {
    pub(super) route: Arc<RouteEntry>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) store: Store,
    pub(super) dead_letters: QueueId,
    pub(super) clock: Clock,
    pub(super) states: StateBoard,
    /// Tells senders what was read, when they asked.
    pub(super) acknowledger: AcknowledgerCell,
    pub(super) chance: fn() -> f64,
}

/// Bytes of messages that a route has on their way, whatever their number.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// Bytes read from the store at once, whatever their number.
const READ_BYTES: usize = 4 * 1024 * 1024;

/// What a forwarder knows besides the store.
struct Work {
    reader: Reader,
    in_flight: InFlight,
    removals: Removals,
    /// Published and not confirmed: published again, they are marked as repeats.
    published: HashSet<Position>,
    backoff: Backoff,
}

/// Why the forwarder has to begin again.
#[derive(Debug)]
enum Setback {
    /// The connection went while nothing was on its way.
    Disconnected,
    /// Something did not go through.
    Failed(String),
}

impl Forwarder {
    /// Runs until shutdown, then until everything in flight is settled or `patience` is over. Says whether nothing is
    /// left in flight: then the next start knows that no message was published before.
    pub(super) async fn run(self, mut shutdown: Stop, patience: Duration) -> bool {
        let mut work = Work {
            reader: self.store.reader(self.route.queue),
            in_flight: InFlight::default(),
            removals: Removals::new(self.store.clone(), self.clock, self.route.queue, self.name().to_owned()),
            published: HashSet::new(),
            backoff: Backoff::new(),
        };
        let mut finished = true;
        loop {
            // A route that fails does so until something goes through, whatever is tried meanwhile.
            if !is_connected(&self.connector.status().borrow()) {
                self.states.set(self.name(), RouteState::Waiting);
            }
            let max_in_flight = usize::from(self.route.config.to.max_in_flight);
            let options = OutletOptions { route: self.name().to_owned(), max_in_flight };
            let outlet = tokio::select! {
                outlet = self.connector.outlet(options) => outlet,
                () = shutdown.requested() => break,
            };
            let mut outlet = outlet;
            match self.pump(&mut work, &mut outlet, &mut shutdown).await {
                // The outlet stays open until its confirms are in.
                Ok(()) => {
                    finished = tokio::time::timeout(patience, self.finish(&mut work)).await.unwrap_or(false);
                    break;
                }
                Err(setback) => self.on_setback(&mut work, setback, &mut shutdown).await,
            }
        }
        self.states.set(self.name(), RouteState::Stopped);
        finished && work.published.is_empty()
    }

    /// Forwards until shutdown (`Ok`) or until something does not go through.
    async fn pump(&self, work: &mut Work, outlet: &mut Box<dyn Outlet>, shutdown: &mut Stop) -> Result<(), Setback> {
        let window = if self.route.config.to.strict_order { 1 } else { self.route.config.to.max_in_flight.into() };
        let mut status = self.connector.status();
        if !self.is_failing() {
            self.states.set(self.name(), RouteState::Forwarding);
        }
        loop {
            if shutdown.is_requested() {
                return Ok(());
            }
            // A few large bursts cost the connector less than many small ones.
            let room = window - work.in_flight.len().min(window);
            let bytes = MOST_BYTES.saturating_sub(work.in_flight.bytes());
            let refill = work.in_flight.is_empty() || (room > window / 4 && bytes > MOST_BYTES / 4);
            let mut read = 0;
            if refill {
                let messages = match self.read(work, room, bytes.min(READ_BYTES)) {
                    Ok(messages) => messages,
                    Err(error) => return Err(self.drained(work, Setback::Failed(error.to_string())).await),
                };
                read = messages.len();
                if let Err(setback) = self.hand_over(work, outlet, messages).await {
                    return Err(self.drained(work, setback).await);
                }
                if read == 0 && work.in_flight.is_empty() {
                    // Whatever was stuck is gone.
                    self.states.set(self.name(), RouteState::Forwarding);
                }
            }
            if read > 0 && read == room {
                // There may be more, and settlements may be ready: look at both without sleeping.
                tokio::task::yield_now().await;
            }
            tokio::select! {
                delivered = work.in_flight.settled(), if !work.in_flight.is_empty() => self.on_delivered(work, delivered).await?,
                _ = work.removals.next() => {}
                gone = disconnected(&mut status), if work.in_flight.is_empty() => return Err(gone),
                () = work.reader.wait(), if refill && work.in_flight.len() < window => {}
                () = shutdown.requested() => return Ok(()),
            }
        }
    }

    /// The next messages. One that can't be read is passed over, and stays: it must not stop those behind it.
    fn read(&self, work: &mut Work, room: usize, bytes: usize) -> Result<Vec<StoredMessage>, StoreError> {
        loop {
            match work.reader.next(room, bytes) {
                Ok(messages) => return Ok(messages),
                Err(StoreError::Unreadable { position, reason }) => {
                    tracing::error!(
                        event = "message_unreadable", route = %self.name(), position = %position, reason = %reason,
                        "a stored message can't be read and is passed over; it stays in the store"
                    );
                    work.reader.skip(position);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn hand_over(
        &self,
        work: &mut Work,
        outlet: &mut Box<dyn Outlet>,
        messages: Vec<StoredMessage>,
    ) -> Result<(), Setback> {
        if messages.is_empty() {
            return Ok(());
        }
        let failed = |why: NotResealed| Setback::Failed(why.to_string());
        let reseal = match &self.route.handling {
            Handling::NonTransparent { resealer: Some(resealer), .. } => {
                Some((resealer, resealer.key().await.map_err(failed)?))
            }
            _ => None,
        };
        let mut result = Ok(());
        let now = self.clock.unix_now();
        let mut burst = Vec::with_capacity(messages.len());
        let mut tickets = Vec::with_capacity(messages.len());
        for stored in messages {
            let position = stored.position;
            let message = match decode(&stored) {
                Ok(message) => message,
                Err(reason) => {
                    self.set_aside(position, None, None, MessageClass::NACK_DELETED, &reason).await;
                    continue;
                }
            };
            let id = message.id();
            let repeated = stored.may_be_repeated || work.published.contains(&position);
            let contents = match self.open(&message).await {
                Ok(contents) => contents,
                // It opened when it came: the key has been taken away since.
                Err(unopened) => {
                    let class = MessageClass::NACK_BAD_ENCRYPTION;
                    self.set_aside(position, Some(id), Some(&message), class, &unopened.to_string()).await;
                    continue;
                }
            };
            let contents = match (contents, &reseal) {
                (Contents::Clear(body), Some((resealer, key))) => match resealer.seal(key, &message, &body).await {
                    Ok(resealed) => Contents::Resealed(resealed),
                    // Those before it go out; it and those behind it stay.
                    Err(why) => {
                        result = Err(failed(why));
                        break;
                    }
                },
                (contents, _) => contents,
            };
            let found = Found { contents, marks: Marks::from_bits(stored.marks) };
            match to_amqp(&message, &self.route, now, repeated, found) {
                Ok(translated) => {
                    burst.push(translated);
                    let asks = (message.properties.ack_request != AckRequest::default()).then(|| Box::new(message));
                    tickets.push(Ticket { position, id, size: stored.frame.len(), asks });
                }
                Err(untranslatable) => {
                    let class = match untranslatable {
                        Untranslatable::Expired { .. } => MessageClass::NACK_RECEIVE_TIMEOUT,
                        _ => MessageClass::NACK_RECEIVE_REJECTED,
                    };
                    self.set_aside(position, Some(id), Some(&message), class, &untranslatable.to_string()).await;
                }
            }
        }
        work.published.extend(tickets.iter().map(|ticket| ticket.position));
        let settlements = outlet.deliver(burst).await;
        for (ticket, settlement) in tickets.into_iter().zip(settlements) {
            work.in_flight.push(ticket, settlement);
        }
        result
    }

    /// What the route may see of a body.
    async fn open(&self, message: &UserMessage) -> Result<Contents, Unopened> {
        let Handling::NonTransparent { opener, ciphers, .. } = &self.route.handling else {
            return Ok(Contents::AsItCame);
        };
        let mut body = opener.open(message, ciphers, Repute::Good).await?;
        if message.is_encrypted() && message.is_signed() {
            // It was verified when it came. Where two plaintexts are possible, the signature says again which it is.
            let _ = Authenticity::of(message, &mut body, &self.route.signatures);
        }
        Ok(Contents::Clear(body))
    }

    async fn on_delivered(&self, work: &mut Work, delivered: Vec<Delivered>) -> Result<(), Setback> {
        if let Some(setback) = self.book(work, delivered).await {
            return Err(self.drained(work, setback).await);
        }
        work.backoff.reset();
        self.states.set(self.name(), RouteState::Forwarding);
        Ok(())
    }

    /// The window drains before anything is done about a setback, so that what is published again comes behind
    /// everything that was published before.
    async fn drained(&self, work: &mut Work, setback: Setback) -> Setback {
        while !work.in_flight.is_empty() {
            let rest = work.in_flight.settled().await;
            // The first reason is the one that counts.
            let _ = self.book(work, rest).await;
        }
        setback
    }

    /// Removes what is confirmed, sets aside what is refused, and returns the first reason to stop.
    async fn book(&self, work: &mut Work, delivered: Vec<Delivered>) -> Option<Setback> {
        let mut confirmed = Vec::with_capacity(delivered.len());
        let mut answers = Vec::new();
        let mut setback = None;
        for Delivered { ticket, outcome } in delivered {
            match outcome {
                Ok(()) => {
                    work.published.remove(&ticket.position);
                    tracing::debug!(
                        event = "message_confirmed", route = %self.name(), message_id = %ticket.id,
                        "the broker has confirmed a message"
                    );
                    answers.extend(self.answer(ticket.asks.as_deref(), MessageClass::ACK_RECEIVE));
                    confirmed.push(ticket.position);
                }
                Err(DeliveryError::Unroutable { reason }) if self.sets_unroutable_aside() => {
                    work.published.remove(&ticket.position);
                    let reason = format!("returned as unroutable: {reason}");
                    let class = MessageClass::NACK_BAD_DST_Q;
                    self.set_aside(ticket.position, Some(ticket.id), ticket.asks.as_deref(), class, &reason).await;
                }
                Err(DeliveryError::Refused { reason }) => {
                    work.published.remove(&ticket.position);
                    let class = MessageClass::NACK_RECEIVE_REJECTED;
                    self.set_aside(ticket.position, Some(ticket.id), ticket.asks.as_deref(), class, &reason).await;
                }
                Err(error) => {
                    if matches!(error, DeliveryError::Unroutable { .. }) {
                        // It came back: nobody has it.
                        work.published.remove(&ticket.position);
                    }
                    self.route.counters.retried();
                    setback.get_or_insert_with(|| Setback::Failed(error.to_string()));
                }
            }
        }
        if !confirmed.is_empty() {
            self.route.counters.confirmed(confirmed.len() as u64);
            work.removals.start(confirmed, answers);
        }
        setback
    }

    async fn on_setback(&self, work: &mut Work, setback: Setback, shutdown: &mut Stop) {
        if let Setback::Failed(reason) = setback {
            let since = self.clock.unix_now();
            self.states.set(self.name(), RouteState::Failing { reason, since });
        }
        // Removals first: what is confirmed must not be read again.
        while !work.removals.is_empty() {
            tokio::select! {
                _ = work.removals.next() => {}
                () = shutdown.requested() => return,
            }
        }
        work.reader.rewind();
        let wait = work.backoff.step((self.chance)());
        tokio::select! {
            () = self.clock.sleep(wait) => {}
            () = shutdown.requested() => {}
        }
    }

    /// Waits for what is in flight. Says whether nothing is left.
    async fn finish(&self, work: &mut Work) -> bool {
        let mut clean = true;
        while !work.in_flight.is_empty() {
            let delivered = work.in_flight.settled().await;
            clean &= self.book(work, delivered).await.is_none();
        }
        while !work.removals.is_empty() {
            work.removals.next().await;
        }
        clean && work.removals.is_clean()
    }

    /// The acknowledgment message of this class, when the sender of `message` wants one.
    fn answer(&self, message: Option<&UserMessage>, class: MessageClass) -> Option<NewMessage> {
        // Names of ours that are addresses were compared when the message came.
        const CALLED: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.acknowledger.get()?.companion(message?, class, CALLED)
    }

    async fn set_aside(
        &self,
        position: Position,
        id: Option<MessageId>,
        message: Option<&UserMessage>,
        class: MessageClass,
        reason: &str,
    ) {
        let answers: Vec<_> = self.answer(message, class).into_iter().collect();
        let message_id = id.map(|id| id.to_string()).unwrap_or_default();
        let why = SetAside {
            origin: self.route.config.from.queue.to_string(),
            class: class.0,
            reason: reason.to_owned(),
            at: self.clock.unix_now(),
        };
        match self.store.set_aside_with(self.route.queue, position, self.dead_letters, why, answers).await {
            Ok(()) => {
                self.route.counters.dead_lettered();
                tracing::warn!(
                    event = "message_dead_lettered", route = %self.name(), queue = %self.route.config.from.queue,
                    message_id = %message_id, class = %class, reason = %reason,
                    "a message can't be forwarded and was moved to the dead-letter queue"
                );
            }
            // It stays where it is and is tried again after the next rewind or restart.
            Err(error) => tracing::warn!(
                event = "dead_letter_failed", route = %self.name(), message_id = %message_id, reason = %error,
                "a message could not be moved to the dead-letter queue and stays in its queue"
            ),
        }
    }

    fn is_failing(&self) -> bool {
        matches!(self.states.of(self.name()), RouteState::Failing { .. })
    }

    fn sets_unroutable_aside(&self) -> bool {
        self.route.config.unroutable == Unroutable::DeadLetter
    }

    fn name(&self) -> &str {
        &self.route.config.name
    }
}

/// Resolves when the connector is not connected any more.
async fn disconnected(status: &mut watch::Receiver<Status>) -> Setback {
    // A connector that is gone altogether has nothing to report: `outlet` waits for it.
    let _ = status.wait_for(|status| !is_connected(status)).await;
    Setback::Disconnected
}

const fn is_connected(status: &Status) -> bool {
    matches!(status, Status::Up { .. } | Status::Blocked { .. })
}

fn decode(stored: &StoredMessage) -> Result<UserMessage, String> {
    Frame::new(stored.frame.clone())
        .and_then(|frame| UserMessage::decode(&frame))
        .map_err(|malformed| format!("the stored packet can't be read any more: {malformed}"))
}
