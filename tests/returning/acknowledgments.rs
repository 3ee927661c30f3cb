//! Administration acknowledgments: those that are sent, as their receiver sees them, and those that come.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use connector_api::Address;
use connector_api::memory::Treatment;
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{
    AckRequest, DeliveryMode, DirectField, FormatName, Guid, MessageClass, MessageId, QueueField, UserMessage, WideText,
};
use mqbridge::net::{Clock, dial};

use super::machine::Machine;
use super::site::{Running, Site, incoming, inward, route};
use super::{body, eventually};

const EVERYTHING: u8 = 0x0F;

/// A message of another machine for a direct name.
pub(crate) fn message(direct: &str, ordinal: u32) -> UserMessage {
    let destination = QueueField::Direct(DirectField { name: WideText::from_text(direct), ..Default::default() });
    let id = MessageId { source: Guid::from_random([9; 16]), ordinal };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32;
    let mut message = UserMessage::new(id, now, Guid::NULL, destination);
    message.delivery = DeliveryMode::Recoverable;
    message.properties.label = Some(WideText::from_text("label"));
    message.properties.app_specific = 77;
    message.properties.set_body(Bytes::from(format!("body {ordinal}")), 8);
    message
}

fn asking(admin: &str, direct: &str, ordinal: u32) -> UserMessage {
    let mut message = message(direct, ordinal);
    let admin: FormatName = admin.parse().unwrap();
    message.user.admin = QueueField::naming(&admin, Guid::NULL).unwrap();
    message.properties.ack_request = AckRequest(EVERYTHING);
    message
}

pub(crate) async fn send(address: SocketAddr, messages: &[UserMessage]) {
    let settings = SessionSettings::new(Guid::from_random([9; 16]));
    let mut dialed = dial(Clock::start(), &[address], Guid::NULL, settings, Duration::from_secs(5)).await.unwrap();
    for (number, message) in messages.iter().enumerate() {
        let packet = message.to_packet().unwrap();
        dialed.send(SendToken(number as u64), packet, message.is_recoverable()).unwrap();
    }
    let mut left = messages.len();
    while left > 0 {
        left -= tokio::time::timeout(super::PATIENCE, dialed.acknowledged()).await.unwrap().unwrap().len();
    }
    dialed.close().await;
}

fn classes(messages: &[UserMessage]) -> Vec<MessageClass> {
    messages.iter().map(|message| message.properties.class).collect()
}

async fn site(process: &str, from: &str) -> (Machine, Site, Running) {
    let mut machine = Machine::new("admin");
    machine.switch_on().await;
    let site = Site::new(process, &[("in", inward("orders", "orders", from))]);
    site.know(&[&machine]);
    let running = site.start().await;
    (machine, site, running)
}

#[tokio::test]
async fn reached_its_queue_and_was_received() {
    let (machine, site, bridge) = site("", "").await;
    // The broker takes nothing yet.
    let address = Address { exchange: "orders".to_owned(), routing_key: "x".to_owned() };
    site.system.treat(address.clone(), Treatment::Nack);
    let mut express = asking(&machine.queue("acks"), r"OS:bridge01\private$\orders", 2);
    express.delivery = DeliveryMode::Express;
    let sent = [asking(&machine.queue("acks"), r"OS:bridge01\private$\orders", 1), express];
    send(bridge.address, &sent).await;
    let reached = machine.wait_for(2).await;
    assert_eq!(classes(&reached), [MessageClass::ACK_REACH_QUEUE; 2]);
    for (acknowledgment, original) in reached.iter().zip(&sent) {
        assert_eq!(MessageId::from_wire(acknowledgment.properties.correlation_id), original.id());
        assert_eq!(acknowledgment.destination().unwrap().to_string(), machine.queue("acks"));
        assert_eq!(acknowledgment.response_queue(), original.destination());
        assert_eq!(acknowledgment.delivery, original.delivery);
        assert_eq!(acknowledgment.properties.label, original.properties.label);
        assert_eq!(acknowledgment.properties.app_specific, 77);
        assert_eq!(acknowledgment.id().source, site.guid);
        assert_eq!(acknowledgment.properties.ack_request, AckRequest(0));
        assert_eq!(body(acknowledgment), "", "a positive one has no body");
    }
    site.system.treat(address, Treatment::Accept);
    let received = machine.wait_for(4).await.split_off(2);
    assert_eq!(classes(&received), [MessageClass::ACK_RECEIVE; 2]);
    assert_eq!(MessageId::from_wire(received[0].properties.correlation_id), sent[0].id());
    bridge.bridge.stop().await.unwrap();
}

/// The classes that Windows holds back are sent only when the operator says so.
#[tokio::test]
async fn refusals_are_answered_with_their_class() {
    for (insecure, unknown) in [(false, None), (true, Some(MessageClass::NACK_BAD_DST_Q))] {
        let (machine, _site, bridge) = site(&format!("insecure_nacks = {insecure}"), "").await;
        let acks = machine.queue("acks");
        let mut expired = asking(&acks, r"OS:bridge01\private$\orders", 2);
        expired.user.sent_time -= 100;
        expired.base.time_to_reach_queue = 10;
        let mut too_far = asking(&acks, r"OS:bridge01\private$\orders", 3);
        too_far.user.flags |= 0x1E;
        let mut quiet = asking(&acks, r"OS:bridge01\private$\nothing", 4);
        quiet.properties.ack_request = AckRequest(AckRequest::POSITIVE_ARRIVAL);
        let mut about = asking(&acks, r"OS:bridge01\private$\nothing", 5);
        about.properties.class = MessageClass::ACK_RECEIVE;
        let unknown_queue = asking(&acks, r"OS:bridge01\private$\nothing", 1);
        send(bridge.address, &[unknown_queue, expired, too_far, quiet, about]).await;
        let wanted: Vec<_> = unknown
            .into_iter()
            .chain([MessageClass::NACK_REACH_QUEUE_TIMEOUT, MessageClass::NACK_HOP_COUNT_EXCEEDED])
            .collect();
        let answers = machine.wait_for(wanted.len()).await;
        assert_eq!(classes(&answers), wanted);
        assert_eq!(body(answers.last().unwrap()), "body 3", "a negative one has the original's body");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(machine.inbox.messages().len(), wanted.len(), "nothing else was asked for");
        bridge.bridge.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_and_a_message_that_is_not_read_in_time_are_answered() {
    let (machine, site, bridge) = site("", "quota = \"1 MiB\"\non_quota = \"refuse\"").await;
    let acks = machine.queue("acks");
    site.system.disconnect("away");
    let mut short_lived = asking(&acks, r"OS:bridge01\private$\orders", 1);
    short_lived.user.time_to_be_received = 1;
    let mut large = asking(&acks, r"OS:bridge01\private$\orders", 2);
    large.properties.set_body(Bytes::from(vec![b'x'; 1 << 20]), 8);
    send(bridge.address, &[short_lived, large]).await;
    let answers = machine.wait_for(2).await;
    assert_eq!(classes(&answers), [MessageClass::ACK_REACH_QUEUE, MessageClass::NACK_Q_EXCEED_QUOTA]);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    site.system.reconnect();
    let answers = machine.wait_for(3).await;
    assert_eq!(answers[2].properties.class, MessageClass::NACK_RECEIVE_TIMEOUT);
    bridge.bridge.stop().await.unwrap();
}

/// What is sent asks for acknowledgments as its route says, and they are taken: forwarded when a route has their queue.
#[tokio::test]
async fn acknowledgments_for_what_was_sent_are_taken() {
    for forwarded in [false, true] {
        let mut machine = Machine::new("acknowledging");
        machine.switch_on().await;
        let mut routes = vec![("back", route(&machine.queue("q"), "", "ack = [\"reach\", \"receive\"]"))];
        if forwarded {
            routes.push(("acks", inward("acks", "acks", "")));
        }
        let site = Site::new("", &routes);
        site.know(&[&machine]);
        let bridge = site.start().await;
        site.system.put("out", incoming("question"));
        let sent = machine.wait_for(1).await.remove(0);
        assert_eq!(sent.properties.ack_request, AckRequest(EVERYTHING));
        assert_eq!(sent.admin_queue().unwrap().to_string(), r"DIRECT=OS:bridge01\private$\acks");
        let mut acknowledgment = message(r"OS:bridge01\private$\acks", 1);
        acknowledgment.properties.class = MessageClass::NACK_ACCESS_DENIED;
        acknowledgment.properties.correlation_id = sent.id().to_wire();
        send(bridge.address, &[acknowledgment]).await;
        if forwarded {
            let arrived = eventually("the acknowledgment", || site.system.arrived().pop()).await;
            assert_eq!(arrived.correlation_id, Some(sent.id().to_string()));
            assert_eq!(arrived.headers.get("msmq-class"), Some(&connector_api::Value::Int(0x8004)));
        }
        assert_eq!(bridge.report().rejected_without_route, 0);
        bridge.bridge.stop().await.unwrap();
    }
}

/// The store keeps an acknowledgment with what it says: neither is there without the other.
#[tokio::test]
async fn an_acknowledgment_that_can_t_be_delivered_waits() {
    let mut machine = Machine::new("late");
    let site = Site::new("", &[("in", inward("orders", "orders", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    send(bridge.address, &[asking(&machine.queue("acks"), r"OS:bridge01\private$\orders", 1)]).await;
    eventually("two acknowledgments wait", || {
        bridge.report().outgoing.first().is_some_and(|queue| queue.queue_messages == 2).then_some(())
    })
    .await;
    bridge.crash().await;
    let bridge = site.start().await;
    machine.switch_on().await;
    let answers = machine.wait_for(2).await;
    assert_eq!(classes(&answers), [MessageClass::ACK_REACH_QUEUE, MessageClass::ACK_RECEIVE]);
    bridge.bridge.stop().await.unwrap();
}
