use bytes::{BufMut, BytesMut};

use super::queue_field::QueuePlace;
use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::Write;
use crate::mqqb::wire::{Guid, Malformed, QueueField};

/// Where a message comes from and where it goes (MS-MQMQ 2.2.19.2).
///
/// The bits that say which headers follow are not fields: they are what `UserMessage` has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserHeader {
    /// The queue manager that sent the message first.
    pub source_queue_manager: Guid,
    /// The queue manager it is for; null for a direct name.
    pub queue_manager_address: Guid,
    /// Seconds from the sent time until it must have been read; 0xFFFFFFFF is no limit.
    pub time_to_be_received: u32,
    /// Seconds since 1970 (UTC), by the sender's clock.
    pub sent_time: u32,
    /// The sender's running number.
    pub message_id: u32,
    /// The 32 flag bits as they came. The type codes, the presence bits and the delivery mode in them are
    /// overwritten on output by what the message really has.
    pub flags: u32,
    /// `DestinationQueue`.
    pub destination: QueueField,
    /// `AdminQueue`: where acknowledgment messages go.
    pub admin: QueueField,
    /// `ResponseQueue`: where replies go.
    pub response: QueueField,
    /// `ConnectorType`: set by connector applications (Flags.CQ).
    pub connector_type: Option<Guid>,
}

impl UserHeader {
    /// Flags.JN: the sender keeps a copy when delivery fails.
    pub const NEGATIVE_SOURCE_JOURNAL: u32 = 1 << 8;
    /// Flags.JP: the sender keeps a copy when delivery succeeds.
    pub const POSITIVE_SOURCE_JOURNAL: u32 = 1 << 9;
    /// Flags.SH.
    pub const SECURITY_HEADER: u32 = 1 << 19;
    /// Flags.TH.
    pub const TRANSACTION_HEADER: u32 = 1 << 20;
    /// Flags.MP.
    pub const PROPERTIES_HEADER: u32 = 1 << 21;
    /// Flags.CQ.
    pub const CONNECTOR_TYPE: u32 = 1 << 22;
    /// Flags.MQ.
    pub const MULTI_QUEUE_HEADER: u32 = 1 << 23;
    /// Flags.AH: the packet first came over HTTP.
    pub const CAME_OVER_HTTP: u32 = 1 << 25;
    /// Flags.HH.
    pub const SOAP_HEADER: u32 = 1 << 28;

    /// Flags.RC: how many routing servers have passed the message on.
    pub const fn hop_count(&self) -> u8 {
        (self.flags & 0x1F) as u8
    }

    /// Whether every bit of `mask` is set.
    pub const fn has(&self, mask: u32) -> bool {
        self.flags & mask == mask
    }
}

impl UserHeader {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 16 /* SourceQueueManager */ + 16 /* QueueManagerAddress */ + 4 /* TimeToBeReceived */
        + 4 /* SentTime */ + 4 /* MessageID */ + 4 /* Flags */;
    /// Flags.DM.
    const DELIVERY: u32 = 0x3 << 5;
    /// Flags.DM of a recoverable message.
    const RECOVERABLE: u32 = 0x1 << 5;
    /// Flags.DQ, Flags.AQ, Flags.RQ.
    const QUEUE_TYPES: u32 = 0x1FF << 10;
    /// The bits that are overwritten on output by what the message really has.
    const DERIVED: u32 = Self::DELIVERY
        | Self::QUEUE_TYPES
        | Self::SECURITY_HEADER
        | Self::TRANSACTION_HEADER
        | Self::PROPERTIES_HEADER
        | Self::CONNECTOR_TYPE
        | Self::MULTI_QUEUE_HEADER
        | Self::SOAP_HEADER;

    /// Whether Flags.DM says recoverable.
    ///
    /// # Errors
    /// For a reserved mode, and for a transactional message that is express.
    pub(in crate::mqqb::wire) fn is_recoverable(&self) -> Result<bool, Malformed> {
        match self.flags & Self::DELIVERY {
            0 if self.has(Self::TRANSACTION_HEADER) => {
                Err(Malformed::because("UserHeader.Flags.DM", "a transactional message can't be express"))
            }
            0 => Ok(false),
            Self::RECOVERABLE => Ok(true),
            mode => Err(Malformed::value("UserHeader.Flags.DM", u64::from(mode >> 5))),
        }
    }

    /// Reads a header when its flag is set.
    pub(in crate::mqqb::wire) fn announces<T>(
        &self,
        flag: u32,
        decode: impl FnOnce() -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.has(flag) { decode().map(Some) } else { Ok(None) }
    }

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = reader.at();
        let source_queue_manager = reader.guid("UserHeader.SourceQueueManager")?;
        let queue_manager_address = reader.guid("UserHeader.QueueManagerAddress")?;
        let time_to_be_received = reader.u32("UserHeader.TimeToBeReceived")?;
        let sent_time = reader.u32("UserHeader.SentTime")?;
        let message_id = reader.u32("UserHeader.MessageID")?;
        let flags = reader.u32("UserHeader.Flags")?;
        let destination = QueueField::decode(QueuePlace::DESTINATION, flags, start, reader)?;
        let admin = QueueField::decode(QueuePlace::ADMIN, flags, start, reader)?;
        let response = QueueField::decode(QueuePlace::RESPONSE, flags, start, reader)?;
        let connector_type = match flags & Self::CONNECTOR_TYPE {
            0 => None,
            _ => Some(reader.guid("UserHeader.ConnectorType")?),
        };
        Ok(Self {
            source_queue_manager,
            queue_manager_address,
            time_to_be_received,
            sent_time,
            message_id,
            flags,
            destination,
            admin,
            response,
            connector_type,
        })
    }

    /// Appends the header, with `headers` as the presence bits of what follows it.
    pub(in crate::mqqb::wire) fn encode(
        &self,
        headers: u32,
        recoverable: bool,
        out: &mut BytesMut,
    ) -> Result<(), Malformed> {
        let start = out.len();
        let mut flags = self.flags & !Self::DERIVED | headers;
        for (place, queue) in self.queues() {
            flags |= u32::from(queue.type_code()) << place.shift;
        }
        if recoverable {
            flags |= Self::RECOVERABLE;
        }
        if self.connector_type.is_some() {
            flags |= Self::CONNECTOR_TYPE;
        }
        out.guid(self.source_queue_manager);
        out.guid(self.queue_manager_address);
        out.put_u32_le(self.time_to_be_received);
        out.put_u32_le(self.sent_time);
        out.put_u32_le(self.message_id);
        out.put_u32_le(flags);
        for (place, queue) in self.queues() {
            queue.encode(place, start, out)?;
        }
        if let Some(connector) = self.connector_type {
            out.guid(connector);
        }
        Ok(())
    }

    const fn queues(&self) -> [(QueuePlace, &QueueField); 3] {
        [
            (QueuePlace::DESTINATION, &self.destination),
            (QueuePlace::ADMIN, &self.admin),
            (QueuePlace::RESPONSE, &self.response),
        ]
    }
}
