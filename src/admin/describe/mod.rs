//! Packets in words: what `mqbridge decode` prints.
//!
//! [`decode_file`] takes what people have at hand — the payload of a capture, or its hex text — finds the packets in
//! it, and gives each as JSON or as indented text. Field names are those of the published test vectors.

mod json;
mod names;
mod text;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::mqqb::wire::{Frame, FrameCutter, MAX_PACKET_SIZE, Malformed, Packet, Ping};

/// A piece of a file: one packet, or what stands where a packet should be.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where it begins in the bytes of the file. In hex text, bytes are counted, not digits.
    pub offset: usize,
    /// How many bytes it has.
    pub length: usize,
    /// What it is.
    pub content: Content,
}

/// What a [`Piece`] is.
#[derive(Clone, Debug)]
pub enum Content {
    /// A packet of a session, with the bytes it was read from.
    Packet(Box<Packet>, Frame),
    /// A datagram of the ping service.
    Ping(Ping),
    /// A packet that breaks the layout.
    Malformed(Malformed),
    /// The beginning of a packet whose end is missing.
    Incomplete,
}

/// A file that is neither packets nor their hex text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPackets {
    /// There is nothing in it.
    #[error("there are no bytes to decode")]
    Empty,
    /// Hex text of which half a byte is missing.
    #[error("the hex text has an odd number of digits ({0}): one is missing or too many")]
    OddDigits(usize),
}

/// Finds the packets in a file: raw bytes, or hex text in which white space is free and `#` begins a comment.
///
/// After a packet that can't be delimited nothing more is looked for; the last piece says so. Datagrams of the ping
/// service are recognised too.
///
/// # Errors
/// When there is nothing to decode, or the hex text is not whole bytes.
pub fn decode_file(file: &[u8]) -> Result<Vec<Piece>, NotPackets> {
    let bytes = match hex_text(file)? {
        Some(bytes) => bytes,
        None => Bytes::copy_from_slice(file),
    };
    if bytes.is_empty() {
        return Err(NotPackets::Empty);
    }
    Ok(cut(&bytes))
}

/// The bytes that a hex text stands for; `None` when the file is none.
fn hex_text(file: &[u8]) -> Result<Option<Bytes>, NotPackets> {
    let mut digits = Vec::new();
    for line in file.split(|byte| *byte == b'\n') {
        let written = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        for byte in written {
            match char::from(*byte).to_digit(16) {
                Some(digit) => digits.push(digit as u8),
                None if byte.is_ascii_whitespace() => {}
                None => return Ok(None),
            }
        }
    }
    if !digits.len().is_multiple_of(2) {
        return Err(NotPackets::OddDigits(digits.len()));
    }
    let byte = |pair: &[u8]| pair.iter().fold(0, |byte, digit| byte << 4 | digit);
    Ok(Some(digits.chunks_exact(2).map(byte).collect()))
}

fn cut(bytes: &Bytes) -> Vec<Piece> {
    let cutter = FrameCutter::new(MAX_PACKET_SIZE);
    let mut buffer = BytesMut::from(&bytes[..]);
    let mut pieces = Vec::new();
    while !buffer.is_empty() {
        let offset = bytes.len() - buffer.len();
        let left = buffer.len();
        let (length, content) = match cutter.cut(&mut buffer) {
            Ok(Some(frame)) => {
                let length = frame.bytes().len();
                match Packet::decode(&frame) {
                    Ok(packet) => (length, Content::Packet(Box::new(packet), frame)),
                    Err(error) => (length, Content::Malformed(error)),
                }
            }
            // A ping has neither the version nor the signature of a packet, so nothing is both.
            other => match (Ping::decode(&buffer), other) {
                (Some(ping), _) => {
                    let _ = buffer.split_to(Ping::SIZE);
                    (Ping::SIZE, Content::Ping(ping))
                }
                (None, Err(error)) => {
                    buffer.clear();
                    (left, Content::Malformed(error))
                }
                (None, Ok(_)) => {
                    buffer.clear();
                    (left, Content::Incomplete)
                }
            },
        };
        pieces.push(Piece { offset, length, content });
    }
    pieces
}

impl Piece {
    /// The piece as a JSON object: `offset`, `length`, and the fields of the packet or an `error`.
    pub fn to_json(&self) -> Value {
        let mut piece = json!({ "offset": self.offset, "length": self.length });
        let content = match &self.content {
            Content::Packet(packet, frame) => packet_to_json(packet, frame),
            Content::Ping(ping) => ping_to_json(ping),
            Content::Malformed(error) => json!({
                "error": { "kind": "malformed", "field": error.field, "why": error.reason.to_string() }
            }),
            Content::Incomplete => json!({
                "error": { "kind": "incomplete", "why": "the file ends before the packet does" }
            }),
        };
        if let (Value::Object(piece), Value::Object(content)) = (&mut piece, content) {
            piece.extend(content);
        }
        piece
    }

    /// The piece as indented text.
    pub fn to_text(&self) -> String {
        text::render(&self.to_json())
    }
}

/// A packet as a JSON object.
///
/// Enumerations are objects of `name` and `number`, flags have each bit under its own name, GUIDs are given as text
/// and as the bytes of the wire, long byte strings as size and SHA-256.
pub fn packet_to_json(packet: &Packet, frame: &Frame) -> Value {
    json::packet(packet, frame)
}

/// A datagram of the ping service as a JSON object.
pub fn ping_to_json(ping: &Ping) -> Value {
    json::ping(ping)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const PING: &str = "01 7d 48 55 f3 02 67 32  98 0b 11 a9 8a 37 cb 46 b7 b6 af 62 2c c5 e7 1a";

    fn kinds(file: &[u8]) -> Vec<(usize, usize, Value)> {
        let piece = |piece: Piece| {
            let json = piece.to_json();
            (piece.offset, piece.length, json.get("kind").unwrap_or(&json["error"]["kind"]).clone())
        };
        decode_file(file).unwrap().into_iter().map(piece).collect()
    }

    fn parameters() -> Bytes {
        let mut packet = BytesMut::new();
        crate::mqqb::wire::ConnectionParameters::new(500, 20_000, 64).encode(&mut packet);
        packet.freeze()
    }

    #[test]
    fn hex_text_and_raw_bytes_are_told_apart() {
        let text = format!("# frame 1\n{PING} # the cookie\n\n");
        assert_eq!(kinds(text.as_bytes()), [(0, 24, json!("Ping"))]);
        let raw = hex_text(PING.as_bytes()).unwrap().unwrap();
        assert_eq!(kinds(&raw), [(0, 24, json!("Ping"))]);
    }

    #[test]
    fn packets_follow_one_another() {
        let ping = hex_text(PING.as_bytes()).unwrap().unwrap();
        let packet = parameters();
        let file = [&packet[..], &ping, &packet, &packet[..20]].concat();
        let (whole, ping) = (json!("ConnectionParameters"), json!("Ping"));
        assert_eq!(
            kinds(&file),
            [(0, 32, whole.clone()), (32, 24, ping), (56, 32, whole), (88, 20, json!("incomplete"))]
        );
    }

    #[test]
    fn a_malformed_packet_is_shown_with_its_place() {
        let mut unknown_type = BytesMut::from(&parameters()[..]);
        unknown_type[18] = 4;
        let file = [&parameters()[..], &unknown_type, &parameters(), b"GET / HTTP/1.1\r\n"].concat();
        let pieces = decode_file(&file).unwrap();
        assert_eq!(pieces.iter().map(|piece| piece.offset).collect::<Vec<_>>(), [0, 32, 64, 96]);
        assert_eq!(pieces[1].to_json()["error"]["field"], "InternalHeader.Flags.PT");
        assert_eq!(pieces[3].to_json()["error"]["field"], "BaseHeader.VersionNumber");
        assert!(pieces[3].to_text().starts_with("malformed packet at byte 96"), "{}", pieces[3].to_text());
    }

    #[test]
    fn half_a_byte_and_nothing_are_no_packets() {
        assert_eq!(decode_file(b"10 C").unwrap_err(), NotPackets::OddDigits(3));
        assert_eq!(decode_file(b"# nothing\n").unwrap_err(), NotPackets::Empty);
    }
}
