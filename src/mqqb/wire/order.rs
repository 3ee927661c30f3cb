use super::{MessageId, TxSequenceId};

/// The body of an `OrderAck` (MS-MQQB 2.2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderAckBody {
    /// The sequence of the message acknowledged.
    pub sequence_id: TxSequenceId,
    /// Its number.
    pub sequence_number: u32,
    /// Its number less one.
    pub previous_sequence_number: u32,
    /// Arbitrary; kept.
    pub reserved: [u8; 20],
}

/// The body of a `FinalAck` (MS-MQQB 2.2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalAckBody {
    /// The sequence of the message acknowledged.
    pub sequence_id: TxSequenceId,
    /// Its number.
    pub sequence_number: u32,
    /// The number that it names as the one before it.
    pub previous_sequence_number: u32,
    /// The message.
    pub message: MessageId,
}

impl OrderAckBody {
    /// Size on the wire, the same for both bodies.
    pub const SIZE: usize = 8 /* TxSequenceID */ + 4 /* TxSequenceNumber */ + 4 /* TxPreviousSequenceNumber */ + 20 /* Reserved */;
}
