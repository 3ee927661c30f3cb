use crate::mqqb::wire::{Guid, QueueField};

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
