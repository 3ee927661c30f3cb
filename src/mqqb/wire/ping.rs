use bytes::BufMut;

use super::Guid;

/// "Would you accept a session?", and the answer (MS-MQQB 2.2.7). Travels by UDP, port 3527.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The 16 flag bits as they came; unused ones are arbitrary.
    pub flags: u16,
    /// Ties the answer to the question.
    pub cookie: u32,
    /// The queue manager that made the packet.
    pub queue_manager: Guid,
}

impl Ping {
    /// The UDP port of an acceptor (2.1.2).
    pub const PORT: u16 = 3527;
    /// Size on the wire.
    pub const SIZE: usize = 2 /* Flags */ + 2 /* Signature */ + 4 /* Cookie */ + 16 /* QMGuid */;
    /// Flags.RC: the initiator is not a server system.
    pub const NOT_A_SERVER: u16 = 1;
    /// Flags.RF: a session would be refused.
    pub const REFUSED: u16 = 1 << 1;

    /// `Signature`.
    pub const SIGNATURE: u16 = 0x5548;

    /// The question of the queue manager `own`, which is a server. `cookie` tells its answer from others (3.1.7.6).
    pub const fn request(own: Guid, cookie: u32) -> Self {
        Self { flags: 0, cookie, queue_manager: own }
    }

    /// Whether this answers `request`; anything else that comes is ignored (3.1.7.8).
    pub const fn answers(&self, request: &Self) -> bool {
        self.cookie == request.cookie
    }

    /// Whether a session would be refused, in an answer.
    pub const fn is_refusal(&self) -> bool {
        self.flags & Self::REFUSED != 0
    }

    /// Reads a datagram; `None` for what is no ping, which is dropped without an answer. Bytes after the ping are
    /// ignored.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let [f0, f1, s0, s1, c0, c1, c2, c3, guid @ ..] = datagram.first_chunk::<{ Self::SIZE }>()?;
        (u16::from_le_bytes([*s0, *s1]) == Self::SIGNATURE).then(|| Self {
            flags: u16::from_le_bytes([*f0, *f1]),
            cookie: u32::from_le_bytes([*c0, *c1, *c2, *c3]),
            queue_manager: Guid::from_wire(*guid),
        })
    }

    /// The datagram.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut datagram = [0; Self::SIZE];
        let mut out = &mut datagram[..];
        out.put_u16_le(self.flags);
        out.put_u16_le(Self::SIGNATURE);
        out.put_u32_le(self.cookie);
        out.put_slice(&self.queue_manager.to_wire());
        datagram
    }

    /// The answer of the queue manager `own`: RC and the cookie as they came.
    #[must_use]
    pub const fn response(&self, own: Guid, refused: bool) -> Self {
        let refused = if refused { Self::REFUSED } else { 0 };
        Self { flags: self.flags & Self::NOT_A_SERVER | refused, cookie: self.cookie, queue_manager: own }
    }
}
