//! A message in the foreign system, for comparing.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Headers, Incoming, Message, Value};

/// A message as it arrived in the foreign system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrived {
    /// See [`Message::message_id`].
    pub message_id: Option<String>,
    /// See [`Message::correlation_id`].
    pub correlation_id: Option<String>,
    /// See [`Message::reply_to`].
    pub reply_to: Option<String>,
    /// See [`Message::timestamp`].
    pub timestamp: Option<u64>,
    /// See [`Message::priority`].
    pub priority: Option<u8>,
    /// See [`Message::durable`].
    pub durable: bool,
    /// See [`Message::expiration`].
    pub expiration: Option<u64>,
    /// See [`Message::content_type`].
    pub content_type: Option<String>,
    /// See [`Message::headers`].
    pub headers: BTreeMap<String, ArrivedValue>,
    /// See [`Message::body`].
    pub body: Bytes,
}

/// The value of a header as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivedValue {
    /// See [`Value::Bool`].
    Bool(bool),
    /// See [`Value::Int`].
    Int(i64),
    /// See [`Value::Text`].
    Text(String),
    /// See [`Value::Bytes`].
    Bytes(Bytes),
    /// See [`Value::Table`].
    Table(BTreeMap<String, ArrivedValue>),
    /// See [`Value::Null`].
    Null,
    /// See [`Value::Float`].
    Float(f64),
    /// See [`Value::Decimal`].
    Decimal {
        /// How many digits stand after the point.
        scale: u8,
        /// All digits.
        unscaled: u32,
    },
    /// See [`Value::Timestamp`].
    Timestamp(u64),
    /// See [`Value::List`].
    List(Vec<ArrivedValue>),
}

impl From<&Message> for Arrived {
    fn from(message: &Message) -> Self {
        Self {
            message_id: Some(message.message_id.clone()),
            correlation_id: message.correlation_id.clone(),
            reply_to: message.reply_to.clone(),
            timestamp: message.timestamp,
            priority: Some(message.priority),
            durable: message.durable,
            expiration: message.expiration,
            content_type: Some(message.content_type.clone()),
            headers: table(&message.headers),
            body: message.body.bytes().clone(),
        }
    }
}

impl From<&Incoming> for Arrived {
    fn from(message: &Incoming) -> Self {
        Self {
            message_id: message.message_id.clone(),
            correlation_id: message.correlation_id.clone(),
            reply_to: message.reply_to.clone(),
            timestamp: message.timestamp,
            priority: message.priority,
            durable: message.durable,
            expiration: message.expiration,
            content_type: message.content_type.clone(),
            headers: table(&message.headers),
            body: message.body.clone(),
        }
    }
}

fn table(headers: &Headers) -> BTreeMap<String, ArrivedValue> {
    headers.iter().map(|(name, one)| (name.to_owned(), value(one))).collect()
}

fn value(value: &Value) -> ArrivedValue {
    match value {
        Value::Bool(value) => ArrivedValue::Bool(*value),
        Value::Int(value) => ArrivedValue::Int(*value),
        Value::Text(value) => ArrivedValue::Text(value.clone()),
        Value::Bytes(value) => ArrivedValue::Bytes(value.clone()),
        Value::Table(value) => ArrivedValue::Table(table(value)),
        Value::Null => ArrivedValue::Null,
        Value::Float(value) => ArrivedValue::Float(*value),
        Value::Decimal { scale, unscaled } => ArrivedValue::Decimal { scale: *scale, unscaled: *unscaled },
        Value::Timestamp(seconds) => ArrivedValue::Timestamp(*seconds),
        Value::List(values) => ArrivedValue::List(values.iter().map(self::value).collect()),
    }
}
