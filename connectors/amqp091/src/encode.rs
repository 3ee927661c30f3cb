//! From the bridge's form of a message to AMQP's.

use std::borrow::Cow;

use bytes::Bytes;
use connector_api::{DeliveryError, Headers, Message, Value};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, DecimalValue, FieldTable, ShortString};

/// Lengths of short strings are one byte.
const SHORT_STRING_MAX: usize = 0xFF;

/// RabbitMQ keeps expirations in a timer of this many milliseconds at most (49 days) and closes the channel over a
/// longer one.
const EXPIRATION_MAX: u64 = 0xFFFF_FFFF;

/// Stands for `correlation-id` when that is too long for a short string.
const CORRELATION_ID: &str = "msmq-correlation-id";

/// Stands for `reply-to` when that is too long for a short string.
const REPLY_TO: &str = "msmq-reply-to";

const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// A message as it is handed to lapin.
#[derive(Debug)]
pub(crate) struct Publish {
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

impl Publish {
    /// Refuses what AMQP can't carry: content header frames are not split, so that all properties and headers together
    /// must fit into `frame_max` bytes, and the broker closes the whole connection over one that does not.
    pub(crate) fn encode(message: Message, frame_max: usize) -> Result<Self, DeliveryError> {
        let Message { address, message_id, correlation_id, reply_to, mut headers, .. } = message;
        let correlation_id = fit_or_head(correlation_id, CORRELATION_ID, &mut headers);
        let reply_to = fit_or_head(reply_to, REPLY_TO, &mut headers);
        let expiration = message.expiration.filter(|time| *time <= EXPIRATION_MAX).map(|time| time.to_string());

        let strings = [Some(&message.content_type), correlation_id.as_ref(), reply_to.as_ref(), expiration.as_ref()];
        let header_frame = 1 // frame type
            + 2 // channel
            + 4 // frame size
            + 2 // class id
            + 2 // weight
            + 8 // body size
            + 2 // property flags
            + strings.into_iter().flatten().map(|text| 1 + text.len()).sum::<usize>()
            + 4 + table_size(&headers)
            + 1 // delivery mode
            + 1 // priority
            + 1 + message_id.len()
            + if message.timestamp.is_some() { 8 } else { 0 }
            + 1; // frame end
        if header_frame > frame_max {
            return Err(too_large(header_frame, frame_max, &headers));
        }

        let mut properties = BasicProperties::default()
            .with_content_type(short("content type", message.content_type)?)
            .with_delivery_mode(if message.durable { PERSISTENT } else { TRANSIENT })
            .with_priority(message.priority)
            .with_message_id(short("message id", message_id)?);
        if !headers.is_empty() {
            properties = properties.with_headers(table(headers)?);
        }
        if let Some(id) = correlation_id {
            properties = properties.with_correlation_id(short("correlation id", id)?);
        }
        if let Some(address) = reply_to {
            properties = properties.with_reply_to(short("reply-to", address)?);
        }
        if let Some(expiration) = expiration {
            properties = properties.with_expiration(short("expiration", expiration)?);
        }
        if let Some(seconds) = message.timestamp {
            properties = properties.with_timestamp(seconds);
        }
        Ok(Self {
            exchange: short("exchange", address.exchange)?,
            routing_key: short("routing key", address.routing_key)?,
            properties,
            body: message.body.into_bytes(),
        })
    }
}

/// A text that is too long for its property goes into a header instead.
fn fit_or_head(text: Option<String>, header: &'static str, headers: &mut Headers) -> Option<String> {
    match text {
        Some(text) if text.len() > SHORT_STRING_MAX => {
            headers.set(header, Value::Text(text));
            None
        }
        text => text,
    }
}

fn short(what: &str, text: impl Into<Cow<'static, str>>) -> Result<ShortString, DeliveryError> {
    let text = text.into();
    let length = text.len();
    ShortString::try_new(text).map_err(|_| DeliveryError::Refused {
        reason: format!("the {what} has {length} bytes, and AMQP allows {SHORT_STRING_MAX}"),
    })
}

fn table(headers: Headers) -> Result<FieldTable, DeliveryError> {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(short("name of a header", name)?, self::value(value)?);
    }
    Ok(table)
}

fn value(value: Value) -> Result<AMQPValue, DeliveryError> {
    Ok(match value {
        Value::Bool(value) => AMQPValue::Boolean(value),
        Value::Int(value) => AMQPValue::LongLongInt(value),
        Value::Text(value) => AMQPValue::LongString(value.into()),
        Value::Bytes(value) => AMQPValue::ByteArray(Vec::from(value).into()),
        Value::Table(value) => AMQPValue::FieldTable(table(value)?),
        Value::Null => AMQPValue::Void,
        Value::Float(value) => AMQPValue::Double(value),
        Value::Decimal { scale, unscaled } => AMQPValue::DecimalValue(DecimalValue { scale, value: unscaled }),
        Value::Timestamp(seconds) => AMQPValue::Timestamp(seconds),
        Value::List(values) => {
            let values = values.into_iter().map(self::value).collect::<Result<Vec<_>, _>>()?;
            AMQPValue::FieldArray(values.into())
        }
    })
}

/// Encoded size of the entries of a table, without the four bytes of its length.
fn table_size(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| 1 + name.len() + 1 /* type */ + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Float(_) | Value::Timestamp(_) => 8,
        Value::Text(text) => 4 + text.len(),
        Value::Bytes(bytes) => 4 + bytes.len(),
        Value::Table(headers) => 4 + table_size(headers),
        Value::Null => 0,
        Value::Decimal { .. } => 1 + 4,
        Value::List(values) => 4 + values.iter().map(|value| 1 /* type */ + value_size(value)).sum::<usize>(),
    }
}

fn too_large(size: usize, frame_max: usize, headers: &Headers) -> DeliveryError {
    let largest = headers.iter().max_by_key(|(_, value)| value_size(value));
    let culprit = largest
        .map_or_else(String::new, |(name, value)| format!("; the largest is {name} with {} bytes", value_size(value)));
    DeliveryError::Refused {
        reason: format!(
            "properties and headers take {size} bytes, and the connection's frame_max is {frame_max}{culprit}"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is a failed test")]

    use connector_api::{Address, Body};
    use lapin::types::generation::gen_field_table;

    use super::*;

    const FRAME_MAX: usize = 131_072;

    fn message(headers: Headers) -> Message {
        Message {
            address: Address { exchange: "orders".to_owned(), routing_key: "orders.new".to_owned() },
            message_id: "c778ca24-7c5a-4060-80c0-aeee428d53ae\\7".to_owned(),
            correlation_id: None,
            reply_to: None,
            timestamp: None,
            priority: 3,
            durable: true,
            expiration: None,
            content_type: "text/xml".to_owned(),
            headers,
            body: Body::Clear(Bytes::from_static(b"<a/>")),
        }
    }

    fn refusal(message: Message, frame_max: usize) -> String {
        match Publish::encode(message, frame_max).unwrap_err() {
            DeliveryError::Refused { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    fn all_kinds() -> Headers {
        let mut inner = Headers::new();
        inner.set("index", Value::Int(-1));
        let mut headers = Headers::new();
        headers.set("bool", Value::Bool(true));
        headers.set("int", Value::Int(1));
        headers.set("text", Value::Text("Grüße".to_owned()));
        headers.set("bytes", Value::Bytes(Bytes::from_static(&[1, 2, 3])));
        headers.set("table", Value::Table(inner));
        headers.set("null", Value::Null);
        headers.set("float", Value::Float(0.5));
        headers.set("decimal", Value::Decimal { scale: 2, unscaled: 1250 });
        headers.set("time", Value::Timestamp(1));
        headers.set("list", Value::List(vec![Value::Int(1), Value::Text("two".to_owned()), Value::List(Vec::new())]));
        headers
    }

    #[test]
    fn the_size_of_a_table_is_what_lapin_writes() {
        let mut headers = all_kinds();
        headers.set("deep", Value::Table(all_kinds()));
        let written = gen_field_table(&table(headers.clone()).unwrap())(Vec::new().into()).unwrap().into_inner().0;
        assert_eq!(4 + table_size(&headers), written.len());
    }

    #[test]
    fn the_largest_header_that_fits_is_taken_and_one_byte_more_is_not() {
        let with = |length: usize| {
            let mut headers = Headers::new();
            headers.set("msmq-extension", Value::Bytes(vec![0; length].into()));
            message(headers)
        };
        let fixed = 1 + 2 + 4 + 12 + 2 // frame header, content header, property flags
            + 1 + 8 // content type
            + 4 + 1 + 14 + 1 + 4 // table, name, type, length
            + 1 + 1 // delivery mode, priority
            + 1 + 38 // message id
            + 1; // frame end
        assert!(Publish::encode(with(FRAME_MAX - fixed), FRAME_MAX).is_ok());
        let reason = refusal(with(FRAME_MAX - fixed + 1), FRAME_MAX);
        assert!(
            reason.contains("131073") && reason.contains("131072") && reason.contains("msmq-extension"),
            "{reason}"
        );
    }

    #[test]
    fn ids_and_addresses_that_are_too_long_travel_as_headers() {
        let long = "x".repeat(256);
        let just = "y".repeat(255);
        let encoded = Publish::encode(
            Message { correlation_id: Some(long.clone()), reply_to: Some(just.clone()), ..message(Headers::new()) },
            FRAME_MAX,
        )
        .unwrap();
        assert_eq!(encoded.properties.correlation_id(), &None);
        assert_eq!(encoded.properties.reply_to().as_ref().unwrap().as_str(), just);
        let headers = encoded.properties.headers().as_ref().unwrap();
        assert_eq!(headers.inner()["msmq-correlation-id"], AMQPValue::LongString(long.clone().into()));

        let encoded =
            Publish::encode(Message { reply_to: Some(long.clone()), ..message(Headers::new()) }, FRAME_MAX).unwrap();
        let headers = encoded.properties.headers().as_ref().unwrap();
        assert_eq!(headers.inner()["msmq-reply-to"], AMQPValue::LongString(long.into()));
    }

    #[test]
    fn other_texts_that_are_too_long_are_refused_by_name() {
        let long = "x".repeat(256);
        let address = |exchange: &str, routing_key: &str| Address {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
        };
        let plain = || message(Headers::new());
        for (what, message) in [
            ("routing key", Message { address: address("", &long), ..plain() }),
            ("exchange", Message { address: address(&long, ""), ..plain() }),
            ("message id", Message { message_id: long.clone(), ..plain() }),
            ("content type", Message { content_type: long.clone(), ..plain() }),
        ] {
            let reason = refusal(message, FRAME_MAX);
            assert!(reason.contains(what) && reason.contains("256") && reason.contains("255"), "{reason}");
        }
    }

    #[test]
    fn an_expiration_is_left_out_only_when_the_broker_could_not_keep_it() {
        let encode = |expiration| {
            let encoded = Publish::encode(Message { expiration, ..message(Headers::new()) }, FRAME_MAX).unwrap();
            encoded.properties.expiration().as_ref().map(ToString::to_string)
        };
        assert_eq!(encode(Some(0)).as_deref(), Some("0"));
        assert_eq!(encode(Some(0xFFFF_FFFF)).as_deref(), Some("4294967295"));
        assert_eq!(encode(Some(0x1_0000_0000)), None);
        assert_eq!(encode(None), None);
    }

    #[test]
    fn durability_is_the_delivery_mode() {
        for (durable, mode) in [(true, 2), (false, 1)] {
            let encoded = Publish::encode(Message { durable, ..message(Headers::new()) }, FRAME_MAX).unwrap();
            assert_eq!(encoded.properties.delivery_mode(), &Some(mode));
        }
    }
}
