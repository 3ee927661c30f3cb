use bytes::{BufMut, Bytes, BytesMut};

use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::{Write, size_field};
use crate::mqqb::wire::{Malformed, MessageClass, MessageId, Padding, WideText};

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
    /// `Label`, up to 249 characters. `None` is a `LabelLength` of 0, `Some` of the empty text a `LabelLength` of 1. A
    /// NUL within it is kept, although the grammar has none: it breaks nothing, and a session that is closed for it gets
    /// the same message again for ever.
    pub label: Option<WideText>,
    /// `ExtensionData`.
    pub extension: Bytes,
    /// `MessageBody`, as on the wire.
    pub body: Bytes,
    /// The bytes that pad the header to 4.
    pub padding: Padding,
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

    /// Whatever there is to say.
    pub const EVERYTHING: Self =
        Self(Self::POSITIVE_ARRIVAL | Self::POSITIVE_READ | Self::NEGATIVE_ARRIVAL | Self::NEGATIVE_READ);

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

impl MessageProperties {
    /// Properties of a message without label, extension and body that asks for no acknowledgment. The algorithms,
    /// which mean nothing as long as nothing is signed or encrypted, are those of the specification's present
    /// default: SHA-512 and RC4.
    pub const fn new(class: MessageClass) -> Self {
        Self {
            ack_request: AckRequest(0),
            class,
            correlation_id: [0; MessageId::SIZE],
            body_type: 0,
            app_specific: 0,
            allocation_body_size: 0,
            privacy_level: 0,
            hash_algorithm: 0x800E,
            encryption_algorithm: 0x6801,
            label: None,
            extension: Bytes::new(),
            body: Bytes::new(),
            padding: Padding::NONE,
        }
    }

    /// Puts in a body, and its size as the size allocated.
    pub fn set_body(&mut self, body: Bytes, body_type: u32) {
        self.allocation_body_size = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.body = body;
        self.body_type = body_type;
    }

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const LABEL_LENGTH: &str = "MessagePropertiesHeader.LabelLength";
        const MAX_LABEL_LENGTH: u64 = MessageProperties::MAX_LABEL_UNITS as u64 + 1 /* NUL */;
        let start = reader.at();
        let ack_request = AckRequest(reader.u8("MessagePropertiesHeader.Flags")?);
        let label_length = u64::from(reader.u8(LABEL_LENGTH)?);
        let class = MessageClass(reader.u16("MessagePropertiesHeader.MessageClass")?);
        let correlation_id = reader.array("MessagePropertiesHeader.CorrelationID")?;
        let body_type = reader.u32("MessagePropertiesHeader.BodyType")?;
        let app_specific = reader.u32("MessagePropertiesHeader.ApplicationTag")?;
        let body_size = reader.u32("MessagePropertiesHeader.MessageSize")?;
        let allocation_body_size = reader.u32("MessagePropertiesHeader.AllocationBodySize")?;
        let privacy_level = reader.u32("MessagePropertiesHeader.PrivacyLevel")?;
        let hash_algorithm = reader.u32("MessagePropertiesHeader.HashAlgorithm")?;
        let encryption_algorithm = reader.u32("MessagePropertiesHeader.EncryptionAlgorithm")?;
        let extension_size = reader.u32("MessagePropertiesHeader.ExtensionSize")?;
        let label = match label_length {
            0 => None,
            1..=MAX_LABEL_LENGTH => {
                Some(reader.loose_text(label_length * 2, LABEL_LENGTH, "MessagePropertiesHeader.Label")?)
            }
            _ => return Err(Malformed::size(LABEL_LENGTH, label_length, 0, MAX_LABEL_LENGTH)),
        };
        Ok(Self {
            ack_request,
            class,
            correlation_id,
            body_type,
            app_specific,
            allocation_body_size,
            privacy_level,
            hash_algorithm,
            encryption_algorithm,
            label,
            extension: reader.bytes(extension_size.into(), "MessagePropertiesHeader.ExtensionSize")?,
            body: reader.bytes(body_size.into(), "MessagePropertiesHeader.MessageSize")?,
            padding: reader.padding(start, "MessagePropertiesHeader")?,
        })
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        let start = out.len();
        let label_length = self.label.as_ref().map_or(0, |label| label.units() + 1 /* NUL */);
        if label_length > Self::MAX_LABEL_UNITS + 1 {
            let most = Self::MAX_LABEL_UNITS as u64 + 1;
            return Err(Malformed::size("MessagePropertiesHeader.LabelLength", label_length as u64, 0, most));
        }
        out.put_u8(self.ack_request.0);
        out.put_u8(label_length as u8);
        out.put_u16_le(self.class.0);
        out.put_slice(&self.correlation_id);
        out.put_u32_le(self.body_type);
        out.put_u32_le(self.app_specific);
        out.put_u32_le(size_field(self.body.len(), u32::MAX.into(), "MessagePropertiesHeader.MessageSize")?);
        out.put_u32_le(self.allocation_body_size);
        out.put_u32_le(self.privacy_level);
        out.put_u32_le(self.hash_algorithm);
        out.put_u32_le(self.encryption_algorithm);
        out.put_u32_le(size_field(self.extension.len(), u32::MAX.into(), "MessagePropertiesHeader.ExtensionSize")?);
        if let Some(label) = &self.label {
            out.text(label);
        }
        out.put_slice(&self.extension);
        out.put_slice(&self.body);
        out.pad(start, self.padding);
        Ok(())
    }
}
