use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// A globally unique identifier (MS-DTYP 2.3.4), as the queue managers, public queues and connector types have one.
///
/// The first three parts are little-endian on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(Uuid);

impl Guid {
    /// The null GUID: "this machine" in a `QueueManagerAddress`, "not known" in a `ServerGuid`.
    pub const NULL: Self = Self(Uuid::nil());

    /// From the 16 bytes of the wire.
    pub const fn from_wire(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes_le(bytes))
    }

    /// The 16 bytes of the wire.
    pub const fn to_wire(self) -> [u8; 16] {
        self.0.to_bytes_le()
    }

    /// A version 4 GUID from 16 random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// A version 5 GUID: always the same for the same name below the same GUID.
    pub fn derived(parent: Self, name: &str) -> Self {
        Self(Uuid::new_v5(&parent.0, name.as_bytes()))
    }

    /// Whether this is the null GUID.
    pub const fn is_null(self) -> bool {
        self.0.is_nil()
    }
}

/// Lower case with hyphens, no braces: the form of message ids. Format names print `{:X}`, the upper case form.
impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(self.0.as_hyphenated(), f)
    }
}

impl fmt::UpperHex for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::UpperHex::fmt(self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a GUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a GUID: 8-4-4-4-12 hexadecimal digits are expected")]
pub struct NotAGuid(String);

/// Accepts either case, with or without braces.
impl FromStr for Guid {
    type Err = NotAGuid;

    fn from_str(text: &str) -> Result<Self, NotAGuid> {
        let bare = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        // `Uuid` also reads the 32-digit and URN forms, which MSMQ does not have.
        if bare.len() != 36 {
            return Err(NotAGuid(text.to_owned()));
        }
        Uuid::try_parse(bare).map(Self).map_err(|_| NotAGuid(text.to_owned()))
    }
}

/// The identifier of a message: who sent it, and the sender's running number (MS-MQMQ 2.2.18.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The queue manager that sent the message first.
    pub source: Guid,
    /// Unique among that queue manager's messages until it wraps.
    pub ordinal: u32,
}

impl MessageId {
    /// Size on the wire.
    pub const SIZE: usize = 16 /* QueueManagerGuid */ + 4 /* Ordinal */;

    /// From the 20 bytes of the wire, such as a correlation id.
    pub fn from_wire(bytes: [u8; Self::SIZE]) -> Self {
        let (guid, ordinal) = bytes.split_at(16);
        let mut source = [0; 16];
        source.copy_from_slice(guid);
        let mut number = [0; 4];
        number.copy_from_slice(ordinal);
        Self { source: Guid::from_wire(source), ordinal: u32::from_le_bytes(number) }
    }

    /// The 20 bytes of the wire.
    pub fn to_wire(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..16].copy_from_slice(&self.source.to_wire());
        bytes[16..].copy_from_slice(&self.ordinal.to_le_bytes());
        bytes
    }
}

/// `guid\ordinal`, lower case and unsigned, as in .NET and in our AMQP `message-id`.
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\\{}", self.source, self.ordinal)
    }
}
