use std::fmt;
use std::str::FromStr;

use super::problem::{Quoted, suggestion};

/// How the routing key of a message is made: fixed text and placeholders, such as `orders.{label}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingKeyTemplate(Vec<Part>);

/// A piece of a [`RoutingKeyTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Placeholder),
}

/// What a routing key can take from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placeholder {
    /// `{label}`: the message's label.
    Label,
    /// `{queue}`: the queue's own name without `private$\`.
    Queue,
    /// `{class}`: the message class, by name or number.
    Class,
    /// `{app_specific}`: the application's number.
    AppSpecific,
    /// `{sender_machine}`: the GUID of the queue manager that sent the message first.
    SenderMachine,
}

impl Placeholder {
    const ALL: [(&'static str, Self); 5] = [
        ("label", Self::Label),
        ("queue", Self::Queue),
        ("class", Self::Class),
        ("app_specific", Self::AppSpecific),
        ("sender_machine", Self::SenderMachine),
    ];

    /// As it is written between the braces.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, placeholder)| *placeholder == self).map_or("", |(name, _)| name)
    }
}

/// Text that is not a routing key template; says what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRoutingKey(String);

impl RoutingKeyTemplate {
    /// Routing keys are short strings (AMQP 0-9-1, 4.2.5.3).
    pub const MAX_LENGTH: usize = 255;

    /// The key of every message, when it takes nothing from them.
    pub fn fixed(&self) -> Option<String> {
        match self.0.as_slice() {
            [] => Some(String::new()),
            [Part::Text(text)] => Some(text.clone()),
            _ => None,
        }
    }

    /// Makes the key of one message. May come out longer than [`RoutingKeyTemplate::MAX_LENGTH`], because labels do.
    pub fn render(&self, mut value: impl FnMut(Placeholder) -> String) -> String {
        let mut key = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Value(placeholder) => key.push_str(&value(*placeholder)),
            }
        }
        key
    }
}

/// `{{` and `}}` stand for braces.
impl FromStr for RoutingKeyTemplate {
    type Err = BadRoutingKey;

    fn from_str(text: &str) -> Result<Self, BadRoutingKey> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            literal.push_str(&rest[..brace]);
            let from_brace = &rest[brace..];
            if let Some(after) = from_brace.strip_prefix("{{") {
                literal.push('{');
                rest = after;
            } else if let Some(after) = from_brace.strip_prefix("}}") {
                literal.push('}');
                rest = after;
            } else if let Some((name, after)) = from_brace.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Value(placeholder(name)?));
                rest = after;
            } else {
                let why = format!("{} has a single brace; write {{{{ or }}}} for a brace itself", Quoted(text));
                return Err(BadRoutingKey(why));
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        let fixed: usize = parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum();
        if fixed > Self::MAX_LENGTH {
            return Err(BadRoutingKey(format!("a routing key has at most {} bytes, not {fixed}", Self::MAX_LENGTH)));
        }
        Ok(Self(parts))
    }
}

fn placeholder(name: &str) -> Result<Placeholder, BadRoutingKey> {
    let known = Placeholder::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, placeholder)| *placeholder).ok_or_else(|| {
        let names = Placeholder::ALL.iter().map(|(name, _)| *name);
        let hint = suggestion(name, names, "there are");
        BadRoutingKey(format!("{} is not a placeholder{hint}", Quoted(name)))
    })
}

/// As it is written in the file.
impl fmt::Display for RoutingKeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Value(placeholder) => write!(f, "{{{}}}", placeholder.name())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn placeholders_are_filled_in() {
        let template: RoutingKeyTemplate =
            "a.{label}{queue}.{{x}}.{class}-{app_specific}/{sender_machine}".parse().unwrap();
        let key = template.render(|placeholder| placeholder.name().to_uppercase());
        assert_eq!(key, "a.LABELQUEUE.{x}.CLASS-APP_SPECIFIC/SENDER_MACHINE");
        assert_eq!(template.to_string(), "a.{label}{queue}.{{x}}.{class}-{app_specific}/{sender_machine}");
        let empty: RoutingKeyTemplate = "".parse().unwrap();
        assert_eq!(empty.render(|_| "x".to_owned()), "");
    }

    #[test]
    fn what_a_label_says_is_not_read_as_a_placeholder() {
        let template: RoutingKeyTemplate = "{label}".parse().unwrap();
        assert_eq!(template.render(|_| "{queue}".to_owned()), "{queue}");
    }
}
