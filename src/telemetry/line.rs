use std::fmt::{self, Write as _};

use jiff::Timestamp;
use tracing::Level;
use tracing::field::{Field, Visit};

use crate::config::LogFormat;

/// Bytes of a value that are shown. Values come from peers, too.
const MAX_VALUE: usize = 2048;

/// Text fields of libraries that are shown. Others may hold whole messages, bodies and credentials included: AMQP
/// clients are generous with them.
const LIBRARY_TEXTS: [&str; 5] = ["error", "err", "reason", "cause", "channel"];

/// One line of the log.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) level: Level,
    /// The stable name; the target, for a line of a library.
    pub(super) event: String,
    /// In the order in which they were given.
    pub(super) fields: Vec<(String, Value)>,
    pub(super) message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// As it is printed in both forms.
    Number(String),
    Bool(bool),
}

impl Line {
    pub(super) fn of(event: &tracing::Event<'_>, is_ours: bool) -> Self {
        let metadata = event.metadata();
        let mut collector = Collector {
            line: Self {
                level: *metadata.level(),
                event: metadata.target().to_owned(),
                fields: Vec::new(),
                message: String::new(),
            },
            is_ours,
        };
        event.record(&mut collector);
        collector.line
    }

    /// The value of a text field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).and_then(|(_, value)| match value {
            Value::Text(text) => Some(text.as_str()),
            Value::Number(_) | Value::Bool(_) => None,
        })
    }

    /// The line, with its end.
    pub(super) fn render(&self, format: LogFormat, now: Timestamp) -> String {
        let mut out = String::with_capacity(256);
        let written = match format {
            LogFormat::Text => self.write_text(&mut out, now),
            LogFormat::Json => self.write_json(&mut out, now),
        };
        debug_assert!(written.is_ok(), "a String takes everything");
        out.push('\n');
        out
    }

    /// `2026-11-30T06:22:23.123Z  WARN message_refused route=orders reason="no such queue"  refused a message`
    fn write_text(&self, out: &mut String, now: Timestamp) -> fmt::Result {
        write!(out, "{} {:>5} ", Millis(now), self.level.as_str())?;
        write_plain(out, &self.event)?;
        for (name, value) in &self.fields {
            write!(out, " {name}=")?;
            match value {
                Value::Text(text) if is_bare(text) => out.push_str(text),
                Value::Text(text) => write_quoted(out, text)?,
                Value::Number(number) => out.push_str(number),
                Value::Bool(flag) => write!(out, "{flag}")?,
            }
        }
        if !self.message.is_empty() {
            out.push_str("  ");
            write_plain(out, &self.message)?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut String, now: Timestamp) -> fmt::Result {
        write!(out, "{{\"ts\":\"{}\",\"level\":\"{}\",\"event\":", Millis(now), self.level.as_str().to_lowercase())?;
        write_json_string(out, &self.event)?;
        for (name, value) in &self.fields {
            out.push(',');
            write_json_string(out, name)?;
            out.push(':');
            match value {
                Value::Text(text) => write_json_string(out, text)?,
                Value::Number(number) => out.push_str(number),
                Value::Bool(flag) => write!(out, "{flag}")?,
            }
        }
        if !self.message.is_empty() {
            out.push_str(",\"message\":");
            write_json_string(out, &self.message)?;
        }
        out.push('}');
        Ok(())
    }
}

/// RFC 3339 in UTC, with milliseconds.
struct Millis(Timestamp);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    }
}

/// Whether a value needs no quotes.
fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && !text
            .chars()
            .any(|character| character.is_whitespace() || breaks_lines(character) || matches!(character, '"' | '='))
}

/// Whether a character could end a line, move the cursor, or turn the reading direction: by one of these a peer could
/// forge lines or hide some.
fn breaks_lines(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn write_plain(out: &mut String, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| {
        if breaks_lines(character) { write!(out, "{}", escaped(character)) } else { out.write_char(character) }
    })
}

fn write_quoted(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            _ if breaks_lines(character) => write!(out, "{}", escaped(character))?,
            _ => out.push(character),
        }
    }
    out.push('"');
    Ok(())
}

fn write_json_string(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            // All of them are in the basic plane, so that one escape is enough.
            _ if breaks_lines(character) => write!(out, "\\u{:04x}", u32::from(character))?,
            _ => out.push(character),
        }
    }
    out.push('"');
    Ok(())
}

fn escaped(character: char) -> impl fmt::Display {
    character.escape_default()
}

/// Puts the fields of an event into a line.
struct Collector {
    line: Line,
    is_ours: bool,
}

impl Collector {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name().strip_prefix("r#").unwrap_or(field.name());
        let text = match (name, value) {
            ("message", Value::Text(text)) => {
                self.line.message = text;
                return;
            }
            ("event", Value::Text(text)) => {
                self.line.event = text;
                return;
            }
            (_, Value::Text(_)) if !self.is_ours && !LIBRARY_TEXTS.contains(&name) => return,
            (_, value) => value,
        };
        // These are ours in every line; a name occurs once.
        let name =
            if matches!(name, "ts" | "level" | "event" | "message") { format!("{name}_") } else { name.to_owned() };
        match self.line.fields.iter_mut().find(|(present, _)| *present == name) {
            Some((_, slot)) => *slot = text,
            None => self.line.fields.push((name, text)),
        }
    }
}

impl Visit for Collector {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(cut(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Number(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Number(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        let value =
            if value.is_finite() { Value::Number(format!("{value:?}")) } else { Value::Text(value.to_string()) };
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded(String::new());
        let _ = write!(text, "{value:?}");
        self.put(field, Value::Text(text.0));
    }
}

/// Takes [`MAX_VALUE`] bytes and then stops whoever is writing.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() <= MAX_VALUE {
            return Ok(());
        }
        self.0 = cut(&self.0);
        Err(fmt::Error)
    }
}

fn cut(text: &str) -> String {
    if text.len() <= MAX_VALUE {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_VALUE)])
}
