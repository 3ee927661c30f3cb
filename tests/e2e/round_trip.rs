//! From MSMQ to RabbitMQ and back: a message comes back as it went.

use bytes::Bytes;
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions};
use lapin::types::FieldTable;
use mqbridge::mqqb::wire::{DeliveryMode, Guid, MessageClass, MessageId, UserMessage, WideText};
use testkit::SharedBroker;

use crate::broker::{Publisher, unique};
use crate::machine::Machine;
use crate::process::{RETURNING, Site, return_route, route};
use crate::sender::{deliver, message, runtime};

const SIZES: [usize; 4] = [0, 1, 64 << 10, (39 << 20) / 10];

#[test]
fn a_message_comes_back_as_it_went_byte_for_byte() {
    let uri = SharedBroker::uri().unwrap();
    let (there, back) = (unique("there"), unique("back"));
    runtime().block_on(async {
        let publisher = Publisher::connect(&uri).await;
        publisher.declare(&there, None).await;
        publisher.declare(&back, None).await;
    });
    let routes = [
        ("there", route("orders", "", &there, "", "")),
        ("back", return_route(&back, r"DIRECT=OS:win01\private$\orders", "", "")),
    ];
    let site = Site::new(&uri, RETURNING, &routes.each_ref().map(|(name, route)| (*name, route.as_str())));
    let machine = Machine::known_to(&site, "win01");
    let bridge = site.start();
    let mut sent = Vec::new();
    for size in SIZES {
        for delivery in [DeliveryMode::Express, DeliveryMode::Recoverable] {
            sent.push(full(sent.len() as u32 + 1, size, delivery));
        }
    }
    sent.push(bare(sent.len() as u32 + 1));

    deliver(bridge.address, &sent);
    runtime().block_on(relay(&uri, &there, &back, sent.len()));
    let mut arrived = machine.wait_for(sent.len());
    // Higher priorities overtake.
    arrived.sort_by_key(|message| message.id().ordinal);
    assert_eq!(arrived.len(), sent.len());
    for (sent, arrived) in sent.iter().zip(&arrived) {
        let id = sent.id();
        assert_eq!(arrived.id(), id);
        assert_eq!(arrived.delivery, sent.delivery, "{id}");
        assert_eq!(arrived.base.priority(), sent.base.priority(), "{id}");
        assert_eq!(arrived.destination().unwrap().to_string(), r"DIRECT=OS:win01\private$\orders");
        let (sent, arrived) = (&sent.properties, &arrived.properties);
        assert!(arrived.body == sent.body, "the body of {id}, {} bytes", sent.body.len());
        assert_eq!(arrived.body_type, sent.body_type, "{id}");
        assert_eq!(arrived.extension, sent.extension, "{id}");
        assert_eq!(arrived.label, sent.label, "{id}");
        assert_eq!(arrived.correlation_id, sent.correlation_id, "{id}");
        assert_eq!(arrived.app_specific, sent.app_specific, "{id}");
        assert_eq!(arrived.class, sent.class, "{id}");
    }
    assert!(bridge.stop().success());
}

/// Everything that a message can carry in clear.
fn full(ordinal: u32, size: usize, delivery: DeliveryMode) -> UserMessage {
    let mut message = message("orders", ordinal);
    message.delivery = delivery;
    message.base.flags = (ordinal % 8) as u16;
    let properties = &mut message.properties;
    properties.label = Some(WideText::from_text("Grüße 🙂 und 124 Zeichen Platz"));
    properties.app_specific = u32::MAX - ordinal;
    properties.class = MessageClass(0x0200 + ordinal as u16);
    properties.correlation_id =
        MessageId { source: Guid::from_wire(*b"another machine!"), ordinal: u32::MAX }.to_wire();
    properties.extension = (0..=255).cycle().take(4000).collect::<Vec<u8>>().into();
    let body_type = [0, 8, 0x1011, 31, 30][ordinal as usize % 5];
    properties.set_body(body(size), body_type);
    message
}

/// As little as a message can be.
fn bare(ordinal: u32) -> UserMessage {
    let mut message = message("orders", ordinal);
    message.properties.label = None;
    message.properties.set_body(Bytes::new(), 0);
    message
}

/// No two places alike for long.
fn body(size: usize) -> Bytes {
    (0..size as u32).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect::<Vec<_>>().into()
}

/// What a shovel or a program between two queues does: publishes again what it gets, as it is.
async fn relay(uri: &str, from: &str, to: &str, count: usize) {
    let publisher = Publisher::connect(uri).await;
    let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer = publisher.channel.basic_consume(from.into(), "relay".into(), options, arguments).await.unwrap();
    for _ in 0..count {
        let next = tokio::time::timeout(std::time::Duration::from_secs(30), consumer.next()).await;
        let delivery = next.expect("messages come").unwrap().unwrap();
        publisher.publish(to, delivery.properties.clone(), &delivery.data).await;
        delivery.ack(BasicAckOptions::default()).await.unwrap();
    }
}
