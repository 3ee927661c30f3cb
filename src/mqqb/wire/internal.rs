use bytes::{BufMut, Bytes, BytesMut};

use super::reader::Reader;
use super::writer::Write;
use super::{BaseHeader, Guid, Malformed, SessionHeader};

/// What the session's own packets begin with, after the base header (MS-MQQB 2.2.1). The packet type is the Rust type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InternalHeader {
    /// `BaseHeader.Reserved`: arbitrary, kept.
    pub base_reserved: u8,
    /// The bits of `BaseHeader.Flags` as they came, IN and SH included.
    pub base_flags: u16,
    /// `BaseHeader.TimeToReachQueue`.
    pub time_to_reach_queue: u32,
    /// `InternalHeader.Reserved`: kept, never tested.
    pub reserved: u16,
    /// The bits of `InternalHeader.Flags` but PT and CS.
    pub unused_flags: u16,
    /// Flags.CS: the connection is refused.
    pub refused: bool,
}

/// Opens a session, or answers (MS-MQQB 2.2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstablishConnection {
    /// What precedes it.
    pub internal: InternalHeader,
    /// `ClientGuid`: the initiator.
    pub client: Guid,
    /// `ServerGuid`: the acceptor; null in a request for a direct name.
    pub server: Guid,
    /// Milliseconds by the initiator's own count; the answer repeats it.
    pub timestamp: u32,
    /// `OperatingSystem`.
    pub operating_system: OperatingSystem,
    /// Kept, never tested.
    pub reserved: u16,
    /// 512 bytes: 0x5A in an answer, arbitrary in a request.
    pub padding: Bytes,
}

/// The flags of `EstablishConnectionHeader.OperatingSystem`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatingSystem(pub u16);

impl OperatingSystem {
    /// The low byte that must be set.
    pub const RESERVED_LOW_BYTE: u16 = 0x10;
    /// SE: no ping was sent before.
    pub const NO_PING_SENT: u16 = 1 << 8;
    /// OS: a server system.
    pub const SERVER: u16 = 1 << 9;
    /// QS: the transport guarantees a quality of service.
    pub const QUALITY_OF_SERVICE: u16 = 1 << 10;
}

/// The session's time-outs and window, or the answer (MS-MQQB 2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// What precedes it.
    pub internal: InternalHeader,
    /// Milliseconds before a recoverable message is acknowledged, 500 to 120 000.
    pub recoverable_ack_timeout: u32,
    /// Milliseconds to wait for an acknowledgment before closing, 20 000 to 120 000.
    pub ack_timeout: u32,
    /// Kept, never tested.
    pub reserved: u16,
    /// How many messages may be unacknowledged.
    pub window_size: u16,
}

/// A stand-alone session acknowledgment (MS-MQQB 2.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionAck {
    /// What precedes it.
    pub internal: InternalHeader,
    /// The acknowledgment.
    pub header: SessionHeader,
    /// Whether `PacketSize` counts the `SessionHeader`: yes in the capture and in what we send.
    pub counted_in_packet_size: bool,
}

impl InternalHeader {
    /// Size on the wire.
    pub const SIZE: usize = 2 /* Reserved */ + 2 /* Flags */;
    /// Flags.PT.
    const PACKET_TYPE: u16 = 0xF;
    /// Flags.CS.
    const REFUSED: u16 = 1 << 4;
    /// Flags.PT of a `SessionAck`.
    pub const SESSION_ACK: u16 = 0x1;
    /// Flags.PT of an `EstablishConnection`.
    pub const ESTABLISH_CONNECTION: u16 = 0x2;
    /// Flags.PT of a `ConnectionParameters`.
    pub const CONNECTION_PARAMETERS: u16 = 0x3;

    /// The header of a packet that we make.
    const fn new(base_flags: u16, refused: bool) -> Self {
        Self {
            base_reserved: 0,
            base_flags: base_flags | BaseHeader::DEFAULT_PRIORITY as u16,
            time_to_reach_queue: BaseHeader::INFINITE,
            reserved: 0,
            unused_flags: 0,
            refused,
        }
    }

    /// Reads the header, and the packet type with it.
    pub(super) fn decode(base: BaseHeader, reader: &mut Reader<'_>) -> Result<(Self, u16), Malformed> {
        let reserved = reader.u16("InternalHeader.Reserved")?;
        let flags = reader.u16("InternalHeader.Flags")?;
        let header = Self {
            base_reserved: base.reserved,
            base_flags: base.flags,
            time_to_reach_queue: base.time_to_reach_queue,
            reserved,
            unused_flags: flags & !Self::PACKET_TYPE & !Self::REFUSED,
            refused: flags & Self::REFUSED != 0,
        };
        Ok((header, flags & Self::PACKET_TYPE))
    }

    /// Appends the base header and this one.
    fn encode(&self, packet_type: u16, packet_size: u32, more_flags: u16, out: &mut BytesMut) {
        let base = BaseHeader {
            reserved: self.base_reserved,
            flags: self.base_flags | BaseHeader::INTERNAL | more_flags,
            time_to_reach_queue: self.time_to_reach_queue,
        };
        base.encode(packet_size, out);
        out.put_u16_le(self.reserved);
        out.put_u16_le(self.flags(packet_type));
    }

    /// `InternalHeader.Flags` as a whole.
    pub const fn flags(&self, packet_type: u16) -> u16 {
        let refused = if self.refused { Self::REFUSED } else { 0 };
        self.unused_flags & !Self::PACKET_TYPE & !Self::REFUSED | packet_type | refused
    }
}

/// The size of a packet that has only one.
fn check_size(found: usize, size: usize) -> Result<(), Malformed> {
    if found == size {
        return Ok(());
    }
    Err(Malformed::size("BaseHeader.PacketSize", found as u64, size as u64, size as u64))
}

impl EstablishConnection {
    /// Size on the wire.
    pub const PACKET_SIZE: usize = BaseHeader::SIZE + InternalHeader::SIZE + 16 /* ClientGuid */ + 16 /* ServerGuid */
        + 4 /* TimeStamp */ + 2 /* OperatingSystem */ + 2 /* Reserved */ + Self::PADDING.len();
    /// `Padding` as we send it, which an answer must have.
    const PADDING: &[u8; 512] = &[0x5A; 512];

    /// A request, as an initiator sends it. `timestamp` counts milliseconds from any start.
    pub fn request(client: Guid, server: Guid, timestamp: u32, ping_sent: bool) -> Self {
        let no_ping_sent = if ping_sent { 0 } else { OperatingSystem::NO_PING_SENT };
        Self {
            internal: InternalHeader::new(BaseHeader::INTERNAL, false),
            client,
            server,
            timestamp,
            operating_system: OperatingSystem(
                OperatingSystem::RESERVED_LOW_BYTE | OperatingSystem::SERVER | no_ping_sent,
            ),
            reserved: 0,
            padding: Bytes::from_static(Self::PADDING),
        }
    }

    /// The answer to this request, from the queue manager `own` (MS-MQQB 3.1.5.3.1).
    ///
    /// `own` is named also when a request was meant for another queue manager.
    #[must_use]
    pub fn response(&self, own: Guid, refused: bool) -> Self {
        let echoed = self.operating_system.0 & OperatingSystem::NO_PING_SENT;
        Self {
            internal: InternalHeader::new(BaseHeader::INTERNAL, refused),
            client: self.client,
            server: own,
            timestamp: self.timestamp,
            operating_system: OperatingSystem(OperatingSystem::RESERVED_LOW_BYTE | OperatingSystem::SERVER | echoed),
            reserved: 0,
            padding: Bytes::from_static(Self::PADDING),
        }
    }

    /// Reads what follows the internal header.
    pub(super) fn decode(internal: InternalHeader, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_size(reader.at() + reader.left(), Self::PACKET_SIZE)?;
        Ok(Self {
            internal,
            client: reader.guid("EstablishConnectionHeader.ClientGuid")?,
            server: reader.guid("EstablishConnectionHeader.ServerGuid")?,
            timestamp: reader.u32("EstablishConnectionHeader.TimeStamp")?,
            operating_system: OperatingSystem(reader.u16("EstablishConnectionHeader.OperatingSystem")?),
            reserved: reader.u16("EstablishConnectionHeader.Reserved")?,
            padding: reader.bytes(Self::PADDING.len() as u64, "EstablishConnectionHeader.Padding")?,
        })
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        self.internal.encode(InternalHeader::ESTABLISH_CONNECTION, Self::PACKET_SIZE as u32, 0, out);
        out.guid(self.client);
        out.guid(self.server);
        out.put_u32_le(self.timestamp);
        out.put_u16_le(self.operating_system.0);
        out.put_u16_le(self.reserved);
        let padding = self.padding.get(..self.padding.len().min(Self::PADDING.len())).unwrap_or_default();
        out.put_slice(padding);
        out.put_bytes(0x5A, Self::PADDING.len() - padding.len());
    }
}

impl OperatingSystem {
    /// Whether every bit of `mask` is set.
    pub const fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }
}

impl ConnectionParameters {
    /// Size on the wire.
    pub const PACKET_SIZE: usize = BaseHeader::SIZE + InternalHeader::SIZE + 4 /* RecoverableAckTimeout */
        + 4 /* AckTimeout */ + 2 /* Reserved */ + 2 /* WindowSize */;

    /// A packet as we send it. The time-outs are milliseconds.
    pub fn new(recoverable_ack_timeout: u32, ack_timeout: u32, window_size: u16) -> Self {
        let internal = InternalHeader::new(BaseHeader::INTERNAL, false);
        Self { internal, recoverable_ack_timeout, ack_timeout, reserved: 0, window_size }
    }

    /// Reads what follows the internal header.
    pub(super) fn decode(internal: InternalHeader, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_size(reader.at() + reader.left(), Self::PACKET_SIZE)?;
        Ok(Self {
            internal,
            recoverable_ack_timeout: reader.u32("ConnectionParametersHeader.RecoverableAckTimeout")?,
            ack_timeout: reader.u32("ConnectionParametersHeader.AckTimeout")?,
            reserved: reader.u16("ConnectionParametersHeader.Reserved")?,
            window_size: reader.u16("ConnectionParametersHeader.WindowSize")?,
        })
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        self.internal.encode(InternalHeader::CONNECTION_PARAMETERS, Self::PACKET_SIZE as u32, 0, out);
        out.put_u32_le(self.recoverable_ack_timeout);
        out.put_u32_le(self.ack_timeout);
        out.put_u16_le(self.reserved);
        out.put_u16_le(self.window_size);
    }
}

impl SessionAck {
    /// Size of what precedes the `SessionHeader`.
    const FIXED_SIZE: usize = BaseHeader::SIZE + InternalHeader::SIZE;
    /// Size on the wire.
    pub const PACKET_SIZE: usize = Self::FIXED_SIZE + SessionHeader::SIZE;

    /// A packet as we send it.
    pub fn new(header: SessionHeader) -> Self {
        let internal = InternalHeader::new(BaseHeader::INTERNAL | BaseHeader::SESSION_HEADER, false);
        Self { internal, header, counted_in_packet_size: true }
    }

    /// How many bytes the packet has, by its `PacketSize`.
    pub(super) const fn length(packet_size: usize) -> usize {
        if packet_size == Self::FIXED_SIZE { Self::PACKET_SIZE } else { packet_size }
    }

    /// Reads what follows the internal header of a packet that says to have `packet_size` bytes.
    pub(super) fn decode(
        internal: InternalHeader,
        packet_size: usize,
        reader: &mut Reader<'_>,
    ) -> Result<Self, Malformed> {
        if internal.base_flags & BaseHeader::SESSION_HEADER == 0 {
            return Err(Malformed::because("BaseHeader.Flags.SH", "a SessionAck must have it set"));
        }
        check_size(reader.at() + reader.left(), Self::PACKET_SIZE)?;
        let counted_in_packet_size = packet_size == Self::PACKET_SIZE;
        Ok(Self { internal, header: SessionHeader::read(reader)?, counted_in_packet_size })
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        let size = if self.counted_in_packet_size { Self::PACKET_SIZE } else { Self::FIXED_SIZE };
        self.internal.encode(InternalHeader::SESSION_ACK, size as u32, BaseHeader::SESSION_HEADER, out);
        self.header.encode_into(out);
    }
}
