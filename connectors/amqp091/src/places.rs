//! Whether exchanges and queues are there.

use connector_api::Place;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};

use crate::error::describe;
use crate::link::Link;

/// A sentence for each place that is missing; an error when the connection fails on the way.
pub(crate) async fn missing(link: &Link, wanted: &[Place]) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    let mut channel: Option<Channel> = None;
    for place in wanted {
        let (Place::Exchange(name) | Place::Queue(name)) = place;
        let Ok(short) = ShortString::try_new(name.as_str()) else {
            missing.push(format!("{place}: AMQP allows names of 255 bytes, and this one has {}", name.len()));
            continue;
        };
        if matches!(place, Place::Exchange(name) if name.is_empty()) {
            continue;
        }
        let open = match channel.take() {
            Some(open) => open,
            None => link.connection.create_channel().await.map_err(|error| describe(&error))?,
        };
        match look(&open, place, short).await {
            Ok(()) => channel = Some(open),
            // The broker has closed the channel.
            Err(error) if error.is_amqp_soft_error() => missing.push(format!("{place}: {}", describe(&error))),
            Err(error) => return Err(describe(&error)),
        }
    }
    Ok(missing)
}

/// A passive declaration changes nothing, and needs no right to configure.
async fn look(channel: &Channel, place: &Place, name: ShortString) -> lapin::Result<()> {
    let none = FieldTable::default();
    match place {
        Place::Exchange(_) => {
            let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            // The kind is not looked at.
            channel.exchange_declare(name, ExchangeKind::Direct, passive, none).await
        }
        Place::Queue(_) => {
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(name, passive, none).await.map(drop)
        }
    }
}
