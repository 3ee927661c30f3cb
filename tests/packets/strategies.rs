//! Generators of legal packets and names. Flags, paddings and lists are put together here by the text of the
//! specification, not by the code under test.

use std::net::Ipv4Addr;

use bytes::Bytes;
use mqbridge::mqqb::wire::{
    AckRequest, AddressList, BaseHeader, ConnectionParameters, DebugHeader, DeliveryMode, DirectField, DirectName,
    EstablishConnection, FormatName, Guid, InternalHeader, ListElement, ListName, MessageClass, MessageProperties,
    MultiQueueHeader, MultiQueueSignature, OperatingSystem, Packet, Padding, PiggyBackedSession, Protocol, QueueField,
    QueuePath, QueueSuffix, SecurityHeader, SecurityItem, SessionAck, SessionHeader, SoapHeader, SoapSection,
    SystemQueue, TransactionHeader, TxSequenceId, UserHeader, UserMessage, WideText,
};
use proptest::option;
use proptest::prelude::*;

pub(crate) fn guid() -> impl Strategy<Value = Guid> + Clone {
    any::<[u8; 16]>().prop_map(Guid::from_wire)
}

fn bytes(size: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), size).prop_map(Bytes::from)
}

/// As many bytes as bring `length` to a multiple of 4.
fn padding(length: usize, noise: [u8; 3]) -> Padding {
    Padding::new(&noise[..(4 - length % 4) % 4])
}

/// Any row of UTF-16 units but NUL, unpaired surrogates included.
fn wide_text(units: std::ops::Range<usize>) -> impl Strategy<Value = WideText> {
    prop::collection::vec(1_u16.., units)
        .prop_map(|units| WideText::from_wire(units.into_iter().flat_map(u16::to_le_bytes).collect()).unwrap())
}

fn direct_field() -> impl Strategy<Value = QueueField> {
    (wide_text(0..40), any::<[u8; 3]>()).prop_map(|(name, noise)| {
        let padding = padding(2 + name.units() * 2 + 2, noise);
        QueueField::Direct(DirectField { name, padding })
    })
}

fn destination() -> impl Strategy<Value = QueueField> {
    prop_oneof![
        Just(QueueField::None),
        any::<u32>().prop_map(QueueField::PrivateOnDestination),
        guid().prop_map(QueueField::Public),
        direct_field(),
    ]
}

fn admin() -> impl Strategy<Value = QueueField> {
    prop_oneof![
        destination(),
        any::<u32>().prop_map(QueueField::PrivateOnSource),
        (guid(), any::<u32>()).prop_map(|(machine, id)| QueueField::Private { machine, id }),
    ]
}

fn response() -> impl Strategy<Value = QueueField> {
    prop_oneof![
        3 => admin(),
        1 => Just(QueueField::SameAsAdmin),
        1 => any::<u32>().prop_map(QueueField::PrivateOnAdminHost),
    ]
}

fn user_header() -> impl Strategy<Value = UserHeader> {
    let numbers = (guid(), guid(), any::<[u32; 4]>());
    (numbers, destination(), admin(), response(), option::of(guid())).prop_map(
        |(numbers, destination, admin, response, connector_type)| {
            let (source_queue_manager, queue_manager_address, numbers) = numbers;
            let [time_to_be_received, sent_time, message_id, flags] = numbers;
            UserHeader {
                source_queue_manager,
                queue_manager_address,
                time_to_be_received,
                sent_time,
                message_id,
                flags,
                destination,
                admin,
                response,
                connector_type,
            }
        },
    )
}

fn transaction_header() -> impl Strategy<Value = TransactionHeader> {
    (any::<[u32; 5]>(), option::of(guid())).prop_map(
        |([flags, timestamp, ordinal, sequence_number, previous_sequence_number], connector_queue_manager)| {
            TransactionHeader {
                flags: flags & !1 | u32::from(connector_queue_manager.is_some()),
                sequence_id: TxSequenceId { timestamp, ordinal },
                sequence_number,
                previous_sequence_number,
                connector_queue_manager,
            }
        },
    )
}

fn delivery() -> impl Strategy<Value = DeliveryMode> {
    prop_oneof![
        Just(DeliveryMode::Express),
        Just(DeliveryMode::Recoverable),
        transaction_header().prop_map(DeliveryMode::Transactional),
    ]
}

fn security_item() -> impl Strategy<Value = SecurityItem> {
    (prop_oneof![Just(Bytes::new()), bytes(1..40)], any::<[u8; 3]>())
        .prop_map(|(data, noise)| SecurityItem { padding: padding(data.len(), noise), data })
}

fn security_header() -> impl Strategy<Value = SecurityHeader> {
    (any::<u16>(), security_item(), security_item(), security_item(), security_item(), security_item()).prop_map(
        |(flags, sender_id, encryption_key, signature, sender_certificate, provider_info)| SecurityHeader {
            flags,
            sender_id,
            encryption_key,
            signature,
            sender_certificate,
            provider_info,
        },
    )
}

fn properties() -> impl Strategy<Value = MessageProperties> {
    let numbers = (any::<u8>(), any::<u16>(), any::<[u8; 20]>(), any::<[u32; 6]>());
    (numbers, option::of(wide_text(0..250)), bytes(0..50), bytes(0..200), any::<[u8; 3]>()).prop_map(
        |((ack_request, class, correlation_id, numbers), label, extension, body, noise)| {
            let [body_type, app_specific, allocation_body_size, privacy_level, hash_algorithm, encryption_algorithm] =
                numbers;
            let label_size = label.as_ref().map_or(0, |label| label.units() * 2 + 2);
            MessageProperties {
                ack_request: AckRequest(ack_request),
                class: MessageClass(class),
                correlation_id,
                body_type,
                app_specific,
                allocation_body_size,
                privacy_level,
                hash_algorithm,
                encryption_algorithm,
                padding: padding(56 + label_size + extension.len() + body.len(), noise),
                label,
                extension,
                body,
            }
        },
    )
}

fn debug_header() -> impl Strategy<Value = DebugHeader> {
    (any::<u16>(), any::<u16>(), option::of(guid())).prop_map(|(flags, reserved, queue)| DebugHeader {
        flags: flags & !0x3 | u16::from(queue.is_some()),
        reserved,
        queue,
    })
}

fn soap_header() -> impl Strategy<Value = SoapHeader> {
    // A reserved field that looks like the beginning of the body section makes an unaligned header ambiguous (A-26).
    let reserved = any::<u16>().prop_filter("a section id", |reserved| *reserved != 0x0384);
    let section = || option::of(wide_text(0..20));
    (any::<u16>(), section(), reserved, section(), any::<[[u8; 3]; 2]>(), any::<bool>()).prop_map(
        |(reserved, header, reserved1, body, [noise, more_noise], aligned)| {
            let size = |text: &Option<WideText>| 8 + text.as_ref().map_or(0, |text| text.units() * 2 + 2);
            let between = if aligned { padding(size(&header), noise) } else { Padding::NONE };
            let end = padding(size(&header) + between.len() + size(&body), more_noise);
            SoapHeader {
                header: SoapSection { reserved, text: header, padding: between },
                body: SoapSection { reserved: reserved1, text: body, padding: end },
            }
        },
    )
}

fn list_name() -> impl Strategy<Value = ListName> {
    prop_oneof![
        guid().prop_map(ListName::Public),
        (guid(), any::<u32>()).prop_map(|(machine, id)| ListName::Private { machine, id }),
        wide_text(0..30).prop_map(ListName::Direct),
        guid().prop_map(ListName::DistributionList),
    ]
}

fn address_list() -> impl Strategy<Value = AddressList> {
    let element = (list_name(), any::<[u8; 3]>());
    (any::<u16>(), prop::collection::vec(element, 0..6), any::<[u8; 3]>(), any::<bool>()).prop_map(
        |(reserved, names, noise, leave_out)| {
            let mut list = Vec::new();
            let mut elements = Vec::new();
            for (name, noise) in names {
                let (code, raw, aligned) = match &name {
                    ListName::Public(guid) => (1_u16, guid.to_wire().to_vec(), true),
                    ListName::Private { machine, id } => {
                        (2, [&machine.to_wire()[..], &id.to_le_bytes()].concat(), true)
                    }
                    ListName::Direct(text) => (3, [&text.as_wire()[..], &[0, 0]].concat(), false),
                    ListName::DistributionList(guid) => (6, guid.to_wire().to_vec(), true),
                };
                list.extend_from_slice(&code.to_le_bytes());
                let padding_before_name = if aligned { padding(list.len(), noise) } else { Padding::NONE };
                list.extend_from_slice(&padding_before_name);
                list.extend_from_slice(&raw);
                elements.push(ListElement { padding_before_name, name });
            }
            let padding = padding(list.len(), noise);
            AddressList {
                reserved,
                elements,
                padding_left_out: leave_out && !padding.is_empty(),
                padding,
                format_name_list: list.into(),
            }
        },
    )
}

fn multi_queue_header() -> impl Strategy<Value = MultiQueueHeader> {
    let signature = (any::<u16>(), bytes(0..40), any::<[u8; 3]>()).prop_map(|(reserved, value, noise)| {
        MultiQueueSignature { reserved, padding: padding(value.len(), noise), value }
    });
    (address_list(), address_list(), address_list(), signature).prop_map(
        |(destination, administration, response, signature)| MultiQueueHeader {
            destination,
            administration,
            response,
            signature,
        },
    )
}

pub(crate) fn session_header() -> impl Strategy<Value = SessionHeader> {
    any::<[u8; SessionHeader::SIZE]>().prop_map(|bytes| SessionHeader::decode(&bytes))
}

/// Any message with any headers.
pub(crate) fn user_message() -> impl Strategy<Value = UserMessage> {
    let headers = (
        option::of(security_header()),
        option::of(debug_header()),
        option::of(soap_header()),
        option::of(multi_queue_header()),
    );
    let session = (session_header(), any::<bool>())
        .prop_map(|(header, counted_in_packet_size)| PiggyBackedSession { header, counted_in_packet_size });
    let base = (any::<u8>(), any::<u16>(), any::<u32>())
        .prop_map(|(reserved, flags, time_to_reach_queue)| BaseHeader { reserved, flags, time_to_reach_queue });
    (
        base,
        user_header(),
        delivery(),
        properties(),
        headers,
        prop_oneof![3 => bytes(0), 1 => bytes(1..40)],
        option::of(session),
    )
        .prop_map(
            |(base, user, delivery, properties, (security, debug, soap, multi_queue), mut trailer, session)| {
                // Of 16 bytes or more that are left, the last 16 are the session header (A-10).
                if session.is_some_and(|session| !session.counted_in_packet_size) {
                    trailer.truncate(15);
                }
                let message = UserMessage {
                    base,
                    user,
                    delivery,
                    security,
                    properties,
                    debug,
                    soap,
                    multi_queue,
                    trailer,
                    session,
                };
                with_true_flags(message)
            },
        )
}

/// The flags say what is there.
fn with_true_flags(mut message: UserMessage) -> UserMessage {
    let base = [(3, false), (4, message.session.is_some()), (5, message.debug.is_some())];
    for (bit, set) in base {
        message.base.flags = message.base.flags & !(1 << bit) | u16::from(set) << bit;
    }
    let user = &mut message.user;
    let bits = [
        (5, !matches!(message.delivery, DeliveryMode::Express)),
        (6, false),
        (19, message.security.is_some()),
        (20, matches!(message.delivery, DeliveryMode::Transactional(_))),
        (21, true),
        (22, user.connector_type.is_some()),
        (23, message.multi_queue.is_some()),
        (28, message.soap.is_some()),
    ];
    for (bit, set) in bits {
        user.flags = user.flags & !(1 << bit) | u32::from(set) << bit;
    }
    let code = |queue: &QueueField| match queue {
        QueueField::None => 0_u32,
        QueueField::SameAsAdmin => 1,
        QueueField::PrivateOnSource(_) => 2,
        QueueField::PrivateOnDestination(_) => 3,
        QueueField::PrivateOnAdminHost(_) => 4,
        QueueField::Public(_) => 5,
        QueueField::Private { .. } => 6,
        QueueField::Direct(_) => 7,
    };
    let codes = code(&user.destination) << 10 | code(&user.admin) << 13 | code(&user.response) << 16;
    user.flags = user.flags & !(0x1FF << 10) | codes;
    message
}

pub(crate) fn internal_packet() -> impl Strategy<Value = Packet> {
    let internal = || {
        (any::<u8>(), any::<u16>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<bool>()).prop_map(
            |(base_reserved, base_flags, time_to_reach_queue, reserved, unused_flags, refused)| InternalHeader {
                base_reserved,
                base_flags: base_flags | 0x8,
                time_to_reach_queue,
                reserved,
                unused_flags: unused_flags & !0x1F,
                refused,
            },
        )
    };
    let establish = (internal(), guid(), guid(), any::<u32>(), any::<u16>(), any::<u16>(), bytes(512)).prop_map(
        |(internal, client, server, timestamp, system, reserved, padding)| {
            Packet::Establish(EstablishConnection {
                internal,
                client,
                server,
                timestamp,
                operating_system: OperatingSystem(system),
                reserved,
                padding,
            })
        },
    );
    let parameters = (internal(), any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>()).prop_map(
        |(internal, recoverable_ack_timeout, ack_timeout, reserved, window_size)| {
            Packet::Parameters(ConnectionParameters {
                internal,
                recoverable_ack_timeout,
                ack_timeout,
                reserved,
                window_size,
            })
        },
    );
    let session_ack =
        (internal(), session_header(), any::<bool>()).prop_map(|(mut internal, header, counted_in_packet_size)| {
            internal.base_flags |= 0x10;
            Packet::SessionAck(SessionAck { internal, header, counted_in_packet_size })
        });
    prop_oneof![establish, parameters, session_ack]
}

/// Any name, apart from commas, which separate names.
pub(crate) fn format_name() -> impl Strategy<Value = FormatName> {
    let id = prop_oneof![0..100_u32, any::<u32>()];
    let multicast = (224..=239_u8, any::<[u8; 3]>(), any::<u16>())
        .prop_map(|(first, [b, c, d], port)| FormatName::Multicast { address: Ipv4Addr::new(first, b, c, d), port });
    prop_oneof![
        4 => direct_name().prop_map(FormatName::Direct),
        1 => (guid(), option::of(suffix())).prop_map(|(queue, suffix)| FormatName::Public { queue, suffix }),
        1 => (guid(), id, option::of(suffix()))
            .prop_map(|(machine, id, suffix)| FormatName::Private { machine, id, suffix }),
        1 => (guid(), option::of("[!-+.-~]{1,30}"))
            .prop_map(|(list, domain)| FormatName::DistributionList { list, domain }),
        1 => (guid(), system_queue()).prop_map(|(machine, queue)| FormatName::Machine { machine, queue }),
        1 => (guid(), any::<bool>()).prop_map(|(site, transactional)| FormatName::Connector { site, transactional }),
        1 => multicast,
    ]
}

fn direct_name() -> impl Strategy<Value = DirectName> {
    let by_machine = prop_oneof![
        (Just(Protocol::Os), "[a-zA-Zäöü][a-zA-Z0-9._-]{0,20}"),
        (
            Just(Protocol::Tcp),
            prop_oneof![r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}", "[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}"]
        ),
        (Just(Protocol::Spx), r"[0-9A-F]{8}\.[0-9A-F]{12}"),
        (Just(Protocol::Ipx), r"[0-9A-F]{8}:[0-9A-F]{12}"),
    ];
    let by_url = (
        prop_oneof![Just(Protocol::Http), Just(Protocol::Https)],
        prop_oneof!["[a-z][a-z0-9.]{0,20}(:[0-9]{1,5})?/(msmq|MSMQ|other)"],
    );
    (prop_oneof![by_machine, by_url], queue_path()).prop_map(|((protocol, address), queue)| DirectName {
        protocol,
        address,
        queue,
    })
}

fn queue_path() -> impl Strategy<Value = QueuePath> {
    let name = || "[a-zA-Zа-яß][^;,\\pC\\pZ$]{0,20}\\$?";
    prop_oneof![
        (name(), option::of(suffix())).prop_map(|(name, suffix)| QueuePath::Private { name, suffix }),
        (name(), option::of(suffix())).prop_map(|(name, suffix)| QueuePath::Public { name, suffix }),
        system_queue().prop_map(QueuePath::System),
    ]
}

fn suffix() -> impl Strategy<Value = QueueSuffix> {
    prop_oneof![Just(QueueSuffix::Journal), "[a-zA-Zа-я!#][^,\\pC\\pZ]{0,31}".prop_map(QueueSuffix::SubQueue)]
        .prop_filter("the journal", |suffix| *suffix != QueueSuffix::SubQueue("journal".to_owned()))
}

fn system_queue() -> impl Strategy<Value = SystemQueue> {
    prop_oneof![Just(SystemQueue::Journal), Just(SystemQueue::DeadLetter), Just(SystemQueue::TransactionalDeadLetter)]
}

/// Text made of the pieces of names, in any order.
pub(crate) fn text_like_a_name() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "DIRECT=",
            "direct=",
            "OS:",
            "TCP:",
            "HTTP:",
            "https:",
            "//",
            "/",
            "\\",
            "private$\\",
            "PRIVATE$/",
            "system$;",
            ";JOURNAL",
            ";",
            "deadletter",
            "PUBLIC=",
            "PRIVATE=",
            "DL=",
            "MACHINE=",
            "CONNECTOR=",
            "MULTICAST=",
            "234.1.1.1",
            ":",
            "@",
            ",",
            " ",
            "msmq",
            "c778ca24-7c5a-4060-80c0-aeee428d53ae",
            "{",
            "}",
            "0000000A",
            "ß",
            "$",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,5}",
    ];
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}
