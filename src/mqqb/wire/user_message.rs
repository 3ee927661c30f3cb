use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::reader::Reader;
use super::writer::Write;
use super::{
    BaseHeader, DebugHeader, FormatName, Frame, Guid, MAX_PACKET_SIZE, Malformed, MessageClass, MessageId,
    MessageProperties, MultiQueueHeader, OrderAckBody, QueueField, SecurityHeader, SessionHeader, SoapHeader,
    TransactionHeader, UserHeader, UserKind,
};

/// A message (MS-MQMQ 2.2.20): an application's, an administration acknowledgment, or a transactional one
/// (`OrderAck`, `FinalAck`), which have the same layout.
///
/// What varies in length is a slice of the frame that the message was decoded from: no body is copied, and the frame
/// lives as long as any part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserMessage {
    /// `BaseHeader`.
    pub base: BaseHeader,
    /// `UserHeader`.
    pub user: UserHeader,
    /// How it is delivered, with the `TransactionHeader` of a transactional message.
    pub delivery: DeliveryMode,
    /// `SecurityHeader`.
    pub security: Option<SecurityHeader>,
    /// `MessagePropertiesHeader`.
    pub properties: MessageProperties,
    /// `DebugHeader`.
    pub debug: Option<DebugHeader>,
    /// `SoapHeader`.
    pub soap: Option<SoapHeader>,
    /// `MultiQueueFormatHeader`.
    pub multi_queue: Option<MultiQueueHeader>,
    /// Bytes after the last header inside the packet size; ignored (A-11).
    pub trailer: Bytes,
    /// The session acknowledgment that travelled with the message.
    pub session: Option<PiggyBackedSession>,
}

/// How a message is delivered (`Flags.DM` and `Flags.TH`). "Transactional but express" can't be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// May be lost when a machine restarts, in MSMQ's own terms. (Here it takes the same path as recoverable.)
    Express,
    /// On disk before it is acknowledged.
    Recoverable,
    /// Recoverable, exactly once, in the order of its sequence.
    Transactional(TransactionHeader),
}

/// A session acknowledgment on a user message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PiggyBackedSession {
    /// The acknowledgment.
    pub header: SessionHeader,
    /// Whether `PacketSize` counts its 16 bytes. The specification says no; both are accepted (A-10).
    pub counted_in_packet_size: bool,
}

impl UserMessage {
    /// An express message without label, body and limits, at the default priority.
    ///
    /// `queue_manager` is the identifier of the machine it is for, null for a direct name.
    pub const fn new(id: MessageId, sent_time: u32, queue_manager: Guid, destination: QueueField) -> Self {
        Self {
            base: BaseHeader {
                reserved: 0,
                flags: BaseHeader::DEFAULT_PRIORITY as u16,
                time_to_reach_queue: BaseHeader::INFINITE,
            },
            user: UserHeader {
                source_queue_manager: id.source,
                queue_manager_address: queue_manager,
                time_to_be_received: BaseHeader::INFINITE,
                sent_time,
                message_id: id.ordinal,
                flags: 0,
                destination,
                admin: QueueField::None,
                response: QueueField::None,
                connector_type: None,
            },
            delivery: DeliveryMode::Express,
            security: None,
            properties: MessageProperties::new(MessageClass::NORMAL),
            debug: None,
            soap: None,
            multi_queue: None,
            trailer: Bytes::new(),
            session: None,
        }
    }

    /// Reads a message from its frame.
    ///
    /// # Errors
    /// Names the field that does not conform.
    pub fn decode(frame: &Frame) -> Result<Self, Malformed> {
        let base = frame.base();
        if base.has(BaseHeader::INTERNAL) {
            return Err(Malformed::because("BaseHeader.Flags.IN", "set in a user message"));
        }
        let mut reader = Reader::new(frame.bytes(), BaseHeader::SIZE, frame.packet_size());
        let user = UserHeader::decode(&mut reader)?;
        if !user.has(UserHeader::PROPERTIES_HEADER) {
            return Err(Malformed::because("UserHeader.Flags.MP", "clear, though the header must be there"));
        }
        let recoverable = user.is_recoverable()?;
        let delivery =
            match user.announces(UserHeader::TRANSACTION_HEADER, || TransactionHeader::decode(&mut reader))? {
                Some(transaction) => DeliveryMode::Transactional(transaction),
                None if recoverable => DeliveryMode::Recoverable,
                None => DeliveryMode::Express,
            };
        let security = user.announces(UserHeader::SECURITY_HEADER, || SecurityHeader::decode(&mut reader))?;
        let properties = MessageProperties::decode(&mut reader)?;
        let debug = if base.has(BaseHeader::DEBUG_HEADER) { Some(DebugHeader::decode(&mut reader)?) } else { None };
        let soap = user.announces(UserHeader::SOAP_HEADER, || SoapHeader::decode(&mut reader))?;
        let multi_queue = user.announces(UserHeader::MULTI_QUEUE_HEADER, || MultiQueueHeader::decode(&mut reader))?;
        let (trailer, session) = PiggyBackedSession::decode(base, frame, &mut reader)?;
        Ok(Self { base, user, delivery, security, properties, debug, soap, multi_queue, trailer, session })
    }

    /// Appends the message to `out`: exactly the bytes it was decoded from, when it was.
    ///
    /// # Errors
    /// When the message can't be put on the wire: too large, a label too long, a kind of queue not allowed in its place.
    /// What is in `out` then is of no use.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        out.reserve(Self::TYPICAL_HEADERS_SIZE + self.properties.extension.len() + self.properties.body.len());
        self.encode_parts(out, |_, _| {})
    }

    /// The encoded message.
    ///
    /// # Errors
    /// As [`UserMessage::encode`].
    pub fn to_packet(&self) -> Result<Bytes, Malformed> {
        let mut out = BytesMut::new();
        self.encode(&mut out)?;
        Ok(out.freeze())
    }

    /// Where each header is in the encoded message: its name in the specification, and its bytes with their padding.
    ///
    /// # Errors
    /// As [`UserMessage::encode`].
    pub fn layout(&self) -> Result<Vec<(&'static str, Range<usize>)>, Malformed> {
        let mut layout: Vec<(&'static str, Range<usize>)> = Vec::new();
        let mut start = 0;
        self.encode_parts(&mut BytesMut::new(), |name, end| {
            layout.push((name, start..end));
            start = end;
        })?;
        Ok(layout)
    }

    /// Room for the headers of most messages.
    const TYPICAL_HEADERS_SIZE: usize = 1024;

    /// Appends the message to `out` and calls `written` at the end of each part.
    fn encode_parts(&self, out: &mut BytesMut, mut written: impl FnMut(&'static str, usize)) -> Result<(), Malformed> {
        let start = out.len();
        self.base_header().encode(0, out);
        written("BaseHeader", out.len() - start);
        self.user.encode(self.headers(), self.is_recoverable(), out)?;
        written("UserHeader", out.len() - start);
        if let Some(transaction) = self.transaction() {
            transaction.encode(out);
            written("TransactionHeader", out.len() - start);
        }
        if let Some(security) = &self.security {
            security.encode(out)?;
            written("SecurityHeader", out.len() - start);
        }
        self.properties.encode(out)?;
        written("MessagePropertiesHeader", out.len() - start);
        if let Some(debug) = &self.debug {
            debug.encode(out);
            written("DebugHeader", out.len() - start);
        }
        if let Some(soap) = &self.soap {
            soap.encode(out)?;
            written("SoapHeader", out.len() - start);
        }
        if let Some(multi_queue) = &self.multi_queue {
            multi_queue.encode(out)?;
            written("MultiQueueFormatHeader", out.len() - start);
        }
        if !self.trailer.is_empty() {
            out.put_slice(&self.trailer);
            written("trailer", out.len() - start);
        }
        let mut packet_size = out.len() - start;
        if let Some(session) = &self.session {
            session.header.encode_into(out);
            written("SessionHeader", out.len() - start);
            if session.counted_in_packet_size {
                packet_size = out.len() - start;
            }
        }
        out.set_size(start + BaseHeader::PACKET_SIZE_AT, packet_size, MAX_PACKET_SIZE, "BaseHeader.PacketSize")
    }

    /// The base header with the flags of what is there.
    fn base_header(&self) -> BaseHeader {
        let mut base = self.base;
        base.flags &= !(BaseHeader::INTERNAL | BaseHeader::SESSION_HEADER | BaseHeader::DEBUG_HEADER);
        if self.session.is_some() {
            base.flags |= BaseHeader::SESSION_HEADER;
        }
        if self.debug.is_some() {
            base.flags |= BaseHeader::DEBUG_HEADER;
        }
        base
    }

    /// The flags of the user header that say what follows.
    fn headers(&self) -> u32 {
        let mut flags = UserHeader::PROPERTIES_HEADER;
        for (present, flag) in [
            (self.transaction().is_some(), UserHeader::TRANSACTION_HEADER),
            (self.security.is_some(), UserHeader::SECURITY_HEADER),
            (self.soap.is_some(), UserHeader::SOAP_HEADER),
            (self.multi_queue.is_some(), UserHeader::MULTI_QUEUE_HEADER),
        ] {
            if present {
                flags |= flag;
            }
        }
        flags
    }

    /// What the message is to the protocol (MS-MQQB 3.1.5.1.1). Classes of applications are messages too (A-37).
    pub fn kind(&self) -> UserKind {
        let properties = &self.properties;
        if properties.body.len() != OrderAckBody::SIZE
            || properties.label.as_ref().is_none_or(|label| !label.is(Self::ORDERING_LABEL))
            || !self.is_for_order_queue()
        {
            return UserKind::Message;
        }
        match properties.class {
            MessageClass::ORDER_ACK => UserKind::OrderAck,
            MessageClass(class) if class >= Self::LEAST_FINAL_ACK_CLASS => UserKind::FinalAck,
            _ => UserKind::Message,
        }
    }

    /// The label of `OrderAck` and `FinalAck` packets.
    pub const ORDERING_LABEL: &'static str = "QM Ordering Ack";
    /// The number of the private queue for `OrderAck` and `FinalAck` packets.
    pub const ORDER_QUEUE_ID: u32 = 0x0000_0004;
    /// The name of that queue.
    pub const ORDER_QUEUE_NAME: &'static str = r"PRIVATE$\order_queue$";
    /// The least class of a `FinalAck`.
    const LEAST_FINAL_ACK_CLASS: u16 = 0x4000;

    fn is_for_order_queue(&self) -> bool {
        match &self.user.destination {
            QueueField::PrivateOnDestination(id) => *id == Self::ORDER_QUEUE_ID,
            QueueField::Direct(direct) => {
                let name = direct.name.to_text();
                name.split_once('\\').is_some_and(|(_, queue)| queue.eq_ignore_ascii_case(Self::ORDER_QUEUE_NAME))
            }
            _ => false,
        }
    }

    /// The message's identifier.
    pub const fn id(&self) -> MessageId {
        MessageId { source: self.user.source_queue_manager, ordinal: self.user.message_id }
    }

    /// Whether the message counts as recoverable in the session's sequence: recoverable or transactional.
    pub const fn is_recoverable(&self) -> bool {
        !matches!(self.delivery, DeliveryMode::Express)
    }

    /// The transaction header of a transactional message.
    pub const fn transaction(&self) -> Option<&TransactionHeader> {
        match &self.delivery {
            DeliveryMode::Transactional(header) => Some(header),
            _ => None,
        }
    }

    /// Whether the body is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.security.as_ref().is_some_and(SecurityHeader::is_encrypted)
    }

    /// Whether there is a signature anywhere in the message.
    pub fn is_signed(&self) -> bool {
        self.security.as_ref().is_some_and(|security| !security.signature.data.is_empty())
            || self.multi_queue.as_ref().is_some_and(|multi| !multi.signature.value.is_empty())
    }

    /// The destination queue; `None` when `Flags.DQ` is 0.
    pub fn destination(&self) -> Option<FormatName> {
        self.complete(&self.user.destination)
    }

    /// The destination queue in the packet's own words: a direct name as it stands there, a name by GUID as
    /// [`FormatName`] prints it.
    pub fn destination_text(&self) -> Option<String> {
        self.text(&self.user.destination)
    }

    /// The administration queue, likewise.
    pub fn admin_queue_text(&self) -> Option<String> {
        self.text(&self.user.admin)
    }

    /// The response queue, likewise.
    pub fn response_queue_text(&self) -> Option<String> {
        match &self.user.response {
            QueueField::SameAsAdmin => self.admin_queue_text(),
            response => self.text(response),
        }
    }

    /// The administration queue, with private numbers made complete by the machine they are on.
    pub fn admin_queue(&self) -> Option<FormatName> {
        self.complete(&self.user.admin)
    }

    /// The response queue, likewise. A private number on the administration queue's machine stays without a name
    /// when that machine is not named by its identifier.
    pub fn response_queue(&self) -> Option<FormatName> {
        match &self.user.response {
            QueueField::SameAsAdmin => self.admin_queue(),
            response => self.complete(response),
        }
    }

    fn text(&self, queue: &QueueField) -> Option<String> {
        match queue {
            QueueField::Direct(direct) => Some(format!("DIRECT={}", direct.name)),
            queue => self.complete(queue).map(|name| name.to_string()),
        }
    }

    /// The name that a field stands for; `None` also for a direct name that is none.
    fn complete(&self, queue: &QueueField) -> Option<FormatName> {
        let private = |machine, id| Some(FormatName::Private { machine, id, suffix: None });
        match queue {
            QueueField::None | QueueField::SameAsAdmin => None,
            QueueField::PrivateOnSource(id) => private(self.user.source_queue_manager, *id),
            QueueField::PrivateOnDestination(id) => private(self.user.queue_manager_address, *id),
            QueueField::PrivateOnAdminHost(id) => private(self.admin_host()?, *id),
            QueueField::Public(queue) => Some(FormatName::Public { queue: *queue, suffix: None }),
            QueueField::Private { machine, id } => private(*machine, *id),
            QueueField::Direct(direct) => FormatName::parse_direct(&direct.name.to_text()).ok().map(FormatName::Direct),
        }
    }

    /// The machine of the administration queue, when the packet names it by identifier.
    const fn admin_host(&self) -> Option<Guid> {
        match &self.user.admin {
            QueueField::PrivateOnSource(_) => Some(self.user.source_queue_manager),
            QueueField::PrivateOnDestination(_) => Some(self.user.queue_manager_address),
            QueueField::Private { machine, .. } => Some(*machine),
            _ => None,
        }
    }
}

impl PiggyBackedSession {
    /// Reads what is behind the last header: the trailer inside the packet size, and the session header (A-10).
    fn decode(base: BaseHeader, frame: &Frame, reader: &mut Reader<'_>) -> Result<(Bytes, Option<Self>), Malformed> {
        const TRAILER: &str = "BaseHeader.PacketSize";
        if !base.has(BaseHeader::SESSION_HEADER) {
            return Ok((reader.bytes(reader.left() as u64, TRAILER)?, None));
        }
        let counted_in_packet_size = frame.packet_size() == frame.bytes().len();
        if !counted_in_packet_size {
            let trailer = reader.bytes(reader.left() as u64, TRAILER)?;
            let mut reader = Reader::new(frame.bytes(), frame.packet_size(), frame.bytes().len());
            return Ok((trailer, Some(Self { header: SessionHeader::read(&mut reader)?, counted_in_packet_size })));
        }
        let trailer = reader.left().saturating_sub(SessionHeader::SIZE);
        let trailer = reader.bytes(trailer as u64, TRAILER)?;
        Ok((trailer, Some(Self { header: SessionHeader::read(reader)?, counted_in_packet_size })))
    }
}

/// Adds a session header to an encoded user message that has none, outside its packet size (A-10).
///
/// The message is copied, not decoded; it must have no trailer of 16 bytes or more, which would be taken for the
/// session header. What is too short to be a packet comes back as it is.
pub fn append_session_header(packet: &[u8], header: &SessionHeader) -> Bytes {
    let mut out = BytesMut::with_capacity(packet.len() + SessionHeader::SIZE);
    out.put_slice(packet);
    // Flags.SH is bit 4 of the 16 flag bits, hence in the first of their two bytes.
    if let Some(flags) = out.get_mut(BaseHeader::FLAGS_AT) {
        *flags |= BaseHeader::SESSION_HEADER as u8;
        header.encode_into(&mut out);
    }
    out.freeze()
}
