use connector_api::{Address, Body, Headers, Message, Value};

use crate::bridge::{Marks, RouteEntry};
use crate::config::{ExtensionPolicy, Placeholder};
use crate::mqqb::wire::{BaseHeader, MessageId, QueuePath, SecurityHeader, SenderId, UserMessage};
use crate::security::{ClearBody, Jwe, Provider};

/// The longest AMQP routing key and the longest short string, in bytes.
const SHORT_STRING: usize = 255;

/// A message that has no form on the other side, however often it is tried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untranslatable {
    /// The routing key would be too long.
    #[error("its routing key would have {0} bytes; AMQP allows {SHORT_STRING}")]
    RoutingKey(usize),
    /// The extension is too long and the route says to set such messages aside.
    #[error("its extension has {size} bytes; to.extension_limit allows {limit}")]
    Extension {
        /// Its size.
        size: usize,
        /// The limit.
        limit: u64,
    },
    /// It was not read in time.
    #[error("it expired in its queue: it had {limit} s to be received and is {age} s old")]
    Expired {
        /// Seconds since it was sent.
        age: u64,
        /// What the sender gave it.
        limit: u32,
    },
}

/// The content type of a JWE in compact form (RFC 7515 9.2.1).
const JOSE: &str = "application/jose";

/// What was found out about a message before it is translated.
pub struct Found {
    /// Its body, as its route hands it over.
    pub contents: Contents,
    /// What was proven of it when it came.
    pub marks: Marks,
}

/// What a route hands over of a body.
#[derive(Debug)]
pub enum Contents {
    /// What came, with all evidence.
    AsItCame,
    /// What is in it.
    Clear(ClearBody),
    /// What is in it, encrypted for another machine.
    Resealed(Resealed),
}

/// A body that was encrypted again.
#[derive(Debug)]
pub enum Resealed {
    /// As MSMQ does it.
    Msmq {
        /// The message with its other body.
        message: Box<UserMessage>,
        /// Whose key it was done with.
        provider: Provider,
    },
    /// As JWE.
    Jwe(Jwe),
}

/// The AMQP form of a message of this route. `now` is in seconds since 1970; `redelivered` says that it was, or may
/// have been, published before.
pub fn to_amqp(
    message: &UserMessage,
    route: &RouteEntry,
    now: u64,
    redelivered: bool,
    found: Found,
) -> Result<Message, Untranslatable> {
    let properties = &message.properties;
    let expiration = expiration(message, route, now)?;
    let label = properties.label.as_ref().map(ToString::to_string);
    let routing_key = routing_key(message, route, label.as_deref())?;
    let mut headers = Headers::new();
    headers.set("msmq-body-type", Value::Int(i64::from(properties.body_type)));
    if let Some(label) = label {
        headers.set("msmq-label", Value::Text(label));
    }
    if properties.app_specific != 0 {
        headers.set("msmq-app-specific", Value::Int(i64::from(properties.app_specific)));
    }
    if properties.class.0 != 0 {
        headers.set("msmq-class", Value::Int(i64::from(properties.class.0)));
    }
    extension(message, route, &mut headers)?;
    for (name, queue) in [
        ("msmq-destination", message.destination()),
        ("msmq-response-queue", message.response_queue()),
        ("msmq-admin-queue", message.admin_queue()),
    ] {
        if let Some(queue) = queue {
            headers.set(name, Value::Text(queue.to_string()));
        }
    }
    headers.set("msmq-source-machine", Value::Text(message.id().source.to_string()));
    if let Some(sender) = message.security.as_ref().and_then(sender_id) {
        headers.set("msmq-sender-id", Value::Text(sender));
    }
    headers.set("msmq-authenticated", Value::Bool(found.marks.authenticated));
    if found.marks.certificate_verified {
        headers.set("msmq-certificate-verified", Value::Bool(true));
    }
    if let Some(version) = found.marks.signature {
        headers.set("msmq-signature-version", Value::Text(version.to_string()));
    }
    headers.set("msmq-redelivered", Value::Bool(redelivered));
    let mut content_type = content_type(route, properties.body_type);
    let body = match found.contents {
        Contents::AsItCame => transparent_body(message, &mut headers),
        Contents::Clear(body) => Body::Clear(body.plaintext().clone()),
        Contents::Resealed(Resealed::Msmq { message, provider }) => resealed_body(&message, provider, &mut headers),
        Contents::Resealed(Resealed::Jwe(jwe)) => {
            content_type = JOSE;
            Body::Clear(jwe.as_str().as_bytes().to_vec().into())
        }
    };
    Ok(Message {
        address: Address { exchange: route.config.to.exchange.clone(), routing_key },
        message_id: message.id().to_string(),
        correlation_id: correlation_id(properties.correlation_id),
        reply_to: message.response_queue().and_then(|queue| route.replies.of(&queue).map(str::to_owned)),
        timestamp: Some(u64::from(message.user.sent_time)),
        priority: message.base.priority(),
        durable: message.is_recoverable(),
        expiration,
        content_type: content_type.to_owned(),
        headers,
        body,
    })
}

/// Remaining milliseconds to be received; `None` for ever.
fn expiration(message: &UserMessage, route: &RouteEntry, now: u64) -> Result<Option<u64>, Untranslatable> {
    let limit = message.user.time_to_be_received;
    if limit == BaseHeader::INFINITE || route.config.from.ignore_expiry {
        return Ok(None);
    }
    let age = now.saturating_sub(u64::from(message.user.sent_time));
    let forgiven = age.saturating_sub(route.clock_skew.as_secs());
    match u64::from(limit).checked_sub(forgiven) {
        Some(left) => Ok(Some(left.saturating_mul(1000))),
        None => Err(Untranslatable::Expired { age, limit }),
    }
}

fn routing_key(message: &UserMessage, route: &RouteEntry, label: Option<&str>) -> Result<String, Untranslatable> {
    let queue = match &route.config.from.queue {
        QueuePath::Private { name, .. } | QueuePath::Public { name, .. } => name.as_str(),
        QueuePath::System(_) => "",
    };
    let key = route.config.to.routing_key.render(|placeholder| match placeholder {
        // Names of AMQP hold no NUL, which a label may.
        Placeholder::Label => label.and_then(|label| label.split('\0').next()).unwrap_or_default().to_owned(),
        Placeholder::Queue => queue.to_owned(),
        Placeholder::Class => message.properties.class.0.to_string(),
        Placeholder::AppSpecific => message.properties.app_specific.to_string(),
        Placeholder::SenderMachine => message.id().source.to_string(),
    });
    if key.len() > SHORT_STRING {
        return Err(Untranslatable::RoutingKey(key.len()));
    }
    Ok(key)
}

/// The extension is one header, and headers can't be larger than a frame (field report R55).
fn extension(message: &UserMessage, route: &RouteEntry, headers: &mut Headers) -> Result<(), Untranslatable> {
    let extension = &message.properties.extension;
    let limit = route.config.to.extension_limit;
    if extension.is_empty() {
        return Ok(());
    }
    if extension.len() as u64 <= limit {
        headers.set("msmq-extension", Value::Bytes(extension.clone()));
        return Ok(());
    }
    match route.config.to.extension_policy {
        ExtensionPolicy::Omit => {
            headers.set("msmq-extension-omitted", Value::Int(i64::try_from(extension.len()).unwrap_or(i64::MAX)));
            Ok(())
        }
        ExtensionPolicy::DeadLetter => Err(Untranslatable::Extension { size: extension.len(), limit }),
    }
}

fn sender_id(security: &SecurityHeader) -> Option<String> {
    match security.sender() {
        // A claim that makes no sense claims nothing.
        Ok(SenderId::None) | Err(_) => None,
        Ok(SenderId::Sid(sid)) => Some(sid.to_string()),
        Ok(SenderId::QueueManager(machine)) => Some(machine.to_string()),
    }
}

/// All evidence as it came, nothing looked at.
fn transparent_body(message: &UserMessage, headers: &mut Headers) -> Body {
    let body = message.properties.body.clone();
    let Some(security) = &message.security else { return Body::Clear(body) };
    let encrypted = security.is_encrypted();
    headers.set("msmq-encrypted", Value::Bool(encrypted));
    let multi_queue = message.multi_queue.as_ref().map(|multi| &multi.signature.value);
    let signature = Some(&security.signature.data).filter(|value| !value.is_empty()).or(multi_queue);
    if let Some(signature) = signature.filter(|value| !value.is_empty()) {
        headers.set("msmq-signature", Value::Bytes(signature.clone()));
        headers.set("msmq-hash-alg", Value::Int(i64::from(message.properties.hash_algorithm)));
    }
    if !security.sender_certificate.data.is_empty() {
        headers.set("msmq-sender-cert", Value::Bytes(security.sender_certificate.data.clone()));
    }
    let provider = security.provider();
    if let Some((kind, name)) = &provider {
        headers.set("msmq-provider-type", Value::Int(i64::from(*kind)));
        headers.set("msmq-provider-name", Value::Text(name.to_string()));
    }
    if !encrypted {
        return Body::Clear(body);
    }
    let encrypted_key = security.encryption_key.data.clone();
    headers.set("msmq-dest-symm-key", Value::Bytes(encrypted_key.clone()));
    headers.set("msmq-encryption-alg", Value::Int(i64::from(message.properties.encryption_algorithm)));
    headers.set("msmq-privacy-level", Value::Int(i64::from(message.properties.privacy_level)));
    Body::Sealed {
        ciphertext: body,
        encrypted_key,
        algorithm: message.properties.encryption_algorithm,
        provider: provider.map(|(_, name)| name.to_string()),
    }
}

/// A message that was encrypted here: the same headers, and always the provider.
fn resealed_body(message: &UserMessage, provider: Provider, headers: &mut Headers) -> Body {
    let mut body = transparent_body(message, headers);
    headers.set("msmq-provider-type", Value::Int(i64::from(provider.type_code())));
    headers.set("msmq-provider-name", Value::Text(provider.name().to_owned()));
    if let Body::Sealed { provider: name, .. } = &mut body {
        *name = Some(provider.name().to_owned());
    }
    body
}

/// Absent when all zero: "answers nothing".
fn correlation_id(bytes: [u8; MessageId::SIZE]) -> Option<String> {
    (bytes != [0; MessageId::SIZE]).then(|| MessageId::from_wire(bytes).to_string())
}

/// By the body type, when the route does not say: only what is certain about the bytes (field reports 2.3).
fn content_type(route: &RouteEntry, body_type: u32) -> &str {
    const LPSTR: u32 = 30;
    const BSTR: u32 = 8;
    const LPWSTR: u32 = 31;
    if let Some(configured) = &route.config.to.content_type {
        return configured;
    }
    match body_type {
        BSTR | LPWSTR => "text/plain; charset=utf-16le",
        LPSTR => "text/plain",
        _ => "application/octet-stream",
    }
}
