use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;

use super::outgoing::{Purpose, WeakOutgoing};
use super::{Admission, Ordinals};
use crate::mqqb::wire::{AckRequest, DeliveryMode, FormatName, Guid, MessageClass, QueueField, UserMessage};
use crate::net::Clock;
use crate::store::NewMessage;

/// The acknowledger, once everything that it needs is there.
pub(super) type AcknowledgerCell = Arc<OnceLock<Acknowledger>>;

/// Builds administration acknowledgments (MS-MQQB 3.1.7.15) and addresses them, ready to be stored together with what
/// they say.
#[derive(Clone, Debug)]
pub struct Acknowledger {
    pub(super) admission: Arc<Admission>,
    pub(super) outgoing: WeakOutgoing,
    pub(super) ordinals: Ordinals,
    pub(super) clock: Clock,
    /// `SendInsecureNacks`.
    pub(super) insecure_nacks: bool,
}

/// Bytes of acknowledgments that wait for one administration queue: whoever asks for them also says where they go, and may
/// name a machine that is never there.
const QUOTA: u64 = 16 << 20;

impl Acknowledger {
    /// The acknowledgment of this class for `message`, when its sender asked for it and named a queue that can be sent
    /// to. `called` is the address of ours that the sender connected to.
    pub fn companion(&self, message: &UserMessage, class: MessageClass, called: IpAddr) -> Option<NewMessage> {
        if !is_wanted(message, class) || (is_insecure(class) && !self.insecure_nacks) {
            return None;
        }
        let to = message.admin_queue()?;
        let not_sent = |reason: String| {
            tracing::warn!(
                event = "acknowledgment_not_sent", message_id = %message.id(), class = %class, queue = %to, reason = %reason,
                "an acknowledgment that was asked for can't be sent"
            );
        };
        let id = self.ordinals.try_next().or_else(|| {
            not_sent("the store does not write".to_owned());
            None
        })?;
        let now = self.clock.unix_now();
        let acknowledgment = build(message, class, &to, id, now);
        let mut packet = BytesMut::new();
        if let Err(malformed) = acknowledgment.encode(&mut packet) {
            not_sent(malformed.to_string());
            return None;
        }
        // An administration queue of our own is one of our routes' queues.
        let queue = match self.admission.find(&to, called) {
            Ok(route) => route.queue,
            Err(_) if self.admission.is_acks(&to, called) => return None,
            Err(_) => match self.outgoing.queue(&to, Purpose::Acknowledgments) {
                Ok(queue) => queue,
                Err(reason) => {
                    not_sent(reason.to_string());
                    return None;
                }
            },
        };
        Some(NewMessage {
            queue,
            priority: acknowledgment.base.priority(),
            frame: packet.freeze(),
            received_at: now,
            duplicate_key: None,
            foreign: None,
            marks: 0,
            queue_quota: QUOTA,
            stream: None,
            companions: Vec::new(),
        })
    }
}

/// Whether the sender asked for it. Acknowledgments are never acknowledged.
fn is_wanted(message: &UserMessage, class: MessageClass) -> bool {
    /// Classes from here on are about reading (MS-MQMQ 2.2.18.1.6: bit R).
    const ABOUT_READING: u16 = 0x4000;
    let about_reading = class.0 & ABOUT_READING != 0;
    let bit = match (class.is_negative(), about_reading) {
        (false, false) => AckRequest::POSITIVE_ARRIVAL,
        (false, true) => AckRequest::POSITIVE_READ,
        (true, false) => AckRequest::NEGATIVE_ARRIVAL,
        (true, true) => AckRequest::NEGATIVE_READ,
    };
    message.properties.ack_request.asks(bit) && !message.properties.class.is_acknowledgment()
}

/// Those that tell strangers what is there; Windows holds them back.
const fn is_insecure(class: MessageClass) -> bool {
    matches!(
        class,
        MessageClass::NACK_BAD_DST_Q
            | MessageClass::NACK_BAD_ENCRYPTION
            | MessageClass::NACK_BAD_SIGNATURE
            | MessageClass::NACK_ACCESS_DENIED
            | MessageClass::NACK_UNSUPPORTED_CRYPTO_PROVIDER
    )
}

/// Correlation identifier, response queue, delivery and body as 3.1.7.15 has them; label, application value, extension
/// and priority as Windows documents them for acknowledgment messages: those of the original.
fn build(
    original: &UserMessage,
    class: MessageClass,
    to: &FormatName,
    id: crate::mqqb::wire::MessageId,
    now: u64,
) -> UserMessage {
    let machine = match to {
        FormatName::Private { machine, .. } => *machine,
        _ => Guid::NULL,
    };
    let destination = QueueField::naming(to, machine).unwrap_or_default();
    let mut message = UserMessage::new(id, u32::try_from(now).unwrap_or(u32::MAX), machine, destination);
    message.base.flags = u16::from(original.base.priority());
    message.delivery = if original.is_recoverable() { DeliveryMode::Recoverable } else { DeliveryMode::Express };
    if let Some(queue) = original.destination() {
        message.user.response = QueueField::naming(&queue, machine).unwrap_or_default();
    }
    let properties = &mut message.properties;
    properties.class = class;
    properties.correlation_id = original.id().to_wire();
    properties.label.clone_from(&original.properties.label);
    properties.app_specific = original.properties.app_specific;
    properties.extension = original.properties.extension.clone();
    if class.is_negative() && !original.is_encrypted() {
        properties.set_body(original.properties.body.clone(), original.properties.body_type);
    }
    message
}
