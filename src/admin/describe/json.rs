//! Packets as JSON, in the field names of the published test vectors.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::names;
use crate::mqqb::wire::{
    AckRequest, AddressList, BaseHeader, ConnectionParameters, DebugHeader, EstablishConnection, FinalAckBody, Frame,
    Guid, InternalHeader, ListElement, ListName, MessageId, MessageProperties, MultiQueueHeader, OperatingSystem,
    OrderAckBody, Packet, Ping, QueueField, SecurityHeader, SenderId, SessionHeader, SoapHeader, SoapSection,
    TransactionHeader, TxSequenceId, UserHeader, UserKind, UserMessage, WideText,
};

/// Byte strings up to this size are shown whole.
const MAX_SHOWN_BYTES: usize = 4096;

pub(super) fn packet(packet: &Packet, frame: &Frame) -> Value {
    let base = base(frame);
    match packet {
        Packet::Establish(establish) => json!({
            "kind": packet.name(),
            "layout": internal_layout("EstablishConnectionHeader", EstablishConnection::PACKET_SIZE),
            "base": base,
            "internal": internal(&establish.internal, InternalHeader::ESTABLISH_CONNECTION),
            "establish": establish_header(establish),
        }),
        Packet::Parameters(parameters) => json!({
            "kind": packet.name(),
            "layout": internal_layout("ConnectionParametersHeader", ConnectionParameters::PACKET_SIZE),
            "base": base,
            "internal": internal(&parameters.internal, InternalHeader::CONNECTION_PARAMETERS),
            "parameters": parameters_header(parameters),
        }),
        Packet::SessionAck(ack) => json!({
            "kind": packet.name(),
            "layout": internal_layout("SessionHeader", frame.bytes().len()),
            "base": base,
            "internal": internal(&ack.internal, InternalHeader::SESSION_ACK),
            "session": session(&ack.header, ack.counted_in_packet_size),
        }),
        Packet::User(message) => user_message(message, &base),
    }
}

pub(super) fn ping(ping: &Ping) -> Value {
    let flag = |mask| ping.flags & mask != 0;
    json!({
        "kind": "Ping",
        "layout": [part("PingPacket", 0, Ping::SIZE)],
        "ping": {
            "flags": {
                "number": ping.flags,
                "hex": hex16(ping.flags),
                "initiator_is_not_server": flag(Ping::NOT_A_SERVER),
                "refused": flag(Ping::REFUSED),
            },
            "signature": hex16(Ping::SIGNATURE),
            "cookie": ping.cookie,
            "queue_manager": guid(ping.queue_manager),
        },
    })
}

fn user_message(message: &UserMessage, base: &Value) -> Value {
    let layout = message.layout().unwrap_or_default();
    let layout: Vec<_> = layout.into_iter().map(|(name, range)| part(name, range.start, range.len())).collect();
    let kind = message.kind();
    let name = match kind {
        UserKind::OrderAck => "OrderAck",
        UserKind::FinalAck => "FinalAck",
        UserKind::Message if message.properties.class.is_acknowledgment() => "AdminAck",
        UserKind::Message => "UserMessage",
    };
    let mut described = json!({
        "kind": name,
        "layout": layout,
        "base": base,
        "user": user(message),
        "transaction": message.transaction().map(transaction),
        "security": message.security.as_ref().map(security),
        "properties": properties(&message.properties),
        "debug": message.debug.as_ref().map(debug),
        "soap": message.soap.as_ref().map(soap),
        "multi_queue": message.multi_queue.as_ref().map(multi_queue),
        "session": message.session.map(|piggy| session(&piggy.header, piggy.counted_in_packet_size)),
        "trailer": hex(&message.trailer),
    });
    let body = match kind {
        UserKind::OrderAck => OrderAckBody::decode(&message.properties.body).ok().map(|body| order_ack_body(&body)),
        UserKind::FinalAck => FinalAckBody::decode(&message.properties.body).ok().map(|body| final_ack_body(&body)),
        UserKind::Message => None,
    };
    if let (Value::Object(fields), Some(body)) = (&mut described, body) {
        fields.insert("ack_body".to_owned(), body);
    }
    described
}

fn base(frame: &Frame) -> Value {
    let base = frame.base();
    json!({
        "version": BaseHeader::VERSION,
        "reserved": base.reserved,
        "flags": {
            "number": base.flags,
            "hex": hex16(base.flags),
            "priority": base.priority(),
            "internal": base.has(BaseHeader::INTERNAL),
            "session_header": base.has(BaseHeader::SESSION_HEADER),
            "debug_header": base.has(BaseHeader::DEBUG_HEADER),
            "trace": base.has(BaseHeader::TRACE),
        },
        "signature": hex32(u32::from_le_bytes(BaseHeader::SIGNATURE)),
        "packet_size": frame.packet_size(),
        "time_to_reach_queue": base.time_to_reach_queue,
    })
}

fn internal(header: &InternalHeader, packet_type: u16) -> Value {
    let flags = header.flags(packet_type);
    json!({
        "reserved": header.reserved,
        "flags": {
            "number": flags,
            "hex": hex16(flags),
            "packet_type": names::packet_type(packet_type),
            "refused": header.refused,
        },
    })
}

fn establish_header(establish: &EstablishConnection) -> Value {
    let system = establish.operating_system;
    json!({
        "client": guid(establish.client),
        "server": guid(establish.server),
        "timestamp": establish.timestamp,
        "operating_system": {
            "number": system.0,
            "hex": hex16(system.0),
            "reserved_low_byte": system.0 & 0xFF,
            "no_ping_sent": system.has(OperatingSystem::NO_PING_SENT),
            "server_system": system.has(OperatingSystem::SERVER),
            "quality_of_service": system.has(OperatingSystem::QUALITY_OF_SERVICE),
        },
        "reserved": establish.reserved,
        "padding": bytes(&establish.padding),
    })
}

fn parameters_header(parameters: &ConnectionParameters) -> Value {
    json!({
        "recoverable_ack_timeout": parameters.recoverable_ack_timeout,
        "ack_timeout": parameters.ack_timeout,
        "reserved": parameters.reserved,
        "window_size": parameters.window_size,
    })
}

fn session(header: &SessionHeader, counted_in_packet_size: bool) -> Value {
    json!({
        "ack_sequence_number": header.ack_sequence_number,
        "recoverable_ack_sequence_number": header.recoverable_ack_sequence_number,
        "recoverable_ack_bits": hex32(header.recoverable_ack_bits),
        "recoverable_acknowledged": header.recoverable_acknowledged().collect::<Vec<_>>(),
        "user_sequence_number": header.user_sequence_number,
        "recoverable_sequence_number": header.recoverable_sequence_number,
        "window_size": header.window_size,
        "reserved": header.reserved,
        "counted_in_packet_size": counted_in_packet_size,
    })
}

fn user(message: &UserMessage) -> Value {
    let user = &message.user;
    json!({
        "source_queue_manager": guid(user.source_queue_manager),
        "queue_manager_address": guid(user.queue_manager_address),
        "time_to_be_received": user.time_to_be_received,
        "sent_time": user.sent_time,
        "message_id": user.message_id,
        "message_identifier": message.id().to_string(),
        "flags": {
            "number": user.flags,
            "hex": hex32(user.flags),
            "hop_count": user.hop_count(),
            "delivery": names::delivery(message.is_recoverable()),
            "negative_source_journal": user.has(UserHeader::NEGATIVE_SOURCE_JOURNAL),
            "positive_source_journal": user.has(UserHeader::POSITIVE_SOURCE_JOURNAL),
            "has_security_header": user.has(UserHeader::SECURITY_HEADER),
            "has_transaction_header": user.has(UserHeader::TRANSACTION_HEADER),
            "has_properties_header": user.has(UserHeader::PROPERTIES_HEADER),
            "has_connector_type": user.has(UserHeader::CONNECTOR_TYPE),
            "has_multi_queue_header": user.has(UserHeader::MULTI_QUEUE_HEADER),
            "came_over_http": user.has(UserHeader::CAME_OVER_HTTP),
            "has_soap_header": user.has(UserHeader::SOAP_HEADER),
        },
        "destination_queue": queue(&user.destination, message.destination_text()),
        "admin_queue": queue(&user.admin, message.admin_queue_text()),
        "response_queue": queue(&user.response, message.response_queue_text()),
        "connector_type": user.connector_type.map(guid),
    })
}

/// A queue's field. The format name is what the packet says, not made canonical.
fn queue(field: &QueueField, format_name: Option<String>) -> Value {
    let mut described = Map::new();
    let mut put = |key: &str, value: Value| described.insert(key.to_owned(), value);
    put("type", names::queue_type(field.type_code()));
    put("format_name", format_name.unwrap_or_default().into());
    let mut padding = "".into();
    match field {
        QueueField::None | QueueField::SameAsAdmin => {}
        QueueField::PrivateOnSource(id) | QueueField::PrivateOnDestination(id) | QueueField::PrivateOnAdminHost(id) => {
            put("private_id", (*id).into());
        }
        QueueField::Public(queue) => {
            put("guid", guid(*queue));
        }
        QueueField::Private { machine, id } => {
            put("guid", guid(*machine));
            put("private_id", (*id).into());
        }
        QueueField::Direct(direct) => {
            put("direct_name", direct.name.to_text().into());
            put("count", (direct.name.units() * 2 + 2/* NUL */).into());
            padding = hex(&direct.padding);
        }
    }
    put("field", hex(&field.to_wire()));
    put("padding", padding);
    Value::Object(described)
}

fn transaction(header: &TransactionHeader) -> Value {
    json!({
        "flags": {
            "number": header.flags,
            "hex": hex32(header.flags),
            "has_connector_queue_manager": header.has(TransactionHeader::CONNECTOR),
            "final_ack_required": header.has(TransactionHeader::FINAL_ACK),
            "first_in_transaction": header.has(TransactionHeader::FIRST),
            "last_in_transaction": header.has(TransactionHeader::LAST),
            "transaction_id": header.transaction_index(),
        },
        "sequence_id": sequence_id(header.sequence_id),
        "sequence_number": header.sequence_number,
        "previous_sequence_number": header.previous_sequence_number,
        "connector_queue_manager": header.connector_queue_manager.map(guid),
    })
}

fn sequence_id(id: TxSequenceId) -> Value {
    json!({ "ordinal": id.ordinal, "timestamp": id.timestamp, "hex": format!("0x{:016X}", id.to_u64()) })
}

fn security(header: &SecurityHeader) -> Value {
    json!({
        "flags": {
            "number": header.flags,
            "hex": hex16(header.flags),
            "sender_type": names::sender_type(header.sender_type()),
            "authenticated": header.flags & SecurityHeader::AUTHENTICATED != 0,
            "encrypted": header.is_encrypted(),
            "default_provider": header.flags & SecurityHeader::DEFAULT_PROVIDER != 0,
            "security_data_present": header.flags & SecurityHeader::DATA_PRESENT != 0,
            "signature_type": header.signature_type(),
        },
        "sizes": {
            "sender_id": header.sender_id.data.len(),
            "encryption_key": header.encryption_key.data.len(),
            "signature": header.signature.data.len(),
            "sender_certificate": header.sender_certificate.data.len(),
            "provider_info": header.provider_info.data.len(),
        },
        "sender": sender(header),
        "encryption_key": hex(&header.encryption_key.data),
        "signature": hex(&header.signature.data),
        "sender_certificate": bytes(&header.sender_certificate.data),
        "provider_info": provider_info(&header.provider_info.data),
        "padding": {
            "sender_id": hex(&header.sender_id.padding),
            "encryption_key": hex(&header.encryption_key.padding),
            "signature": hex(&header.signature.padding),
            "sender_certificate": hex(&header.sender_certificate.padding),
            "provider_info": hex(&header.provider_info.padding),
        },
    })
}

fn sender(header: &SecurityHeader) -> Value {
    let raw = &header.sender_id.data;
    match header.sender() {
        Ok(SenderId::None) => Value::Null,
        Ok(SenderId::Sid(sid)) => json!({ "raw": hex(raw), "sid": sid.to_string() }),
        Ok(SenderId::QueueManager(machine)) => json!({ "raw": hex(raw), "queue_manager": machine.to_string() }),
        Err(error) => json!({ "raw": hex(raw), "error": error.reason.to_string() }),
    }
}

fn provider_info(info: &[u8]) -> Value {
    if info.is_empty() {
        return Value::Null;
    }
    let Some((number, name)) = info.split_first_chunk() else {
        return json!({ "raw": hex(info) });
    };
    let name = WideText::from_wire(name.strip_suffix(&[0, 0]).unwrap_or(name).to_vec().into());
    json!({
        "type": names::provider_type(u32::from_le_bytes(*number)),
        "name": name.map(|name| name.to_text()),
        "raw": hex(info),
    })
}

fn properties(properties: &MessageProperties) -> Value {
    let label_raw = properties.label.as_ref().map_or_else(Vec::new, wide_with_nul);
    json!({
        "ack_flags": ack_request(properties.ack_request),
        "label_length": label_raw.len() / 2,
        "label": properties.label.as_ref().map_or_else(String::new, WideText::to_text),
        "label_raw": hex(&label_raw),
        "class": names::class(properties.class),
        "correlation_id": correlation_id(properties.correlation_id),
        "body_type": names::body_type(properties.body_type),
        "app_specific": properties.app_specific,
        "message_size": properties.body.len(),
        "allocation_body_size": properties.allocation_body_size,
        "privacy_level": names::privacy_level(properties.privacy_level),
        "hash_algorithm": names::hash_algorithm(properties.hash_algorithm),
        "encryption_algorithm": names::encryption_algorithm(properties.encryption_algorithm),
        "extension_size": properties.extension.len(),
        "extension": bytes(&properties.extension),
        "body": bytes(&properties.body),
        "padding": hex(&properties.padding),
    })
}

fn ack_request(request: AckRequest) -> Value {
    let asked: Vec<_> = [
        ("PA", AckRequest::POSITIVE_ARRIVAL),
        ("PR", AckRequest::POSITIVE_READ),
        ("NA", AckRequest::NEGATIVE_ARRIVAL),
        ("NR", AckRequest::NEGATIVE_READ),
    ]
    .into_iter()
    .filter_map(|(name, mask)| request.asks(mask).then_some(name))
    .collect();
    json!({ "number": request.0, "asked": asked })
}

fn correlation_id(raw: [u8; MessageId::SIZE]) -> Value {
    let id = MessageId::from_wire(raw);
    json!({ "raw": hex(&raw), "guid": id.source.to_string(), "ordinal": id.ordinal, "text": id.to_string() })
}

fn debug(header: &DebugHeader) -> Value {
    json!({
        "flags": {
            "number": header.flags,
            "hex": hex16(header.flags),
            "queue_type": names::debug_queue_type(header.queue.is_some().into()),
        },
        "reserved": header.reserved,
        "queue": header.queue.map(guid),
        "format_name": header.queue.map_or_else(String::new, |queue| format!("PUBLIC={queue:X}")),
    })
}

fn soap(header: &SoapHeader) -> Value {
    let length = |section: &SoapSection| section.text.as_ref().map_or(0, |text| text.units() + 1 /* NUL */);
    let text = |section: &SoapSection| section.text.as_ref().map_or_else(String::new, WideText::to_text);
    json!({
        "reserved": header.header.reserved,
        "header_length": length(&header.header),
        "header": text(&header.header),
        "padding_after_header": hex(&header.header.padding),
        "reserved1": header.body.reserved,
        "body_length": length(&header.body),
        "body": text(&header.body),
        "padding": hex(&header.body.padding),
    })
}

fn multi_queue(header: &MultiQueueHeader) -> Value {
    json!({
        "destination": address_list(&header.destination, AddressList::DESTINATION_ID),
        "administration": address_list(&header.administration, AddressList::ADMINISTRATION_ID),
        "response": address_list(&header.response, AddressList::RESPONSE_ID),
        "signature": {
            "reserved": header.signature.reserved,
            "size": header.signature.value.len(),
            "value": hex(&header.signature.value),
            "padding": hex(&header.signature.padding),
        },
    })
}

fn address_list(list: &AddressList, id: u16) -> Value {
    json!({
        "header_size": list.header_size(),
        "header_id": id,
        "reserved": list.reserved,
        "element_count": list.elements.len(),
        "elements": list.elements.iter().map(list_element).collect::<Vec<_>>(),
        "format_name_list": hex(&list.format_name_list),
        "padding": hex(&list.padding),
        "padding_inside_header_size": if list.padding_left_out { 0 } else { list.padding.len() },
    })
}

fn list_element(element: &ListElement) -> Value {
    let (format_name, raw) = match &element.name {
        ListName::Public(queue) => (format!("PUBLIC={queue:X}"), queue.to_wire().to_vec()),
        ListName::Private { machine, id } => {
            (format!("PRIVATE={machine:X}\\{id:08X}"), [&machine.to_wire()[..], &id.to_le_bytes()].concat())
        }
        ListName::Direct(name) => (format!("DIRECT={name}"), wide_with_nul(name)),
        ListName::DistributionList(list) => (format!("DL={list:X}"), list.to_wire().to_vec()),
    };
    json!({
        "type": names::list_name_type(element.name.type_code()),
        "format_name": format_name,
        "padding_before_name": hex(&element.padding_before_name),
        "name": hex(&raw),
    })
}

fn order_ack_body(body: &OrderAckBody) -> Value {
    json!({
        "sequence_id": sequence_id(body.sequence_id),
        "sequence_number": body.sequence_number,
        "previous_sequence_number": body.previous_sequence_number,
        "reserved": hex(&body.reserved),
    })
}

fn final_ack_body(body: &FinalAckBody) -> Value {
    json!({
        "sequence_id": sequence_id(body.sequence_id),
        "sequence_number": body.sequence_number,
        "previous_sequence_number": body.previous_sequence_number,
        "source_queue_manager": guid(body.message.source),
        "message_id": body.message.ordinal,
        "message_identifier": body.message.to_string(),
    })
}

fn internal_layout(name: &str, packet_size: usize) -> Value {
    let fixed = BaseHeader::SIZE + InternalHeader::SIZE;
    json!([
        part("BaseHeader", 0, BaseHeader::SIZE),
        part("InternalHeader", BaseHeader::SIZE, InternalHeader::SIZE),
        part(name, fixed, packet_size.saturating_sub(fixed)),
    ])
}

fn part(name: &str, offset: usize, length: usize) -> Value {
    json!({ "part": name, "offset": offset, "length": length })
}

fn guid(guid: Guid) -> Value {
    json!({ "guid": guid.to_string(), "raw": hex(&guid.to_wire()) })
}

/// A byte string that can be long.
fn bytes(bytes: &[u8]) -> Value {
    if bytes.len() <= MAX_SHOWN_BYTES {
        json!({ "length": bytes.len(), "hex": hex(bytes) })
    } else {
        json!({ "length": bytes.len(), "sha256": hex(&Sha256::digest(bytes)) })
    }
}

fn wide_with_nul(text: &WideText) -> Vec<u8> {
    [&text.as_wire()[..], &[0, 0]].concat()
}

fn hex(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

fn hex16(number: u16) -> String {
    format!("0x{number:04X}")
}

fn hex32(number: u32) -> String {
    format!("0x{number:08X}")
}
