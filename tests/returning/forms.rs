//! What a foreign message is in MSMQ.

use bytes::Bytes;
use connector_api::{Headers, Incoming, Value};
use mqbridge::mqqb::wire::{DeliveryMode, FormatName, MessageId};

use super::machine::Machine;
use super::site::{Site, incoming, inward, route};
use super::{body, eventually};

fn with_headers(headers: impl IntoIterator<Item = (&'static str, Value)>) -> Incoming {
    let mut message = incoming("x");
    for (name, value) in headers {
        message.headers.set(name, value);
    }
    message
}

#[tokio::test]
async fn everything_that_has_a_place_in_msmq_arrives_there() {
    let mut machine = Machine::new("forms");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("replies"), "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let mut headers = Headers::new();
    headers.set("msmq-label", Value::Text("Grüße".to_owned()));
    headers.set("msmq-app-specific", Value::Int(0xFFFF_FFFF));
    headers.set("msmq-body-type", Value::Int(31));
    headers.set("msmq-class", Value::Int(0x1234));
    headers.set("msmq-extension", Value::Bytes(Bytes::from_static(&[0, 1, 0xFF])));
    headers.set("msmq-response-queue", Value::Text(r"DIRECT=OS:win07\private$\answers".to_owned()));
    site.system.put(
        "out",
        Incoming {
            message_id: Some(r"c778ca24-7c5a-4060-80c0-aeee428d53ae\4294967295".to_owned()),
            correlation_id: Some(r"11111111-2222-3333-4444-555555555555\7".to_owned()),
            priority: Some(7),
            durable: false,
            expiration: Some(90_001),
            headers,
            ..incoming("body")
        },
    );
    let message = machine.wait_for(1).await.remove(0);
    assert_eq!(message.id().to_string(), r"c778ca24-7c5a-4060-80c0-aeee428d53ae\4294967295");
    let correlation = MessageId::from_wire(message.properties.correlation_id);
    assert_eq!(correlation.to_string(), r"11111111-2222-3333-4444-555555555555\7");
    assert_eq!(message.base.priority(), 7);
    assert_eq!(message.delivery, DeliveryMode::Express);
    assert_eq!(message.user.time_to_be_received, 91);
    assert_eq!(message.base.time_to_reach_queue, 4 * 24 * 3600);
    assert_eq!(message.destination().unwrap().to_string(), machine.queue("replies"));
    assert_eq!(message.response_queue().unwrap().to_string(), r"DIRECT=OS:win07\private$\answers");
    let properties = &message.properties;
    assert_eq!(properties.label.as_ref().unwrap().to_text(), "Grüße");
    assert_eq!(properties.app_specific, 0xFFFF_FFFF);
    assert_eq!(properties.body_type, 31);
    assert_eq!(properties.class.0, 0x1234);
    assert_eq!(properties.extension.as_ref(), [0, 1, 0xFF]);
    assert_eq!(body(&message), "body");
    eventually("the delivery is settled", || (site.system.unsettled("out") == 0).then_some(())).await;
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_plain_message_gets_what_msmq_has_for_it() {
    let mut machine = Machine::new("plain");
    machine.switch_on().await;
    let site = Site::new(
        "",
        &[("back", route(&machine.queue("q"), "", "body_type = \"bytes\"\ntime_to_reach_queue = \"1h\""))],
    );
    site.know(&[&machine]);
    let bridge = site.start().await;
    site.system.put("out", incoming("one"));
    site.system.put("out", Incoming { message_id: Some("not one of MSMQ's".to_owned()), ..incoming("two") });
    let messages = machine.wait_for(2).await;
    assert!(messages.iter().all(|message| message.id().source == site.guid));
    assert_eq!(messages[1].id().ordinal, messages[0].id().ordinal + 1);
    let message = &messages[0];
    assert_eq!(message.delivery, DeliveryMode::Recoverable);
    assert_eq!(message.base.priority(), 3);
    assert_eq!(message.properties.body_type, 0x1011);
    assert_eq!(message.base.time_to_reach_queue, 3600);
    assert_eq!(message.user.time_to_be_received, u32::MAX);
    assert_eq!(message.properties.correlation_id, [0; 20]);
    assert_eq!((message.properties.label.clone(), message.admin_queue(), message.response_queue()), (None, None, None));
    bridge.bridge.stop().await.unwrap();
}

/// Each of these goes to the dead letters of its queue, and the next one proceeds.
#[tokio::test]
async fn what_has_no_form_in_msmq_is_refused_and_stops_nothing() {
    let mut machine = Machine::new("refused");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("q"), "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let bad = [
        with_headers([("msmq-label", Value::Text("x".repeat(250)))]),
        with_headers([("msmq-label", Value::Text("a\0b".to_owned()))]),
        with_headers([("msmq-label", Value::Int(1))]),
        with_headers([("msmq-app-specific", Value::Int(-1))]),
        with_headers([("msmq-app-specific", Value::Text("1".to_owned()))]),
        with_headers([("msmq-class", Value::Int(65_536))]),
        with_headers([("msmq-body-type", Value::Bool(true))]),
        with_headers([("msmq-extension", Value::Int(1))]),
        Incoming { body: Bytes::from(vec![0; 5 << 20]), ..incoming("") },
        Incoming { body: Bytes::from(vec![0; (4 << 20) - 100]), ..incoming("") },
    ];
    let count = bad.len();
    for message in bad {
        site.system.put("out", message);
    }
    // None of these is a reason to refuse.
    let mut nested = Headers::new();
    nested.set("deep", Value::List(vec![Value::Table(Headers::new()), Value::Null]));
    site.system.put(
        "out",
        Incoming {
            correlation_id: Some("c".repeat(300)),
            reply_to: Some("nonsense".to_owned()),
            content_type: Some("text/xml".to_owned()),
            ..with_headers([
                ("msmq-label", Value::Null),
                ("table", Value::Table(nested)),
                ("bytes", Value::Bytes(Bytes::from_static(&[0xFF, 0xFE]))),
                ("msmq-response-queue", Value::Text("nowhere".to_owned())),
            ])
        },
    );
    let message = machine.wait_for(1).await.remove(0);
    assert_eq!(message.properties.correlation_id, [0; 20]);
    assert_eq!(message.response_queue(), None);
    eventually("all bad ones are refused", || (site.system.refused("out").len() == count).then_some(())).await;
    assert_eq!(bridge.report().return_routes[0].rejected_messages, count as u64);
    assert_eq!(machine.inbox.messages().len(), 1);
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn properties_without_a_place_are_carried_in_the_extension_when_the_route_says_so() {
    let mut machine = Machine::new("carried");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("q"), "", "carry_headers = true"))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let mut message = with_headers([
        ("tenant", Value::Text("acme".to_owned())),
        ("raw", Value::Bytes(Bytes::from_static(&[0xAB, 0x01]))),
        ("msmq-label", Value::Text("label".to_owned())),
    ]);
    message.content_type = Some("text/xml".to_owned());
    message.app_id = Some("shop".to_owned());
    site.system.put("out", message);
    site.system.put("out", with_headers([("tenant", Value::Null), ("msmq-extension", Value::Text("own".to_owned()))]));
    let messages = machine.wait_for(2).await;
    let carried: serde_json::Value = serde_json::from_slice(&messages[0].properties.extension).unwrap();
    assert_eq!(
        carried,
        serde_json::json!({ "content_type": "text/xml", "app_id": "shop", "headers": { "tenant": "acme", "raw": { "hex": "ab01" } } })
    );
    assert_eq!(messages[1].properties.extension.as_ref(), b"own");
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn each_message_can_name_its_destination() {
    let (mut first, mut second) = (Machine::new("first"), Machine::new("second"));
    first.switch_on().await;
    second.switch_on().await;
    let site = Site::new("", &[("back", route("{reply_to}", "", ""))]);
    site.know(&[&first, &second]);
    let bridge = site.start().await;
    site.system.put("out", Incoming { reply_to: Some(first.queue("a")), ..incoming("1") });
    site.system.put("out", with_headers([("msmq-response-queue", Value::Text(second.queue("b")))]));
    site.system.put("out", Incoming { reply_to: Some("amq.gen-abc".to_owned()), ..incoming("nobody") });
    site.system
        .put("out", Incoming { reply_to: Some(r"DIRECT=OS:x\private$\q;journal".to_owned()), ..incoming("nobody") });
    site.system.put(
        "out",
        Incoming { reply_to: Some("DL=c778ca24-7c5a-4060-80c0-aeee428d53ae".to_owned()), ..incoming("nobody") },
    );
    let message = first.wait_for(1).await.remove(0);
    assert_eq!(message.destination(), first.queue("a").parse::<FormatName>().ok());
    assert_eq!(message.response_queue(), None, "a reply needs no reply");
    assert_eq!(second.wait_for(1).await[0].destination(), second.queue("b").parse::<FormatName>().ok());
    eventually("three are refused", || (site.system.refused("out").len() == 3).then_some(())).await;
    bridge.bridge.stop().await.unwrap();
}

/// A request from MSMQ names the queue of the route that leads back to its sender, and a request to MSMQ names the queue
/// of the route that leads to the foreign sender.
#[tokio::test]
async fn replies_find_their_way_in_both_directions() {
    let mut machine = Machine::new("requester");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("replies"), "", "")), ("in", inward("requests", "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let mut request = super::acknowledgments::message(r"OS:bridge01\private$\requests", 1);
    let queue: FormatName = machine.queue("replies").to_uppercase().parse().unwrap();
    request.user.response =
        mqbridge::mqqb::wire::QueueField::naming(&queue, request.user.queue_manager_address).unwrap();
    super::acknowledgments::send(bridge.address, &[request.clone()]).await;
    let arrived = eventually("the request", || site.system.arrived().pop()).await;
    assert_eq!(arrived.reply_to.as_deref(), Some("out"));
    // The responder answers as every responder does.
    site.system.put("out", Incoming { correlation_id: Some(arrived.message_id), ..incoming("answer") });
    let answer = machine.wait_for(1).await.remove(0);
    assert_eq!(MessageId::from_wire(answer.properties.correlation_id), request.id());
    // And a request the other way: its reply-to is the address that the route "in" leads to.
    site.system.put("out", Incoming { reply_to: Some("x".to_owned()), ..incoming("question") });
    let question = machine.wait_for(2).await.remove(1);
    assert_eq!(question.response_queue().unwrap().to_string(), r"DIRECT=OS:bridge01\private$\requests");
    bridge.bridge.stop().await.unwrap();
}
