//! What stands behind an outlet: publishing in order, and settling.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connector_api::DeliveryError;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation, PublisherConfirm};
use tokio::sync::{oneshot, watch};

use crate::attribution::{Attribution, Confirm, Returned, Verdict};
use crate::encode::Publish;
use crate::error::{describe, is_aftermath};
use crate::flight::Flight;
use crate::link::loss;
use crate::routes::Routes;

/// A message that nobody takes comes back instead of being dropped by the broker.
const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// Resolves when a message is settled; never, when the publisher ended before.
pub(crate) type Settled = oneshot::Receiver<Result<(), DeliveryError>>;

/// Settles one message.
#[derive(Debug)]
struct Ticket {
    message_id: String,
    settle: oneshot::Sender<Result<(), DeliveryError>>,
}

impl Ticket {
    fn settle(self, outcome: Result<(), DeliveryError>) {
        // Nobody may want to know.
        let _ = self.settle.send(outcome);
    }
}

/// Publishes on one channel. Shared by the outlet, which starts messages, and a task, which settles them: a message is
/// handed to lapin where it is made, because moving it to another thread first costs more than all the rest here.
pub(crate) struct Publisher<W>(Mutex<Work<W>>);

/// Ends when the message is written to the socket. Its first poll hands the frames to lapin.
pub(crate) async fn write(channel: Arc<Channel>, publish: Publish) -> lapin::Result<PublisherConfirm> {
    let Publish { exchange, routing_key, properties, body } = publish;
    channel.basic_publish(exchange, routing_key, MANDATORY, &body, properties).await
}

impl<W: Future<Output = lapin::Result<PublisherConfirm>>> Publisher<W> {
    pub(crate) fn new(
        channel: Channel,
        write: fn(Arc<Channel>, Publish) -> W,
        route: String,
        routes: Arc<Routes>,
    ) -> Self {
        Self(Mutex::new(Work {
            write,
            flight: Flight::new(channel),
            behind_scout: VecDeque::new(),
            attribution: Attribution::new(),
            ledger: Ledger { route, routes, answered: false, succeeded: false, epitaph: None, unexplained: Vec::new() },
            outlet_lives: true,
        }))
    }

    /// Hands a message to lapin. In order, when called in order.
    pub(crate) fn start(&self, message_id: String, publish: Publish) -> Settled {
        let (settle, settled) = oneshot::channel();
        self.work().take(publish, Ticket { message_id, settle });
        settled
    }

    /// Nothing more will be started.
    pub(crate) fn finish(&self) {
        let mut work = self.work();
        work.outlet_lives = false;
        work.flight.wake();
    }

    /// Settles until the outlet is gone and everything is settled, or the connection is lost: then with its reason.
    pub(crate) async fn run(self: Arc<Self>, mut lost: watch::Receiver<Option<String>>) {
        let mut moved = 0;
        loop {
            // However fast confirms come, other tasks get their turn.
            tokio::task::coop::consume_budget().await;
            // What was seen in one round is decided after the next, even when that sees nothing.
            if moved == 0 {
                tokio::select! {
                    biased;
                    reason = loss(&mut lost) => return self.work().give_up(reason),
                    () = poll_fn(|context| self.work().flight.poll_moved(context)) => {}
                }
            }
            let mut work = self.work();
            moved = work.round();
            if !work.outlet_lives && work.is_idle() {
                return;
            }
        }
    }

    fn work(&self) -> MutexGuard<'_, Work<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is under way.
struct Work<W> {
    write: fn(Arc<Channel>, Publish) -> W,
    flight: Flight<Channel, W, PublisherConfirm, Ticket>,
    /// Messages that wait for the answer to the channel's first one. When the broker closes the channel over that one,
    /// as it does when the exchange is missing, nothing of them has been handed to lapin; lapin would go on writing to
    /// the closed channel, and for that the broker closes the connection and fails all routes.
    behind_scout: VecDeque<(Publish, Ticket)>,
    attribution: Attribution<Ticket>,
    ledger: Ledger,
    outlet_lives: bool,
}

impl<W: Future<Output = lapin::Result<PublisherConfirm>>> Work<W> {
    fn take(&mut self, publish: Publish, ticket: Ticket) {
        if let Some(epitaph) = &self.ledger.epitaph {
            ticket.settle(Err(DeliveryError::retry(epitaph)));
        } else if self.behind_scout.is_empty() && (self.ledger.answered || self.flight.is_empty()) {
            self.start(publish, ticket);
        } else {
            self.behind_scout.push_back((publish, ticket));
        }
    }

    fn start(&mut self, publish: Publish, ticket: Ticket) {
        let Self { write, flight, attribution, ledger, .. } = self;
        if let Some((ticket, answer)) = flight.start(|channel| write(channel, publish), ticket) {
            ledger.observe(attribution, ticket, answer);
            // What failed at once may wait for its explanation.
            flight.wake();
        }
    }

    fn round(&mut self) -> usize {
        let Self { flight, attribution, ledger, .. } = self;
        let moved = flight.round(|ticket, answer| ledger.observe(attribution, ticket, answer));
        attribution.close_round(flight.len(), &mut |ticket, verdict| ledger.settle(ticket, verdict));
        if self.ledger.answered && self.ledger.epitaph.is_none() {
            while let Some((publish, ticket)) = self.behind_scout.pop_front() {
                self.start(publish, ticket);
            }
        }
        // With nothing in flight, no better explanation will come.
        if self.ledger.epitaph.is_some() || self.flight.is_empty() {
            self.ledger.explain(self.behind_scout.drain(..).map(|(_, ticket)| ticket));
        }
        moved
    }

    fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.behind_scout.is_empty()
    }

    fn give_up(&mut self, reason: String) {
        self.ledger.epitaph.get_or_insert(reason);
        // Confirms that have come count.
        self.round();
        self.round();
        let Self { flight, attribution, ledger, .. } = self;
        ledger.explain(attribution.abandon().chain(flight.abandon()));
    }
}

/// Turns the broker's answers into settlements.
struct Ledger {
    route: String,
    routes: Arc<Routes>,
    /// The broker has answered to a message, whatever it said: it takes messages for this exchange from this user.
    answered: bool,
    /// A message was taken: what fails from here on is not the same trouble again.
    succeeded: bool,
    /// Why the channel is of no use any more, once it is.
    epitaph: Option<String>,
    /// Messages that met a closed channel before it was known why it is closed.
    unexplained: Vec<Ticket>,
}

impl Ledger {
    fn observe(&mut self, attribution: &mut Attribution<Ticket>, ticket: Ticket, answer: lapin::Result<Confirmation>) {
        let (positive, returned) = match answer {
            Ok(Confirmation::Ack(returned)) => (true, returned),
            Ok(Confirmation::Nack(returned)) => (false, returned),
            Ok(Confirmation::NotRequested) => {
                return ticket.settle(Err(DeliveryError::retry("the channel gives no confirms")));
            }
            Err(error) => return self.fail(ticket, &error),
        };
        self.answered = true;
        let confirm = Confirm { positive, returned: returned.map(returned_message) };
        attribution.observe(ticket, confirm, &mut |ticket, verdict| self.settle(ticket, verdict));
    }

    fn settle(&mut self, ticket: Ticket, verdict: Verdict) {
        ticket.settle(match verdict {
            Verdict::Taken => {
                if !std::mem::replace(&mut self.succeeded, true) {
                    self.routes.succeeded(&self.route);
                }
                Ok(())
            }
            Verdict::Unroutable(reason) => Err(DeliveryError::Unroutable { reason }),
            Verdict::NotTaken => Err(DeliveryError::retry("negative confirm: the broker did not take the message")),
        });
    }

    /// The channel or the whole connection is gone. Every message in flight fails with the same error: it is told and
    /// counted once.
    fn fail(&mut self, ticket: Ticket, error: &lapin::Error) {
        if self.epitaph.is_none() && !is_aftermath(error) {
            let reason = describe(error);
            if error.is_amqp_soft_error() {
                self.routes.failed(&self.route);
                tracing::warn!(event = "outlet_failed", route = self.route, reason, "the broker closed the channel");
            }
            self.epitaph = Some(reason);
        }
        match &self.epitaph {
            Some(reason) => ticket.settle(Err(DeliveryError::retry(reason))),
            None => self.unexplained.push(ticket),
        }
    }

    fn explain(&mut self, others: impl Iterator<Item = Ticket>) {
        let reason = self.epitaph.as_deref().unwrap_or("the channel is closed");
        for ticket in self.unexplained.drain(..).chain(others) {
            ticket.settle(Err(DeliveryError::retry(reason)));
        }
    }
}

impl AsRef<str> for Ticket {
    fn as_ref(&self) -> &str {
        &self.message_id
    }
}

fn returned_message(message: BasicReturnMessage) -> Returned {
    let BasicReturnMessage { delivery, reply_code, reply_text } = message;
    let message_id = delivery.properties.message_id().as_ref().map_or_else(String::new, ToString::to_string);
    let (exchange, routing_key) = (delivery.exchange.as_str(), delivery.routing_key.as_str());
    Returned {
        message_id,
        reason: format!("{reply_code} {reply_text}, exchange {exchange:?}, routing key {routing_key:?}"),
    }
}
