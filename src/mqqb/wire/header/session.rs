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
    pub const SIZE: usize = 16;

    /// The recoverable numbers whose bits are set, in order, modulo 2^16.
    pub fn recoverable_acknowledged(&self) -> impl Iterator<Item = u16> + '_ {
        (0..32_u16)
            .filter(|bit| self.recoverable_ack_bits & (1 << bit) != 0)
            .map(|bit| self.recoverable_ack_sequence_number.wrapping_add(bit))
    }
}
