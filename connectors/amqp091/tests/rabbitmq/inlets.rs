//! Inlets where RabbitMQ has ways of its own.

use std::time::Duration;

use bytes::Bytes;
use connector_api::conformance::{numbered, numbers};
use connector_api::{
    Connector, Delivery, Headers, Inlet, InletError, InletOptions, MAX_DEPTH, MAX_VALUES, Place, Value,
};
use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use tokio::time::{Instant, sleep, timeout};

use crate::peer::{Fragile, PATIENCE, Peer, connector, deliver, fresh_name, open};
use crate::raw::{Flag, RawSender, long, nested_lists, short};

async fn open_inlet(connector: &dyn Connector, queue: &str) -> Box<dyn Inlet> {
    let options = InletOptions { route: "inward".to_owned(), address: queue.to_owned(), prefetch: 10 };
    timeout(PATIENCE, connector.inlet(options)).await.expect("an inlet opens")
}

async fn receive(inlet: &mut dyn Inlet) -> Delivery {
    timeout(PATIENCE, inlet.receive()).await.expect("a delivery comes").expect("the inlet works")
}

async fn expect_error(inlet: &mut dyn Inlet) -> InletError {
    timeout(PATIENCE, inlet.receive()).await.expect("receiving ends").expect_err("the inlet fails")
}

/// Sends messages that consist of these headers.
async fn send_raw(port: u16, queue: &str, tables: Vec<Vec<u8>>) {
    let queue = queue.to_owned();
    let sending = tokio::task::spawn_blocking(move || {
        let mut sender = RawSender::connect(port);
        for table in tables {
            sender.publish(b"", queue.as_bytes(), &[(Flag::Headers, long(&table))], b"body");
        }
        sender.finish();
    });
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_of_every_type_arrive() {
    let peer = Peer::shared().await;
    let queue = peer.queue(&[]).await.routing_key;
    let inner = [short(b"n"), vec![b'I', 0, 0, 0, 7]].concat();
    let values: Vec<(&[u8], Vec<u8>, Value)> = vec![
        (b"bool", vec![b't', 1], Value::Bool(true)),
        (b"i8", vec![b'b', 0x80], Value::Int(-128)),
        (b"u8", vec![b'B', 0xFF], Value::Int(255)),
        (b"i16", vec![b's', 0x80, 0], Value::Int(-32_768)),
        (b"u16", vec![b'u', 0xFF, 0xFF], Value::Int(65_535)),
        (b"i32", vec![b'I', 0x80, 0, 0, 0], Value::Int(-2_147_483_648)),
        (b"u32", vec![b'i', 0xFF, 0xFF, 0xFF, 0xFF], Value::Int(4_294_967_295)),
        (b"i64", [b"l", &i64::MIN.to_be_bytes()[..]].concat(), Value::Int(i64::MIN)),
        (b"f32", [b"f", &0.25_f32.to_be_bytes()[..]].concat(), Value::Float(0.25)),
        (b"f64", [b"d", &(-1e300_f64).to_be_bytes()[..]].concat(), Value::Float(-1e300)),
        (b"decimal", vec![b'D', 2, 0, 0, 4, 0xE2], Value::Decimal { scale: 2, unscaled: 1250 }),
        (b"text", [vec![b'S'], long("Grüße".as_bytes())].concat(), Value::Text("Grüße".to_owned())),
        (b"latin-1", [vec![b'S'], long(b"Gr\xFC\xDFe")].concat(), Value::Bytes(Bytes::from_static(b"Gr\xFC\xDFe"))),
        (b"bytes", [vec![b'x'], long(&[0, 0xFF])].concat(), Value::Bytes(Bytes::from_static(&[0, 0xFF]))),
        (b"time", [b"T", &4_000_000_000_u64.to_be_bytes()[..]].concat(), Value::Timestamp(4_000_000_000)),
        (b"null", vec![b'V'], Value::Null),
        (b"list", [vec![b'A'], long(&[b't', 0, b'V'])].concat(), Value::List(vec![Value::Bool(false), Value::Null])),
        (
            b"table",
            [vec![b'F'], long(&inner)].concat(),
            Value::Table([("n".into(), Value::Int(7))].into_iter().collect()),
        ),
    ];
    let table = values.iter().flat_map(|(name, value, _)| [short(name), value.clone()].concat()).collect();
    send_raw(peer.port(), &queue, vec![table]).await;

    let connector = connector(&[peer.uri()]);
    let Delivery { message, receipt } = receive(&mut *open_inlet(&connector, &queue).await).await;
    for (name, _, expected) in &values {
        let name = std::str::from_utf8(name).unwrap();
        assert_eq!(message.headers.get(name), Some(expected), "{name}");
    }
    assert_eq!(message.headers.len(), values.len());
    assert_eq!((message.durable, message.priority, &message.message_id), (false, None, &None));
    let shown = format!("{message:?}");
    assert!(!shown.contains("Grüße") && !shown.contains("latin-1"), "headers are counted, not printed: {shown}");
    receipt.accept();
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_property_arrives_whatever_bytes_it_has() {
    let peer = Peer::shared().await;
    let queue = peer.queue(&[]).await.routing_key;
    let (_connection, channel) = peer.channel().await;
    let (bind, none) = (QueueBindOptions::default(), FieldTable::default());
    channel.queue_bind(queue.as_str().into(), "amq.fanout".into(), "".into(), bind, none).await.unwrap();
    let port = peer.port();
    let sending = tokio::task::spawn_blocking(move || {
        let mut sender = RawSender::connect(port);
        let properties = [
            (Flag::ContentType, short(b"text/xml")),
            (Flag::ContentEncoding, short(b"gzip")),
            (Flag::DeliveryMode, vec![2]),
            (Flag::Priority, vec![200]),
            (Flag::CorrelationId, short(b"question \xFF")),
            (Flag::ReplyTo, short(b"replies")),
            (Flag::Expiration, short(b"3600000")),
            (Flag::MessageId, short(b"\xC3 answer")),
            (Flag::Timestamp, 1_700_000_000_u64.to_be_bytes().to_vec()),
            (Flag::Kind, short(b"order")),
            (Flag::UserId, short(b"guest")),
            (Flag::AppId, short(b"shop")),
        ];
        sender.publish(b"amq.fanout", b"k\xE4se", &properties, b"");
        sender.finish();
    });
    sending.await.unwrap();

    let connector = connector(&[peer.uri()]);
    let Delivery { message, receipt } = receive(&mut *open_inlet(&connector, &queue).await).await;
    let text = |value: &str| Some(value.to_owned());
    assert_eq!((message.address.exchange.as_str(), message.address.routing_key.as_str()), ("amq.fanout", "k?se"));
    assert_eq!((message.content_type, message.content_encoding), (text("text/xml"), text("gzip")));
    assert_eq!((message.durable, message.priority), (true, Some(200)));
    assert_eq!((message.correlation_id, message.message_id), (text("question ?"), text("? answer")));
    assert_eq!((message.reply_to, message.expiration), (text("replies"), Some(3_600_000)));
    assert_eq!((message.timestamp, message.kind), (Some(1_700_000_000), text("order")));
    assert_eq!((message.user_id, message.app_id), (text("guest"), text("shop")));
    assert_eq!((message.headers, message.body.len()), (Headers::new(), 0));
    receipt.accept();
    connector.close().await;
}

/// lapin by itself would end this process by stack overflow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_headers_do_no_harm() {
    let peer = Peer::shared().await;
    let queue = peer.queue(&[]).await.routing_key;
    let deep = [short(b"deep"), nested_lists(20_000)].concat();
    let long_list = [short(b"list"), vec![b'A'], long(&vec![b'V'; 100_000]), short(b"after"), vec![b't', 1]].concat();
    let many = (0..20_000).flat_map(|n: u32| [short(n.to_string().as_bytes()), vec![b'V']].concat()).collect();
    let not_utf_8 = [short(b"\xFFname"), vec![b'V']].concat();
    send_raw(peer.port(), &queue, vec![deep, long_list, many, not_utf_8]).await;

    let connector = connector(&[peer.uri()]);
    let mut inlet = open_inlet(&connector, &queue).await;
    let deep = receive(&mut *inlet).await;
    let mut value = deep.message.headers.get("deep").unwrap();
    let mut depth = 0;
    while let Value::List(values) = value {
        value = &values[0];
        depth += 1;
    }
    assert_eq!(depth, MAX_DEPTH);
    assert!(matches!(value, Value::Bytes(bytes) if bytes.len() > 50_000), "as it came");
    deep.accept();

    let list = receive(&mut *inlet).await;
    assert!(matches!(list.message.headers.get("list"), Some(Value::Bytes(bytes)) if bytes.len() == 100_000));
    assert_eq!(list.message.headers.get("after"), Some(&Value::Bool(true)), "its neighbours are as they were");
    list.accept();

    let many = receive(&mut *inlet).await;
    assert!((MAX_VALUES - 10..=MAX_VALUES).contains(&many.message.headers.len()), "{}", many.message.headers.len());
    many.accept();

    let renamed = receive(&mut *inlet).await;
    assert_eq!(renamed.message.headers.get("?name"), Some(&Value::Null));
    renamed.accept();
    connector.close().await;
    assert_eq!(peer.drain(&numbered_address(&queue)).await, []);
}

fn numbered_address(queue: &str) -> connector_api::Address {
    connector_api::Address { exchange: String::new(), routing_key: queue.to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_not_for_this_connection_is_told_in_the_brokers_words() {
    let peer = Peer::shared().await;
    let (owner, channel) = peer.channel().await;
    let name = fresh_name();
    let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.as_str().into(), exclusive, FieldTable::default()).await.unwrap();
    let connector = connector(&[peer.uri()]);
    let error = expect_error(&mut *open_inlet(&connector, &name).await).await;
    assert!(error.reason.contains("405") && error.reason.contains("RESOURCE_LOCKED"), "{error}");
    let sentences = connector.missing(&[Place::Queue(name.clone())], PATIENCE).await.unwrap();
    assert!(sentences[0].contains(&name) && sentences[0].contains("RESOURCE_LOCKED"), "{sentences:?}");

    let error = expect_error(&mut *open_inlet(&connector, &"x".repeat(256)).await).await;
    assert!(error.reason.contains("256") && error.reason.contains("255"), "{error}");
    connector.close().await;
    owner.close(200, "OK".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_are_looked_for_too() {
    let peer = Peer::shared().await;
    let queue = peer.queue(&[]).await;
    let (there, nowhere) = (fresh_name(), fresh_name());
    peer.exchange(&there, &queue).await;
    let connector = connector(&[peer.uri()]);
    let wanted = [Place::Exchange(nowhere.clone()), Place::Exchange(there), Place::Queue("y".repeat(300))];
    let sentences = connector.missing(&wanted, PATIENCE).await.unwrap();
    assert_eq!(sentences.len(), 2, "{sentences:?}");
    assert!(sentences[0].contains("404") && sentences[0].contains(&nowhere), "{sentences:?}");
    assert!(sentences[1].contains("300"), "{sentences:?}");
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_to_read_is_told_so() {
    let fragile = Fragile::turn().await;
    let peer = Peer::at(fragile.broker.uri());
    let address = peer.queue(&[]).await;
    fragile
        .act(|broker| {
            broker.rabbitmqctl(&["add_user", "writer", "secret"]).unwrap();
            broker.rabbitmqctl(&["set_permissions", "writer", "", ".*", ""]).unwrap();
        })
        .await;
    let uri = format!("amqp://writer:secret@127.0.0.1:{}/%2f", fragile.broker.port());
    let connector = connector(&[&uri]);
    let error = expect_error(&mut *open_inlet(&connector, &address.routing_key).await).await;
    assert!(error.reason.contains("403") && error.reason.contains(&address.routing_key), "{error}");
    assert!(deliver(&mut *open(&connector, "outward").await, vec![numbered(&address, 0)]).await[0].is_ok());
    let there = [Place::Queue(address.routing_key)];
    assert_eq!(connector.missing(&there, PATIENCE).await, Ok(vec![]), "looking needs no right");
    connector.close().await;
    fragile.act(|broker| drop(broker.rabbitmqctl(&["delete_user", "writer"]).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_connection_is_made_only_for_inlets_and_shows_what_it_is_for() {
    let fragile = Fragile::turn().await;
    let peer = Peer::at(fragile.broker.uri());
    let address = peer.queue(&[]).await;
    let connector = connector(&[&fragile.broker.uri()]);
    let mut outlet = open(&connector, "outward").await;
    assert!(deliver(&mut *outlet, (0..3).map(|number| numbered(&address, number)).collect()).await[2].is_ok());
    assert_eq!(await_names(&fragile, 1).await, ["mqbridge rabbit"]);
    let mut inlet = open_inlet(&connector, &address.routing_key).await;
    let open_one = receive(&mut *inlet).await;
    assert_eq!(await_names(&fragile, 2).await, ["mqbridge rabbit", "mqbridge rabbit (consuming)"]);
    let consumers = fragile.broker.rabbitmqctl(&["list_consumers", "consumer_tag", "prefetch_count"]).unwrap();
    assert!(consumers.contains("mqbridge inward\t10"), "{consumers}");

    // Whatever ends it is told in the words of whoever did.
    fragile.act(|broker| drop(broker.rabbitmqctl(&["close_all_connections", "maintenance tonight"]).unwrap())).await;
    let error = expect_error(&mut *inlet).await;
    assert!(error.reason.contains("320") && error.reason.contains("maintenance tonight"), "{error}");
    open_one.accept();
    let mut inlet = open_inlet(&connector, &address.routing_key).await;
    for number in 0..3 {
        let delivery = receive(&mut *inlet).await;
        let arrived = connector_api::conformance::Arrived::from(&delivery.message);
        assert_eq!(numbers(&[arrived]), [number]);
        delivery.accept();
    }
    connector.close().await;
}

/// The names of the connector's connections, once there are so many.
async fn await_names(fragile: &Fragile, count: usize) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let list = fragile.broker.rabbitmqctl(&["list_connections", "client_properties"]).unwrap();
        let of_ours = list.lines().filter(|line| line.contains("\"mqbridge\""));
        let name = |line: &str| {
            let (_, rest) = line.split_once("{\"connection_name\",\"")?;
            rest.split_once('"').map(|(name, _)| name.to_owned())
        };
        let mut names: Vec<_> = of_ours.filter_map(name).collect();
        names.sort();
        if names.len() == count {
            return names;
        }
        assert!(Instant::now() < deadline, "{list}");
        sleep(Duration::from_millis(50)).await;
    }
}
