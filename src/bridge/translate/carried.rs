//! Properties and headers without a place in MSMQ, as JSON in the extension (`carry_headers`).

use connector_api::{Headers, Incoming, Value};
use serde_json::{Map, Number, Value as Json, json};

/// The extension that carries what else the message has: one JSON object in UTF-8 with the properties that are set and,
/// under `headers`, the headers that have no place of their own. `None` when there is nothing to carry.
pub(super) fn extension(incoming: &Incoming, has_place: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let mut carried = Map::new();
    for (name, value) in [
        ("content_type", &incoming.content_type),
        ("content_encoding", &incoming.content_encoding),
        ("type", &incoming.kind),
        ("app_id", &incoming.app_id),
        ("user_id", &incoming.user_id),
    ] {
        if let Some(value) = value {
            carried.insert(name.to_owned(), json!(value));
        }
    }
    if let Some(timestamp) = incoming.timestamp {
        carried.insert("timestamp".to_owned(), json!(timestamp));
    }
    let rest: Map<_, _> = incoming
        .headers
        .iter()
        .filter(|(name, _)| !has_place(name))
        .map(|(name, value)| (name.to_owned(), render(value)))
        .collect();
    if !rest.is_empty() {
        carried.insert("headers".to_owned(), Json::Object(rest));
    }
    if carried.is_empty() { None } else { serde_json::to_vec(&carried).ok() }
}

/// Bytes and what JSON has no number for become objects with one member that says so. Nesting is bounded by the connector.
fn render(value: &Value) -> Json {
    match value {
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Text(value) => json!(value),
        Value::Bytes(bytes) => json!({ "hex": hex(bytes) }),
        Value::Table(headers) => Json::Object(table(headers)),
        Value::Null => Json::Null,
        Value::Float(value) => {
            Number::from_f64(*value).map_or_else(|| json!({ "float": value.to_string() }), Json::Number)
        }
        Value::Decimal { scale, unscaled } => json!({ "decimal": format!("{unscaled}e-{scale}") }),
        Value::Timestamp(seconds) => json!({ "timestamp": seconds }),
        Value::List(values) => Json::Array(values.iter().map(render).collect()),
    }
}

fn table(headers: &Headers) -> Map<String, Json> {
    headers.iter().map(|(name, value)| (name.to_owned(), render(value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
