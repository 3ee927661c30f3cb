//! From a queue of RabbitMQ to an MSMQ machine, beside what a program of one's own would do between two queues.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use mqbridge::mqqb::session::SessionSettings;
use mqbridge::mqqb::wire::{Guid, MAX_PACKET_SIZE};
use mqbridge::net::{Arrival, Clock, Intake, LinkSettings, Listener, Places, Reception, Sessions, StopSwitch, Verdict};
use testkit::PrivateBroker;

use super::{BURST, Bridge, Figures, Setting, declare, depth, measure, own_cpu, print, process_cpu, publish, purge};

/// Deliveries that are open at a time, of the bridge and of the relay.
const PREFETCH: u16 = 256;

pub(super) async fn compare(broker: &PrivateBroker, queue_type: &str, setting: &Setting) {
    let connection = Connection::connect(&broker.uri(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let (queue, other) = (format!("back-{queue_type}"), format!("back-{queue_type}-moved"));
    for name in [&queue, &other] {
        declare(&channel, name, queue_type).await;
    }
    let mut results: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    for _ in 0..setting.rounds {
        fill(&channel, &queue, setting.messages).await;
        results.entry("bridge").or_default().push(bridge(broker, &channel, &queue, setting.messages).await);
        fill(&channel, &queue, setting.messages).await;
        results.entry("relay").or_default().push(relay(broker, &channel, &queue, &other, setting.messages).await);
        purge(&channel, &other).await;
    }
    let names = [("bridge", "bridge (AMQP -> disk -> MSMQ)"), ("relay", "bare lapin relay, queue to queue")];
    let rates = print(&format!("{queue_type} queue, the way back"), &names, &results);
    println!("  bridge / relay {:.2}", rates["bridge"] / rates["relay"]);
}

async fn fill(channel: &Channel, queue: &str, messages: usize) {
    let properties = |number| {
        BasicProperties::default()
            .with_message_id(format!("bench {number}").into())
            .with_content_type("application/octet-stream".into())
            .with_delivery_mode(2)
    };
    publish(channel, queue, messages, properties).await;
    assert_eq!(depth(channel, queue).await as usize, messages);
}

async fn bridge(broker: &PrivateBroker, channel: &Channel, queue: &str, messages: usize) -> Figures {
    let machine = Machine::start().await;
    let directory = tempfile::tempdir().unwrap();
    let known = format!(
        "[[machine]]\nguid = \"c778ca24-7c5a-4060-80c0-aeee428d53ae\"\nname = \"win01\"\naddresses = [\"{}\"]\n",
        machine.address
    );
    std::fs::write(directory.path().join("directory.toml"), known).unwrap();
    let route = format!(
        "[from]\nconnector = \"rabbit\"\nqueue = \"{queue}\"\nprefetch = {PREFETCH}\n\
         [to]\nqueue = 'DIRECT=OS:win01\\private$\\bench'\n"
    );
    let bridge = Bridge::with_route(directory.path(), &broker.uri(), &route, "[directory]\nkind = \"file\"\n");
    let pid = bridge.child.id();
    let figures = measure(broker, messages, || process_cpu(pid), async {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < Duration::from_secs(120), "{} arrived", machine.arrived());
            tokio::time::sleep(Duration::from_millis(20)).await;
            if machine.arrived() < messages {
                continue;
            }
            // All are acknowledged and have left the bridge's disk.
            let report = mqbridge::admin::socket::ask_status(&bridge.socket).await.unwrap();
            if report.outgoing[0].queue_messages == 0 {
                break;
            }
        }
    })
    .await;
    assert_eq!((machine.arrived(), depth(channel, queue).await), (messages, 0));
    figures
}

/// A machine that takes everything and keeps nothing.
struct Machine {
    address: SocketAddr,
    arrived: Arc<AtomicUsize>,
    _switch: StopSwitch,
}

impl Machine {
    async fn start() -> Self {
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.address();
        let arrived = Arc::new(AtomicUsize::new(0));
        let settings = LinkSettings {
            session: SessionSettings::new(Guid::from_random([7; 16])),
            max_packet: MAX_PACKET_SIZE,
            slow_sender_timeout: Duration::from_secs(60),
        };
        let (switch, stop) = StopSwitch::new();
        let desk: Arc<dyn Reception> = Arc::new(Desk(Arc::clone(&arrived)));
        tokio::spawn(listener.run(Clock::start(), settings, desk, Sessions::new(Places::new(10)), stop));
        Self { address, arrived, _switch: switch }
    }

    fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Relaxed)
    }
}

struct Desk(Arc<AtomicUsize>);

impl Reception for Desk {
    fn begin(&self) -> Box<dyn Intake> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    fn ready(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

impl Intake for Desk {
    fn receive(&mut self, _arrival: Arrival, verdict: Verdict) {
        self.0.fetch_add(1, Ordering::Relaxed);
        verdict.stored();
    }
}

/// Consumes, publishes what is there in a burst, and acknowledges what is confirmed: nothing is lost, and no more is done
/// than that needs.
async fn relay(broker: &PrivateBroker, control: &Channel, from: &str, to: &str, messages: usize) -> Figures {
    let connection = Connection::connect(&broker.uri(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.unwrap();
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let figures = measure(broker, messages, own_cpu, async {
        let options = BasicConsumeOptions::default();
        let consumer = channel.basic_consume(from.into(), "relay".into(), options, FieldTable::default()).await;
        let mut deliveries = consumer.unwrap().ready_chunks(BURST);
        let mut confirms = FuturesOrdered::new();
        let mut moved = 0;
        while moved < messages {
            tokio::select! {
                Some(burst) = deliveries.next() => {
                    let mut publishes: FuturesOrdered<_> = burst
                        .into_iter()
                        .map(|delivery| {
                            let delivery = delivery.unwrap();
                            let channel = &channel;
                            async move {
                                let properties = delivery.properties.clone();
                                let published = channel
                                    .basic_publish("".into(), to.into(), mandatory, &delivery.data, properties)
                                    .await;
                                (published.unwrap(), delivery)
                            }
                        })
                        .collect();
                    while let Some((confirm, delivery)) = publishes.next().await {
                        confirms.push_back(async move { (confirm.await.unwrap(), delivery) });
                    }
                }
                Some(first) = confirms.next(), if !confirms.is_empty() => {
                    let mut last = None;
                    let mut next = Some(first);
                    while let Some((confirmation, delivery)) = next {
                        assert!(matches!(confirmation, Confirmation::Ack(None)));
                        moved += 1;
                        last = Some(delivery);
                        next = confirms.next().now_or_never().flatten();
                    }
                    if let Some(delivery) = last {
                        delivery.ack(BasicAckOptions { multiple: true }).await.unwrap();
                    }
                }
            }
        }
    })
    .await;
    assert_eq!(depth(control, to).await as usize, messages);
    figures
}
