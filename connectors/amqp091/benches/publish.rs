//! What a message costs through this connector, against lapin used directly, in the same run.
//!
//! `cargo bench -p connector-amqp091`. Compare within one run: the machine's other work and the broker's mood change
//! the rate, the processor time per message much less.
#![allow(clippy::cast_precision_loss, reason = "figures are rounded")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark stops at the first surprise and prints")]

use std::collections::VecDeque;
use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use connector_amqp091::{Amqp091Config, Amqp091Connector};
use connector_api::{Address, Body, Connector, Headers, Message, OutletOptions, Value};
use futures_util::stream::{FuturesOrdered, StreamExt};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use testkit::PrivateBroker;
use tokio::task::JoinHandle;

const MESSAGES: u32 = 100_000;
const BODY: usize = 1024;
const BURST: u32 = 64;
const WINDOW: u32 = 1024;
const REPEATS: usize = 5;

fn main() {
    // `cargo test --all-targets` runs benchmarks too, without this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let broker = PrivateBroker::running().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{MESSAGES} messages of {BODY} bytes, bursts of {BURST}, window {WINDOW}; median of {REPEATS}");
    println!("queue    way        messages/s  client µs/message  broker µs/message");
    for queue in ["classic", "quorum"] {
        let (mut direct, mut connector) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let by_lapin = measure(&broker, queue, |uri| tokio::spawn(lapin_in_bursts(uri, queue)));
            direct.push(runtime.block_on(by_lapin));
            let by_connector = measure(&broker, queue, |uri| tokio::spawn(connector_in_bursts(uri, queue)));
            connector.push(runtime.block_on(by_connector));
        }
        for (way, costs) in [("lapin", direct), ("connector", connector)] {
            let median = |of: fn(&Cost) -> f64| {
                let mut values: Vec<_> = costs.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[REPEATS / 2]
            };
            let (rate, client, broker) = (median(|c| c.rate), median(|c| c.client), median(|c| c.broker));
            println!("{queue:8} {way:10} {rate:10.0}  {client:17.2}  {broker:17.1}");
        }
    }
}

struct Cost {
    rate: f64,
    client: f64,
    broker: f64,
}

/// In a task, as in the bridge, and not on the runtime's outermost thread, which waits more cheaply.
async fn measure(broker: &PrivateBroker, queue: &'static str, way: impl Fn(String) -> JoinHandle<()>) -> Cost {
    let connection = Connection::connect(&broker.uri(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(queue.into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), options, arguments).await.unwrap();
    channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap();

    let (started, client, served) = (Instant::now(), own_cpu_time(), broker.cpu_time().unwrap());
    way(broker.uri()).await.unwrap();
    let elapsed = started.elapsed();
    let each =
        |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(MESSAGES);
    Cost {
        rate: f64::from(MESSAGES) / elapsed.as_secs_f64(),
        client: each(client, own_cpu_time()),
        broker: each(served, broker.cpu_time().unwrap()),
    }
}

async fn connector_in_bursts(uri: String, queue: &'static str) {
    let config = Amqp091Config::new("bench", vec![uri.parse().unwrap()]);
    let connector = Amqp091Connector::new(config).unwrap();
    let options = OutletOptions { route: "bench".to_owned(), max_in_flight: WINDOW as usize };
    let mut outlet = connector.outlet(options).await;
    let body = Bytes::from(vec![b'x'; BODY]);
    let mut in_flight = VecDeque::new();
    for start in (0..MESSAGES).step_by(BURST as usize) {
        let burst = (start..(start + BURST).min(MESSAGES)).map(|number| message(queue, number, &body)).collect();
        in_flight.extend(outlet.deliver(burst).await);
        while in_flight.len() > (WINDOW - BURST) as usize {
            in_flight.pop_front().unwrap().await.unwrap();
        }
    }
    for settlement in in_flight {
        settlement.await.unwrap();
    }
    connector.close().await;
}

async fn lapin_in_bursts(uri: String, queue: &'static str) {
    let connection = Connection::connect(&uri, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let body = Bytes::from(vec![b'x'; BODY]);
    let mut in_flight = VecDeque::new();
    for start in (0..MESSAGES).step_by(BURST as usize) {
        let mut burst: FuturesOrdered<_> =
            (start..(start + BURST).min(MESSAGES)).map(|number| publish(&channel, queue, number, &body)).collect();
        while let Some(confirm) = burst.next().await {
            in_flight.push_back(confirm.unwrap());
        }
        while in_flight.len() > (WINDOW - BURST) as usize {
            assert_eq!(in_flight.pop_front().unwrap().await.unwrap(), Confirmation::Ack(None));
        }
    }
    for confirm in in_flight {
        assert_eq!(confirm.await.unwrap(), Confirmation::Ack(None));
    }
    connection.close(200, "OK".into()).await.unwrap();
}

async fn publish(
    channel: &Channel,
    queue: &'static str,
    number: u32,
    body: &[u8],
) -> lapin::Result<lapin::PublisherConfirm> {
    let mut headers = FieldTable::default();
    headers.insert("msmq-label".into(), AMQPValue::LongString(format!("order {number}").into()));
    headers.insert("msmq-body-type".into(), AMQPValue::LongLongInt(0x1011));
    headers.insert("msmq-authenticated".into(), AMQPValue::Boolean(true));
    let properties = BasicProperties::default()
        .with_message_id(message_id(number).into())
        .with_content_type("text/xml".into())
        .with_delivery_mode(2)
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_headers(headers);
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    channel.basic_publish("".into(), queue.into(), options, body, properties).await
}

fn message(queue: &str, number: u32, body: &Bytes) -> Message {
    let mut headers = Headers::new();
    headers.set("msmq-label", Value::Text(format!("order {number}")));
    headers.set("msmq-body-type", Value::Int(0x1011));
    headers.set("msmq-authenticated", Value::Bool(true));
    Message {
        address: Address { exchange: String::new(), routing_key: queue.to_owned() },
        message_id: message_id(number),
        correlation_id: None,
        reply_to: None,
        timestamp: Some(1_700_000_000),
        priority: 3,
        durable: true,
        expiration: None,
        content_type: "text/xml".to_owned(),
        headers,
        body: Body::Clear(body.clone()),
    }
}

fn message_id(number: u32) -> String {
    format!("c778ca24-7c5a-4060-80c0-aeee428d53ae\\{number}")
}

/// User and system time of this process, in hundredths of a second: exact enough for the whole of a run.
fn own_cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
