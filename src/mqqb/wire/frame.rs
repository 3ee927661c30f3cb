use bytes::{Bytes, BytesMut};

use super::{BaseHeader, Malformed};

/// The largest packet, 4 MiB (`BaseHeader.PacketSize`).
pub const MAX_PACKET_SIZE: u32 = 0x0040_0000;

/// The bytes of exactly one packet, base header checked. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame(Bytes);

impl Frame {
    /// Takes the bytes of one packet.
    ///
    /// # Errors
    /// When they are not exactly one packet.
    pub fn new(bytes: Bytes) -> Result<Self, Malformed> {
        let _ = bytes;
        todo!()
    }

    /// The bytes, a `SessionHeader` outside the packet size included.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The base header.
    pub fn base(&self) -> BaseHeader {
        todo!()
    }
}

/// Cuts a stream of bytes into frames.
///
/// Nothing is allocated for what a packet merely claims: the caller's buffer grows with the bytes that come.
#[derive(Clone, Debug)]
pub struct FrameCutter {
    limit: u32,
}

impl FrameCutter {
    /// A cutter that refuses packets above `limit` bytes; the protocol's own limit holds besides.
    pub fn new(limit: u32) -> Self {
        Self { limit: limit.min(MAX_PACKET_SIZE) }
    }

    /// Takes the next frame off the front of `buffer`; `None` when more bytes must come.
    ///
    /// A user message that carries a `SessionHeader` is walked through to find its end.
    ///
    /// # Errors
    /// When what is there can't be the beginning of a packet. The stream is of no use any more.
    pub fn cut(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
        let _ = (buffer, self.limit);
        todo!()
    }
}
