//! Which messages are taken, by every name of a queue, and how the others are refused: one WARN line each, with class
//! and reason, and nothing of them in the store.

use bytes::Bytes;
use mqbridge::mqqb::wire::{
    DeliveryMode, Guid, MessageClass, QueueField, SecurityHeader, SecurityItem, TransactionHeader, TxSequenceId,
    UserMessage,
};
use testkit::SharedBroker;

use crate::broker::{Application, unique};
use crate::process::{Bridge, Site, route, status};
use crate::sender::{deliver, message, message_to, now, runtime};

#[test]
fn a_queue_is_known_by_every_name_of_this_machine() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("names");
    let private = route("orders", &exchange, "private", "private_id = 0x0a", "");
    let public = format!(
        "[from]\nqueue = 'invoices'\nguid = \"e88196fa-168b-4561-b643-cdb98d806033\"\n\
         [to]\nconnector = \"rabbit\"\nexchange = \"{exchange}\"\nrouting_key = \"public\"\n"
    );
    let process = r#"accept_as = ["bridge01.corp.example", "10.1.2.3"]"#;
    let site = Site::new(&uri, process, &[("orders", &private), ("invoices", &public)]);
    let bridge = site.start();
    let own: Guid = status(&site)["queue_manager"]["guid"].as_str().unwrap().parse().unwrap();

    let mut messages: Vec<UserMessage> = [
        r"OS:bridge01\private$\orders",
        r"OS:BRIDGE01\PRIVATE$\Orders",
        r"OS:bridge01.corp.example\private$\orders",
        r"OS:localhost\private$\orders",
        r"TCP:127.0.0.1\private$\orders",
        r"TCP:10.1.2.3\private$\ORDERS",
        r"OS:bridge01\invoices",
        r"TCP:10.1.2.3\Invoices",
    ]
    .iter()
    .enumerate()
    .map(|(index, name)| message_to(name, 1 + index as u32))
    .collect();
    let mut by_number = message("", 9);
    by_number.user.queue_manager_address = own;
    by_number.user.destination = QueueField::PrivateOnDestination(0x0a);
    messages.push(by_number);
    let mut by_guid = message("", 10);
    by_guid.user.queue_manager_address = own;
    by_guid.user.destination = QueueField::Public("e88196fa-168b-4561-b643-cdb98d806033".parse().unwrap());
    messages.push(by_guid);

    let keys = runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        tokio::task::spawn_blocking(move || deliver(bridge.address, &messages)).await.unwrap();
        let mut received = application.receive(10).await;
        received.sort_by_key(crate::broker::Received::ordinal);
        received.iter().map(|message| message.0.routing_key.to_string()).collect::<Vec<_>>()
    });
    let (private, public) = ("private".to_owned(), "public".to_owned());
    let expected: Vec<_> = (1..=10).map(|n| if [7, 8, 10].contains(&n) { &public } else { &private }).collect();
    assert_eq!(keys.iter().collect::<Vec<_>>(), expected);
}

/// What is refused, and how.
struct Refused {
    what: &'static str,
    message: UserMessage,
    class: &'static str,
    outcome: &'static str,
}

#[test]
fn each_refusal_is_one_warning_with_class_and_reason_and_leaves_nothing_behind() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("refusals");
    let orders = route("orders", &exchange, "orders", "", "");
    let site = Site::new(&uri, "max_message = \"64 KiB\"", &[("orders", &orders)]);
    let refusals = refusals();
    let bridge = site.start();
    for refused in &refusals {
        // Acknowledged to the session all the same: MSMQ's sender has done its part.
        deliver(bridge.address, std::slice::from_ref(&refused.message));
    }
    for refused in &refusals {
        let id = refused.message.id().to_string();
        let line = bridge.wait_for(|line| line["message_id"] == id);
        let what = refused.what;
        assert_eq!(line["event"], "message_refused", "{what}");
        assert_eq!(line["level"], "warn", "{what}");
        assert_eq!(line["class"], refused.class, "{what}");
        assert_eq!(line["outcome"], refused.outcome, "{what}: {line}");
        assert!(!line["reason"].as_str().unwrap().is_empty(), "{what}");
        assert_eq!(lines_about(&bridge, &id), 1, "{what}");
    }
    let status = status(&site);
    let waiting: u64 =
        status["queues"].as_array().unwrap().iter().map(|queue| queue["messages"].as_u64().unwrap()).sum();
    assert_eq!(waiting, 0);
    assert_eq!(status["routes"][0]["received_messages"], 0);
}

fn lines_about(bridge: &Bridge, id: &str) -> usize {
    bridge.log().iter().filter(|line| line["message_id"] == id).count()
}

fn refusals() -> Vec<Refused> {
    let mut refusals = Vec::new();
    let mut add = |what, class: MessageClass, outcome, change: &dyn Fn(&mut UserMessage)| {
        let mut message = message("orders", 100 + refusals.len() as u32);
        change(&mut message);
        refusals.push(Refused { what, message, class: class.name().unwrap(), outcome });
    };
    let to = |name: &'static str| {
        move |message: &mut UserMessage| message.user.destination = message_to(name, 0).user.destination
    };
    let bad_queue = MessageClass::NACK_BAD_DST_Q;
    add("an unknown queue", bad_queue, "unknown-queue", &to(r"OS:bridge01\private$\ordres"));
    add("a public queue of that name", bad_queue, "unknown-queue", &to(r"OS:bridge01\orders"));
    add("another machine", bad_queue, "other-host", &to(r"OS:bridge02\private$\orders"));
    add("a journal", bad_queue, "not-a-destination", &to(r"OS:bridge01\private$\orders;JOURNAL"));
    add("a sub-queue", bad_queue, "not-a-destination", &to(r"OS:bridge01\private$\orders;retry"));
    add("a dead-letter queue", bad_queue, "not-a-destination", &to(r"OS:bridge01\SYSTEM$;DEADLETTER"));
    add("no queue", bad_queue, "no-destination", &|message| message.user.destination = QueueField::None);
    add("another queue manager", bad_queue, "other-queue-manager", &|message| {
        message.user.queue_manager_address = Guid::from_random([7; 16]);
    });
    add("an unknown number", bad_queue, "unknown-queue", &|message| {
        message.user.destination = QueueField::PrivateOnDestination(0xFFFF);
    });
    add("too many hops", MessageClass::NACK_HOP_COUNT_EXCEEDED, "hop-count", &|message| message.user.flags |= 0x1E);
    add("too late for its queue", MessageClass::NACK_REACH_QUEUE_TIMEOUT, "expired", &|message| {
        message.user.sent_time = now() - 1000;
        message.base.time_to_reach_queue = 600;
    });
    add("too late to be read", MessageClass::NACK_REACH_QUEUE_TIMEOUT, "expired", &|message| {
        message.user.sent_time = now() - 1000;
        message.user.time_to_be_received = 0;
    });
    add("too large", MessageClass::NACK_Q_EXCEED_QUOTA, "too-large", &|message| {
        message.properties.body = vec![7; 65_000].into();
        message.properties.extension = vec![7; 1000].into();
    });
    add("transactional", MessageClass::NACK_NOT_TRANSACTIONAL_Q, "not-transactional-queue", &|message| {
        message.delivery = DeliveryMode::Transactional(TransactionHeader {
            flags: TransactionHeader::FIRST | TransactionHeader::LAST,
            sequence_id: TxSequenceId { timestamp: 1, ordinal: 1 },
            sequence_number: 1,
            previous_sequence_number: 0,
            connector_queue_manager: None,
        });
    });
    let item = |bytes: &'static [u8]| SecurityItem::new(Bytes::from_static(bytes));
    add("signed", MessageClass::NACK_BAD_SIGNATURE, "bad-signature", &|message| {
        message.security = Some(SecurityHeader { signature: item(&[7; 128]), ..SecurityHeader::default() });
    });
    add("encrypted", MessageClass::NACK_BAD_ENCRYPTION, "unopened", &|message| {
        let flags = SecurityHeader::ENCRYPTED;
        message.security = Some(SecurityHeader { flags, encryption_key: item(&[7; 140]), ..SecurityHeader::default() });
    });
    refusals
}

#[test]
fn a_message_that_comes_again_is_published_once() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("again");
    let site = Site::new(&uri, "", &[("orders", &route("orders", &exchange, "orders", "", ""))]);
    let (first, other) = (message("orders", 1), message("orders", 2));
    let ordinals = runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        let bridge = site.start();
        let address = bridge.address;
        let sent = [first.clone(), first.clone()];
        tokio::task::spawn_blocking(move || deliver(address, &sent)).await.unwrap();
        application.receive(1).await;
        bridge.kill();
        // It is remembered although it has long been forwarded and the bridge was killed; by source and number, not by
        // number alone.
        let bridge = site.start();
        let address = bridge.address;
        let mut elsewhere = first.clone();
        elsewhere.user.source_queue_manager = Guid::from_random([9; 16]);
        let sent = [first, elsewhere, other];
        tokio::task::spawn_blocking(move || deliver(address, &sent)).await.unwrap();
        let received = application.receive(2).await;
        received.iter().map(|message| (message.ordinal(), message.redelivered())).collect::<Vec<_>>()
    });
    assert_eq!(ordinals, [(1, false), (2, false)]);
}
