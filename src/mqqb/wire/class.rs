use std::fmt;

/// A message class identifier (MS-MQMQ 2.2.18.1.6). Open: applications may set their own, and those survive.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageClass(pub u16);

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl MessageClass {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// The constant's name, such as `NACK_BAD_SIGNATURE`; `None` for an application's own class.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Every class that has a name.
            pub const NAMED: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

classes! {
    /// A message of an application.
    NORMAL = 0x0000;
    /// A report message that tracks a delivery.
    REPORT = 0x0001;
    /// Positive arrival: the message reached its queue.
    ACK_REACH_QUEUE = 0x0002;
    /// A transactional message was received in order.
    ORDER_ACK = 0x00FF;
    /// Positive read: an application took the message.
    ACK_RECEIVE = 0x4000;
    /// The destination queue does not exist here.
    NACK_BAD_DST_Q = 0x8000;
    /// Deleted before it reached its queue.
    NACK_DELETED = 0x8001;
    /// Expired before it reached its queue.
    NACK_REACH_QUEUE_TIMEOUT = 0x8002;
    /// The queue is full.
    NACK_Q_EXCEED_QUOTA = 0x8003;
    /// The sender may not write to this queue.
    NACK_ACCESS_DENIED = 0x8004;
    /// Too many hops.
    NACK_HOP_COUNT_EXCEEDED = 0x8005;
    /// The signature does not verify, or not for this sender.
    NACK_BAD_SIGNATURE = 0x8006;
    /// The body can't be opened.
    NACK_BAD_ENCRYPTION = 0x8007;
    /// The sender itself could not encrypt (missing in the enumeration; documented by the message property).
    NACK_COULD_NOT_ENCRYPT = 0x8008;
    /// A transactional message for a queue that is not.
    NACK_NOT_TRANSACTIONAL_Q = 0x8009;
    /// A message that is not transactional for a queue that is.
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A;
    /// The cryptographic provider is not known here.
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B;
    /// The queue was deleted with the message in it.
    NACK_Q_DELETED = 0xC000;
    /// The queue was purged with the message in it.
    NACK_Q_PURGED = 0xC001;
    /// Expired in its queue before anybody took it.
    NACK_RECEIVE_TIMEOUT = 0xC002;
    /// The receiving application rejected it.
    NACK_RECEIVE_REJECTED = 0xC004;
}

impl MessageClass {
    /// Whether a message of this class answers another one: the named ones that say what became of it.
    pub const fn is_acknowledgment(self) -> bool {
        self.name().is_some() && !matches!(self, Self::NORMAL | Self::REPORT | Self::ORDER_ACK)
    }

    /// Whether this says that a message was not delivered or not read.
    pub const fn is_negative(self) -> bool {
        self.0 & 0x8000 != 0
    }
}

/// The name, or the number of a class without one.
impl fmt::Display for MessageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:04X}", self.0),
        }
    }
}

impl fmt::Debug for MessageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
