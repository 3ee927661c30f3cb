use std::sync::Arc;

use connector_api::{DeliveryError, Message, Outlet, Settlement};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lapin::Channel;
use tokio::sync::{mpsc, oneshot};

use crate::encode::Publish;
use crate::link::Link;
use crate::publisher::{Epitaph, Ledger, Order, Publisher, Ticket};
use crate::routes::Routes;

/// One channel in confirm mode.
#[derive(Debug)]
pub(crate) struct AmqpOutlet {
    bursts: mpsc::UnboundedSender<Vec<Order>>,
    epitaph: Arc<Epitaph>,
    frame_max: usize,
}

impl AmqpOutlet {
    pub(crate) fn new(channel: Channel, link: &Link, route: String, routes: Arc<Routes>) -> Self {
        let (bursts, received) = mpsc::unbounded_channel();
        let epitaph = Arc::new(Epitaph::default());
        let ledger = Ledger { route, routes, epitaph: Arc::clone(&epitaph), proven: false };
        let publisher = Publisher { channel, bursts: received, lost: link.lost.subscribe(), ledger };
        // Ends by itself: when the outlet is gone and all is settled, or when the link is lost.
        tokio::spawn(publisher.run());
        Self { bursts, epitaph, frame_max: link.frame_max }
    }
}

impl Outlet for AmqpOutlet {
    fn deliver(&mut self, burst: Vec<Message>) -> BoxFuture<'_, Vec<Settlement>> {
        let mut orders = Vec::with_capacity(burst.len());
        let settlements = burst
            .into_iter()
            .map(|message| {
                let message_id = message.message_id.clone();
                match Publish::encode(message, self.frame_max) {
                    Ok(publish) => {
                        let (settle, settled) = oneshot::channel();
                        orders.push(Order { publish, ticket: Ticket { message_id, settle } });
                        settlement(settled, Arc::clone(&self.epitaph))
                    }
                    Err(refusal) => std::future::ready(Err(refusal)).boxed(),
                }
            })
            .collect();
        // When the publisher has ended the orders are dropped, and their settlements say retry.
        let _ = self.bursts.send(orders);
        std::future::ready(settlements).boxed()
    }
}

fn settlement(settled: oneshot::Receiver<Result<(), DeliveryError>>, epitaph: Arc<Epitaph>) -> Settlement {
    async move { settled.await.unwrap_or_else(|_| Err(epitaph.retry())) }.boxed()
}
