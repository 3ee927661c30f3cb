use std::fmt;
use std::sync::Arc;

use connector_api::{DeliveryError, Message, Outlet, Settlement};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, PublisherConfirm};

use crate::CONNECTION_LOST;
use crate::encode::Publish;
use crate::error::describe;
use crate::link::Link;
use crate::publisher::{Publisher, Settled, write};
use crate::routes::Routes;

/// Opens an outlet on a channel in confirm mode. An error is a reason to try again.
pub(crate) async fn outlet(link: Arc<Link>, route: String, routes: Arc<Routes>) -> Result<Box<dyn Outlet>, String> {
    let channel = open_channel(&link).await?;
    let publisher = Arc::new(Publisher::new(channel, write, route, routes));
    // Ends by itself: when the outlet is gone and all is settled, or when the link is lost.
    tokio::spawn(Arc::clone(&publisher).run(link.lost.subscribe()));
    Ok(Box::new(AmqpOutlet { publisher, frame_max: link.frame_max }))
}

async fn open_channel(link: &Link) -> Result<Channel, String> {
    let mut lost = link.lost.subscribe();
    let opened = async {
        let channel = link.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    };
    tokio::select! {
        opened = opened => opened.map_err(|error: lapin::Error| describe(&error)),
        _ = lost.wait_for(Option::is_some) => Err(CONNECTION_LOST.to_owned()),
    }
}

struct AmqpOutlet<W>
where
    W: Future<Output = lapin::Result<PublisherConfirm>> + Send + 'static,
{
    publisher: Arc<Publisher<W>>,
    frame_max: usize,
}

impl<W> Outlet for AmqpOutlet<W>
where
    W: Future<Output = lapin::Result<PublisherConfirm>> + Send + 'static,
{
    fn deliver(&mut self, burst: Vec<Message>) -> BoxFuture<'_, Vec<Settlement>> {
        let settlements = burst.into_iter().map(|message| {
            let message_id = message.message_id.clone();
            match Publish::encode(message, self.frame_max) {
                Ok(publish) => settlement(self.publisher.start(message_id, publish)),
                Err(refusal) => std::future::ready(Err(refusal)).boxed(),
            }
        });
        std::future::ready(settlements.collect()).boxed()
    }
}

fn settlement(settled: Settled) -> Settlement {
    async { settled.await.unwrap_or_else(|_| Err(DeliveryError::retry("the runtime ended"))) }.boxed()
}

impl<W> Drop for AmqpOutlet<W>
where
    W: Future<Output = lapin::Result<PublisherConfirm>> + Send + 'static,
{
    fn drop(&mut self) {
        self.publisher.finish();
    }
}

impl<W> fmt::Debug for AmqpOutlet<W>
where
    W: Future<Output = lapin::Result<PublisherConfirm>> + Send + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpOutlet").finish_non_exhaustive()
    }
}
