//! The captures that MS-MQQB prints in section 4.1. Where its words and its hex disagree, the hex is right
//! (`tests/fixtures/golden/README.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use bytes::{Bytes, BytesMut};
use mqbridge::admin::describe::{Content, decode_file};
use mqbridge::mqqb::wire::{
    AckRequest, BaseHeader, ConnectionParameters, DeliveryMode, DirectField, EstablishConnection, FormatName, Guid,
    InternalHeader, MessageClass, MessageId, MessageProperties, OperatingSystem, Packet, Padding, Ping, QueueField,
    SecurityHeader, SecurityItem, SenderId, SessionAck, SessionHeader, Sid, UserHeader, UserKind, UserMessage,
    WideText,
};

/// The one piece of a file, and its bytes.
fn only_piece(file: &str) -> (Content, Bytes) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut pieces = decode_file(text.as_bytes()).unwrap();
    assert_eq!(pieces.len(), 1, "{file}");
    let digits: Vec<u8> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.chars().filter_map(|character| character.to_digit(16)))
        .map(|digit| digit as u8)
        .collect();
    let bytes: Bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let piece = pieces.remove(0);
    assert_eq!(piece.length, bytes.len(), "{file}");
    (piece.content, bytes)
}

/// Decodes a frame, and encodes it again to the same bytes.
fn packet(file: &str) -> Packet {
    let (content, bytes) = only_piece(file);
    let Content::Packet(packet, frame) = content else {
        panic!("{file} is {content:?}");
    };
    assert_eq!(frame.bytes(), &bytes, "{file}");
    let mut encoded = BytesMut::new();
    packet.encode(&mut encoded).unwrap();
    assert_eq!(encoded, bytes, "{file} encodes to its own bytes");
    *packet
}

fn ping(file: &str) -> Ping {
    let (content, bytes) = only_piece(file);
    let Content::Ping(ping) = content else {
        panic!("{file} is {content:?}");
    };
    assert_eq!(ping.encode()[..], bytes[..], "{file} encodes to its own bytes");
    ping
}

/// A GUID as section 4.1 prints it: the 16 bytes of the wire in reverse order (A-40).
fn printed(text: &str) -> Guid {
    let text = text.replace('-', "");
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().rev().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    }
    Guid::from_wire(bytes)
}

fn client() -> Guid {
    printed("C626EA11-E6B6-9749-9595-9150557358D1")
}

fn server() -> Guid {
    printed("FCA09E90-7890-4544-8F11-394C43CD8907")
}

/// What precedes all of the session's own packets in the captures.
fn internal(base_reserved: u8, base_flags: u16) -> InternalHeader {
    InternalHeader {
        base_reserved,
        base_flags,
        time_to_reach_queue: BaseHeader::INFINITE,
        reserved: 0,
        unused_flags: 0,
        refused: false,
    }
}

#[test]
fn frame_1_is_a_ping_request() {
    let ping = ping("frame1_ping_request.hex");
    assert_eq!(ping, Ping { flags: 0x7D01, cookie: 4, queue_manager: client() });
    assert_eq!(ping.queue_manager.to_string(), "557358d1-9150-9595-4997-b6e611ea26c6");
    assert_eq!(ping.flags & (Ping::NOT_A_SERVER | Ping::REFUSED), Ping::NOT_A_SERVER);
}

#[test]
fn frame_2_is_a_ping_response() {
    let response = ping("frame2_ping_response.hex");
    assert_eq!(response, Ping { flags: 0xB295, cookie: 4, queue_manager: server() });
    let ours = ping("frame1_ping_request.hex").response(server(), false);
    let meaning = Ping::NOT_A_SERVER | Ping::REFUSED;
    assert_eq!(Ping { flags: response.flags & meaning, ..response }, ours, "ours differs in unused bits only");
}

#[test]
fn frame_3_is_an_establish_connection_request() {
    let Packet::Establish(request) = packet("frame3_establish_request.hex") else {
        panic!("frame 3 is another packet");
    };
    let mut expected = EstablishConnection {
        internal: internal(0xC0, 0x000B),
        client: client(),
        server: server(),
        timestamp: 501_140_046,
        operating_system: OperatingSystem(0x0310),
        reserved: 0,
        padding: Bytes::from_static(&[0x5A; 512]),
    };
    assert_eq!(request, expected);
    assert!(request.operating_system.has(OperatingSystem::NO_PING_SENT | OperatingSystem::SERVER));
    expected.internal.base_reserved = 0;
    let ours = EstablishConnection::request(client(), server(), 501_140_046, false);
    assert_eq!(ours, expected, "ours differs in the reserved byte only");
}

#[test]
fn frame_4_is_an_establish_connection_response() {
    let Packet::Establish(response) = packet("frame4_establish_response.hex") else {
        panic!("frame 4 is another packet");
    };
    let (client, server) = ("1f742305-be5e-4177-bc77-c4dd7719e474", "3c3a6aeb-f567-4143-87d3-85cf4d68ceb4");
    let mut expected = EstablishConnection {
        internal: internal(0x5A, 0x000B),
        client: client.parse().unwrap(),
        server: server.parse().unwrap(),
        timestamp: 501_140_046,
        operating_system: OperatingSystem(0x0310),
        reserved: 0,
        padding: Bytes::from_static(&[0x5A; 512]),
    };
    assert_eq!(response, expected);
    expected.internal.base_reserved = 0;
    let request = EstablishConnection::request(expected.client, Guid::NULL, 501_140_046, false);
    assert_eq!(request.response(expected.server, false), expected, "ours differs in the reserved byte only");
}

#[test]
fn frames_5_and_6_are_connection_parameters() {
    for file in ["frame5_parameters_request.hex", "frame6_parameters_response.hex"] {
        let Packet::Parameters(parameters) = packet(file) else {
            panic!("{file} is another packet");
        };
        let mut ours = ConnectionParameters::new(1496, 120_000, 64);
        ours.internal.base_reserved = 0xC0;
        assert_eq!(parameters, ours, "ours differs in the reserved byte only");
        assert_eq!(parameters.internal, internal(0xC0, 0x000B));
    }
}

#[test]
fn frame_7_is_a_user_message() {
    let Packet::User(message) = packet("frame7_completed.hex") else {
        panic!("frame 7 is another packet");
    };
    let sid = Bytes::from_static(&[
        0x01, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x15, 0x00, 0x00, 0x00, 0xAD, 0x4A, 0x9E, 0xBD, 0x36, 0xD9,
        0xFA, 0x3D, 0x63, 0xA6, 0x56, 0xDA, 0xE8, 0x03, 0x00, 0x00,
    ]);
    let expected = UserMessage {
        base: BaseHeader { reserved: 0, flags: 0x0003, time_to_reach_queue: 345_600 },
        user: UserHeader {
            source_queue_manager: client(),
            queue_manager_address: Guid::NULL,
            time_to_be_received: BaseHeader::INFINITE,
            sent_time: 0x524F_494C,
            message_id: 2286,
            flags: 0x0028_1C00,
            destination: QueueField::Direct(DirectField {
                name: WideText::from_text(r"OS:a04bm02\q"),
                padding: Padding::NONE,
            }),
            admin: QueueField::None,
            response: QueueField::None,
            connector_type: None,
        },
        delivery: DeliveryMode::Express,
        security: Some(SecurityHeader {
            flags: 0x0001,
            sender_id: SecurityItem::new(sid.clone()),
            ..SecurityHeader::default()
        }),
        properties: MessageProperties {
            ack_request: AckRequest(0x0F),
            class: MessageClass::NORMAL,
            correlation_id: [0; MessageId::SIZE],
            body_type: 8,
            app_specific: 0,
            allocation_body_size: 2000,
            privacy_level: 0,
            hash_algorithm: 0x8004,
            encryption_algorithm: 0x6801,
            label: Some(WideText::from_text("mqsender label")),
            extension: Bytes::new(),
            body: Bytes::from_static(b"a\0").repeat(1000).into(),
            padding: Padding::new(&[0; 2]),
        },
        debug: None,
        soap: None,
        multi_queue: None,
        trailer: Bytes::new(),
        session: None,
    };
    assert_eq!(*message, expected);
    assert_eq!(message.kind(), UserKind::Message);
    assert_eq!(message.id().to_string(), r"557358d1-9150-9595-4997-b6e611ea26c6\2286");
    assert_eq!(message.security.as_ref().unwrap().sender(), Ok(SenderId::Sid(Sid::from_wire(sid).unwrap())));
    assert_eq!(message.destination(), Some(r"DIRECT=OS:a04bm02\q".parse::<FormatName>().unwrap()));
    assert_eq!((message.admin_queue(), message.response_queue()), (None, None));
    assert!(!message.is_signed() && !message.is_encrypted() && !message.is_recoverable());
}

#[test]
fn frame_7_as_printed_waits_for_its_end() {
    let (content, bytes) = only_piece("frame7_user_message.hex");
    assert!(matches!(content, Content::Incomplete), "{content:?}");
    assert_eq!(bytes.len(), 1650);
}

#[test]
fn frame_8_is_a_session_ack() {
    let Packet::SessionAck(ack) = packet("frame8_session_ack.hex") else {
        panic!("frame 8 is another packet");
    };
    let header = SessionHeader { ack_sequence_number: 1, window_size: 64, ..SessionHeader::default() };
    let mut ours = SessionAck::new(header);
    ours.internal.base_reserved = 0xCD;
    assert_eq!(ack, ours, "ours differs in the reserved byte only");
    assert_eq!(ack.internal, internal(0xCD, 0x001B));
    assert!(ack.counted_in_packet_size);
}
