//! Transparent routes to MSMQ: the evidence comes in headers and arrives as it was.

use bytes::Bytes;
use connector_api::{Headers, Incoming, Value};
use mqbridge::mqqb::wire::{DeliveryMode, FormatName, Guid, QueueField, SecurityItem, UserMessage};
use mqbridge::security::{Authenticity, Cipher, ClearBody, Keyring, Provider, SealingKey, SignatureVersion};

use super::eventually;
use super::security::{ANY_HASH, any_cipher, key, message, sign};
use super::site::{ALL_KEYS, Site, route_out};

/// The user of the messages of the vectors.
const SID_A: &str = "S-1-5-21-1552933431-374529340-4150820168-1104";
const HERE: &str = r"DIRECT=OS:win-a\private$\q";

/// What a transparent route from MSMQ makes of a message.
fn in_headers(message: &UserMessage) -> Headers {
    let mut headers = Headers::new();
    let properties = &message.properties;
    let security = message.security.as_ref().unwrap();
    let mut bytes = |name, item: &SecurityItem| {
        if !item.data.is_empty() {
            headers.set(name, Value::Bytes(item.data.clone()));
        }
    };
    bytes("msmq-dest-symm-key", &security.encryption_key);
    bytes("msmq-signature", &security.signature);
    bytes("msmq-sender-cert", &security.sender_certificate);
    for (name, value) in [
        ("msmq-encryption-alg", properties.encryption_algorithm),
        ("msmq-privacy-level", properties.privacy_level),
        ("msmq-hash-alg", properties.hash_algorithm),
        ("msmq-body-type", properties.body_type),
        ("msmq-app-specific", properties.app_specific),
    ] {
        headers.set(name, Value::Int(i64::from(value)));
    }
    if let Some((kind, name)) = security.provider() {
        headers.set("msmq-provider-type", Value::Int(i64::from(kind)));
        headers.set("msmq-provider-name", Value::Text(name.to_string()));
    }
    headers.set("msmq-encrypted", Value::Bool(message.is_encrypted()));
    headers.set("msmq-sender-id", Value::Text(SID_A.to_owned()));
    headers.set("msmq-label", Value::Text(properties.label.as_ref().unwrap().to_text()));
    headers.set("msmq-response-queue", Value::Text(message.response_queue().unwrap().to_string()));
    headers
}

/// User A's, for the machine's queue.
fn for_the_machine() -> UserMessage {
    let mut message = message(b"signed and sealed");
    message.user.queue_manager_address = Guid::NULL;
    message.user.destination = QueueField::naming(&HERE.parse::<FormatName>().unwrap(), Guid::NULL).unwrap();
    message.user.admin = QueueField::None;
    message.properties.extension = Bytes::new();
    message.delivery = DeliveryMode::Recoverable;
    message
}

fn put(site: &Site, message: &UserMessage, headers: Headers) {
    let (body, id) = (message.properties.body.clone(), message.id().to_string());
    site.put_with("", |incoming| {
        *incoming = Incoming { body, message_id: Some(id), durable: true, headers, ..incoming.clone() };
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn signature_certificate_and_key_arrive_as_they_came() {
    let mut site = Site::start(&route_out(HERE, "mode = \"transparent\""), "").await;
    site.machine.switch_on().await;
    let receiver = key("qm-other-1024");
    let sealing_key = SealingKey::generate(Provider::Aes, Cipher::Aes192, receiver.public(), &mut rand::rng()).unwrap();
    for (ordinal, signed, sealed) in [(1, true, true), (2, true, false), (3, false, true), (4, false, false)] {
        let mut sent = for_the_machine();
        sent.user.message_id = ordinal;
        if signed {
            sign(&mut sent, SignatureVersion::V2);
        }
        if sealed {
            sealing_key.seal(&mut sent).unwrap();
        }
        let before = site.machine.inbox.messages().len();
        put(&site, &sent, in_headers(&sent));
        let received = site.machine.wait_for(before + 1).await.pop().unwrap();
        let (security, expected) = (received.security.as_ref().unwrap(), sent.security.as_ref().unwrap());
        assert_eq!(security.flags, expected.flags, "{signed} {sealed}");
        for (found, expected) in [
            (&security.sender_id, &expected.sender_id),
            (&security.encryption_key, &expected.encryption_key),
            (&security.signature, &expected.signature),
            (&security.sender_certificate, &expected.sender_certificate),
            (&security.provider_info, &expected.provider_info),
        ] {
            assert_eq!(found.data, expected.data, "{signed} {sealed}");
        }
        assert_eq!(received.properties.body, sent.properties.body);
        let mut body = ClearBody::open(&received, &Keyring::new(&receiver), &any_cipher(), &mut rand::rng()).unwrap();
        assert_eq!(body.plaintext().as_ref(), b"signed and sealed");
        // What the sender signed is what the machine verifies: the bridge has changed nothing that counts.
        let authenticity = Authenticity::of(&received, &mut body, &ANY_HASH).unwrap();
        assert_eq!(authenticity.proof().is_some(), signed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_evidence_is_just_a_message() {
    let mut site = Site::start(&route_out(HERE, "mode = \"transparent\""), "").await;
    site.machine.switch_on().await;
    site.put("plain");
    let received = site.machine.wait_for(1).await.pop().unwrap();
    assert_eq!((received.security, received.properties.body.as_ref()), (None, &b"plain"[..]));
}

/// Half of what it takes is refused: its receiver could not open it, or would take ciphertext for text.
#[tokio::test(flavor = "multi_thread")]
async fn evidence_that_makes_no_sense_is_refused() {
    let site = Site::start(&route_out(HERE, "mode = \"transparent\""), ALL_KEYS).await;
    let mut sent = for_the_machine();
    sign(&mut sent, SignatureVersion::V2);
    let receiver = key("qm-other-1024");
    let key = SealingKey::generate(Provider::Aes, Cipher::Aes192, receiver.public(), &mut rand::rng()).unwrap();
    key.seal(&mut sent).unwrap();
    let whole = in_headers(&sent);
    let changes: [(&'static str, Value); 7] = [
        ("msmq-dest-symm-key", Value::Null),
        ("msmq-dest-symm-key", Value::Text("text".to_owned())),
        ("msmq-encryption-alg", Value::Null),
        ("msmq-privacy-level", Value::Int(-1)),
        ("msmq-hash-alg", Value::Null),
        ("msmq-sender-id", Value::Text("somebody".to_owned())),
        ("msmq-sender-cert", Value::Bytes(vec![0; 70_000].into())),
    ];
    for (name, value) in changes {
        let mut headers = whole.clone();
        headers.set(name, value);
        put(&site, &sent, headers);
        eventually(name, || site.system.refused("out").pop()).await;
    }
    assert_eq!(site.bridge.view().report().outgoing.iter().map(|queue| queue.queue_messages).sum::<u64>(), 0);
}
