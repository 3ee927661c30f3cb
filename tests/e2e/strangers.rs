//! Messages of programs that know nothing of MSMQ: what has a form there arrives, the rest goes to the dead letters of its
//! queue, and each one is said once.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString};
use serde_json::Value;
use testkit::SharedBroker;

use crate::broker::{Publisher, unique};
use crate::machine::Machine;
use crate::process::{RETURNING, Site, eventually, return_route, status};
use crate::sender::runtime;

struct Case {
    name: &'static str,
    properties: BasicProperties,
    body: Vec<u8>,
    /// A word of the reason, when the message can't be sent.
    refused: Option<&'static str>,
}

fn case(name: &'static str, properties: BasicProperties, refused: Option<&'static str>) -> Case {
    let properties = properties.with_delivery_mode(2);
    Case { name, properties, body: name.as_bytes().to_vec(), refused }
}

fn headers(entries: &[(&str, AMQPValue)]) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert((*name).into(), value.clone());
    }
    BasicProperties::default().with_headers(table)
}

fn text(bytes: &[u8]) -> AMQPValue {
    AMQPValue::LongString(LongString::from(bytes.to_vec()))
}

/// Tables in lists in tables.
fn nested(depth: usize) -> AMQPValue {
    let mut value = AMQPValue::Void;
    for level in 0..depth {
        value = if level.is_multiple_of(2) {
            AMQPValue::FieldArray(FieldArray::from(vec![value, AMQPValue::Boolean(true)]))
        } else {
            let mut table = FieldTable::default();
            table.insert("inner".into(), value);
            AMQPValue::FieldTable(table)
        };
    }
    value
}

fn to_a_fixed_queue() -> Vec<Case> {
    let nulls = ["msmq-label", "msmq-extension", "msmq-app-specific", "msmq-class", "msmq-body-type", "x-other"];
    let nulls: Vec<_> = nulls.iter().map(|name| (*name, AMQPValue::Void)).collect();
    vec![
        case("no message-id", BasicProperties::default(), None),
        case("empty message-id", BasicProperties::default().with_message_id("".into()), None),
        case("nonsense in reply-to", BasicProperties::default().with_reply_to("amq.gen-nobody".into()), None),
        case("long correlation id", headers(&[("msmq-correlation-id", text(&[b'c'; 300]))]), None),
        case("null headers", headers(&nulls), None),
        case("nested", headers(&[("deep", nested(6)), ("deeper", nested(500))]), None),
        case("a stranger's bytes", headers(&[("raw", text(b"\xFF\xFE\x00")), ("msmq-sender-id", text(b"\xC3"))]), None),
        case("label no text", headers(&[("msmq-label", text(b"caf\xE9"))]), Some("msmq-label")),
        case("label a table", headers(&[("msmq-label", nested(2))]), Some("msmq-label")),
        case("number no number", headers(&[("msmq-app-specific", text(b"seven"))]), Some("msmq-app-specific")),
        Case { body: vec![7; 5 << 20], ..case("5 MiB", BasicProperties::default(), Some("5242880")) },
        case("the last one", BasicProperties::default(), None),
    ]
}

fn to_reply_to() -> Vec<Case> {
    let reply_to = |text: &str| BasicProperties::default().with_reply_to(text.into());
    let none = Some("no destination");
    vec![
        case("to nobody", BasicProperties::default(), none),
        case("to a queue of RabbitMQ", reply_to("amq.gen-nobody"), none),
        case("to no name", reply_to("DIRECT="), none),
        case("to no text", headers(&[("msmq-response-queue", text(b"\xFF"))]), none),
        case("to a journal", reply_to(r"DIRECT=OS:win01\private$\q;journal"), Some("journal")),
        case("to many", reply_to("DL=c778ca24-7c5a-4060-80c0-aeee428d53ae"), Some("DL=")),
        case("to ourselves", reply_to(r"DIRECT=OS:bridge01\private$\q"), Some("this machine")),
        case("to us here", reply_to(r"DIRECT=TCP:127.0.0.1\private$\q"), Some("this machine")),
        case("by header", headers(&[("msmq-response-queue", text(br"DIRECT=OS:win01\private$\q"))]), None),
        case("by reply-to", reply_to(r"DIRECT=OS:win01\private$\q"), None),
    ]
}

#[test]
fn what_strangers_send_arrives_or_goes_to_the_dead_letters_of_its_queue() {
    let uri = SharedBroker::uri().unwrap();
    for (destination, cases) in [(r"DIRECT=OS:win01\private$\q", to_a_fixed_queue()), ("{reply_to}", to_reply_to())] {
        check(&uri, destination, &cases);
    }
}

fn check(uri: &str, destination: &str, cases: &[Case]) {
    let (queue, dead) = (unique("strangers"), unique("dead"));
    let site = Site::new(uri, RETURNING, &[("back", &return_route(&queue, destination, "", ""))]);
    let machine = Machine::known_to(&site, "win01");
    runtime().block_on(async {
        let publisher = Publisher::connect(uri).await;
        publisher.declare(&dead, None).await;
        publisher.declare(&queue, Some(&dead)).await;
        for case in cases {
            publisher.publish(&queue, case.properties.clone(), &case.body).await;
        }
    });
    let bridge = site.start();
    let (refused, good): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.refused.is_some());
    let arrived = machine.wait_for(good.len());
    let bodies: Vec<_> = arrived.iter().map(|message| message.properties.body.to_vec()).collect();
    assert_eq!(bodies, good.iter().map(|case| case.body.clone()).collect::<Vec<_>>());
    assert!(arrived.iter().all(|message| message.properties.label.is_none()));

    let warned = bridge.wait_for_count(refused.len(), |line| line["event"] == "delivery_refused");
    for (case, line) in refused.iter().zip(&warned) {
        let reason = line["reason"].as_str().unwrap();
        assert!(reason.contains(case.refused.unwrap()), "{}: {reason}", case.name);
    }
    let dead = runtime().block_on(async { Publisher::connect(uri).await.take(&dead, refused.len()).await });
    let dead: Vec<_> = dead.iter().map(|message| message.body().to_vec()).collect();
    assert_eq!(dead, refused.iter().map(|case| case.body.clone()).collect::<Vec<_>>());

    eventually("everything is settled", || {
        let outgoing = status(&site)["outgoing"].as_array().unwrap().clone();
        outgoing.iter().all(|queue| queue["queue_messages"] == 0).then_some(())
    });
    let mut warnings = BTreeMap::<String, usize>::new();
    for line in bridge.log().iter().filter(|line| matches!(line["level"].as_str(), Some("warn" | "error") | None)) {
        *warnings.entry(line["event"].as_str().map_or_else(|| Value::to_string(line), str::to_owned)).or_default() += 1;
    }
    assert_eq!(warnings, BTreeMap::from([("delivery_refused".to_owned(), refused.len())]), "one line each, no other");
    assert_eq!(machine.messages().len(), good.len());
    assert!(bridge.stop().success());
}
