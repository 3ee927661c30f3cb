//! A described packet as indented text in words, made from its JSON.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Hex digits of a byte string that are shown.
const SHOWN_DIGITS: usize = 64;

/// Fields that JSON has and people do without: what they need of them is said by another field.
const WIRE_DETAILS: [&str; 7] =
    ["padding", "field", "direct_name", "count", "label_raw", "format_name_list", "padding_inside_header_size"];

pub(super) fn render(piece: &Value) -> String {
    let mut text = Text::default();
    if let Value::Object(fields) = piece {
        text.piece(fields);
    }
    text.0
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn piece(&mut self, fields: &Map<String, Value>) {
        let number = |key: &str| fields.get(key).and_then(Value::as_u64).unwrap_or_default();
        let error = fields.get("error");
        let kind = match error.and_then(|error| error.get("kind")).and_then(Value::as_str) {
            Some(error) => format!("{error} packet"),
            None => fields.get("kind").and_then(Value::as_str).unwrap_or("packet").to_owned(),
        };
        self.line(0, &format!("{kind} at byte {}, {} bytes", number("offset"), number("length")));
        if let Some(Value::Object(error)) = error {
            let text = |key: &str| error.get(key).and_then(Value::as_str);
            let why = text("why").unwrap_or_default();
            self.line(1, &text("field").map_or_else(|| why.to_owned(), |field| format!("{field}: {why}")));
        }
        let shown = |key: &str| !matches!(key, "offset" | "length" | "kind" | "error" | "layout");
        self.fields(1, fields.iter().filter(|(key, _)| shown(key)));
        if let Some(Value::Array(layout)) = fields.get("layout") {
            self.line(1, "layout");
            for part in layout {
                let number = |key: &str| part.get(key).and_then(Value::as_u64).unwrap_or_default();
                let name = part.get("part").and_then(Value::as_str).unwrap_or_default();
                self.line(2, &format!("{name} at {}, {} bytes", number("offset"), number("length")));
            }
        }
    }

    /// Fields that are there; absent headers are left out.
    fn fields<'a>(&mut self, depth: usize, fields: impl Iterator<Item = (&'a String, &'a Value)>) {
        for (key, value) in fields.filter(|(key, _)| !WIRE_DETAILS.contains(&key.as_str())) {
            let name = key.replace('_', " ");
            match value {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                Value::Array(items) if items.iter().any(Value::is_object) => {
                    for (index, item) in items.iter().enumerate() {
                        self.line(depth, &format!("{name} {}", index + 1));
                        self.nested(depth + 1, item);
                    }
                }
                value => match short(key, value) {
                    Some(text) if text.is_empty() => {}
                    Some(text) => self.line(depth, &format!("{name}: {text}")),
                    None => {
                        self.line(depth, &name);
                        self.nested(depth + 1, value);
                    }
                },
            }
        }
    }

    fn nested(&mut self, depth: usize, value: &Value) {
        if let Value::Object(fields) = value {
            self.fields(depth, fields.iter());
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.0, "{:indent$}{text}", "", indent = depth * 2);
    }
}

/// What fits on the line of its name; `None` for what needs lines of its own.
fn short(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        Value::Number(number) => Some(number_in_words(key, number.as_u64().unwrap_or_default())),
        Value::String(text) => Some(string(key, text)),
        Value::Array(items) => Some(items.iter().filter_map(|item| short(key, item)).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => object(fields),
    }
}

fn number_in_words(key: &str, number: u64) -> String {
    const NO_LIMIT: u64 = 0xFFFF_FFFF;
    match key {
        "time_to_reach_queue" | "time_to_be_received" if number == NO_LIMIT => "no limit".to_owned(),
        "time_to_reach_queue" | "time_to_be_received" => format!("{number} s"),
        "recoverable_ack_timeout" | "ack_timeout" => format!("{number} ms"),
        "sent_time" => match Timestamp::from_second(i64::try_from(number).unwrap_or_default()) {
            Ok(time) => format!("{time} ({number})"),
            Err(_) => number.to_string(),
        },
        _ => number.to_string(),
    }
}

fn string(key: &str, text: &str) -> String {
    match key {
        "label" | "header" | "body" | "format_name" | "name" => safe(text.chars()),
        _ => digits(text),
    }
}

/// Texts of applications can hold anything, line ends and escape sequences of terminals included.
fn safe(characters: impl Iterator<Item = char>) -> String {
    let mut safe = String::new();
    for character in characters {
        if character.is_control() {
            safe.extend(character.escape_debug());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// The beginning of a long row of digits.
fn digits(text: &str) -> String {
    match text.get(..SHOWN_DIGITS) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

fn object(fields: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let number = |key: &str| fields.get(key).and_then(Value::as_u64);
    if let (Some(guid), Some(_)) = (text("guid"), text("raw")) {
        return Some(text("text").unwrap_or(guid).to_owned());
    }
    if let (Some(name), Some(number)) = (text("name"), number("number")) {
        return Some(format!("{name} ({})", text("hex").unwrap_or(&number.to_string())));
    }
    if let Some(length) = number("length") {
        return Some(match (text("hex"), text("sha256")) {
            (Some(""), _) => "empty".to_owned(),
            (Some(hex), _) => match readable(hex) {
                Some(readable) => format!("{length} bytes, \"{readable}\""),
                None => format!("{length} bytes, {}", digits(hex)),
            },
            (None, Some(hash)) => format!("{length} bytes, SHA-256 {hash}"),
            (None, None) => format!("{length} bytes"),
        });
    }
    if number("number").is_some() {
        return Some(flags(fields));
    }
    if let (Some(ordinal), Some(timestamp)) = (number("ordinal"), number("timestamp")) {
        return Some(format!("{ordinal} of {timestamp} ({})", text("hex").unwrap_or_default()));
    }
    None
}

/// The beginning of a byte string that is a text in UTF-8 or UTF-16.
fn readable(hex: &str) -> Option<String> {
    const SHOWN_CHARACTERS: usize = 120;
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    let is_plain = |character: char| !character.is_control() || matches!(character, '\r' | '\n' | '\t');
    let plain = |text: &String| text.chars().all(is_plain);
    let text = String::from_utf8(bytes.clone()).ok().filter(plain).or_else(|| utf16(&bytes).filter(plain))?;
    let mut shown = safe(text.chars().take(SHOWN_CHARACTERS));
    if text.chars().nth(SHOWN_CHARACTERS).is_some() {
        shown.push('…');
    }
    Some(shown)
}

/// A UTF-16 text in an alphabet near Latin. In others every other ciphertext is one.
fn utf16(bytes: &[u8]) -> Option<String> {
    const BEHIND_CYRILLIC: u16 = 0x0530;
    let (units, rest) = bytes.as_chunks();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    let is_near = rest.is_empty() && units.iter().all(|unit| *unit < BEHIND_CYRILLIC);
    is_near.then(|| String::from_utf16_lossy(&units))
}

/// The number, the flags that are set by name, and the parts that are more than a bit.
fn flags(fields: &Map<String, Value>) -> String {
    let mut words = Vec::new();
    for (key, value) in fields {
        let name = key.replace('_', " ");
        match value {
            _ if matches!(key.as_str(), "number" | "hex") => {}
            Value::Bool(true) => words.push(name),
            Value::Bool(false) => {}
            value => match short(key, value) {
                Some(text) if text.is_empty() => {}
                Some(text) => words.push(format!("{name} {text}")),
                None => {}
            },
        }
    }
    let number = match (fields.get("hex"), fields.get("number")) {
        (Some(Value::String(hex)), _) => hex.clone(),
        (_, Some(number)) => number.to_string(),
        _ => String::new(),
    };
    if words.is_empty() { number } else { format!("{number}: {}", words.join(", ")) }
}
