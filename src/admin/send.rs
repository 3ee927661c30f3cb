//! `mqbridge send`: sends over the native protocol like any queue manager, and needs no running bridge.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::bridge::Credentials;
use crate::mqqb::session::{SendToken, SessionSettings};
use crate::mqqb::wire::{
    AckRequest, DeliveryMode, DirectField, FormatName, Guid, Malformed, MessageId, MessageProperties, Protocol,
    QueueField, UserMessage, WideText,
};
use crate::net::{Clock, DialError, Dialed, dial};
use crate::security::{
    CannotSeal, CannotSign, Cipher, HashAlgorithm, Provider, PublicKey, SealingKey, SignatureForm, SignatureVersion,
    Signer,
};

/// What to send, and where.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The destination queue.
    pub to: FormatName,
    /// The machine to connect to, when the destination does not say it or something else is between.
    pub host: Option<String>,
    /// Its port; 1801 by default.
    pub port: u16,
    /// The first message's label.
    pub label: Option<String>,
    /// The body.
    pub body: Bytes,
    /// The body's type.
    pub body_type: u32,
    /// Recoverable, or express.
    pub recoverable: bool,
    /// 0 to 7.
    pub priority: u8,
    /// The message it answers.
    pub correlation_id: Option<MessageId>,
    /// Where replies go.
    pub response_queue: Option<FormatName>,
    /// Where acknowledgments go.
    pub admin_queue: Option<FormatName>,
    /// The application's number.
    pub app_specific: u32,
    /// Seconds to reach the queue; `None` for ever.
    pub time_to_reach_queue: Option<u32>,
    /// Seconds to be received; `None` for ever.
    pub time_to_be_received: Option<u32>,
    /// The extension.
    pub extension: Bytes,
    /// What it is signed with.
    pub sign: Option<Credentials>,
    /// What its body is encrypted with, and for whom.
    pub encrypt: Option<(Cipher, PublicKey)>,
    /// How many messages of this kind.
    pub count: u32,
    /// For everything together.
    pub timeout: Duration,
    /// The sending queue manager: any identifier will do that no other machine has.
    pub source: Guid,
}

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The first message.
    pub first: MessageId,
    /// How many.
    pub count: u32,
    /// The queue manager that took them.
    pub taken_by: Guid,
}

/// Why messages were not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The destination can't be reached by this protocol.
    #[error("{name} can't be sent to over TCP 1801; {expected}")]
    Destination {
        /// The destination.
        name: String,
        /// What can.
        expected: &'static str,
    },
    /// A queue that can't be named in a message.
    #[error("{0} can't be named as a response or administration queue")]
    Queue(String),
    /// The message does not fit the protocol.
    #[error("the message can't be built: {0}")]
    Message(#[from] Malformed),
    /// The label is too long.
    #[error("the label has {0} characters; {max} are allowed", max = MessageProperties::MAX_LABEL_UNITS)]
    Label(usize),
    /// It can't be signed.
    #[error("the message can't be signed: {0}")]
    Sign(#[from] CannotSign),
    /// It can't be encrypted.
    #[error("the body can't be encrypted: {0}")]
    Seal(#[from] CannotSeal),
    /// No session, or it ended.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Not in time.
    #[error("only {acknowledged} of {count} messages were acknowledged in {timeout:?}")]
    Timeout {
        /// How many were.
        acknowledged: u32,
        /// Out of how many.
        count: u32,
        /// The time.
        timeout: Duration,
    },
}

/// Each attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends and waits for the acknowledgments: an express message was received then, a recoverable one is on disk.
pub async fn send(request: &SendRequest, clock: Clock) -> Result<Sent, SendError> {
    let mut acknowledged = 0;
    match tokio::time::timeout(request.timeout, deliver(request, clock, &mut acknowledged)).await {
        Ok(sent) => sent,
        Err(_) => Err(SendError::Timeout { acknowledged, count: request.count, timeout: request.timeout }),
    }
}

async fn deliver(request: &SendRequest, clock: Clock, acknowledged: &mut u32) -> Result<Sent, SendError> {
    let addresses = resolve(request).await?;
    let settings = SessionSettings {
        local: request.source,
        window: 64,
        ack_timeout: Duration::from_secs(20),
        initialization_timeout: request.timeout,
        cleanup_timeout: request.timeout.max(Duration::from_mins(5)),
    };
    let server = match &request.to {
        FormatName::Private { machine, .. } => *machine,
        _ => Guid::NULL,
    };
    let mut dialed = dial(clock, &addresses, server, settings, CONNECT_TIMEOUT).await?;
    let mut message = build(request, dialed.remote(), clock)?;
    let first = message.id();
    let mut sent = 0;
    while *acknowledged < request.count {
        while sent < request.count && dialed.window_left() > 0 {
            message.user.message_id = first.ordinal.wrapping_add(sent);
            if !hand_over(&mut dialed, &message, sent)? {
                break;
            }
            sent += 1;
        }
        *acknowledged += dialed.acknowledged().await?.len() as u32;
    }
    let taken_by = dialed.remote();
    dialed.close().await;
    Ok(Sent { first, count: request.count, taken_by })
}

/// Says whether the window had room.
fn hand_over(dialed: &mut Dialed, message: &UserMessage, number: u32) -> Result<bool, SendError> {
    let mut packet = BytesMut::new();
    message.encode(&mut packet)?;
    Ok(dialed.send(SendToken(u64::from(number)), packet.freeze(), message.is_recoverable()).is_ok())
}

async fn resolve(request: &SendRequest) -> Result<Vec<SocketAddr>, SendError> {
    let unreachable = |expected| SendError::Destination { name: request.to.to_string(), expected };
    let named = match &request.to {
        FormatName::Direct(direct) if matches!(direct.protocol, Protocol::Os | Protocol::Tcp) => Some(&direct.address),
        FormatName::Direct(_) => return Err(unreachable("DIRECT=OS: and DIRECT=TCP: names can")),
        FormatName::Private { .. } | FormatName::Public { .. } => None,
        _ => return Err(unreachable("DIRECT=, PRIVATE= and PUBLIC= names can")),
    };
    let host = request.host.as_ref().or(named).ok_or_else(|| unreachable("say with --host which machine has it"))?;
    // "." is this machine in MSMQ's names.
    let host = if host == "." { "localhost" } else { host.trim_matches(['[', ']']) };
    let failed = |source| SendError::Dial(DialError::Resolve { host: host.to_owned(), source });
    let addresses: Vec<_> = tokio::net::lookup_host((host, request.port)).await.map_err(failed)?.collect();
    if addresses.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
    }
    Ok(addresses)
}

fn build(request: &SendRequest, remote: Guid, clock: Clock) -> Result<UserMessage, SendError> {
    let (machine, destination) = match &request.to {
        FormatName::Private { machine, id, .. } => (*machine, QueueField::PrivateOnDestination(*id)),
        FormatName::Public { queue, .. } => (remote, QueueField::Public(*queue)),
        direct => (Guid::NULL, direct_field(direct)),
    };
    let id = MessageId { source: request.source, ordinal: 1 };
    // Seconds fit until 2106.
    let mut message = UserMessage::new(id, clock.unix_now() as u32, machine, destination);
    message.base.flags = u16::from(request.priority.min(7));
    message.delivery = if request.recoverable { DeliveryMode::Recoverable } else { DeliveryMode::Express };
    message.base.time_to_reach_queue = request.time_to_reach_queue.unwrap_or(message.base.time_to_reach_queue);
    message.user.time_to_be_received = request.time_to_be_received.unwrap_or(message.user.time_to_be_received);
    message.user.response = queue_field(request.response_queue.as_ref())?;
    message.user.admin = queue_field(request.admin_queue.as_ref())?;
    let properties = &mut message.properties;
    if request.admin_queue.is_some() {
        properties.ack_request = AckRequest::EVERYTHING;
    }
    if let Some(label) = &request.label {
        let label = WideText::from_text(label);
        if label.units() > MessageProperties::MAX_LABEL_UNITS {
            return Err(SendError::Label(label.units()));
        }
        properties.label = Some(label);
    }
    if let Some(correlation) = request.correlation_id {
        properties.correlation_id = correlation.to_wire();
    }
    properties.body_type = request.body_type;
    properties.app_specific = request.app_specific;
    properties.extension = request.extension.clone();
    properties.body = request.body.clone();
    properties.allocation_body_size = request.body.len() as u32;
    protect(&mut message, request)?;
    Ok(message)
}

/// Signs and encrypts: once for all copies, since no signature covers the number of a message.
fn protect(message: &mut UserMessage, request: &SendRequest) -> Result<(), SendError> {
    /// Bits of the shortest key that the enhanced provider has.
    const ENHANCED: usize = 1024;
    let random = &mut rand::rng();
    if let Some(Credentials { key, certificate }) = &request.sign {
        let signer = Signer { key, certificate, hash: HashAlgorithm::Sha256, form: SignatureForm::default() };
        signer.sign(message, SignatureVersion::V2, random)?;
    }
    if let Some((cipher, receiver)) = &request.encrypt {
        let provider = match cipher {
            Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => Provider::Aes,
            Cipher::Rc2 | Cipher::Rc4 if receiver.bits() < ENHANCED => Provider::Base,
            Cipher::Rc2 | Cipher::Rc4 => Provider::Enhanced,
        };
        SealingKey::generate(provider, *cipher, receiver, random)?.seal(message)?;
    }
    Ok(())
}

fn queue_field(name: Option<&FormatName>) -> Result<QueueField, SendError> {
    match name {
        None => Ok(QueueField::None),
        Some(direct @ FormatName::Direct(_)) => Ok(direct_field(direct)),
        Some(FormatName::Public { queue, suffix: None }) => Ok(QueueField::Public(*queue)),
        Some(FormatName::Private { machine, id, suffix: None }) => {
            Ok(QueueField::Private { machine: *machine, id: *id })
        }
        Some(other) => Err(SendError::Queue(other.to_string())),
    }
}

/// The wire has direct names without their prefix.
fn direct_field(name: &FormatName) -> QueueField {
    let text = name.to_string();
    let bare = text.strip_prefix("DIRECT=").unwrap_or(&text);
    QueueField::Direct(DirectField { name: WideText::from_text(bare), ..Default::default() })
}
