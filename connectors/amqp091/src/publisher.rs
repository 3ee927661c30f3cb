//! The task behind an outlet: publishes in order and settles.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use connector_api::DeliveryError;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::{Channel, Confirmation};
use tokio::sync::{mpsc, oneshot, watch};

use crate::attribution::{Attribution, Confirm, Returned, Verdict};
use crate::encode::Publish;
use crate::error::describe;
use crate::routes::Routes;
use crate::slots::Slots;

/// A message that nobody takes comes back instead of being dropped by the broker.
const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// A message to publish, with what it takes to settle it.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) publish: Publish,
    pub(crate) ticket: Ticket,
}

/// Settles one message.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) message_id: String,
    pub(crate) settle: oneshot::Sender<Result<(), DeliveryError>>,
}

impl Ticket {
    fn settle(self, outcome: Result<(), DeliveryError>) {
        // Nobody may want to know.
        let _ = self.settle.send(outcome);
    }
}

/// Why an outlet is of no use any more, once it is.
#[derive(Debug, Default)]
pub(crate) struct Epitaph(OnceLock<String>);

impl Epitaph {
    /// The first reason stays.
    fn write(&self, reason: String) {
        let _ = self.0.set(reason);
    }

    pub(crate) fn retry(&self) -> DeliveryError {
        DeliveryError::retry(self.0.get().map_or("the outlet's channel is closed", String::as_str))
    }
}

/// What the task works with.
pub(crate) struct Publisher {
    pub(crate) channel: Channel,
    pub(crate) bursts: mpsc::UnboundedReceiver<Vec<Order>>,
    /// Why the connection was lost, once it was.
    pub(crate) lost: watch::Receiver<Option<String>>,
    pub(crate) ledger: Ledger,
}

impl Publisher {
    /// Works until the outlet is gone and everything is settled, or the connection is lost.
    pub(crate) async fn run(self) {
        let Self { channel, mut bursts, mut lost, mut ledger } = self;
        let channel = Arc::new(channel);
        let mut slots = Slots::new();
        let mut attribution = Attribution::new();
        let mut outlet_lives = true;
        let mut something_seen = false;
        loop {
            // However fast confirms come, other tasks get their turn.
            tokio::task::coop::consume_budget().await;
            let mut burst = Vec::new();
            tokio::select! {
                biased;
                reason = reason(&mut lost) => {
                    ledger.epitaph.write(reason);
                    break;
                }
                received = bursts.recv(), if outlet_lives => match received {
                    Some(received) => burst = received,
                    None => outlet_lives = false,
                },
                // What was seen in one round is decided after the next, even when that sees nothing.
                () = poll_fn(|context| if something_seen { Poll::Ready(()) } else { slots.poll_woken(context) }) => {}
            }
            for Order { publish, ticket } in burst {
                if let Some((ticket, answer)) = slots.start(send(Arc::clone(&channel), publish), ticket) {
                    ledger.observe(&mut attribution, ticket, answer);
                }
            }
            let polled = slots.round(|ticket, answer| ledger.observe(&mut attribution, ticket, answer));
            attribution.close_round(slots.running(), &mut |ticket, verdict| ledger.settle(ticket, verdict));
            something_seen = polled > 0;
            if !outlet_lives && slots.running() == 0 {
                return;
            }
        }
        bursts.close();
        let unsent = std::iter::from_fn(|| bursts.try_recv().ok()).flatten().map(|order| order.ticket);
        for ticket in attribution.abandon().chain(slots.abandon()).chain(unsent) {
            ticket.settle(Err(ledger.epitaph.retry()));
        }
    }
}

/// Waits until the connection is lost.
async fn reason(lost: &mut watch::Receiver<Option<String>>) -> String {
    let found = lost.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
    found.unwrap_or_else(|| "the connector is gone".to_owned())
}

/// Publishes and waits for the confirm. Its first poll hands the frames to lapin, so that polling first in order means
/// publishing in order.
async fn send(channel: Arc<Channel>, publish: Publish) -> lapin::Result<Confirmation> {
    let confirm = {
        let Publish { exchange, routing_key, properties, body } = publish;
        channel.basic_publish(exchange, routing_key, MANDATORY, &body, properties).await?
    };
    confirm.await
}

/// Turns the foreign system's answers into settlements.
pub(crate) struct Ledger {
    pub(crate) route: String,
    pub(crate) routes: Arc<Routes>,
    pub(crate) epitaph: Arc<Epitaph>,
    /// A message was taken: what fails from here on is not the same trouble again.
    pub(crate) proven: bool,
}

impl Ledger {
    fn observe(&mut self, attribution: &mut Attribution<Ticket>, ticket: Ticket, answer: lapin::Result<Confirmation>) {
        let (positive, returned) = match answer {
            Ok(Confirmation::Ack(returned)) => (true, returned),
            Ok(Confirmation::Nack(returned)) => (false, returned),
            Ok(Confirmation::NotRequested) => {
                return ticket.settle(Err(DeliveryError::retry("the channel gives no confirms")));
            }
            Err(error) => return ticket.settle(Err(self.failure(&error))),
        };
        let message_id = ticket.message_id.clone();
        let confirm = Confirm { positive, returned: returned.map(returned_message) };
        attribution.observe(ticket, message_id, confirm, &mut |ticket, verdict| self.settle(ticket, verdict));
    }

    fn settle(&mut self, ticket: Ticket, verdict: Verdict) {
        ticket.settle(match verdict {
            Verdict::Taken => {
                if !std::mem::replace(&mut self.proven, true) {
                    self.routes.succeeded(&self.route);
                }
                Ok(())
            }
            Verdict::Unroutable(reason) => Err(DeliveryError::Unroutable { reason }),
            Verdict::NotTaken => Err(DeliveryError::retry("negative confirm: the broker did not take the message")),
        });
    }

    /// The channel or the whole connection is gone.
    fn failure(&mut self, error: &lapin::Error) -> DeliveryError {
        if error.is_amqp_error() {
            let reason = describe(error);
            // Every message in flight fails with the same error; one failure is counted.
            if error.is_amqp_soft_error() && self.epitaph.0.set(reason.clone()).is_ok() {
                self.routes.failed(&self.route);
                tracing::warn!(event = "outlet_failed", route = self.route, reason, "the broker closed the channel");
            }
        }
        self.epitaph.retry()
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
