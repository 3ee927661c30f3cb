use bytes::{Bytes, BytesMut};

use super::{Guid, SessionHeader};

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

impl EstablishConnection {
    /// Size on the wire.
    pub const PACKET_SIZE: usize = 16 /* BaseHeader */ + 4 /* InternalHeader */ + 552 /* EstablishConnectionHeader */;

    /// A request, as an initiator sends it.
    pub fn request(client: Guid, server: Guid, timestamp: u32, ping_sent: bool) -> Self {
        let _ = (client, server, timestamp, ping_sent);
        todo!()
    }

    /// The answer to this request, from the queue manager `own` (MS-MQQB 3.1.5.3.1).
    pub fn response(&self, own: Guid, refused: bool) -> Self {
        let _ = (own, refused);
        todo!()
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        let _ = out;
        todo!()
    }
}

impl ConnectionParameters {
    /// Size on the wire.
    pub const PACKET_SIZE: usize = 16 /* BaseHeader */ + 4 /* InternalHeader */ + 12 /* ConnectionParametersHeader */;

    /// A packet as we send it.
    pub fn new(recoverable_ack_timeout: u32, ack_timeout: u32, window_size: u16) -> Self {
        let _ = (recoverable_ack_timeout, ack_timeout, window_size);
        todo!()
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        let _ = out;
        todo!()
    }
}

impl SessionAck {
    /// A packet as we send it.
    pub fn new(header: SessionHeader) -> Self {
        let _ = header;
        todo!()
    }

    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        let _ = out;
        todo!()
    }
}
