//! The brokers, and what a test does with them besides the connector.

use std::collections::BTreeMap;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use connector_amqp091::{Amqp091Config, Amqp091Connector};
use connector_api::conformance::{Arrived, ArrivedValue, Source};
use connector_api::{Address, Connector, DeliveryError, Message, Outlet, OutletOptions, Settlement, Status};
use futures_util::future::join_all;
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use testkit::{BrokerOptions, PrivateBroker, SharedBroker, Tls};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Queues of a broker that outlives this run go away by themselves.
const QUEUE_LIFETIME_MS: i32 = 600_000;

/// A broker for tests that crash, freeze or block theirs, one at a time. It also takes TLS with client certificates.
pub(crate) struct Fragile {
    pub(crate) broker: &'static PrivateBroker,
    _turn: MutexGuard<'static, ()>,
}

impl Fragile {
    pub(crate) async fn turn() -> Self {
        static BROKER: OnceLock<PrivateBroker> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        let broker = tokio::task::spawn_blocking(|| {
            let options = BrokerOptions { tls: Tls::Mutual, ..BrokerOptions::default() };
            let broker = BROKER.get_or_init(|| PrivateBroker::new(options).unwrap());
            // Whatever the test before left.
            broker.start().unwrap();
            broker.resume().unwrap();
            broker
        });
        Self { broker: broker.await.unwrap(), _turn: turn }
    }

    /// Runs something slow on the broker without holding up the test's runtime.
    pub(crate) async fn act(&self, action: impl FnOnce(&PrivateBroker) + Send + 'static) {
        let broker = self.broker;
        tokio::task::spawn_blocking(move || action(broker)).await.unwrap();
    }
}

/// A direct connection to a broker, for declaring and reading.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    uri: String,
}

impl Peer {
    pub(crate) fn at(uri: impl Into<String>) -> Self {
        Self { uri: uri.into() }
    }

    pub(crate) async fn shared() -> Self {
        Self::at(tokio::task::spawn_blocking(|| SharedBroker::uri().unwrap()).await.unwrap())
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// The port of a broker on loopback.
    pub(crate) fn port(&self) -> u16 {
        self.uri.parse::<connector_amqp091::BrokerUri>().unwrap().port()
    }

    pub(crate) async fn channel(&self) -> (Connection, Channel) {
        let connection = Connection::connect(&self.uri, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }

    /// An address that is in no broker.
    pub(crate) fn nowhere() -> Address {
        Address { exchange: String::new(), routing_key: fresh_name() }
    }

    /// A fresh durable queue, addressed through the default exchange.
    pub(crate) async fn queue(&self, arguments: &[(&str, AMQPValue)]) -> Address {
        let mut table = FieldTable::default();
        table.insert("x-expires".into(), AMQPValue::LongInt(QUEUE_LIFETIME_MS));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let name = fresh_name();
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let (_connection, channel) = self.channel().await;
        channel.queue_declare(name.as_str().into(), options, table).await.unwrap();
        Address { exchange: String::new(), routing_key: name }
    }

    /// A fresh queue with another one for its dead letters.
    pub(crate) async fn source(&self) -> Source {
        let dead_letters = self.queue(&[]).await;
        let key = AMQPValue::LongString(dead_letters.routing_key.as_str().into());
        let exchange = AMQPValue::LongString("".into());
        let arguments = [("x-dead-letter-exchange", exchange), ("x-dead-letter-routing-key", key)];
        let entrance = self.queue(&arguments).await;
        Source { queue: entrance.routing_key.clone(), entrance, dead_letters }
    }

    pub(crate) async fn delete(&self, queue: &str) {
        let (_connection, channel) = self.channel().await;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// A durable exchange with a queue behind it under the routing key `key`; goes away with the queue.
    pub(crate) async fn exchange(&self, name: &str, queue: &Address) {
        let options = ExchangeDeclareOptions { durable: true, auto_delete: true, ..ExchangeDeclareOptions::default() };
        let (none, bind, to) = (FieldTable::default(), QueueBindOptions::default(), queue.routing_key.as_str());
        let (_connection, channel) = self.channel().await;
        channel.exchange_declare(name.into(), ExchangeKind::Topic, options, none.clone()).await.unwrap();
        channel.queue_bind(to.into(), name.into(), "key".into(), bind, none).await.unwrap();
    }

    /// A queue that is full: it confirms negatively.
    pub(crate) async fn full_queue(&self) -> Address {
        let overflow = AMQPValue::LongString("reject-publish".into());
        self.queue(&[("x-max-length", AMQPValue::LongInt(0)), ("x-overflow", overflow)]).await
    }

    /// Takes out everything.
    pub(crate) async fn drain(&self, address: &Address) -> Vec<Arrived> {
        let (_connection, channel) = self.channel().await;
        let mut arrived = Vec::new();
        let take = BasicGetOptions { no_ack: true };
        while let Some(message) = channel.basic_get(address.routing_key.as_str().into(), take).await.unwrap() {
            arrived.push(read(message));
        }
        arrived
    }
}

pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    format!("test-{now}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A connector with short heartbeats, so that a frozen broker is noticed within the test.
pub(crate) fn connector(uris: &[&str]) -> Amqp091Connector {
    Amqp091Connector::new(config(uris)).unwrap()
}

pub(crate) fn config(uris: &[&str]) -> Amqp091Config {
    let uris = uris.iter().map(|uri| uri.parse().unwrap()).collect();
    Amqp091Config { heartbeat: Duration::from_secs(1), ..Amqp091Config::new("rabbit", uris) }
}

pub(crate) fn options(route: &str) -> OutletOptions {
    OutletOptions { route: route.to_owned(), max_in_flight: 4096 }
}

pub(crate) async fn open(connector: &dyn Connector, route: &str) -> Box<dyn Outlet> {
    timeout(PATIENCE, connector.outlet(options(route))).await.expect("an outlet opens")
}

pub(crate) async fn settle(settlements: Vec<Settlement>) -> Vec<Result<(), DeliveryError>> {
    timeout(PATIENCE, join_all(settlements)).await.expect("all settlements resolve")
}

pub(crate) async fn deliver(outlet: &mut dyn Outlet, burst: Vec<Message>) -> Vec<Result<(), DeliveryError>> {
    settle(outlet.deliver(burst).await).await
}

pub(crate) async fn deliver_one(outlet: &mut dyn Outlet, message: Message) -> Result<(), DeliveryError> {
    deliver(outlet, vec![message]).await.remove(0)
}

pub(crate) async fn await_status(connector: &dyn Connector, wanted: impl Fn(&Status) -> bool) -> Status {
    let mut status = connector.status();
    let found = timeout(PATIENCE, status.wait_for(wanted)).await.ok();
    found.unwrap_or_else(|| panic!("the status stays {:?}", *connector.status().borrow())).unwrap().clone()
}

fn read(message: BasicGetMessage) -> Arrived {
    let BasicGetMessage { delivery, .. } = message;
    let properties: &BasicProperties = &delivery.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    Arrived {
        message_id: text(properties.message_id()),
        correlation_id: text(properties.correlation_id()),
        reply_to: text(properties.reply_to()),
        timestamp: *properties.timestamp(),
        priority: *properties.priority(),
        durable: *properties.delivery_mode() == Some(2),
        expiration: text(properties.expiration()).map(|time| time.parse().unwrap()),
        content_type: text(properties.content_type()),
        headers: properties.headers().as_ref().map(table).unwrap_or_default(),
        body: Bytes::from(delivery.data),
    }
}

fn table(headers: &FieldTable) -> BTreeMap<String, ArrivedValue> {
    headers.into_iter().map(|(name, one)| (name.to_string(), value(one))).collect()
}

fn value(value: &AMQPValue) -> ArrivedValue {
    match value {
        AMQPValue::Boolean(value) => ArrivedValue::Bool(*value),
        AMQPValue::LongLongInt(value) => ArrivedValue::Int(*value),
        AMQPValue::LongString(value) => ArrivedValue::Text(value.to_string()),
        AMQPValue::ByteArray(value) => ArrivedValue::Bytes(Bytes::copy_from_slice(value.as_slice())),
        AMQPValue::FieldTable(value) => ArrivedValue::Table(table(value)),
        AMQPValue::Void => ArrivedValue::Null,
        AMQPValue::Double(value) => ArrivedValue::Float(*value),
        AMQPValue::DecimalValue(value) => ArrivedValue::Decimal { scale: value.scale, unscaled: value.value },
        AMQPValue::Timestamp(seconds) => ArrivedValue::Timestamp(*seconds),
        AMQPValue::FieldArray(values) => ArrivedValue::List(values.as_slice().iter().map(self::value).collect()),
        other => panic!("{other:?} was not sent"),
    }
}
