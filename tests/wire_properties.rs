//! What holds for all packets: what is written is read again, and no input does harm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../fuzz/src/oracles.rs"]
#[expect(unreachable_pub, reason = "the fuzz crate shares this file")]
mod oracles;
mod packets;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::wire::{
    FinalAckBody, FormatName, Frame, FrameCutter, MAX_PACKET_SIZE, Malformed, OrderAckBody, Packet, Ping,
    SessionHeader, UserMessage, append_session_header,
};
use packets::strategies;
use proptest::prelude::*;
use serde_json::Value;

fn encoded(packet: &Packet) -> Bytes {
    let mut bytes = BytesMut::new();
    packet.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn decoded(bytes: &Bytes) -> Result<Packet, Malformed> {
    Frame::new(bytes.clone()).and_then(|frame| Packet::decode(&frame))
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_written_message_is_read_as_the_same(message in strategies::user_message()) {
        let packet = Packet::User(Box::new(message));
        let bytes = encoded(&packet);
        prop_assert_eq!(decoded(&bytes), Ok(packet));
    }

    /// The cutter walks over a message with a session header, the decoder reads it: both find the same end.
    #[test]
    fn a_message_is_cut_where_it_ends(message in strategies::user_message(), next in any::<[u8; 24]>()) {
        let bytes = encoded(&Packet::User(Box::new(message)));
        let mut stream = BytesMut::from(&bytes[..]);
        stream.extend_from_slice(&next);
        let frame = FrameCutter::new(MAX_PACKET_SIZE).cut(&mut stream).unwrap().unwrap();
        prop_assert_eq!(frame.bytes(), &bytes);
        prop_assert_eq!(&stream[..], &next);
    }

    #[test]
    fn the_layout_of_a_message_has_no_gaps(message in strategies::user_message()) {
        let mut end = 0;
        for (_, part) in message.layout().unwrap() {
            prop_assert_eq!(part.start, end);
            end = part.end;
        }
        prop_assert_eq!(end, encoded(&Packet::User(Box::new(message))).len());
    }

    /// An acknowledgment can be put on an encoded message without decoding it.
    #[test]
    fn a_session_header_can_be_added_later(
        mut message in strategies::user_message(),
        header in strategies::session_header(),
    ) {
        message.session = None;
        message.trailer.truncate(SessionHeader::SIZE - 1);
        let packet = message.to_packet().unwrap();
        let with_header = UserMessage::decode(&Frame::new(append_session_header(&packet, &header)).unwrap()).unwrap();
        let session = with_header.session.unwrap();
        prop_assert_eq!(session.header, header);
        prop_assert!(!session.counted_in_packet_size);
        prop_assert_eq!(UserMessage { session: None, base: message.base, ..with_header }, message);
    }

    #[test]
    fn a_written_packet_of_the_session_is_read_as_the_same(packet in strategies::internal_packet()) {
        prop_assert_eq!(decoded(&encoded(&packet)), Ok(packet));
    }

    #[test]
    fn a_written_ping_is_read_as_the_same(flags: u16, cookie: u32, queue_manager in strategies::guid()) {
        let ping = Ping { flags, cookie, queue_manager };
        prop_assert_eq!(Ping::decode(&ping.encode()), Some(ping));
    }

    #[test]
    fn a_written_acknowledgment_is_read_as_the_same(body: [u8; OrderAckBody::SIZE]) {
        let body = Bytes::copy_from_slice(&body);
        prop_assert_eq!(OrderAckBody::decode(&body).unwrap().encode(), body.clone());
        prop_assert_eq!(FinalAckBody::decode(&body).unwrap().encode(), body.clone());
        prop_assert!(OrderAckBody::decode(&body.slice(1..)).is_err() && FinalAckBody::decode(&body.slice(1..)).is_err());
    }

    #[test]
    fn a_printed_name_is_read_as_the_same(name in strategies::format_name()) {
        let text = name.to_string();
        prop_assert_eq!(text.parse(), Ok(name.clone()));
        prop_assert_eq!(FormatName::parse_list(&text), Ok(vec![name]));
    }

    #[test]
    fn any_text_is_a_name_or_none(text in strategies::text_like_a_name()) {
        oracles::format_name(text.as_bytes());
    }
}

/// Packets that are right: the captures, and the vectors that decode.
static RIGHT_PACKETS: LazyLock<Vec<Bytes>> = LazyLock::new(|| {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let golden = files(&fixtures.join("golden"), "hex").into_iter().map(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).collect()
    });
    let vectors = files(&fixtures.join("vectors"), "json").into_iter().map(|file| {
        let vector: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        vector["packet"].as_str().unwrap().to_owned()
    });
    let packets: Vec<Bytes> =
        golden.chain(vectors).map(|hex| from_hex(&hex)).filter(|packet| decoded(packet).is_ok()).collect();
    assert!(packets.len() > 290, "the fixtures are there");
    packets
});

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| extension.is_empty() || path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn from_hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What happens to a packet on its way.
#[derive(Clone, Debug)]
enum Harm {
    Flip(prop::sample::Index, u8),
    Overwrite(prop::sample::Index, u32),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 1_u8..).prop_map(|(at, bits)| Harm::Flip(at, bits)),
        2 => (any::<prop::sample::Index>(), prop_oneof![
            Just(0), Just(1), Just(0x7FFF), Just(0xFFFF), Just(0x7FFF_FFFF), Just(0x8000_0000), Just(0xFFFF_FFFF), any::<u32>()
        ]).prop_map(|(at, number)| Harm::Overwrite(at, number)),
        1 => any::<prop::sample::Index>().prop_map(Harm::Cut),
        1 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Harm::Insert(at, byte)),
        1 => any::<prop::sample::Index>().prop_map(Harm::Remove),
    ]
}

impl Harm {
    fn apply(&self, packet: &mut Vec<u8>) {
        if packet.is_empty() {
            return;
        }
        match self {
            Self::Flip(at, bits) => *at.get_mut(packet) ^= bits,
            Self::Overwrite(at, number) => {
                let at = at.index(packet.len());
                for (byte, new) in packet[at..].iter_mut().zip(number.to_le_bytes()) {
                    *byte = new;
                }
            }
            Self::Cut(at) => packet.truncate(at.index(packet.len())),
            Self::Insert(at, byte) => packet.insert(at.index(packet.len()), *byte),
            Self::Remove(at) => drop(packet.remove(at.index(packet.len()))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..config() })]

    /// Each case harms every packet. The sizes are put right half of the time, so that the harm gets past the cutter.
    #[test]
    fn a_harmed_packet_is_refused_or_means_something(
        harms in prop::collection::vec(harm(), 1..4),
        size_is_right: bool,
    ) {
        for packet in RIGHT_PACKETS.iter().filter(|packet| packet.len() < 4096) {
            let mut packet = packet.to_vec();
            for harm in &harms {
                harm.apply(&mut packet);
            }
            if size_is_right && packet.len() >= 16 {
                packet[0] = 0x10;
                packet[4..8].copy_from_slice(b"LIOR");
                let size = packet.len() as u32;
                packet[8..12].copy_from_slice(&size.to_le_bytes());
            }
            oracles::packet(&packet);
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        oracles::all(&noise.into());
    }
}

/// Every field that says how long something is, in a packet of every shape that there is among the right ones.
#[test]
fn a_wrong_length_is_refused_or_means_something() {
    let (mut shapes, mut tried) = (Vec::new(), 0);
    for packet in RIGHT_PACKETS.iter() {
        let Ok(Packet::User(message)) = decoded(packet) else { continue };
        let fields = packets::length_fields(&message);
        let shape: Vec<_> = fields.iter().map(|(field, ..)| *field).collect();
        if shapes.contains(&shape) {
            continue;
        }
        shapes.push(shape);
        for (field, at, width) in fields {
            let exact = packet[at..at + width].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            let near = [exact.wrapping_sub(4), exact.wrapping_sub(1), exact + 1, exact + 2, exact + 4];
            for wrong in near.into_iter().chain([0, 1, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]) {
                let mut harmed = packet.to_vec();
                harmed[at..at + width].copy_from_slice(&wrong.to_le_bytes()[..width]);
                oracles::packet(&harmed);
                tried += 1;
            }
            // The field is where it is said to be, or nothing above means anything.
            let mut harmed = packet.to_vec();
            harmed[at..at + width].fill(0xFF);
            let allocation_only = field == "AllocationBodySize";
            assert_eq!(decoded(&harmed.into()).is_ok(), allocation_only, "{field} at {at} of {message:?}");
        }
    }
    assert!(shapes.len() > 12 && tried > 2000, "{} shapes, {tried} lengths", shapes.len());
}

/// Inputs that the fuzzer was seeded with, or once found something with.
#[test]
fn the_corpora_hold() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut count = 0;
    for (target, oracle) in
        [("frame", oracles::frame as fn(&[u8])), ("packet", oracles::packet), ("format_name", oracles::format_name)]
    {
        for file in files(&corpus.join(target), "") {
            oracle(&std::fs::read(file).unwrap());
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}
