use bytes::{Bytes, BytesMut};

use super::{
    BaseHeader, DebugHeader, Frame, FormatName, Malformed, MessageId, MessageProperties, MultiQueueHeader, SecurityHeader,
    SessionHeader, SoapHeader, TransactionHeader, UserHeader,
};

/// A message (MS-MQMQ 2.2.20): an application's, an administration acknowledgment, or a transactional one
/// (`OrderAck`, `FinalAck`), which have the same layout.
///
/// A decoded message keeps the frame it came in, so that untouched bytes stay untouched. Messages that we make
/// have none until they are encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMessage {
    /// `BaseHeader`.
    pub base: BaseHeader,
    /// `UserHeader`.
    pub user: UserHeader,
    /// How it is delivered, with the `TransactionHeader` of a transactional message.
    pub delivery: DeliveryMode,
    /// `SecurityHeader`.
    pub security: Option<SecurityHeader>,
    /// `MessagePropertiesHeader`.
    pub properties: MessageProperties,
    /// `DebugHeader`.
    pub debug: Option<DebugHeader>,
    /// `SoapHeader`.
    pub soap: Option<SoapHeader>,
    /// `MultiQueueFormatHeader`.
    pub multi_queue: Option<MultiQueueHeader>,
    /// Bytes after the last header inside the packet size; ignored.
    pub trailer: Bytes,
    /// The session acknowledgment that travelled with the message.
    pub session: Option<PiggyBackedSession>,
}

/// How a message is delivered (`Flags.DM` and `Flags.TH`). "Transactional but express" can't be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// May be lost when a machine restarts, in MSMQ's own terms. (Here it takes the same path as recoverable.)
    Express,
    /// On disk before it is acknowledged.
    Recoverable,
    /// Recoverable, exactly once, in the order of its sequence.
    Transactional(TransactionHeader),
}

/// A session acknowledgment on a user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PiggyBackedSession {
    /// The acknowledgment.
    pub header: SessionHeader,
    /// Whether `PacketSize` counts its 16 bytes. The specification says no; both are accepted.
    pub counted_in_packet_size: bool,
}

impl UserMessage {
    /// Reads a message from its frame.
    ///
    /// # Errors
    /// Names the field that does not conform.
    pub fn decode(frame: &Frame) -> Result<Self, Malformed> {
        let _ = frame;
        todo!()
    }

    /// Appends the message to `out`: exactly the bytes it was decoded from, when it was.
    ///
    /// # Errors
    /// When the message can't be put on the wire: too large, a label too long, a kind of queue not allowed in its place.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        let _ = out;
        todo!()
    }

    /// The message's identifier.
    pub const fn id(&self) -> MessageId {
        MessageId { source: self.user.source_queue_manager, ordinal: self.user.message_id }
    }

    /// Whether the message counts as recoverable in the session's sequence: recoverable or transactional.
    pub const fn is_recoverable(&self) -> bool {
        !matches!(self.delivery, DeliveryMode::Express)
    }

    /// The transaction header of a transactional message.
    pub const fn transaction(&self) -> Option<&TransactionHeader> {
        match &self.delivery {
            DeliveryMode::Transactional(header) => Some(header),
            _ => None,
        }
    }

    /// Whether the body is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.security.as_ref().is_some_and(SecurityHeader::is_encrypted)
    }

    /// Whether there is a signature anywhere in the message.
    pub fn is_signed(&self) -> bool {
        self.security.as_ref().is_some_and(|security| !security.signature.data.is_empty())
            || self.multi_queue.as_ref().is_some_and(|multi| !multi.signature.value.is_empty())
    }

    /// The destination queue; `None` when `Flags.DQ` is 0.
    pub fn destination(&self) -> Option<FormatName> {
        todo!()
    }

    /// The administration queue, with private numbers made complete by the machine they are on.
    pub fn admin_queue(&self) -> Option<FormatName> {
        todo!()
    }

    /// The response queue, likewise.
    pub fn response_queue(&self) -> Option<FormatName> {
        todo!()
    }
}
