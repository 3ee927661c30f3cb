//! Every published test vector gets its verdict, every field that a decoder can know, and the same bytes again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use mqbridge::admin::describe::{packet_to_json, ping_to_json};
use mqbridge::mqqb::wire::{Frame, FrameCutter, MAX_PACKET_SIZE, Malformed, Packet, Ping};
use proptest::prelude::*;
use serde_json::Value;

/// How many vectors there are of each verdict.
const VERDICTS: [(&str, usize); 6] =
    [("accept", 234), ("either", 6), ("ignore", 2), ("incomplete", 5), ("malformed", 105), ("reject", 59)];

/// The fields under `expect` that are not compared with what the decoder finds, and why. Everything else is.
const NOT_DECODED: [(&str, &str); 11] = [
    ("verdict", "what this test concludes"),
    ("error", "compared by `malformed_packets_are_refused_for_the_field_that_is_wrong`"),
    ("reencodes", "what this test does"),
    ("signature", "needs certificates and the directory"),
    ("authenticated_as", "needs certificates and the directory"),
    ("encryption", "needs private keys"),
    ("plain_body", "needs private keys"),
    ("admin_ack", "what the receiver's policy answers, not what is in the packet"),
    ("answers", "the name of another vector"),
    ("attacks", "the name of another vector"),
    ("remarks", "words for people"),
];

/// How the vectors shorten a long byte string; size and SHA-256 are there as well.
const REPEATED_UNIT: &str = "repeat";

/// Malformed vectors in which the decoder stumbles over another field than the one that was changed, since a wrong
/// size moves everything behind it or another rule is broken first.
const ANOTHER_FIELD: [(&str, &str); 34] = [
    ("bad-announced-connector-type", "MessagePropertiesHeader.PrivacyLevel"),
    ("bad-announced-multi-queue", "MQFAddressHeader.HeaderSize"),
    ("bad-announced-transaction", "UserHeader.Flags.DM"),
    ("bad-count-admin-zero", "UserHeader.AdminQueue"),
    ("bad-count-dest-minus", "UserHeader.DestinationQueue"),
    ("bad-count-dest-plus", "UserHeader.DestinationQueue"),
    ("bad-count-dest-zero", "UserHeader.DestinationQueue"),
    ("bad-count-response-plus", "UserHeader.ResponseQueue"),
    ("bad-cut-after-base", "BaseHeader.PacketSize"),
    ("bad-cut-after-soap", "MQFAddressHeader.HeaderSize"),
    ("bad-cut-inside-multiqueueformat", "MQFAddressHeader.HeaderSize"),
    ("bad-cut-inside-user", "BaseHeader.PacketSize"),
    ("bad-establish-short", "BaseHeader.PacketSize"),
    ("bad-extension-size-plus", "MessagePropertiesHeader.MessageSize"),
    ("bad-label-length-minus", "MessagePropertiesHeader.Label"),
    ("bad-label-length-plus", "MessagePropertiesHeader.Label"),
    ("bad-list-size-minus", "MQFFormatNameElement.FormatName"),
    ("bad-list-size-plus", "MQFAddressHeader.ElementCount"),
    ("bad-packet-size-minus-1", "MessagePropertiesHeader.MessageSize"),
    ("bad-parameters-short", "BaseHeader.PacketSize"),
    ("bad-security-size-certificate-minus", "MessagePropertiesHeader.Label"),
    ("bad-security-size-certificate-plus", "MessagePropertiesHeader.Label"),
    ("bad-security-size-certificate-zero", "MessagePropertiesHeader.Label"),
    ("bad-security-size-key-minus", "MessagePropertiesHeader.ExtensionSize"),
    ("bad-security-size-key-plus", "MessagePropertiesHeader.ExtensionSize"),
    ("bad-security-size-key-zero", "MessagePropertiesHeader.Label"),
    ("bad-security-size-sender-id-zero", "MessagePropertiesHeader.Label"),
    ("bad-security-size-signature-minus", "MessagePropertiesHeader.LabelLength"),
    ("bad-security-size-signature-plus", "MessagePropertiesHeader.Label"),
    ("bad-security-size-signature-zero", "MessagePropertiesHeader.LabelLength"),
    ("bad-session-ack-short", "BaseHeader.PacketSize"),
    ("bad-soap-length-body-zero", "MQFAddressHeader.HeaderID"),
    ("bad-soap-length-header-minus", "SoapHeader.Header"),
    ("bad-soap-length-header-zero", "SoapHeader.BodySectionID"),
];

struct Vector {
    name: String,
    packet: Bytes,
    is_datagram: bool,
    expect: Value,
}

impl Vector {
    fn verdict(&self) -> &str {
        self.expect["verdict"].as_str().unwrap()
    }
}

fn vectors() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors");
    let mut vectors: Vec<Vector> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let packet = from_hex(json["packet"].as_str().unwrap());
            assert_eq!(json["packet_length"], packet.len(), "{}", path.display());
            Vector {
                name: json["name"].as_str().unwrap().to_owned(),
                packet,
                is_datagram: json["transport"] == "udp",
                expect: json["expect"].take(),
            }
        })
        .collect();
    vectors.sort_by(|a, b| a.name.cmp(&b.name));
    vectors
}

fn from_hex(text: &str) -> Bytes {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// What a receiver makes of bytes that arrive on a session.
#[derive(Debug)]
enum Outcome {
    Decoded(Box<Packet>, Frame),
    Malformed(Malformed),
    Incomplete,
}

fn receive(packet: &Bytes) -> Outcome {
    let mut buffer = BytesMut::from(&packet[..]);
    match FrameCutter::new(MAX_PACKET_SIZE).cut(&mut buffer) {
        Ok(None) => Outcome::Incomplete,
        Ok(Some(frame)) => match Packet::decode(&frame) {
            Ok(decoded) => {
                assert!(buffer.is_empty(), "the packet takes all its bytes");
                Outcome::Decoded(Box::new(decoded), frame)
            }
            Err(error) => Outcome::Malformed(error),
        },
        Err(error) => Outcome::Malformed(error),
    }
}

#[test]
fn there_are_as_many_vectors_as_published() {
    let mut counts = BTreeMap::new();
    for vector in vectors() {
        *counts.entry(vector.verdict().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(counts, VERDICTS.map(|(verdict, count)| (verdict.to_owned(), count)).into());
}

#[test]
fn every_vector_gets_its_verdict() {
    for vector in vectors() {
        let name = &vector.name;
        if vector.is_datagram {
            assert_eq!(Ping::decode(&vector.packet).is_none(), vector.verdict() == "ignore", "{name}");
            continue;
        }
        let outcome = receive(&vector.packet);
        let right = match vector.verdict() {
            "accept" | "reject" => matches!(outcome, Outcome::Decoded(..)),
            "either" => matches!(outcome, Outcome::Decoded(..) | Outcome::Malformed(_)),
            "malformed" => matches!(outcome, Outcome::Malformed(_)),
            "incomplete" => matches!(outcome, Outcome::Incomplete),
            _ => false,
        };
        assert!(right, "{name} is {outcome:?}");
    }
}

/// A message that security refuses later decodes like any other.
#[test]
fn every_field_is_found_as_stated() {
    for vector in vectors() {
        let found = if vector.is_datagram {
            Ping::decode(&vector.packet).map(|ping| ping_to_json(&ping))
        } else {
            match receive(&vector.packet) {
                Outcome::Decoded(packet, frame) => Some(packet_to_json(&packet, &frame)),
                Outcome::Malformed(_) | Outcome::Incomplete => None,
            }
        };
        let Some(found) = found else {
            assert!(!matches!(vector.verdict(), "accept" | "reject"), "{}", vector.name);
            continue;
        };
        let mut stated = vector.expect.as_object().unwrap().clone();
        for (field, _) in NOT_DECODED {
            stated.remove(field);
        }
        if let Some(difference) = difference("expect", &Value::Object(stated), &found) {
            panic!("{}: {difference}", vector.name);
        }
    }
}

/// The first place where two values are not the same.
fn difference(path: &str, stated: &Value, found: &Value) -> Option<String> {
    match (stated, found) {
        (Value::Object(stated), Value::Object(found)) => {
            let extra = found.keys().find(|key| !stated.contains_key(*key));
            stated
                .iter()
                .filter(|(key, _)| *key != REPEATED_UNIT)
                .find_map(|(key, value)| {
                    let path = format!("{path}.{key}");
                    match found.get(key) {
                        Some(found) => difference(&path, value, found),
                        None => Some(format!("{path} is not found")),
                    }
                })
                .or_else(|| extra.map(|key| format!("{path}.{key} is found, but not stated")))
        }
        (Value::Array(stated), Value::Array(found)) if stated.len() == found.len() => stated
            .iter()
            .zip(found)
            .enumerate()
            .find_map(|(index, (stated, found))| difference(&format!("{path}[{index}]"), stated, found)),
        _ => (stated != found).then(|| format!("{path} is stated as {stated}, found as {found}")),
    }
}

#[test]
fn every_packet_encodes_to_its_own_bytes() {
    let mut count = 0;
    for vector in vectors() {
        if vector.expect.get("reencodes") != Some(&Value::Bool(true)) {
            continue;
        }
        let mut encoded = BytesMut::new();
        if vector.is_datagram {
            encoded.extend_from_slice(&Ping::decode(&vector.packet).unwrap().encode());
        } else if let Outcome::Decoded(packet, _) = receive(&vector.packet) {
            packet.encode(&mut encoded).unwrap();
        }
        assert_eq!(encoded, vector.packet, "{}", vector.name);
        count += 1;
    }
    assert_eq!(count, 234 + 59 + 6, "all that can be decoded");
}

#[test]
fn malformed_packets_are_refused_for_the_field_that_is_wrong() {
    let malformed = vectors().into_iter().filter(|vector| vector.verdict() == "malformed");
    for vector in malformed {
        let Outcome::Malformed(error) = receive(&vector.packet) else {
            panic!("{} is not malformed", vector.name);
        };
        if let Some((name, field)) = ANOTHER_FIELD.iter().find(|(name, _)| *name == vector.name) {
            assert_eq!(error.field, *field, "{name}");
        } else {
            // The vectors name a header as a whole when it ends too early.
            let stated = vector.expect["error"]["field"].as_str().unwrap();
            assert!(error.field.starts_with(stated), "{}: {error}, not {stated}", vector.name);
        }
    }
}

#[test]
fn the_beginning_of_a_packet_waits_for_the_rest() {
    for vector in vectors() {
        if vector.is_datagram || !matches!(vector.verdict(), "accept" | "reject") {
            continue;
        }
        let step = 1 + vector.packet.len() / 2000;
        for length in (0..vector.packet.len()).step_by(step) {
            let outcome = receive(&vector.packet.slice(..length));
            assert!(matches!(outcome, Outcome::Incomplete), "{} after {length} bytes is {outcome:?}", vector.name);
        }
    }
}

/// All packets that decode, apart and one after the other.
static STREAM: LazyLock<(Vec<Bytes>, Bytes)> = LazyLock::new(|| {
    let sent: Vec<Bytes> = vectors()
        .into_iter()
        .filter(|vector| !vector.is_datagram && matches!(vector.verdict(), "accept" | "reject"))
        .map(|vector| vector.packet)
        .collect();
    let stream = sent.concat().into();
    (sent, stream)
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// However TCP delivers them, packets come out as they were put in.
    #[test]
    fn a_stream_is_cut_between_packets(sizes in prop::collection::vec(1_usize..6000, 1..400)) {
        let (sent, stream) = &*STREAM;
        let cutter = FrameCutter::new(MAX_PACKET_SIZE);
        let (mut buffer, mut received, mut at) = (BytesMut::new(), Vec::new(), 0);
        for size in sizes.iter().cycle() {
            let end = stream.len().min(at + size);
            buffer.extend_from_slice(&stream[at..end]);
            at = end;
            while let Some(frame) = cutter.cut(&mut buffer).unwrap() {
                received.push(frame.bytes().clone());
            }
            if at == stream.len() {
                break;
            }
        }
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(&received, sent);
    }
}
