//! What must hold for any input.

use bytes::{Bytes, BytesMut};
use mqbridge::admin::describe::decode_file;
use mqbridge::mqqb::wire::{FormatName, Frame, FrameCutter, MAX_PACKET_SIZE, Malformed, Packet};

/// However a stream arrives, the same frames come out of it, in order, and nothing else.
///
/// The first byte of the input says in which portions the rest arrives.
pub fn frame(input: &[u8]) {
    let Some((portion, stream)) = input.split_first() else {
        return;
    };
    let (whole, whole_end) = cut(stream, stream.len().max(1));
    let (portions, portions_end) = cut(stream, usize::from(*portion) + 1);
    assert_eq!(whole, portions, "the portions don't matter");
    assert_eq!(whole_end, portions_end, "nor for what is left");
    let mut at = 0;
    for frame in &whole {
        let bytes = frame.bytes();
        assert_eq!(stream.get(at..at + bytes.len()), Some(&bytes[..]), "frames follow one another");
        assert_eq!(Frame::new(bytes.clone()).as_ref(), Ok(frame), "a frame is exactly one packet");
        at += bytes.len();
    }
}

/// All frames of a stream that arrives in portions of that size, and how it ends: bytes that wait, or an error.
fn cut(stream: &[u8], portion: usize) -> (Vec<Frame>, Result<usize, Malformed>) {
    let cutter = FrameCutter::new(MAX_PACKET_SIZE);
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    for bytes in stream.chunks(portion) {
        buffer.extend_from_slice(bytes);
        loop {
            match cutter.cut(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    (frames, Ok(buffer.len()))
}

/// What decodes encodes to the same bytes, and those decode to the same packet. Everything can be shown.
pub fn packet(input: &[u8]) {
    let mut buffer = BytesMut::from(input);
    let Ok(Some(frame)) = FrameCutter::new(MAX_PACKET_SIZE).cut(&mut buffer) else {
        return;
    };
    if let Ok(packet) = Packet::decode(&frame) {
        let mut encoded = BytesMut::new();
        assert_eq!(packet.encode(&mut encoded), Ok(()), "what was decoded can be encoded");
        assert_eq!(encoded, frame.bytes(), "to the same bytes");
        let again = Frame::new(encoded.freeze()).and_then(|frame| Packet::decode(&frame));
        assert_eq!(again.as_ref(), Ok(&packet), "which mean the same");
        if let Packet::User(message) = &packet {
            let layout = message.layout().unwrap_or_default();
            assert_eq!(layout.last().map(|(_, part)| part.end), Some(frame.bytes().len()), "the layout covers it");
            let _ = (message.kind(), message.destination(), message.admin_queue(), message.response_queue());
        }
    }
    for piece in decode_file(frame.bytes()).unwrap_or_default() {
        assert!(!piece.to_text().is_empty(), "it can be shown");
    }
}

/// What is read as a name is printed as a text that is read as the same name.
pub fn format_name(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(names) = FormatName::parse_list(text) {
        for name in names {
            assert_eq!(name.to_string().parse().as_ref(), Ok(&name), "{text:?} is printed as {name}");
        }
    }
    if let Ok(name) = FormatName::parse_direct(text) {
        assert_eq!(FormatName::parse_direct(&name.to_string()).as_ref(), Ok(&name), "{text:?} is printed as {name}");
    }
}

/// The input as the fuzzer hands it over, for the tests.
pub fn all(input: &Bytes) {
    frame(input);
    packet(input);
    format_name(input);
}
