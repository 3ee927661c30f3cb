use bytes::Bytes;

use crate::mqqb::wire::{MessageClass, MessageId, WideText};

/// The message's properties, label, extension and body (MS-MQMQ 2.2.19.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageProperties {
    /// Which acknowledgment messages the sender asks for.
    pub ack_request: AckRequest,
    /// `MessageClass`.
    pub class: MessageClass,
    /// `CorrelationID`: the application's own 20 bytes, or in an acknowledgment the message it answers.
    pub correlation_id: [u8; MessageId::SIZE],
    /// `BodyType`: any value is let through.
    pub body_type: u32,
    /// `ApplicationTag`.
    pub app_specific: u32,
    /// `AllocationBodySize`: at least the body's size, often more.
    pub allocation_body_size: u32,
    /// `PrivacyLevel`: looked at only when the body is encrypted.
    pub privacy_level: u32,
    /// `HashAlgorithm`: looked at only when there is a signature.
    pub hash_algorithm: u32,
    /// `EncryptionAlgorithm`: looked at only when the body is encrypted.
    pub encryption_algorithm: u32,
    /// `Label`, up to 249 characters. `None` is a `LabelLength` of 0, `Some` of the empty text a `LabelLength` of 1.
    pub label: Option<WideText>,
    /// `ExtensionData`.
    pub extension: Bytes,
    /// `MessageBody`, as on the wire.
    pub body: Bytes,
    /// The bytes that pad the header to 4.
    pub padding: Bytes,
}

/// The `Flags` of the properties header, unused bits included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRequest(pub u8);

impl AckRequest {
    /// PA: say when it reached its queue.
    pub const POSITIVE_ARRIVAL: u8 = 1;
    /// PR: say when it was read.
    pub const POSITIVE_READ: u8 = 1 << 1;
    /// NA: say when it can't reach its queue.
    pub const NEGATIVE_ARRIVAL: u8 = 1 << 2;
    /// NR: say when it will not be read.
    pub const NEGATIVE_READ: u8 = 1 << 3;

    /// Whether every bit of `mask` is set.
    pub const fn asks(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

impl MessageProperties {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 1 /* Flags */ + 1 /* LabelLength */ + 2 /* MessageClass */ + 20 /* CorrelationID */
        + 4 /* BodyType */ + 4 /* ApplicationTag */ + 4 /* MessageSize */ + 4 /* AllocationBodySize */
        + 4 /* PrivacyLevel */ + 4 /* HashAlgorithm */ + 4 /* EncryptionAlgorithm */ + 4 /* ExtensionSize */;
    /// The longest label, without its NUL.
    pub const MAX_LABEL_UNITS: usize = 249;
}
