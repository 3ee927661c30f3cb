//! Promises that neither the published vectors nor the generated packets show.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use bytes::{Bytes, BytesMut};

use super::*;

const SOURCE: &str = "a9110b98-378a-46cb-b7b6-af622cc5e71a";
const DESTINATION: &str = "c778ca24-7c5a-4060-80c0-aeee428d53ae";
const ELSEWHERE: &str = "7140f3cb-55b2-4199-aa90-ffcfb2fa0568";

fn guid(text: &str) -> Guid {
    text.parse().unwrap()
}

fn direct(text: &str) -> QueueField {
    QueueField::direct(&FormatName::parse_direct(text).unwrap())
}

/// A message to a private queue of the destination.
fn message() -> UserMessage {
    let id = MessageId { source: guid(SOURCE), ordinal: 7 };
    let mut message = UserMessage::new(id, 1_700_000_000, guid(DESTINATION), QueueField::PrivateOnDestination(10));
    message.properties.label = Some(WideText::from_text("label"));
    message.properties.set_body(Bytes::from_static(b"a body of 23 characters"), 0x1011);
    message
}

fn frame(message: &UserMessage) -> Frame {
    Frame::new(message.to_packet().unwrap()).unwrap()
}

fn decode(bytes: impl Into<Bytes>) -> Result<Packet, Malformed> {
    Frame::new(bytes.into()).and_then(|frame| Packet::decode(&frame))
}

/// The field that the decoder complains about when bytes of a packet are others.
fn complaint(packet: &Bytes, changes: &[(usize, &[u8])]) -> &'static str {
    let mut packet = packet.to_vec();
    for (at, bytes) in changes {
        packet[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    decode(packet).unwrap_err().field
}

mod decoding {
    use super::*;

    #[test]
    fn a_body_is_not_copied() {
        let frame = frame(&message());
        let decoded = UserMessage::decode(&frame).unwrap();
        let (whole, body) = (frame.bytes().as_ptr_range(), decoded.properties.body.as_ptr_range());
        assert!(whole.start <= body.start && body.end <= whole.end);
        assert_eq!(decoded.properties.body.len(), 23);
    }

    /// A size is only a claim until the bytes come.
    #[test]
    fn nothing_is_reserved_for_a_claim() {
        let mut head = BytesMut::from(&message().to_packet().unwrap()[..16]);
        head[8..12].copy_from_slice(&MAX_PACKET_SIZE.to_le_bytes());
        let capacity = head.capacity();
        assert_eq!(FrameCutter::new(MAX_PACKET_SIZE).cut(&mut head), Ok(None));
        assert_eq!((head.len(), head.capacity()), (16, capacity));
    }

    #[test]
    fn the_head_is_judged_before_the_rest_comes() {
        let head = message().to_packet().unwrap().slice(..16);
        let cut = |changes: &[(usize, u8)], limit| {
            let mut head = BytesMut::from(&head[..]);
            for (at, byte) in changes {
                head[*at] = *byte;
            }
            FrameCutter::new(limit).cut(&mut head).map(|frame| frame.is_some()).map_err(|error| error.field)
        };
        let size = message().to_packet().unwrap().len() as u32;
        assert_eq!(cut(&[], size), Ok(false));
        assert_eq!(cut(&[], size - 1), Err("BaseHeader.PacketSize"), "the cutter's own limit");
        assert_eq!(cut(&[(10, 0x40)], u32::MAX), Err("BaseHeader.PacketSize"), "the protocol's limit");
        assert_eq!(cut(&[(8, 119)], u32::MAX), Err("BaseHeader.PacketSize"), "less than the headers there must be");
        assert_eq!(cut(&[(0, 0x11)], u32::MAX), Err("BaseHeader.VersionNumber"));
        assert_eq!(cut(&[(4, b'R')], u32::MAX), Err("BaseHeader.Signature"));
    }

    #[test]
    fn delivery_modes_that_are_none_close_the_session() {
        const FLAGS_AT: usize = 16 + 44;
        let mut message = message();
        message.delivery = DeliveryMode::Transactional(TransactionHeader {
            flags: TransactionHeader::FIRST,
            sequence_id: TxSequenceId::default(),
            sequence_number: 1,
            previous_sequence_number: 0,
            connector_queue_manager: None,
        });
        let packet = message.to_packet().unwrap();
        assert_eq!(packet[FLAGS_AT], 0x20, "recoverable");
        for mode in [0x00, 0x40, 0x60] {
            assert_eq!(complaint(&packet, &[(FLAGS_AT, &[mode])]), "UserHeader.Flags.DM");
        }
    }

    #[test]
    fn a_certificate_above_its_limit_is_malformed() {
        let mut message = message();
        let certificate = SecurityItem::new(vec![0x30; 0xFFFF].into());
        message.security = Some(SecurityHeader { sender_certificate: certificate, ..SecurityHeader::default() });
        let packet = message.to_packet().unwrap();
        assert!(decode(packet.clone()).is_ok());
        let size_at = frame_part(&message, "SecurityHeader") + 8;
        assert_eq!(complaint(&packet, &[(size_at, &0x1_0000_u32.to_le_bytes())]), "SecurityHeader.SenderCertSize");
    }

    fn frame_part(message: &UserMessage, name: &str) -> usize {
        message.layout().unwrap().into_iter().find(|(header, _)| *header == name).unwrap().1.start
    }

    #[test]
    fn texts_end_with_a_nul_and_names_at_their_only_one() {
        let message = message();
        let packet = message.to_packet().unwrap();
        let label = frame_part(&message, "MessagePropertiesHeader") + MessageProperties::FIXED_SIZE;
        assert_eq!(packet[label..label + 2], *b"l\0");
        let mut named = message.clone();
        named.user.destination = direct(r"OS:host\q");
        let name = frame_part(&named, "UserHeader") + 50;
        assert_eq!(complaint(&named.to_packet().unwrap(), &[(name, &[0, 0])]), "UserHeader.DestinationQueue");
        // A label that goes on after a NUL harms nobody, and is kept as it is.
        let mut odd = packet.to_vec();
        odd[label + 2..label + 4].fill(0);
        let Packet::User(read) = decode(odd.clone()).unwrap() else { panic!("a user message") };
        assert_eq!(read.properties.label, Some(WideText::from_text("l\0bel")));
        assert_eq!(read.to_packet().unwrap(), odd);
        assert_eq!(complaint(&packet, &[(label + 10, b"x\0")]), "MessagePropertiesHeader.Label");
    }

    /// The text says of lists that they are padded, of the signature after them nothing.
    #[test]
    fn a_signature_at_the_end_needs_no_padding() {
        let mut message = message();
        let signature = MultiQueueSignature { reserved: 0, value: Bytes::from_static(b"odd"), padding: Padding::NONE };
        message.multi_queue = Some(MultiQueueHeader { signature, ..MultiQueueHeader::default() });
        let packet = message.to_packet().unwrap();
        assert!(!packet.len().is_multiple_of(4));
        let Ok(Packet::User(decoded)) = decode(packet) else { panic!("a user message") };
        assert_eq!(decoded.multi_queue, message.multi_queue);
    }

    #[test]
    fn lists_are_made_as_they_are_read() {
        let names = [
            ListName::Direct(WideText::from_text(r"OS:a\q")),
            ListName::Public(guid(SOURCE)),
            ListName::Direct(WideText::from_text(r"OS:ab\q")),
            ListName::Private { machine: guid(SOURCE), id: 7 },
            ListName::DistributionList(guid(ELSEWHERE)),
            ListName::Direct(WideText::from_text(r"OS:abc\q")),
        ];
        let mut message = message();
        for count in 0..=names.len() {
            let destination = AddressList::new(names.iter().take(count).cloned());
            message.multi_queue = Some(MultiQueueHeader { destination, ..MultiQueueHeader::default() });
            let decoded = UserMessage::decode(&frame(&message)).unwrap();
            assert_eq!(decoded.multi_queue, message.multi_queue, "{count} names");
        }
    }

    #[test]
    fn a_sender_is_who_the_header_says_or_nobody_at_all() {
        const SID: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        let sender = |flags, id: &'static [u8]| {
            let sender_id = SecurityItem::new(Bytes::from_static(id));
            SecurityHeader { flags, sender_id, ..SecurityHeader::default() }.sender()
        };
        assert_eq!(sender(0, b""), Ok(SenderId::None));
        assert_eq!(sender(1, SID), Ok(SenderId::Sid(Sid::from_wire(Bytes::from_static(SID)).unwrap())));
        assert_eq!(sender(0xFFF2, &[7; 16]), Ok(SenderId::QueueManager(Guid::from_wire([7; 16]))));
        assert_eq!(sender(0, SID).unwrap_err().field, "SecurityHeader.SenderIdSize");
        assert_eq!(sender(1, b"").unwrap_err().field, "SecurityHeader.SecurityID");
        assert_eq!(sender(1, &SID[..11]).unwrap_err().field, "SecurityHeader.SecurityID");
        assert_eq!(sender(2, SID).unwrap_err().field, "SecurityHeader.SenderIdSize");
        assert_eq!(sender(3, SID).unwrap_err().field, "SecurityHeader.Flags.ST");
    }
}

mod encoding {
    use super::*;

    #[test]
    fn what_can_not_be_on_the_wire_is_refused() {
        let refused = |change: &dyn Fn(&mut UserMessage)| {
            let mut message = message();
            change(&mut message);
            message.to_packet().unwrap_err().field
        };
        let text = |units: usize| WideText::from_text(&"x".repeat(units));
        let field = |units| QueueField::Direct(DirectField { name: text(units), padding: Padding::NONE });
        let secured =
            |security: SecurityHeader| move |message: &mut UserMessage| message.security = Some(security.clone());
        let item = || SecurityItem::new(vec![0; 0x1_0000].into());

        assert_eq!(refused(&|m| m.properties.label = Some(text(250))), "MessagePropertiesHeader.LabelLength");
        assert_eq!(refused(&|m| m.user.destination = QueueField::PrivateOnSource(1)), "UserHeader.Flags.DQ");
        assert_eq!(refused(&|m| m.user.destination = QueueField::SameAsAdmin), "UserHeader.Flags.DQ");
        assert_eq!(refused(&|m| m.user.admin = QueueField::PrivateOnAdminHost(1)), "UserHeader.Flags.AQ");
        assert_eq!(refused(&|m| m.user.response = field(0x7FFF)), "UserHeader.ResponseQueue.Count");
        assert_eq!(refused(&|m| m.properties.body = vec![0; 0x40_0000].into()), "BaseHeader.PacketSize");
        let security = SecurityHeader { sender_certificate: item(), ..SecurityHeader::default() };
        assert_eq!(refused(&secured(security)), "SecurityHeader.SenderCertSize");
        let security = SecurityHeader { encryption_key: item(), ..SecurityHeader::default() };
        assert_eq!(refused(&secured(security)), "SecurityHeader.EncryptionKeySize");
    }

    #[test]
    fn the_largest_packet_is_exactly_4_mib() {
        let mut message = message();
        let room = MAX_PACKET_SIZE as usize - message.to_packet().unwrap().len() + 24 /* the body and its padding */;
        message.properties.set_body(vec![0; room].into(), 0);
        assert_eq!(message.to_packet().unwrap().len(), MAX_PACKET_SIZE as usize);
        assert!(UserMessage::decode(&frame(&message)).is_ok());
        message.properties.set_body(vec![0; room + 1].into(), 0);
        assert!(message.to_packet().is_err());
    }

    /// A message we make has no paddings: they are made.
    #[test]
    fn flags_sizes_and_paddings_are_made_for_what_is_there() {
        let mut made = message();
        made.base.flags = 0xFFFF;
        made.user.flags = 0xFFFF_FFFF;
        made.user.admin = direct(r"OS:host\private$\odds");
        let Ok(Packet::User(decoded)) = decode(made.to_packet().unwrap()) else { panic!("a user message") };
        assert_eq!(decoded.delivery, DeliveryMode::Express);
        assert_eq!((decoded.session, decoded.debug, &decoded.security), (None, None, &None));
        assert_eq!(decoded.user.destination, QueueField::PrivateOnDestination(10));
        let QueueField::Direct(admin) = &decoded.user.admin else { panic!("a direct name") };
        assert_eq!(admin.padding[..], [0, 0]);
        assert_eq!(decoded.properties.body, made.properties.body);
        assert_eq!(decoded.properties.padding[..], [0]);
        let reencoded = decoded.to_packet().unwrap();
        assert_eq!(reencoded, made.to_packet().unwrap());
    }

    #[test]
    fn a_priority_is_three_bits() {
        let mut base = message().base;
        assert_eq!(base.priority(), 3);
        base.flags |= 0xFF00;
        for (asked, got) in [(0, 0), (7, 7), (8, 7), (255, 7)] {
            base.set_priority(asked);
            assert_eq!((base.priority(), base.flags & 0xFF00), (got, 0xFF00));
        }
    }
}

mod meaning {
    use super::QueueField::{PrivateOnAdminHost, PrivateOnDestination, PrivateOnSource, SameAsAdmin};
    use super::*;

    fn acknowledgment(class: MessageClass, destination: QueueField, label: &str, size: usize) -> UserKind {
        let mut message = message();
        message.user.destination = destination;
        message.properties.class = class;
        message.properties.label = Some(WideText::from_text(label));
        message.properties.set_body(vec![0; size].into(), 0);
        message.kind()
    }

    /// A-37: order queue, label, size and class together; all else is a message for a queue.
    #[test]
    fn transactional_acknowledgments_are_told_from_messages() {
        const LABEL: &str = UserMessage::ORDERING_LABEL;
        let by_id = || PrivateOnDestination(UserMessage::ORDER_QUEUE_ID);
        let by_address = || direct(r"TCP:10.1.2.3\private$\ORDER_QUEUE$");
        for queue in [by_id(), by_address(), direct(r"SPX:00000012.00a0234f7500\PRIVATE$\order_queue$")] {
            assert_eq!(acknowledgment(MessageClass::ORDER_ACK, queue.clone(), LABEL, 36), UserKind::OrderAck);
            for class in [0x4000, 0x8000, 0x8005, 0xC004, 0xFFFF].map(MessageClass) {
                assert_eq!(acknowledgment(class, queue.clone(), LABEL, 36), UserKind::FinalAck, "{class}");
            }
            for class in [0, 1, 2, 0x2001, 0x3FFF].map(MessageClass) {
                assert_eq!(acknowledgment(class, queue.clone(), LABEL, 36), UserKind::Message, "{class}");
            }
        }
        let order = MessageClass::ORDER_ACK;
        assert_eq!(acknowledgment(order, by_id(), "QM ordering ack", 36), UserKind::Message);
        assert_eq!(acknowledgment(order, by_id(), LABEL, 35), UserKind::Message);
        assert_eq!(acknowledgment(order, PrivateOnDestination(5), LABEL, 36), UserKind::Message);
        assert_eq!(acknowledgment(order, direct(r"OS:host\order_queue$"), LABEL, 36), UserKind::Message);
        assert_eq!(acknowledgment(order, QueueField::Public(guid(SOURCE)), LABEL, 36), UserKind::Message);
    }

    #[test]
    fn private_numbers_are_completed_by_their_machine() {
        let names = |admin: QueueField, response: QueueField| {
            let mut message = message();
            (message.user.admin, message.user.response) = (admin, response);
            [message.admin_queue(), message.response_queue()]
                .map(|name| name.map(|name| name.to_string().to_lowercase()))
        };
        let private = |machine: &str, id| Some(format!(r"private={machine}\{id:08x}"));
        let elsewhere = QueueField::Private { machine: guid(ELSEWHERE), id: 1 };

        assert_eq!(message().destination().unwrap().to_string().to_lowercase(), private(DESTINATION, 10).unwrap());
        assert_eq!(names(PrivateOnSource(1), PrivateOnDestination(2)), [private(SOURCE, 1), private(DESTINATION, 2)]);
        assert_eq!(names(PrivateOnSource(1), SameAsAdmin), [private(SOURCE, 1), private(SOURCE, 1)]);
        assert_eq!(names(PrivateOnSource(1), PrivateOnAdminHost(2)), [private(SOURCE, 1), private(SOURCE, 2)]);
        assert_eq!(names(PrivateOnDestination(1), PrivateOnAdminHost(2))[1], private(DESTINATION, 2));
        assert_eq!(names(elsewhere.clone(), PrivateOnAdminHost(2)), [private(ELSEWHERE, 1), private(ELSEWHERE, 2)]);
        assert_eq!(names(direct(r"OS:host\q"), PrivateOnAdminHost(2))[1], None, "the machine has no identifier here");
        assert_eq!(names(QueueField::None, SameAsAdmin), [None, None]);
    }

    #[test]
    fn a_direct_name_is_shown_as_it_came_and_read_when_it_is_one() {
        let mut message = message();
        message.user.destination = direct(r"os:HOST\PRIVATE$\Orders");
        assert_eq!(message.destination_text().unwrap(), r"DIRECT=OS:HOST\private$\Orders");
        let odd = DirectField { name: WideText::from_text(r"os:HOST\PRIVATE$\Orders"), padding: Padding::NONE };
        message.user.destination = QueueField::Direct(odd);
        assert_eq!(message.destination_text().unwrap(), r"DIRECT=os:HOST\PRIVATE$\Orders");
        assert_eq!(message.destination().unwrap().to_string(), r"DIRECT=OS:HOST\private$\Orders");
        let none = DirectField { name: WideText::from_text("orders"), padding: Padding::NONE };
        message.user.destination = QueueField::Direct(none);
        assert_eq!((message.destination_text(), message.destination()), (Some("DIRECT=orders".to_owned()), None));
    }

    #[test]
    fn a_name_finds_its_field() {
        let field = |text: &str| QueueField::naming(&text.parse().unwrap(), guid(DESTINATION));
        assert_eq!(field(r"DIRECT=OS:h\q"), Some(direct(r"OS:h\q")));
        assert_eq!(field(&format!("PUBLIC={SOURCE}")), Some(QueueField::Public(guid(SOURCE))));
        assert_eq!(field(&format!(r"PRIVATE={DESTINATION}\a")), Some(PrivateOnDestination(10)));
        let elsewhere = QueueField::Private { machine: guid(ELSEWHERE), id: 10 };
        assert_eq!(field(&format!(r"PRIVATE={ELSEWHERE}\a")), Some(elsewhere));
        for none in [format!("PUBLIC={SOURCE};JOURNAL"), format!("DL={SOURCE}"), "MULTICAST=234.1.1.1:1".to_owned()] {
            assert_eq!(field(&none), None, "{none}");
        }
    }

    #[test]
    fn a_ping_is_answered_with_its_own_flag_and_cookie() {
        let request = Ping { flags: 0xFFFF, cookie: 7, queue_manager: guid(SOURCE) };
        let response = request.response(guid(DESTINATION), true);
        assert_eq!(response, Ping { flags: 3, cookie: 7, queue_manager: guid(DESTINATION) });
        assert_eq!(request.response(guid(DESTINATION), false).flags, Ping::NOT_A_SERVER);
        assert_eq!(Ping::decode(&request.encode()[..23]), None);
    }
}
