use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

/// A message in the form that all connectors share.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Where it goes.
    pub address: Address,
    /// The key by which a consumer tells repeats: always set.
    pub message_id: String,
    /// The message it answers.
    pub correlation_id: Option<String>,
    /// The foreign address for replies.
    pub reply_to: Option<String>,
    /// Seconds since 1970 (UTC).
    pub timestamp: Option<u64>,
    /// 0 to 7.
    pub priority: u8,
    /// Survives a restart of the foreign system.
    pub durable: bool,
    /// Milliseconds until it is of no use; `None` for ever.
    pub expiration: Option<u64>,
    /// MIME type of the body.
    pub content_type: String,
    /// Everything else.
    pub headers: Headers,
    /// The body.
    pub body: Body,
}

/// Where in the foreign system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The exchange; empty for the default one.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
}

/// The route's security mode is a type, not a flag.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    /// What the application wrote, or a form of it that is complete in itself, such as a JWE.
    Clear(Bytes),
    /// Ciphertext, with what its receiver needs to open it. Nobody between has looked inside.
    Sealed {
        /// The body as it came.
        ciphertext: Bytes,
        /// The symmetric key, encrypted for the receiver (SIMPLEBLOB).
        encrypted_key: Bytes,
        /// CALG number of the cipher.
        algorithm: u32,
        /// Name of the cryptographic provider, when the sender gave one.
        provider: Option<String>,
    },
}

impl Body {
    /// The bytes that travel.
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::Clear(bytes) | Self::Sealed { ciphertext: bytes, .. } => bytes,
        }
    }

    /// The bytes that travel, taken out.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Clear(bytes) | Self::Sealed { ciphertext: bytes, .. } => bytes,
        }
    }
}

/// No body is ever printed.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Clear(_) => "Clear",
            Self::Sealed { .. } => "Sealed",
        };
        write!(f, "{kind}({} bytes)", self.bytes().len())
    }
}

/// Headers in the order in which they were set; a name occurs once. Names that this program knows cost no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headers(Vec<(Cow<'static, str>, Value)>);

/// The value of a header.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Bytes),
    /// A table.
    Table(Headers),
    /// Nothing; not the same as no header.
    Null,
    /// A floating-point number.
    Float(f64),
    /// A decimal number: `unscaled` divided by ten to the power of `scale`.
    Decimal {
        /// How many digits stand after the point.
        scale: u8,
        /// All digits.
        unscaled: u32,
    },
    /// Seconds since 1970 (UTC).
    Timestamp(u64),
    /// A list of values, which may be of different kinds.
    List(Vec<Value>),
}

/// Bytes are counted, not printed.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
            Self::Bytes(value) => write!(f, "{} bytes", value.len()),
            Self::Table(value) => value.fmt(f),
            Self::Null => f.write_str("null"),
            Self::Float(value) => value.fmt(f),
            Self::Decimal { scale, unscaled } => write!(f, "{unscaled}e-{scale}"),
            Self::Timestamp(seconds) => write!(f, "{seconds} s"),
            Self::List(values) => values.fmt(f),
        }
    }
}

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets a header, in place of one of the same name.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: Value) {
        let name = name.into();
        match self.0.iter_mut().find(|(present, _)| *present == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }

    /// The header of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(present, _)| *present == name).map(|(_, value)| value)
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// The last of a name counts.
impl FromIterator<(Cow<'static, str>, Value)> for Headers {
    fn from_iter<T: IntoIterator<Item = (Cow<'static, str>, Value)>>(entries: T) -> Self {
        let mut headers = Self::new();
        let mut is_sorted = true;
        for (name, value) in entries {
            is_sorted = is_sorted && headers.0.last().is_none_or(|(last, _)| *last < name);
            // A name behind all others is new.
            if is_sorted { headers.0.push((name, value)) } else { headers.set(name, value) }
        }
        headers
    }
}

impl IntoIterator for Headers {
    type Item = (Cow<'static, str>, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
