use bytes::{Bytes, BytesMut};

use super::internal::InternalHeader;
use super::{BaseHeader, Malformed, MessageProperties, SessionAck, SessionHeader, UserHeader, UserMessage, walk};

/// The largest packet, 4 MiB (`BaseHeader.PacketSize`).
pub const MAX_PACKET_SIZE: u32 = 0x0040_0000;

/// The smallest packet of the session's own.
const LEAST_INTERNAL_SIZE: usize = BaseHeader::SIZE + InternalHeader::SIZE;
/// The smallest user message.
const LEAST_USER_SIZE: usize = BaseHeader::SIZE + UserHeader::FIXED_SIZE + MessageProperties::FIXED_SIZE;

/// The bytes of exactly one packet, base header checked. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    bytes: Bytes,
    base: BaseHeader,
    packet_size: usize,
}

impl Frame {
    /// Takes the bytes of one packet.
    ///
    /// # Errors
    /// When they are not exactly one packet.
    pub fn new(bytes: Bytes) -> Result<Self, Malformed> {
        let Some(extent) = Extent::of(&bytes, MAX_PACKET_SIZE)? else {
            return Err(Malformed::because("BaseHeader.PacketSize", "more than there is"));
        };
        if extent.length != bytes.len() {
            return Err(Malformed::because("BaseHeader.PacketSize", "less than there is"));
        }
        Ok(Self { bytes, base: extent.base, packet_size: extent.packet_size })
    }

    /// The bytes, a `SessionHeader` outside the packet size included.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The base header.
    pub const fn base(&self) -> BaseHeader {
        self.base
    }

    /// `BaseHeader.PacketSize`, which may leave out 16 bytes of `SessionHeader` at the end.
    pub const fn packet_size(&self) -> usize {
        self.packet_size
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
        let Some(Extent { base, packet_size, length }) = Extent::of(buffer, self.limit)? else {
            return Ok(None);
        };
        Ok(Some(Frame { bytes: buffer.split_to(length).freeze(), base, packet_size }))
    }
}

/// How far a packet reaches.
struct Extent {
    base: BaseHeader,
    /// As the packet says.
    packet_size: usize,
    /// What is on the wire.
    length: usize,
}

impl Extent {
    /// Measures the packet that `bytes` begin with; `None` when more bytes must come.
    fn of(bytes: &[u8], limit: u32) -> Result<Option<Self>, Malformed> {
        let Some(header) = bytes.first_chunk() else {
            return Ok(None);
        };
        let (base, packet_size) = BaseHeader::decode(header)?;
        let internal = base.has(BaseHeader::INTERNAL);
        let least = if internal { LEAST_INTERNAL_SIZE } else { LEAST_USER_SIZE };
        let size = packet_size as usize;
        if size < least || packet_size > limit {
            return Err(Malformed::size("BaseHeader.PacketSize", packet_size.into(), least as u64, limit.into()));
        }
        let Some(packet) = bytes.get(..size) else {
            return Ok(None);
        };
        let length = match base.has(BaseHeader::SESSION_HEADER) {
            false => size,
            true if internal => SessionAck::length(size),
            true => {
                let end = walk::end_of_headers(packet).map_err(|error| exact(base, packet).unwrap_or(error))?;
                let left = size - end;
                // When 16 bytes are left they are the SessionHeader, else it follows.
                if left < SessionHeader::SIZE { size + SessionHeader::SIZE } else { size }
            }
        };
        Ok((length <= bytes.len()).then_some(Self { base, packet_size: size, length }))
    }
}

/// What the decoder says about a message that could not be walked through: it names the field, the walk only the
/// header. The session is lost, so the copy matters to nobody.
fn exact(base: BaseHeader, packet: &[u8]) -> Option<Malformed> {
    let frame = Frame { bytes: Bytes::copy_from_slice(packet), base, packet_size: packet.len() };
    UserMessage::decode(&frame).err()
}
