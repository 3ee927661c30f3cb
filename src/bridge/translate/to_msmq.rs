use bytes::{BufMut, Bytes, BytesMut};
use connector_api::{Address, Headers, Incoming, Value};

use super::carried;
use crate::config::{AckWanted, Delivery, Destination, Protection, ReturnRoute, check_sendable};
use crate::mqqb::wire::{
    AckRequest, BaseHeader, DeliveryMode, FormatName, Guid, MAX_PACKET_SIZE, MessageClass, MessageId,
    MessageProperties, QueueField, SecurityHeader, SecurityItem, Sid, UserHeader, UserMessage, WideText,
};

/// What a translation needs to know besides the message and its route.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The identifier for a message that brings none of its own.
    pub fresh: MessageId,
    /// Seconds since 1970 (UTC).
    pub now: u64,
    /// Where acknowledgment messages are to go when the route asks for any.
    pub acks: &'a FormatName,
    /// The queue of ours that leads to an address of the foreign system, for replies to a message that we send.
    pub leads_to: &'a dyn LeadsTo,
}

/// Which of our queues leads to which foreign address.
pub trait LeadsTo: std::fmt::Debug + Sync {
    /// The queue, when there is one.
    fn queue(&self, address: &Address) -> Option<FormatName>;
}

/// A message ready to be sent.
#[derive(Clone, Debug)]
pub struct Translated {
    /// Where it goes.
    pub destination: FormatName,
    /// What it is.
    pub message: UserMessage,
}

/// A message that has no form in MSMQ, however often it is tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// `{reply_to}` and nothing that says where.
    #[error("it names no destination: a format name is expected in reply-to or in the header msmq-response-queue{0}")]
    NoDestination(String),
    /// The destination is not one that messages can be sent to.
    #[error("{0}")]
    Destination(String),
    /// The label is too long.
    #[error("its label has {0} characters; MSMQ allows {most}", most = MessageProperties::MAX_LABEL_UNITS)]
    Label(usize),
    /// A header that has a place in MSMQ does not fit there.
    #[error("its header {name} is {what}")]
    Header {
        /// The header.
        name: &'static str,
        /// What is wrong and what is expected.
        what: &'static str,
    },
    /// The packet would be too large.
    #[error("the packet would have {size} bytes; MSMQ allows {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: u32,
    },
    /// The packet can't be built.
    #[error("it has no form on the wire: {0}")]
    Wire(String),
}

/// The MSMQ form of a message from the queue of this route.
pub fn to_msmq(incoming: &Incoming, route: &ReturnRoute, world: &Circumstances<'_>) -> Result<Translated, Unsendable> {
    let headers = &incoming.headers;
    let destination = destination(incoming, route)?;
    let (machine, field) = address(&destination)?;
    let id = incoming.message_id.as_deref().and_then(message_id).unwrap_or(world.fresh);
    // Seconds fit until 2106.
    let mut message = UserMessage::new(id, u32::try_from(world.now).unwrap_or(u32::MAX), machine, field);
    let priority = incoming.priority.map_or(BaseHeader::DEFAULT_PRIORITY, |priority| priority.min(7));
    message.base.flags = u16::from(priority);
    message.base.time_to_reach_queue = route.to.time_to_reach_queue.map_or(BaseHeader::INFINITE, seconds);
    message.user.time_to_be_received = time_to_be_received(incoming, route);
    message.delivery = match route.to.delivery {
        Some(Delivery::Recoverable) => DeliveryMode::Recoverable,
        None if incoming.durable => DeliveryMode::Recoverable,
        Some(Delivery::Express) | None => DeliveryMode::Express,
    };
    if route.to.dead_letter {
        message.user.flags |= UserHeader::NEGATIVE_SOURCE_JOURNAL;
    }
    if let Some(queue) = response_queue(incoming, &destination, world.leads_to) {
        message.user.response = QueueField::naming(&queue, machine).unwrap_or_default();
    }
    let properties = &mut message.properties;
    if route.to.acknowledgments.any() {
        message.user.admin = QueueField::naming(world.acks, machine).unwrap_or_default();
        properties.ack_request = ack_request(route.to.acknowledgments);
    }
    properties.class = MessageClass(
        u16::try_from(integer(headers, "msmq-class")?.unwrap_or(0))
            .map_err(|_| Unsendable::Header { name: "msmq-class", what: "beyond 65535" })?,
    );
    properties.app_specific = integer(headers, "msmq-app-specific")?.unwrap_or(0);
    properties.correlation_id = correlation_id(incoming);
    properties.label = label(headers)?;
    let body_type = match route.to.body_type {
        Some(configured) => configured,
        None => integer(headers, "msmq-body-type")?.unwrap_or_else(|| body_type(incoming.content_type.as_deref())),
    };
    properties.set_body(incoming.body.clone(), body_type);
    properties.extension = extension(incoming, route)?;
    if route.protection == Protection::Transparent {
        evidence(headers, &mut message)?;
    }
    Ok(Translated { destination, message })
}

/// What a transparent route gives its messages in headers, back in its place, nothing looked at: the claim, the signature
/// and the key of an encrypted body.
fn evidence(headers: &Headers, message: &mut UserMessage) -> Result<(), Unsendable> {
    let mut security = SecurityHeader::default();
    if let Some(sender) = text(headers, "msmq-sender-id") {
        let (kind, id) = match (sender.parse::<Sid>(), sender.parse::<Guid>()) {
            (Ok(sid), _) => (USER, sid.as_wire().clone()),
            (_, Ok(guid)) => (QUEUE_MANAGER, Bytes::copy_from_slice(&guid.to_wire())),
            _ => return Err(Unsendable::Header { name: "msmq-sender-id", what: "neither a SID nor a GUID" }),
        };
        security.flags |= kind;
        security.sender_id = SecurityItem::new(id);
    }
    security.sender_certificate = item(headers, "msmq-sender-cert")?;
    security.provider_info = provider_info(headers)?;
    security.signature = item(headers, "msmq-signature")?;
    let properties = &mut message.properties;
    if !security.signature.data.is_empty() {
        properties.hash_algorithm = needed(headers, "msmq-hash-alg")?;
        if security.provider_info.data.is_empty() {
            security.flags |= SecurityHeader::DEFAULT_PROVIDER;
        }
    }
    let key = item(headers, "msmq-dest-symm-key")?;
    let encrypted = match headers.get("msmq-encrypted") {
        Some(Value::Bool(encrypted)) => *encrypted,
        Some(Value::Null) | None => !key.data.is_empty(),
        Some(_) => return Err(Unsendable::Header { name: "msmq-encrypted", what: "no truth value" }),
    };
    if encrypted {
        if key.data.is_empty() {
            return Err(Unsendable::Header { name: "msmq-dest-symm-key", what: MISSING });
        }
        security.flags |= SecurityHeader::ENCRYPTED;
        security.encryption_key = key;
        properties.encryption_algorithm = needed(headers, "msmq-encryption-alg")?;
        properties.privacy_level = needed(headers, "msmq-privacy-level")?;
    }
    if security != SecurityHeader::default() {
        security.flags |= SecurityHeader::DATA_PRESENT;
        message.security = Some(security);
    }
    Ok(())
}

/// `SecurityHeader.Flags.ST`: whose identifier a sender's is.
const USER: u16 = 1;
const QUEUE_MANAGER: u16 = 2;

const MISSING: &str = "missing, and the others say that it is there";

fn item(headers: &Headers, name: &'static str) -> Result<SecurityItem, Unsendable> {
    match headers.get(name) {
        Some(Value::Bytes(bytes)) => Ok(SecurityItem::new(bytes.clone())),
        Some(Value::Null) | None => Ok(SecurityItem::default()),
        Some(_) => Err(Unsendable::Header { name, what: "not bytes" }),
    }
}

fn needed(headers: &Headers, name: &'static str) -> Result<u32, Unsendable> {
    integer(headers, name)?.ok_or(Unsendable::Header { name, what: MISSING })
}

/// `ProviderInfo` (MS-MQMQ 2.2.20.6): type, name, NUL.
fn provider_info(headers: &Headers) -> Result<SecurityItem, Unsendable> {
    let Some(name) = text(headers, "msmq-provider-name") else { return Ok(SecurityItem::default()) };
    let mut info = BytesMut::new();
    info.put_u32_le(needed(headers, "msmq-provider-type")?);
    info.put_slice(WideText::from_text(name).as_wire());
    info.put_u16_le(0);
    Ok(SecurityItem::new(info.freeze()))
}

/// The packet of a translated message.
pub fn encode(message: &UserMessage) -> Result<Bytes, Unsendable> {
    let size = message.properties.body.len() + message.properties.extension.len();
    if size > MAX_PACKET_SIZE as usize {
        return Err(Unsendable::TooLarge { size, limit: MAX_PACKET_SIZE });
    }
    let mut packet = BytesMut::new();
    match message.encode(&mut packet) {
        Ok(()) => Ok(packet.freeze()),
        Err(_) if packet.len() > MAX_PACKET_SIZE as usize => {
            Err(Unsendable::TooLarge { size: packet.len(), limit: MAX_PACKET_SIZE })
        }
        Err(malformed) => Err(Unsendable::Wire(malformed.to_string())),
    }
}

fn destination(incoming: &Incoming, route: &ReturnRoute) -> Result<FormatName, Unsendable> {
    if let Destination::Fixed(name) = &route.to.queue {
        return Ok(name.clone());
    }
    let from_header = text(&incoming.headers, "msmq-response-queue");
    let mut why = String::new();
    for given in [incoming.reply_to.as_deref(), from_header].into_iter().flatten() {
        match given.parse::<FormatName>() {
            Ok(name) => {
                check_sendable(&name).map_err(Unsendable::Destination)?;
                return Ok(name);
            }
            // Said by whoever wrote it: shown short, for it may be anything.
            Err(error) => why = format!("; {}", shortened(&error.to_string())),
        }
    }
    Err(Unsendable::NoDestination(why))
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// The queue manager that the packet is for, null for a direct name, and the destination's field.
fn address(destination: &FormatName) -> Result<(Guid, QueueField), Unsendable> {
    let machine = match destination {
        FormatName::Private { machine, .. } => *machine,
        _ => Guid::NULL,
    };
    match QueueField::naming(destination, machine) {
        Some(field) => Ok((machine, field)),
        None => Err(Unsendable::Destination(format!("{destination} can't stand in a packet"))),
    }
}

/// `guid\ordinal`: an identifier of MSMQ, which is kept, so that the receiver knows a repeat.
fn message_id(text: &str) -> Option<MessageId> {
    let (source, ordinal) = text.split_once('\\')?;
    let id = MessageId { source: source.parse().ok()?, ordinal: ordinal.parse().ok()? };
    (!id.source.is_null()).then_some(id)
}

/// An identifier of MSMQ, or a bare GUID as other systems use them. What is neither has no place in 20 bytes.
fn correlation_id(incoming: &Incoming) -> [u8; MessageId::SIZE] {
    let given = incoming.correlation_id.as_deref().or_else(|| text(&incoming.headers, "msmq-correlation-id"));
    let bare = |text: &str| text.parse().ok().map(|source| MessageId { source, ordinal: 0 });
    given.and_then(|text| message_id(text).or_else(|| bare(text))).map_or([0; MessageId::SIZE], MessageId::to_wire)
}

/// The queue for replies: what the header says, else the queue of ours that leads to the AMQP address for replies. Not
/// when it is where the message itself goes.
fn response_queue(incoming: &Incoming, destination: &FormatName, leads_to: &dyn LeadsTo) -> Option<FormatName> {
    let named = |text: &str| text.parse::<FormatName>().ok();
    let from_header = text(&incoming.headers, "msmq-response-queue").and_then(named);
    let found = from_header.or_else(|| {
        let reply_to = incoming.reply_to.as_deref()?;
        let address = Address { exchange: String::new(), routing_key: reply_to.to_owned() };
        named(reply_to).or_else(|| leads_to.queue(&address))
    });
    found.filter(|queue| queue != destination)
}

fn time_to_be_received(incoming: &Incoming, route: &ReturnRoute) -> u32 {
    // A part of a second counts as one: a message must not expire before its sender said.
    let own = incoming.expiration.map(|milliseconds| milliseconds.div_ceil(1000));
    let configured = route.to.time_to_be_received.map(|time| time.as_secs());
    match (own, configured) {
        (Some(own), Some(configured)) => clamp(own.min(configured)),
        (Some(limit), None) | (None, Some(limit)) => clamp(limit),
        (None, None) => BaseHeader::INFINITE,
    }
}

fn seconds(time: std::time::Duration) -> u32 {
    clamp(time.as_secs())
}

/// The longest finite time, when it is longer.
fn clamp(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(BaseHeader::INFINITE).min(BaseHeader::INFINITE - 1)
}

const fn ack_request(wanted: AckWanted) -> AckRequest {
    let mut bits = 0;
    if wanted.reach {
        bits |= AckRequest::POSITIVE_ARRIVAL | AckRequest::NEGATIVE_ARRIVAL;
    }
    if wanted.receive {
        bits |= AckRequest::POSITIVE_READ | AckRequest::NEGATIVE_READ;
    }
    AckRequest(bits)
}

fn label(headers: &Headers) -> Result<Option<WideText>, Unsendable> {
    let label = match headers.get("msmq-label") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Text(label)) => WideText::from_text(label),
        Some(_) => return Err(Unsendable::Header { name: "msmq-label", what: "no text" }),
    };
    if label.units() > MessageProperties::MAX_LABEL_UNITS {
        return Err(Unsendable::Label(label.units()));
    }
    if label.as_wire().chunks_exact(2).any(|unit| unit == [0, 0]) {
        return Err(Unsendable::Header { name: "msmq-label", what: "not whole: MSMQ ends a label at a NUL" });
    }
    Ok(Some(label))
}

/// The table of content types, backwards: only what is certain about the bytes.
fn body_type(content_type: Option<&str>) -> u32 {
    const BSTR: u32 = 8;
    const LPSTR: u32 = 30;
    const BYTES: u32 = 0x1011;
    let bare: String = content_type.unwrap_or_default().split_whitespace().collect::<String>().to_ascii_lowercase();
    match bare.as_str() {
        "text/plain;charset=utf-16le" => BSTR,
        "text/plain" => LPSTR,
        "application/octet-stream" => BYTES,
        // Unspecified: formatters of XML and JSON look at the body alone.
        _ => 0,
    }
}

fn extension(incoming: &Incoming, route: &ReturnRoute) -> Result<Bytes, Unsendable> {
    match incoming.headers.get("msmq-extension") {
        Some(Value::Bytes(bytes)) => Ok(bytes.clone()),
        // Clients without byte arrays send long strings.
        Some(Value::Text(text)) => Ok(Bytes::from(text.clone())),
        Some(Value::Null) | None if route.to.carry_headers => {
            Ok(carried::extension(incoming, |name| name.starts_with("msmq-")).unwrap_or_default().into())
        }
        Some(Value::Null) | None => Ok(Bytes::new()),
        Some(_) => Err(Unsendable::Header { name: "msmq-extension", what: "neither bytes nor text" }),
    }
}

fn integer(headers: &Headers, name: &'static str) -> Result<Option<u32>, Unsendable> {
    match headers.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(value)) => match u32::try_from(*value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Unsendable::Header { name, what: "not between 0 and 4294967295" }),
        },
        Some(_) => Err(Unsendable::Header { name, what: "no integer" }),
    }
}

fn text<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    match headers.get(name) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}
