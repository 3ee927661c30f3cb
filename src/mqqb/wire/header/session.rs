use bytes::{BufMut, BytesMut};

use crate::mqqb::wire::Malformed;
use crate::mqqb::wire::reader::Reader;

/// A session acknowledgment (MS-MQMQ 2.2.20.4): alone in a `SessionAck` packet, or piggy-backed on a user message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionHeader {
    /// `AckSequenceNumber`: every message up to and including this one was received.
    pub ack_sequence_number: u16,
    /// `RecoverableMsgAckSeqNumber`: the number of bit 0 of the bit field.
    pub recoverable_ack_sequence_number: u16,
    /// `RecoverableMsgAckFlags`: bit k says that recoverable message "number of bit 0 + k" is on disk.
    pub recoverable_ack_bits: u32,
    /// `UserMsgSequenceNumber`: how many messages the sender of this header has sent on the session.
    pub user_sequence_number: u16,
    /// `RecoverableMsgSeqNumber`: how many of them were recoverable.
    pub recoverable_sequence_number: u16,
    /// `WindowSize` of the sender of this header.
    pub window_size: u16,
    /// Arbitrary; kept, never tested.
    pub reserved: u16,
}

impl SessionHeader {
    /// Size on the wire.
    pub const SIZE: usize = 2 /* AckSequenceNumber */ + 2 /* RecoverableMsgAckSeqNumber */ + 4 /* RecoverableMsgAckFlags */
        + 2 /* UserMsgSequenceNumber */ + 2 /* RecoverableMsgSeqNumber */ + 2 /* WindowSize */ + 2 /* Reserved */;

    /// The recoverable numbers whose bits are set, in order, modulo 2^16.
    pub fn recoverable_acknowledged(&self) -> impl Iterator<Item = u16> + '_ {
        (0..32_u16)
            .filter(|bit| self.recoverable_ack_bits & (1 << bit) != 0)
            .map(|bit| self.recoverable_ack_sequence_number.wrapping_add(bit))
    }
}

impl SessionHeader {
    pub(in crate::mqqb::wire) const FIELD: &'static str = "SessionHeader";

    /// Reads the header.
    ///
    /// # Errors
    /// When fewer than 16 bytes are left.
    pub(in crate::mqqb::wire) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.array(Self::FIELD).map(|bytes| Self::decode(&bytes))
    }

    /// Reads the header.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        let [a0, a1, r0, r1, b0, b1, b2, b3, u0, u1, n0, n1, w0, w1, x0, x1] = *bytes;
        Self {
            ack_sequence_number: u16::from_le_bytes([a0, a1]),
            recoverable_ack_sequence_number: u16::from_le_bytes([r0, r1]),
            recoverable_ack_bits: u32::from_le_bytes([b0, b1, b2, b3]),
            user_sequence_number: u16::from_le_bytes([u0, u1]),
            recoverable_sequence_number: u16::from_le_bytes([n0, n1]),
            window_size: u16::from_le_bytes([w0, w1]),
            reserved: u16::from_le_bytes([x0, x1]),
        }
    }

    /// Appends the header to `out`.
    pub fn encode_into(&self, out: &mut BytesMut) {
        out.put_u16_le(self.ack_sequence_number);
        out.put_u16_le(self.recoverable_ack_sequence_number);
        out.put_u32_le(self.recoverable_ack_bits);
        out.put_u16_le(self.user_sequence_number);
        out.put_u16_le(self.recoverable_sequence_number);
        out.put_u16_le(self.window_size);
        out.put_u16_le(self.reserved);
    }
}
