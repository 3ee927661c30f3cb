use bytes::{BufMut, BytesMut};

use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::Write;
use crate::mqqb::wire::{Guid, Malformed};

/// Where report messages go (MS-MQMQ 2.2.20.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugHeader {
    /// The 16 flag bits as they came. QT is overwritten on output by `queue`.
    pub flags: u16,
    /// Kept, never tested.
    pub reserved: u16,
    /// The public queue for report messages (QT 1); `None` for QT 0.
    pub queue: Option<Guid>,
}

impl DebugHeader {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 2 /* Flags */ + 2 /* Reserved */;
    /// Flags.QT.
    pub(in crate::mqqb::wire) const QUEUE_TYPE: u16 = 0x3;

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u16("DebugHeader.Flags")?;
        let reserved = reader.u16("DebugHeader.Reserved")?;
        let queue = match flags & Self::QUEUE_TYPE {
            0 => None,
            1 => Some(reader.guid("DebugHeader.QueueIdentifier")?),
            kind => return Err(Malformed::value("DebugHeader.Flags.QT", u64::from(kind))),
        };
        Ok(Self { flags, reserved, queue })
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) {
        out.put_u16_le(self.flags & !Self::QUEUE_TYPE | u16::from(self.queue.is_some()));
        out.put_u16_le(self.reserved);
        if let Some(queue) = self.queue {
            out.guid(queue);
        }
    }
}
