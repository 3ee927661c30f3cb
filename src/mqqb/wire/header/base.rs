use bytes::{BufMut, BytesMut};

use crate::mqqb::wire::Malformed;

/// What every packet begins with (MS-MQMQ 2.2.19.1).
///
/// The version, the packet signature and the packet size are not fields: they are checked on input and computed on
/// output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseHeader {
    /// Arbitrary on the wire (0xC0 and 0xCD in the published captures); kept, never tested.
    pub reserved: u8,
    /// The 16 flag bits as they came, reserved ones included.
    pub flags: u16,
    /// Seconds the message has, from its sent time, to reach its queue; 0xFFFFFFFF is no limit.
    pub time_to_reach_queue: u32,
}

impl BaseHeader {
    /// Size on the wire.
    pub const SIZE: usize = 1 /* VersionNumber */ + 1 /* Reserved */ + 2 /* Flags */ + 4 /* Signature */
        + 4 /* PacketSize */ + 4 /* TimeToReachQueue */;
    /// No limit, in `time_to_reach_queue` and `time_to_be_received`.
    pub const INFINITE: u32 = 0xFFFF_FFFF;

    /// Flags.PR when a sender does not say otherwise.
    pub const DEFAULT_PRIORITY: u8 = 3;

    /// Flags.IN: the packet belongs to the session itself.
    pub const INTERNAL: u16 = 1 << 3;
    /// Flags.SH: a `SessionHeader` is in the packet.
    pub const SESSION_HEADER: u16 = 1 << 4;
    /// Flags.DH: a `DebugHeader` is in the packet.
    pub const DEBUG_HEADER: u16 = 1 << 5;
    /// Flags.TR: tracing is asked for.
    pub const TRACE: u16 = 1 << 8;

    /// Flags.PR, 0 to 7.
    pub const fn priority(&self) -> u8 {
        (self.flags & 0x7) as u8
    }

    /// Sets Flags.PR; above 7 it is 7.
    pub const fn set_priority(&mut self, priority: u8) {
        let priority = if priority > 7 { 7 } else { priority };
        self.flags = self.flags & !0x7 | priority as u16;
    }

    /// Whether every bit of `mask` is set.
    pub const fn has(&self, mask: u16) -> bool {
        self.flags & mask == mask
    }
}

impl BaseHeader {
    /// `VersionNumber`.
    pub const VERSION: u8 = 0x10;
    /// The packet signature as it stands on the wire, `LIOR`.
    pub const SIGNATURE: [u8; 4] = *b"LIOR";

    /// The offset of `Flags`.
    pub(in crate::mqqb::wire) const FLAGS_AT: usize = 1 /* VersionNumber */ + 1 /* Reserved */;
    /// The offset of `PacketSize`.
    pub(in crate::mqqb::wire) const PACKET_SIZE_AT: usize = Self::FLAGS_AT + 2 /* Flags */ + 4 /* Signature */;

    /// Reads the header and `PacketSize` (MS-MQQB 3.1.5.1.2).
    pub(in crate::mqqb::wire) fn decode(bytes: &[u8; Self::SIZE]) -> Result<(Self, u32), Malformed> {
        let [version, reserved, flags @ .., _, _, _, _, _, _, _, _, _, _, _, _] = bytes;
        let [.., s0, s1, s2, s3, p0, p1, p2, p3, t0, t1, t2, t3] = bytes;
        if *version != Self::VERSION {
            return Err(Malformed::value("BaseHeader.VersionNumber", u64::from(*version)));
        }
        let signature = [*s0, *s1, *s2, *s3];
        if signature != Self::SIGNATURE {
            return Err(Malformed::value("BaseHeader.Signature", u64::from(u32::from_le_bytes(signature))));
        }
        let base = Self {
            reserved: *reserved,
            flags: u16::from_le_bytes(*flags),
            time_to_reach_queue: u32::from_le_bytes([*t0, *t1, *t2, *t3]),
        };
        Ok((base, u32::from_le_bytes([*p0, *p1, *p2, *p3])))
    }

    /// Appends the header.
    pub(in crate::mqqb::wire) fn encode(self, packet_size: u32, out: &mut BytesMut) {
        out.put_u8(Self::VERSION);
        out.put_u8(self.reserved);
        out.put_u16_le(self.flags);
        out.put_slice(&Self::SIGNATURE);
        out.put_u32_le(packet_size);
        out.put_u32_le(self.time_to_reach_queue);
    }
}
