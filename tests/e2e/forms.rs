//! The AMQP form of a message, read by a client in another language.

use std::process::Command;

use bytes::Bytes;
use mqbridge::mqqb::wire::{
    DeliveryMode, DirectField, Guid, MessageClass, MessageId, QueueField, SecurityHeader, SecurityItem, UserMessage,
    WideText,
};
use serde_json::{Value, json};
use testkit::SharedBroker;

use crate::broker::{Application, unique};
use crate::process::{Site, route};
use crate::sender::{deliver, message, now, runtime, source};

pub(crate) fn python() -> String {
    std::env::var("MQBRIDGE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// What pika reads from the queue.
fn read_with_pika(uri: &str, queue: &str, count: usize) -> Vec<Value> {
    let output = Command::new(python())
        .args(["tests/e2e/read_with_pika.py", uri, queue, &count.to_string()])
        .output()
        .expect("python3 is there; `cargo xtask test` installs what it needs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    messages.sort_by_key(|message| {
        message["message_id"].as_str().unwrap().rsplit('\\').next().unwrap().parse::<u32>().unwrap()
    });
    messages
}

fn direct(name: &str) -> QueueField {
    QueueField::Direct(DirectField { name: WideText::from_text(name), ..Default::default() })
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            text.push(if place <= chunk.len() {
                ALPHABET[(word >> (18 - 6 * place) & 63) as usize].into()
            } else {
                '='
            });
        }
    }
    text
}

/// A SID as the wire has it: S-1-5-21-1-2-3-1104.
const SID: [u8; 28] = [1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0x50, 4, 0, 0];

/// Everything that a message can carry without being signed or encrypted.
fn rich(ordinal: u32, sent: u32) -> UserMessage {
    let mut message = message("rich", ordinal);
    message.base.flags = 7;
    message.user.sent_time = sent;
    message.user.time_to_be_received = 3600;
    message.user.response = direct(r"OS:win01\private$\replies");
    message.user.admin = direct(r"TCP:10.1.2.3\private$\acks");
    let properties = &mut message.properties;
    properties.label = Some(WideText::from_text("order Nr. 7 – Grüße 🙂"));
    properties.class = MessageClass(0x0123);
    properties.correlation_id =
        MessageId { source: Guid::from_wire(*b"another machine!"), ordinal: 0xFFFF_FFFF }.to_wire();
    properties.body_type = 0x1011;
    properties.app_specific = 0xFFFF_FFFE;
    properties.extension = Bytes::from_static(b"\0\xFFheaders of a framework");
    properties.body = (0..=255).collect::<Vec<u8>>().into();
    let flags = 1;
    let sender_id = SecurityItem::new(Bytes::from_static(&SID));
    message.security = Some(SecurityHeader { flags, sender_id, ..SecurityHeader::default() });
    message
}

#[test]
fn a_label_with_a_nul_inside_passes_and_stops_nobody() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("nul");
    let site = Site::new(&uri, "", &[("orders", &route("orders", &exchange, "{label}", "", ""))]);
    let bridge = site.start();
    let mut odd = message("orders", 1);
    odd.properties.label = Some(WideText::from_text("order\0rest"));
    let received = runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        let address = bridge.address;
        tokio::task::spawn_blocking(move || deliver(address, &[odd, message("orders", 2)])).await.unwrap();
        application.receive(2).await
    });
    assert_eq!(received[0].0.routing_key.as_str(), "order");
    assert_eq!(received[0].text("msmq-label").unwrap(), "order\0rest");
    assert!(bridge.stop().success());
}

#[test]
fn a_client_in_another_language_reads_properties_and_headers() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("forms");
    let from = r"queue = 'private$\rich'";
    let routes = format!(
        "[from]\n{from}\n[to]\nconnector = \"rabbit\"\nexchange = \"{exchange}\"\n\
         routing_key = \"{{queue}}.{{class}}.{{app_specific}}.{{sender_machine}}\"\n"
    );
    let site = Site::new(&uri, "", &[("rich", &routes)]);
    runtime().block_on(async { drop(Application::declare(&uri, &exchange).await) });
    let bridge = site.start();
    let sent = now();
    let mut bare = message("rich", 2);
    bare.delivery = DeliveryMode::Express;
    bare.user.sent_time = sent;
    bare.properties.label = None;
    bare.properties.body = Bytes::new();
    deliver(bridge.address, &[rich(1, sent), bare]);
    let messages = read_with_pika(&uri, &exchange, 2);

    let machine = source().to_string();
    let first = &messages[0];
    let expiration: u64 = first["expiration"].as_str().unwrap().parse().unwrap();
    assert!((3_500_000..=3_600_000).contains(&expiration), "{expiration} ms are left of an hour");
    assert_eq!(first["message_id"], format!("{machine}\\1"));
    assert_eq!(first["correlation_id"], format!("{}\\4294967295", Guid::from_wire(*b"another machine!")));
    assert_eq!(first["timestamp"], sent);
    assert_eq!(first["priority"], 7);
    assert_eq!(first["delivery_mode"], 2);
    assert_eq!(first["reply_to"], Value::Null);
    assert_eq!(first["content_type"], "application/octet-stream");
    assert_eq!(first["routing_key"], format!("rich.291.4294967294.{machine}"));
    assert_eq!(first["body"], base64(&(0..=255).collect::<Vec<u8>>()));
    assert_eq!(
        first["headers"],
        json!({
            "msmq-body-type": 0x1011,
            "msmq-label": "order Nr. 7 – Grüße 🙂",
            "msmq-app-specific": 0xFFFF_FFFE_u32,
            "msmq-class": 0x0123,
            "msmq-extension": { "bytes": base64(b"\0\xFFheaders of a framework") },
            "msmq-destination": r"DIRECT=OS:bridge01\private$\rich",
            "msmq-response-queue": r"DIRECT=OS:win01\private$\replies",
            "msmq-admin-queue": r"DIRECT=TCP:10.1.2.3\private$\acks",
            "msmq-source-machine": machine,
            "msmq-sender-id": "S-1-5-21-1-2-3-1104",
            "msmq-authenticated": false,
            "msmq-redelivered": false,
        })
    );

    let second = &messages[1];
    assert_eq!(second["delivery_mode"], 1);
    assert_eq!(second["priority"], 3);
    assert_eq!(second["expiration"], Value::Null);
    assert_eq!(second["correlation_id"], Value::Null);
    assert_eq!(second["body"], "");
    let names: Vec<_> = second["headers"].as_object().unwrap().keys().cloned().collect();
    let always =
        ["msmq-authenticated", "msmq-body-type", "msmq-destination", "msmq-redelivered", "msmq-source-machine"];
    assert_eq!(names, always);
}

#[test]
fn a_transparent_route_hands_everything_on_untouched() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("sealed");
    let text = route("sealed", &exchange, "sealed", "", "") + "[security]\nmode = \"transparent\"\n";
    let site = Site::new(&uri, "", &[("sealed", &text)]);
    runtime().block_on(async { drop(Application::declare(&uri, &exchange).await) });
    let bridge = site.start();
    let mut sealed = message("sealed", 1);
    let provider: Vec<u8> = 0x18_u32
        .to_le_bytes()
        .into_iter()
        .chain("Microsoft Enhanced RSA and AES Cryptographic Provider\0".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let item = |bytes: &[u8]| SecurityItem::new(Bytes::copy_from_slice(bytes));
    sealed.security = Some(SecurityHeader {
        flags: SecurityHeader::ENCRYPTED | 1,
        sender_id: item(&SID),
        encryption_key: item(&[0xE1; 140]),
        signature: item(&[0x51; 128]),
        sender_certificate: item(&[0xCE; 485]),
        provider_info: item(&provider),
    });
    sealed.properties.privacy_level = 5;
    sealed.properties.hash_algorithm = 0x800E;
    sealed.properties.encryption_algorithm = 0x6610;
    sealed.properties.body = Bytes::from_static(&[0xC1; 64]);
    deliver(bridge.address, &[sealed]);
    let message = &read_with_pika(&uri, &exchange, 1)[0];
    assert_eq!(message["body"], base64(&[0xC1; 64]));
    let headers = &message["headers"];
    for (name, value) in [
        ("msmq-encrypted", json!(true)),
        ("msmq-dest-symm-key", json!({ "bytes": base64(&[0xE1; 140]) })),
        ("msmq-encryption-alg", json!(0x6610)),
        ("msmq-privacy-level", json!(5)),
        ("msmq-provider-name", json!("Microsoft Enhanced RSA and AES Cryptographic Provider")),
        ("msmq-provider-type", json!(0x18)),
        ("msmq-signature", json!({ "bytes": base64(&[0x51; 128]) })),
        ("msmq-hash-alg", json!(0x800E)),
        ("msmq-sender-cert", json!({ "bytes": base64(&[0xCE; 485]) })),
        ("msmq-sender-id", json!("S-1-5-21-1-2-3-1104")),
        ("msmq-authenticated", json!(false)),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
}

#[test]
fn an_extension_over_the_limit_is_left_out_or_the_message_set_aside_as_the_route_says() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("extensions");
    let omit = route("omit", &exchange, "omit", "", "extension_limit = \"1 KiB\"");
    let strict =
        route("strict", &exchange, "strict", "", "extension_limit = \"1 KiB\"\nextension_policy = \"dead-letter\"");
    let site = Site::new(&uri, "", &[("omit", &omit), ("strict", &strict)]);
    runtime().block_on(async { drop(Application::declare(&uri, &exchange).await) });
    let bridge = site.start();
    let large = |queue, ordinal| {
        let mut message = message(queue, ordinal);
        message.properties.extension = vec![1; 1025].into();
        message
    };
    deliver(bridge.address, &[large("omit", 1), large("strict", 2), message("strict", 3)]);
    let messages = read_with_pika(&uri, &exchange, 2);
    assert_eq!(messages[0]["headers"]["msmq-extension-omitted"], 1025);
    assert_eq!(messages[0]["headers"].get("msmq-extension"), None);
    assert_eq!(messages[1]["message_id"], format!("{}\\3", source()));
    let line = bridge.wait_for(|line| line["event"] == "message_dead_lettered");
    assert_eq!(line["message_id"], format!("{}\\2", source()));
    assert!(line["reason"].as_str().unwrap().contains("1025"));
    let status = crate::process::status(&site);
    let dead = status["queues"].as_array().unwrap().iter().find(|queue| queue["kind"] == "dead-letter").unwrap();
    assert_eq!(dead["messages"], 1);
}
