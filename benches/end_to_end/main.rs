//! The bridge against a bare publisher and against RabbitMQ's own shovel, in one run, on one broker; and the way back against
//! a bare relay.
//!
//! `cargo xtask bench end_to_end`. Each round moves the same 100,000 recoverable messages of 1 KiB three ways:
//! over TCP 1801 through the bridge to the last confirm; from memory with lapin in bursts; from queue to queue with a
//! shovel. Then, from a queue through the bridge to an MSMQ machine, and from queue to queue with a bare consumer and
//! publisher. The medians of the rounds are printed, with the CPU time that the bridge and the broker took.
//!
//! `MQBRIDGE_BENCH_ONLY` is `there` or `back` for one direction, `MQBRIDGE_BENCH_ROUNDS` the number of rounds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a measurement stops at the first thing that goes wrong, and prints"
)]

mod back;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{DeliveryMode, DirectField, Guid, MessageId, QueueField, UserMessage, WideText};
use mqbridge::net::{Clock, dial};
use testkit::PrivateBroker;

const BODY: usize = 1024;
/// Sending machines; MSMQ's window of 64 messages holds for each of them.
const SOURCES: usize = 4;
const WINDOW: usize = 512;
const BURST: usize = 64;

struct Setting {
    messages: usize,
    rounds: usize,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    rate: f64,
    client_cpu: f64,
    broker_cpu: f64,
}

fn main() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let setting =
        Setting { messages: number("MQBRIDGE_BENCH_MESSAGES", 100_000), rounds: number("MQBRIDGE_BENCH_ROUNDS", 3) };
    let options = testkit::BrokerOptions { plugins: vec!["rabbitmq_shovel"], ..Default::default() };
    let broker = PrivateBroker::new(options).unwrap();
    broker.start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!(
        "{} messages of {BODY} bytes, {} rounds, medians; {SOURCES} sending machines",
        setting.messages, setting.rounds
    );
    let only = std::env::var("MQBRIDGE_BENCH_ONLY").ok();
    for queue_type in ["classic", "quorum"] {
        if only.as_deref().is_none_or(|only| only == "there") {
            runtime.block_on(compare(&broker, queue_type, &setting));
        }
        if only.as_deref().is_none_or(|only| only == "back") {
            runtime.block_on(back::compare(&broker, queue_type, &setting));
        }
    }
}

async fn compare(broker: &PrivateBroker, queue_type: &str, setting: &Setting) {
    let connection = Connection::connect(&broker.uri(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let (queue, other) = (format!("bench-{queue_type}"), format!("bench-{queue_type}-moved"));
    for name in [&queue, &other] {
        declare(&channel, name, queue_type).await;
    }
    let mut results: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    for _ in 0..setting.rounds {
        results.entry("bridge").or_default().push(bridge(broker, &channel, &queue, setting.messages).await);
        purge(&channel, &queue).await;
        results.entry("publisher").or_default().push(publisher(broker, &channel, &queue, setting.messages).await);
        // The publisher's messages stay for the shovel to move.
        results.entry("shovel").or_default().push(shovel(broker, &channel, &queue, &other, setting.messages).await);
        purge(&channel, &other).await;
    }
    let names = [
        ("bridge", "bridge (MSMQ -> disk -> AMQP)"),
        ("publisher", "bare lapin publisher, bursts of 64"),
        ("shovel", "shovel on-confirm, queue to queue"),
    ];
    let rates = print(&format!("{queue_type} queue"), &names, &results);
    println!(
        "  bridge / publisher {:.2}, bridge / shovel {:.2}",
        rates["bridge"] / rates["publisher"],
        rates["bridge"] / rates["shovel"]
    );
}

/// A table of the medians; gives back the rates.
fn print<'a>(title: &str, names: &[(&'a str, &str)], results: &BTreeMap<&str, Vec<Figures>>) -> BTreeMap<&'a str, f64> {
    println!("\n{title}");
    println!("  {:<34} {:>10} {:>16} {:>16}", "", "messages/s", "client CPU µs", "broker CPU µs");
    let mut rates = BTreeMap::new();
    for (key, title) in names {
        let figures = median(&results[key]);
        rates.insert(*key, figures.rate);
        println!("  {title:<34} {:>10.0} {:>16.1} {:>16.1}", figures.rate, figures.client_cpu, figures.broker_cpu);
    }
    rates
}

fn median(rounds: &[Figures]) -> Figures {
    let middle = |of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figures {
        rate: middle(|figures| figures.rate),
        client_cpu: middle(|figures| figures.client_cpu),
        broker_cpu: middle(|figures| figures.broker_cpu),
    }
}

/// Runs `work` and reads the clocks around it.
async fn measure<T>(
    broker: &PrivateBroker,
    messages: usize,
    client: impl Fn() -> Duration,
    work: impl Future<Output = T>,
) -> Figures {
    let (client_before, broker_before, started) = (client(), broker.cpu_time().unwrap(), Instant::now());
    work.await;
    let elapsed = started.elapsed().as_secs_f64();
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / messages as f64;
    Figures {
        rate: messages as f64 / elapsed,
        client_cpu: each(client() - client_before),
        broker_cpu: each(broker.cpu_time().unwrap() - broker_before),
    }
}

async fn bridge(broker: &PrivateBroker, channel: &Channel, queue: &str, messages: usize) -> Figures {
    let directory = tempfile::tempdir().unwrap();
    let bridge = Bridge::start(directory.path(), &broker.uri(), queue);
    let shares: Vec<Vec<Bytes>> = (0..SOURCES).map(|source| packets(source, messages / SOURCES)).collect();
    let pid = bridge.child.id();
    let figures = measure(broker, messages, || process_cpu(pid), async {
        let senders: Vec<_> = shares.into_iter().map(|share| tokio::spawn(send(bridge.address, share))).collect();
        for sender in senders {
            sender.await.unwrap();
        }
        bridge.wait_for_confirms(messages).await;
    })
    .await;
    assert_eq!(depth(channel, queue).await as usize, messages);
    figures
}

async fn send(address: SocketAddr, packets: Vec<Bytes>) {
    let settings = SessionSettings {
        local: Guid::from_random([3; 16]),
        window: 64,
        ack_timeout: Duration::from_secs(20),
        initialization_timeout: Duration::from_secs(60),
        cleanup_timeout: Duration::from_secs(300),
    };
    let mut dialed = dial(Clock::start(), &[address], Guid::NULL, settings, Duration::from_secs(5)).await.unwrap();
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < packets.len() {
        while sent < packets.len() && dialed.window_left() > 0 {
            dialed.send(SendToken(sent as u64), packets[sent].clone(), true).unwrap();
            sent += 1;
        }
        acknowledged += dialed.acknowledged().await.unwrap().len();
    }
}

fn packets(source: usize, count: usize) -> Vec<Bytes> {
    let source = Guid::from_random([source as u8 + 1; 16]);
    let name = WideText::from_text(r"OS:bench\private$\bench");
    let sent = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32;
    (1..=count)
        .map(|ordinal| {
            let destination = QueueField::Direct(DirectField { name: name.clone(), ..Default::default() });
            let id = MessageId { source, ordinal: ordinal as u32 };
            let mut message = UserMessage::new(id, sent, Guid::NULL, destination);
            message.delivery = DeliveryMode::Recoverable;
            message.properties.label = Some(WideText::from_text("bench"));
            message.properties.body = Bytes::from_static(&[b'x'; BODY]);
            let mut packet = BytesMut::new();
            message.encode(&mut packet).unwrap();
            packet.freeze()
        })
        .collect()
}

/// The same messages, with the same properties and headers, from memory.
async fn publisher(broker: &PrivateBroker, control: &Channel, queue: &str, messages: usize) -> Figures {
    let connection = Connection::connect(&broker.uri(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let mut headers = FieldTable::default();
    headers.insert("msmq-body-type".into(), AMQPValue::LongLongInt(0));
    headers.insert("msmq-label".into(), AMQPValue::LongString("bench".into()));
    headers.insert("msmq-destination".into(), AMQPValue::LongString(r"DIRECT=OS:bench\private$\bench".into()));
    headers.insert("msmq-source-machine".into(), AMQPValue::LongString("01010101-0101-4101-8101-010101010101".into()));
    headers.insert("msmq-authenticated".into(), AMQPValue::Boolean(false));
    headers.insert("msmq-redelivered".into(), AMQPValue::Boolean(false));
    let properties = BasicProperties::default()
        .with_message_id(r"01010101-0101-4101-8101-010101010101\100000".into())
        .with_timestamp(1_700_000_000)
        .with_priority(3)
        .with_delivery_mode(2)
        .with_content_type("application/octet-stream".into())
        .with_headers(headers);
    let figures = measure(broker, messages, own_cpu, publish(&channel, queue, messages, |_| properties.clone())).await;
    assert_eq!(depth(control, queue).await as usize, messages);
    figures
}

/// Publishes in bursts, with at most so many unconfirmed.
async fn publish(channel: &Channel, queue: &str, messages: usize, properties: impl Fn(usize) -> BasicProperties) {
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let mut confirms = FuturesOrdered::new();
    let mut published = 0;
    while published < messages || !confirms.is_empty() {
        if published < messages && confirms.len() + BURST <= WINDOW {
            let burst = BURST.min(messages - published);
            let mut publishes: FuturesOrdered<_> = (published..published + burst)
                .map(|number| {
                    channel.basic_publish("".into(), queue.into(), mandatory, &[b'x'; BODY], properties(number))
                })
                .collect();
            while let Some(confirm) = publishes.next().await {
                confirms.push_back(confirm.unwrap());
            }
            published += burst;
        } else if let Some(confirmation) = confirms.next().await {
            assert!(matches!(confirmation.unwrap(), Confirmation::Ack(None)));
        }
    }
}

async fn shovel(broker: &PrivateBroker, control: &Channel, from: &str, to: &str, messages: usize) -> Figures {
    let uri = broker.uri();
    let definition = format!(
        r#"{{"src-protocol":"amqp091","src-uri":"{uri}","src-queue":"{from}","src-prefetch-count":1000,"dest-protocol":"amqp091","dest-uri":"{uri}","dest-queue":"{to}","ack-mode":"on-confirm"}}"#
    );
    let figures = measure(broker, messages, || Duration::ZERO, async {
        broker.rabbitmqctl(&["set_parameter", "shovel", "bench", &definition]).unwrap();
        let started = Instant::now();
        while (depth(control, to).await as usize) < messages {
            assert!(started.elapsed() < Duration::from_secs(120), "the shovel has stopped");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    broker.rabbitmqctl(&["clear_parameter", "shovel", "bench"]).unwrap();
    figures
}

async fn declare(channel: &Channel, name: &str, queue_type: &str) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(queue_type.into()));
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(name.into(), durable, arguments).await.unwrap();
}

async fn depth(channel: &Channel, name: &str) -> u32 {
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    channel.queue_declare(name.into(), passive, FieldTable::default()).await.unwrap().message_count()
}

async fn purge(channel: &Channel, name: &str) {
    channel.queue_purge(name.into(), QueuePurgeOptions::default()).await.unwrap();
}

struct Bridge {
    child: Child,
    address: SocketAddr,
    socket: std::path::PathBuf,
}

impl Bridge {
    fn start(directory: &Path, uri: &str, queue: &str) -> Self {
        let route = format!(
            "[from]\nqueue = 'private$\\bench'\n[to]\nconnector = \"rabbit\"\nexchange = \"\"\nrouting_key = \"{queue}\"\nmax_in_flight = {WINDOW}\n"
        );
        Self::with_route(directory, uri, &route, "")
    }

    fn with_route(directory: &Path, uri: &str, route: &str, process: &str) -> Self {
        let routes = directory.join("routes");
        std::fs::create_dir(&routes).unwrap();
        let config = format!(
            "[queue_manager]\nname = \"bench\"\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:0\"]\nping = []\n{process}\
             [connectors.rabbit]\ntype = \"amqp091\"\nuris = [\"{uri}\"]\n[admin]\nsocket = \"admin.sock\"\n[log]\nformat = \"json\"\n"
        );
        let path = directory.join("mqbridge.toml");
        std::fs::write(&path, config).unwrap();
        std::fs::write(routes.join("bench.toml"), route).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_mqbridge"))
            .args(["run", "--config"])
            .arg(&path)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let line: serde_json::Value = serde_json::from_str(&line).ok()?;
                (line["event"] == "listening").then(|| line["address"].as_str().unwrap().parse().unwrap())
            })
            .expect("the bridge listens");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, socket: directory.join("admin.sock") }
    }

    async fn wait_for_confirms(&self, messages: usize) {
        let started = Instant::now();
        loop {
            let report = mqbridge::admin::socket::ask_status(&self.socket).await.unwrap();
            if report.routes[0].confirmed_messages as usize >= messages {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(120), "{} confirmed", report.routes[0].confirmed_messages);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own_cpu() -> Duration {
    process_cpu(std::process::id())
}

/// User and system time of a process, in the kernel's ticks of 10 ms.
fn process_cpu(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The command's name in parentheses may hold anything; the numbers come behind it.
    let fields: Vec<u64> =
        text.rsplit_once(')').unwrap().1.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect();
    Duration::from_millis(10 * (fields[10] + fields[11]))
}
