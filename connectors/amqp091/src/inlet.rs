//! The way in: a consumer on a channel of its own.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use connector_api::{Delivery, Disposition, Inlet, InletError, InletOptions, Receipt};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Consumer};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep, timeout};

use crate::decode::incoming;
use crate::error::describe;
use crate::link::{Link, loss};
use crate::routes::Routes;
use crate::{CONNECTION_LOST, backoff};

/// The supervisor sees the end of a connection at the latest after its next look, and knows why.
const LOSS_LIMIT: Duration = Duration::from_secs(3);

/// Begins to consume. What is wrong with the queue is told by the inlet; an error is a reason to try again.
pub(crate) async fn inlet(
    link: Arc<Link>,
    options: InletOptions,
    routes: Arc<Routes>,
) -> Result<Box<dyn Inlet>, String> {
    let mut lost = link.lost.subscribe();
    let subscribed = tokio::select! {
        subscribed = subscribe(&link, &options) => subscribed,
        _ = lost.wait_for(Option::is_some) => return Err(CONNECTION_LOST.to_owned()),
    };
    let InletOptions { route, address: queue, .. } = options;
    let mut inlet = AmqpInlet {
        route,
        queue,
        routes,
        steady: Box::pin(sleep(backoff::STEADY)),
        took: false,
        state: State::Opening,
    };
    match subscribed {
        Ok((channel, consumer)) => {
            inlet.state = State::Open(Subscription { channel: Arc::new(channel), consumer, lost });
        }
        Err(NoConsumer::Refused(reason)) => drop(inlet.fail(reason)),
        Err(NoConsumer::Other(reason)) => return Err(reason),
    }
    Ok(Box::new(inlet))
}

/// Why there is no consumer.
enum NoConsumer {
    /// The broker does not want it.
    Refused(String),
    Other(String),
}

impl From<lapin::Error> for NoConsumer {
    fn from(error: lapin::Error) -> Self {
        let reason = describe(&error);
        if error.is_amqp_soft_error() { Self::Refused(reason) } else { Self::Other(reason) }
    }
}

async fn subscribe(link: &Link, options: &InletOptions) -> Result<(Channel, Consumer), NoConsumer> {
    let InletOptions { route, address, prefetch } = options;
    let queue = ShortString::try_new(address.as_str()).map_err(|_| {
        NoConsumer::Refused(format!("the name of the queue has {} bytes, and AMQP allows 255", address.len()))
    })?;
    let channel = link.connection.create_channel().await?;
    // 0 would mean without a bound.
    channel.basic_qos((*prefetch).max(1), BasicQosOptions::default()).await?;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(queue, consumer_tag(route), options, arguments).await?;
    Ok((channel, consumer))
}

/// What operators see in the broker's list of consumers. Each channel has only this one.
fn consumer_tag(route: &str) -> ShortString {
    let mut tag = format!("mqbridge {route}");
    tag.truncate(tag.floor_char_boundary(0xFF));
    ShortString::try_new(tag).unwrap_or_default()
}

struct AmqpInlet {
    route: String,
    queue: String,
    routes: Arc<Routes>,
    /// Ends when it has lasted so long that its end is not the same trouble again.
    steady: Pin<Box<Sleep>>,
    /// Something was received: the same holds.
    took: bool,
    state: State,
}

enum State {
    Opening,
    Open(Subscription),
    Failed(InletError),
}

impl Inlet for AmqpInlet {
    fn receive(&mut self) -> BoxFuture<'_, Result<Delivery, InletError>> {
        async move {
            let subscription = match &mut self.state {
                State::Open(subscription) => subscription,
                State::Failed(error) => return Err(error.clone()),
                State::Opening => return Err(InletError::new("it was never opened")),
            };
            match subscription.next().await {
                Ok(delivery) => {
                    let receipt = receipt(Arc::clone(&subscription.channel), delivery.delivery_tag);
                    if !std::mem::replace(&mut self.took, true) {
                        self.routes.succeeded(&self.route);
                    }
                    Ok(Delivery { message: incoming(delivery), receipt })
                }
                Err(End::Channel(reason)) => Err(self.fail(reason)),
                Err(End::Cancelled) => {
                    let reason =
                        format!("the broker cancelled the consumer of queue {:?}: was it deleted?", self.queue);
                    Err(self.fail(reason))
                }
                Err(End::Connection(reason)) => Err(self.end(reason)),
            }
        }
        .boxed()
    }
}

impl AmqpInlet {
    /// The queue or its consumer is in trouble, while the connection is there.
    fn fail(&mut self, reason: String) -> InletError {
        if self.steady.as_mut().now_or_never().is_some() {
            self.routes.succeeded(&self.route);
        }
        self.routes.failed(&self.route);
        let (route, queue) = (self.route.as_str(), self.queue.as_str());
        tracing::warn!(event = "inlet_failed", route, queue, reason, "the broker delivers nothing from the queue");
        self.end(reason)
    }

    fn end(&mut self, reason: String) -> InletError {
        let error = InletError { reason };
        self.state = State::Failed(error.clone());
        error
    }
}

impl fmt::Debug for AmqpInlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpInlet").field("route", &self.route).field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Why no more deliveries come.
enum End {
    /// The broker closed the channel.
    Channel(String),
    /// The broker ended the consumer.
    Cancelled,
    Connection(String),
}

struct Subscription {
    /// Lives as long as one of its deliveries is open: with it, the broker puts back whatever is not settled.
    channel: Arc<Channel>,
    consumer: Consumer,
    lost: watch::Receiver<Option<String>>,
}

impl Subscription {
    /// Cancel safe: whatever ends it is found again.
    async fn next(&mut self) -> Result<lapin::message::Delivery, End> {
        loop {
            let item = tokio::select! {
                biased;
                reason = loss(&mut self.lost) => return Err(End::Connection(reason)),
                item = self.consumer.next() => item,
            };
            match item {
                // On a channel that is gone it can't be settled, and comes again on another.
                Some(Ok(_)) if !self.channel.status().connected() => {}
                Some(Ok(delivery)) => return Ok(delivery),
                Some(Err(error)) if error.is_amqp_soft_error() => return Err(End::Channel(describe(&error))),
                None if self.channel.status().connected() => return Err(End::Cancelled),
                Some(Err(_)) | None => {
                    let reason = timeout(LOSS_LIMIT, loss(&mut self.lost)).await;
                    return Err(End::Connection(reason.unwrap_or_else(|_| "the channel is closed".to_owned())));
                }
            }
        }
    }
}

/// What nobody has received goes back at once; what is open stays so.
impl Drop for Subscription {
    fn drop(&mut self) {
        // Without a runtime it goes back with the channel, when nothing is open any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(give_back(Arc::clone(&self.channel), self.consumer.clone()));
        }
    }
}

async fn give_back(channel: Arc<Channel>, mut consumer: Consumer) {
    // The broker sends nothing more after its answer; an error means that there is nobody to give back to.
    let _ = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await;
    while let Some(Some(Ok(delivery))) = consumer.next().now_or_never() {
        settle(&channel, delivery.delivery_tag, Disposition::Requeue);
    }
}

/// Delivery tags count from one on every channel, and the broker closes a channel over one that it does not know: so a
/// receipt knows its channel, which is never used again for another.
fn receipt(channel: Arc<Channel>, tag: u64) -> Receipt {
    Receipt::new(move |disposition| settle(&channel, tag, disposition))
}

/// The first poll hands the frame to lapin; the rest would be waiting until it is written. On a channel that is gone it
/// does nothing.
fn settle(channel: &Channel, tag: u64, disposition: Disposition) {
    let refuse = BasicRejectOptions { requeue: false };
    let requeue = BasicRejectOptions { requeue: true };
    let _ = match disposition {
        Disposition::Accept => channel.basic_ack(tag, BasicAckOptions::default()).now_or_never(),
        Disposition::Refuse => channel.basic_reject(tag, refuse).now_or_never(),
        Disposition::Requeue => channel.basic_reject(tag, requeue).now_or_never(),
    };
}
