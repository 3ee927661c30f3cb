//! The whole way of signed, private and restricted messages: from a session to the foreign system, or back to the sender
//! with the class of its refusal. The foreign system is in memory; the keys and certificates are those of the vectors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking and run in real time"
)]

mod flaky;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../security/mod.rs"]
mod security;
mod site;

use bytes::Bytes;
use connector_api::{Body, Value};
use mqbridge::mqqb::wire::{AckRequest, MessageClass, SecurityHeader, SecurityItem, UserMessage};
use mqbridge::security::{Cipher, HashAlgorithm, Provider, SealingKey, SignatureForm, SignatureVersion, Signer};

use flaky::Outage;
use security::{certificate, key, message, sign, signed};
use site::{Site, asking, text};

const SID_A: &str = "S-1-5-21-1552933431-374529340-4150820168-1104";

fn sealing_key(receiver: &str, cipher: Cipher) -> SealingKey {
    SealingKey::generate(Provider::Aes, cipher, key(receiver).public(), &mut rand::rng()).unwrap()
}

fn sealed(mut message: UserMessage, key: &SealingKey) -> UserMessage {
    key.seal(&mut message).unwrap();
    message
}

fn numbered(mut message: UserMessage, ordinal: u32) -> UserMessage {
    message.user.message_id = ordinal;
    message
}

fn without_sender(mut message: UserMessage) -> UserMessage {
    message.security = None;
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_proven_is_said_and_nothing_else() {
    let site = Site::start("", "").await;
    let unsigned = numbered(message(b"claims to be A"), 1);
    let one = numbered(signed(b"one", SignatureVersion::V1), 2);
    let two = numbered(signed(b"two", SignatureVersion::V2), 3);
    // An external certificate, and nobody whose it is.
    let mut partner = numbered(without_sender(message(b"partner")), 4);
    partner.security = Some(SecurityHeader { flags: SecurityHeader::DATA_PRESENT, ..SecurityHeader::default() });
    let (partner_key, partner_certificate) = (key("partner-2048"), certificate("partner-2048-external"));
    let signer = Signer {
        key: &partner_key,
        certificate: &partner_certificate,
        hash: HashAlgorithm::Sha512,
        form: SignatureForm::Wire,
    };
    signer.sign(&mut partner, SignatureVersion::V2, &mut rand::rng()).unwrap();
    site.send(&[unsigned, one, two, partner]).await;
    let arrived = site.wait_for(4).await;
    let found: Vec<_> = arrived
        .iter()
        .map(|message| {
            let flag = |name| message.headers.get(name) == Some(&Value::Bool(true));
            let version = message.headers.get("msmq-signature-version").and_then(text);
            (flag("msmq-authenticated"), flag("msmq-certificate-verified"), version)
        })
        .collect();
    assert_eq!(
        found,
        [
            (false, false, None),
            (true, false, Some("1.0".to_owned())),
            (true, false, Some("2.0".to_owned())),
            (false, true, Some("2.0".to_owned())),
        ]
    );
    assert_eq!(arrived[0].headers.get("msmq-sender-id"), Some(&Value::Text(SID_A.to_owned())));
    // What was proven on arrival is kept with the message, and the same after a restart.
    site.system.disconnect("away");
    site.send(&[numbered(signed(b"three", SignatureVersion::V2), 5)]).await;
    let site = site.restart().await;
    let arrived = site.wait_for(5).await;
    assert_eq!(arrived[4].headers.get("msmq-authenticated"), Some(&Value::Bool(true)));
}

/// A message is altered on its way and signed anew, with another certificate, under the original's sender id.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_anew_under_another_s_name_is_refused() {
    let site = Site::start("insecure_nacks = true", "").await;
    let forged_by = |user: &str, ordinal| {
        let mut forged = numbered(message(b"pay 1,000,000"), ordinal);
        let (key, certificate) = (key(&format!("{user}-1024")), certificate(&format!("{user}-1024-internal")));
        let signer =
            Signer { key: &key, certificate: &certificate, hash: HashAlgorithm::Sha256, form: SignatureForm::Property };
        signer.sign(&mut forged, SignatureVersion::V2, &mut rand::rng()).unwrap();
        asking(forged)
    };
    let mut altered = numbered(signed(b"pay 10", SignatureVersion::V2), 3);
    altered.properties.body = Bytes::from_static(b"pay 99");
    let altered = asking(altered);
    site.send(&[forged_by("user-b", 1), forged_by("source-a", 2), altered]).await;
    let answers = site.machine.wait_for(3).await;
    assert!(answers.iter().all(|answer| answer.properties.class == MessageClass::NACK_BAD_SIGNATURE), "{answers:?}");
    site.send(&[numbered(signed(b"genuine", SignatureVersion::V2), 4)]).await;
    assert_eq!(site.wait_for(1).await[0].body, Body::Clear(Bytes::from_static(b"genuine")));
}

#[tokio::test(flavor = "multi_thread")]
async fn private_messages_are_opened_and_their_keys_are_kept() {
    let site = Site::start("", "ciphers = [\"aes128\", \"aes192\", \"aes256\", \"rc2\", \"rc4\"]").await;
    let key = sealing_key("qm-local-2048", Cipher::Aes256);
    let secret = b"CANARY-7f3e: nobody but the receiver reads this";
    let messages: Vec<_> = (1..=20).map(|n| numbered(sealed(message(secret), &key), n)).collect();
    site.system.disconnect("away");
    site.send(&messages).await;
    // Plaintext never reaches the disk.
    let disk = std::fs::read(site.path().join("store.redb")).unwrap();
    assert!(disk.len() > 4096);
    assert!(!disk.windows(12).any(|window| window == &secret[..12]));
    site.system.reconnect();
    let arrived = site.wait_for(20).await;
    assert!(arrived.iter().all(|message| message.body == Body::Clear(Bytes::from_static(secret))));
    assert!(arrived.iter().all(|message| message.headers.get("msmq-dest-symm-key").is_none()));
    // Another key, and a signed one.
    let mut both = signed(b"signed and sealed", SignatureVersion::V2);
    sealing_key("qm-local-1024", Cipher::Aes128).seal(&mut both).unwrap();
    site.send(&[numbered(both, 21)]).await;
    let last = site.wait_for(21).await.pop().unwrap();
    assert_eq!(last.body, Body::Clear(Bytes::from_static(b"signed and sealed")));
    assert_eq!(last.headers.get("msmq-authenticated"), Some(&Value::Bool(true)));
}

/// Every way in which a body can't be opened is one refusal, and the messages around it are not touched.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_t_be_opened_is_refused_in_one_way() {
    let site = Site::start("insecure_nacks = true", "").await;
    let good = sealing_key("qm-local-2048", Cipher::Aes256);
    let with_body = |mut message: UserMessage, body: &'static [u8]| {
        message.properties.set_body(Bytes::from_static(body), 8);
        message
    };
    let with_key = |mut message: UserMessage, bytes: Bytes| {
        message.security.as_mut().unwrap().encryption_key = SecurityItem::new(bytes);
        message
    };
    let bad = [
        sealed(message(b"for another machine"), &sealing_key("qm-other-1024", Cipher::Aes256)),
        with_body(sealed(message(b"x"), &good), b"no whole block"),
        with_body(sealed(message(b"x"), &good), &[0x55; 32]),
        with_key(sealed(message(b"x"), &good), Bytes::new()),
        with_key(sealed(message(b"x"), &good), Bytes::from_static(&[1, 2, 3])),
        with_key(sealed(message(b"x"), &good), Bytes::from(vec![0x11; 12 + 256])),
    ];
    let count = bad.len();
    let mut messages: Vec<_> = bad.into_iter().map(asking).collect();
    messages.insert(3, message(b"clear"));
    messages.push(sealed(message(b"opened"), &good));
    let messages: Vec<_> = (1..).zip(messages).map(|(n, message)| numbered(message, n)).collect();
    site.send(&messages).await;
    let answers = site.machine.wait_for(count).await;
    assert!(answers.iter().all(|answer| answer.properties.class == MessageClass::NACK_BAD_ENCRYPTION));
    assert!(answers.iter().all(|answer| answer.properties.body.is_empty()), "a sealed body does not go back in clear");
    let bodies: Vec<_> = site.wait_for(2).await.into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, [Body::Clear(Bytes::from_static(b"clear")), Body::Clear(Bytes::from_static(b"opened"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_says_what_it_takes() {
    let key = sealing_key("qm-local-2048", Cipher::Aes256);
    let old = SealingKey::generate(
        Provider::Enhanced,
        Cipher::Rc4,
        security::key("qm-local-1024").public(),
        &mut rand::rng(),
    );
    let old = old.unwrap();
    let plain = || message(b"x");
    let nobody = || without_sender(message(b"x"));
    let genuine = || signed(b"x", SignatureVersion::V2);
    let (encryption, signature, access) =
        (MessageClass::NACK_BAD_ENCRYPTION, MessageClass::NACK_BAD_SIGNATURE, MessageClass::NACK_ACCESS_DENIED);
    let cases = vec![
        ("privacy = \"required\"", plain(), Some(encryption)),
        ("privacy = \"required\"", sealed(plain(), &key), None),
        ("privacy = \"none\"", sealed(plain(), &key), Some(encryption)),
        ("ciphers = [\"aes128\"]", sealed(plain(), &key), Some(encryption)),
        ("", sealed(plain(), &old), Some(encryption)),
        ("ciphers = [\"rc4\"]", sealed(plain(), &old), None),
        ("authenticate = \"required\"", plain(), Some(signature)),
        ("authenticate = \"required\"", nobody(), Some(signature)),
        ("authenticate = \"required\"", genuine(), None),
        ("min_hash = \"sha512\"", genuine(), Some(signature)),
        ("senders = [\"everyone\"]", nobody(), None),
        ("senders = [\"order-clerks\"]", nobody(), Some(access)),
        ("senders = [\"order-clerks\"]", plain(), None),
        ("senders = [\"ORDER-Clerks\"]", genuine(), None),
        ("senders = [\"accountants\"]", genuine(), Some(access)),
        ("senders = [\"S-1-5-21-1552933431-374529340-4150820168-1104\"]", plain(), None),
        ("senders = [\"S-1-5-21-1552933431-374529340-4150820168-1105\"]", plain(), Some(access)),
        ("senders = [\"S-1-5-21-1-2-3-513\"]", plain(), None),
        ("[[queue]]access = [\"order-clerks\"]", genuine(), None),
        ("[[queue]]access = [\"S-1-5-21-1-2-3-1999\"]", genuine(), Some(access)),
        ("senders = [\"order-clerks\"]\n[[queue]]access = []", genuine(), Some(access)),
        // A sender id that no signature proves is a claim.
        ("senders = [\"order-clerks\"]\nauthenticate = \"required\"", plain(), Some(signature)),
    ];
    for (from, message, refusal) in cases {
        let site = Site::start("insecure_nacks = true", from).await;
        site.send(&[asking(message)]).await;
        match refusal {
            Some(class) => {
                assert_eq!(site.machine.wait_for(1).await[0].properties.class, class, "{from}");
                assert!(site.system.arrived().is_empty(), "{from}");
            }
            None => assert_eq!(site.wait_for(1).await.len(), 1, "{from}"),
        }
    }
}

/// Transparent: nothing is opened, and all evidence is there for whoever can.
#[tokio::test(flavor = "multi_thread")]
async fn a_transparent_route_passes_everything_on_as_it_came() {
    let site = Site::start("", "\n[security]\nmode = \"transparent\"\n[from]").await;
    let sealed =
        sealed(numbered(signed(b"secret", SignatureVersion::V2), 1), &sealing_key("qm-other-1024", Cipher::Aes256));
    let clear = numbered(signed(b"clear", SignatureVersion::V2), 2);
    site.send(&[sealed.clone(), clear]).await;
    let arrived = site.wait_for(2).await;
    assert_eq!(arrived[0].body.bytes(), &sealed.properties.body);
    let security = sealed.security.as_ref().unwrap();
    for (name, value) in [
        ("msmq-dest-symm-key", &security.encryption_key.data),
        ("msmq-signature", &security.signature.data),
        ("msmq-sender-cert", &security.sender_certificate.data),
    ] {
        assert_eq!(arrived[0].headers.get(name), Some(&Value::Bytes(value.clone())), "{name}");
    }
    let authenticated = |n: usize| arrived[n].headers.get("msmq-authenticated").cloned();
    assert_eq!(authenticated(0), Some(Value::Bool(false)), "a body that is not opened can't be verified");
    assert_eq!(authenticated(1), Some(Value::Bool(true)));
}

/// Plain messages behind one that takes long wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_between_messages_that_are_examined_and_others() {
    let site = Site::start("", "").await;
    let messages: Vec<_> = (1..=60)
        .map(|n| {
            let message = match n % 3 {
                0 => without_sender(message(b"plain")),
                1 => sealed(message(b"sealed"), &sealing_key("qm-local-2048", Cipher::Aes128)),
                _ => signed(b"signed", SignatureVersion::V1),
            };
            numbered(message, n)
        })
        .collect();
    site.send(&messages).await;
    let arrived = site.wait_for(60).await;
    let ordinals: Vec<u32> =
        arrived.iter().map(|message| message.message_id.rsplit_once('\\').unwrap().1.parse().unwrap()).collect();
    assert_eq!(ordinals, (1..=60).collect::<Vec<_>>());
}

/// A directory that can't be asked is no reason to refuse, nor to accept.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_while_the_directory_can_t_be_asked() {
    let site = Site::start("insecure_nacks = true", "").await;
    site.directory.set(Outage::Down);
    let message = asking(numbered(signed(b"x", SignatureVersion::V2), 1));
    assert!(site.try_send(std::slice::from_ref(&message)).await.is_err(), "the session is closed");
    assert!(site.system.arrived().is_empty());
    assert!(site.machine.inbox.messages().is_empty());
    site.directory.set(Outage::None);
    site.send(&[message]).await;
    assert_eq!(site.wait_for(1).await.len(), 1);
}

/// What is wrong with a signature or a certificate is one refusal each; none of them disturbs anything else.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_place_of_signatures_is_refused() {
    let site = Site::start("insecure_nacks = true", "").await;
    let with = |change: &dyn Fn(&mut UserMessage)| {
        let mut message = signed(b"x", SignatureVersion::V2);
        change(&mut message);
        asking(message)
    };
    let certificate = |bytes: Vec<u8>| {
        move |message: &mut UserMessage| {
            message.security.as_mut().unwrap().sender_certificate = SecurityItem::new(Bytes::from(bytes.clone()));
        }
    };
    let signature = |bytes: Vec<u8>| {
        move |message: &mut UserMessage| {
            message.security.as_mut().unwrap().signature = SecurityItem::new(Bytes::from(bytes.clone()));
        }
    };
    let elliptic = security::file("keys/user-a-p256-external.der").to_vec();
    let bad = [
        with(&certificate(b"no certificate".to_vec())),
        with(&certificate(vec![0x30; 60_000])),
        with(&certificate(elliptic)),
        with(&certificate(Vec::new())),
        with(&signature(vec![1; 127])),
        with(&signature(vec![1; 129])),
        with(&signature(vec![0xFF; 128])),
        with(&|message| message.properties.hash_algorithm = 0x1234),
        with(&|message| message.properties.hash_algorithm = 0x8001),
        with(&|message| {
            message.security.as_mut().unwrap().sender_id = SecurityItem::new(Bytes::from_static(&[1, 255, 0]));
        }),
    ];
    let count = bad.len();
    let messages: Vec<_> = (1..).zip(bad).map(|(n, message)| numbered(message, n)).collect();
    site.send(&messages).await;
    let answers = site.machine.wait_for(count).await;
    assert!(answers.iter().all(|answer| answer.properties.class == MessageClass::NACK_BAD_SIGNATURE));
    // A certificate without a signature proves nothing and harms nothing.
    let mut unsigned = numbered(message(b"unsigned"), 100);
    sign(&mut unsigned, SignatureVersion::V2);
    unsigned.security.as_mut().unwrap().signature = SecurityItem::default();
    unsigned.properties.ack_request = AckRequest(0);
    site.send(&[unsigned]).await;
    assert_eq!(site.wait_for(1).await[0].headers.get("msmq-authenticated"), Some(&Value::Bool(false)));
}
