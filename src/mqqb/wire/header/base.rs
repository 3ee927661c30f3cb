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

    /// Whether every bit of `mask` is set.
    pub const fn has(&self, mask: u16) -> bool {
        self.flags & mask == mask
    }
}
