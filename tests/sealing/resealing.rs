//! Routes to AMQP that encrypt again what they have opened.

use bytes::Bytes;
use connector_api::{Address, Body, Message, Value};
use mqbridge::mqqb::wire::{SecurityHeader, SecurityItem, UserMessage};
use mqbridge::security::{Authenticity, Cipher, ClearBody, Jwe, Keyring, Provider, SealingKey, SignatureVersion};

use super::flaky::Outage;
use super::security::{ANY_HASH, any_cipher, key, message, sign};
use super::site::{ALL_KEYS, Site};

const SECRET: &[u8] = b"CANARY-5d20: nobody but the receiver reads this";

/// A route from the private queue `orders`.
pub(crate) fn route(security: &str) -> String {
    format!(
        "[from]\nqueue = 'private$\\orders'\nprivate_id = 10\nignore_expiry = true\n\
         [to]\nconnector = \"memory\"\nexchange = \"orders\"\nrouting_key = \"x\"\n[security]\n{security}\n"
    )
}

/// For the route's queue, from nobody in particular.
fn to_the_bridge(body: &[u8], ordinal: u32) -> UserMessage {
    let mut message = message(body);
    message.user.queue_manager_address = Site::own();
    message.user.message_id = ordinal;
    message.security = None;
    message
}

/// Signed, and encrypted for the bridge.
fn signed_and_sealed(ordinal: u32) -> UserMessage {
    let mut message = to_the_bridge(SECRET, ordinal);
    message.security = Some(SecurityHeader::default());
    sign(&mut message, SignatureVersion::V2);
    let receiver = key("qm-local-2048");
    let key = SealingKey::generate(Provider::Aes, Cipher::Aes128, receiver.public(), &mut rand::rng()).unwrap();
    key.seal(&mut message).unwrap();
    message
}

fn bytes(message: &Message, name: &str) -> Bytes {
    match message.headers.get(name) {
        Some(Value::Bytes(bytes)) => bytes.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

fn number(message: &Message, name: &str) -> u32 {
    match message.headers.get(name) {
        Some(Value::Int(number)) => u32::try_from(*number).unwrap(),
        other => panic!("{name}: {other:?}"),
    }
}

fn is_readable(message: &Message) -> bool {
    message.body.bytes().windows(12).any(|window| window == &SECRET[..12])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_opens_msmq_s_own_form_with_what_the_headers_say() {
    let site = Site::start(&route("reseal_for = \"WIN-A\""), ALL_KEYS).await;
    let sent = [signed_and_sealed(1), to_the_bridge(SECRET, 2)];
    site.send(&sent).await;
    let arrived = site.arrived(2).await;
    for (arrived, sent) in arrived.iter().zip(sent) {
        assert!(!is_readable(arrived), "clear or not when it came, it goes out encrypted");
        assert_eq!(arrived.headers.get("msmq-encrypted"), Some(&Value::Bool(true)));
        assert_eq!(arrived.headers.get("msmq-provider-name"), Some(&Value::Text(Provider::Aes.name().to_owned())));
        assert_eq!(number(arrived, "msmq-provider-type"), 0x18);
        assert_eq!(number(arrived, "msmq-encryption-alg"), Cipher::Aes256.calg());
        assert_eq!(number(arrived, "msmq-privacy-level"), 5);
        assert!(matches!(&arrived.body, Body::Sealed { encrypted_key, .. }
            if *encrypted_key == bytes(arrived, "msmq-dest-symm-key")));
        // Put together again from the headers alone.
        let mut message = sent.clone();
        message.properties.set_body(arrived.body.bytes().clone(), 8);
        message.properties.encryption_algorithm = number(arrived, "msmq-encryption-alg");
        message.properties.privacy_level = number(arrived, "msmq-privacy-level");
        let security = message.security.get_or_insert_default();
        security.flags |= SecurityHeader::ENCRYPTED;
        security.encryption_key = SecurityItem::new(bytes(arrived, "msmq-dest-symm-key"));
        let keyring = Keyring::new(&key("qm-other-1024"));
        let mut body = ClearBody::open(&message, &keyring, &any_cipher(), &mut rand::rng()).unwrap();
        assert_eq!(body.plaintext(), SECRET);
        if sent.is_signed() {
            // The signature is over the plaintext and proves as much as before.
            let signature = bytes(arrived, "msmq-signature");
            assert_eq!(signature, sent.security.as_ref().unwrap().signature.data);
            assert!(Authenticity::of(&message, &mut body, &ANY_HASH).unwrap().proof().is_some());
            assert_eq!(arrived.headers.get("msmq-certificate-verified"), Some(&Value::Bool(true)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_library_opens_a_jwe() {
    let site = Site::start(&route("reseal_for = \"win-a\"\nreseal_as = \"jwe\""), ALL_KEYS).await;
    site.send(&[signed_and_sealed(1), to_the_bridge(SECRET, 2), to_the_bridge(b"", 3)]).await;
    for (arrived, expected) in site.arrived(3).await.iter().zip([SECRET, SECRET, b""]) {
        assert_eq!(arrived.content_type, "application/jose");
        assert!(!is_readable(arrived));
        assert_eq!(number(arrived, "msmq-body-type"), 8, "of what is inside");
        let text = std::str::from_utf8(arrived.body.bytes()).unwrap();
        assert_eq!(Jwe::open(text, [&key("qm-other-1024")], &mut rand::rng()).unwrap(), expected);
        assert!(arrived.headers.get("msmq-dest-symm-key").is_none());
    }
}

/// Nothing is lost, nothing goes out in clear, and order is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_waits_for_the_receiver_s_key() {
    for form in ["msmq", "jwe"] {
        let security = format!("reseal_for = \"win-a\"\nreseal_as = \"{form}\"");
        let site = Site::start(&route(&security), ALL_KEYS).await;
        site.send(&[to_the_bridge(SECRET, 1)]).await;
        site.arrived(1).await;
        site.directory.set(Outage::Down);
        site.send(&(2..20).map(|ordinal| to_the_bridge(SECRET, ordinal)).collect::<Vec<_>>()).await;
        site.wait_for_failure("the directory can't be asked").await;
        assert_eq!(site.system.arrived().len(), 1);
        site.directory.set(Outage::None);
        let arrived = site.arrived(19).await;
        let ordinals = arrived.iter().map(|message| message.message_id.rsplit_once('\\').unwrap().1.parse().unwrap());
        assert_eq!(ordinals.collect::<Vec<u32>>(), (1..20).collect::<Vec<_>>());
        assert!(!arrived.iter().any(is_readable));
        site.wait_for_recovery().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_without_a_key_is_named_as_the_reason() {
    for (keys, security, reason) in [
        ("", "reseal_for = \"win-a\"", "machine win-a has no key for aes256 in the directory"),
        ("", "reseal_for = \"win-a\"\nreseal_as = \"jwe\"", "machine win-a has no key for a JWE in the directory"),
        (
            "key_files = { base = \"short.pem\" }",
            "reseal_for = \"win-a\"\nreseal_as = \"jwe\"",
            "the receiver's key is too short for RSA-OAEP-256",
        ),
        (ALL_KEYS, "reseal_for = \"warehouse\"", "the directory has no machine warehouse"),
    ] {
        let site = Site::start(&route(security), keys).await;
        site.send(&[signed_and_sealed(1), to_the_bridge(SECRET, 2)]).await;
        site.wait_for_failure(reason).await;
        let orders = Address { exchange: "orders".to_owned(), routing_key: "x".to_owned() };
        assert_eq!(site.system.take(&orders), []);
        assert_eq!(site.bridge.view().report().routes[0].queue_messages, 2, "{reason}");
    }
}
