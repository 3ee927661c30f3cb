//! From AMQP's form of a message to the bridge's.

use bytes::Bytes;
use connector_api::{Address, Headers, Incoming, Value};
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};

const PERSISTENT: u8 = 2;

/// Tables are read by recursion: [`Screened`](crate::screen::Screened) has bounded their depth and their values.
pub(crate) fn incoming(delivery: Delivery) -> Incoming {
    let Delivery { exchange, routing_key, redelivered, properties, data, .. } = delivery;
    let address = Address { exchange: exchange.to_string(), routing_key: routing_key.to_string() };
    Incoming {
        message_id: text(properties.message_id().as_ref()),
        correlation_id: text(properties.correlation_id().as_ref()),
        reply_to: text(properties.reply_to().as_ref()),
        timestamp: *properties.timestamp(),
        priority: *properties.priority(),
        durable: *properties.delivery_mode() == Some(PERSISTENT),
        expiration: properties.expiration().as_ref().and_then(|time| time.as_str().parse().ok()),
        content_type: text(properties.content_type().as_ref()),
        content_encoding: text(properties.content_encoding().as_ref()),
        kind: text(properties.kind().as_ref()),
        app_id: text(properties.app_id().as_ref()),
        user_id: text(properties.user_id().as_ref()),
        headers: properties.headers().as_ref().map(table).unwrap_or_default(),
        redelivered,
        ..Incoming::new(address, Bytes::from(data))
    }
}

fn text(property: Option<&ShortString>) -> Option<String> {
    property.map(ToString::to_string)
}

fn table(table: &FieldTable) -> Headers {
    table.into_iter().map(|(name, one)| (name.to_string().into(), value(one))).collect()
}

fn value(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Void => Value::Null,
        AMQPValue::Boolean(value) => Value::Bool(*value),
        AMQPValue::ShortShortInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::ShortShortUInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::ShortInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::ShortUInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::LongInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::LongUInt(value) => Value::Int(i64::from(*value)),
        AMQPValue::LongLongInt(value) => Value::Int(*value),
        AMQPValue::Float(value) => Value::Float(f64::from(*value)),
        AMQPValue::Double(value) => Value::Float(*value),
        AMQPValue::DecimalValue(value) => Value::Decimal { scale: value.scale, unscaled: value.value },
        AMQPValue::Timestamp(seconds) => Value::Timestamp(*seconds),
        AMQPValue::ShortString(value) => Value::Text(value.to_string()),
        // The protocol does not say what is in it; most senders put text there.
        AMQPValue::LongString(value) => match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Bytes(Bytes::copy_from_slice(value.as_bytes())),
        },
        AMQPValue::ByteArray(value) => Value::Bytes(Bytes::copy_from_slice(value.as_slice())),
        AMQPValue::FieldArray(values) => Value::List(values.as_slice().iter().map(self::value).collect()),
        AMQPValue::FieldTable(entries) => Value::Table(table(entries)),
    }
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;

    use super::*;

    fn with(properties: BasicProperties) -> Incoming {
        let delivery = Delivery::mock(1, "exchange".into(), "key".into(), true, b"body".to_vec());
        incoming(Delivery { properties, ..delivery })
    }

    /// RabbitMQ checks it, other brokers may not.
    #[test]
    fn an_expiration_that_is_no_number_is_none() {
        for (text, expected) in [("1500", Some(1500)), ("", None), ("soon", None), ("-1", None), ("1.5", None)] {
            let message = with(BasicProperties::default().with_expiration(text.into()));
            assert_eq!(message.expiration, expected, "{text}");
        }
    }

    #[test]
    fn only_delivery_mode_2_is_durable() {
        assert!(!with(BasicProperties::default()).durable);
        for (mode, durable) in [(0, false), (1, false), (2, true), (3, false)] {
            assert_eq!(with(BasicProperties::default().with_delivery_mode(mode)).durable, durable, "{mode}");
        }
    }

    #[test]
    fn what_nobody_set_is_absent() {
        let address = Address { exchange: "exchange".to_owned(), routing_key: "key".to_owned() };
        let bare =
            Incoming { durable: false, redelivered: true, ..Incoming::new(address, Bytes::from_static(b"body")) };
        assert_eq!(with(BasicProperties::default()), bare);
    }
}
