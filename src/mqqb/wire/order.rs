use bytes::{BufMut, Bytes, BytesMut};

use super::reader::Reader;
use super::{Malformed, MessageId, TxSequenceId};

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

    /// Reads the body.
    ///
    /// # Errors
    /// When it has another size.
    pub fn decode(body: &Bytes) -> Result<Self, Malformed> {
        let (sequence_id, sequence_number, previous_sequence_number, mut reader) = decode_position(body)?;
        let reserved = reader.array("OrderAckBody.Reserved")?;
        Ok(Self { sequence_id, sequence_number, previous_sequence_number, reserved })
    }

    /// The body on the wire.
    pub fn encode(&self) -> Bytes {
        encode_body(self.sequence_id, self.sequence_number, self.previous_sequence_number, self.reserved)
    }
}

impl FinalAckBody {
    /// Size on the wire.
    pub const SIZE: usize = OrderAckBody::SIZE;

    /// Reads the body.
    ///
    /// # Errors
    /// When it has another size.
    pub fn decode(body: &Bytes) -> Result<Self, Malformed> {
        let (sequence_id, sequence_number, previous_sequence_number, mut reader) = decode_position(body)?;
        let message = MessageId::from_wire(reader.array("FinalAckBody.SourceGUID")?);
        Ok(Self { sequence_id, sequence_number, previous_sequence_number, message })
    }

    /// The body on the wire.
    pub fn encode(&self) -> Bytes {
        encode_body(self.sequence_id, self.sequence_number, self.previous_sequence_number, self.message.to_wire())
    }
}

/// What both bodies begin with.
fn decode_position(body: &Bytes) -> Result<(TxSequenceId, u32, u32, Reader<'_>), Malformed> {
    const SIZE: u64 = OrderAckBody::SIZE as u64;
    if body.len() as u64 != SIZE {
        return Err(Malformed::size("MessagePropertiesHeader.MessageSize", body.len() as u64, SIZE, SIZE));
    }
    let mut reader = Reader::new(body, 0, body.len());
    let sequence_id = TxSequenceId::from_wire(reader.array("TxSequenceID")?);
    let sequence_number = reader.u32("TxSequenceNumber")?;
    let previous_sequence_number = reader.u32("TxPreviousSequenceNumber")?;
    Ok((sequence_id, sequence_number, previous_sequence_number, reader))
}

fn encode_body(id: TxSequenceId, number: u32, previous: u32, rest: [u8; 20]) -> Bytes {
    let mut body = BytesMut::with_capacity(OrderAckBody::SIZE);
    body.put_slice(&id.to_wire());
    body.put_u32_le(number);
    body.put_u32_le(previous);
    body.put_slice(&rest);
    body.freeze()
}
