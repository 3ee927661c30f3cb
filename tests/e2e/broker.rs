//! RabbitMQ as an application sees it: an exchange with a queue behind it, and what arrives there.

use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};

pub(crate) struct Application {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

/// A name that no other test has.
pub(crate) fn unique(what: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Application {
    /// A durable topic exchange `name` with a durable queue of the same name behind it.
    pub(crate) async fn declare(uri: &str, name: &str) -> Self {
        let connection = Connection::connect(uri, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, FieldTable::default()).await.unwrap();
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(name.into(), durable, FieldTable::default()).await.unwrap();
        let (bind, arguments) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(name.into(), name.into(), "#".into(), bind, arguments).await.unwrap();
        Self { _connection: connection, channel, queue: name.to_owned() }
    }

    /// Takes the queue away from the exchange.
    pub(crate) async fn unbind(&self) {
        let queue = self.queue.as_str();
        self.channel.queue_unbind(queue.into(), queue.into(), "#".into(), FieldTable::default()).await.unwrap();
    }

    /// The next messages, in the order of the queue.
    pub(crate) async fn receive(&self, count: usize) -> Vec<Received> {
        let mut received = Vec::new();
        self.receive_until(|messages| messages.len() >= count, &mut received).await;
        received
    }

    /// Takes messages until there are enough of them.
    pub(crate) async fn receive_until(&self, enough: impl Fn(&[Received]) -> bool, received: &mut Vec<Received>) {
        let options = BasicConsumeOptions::default();
        let mut consumer = self
            .channel
            .basic_consume(
                self.queue.as_str().into(),
                unique("consumer").as_str().into(),
                options,
                FieldTable::default(),
            )
            .await
            .unwrap();
        while !enough(received) {
            let next = tokio::time::timeout(Duration::from_secs(60), consumer.next()).await;
            let delivery = next.unwrap_or_else(|_| panic!("{} messages came", received.len())).unwrap().unwrap();
            delivery.ack(BasicAckOptions::default()).await.unwrap();
            received.push(Received(delivery));
        }
        self.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await.unwrap();
    }
}

/// A program that publishes into queues as they come, with confirms, and makes them.
pub(crate) struct Publisher {
    _connection: Connection,
    pub(crate) channel: Channel,
}

impl Publisher {
    pub(crate) async fn connect(uri: &str) -> Self {
        let connection = Connection::connect(uri, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { _connection: connection, channel }
    }

    /// A durable queue; refused messages go to the queue `dead_letters`, when there is one.
    pub(crate) async fn declare(&self, queue: &str, dead_letters: Option<&str>) {
        let mut arguments = FieldTable::default();
        if let Some(dead_letters) = dead_letters {
            arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
            arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(dead_letters.into()));
        }
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(queue.into(), durable, arguments).await.unwrap();
    }

    /// Messages that wait in a queue and are with nobody.
    pub(crate) async fn depth(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count()
    }

    pub(crate) async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let published = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
        assert!(matches!(published.await.unwrap(), Confirmation::Ack(None)), "nobody has {queue}");
    }

    /// Takes what is in the queue, until it has so many.
    pub(crate) async fn take(&self, queue: &str, count: usize) -> Vec<Received> {
        let mut consumer = self
            .channel
            .basic_consume(
                queue.into(),
                unique("taker").as_str().into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        let mut received = Vec::new();
        while received.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(30), consumer.next()).await;
            let delivery = next.unwrap_or_else(|_| panic!("{} messages came", received.len())).unwrap().unwrap();
            delivery.ack(BasicAckOptions::default()).await.unwrap();
            received.push(Received(delivery));
        }
        self.channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await.unwrap();
        received
    }
}

pub(crate) struct Received(pub(crate) Delivery);

impl Received {
    pub(crate) fn id(&self) -> String {
        self.0.properties.message_id().as_ref().expect("a message id").to_string()
    }

    /// The sender's running number.
    pub(crate) fn ordinal(&self) -> u32 {
        self.id().rsplit_once('\\').unwrap().1.parse().unwrap()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.0.data
    }

    pub(crate) fn header(&self, name: &str) -> Option<&AMQPValue> {
        self.0.properties.headers().as_ref()?.inner().get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.header(name)? {
            AMQPValue::LongString(text) => Some(String::from_utf8(text.as_bytes().to_vec()).unwrap()),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.header(name)? {
            AMQPValue::LongLongInt(value) => Some(*value),
            AMQPValue::LongInt(value) => Some(i64::from(*value)),
            AMQPValue::LongUInt(value) => Some(i64::from(*value)),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.header(name)? {
            AMQPValue::Boolean(value) => Some(*value),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn redelivered(&self) -> bool {
        self.flag("msmq-redelivered").unwrap_or(false)
    }
}
