use bytes::{BufMut, BytesMut};

use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::Write;
use crate::mqqb::wire::{Guid, Malformed};

/// The identifier of a sequence of transactional messages (MS-MQMQ 2.2.18.1.2).
///
/// Ordered as the 64-bit number with the time stamp on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxSequenceId {
    /// The high half.
    pub timestamp: u32,
    /// The low half, first on the wire.
    pub ordinal: u32,
}

impl TxSequenceId {
    /// As the number that is compared.
    pub const fn to_u64(self) -> u64 {
        (self.timestamp as u64) << 32 | self.ordinal as u64
    }

    /// From the 8 bytes of the wire, which are that number in little-endian order.
    pub const fn from_wire(bytes: [u8; 8]) -> Self {
        let number = u64::from_le_bytes(bytes);
        Self { timestamp: (number >> 32) as u32, ordinal: number as u32 }
    }

    /// The 8 bytes of the wire.
    pub const fn to_wire(self) -> [u8; 8] {
        self.to_u64().to_le_bytes()
    }
}

/// A message's place in its transaction and in its sequence (MS-MQMQ 2.2.20.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionHeader {
    /// The 32 flag bits as they came; unused ones are ignored. CG is overwritten on output by
    /// `connector_queue_manager`.
    pub flags: u32,
    /// The sequence.
    pub sequence_id: TxSequenceId,
    /// The message's number in it, from 1.
    pub sequence_number: u32,
    /// The number before it; 0 when there is none.
    pub previous_sequence_number: u32,
    /// `ConnectorQMGuid` (Flags.CG).
    pub connector_queue_manager: Option<Guid>,
}

impl TransactionHeader {
    /// Flags.CG.
    pub const CONNECTOR: u32 = 1;
    /// Flags.FA: a final acknowledgment is asked for.
    pub const FINAL_ACK: u32 = 1 << 1;
    /// Flags.FM: the first message of its transaction.
    pub const FIRST: u32 = 1 << 2;
    /// Flags.LM: the last message of its transaction.
    pub const LAST: u32 = 1 << 3;

    /// Flags.ID: the number of the transaction, 20 bits.
    pub const fn transaction_index(&self) -> u32 {
        self.flags >> 4 & 0xF_FFFF
    }

    /// Whether every bit of `mask` is set.
    pub const fn has(&self, mask: u32) -> bool {
        self.flags & mask == mask
    }
}

impl TransactionHeader {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 4 /* Flags */ + 8 /* TxSequenceID */ + 4 /* TxSequenceNumber */ + 4 /* PreviousTxSequenceNumber */;

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u32("TransactionHeader.Flags")?;
        let sequence_id = TxSequenceId::from_wire(reader.array("TransactionHeader.TxSequenceID")?);
        let sequence_number = reader.u32("TransactionHeader.TxSequenceNumber")?;
        let previous_sequence_number = reader.u32("TransactionHeader.PreviousTxSequenceNumber")?;
        let connector_queue_manager = match flags & Self::CONNECTOR {
            0 => None,
            _ => Some(reader.guid("TransactionHeader.ConnectorQMGuid")?),
        };
        Ok(Self { flags, sequence_id, sequence_number, previous_sequence_number, connector_queue_manager })
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) {
        out.put_u32_le(self.flags & !Self::CONNECTOR | u32::from(self.connector_queue_manager.is_some()));
        out.put_slice(&self.sequence_id.to_wire());
        out.put_u32_le(self.sequence_number);
        out.put_u32_le(self.previous_sequence_number);
        if let Some(connector) = self.connector_queue_manager {
            out.guid(connector);
        }
    }
}
