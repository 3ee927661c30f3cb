//! Destinations that fail in every way a machine can: order is kept, nothing is lost, and the foreign system is not kept
//! waiting.

use std::time::Duration;

use connector_api::Incoming;
use mqbridge::mqqb::wire::{Guid, UserMessage};

use super::machine::Machine;
use super::site::{Site, incoming, route};
use super::{body, eventually};

/// The bodies in the order in which they came first.
fn first_arrivals(messages: &[UserMessage]) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    messages.iter().map(|message| body(message).parse().unwrap()).filter(|number| seen.insert(*number)).collect()
}

fn numbered(numbers: std::ops::Range<u32>) -> impl Iterator<Item = Incoming> {
    numbers.map(|number| Incoming { message_id: Some(format!("id {number}")), ..incoming(&number.to_string()) })
}

#[tokio::test]
async fn order_is_kept_through_sessions_that_break_in_the_middle() {
    let mut machine = Machine::new("breaking");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("q"), "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    for message in numbered(0..500) {
        site.system.put("out", message);
    }
    for round in 0..5 {
        machine.inbox.break_after(40 + round);
        tokio::time::sleep(Duration::from_millis(150)).await;
        machine.switch_off().await;
        machine.inbox.break_after(0);
        machine.switch_on().await;
    }
    eventually("all are settled", || {
        (site.system.unsettled("out") == 0 && site.system.waiting("out") == 0).then_some(())
    })
    .await;
    let messages = machine.inbox.messages();
    assert_eq!(first_arrivals(&messages), (0..500).collect::<Vec<_>>());
    // A repeat is the same message: its receiver knows it by its identifier.
    let ids: std::collections::HashMap<_, _> = messages.iter().map(|message| (body(message), message.id())).collect();
    assert!(messages.iter().all(|message| ids[&body(message)] == message.id()));
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_bridge_that_is_killed_loses_nothing_and_sends_nothing_twice_that_was_acknowledged() {
    let mut machine = Machine::new("kills");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("q"), "", ""))]);
    site.know(&[&machine]);
    for message in numbered(0..400) {
        site.system.put("out", message);
    }
    for _ in 0..4 {
        let bridge = site.start().await;
        tokio::time::sleep(Duration::from_millis(120)).await;
        bridge.crash().await;
    }
    let bridge = site.start().await;
    eventually("all are settled", || {
        (site.system.unsettled("out") == 0 && site.system.waiting("out") == 0).then_some(())
    })
    .await;
    eventually("all have left", || {
        bridge.report().outgoing.iter().all(|queue| queue.queue_messages == 0).then_some(())
    })
    .await;
    assert_eq!(first_arrivals(&machine.inbox.messages()), (0..400).collect::<Vec<_>>());
    bridge.bridge.stop().await.unwrap();
}

/// The identifier is the same, and the broker does not say that it delivers again: these are two messages.
#[tokio::test]
async fn an_identifier_that_an_application_uses_twice_loses_nothing() {
    let mut machine = Machine::new("twice");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route(&machine.queue("q"), "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let constant = |body| Incoming { message_id: Some("constant".to_owned()), ..incoming(body) };
    site.system.put("out", constant("1"));
    site.system.put("out", constant("2"));
    machine.wait_for(2).await;
    // This one is delivered again.
    site.system.put("out", Incoming { redelivered: true, ..constant("2") });
    eventually("the repeat is known", || (bridge.report().return_routes[0].duplicates == 1).then_some(())).await;
    assert_eq!(machine.inbox.messages().len(), 2);
    bridge.bridge.stop().await.unwrap();
}

/// The machine is away for longer than the broker would wait: the deliveries are settled, for the messages are on disk.
#[tokio::test]
async fn deliveries_are_settled_while_the_destination_is_away() {
    let mut machine = Machine::new("away");
    let site = Site::new("", &[("back", route(&machine.queue("q"), "settle_after = \"1s\"\nprefetch = 10", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    for message in numbered(0..30) {
        site.system.put("out", message);
    }
    eventually("ten deliveries are open", || (site.system.unsettled("out") == 10).then_some(())).await;
    let failing = eventually("the queue is failing", || {
        bridge.report().outgoing.into_iter().find(|queue| queue.state == "failing" && queue.attempt > 1)
    })
    .await;
    assert!(failing.reason.unwrap().contains("cannot connect"), "it says why");
    eventually("all are settled", || {
        (site.system.unsettled("out") == 0 && site.system.waiting("out") == 0).then_some(())
    })
    .await;
    assert_eq!(bridge.report().outgoing[0].queue_messages, 30);
    machine.switch_on().await;
    assert_eq!(first_arrivals(&machine.wait_for(30).await), (0..30).collect::<Vec<_>>());
    eventually("it works", || (bridge.report().outgoing[0].queue_messages == 0).then_some(())).await;
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_full_queue_stops_consumption_and_an_emptied_one_resumes_it() {
    let mut machine = Machine::new("full");
    let site = Site::new("", &[("back", route(&machine.queue("q"), "settle_after = \"1s\"", "quota = \"1 MiB\""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let filler = "x".repeat(100_000);
    for number in 0..30 {
        site.system.put("out", incoming(&format!("{number:03}{filler}")));
    }
    eventually("the route says so", || (bridge.report().return_routes[0].state == "failing").then_some(())).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let stored = bridge.report().outgoing[0].queue_messages;
    assert!((5..=10).contains(&stored), "{stored}");
    machine.switch_on().await;
    let messages = machine.wait_for(30).await;
    let numbers: Vec<_> = messages.iter().map(|message| body(message)[..3].to_owned()).collect();
    assert_eq!(numbers, (0..30).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    eventually("the route works again", || (bridge.report().return_routes[0].state == "forwarding").then_some(()))
        .await;
    bridge.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn what_expires_on_the_way_becomes_a_dead_letter_when_the_route_says_so() {
    for (dead_letter, kept) in [(true, 2), (false, 0)] {
        let machine = Machine::new("expiring");
        let to = format!("dead_letter = {dead_letter}\ntime_to_reach_queue = \"1s\"");
        let site = Site::new("", &[("back", route(&machine.queue("q"), "settle_after = \"10m\"", &to))]);
        site.know(&[&machine]);
        let bridge = site.start().await;
        site.system.put("out", incoming("1"));
        eventually("it waits", || bridge.report().outgoing.first().filter(|queue| queue.queue_messages == 1).map(drop))
            .await;
        site.system.put("out", incoming("2"));
        eventually("both have expired", || (bridge.report().outgoing[0].expired_messages == 2).then_some(())).await;
        let queues = bridge.report().queues;
        let dead = queues.iter().find(|queue| queue.name == "system$;deadletter").unwrap();
        assert_eq!(dead.messages, kept);
        assert_eq!(bridge.report().outgoing[0].queue_messages, 0);
        eventually("the deliveries are settled", || (site.system.unsettled("out") == 0).then_some(())).await;
        bridge.bridge.stop().await.unwrap();
    }
}

/// A machine that takes the connection and says nothing, one that answers with another's identifier, one that takes
/// messages and never acknowledges: the queue waits, says why, and goes on when the machine is itself again.
#[tokio::test]
async fn machines_that_misbehave_are_waited_for() {
    let mut machine = Machine::new("misbehaving");
    let site = Site::new("handshake_timeout = \"1s\"", &[("back", route(&machine.queue("q"), "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let mute = tokio::net::TcpListener::bind(machine.address).await.unwrap();
    site.system.put("out", incoming("0"));
    let (connection, _) = mute.accept().await.unwrap();
    let reason =
        eventually("the queue is failing", || bridge.report().outgoing.first().and_then(|queue| queue.reason.clone()))
            .await;
    assert!(
        reason.contains("handshake") || reason.contains("Initialization") || reason.contains("initialization"),
        "{reason}"
    );
    drop((connection, mute));
    machine.inbox.be_silent(true);
    machine.switch_on().await;
    machine.wait_for(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bridge.report().outgoing[0].queue_messages, 1, "nothing is removed before it is acknowledged");
    machine.inbox.be_silent(false);
    machine.switch_off().await;
    machine.switch_on().await;
    eventually("it has left", || (bridge.report().outgoing[0].queue_messages == 0).then_some(())).await;
    bridge.bridge.stop().await.unwrap();
}

/// A private queue is named by its machine's identifier. The machine is found when it has opened a session itself.
#[tokio::test]
async fn a_session_that_the_other_side_opened_is_used() {
    let machine = Machine::new("calling");
    let site = Site::new("", &[("back", route(&format!("PRIVATE={}\\0000000a", machine.guid), "", ""))]);
    let bridge = site.start().await;
    site.system.put("out", incoming("1"));
    let reason =
        eventually("the queue is failing", || bridge.report().outgoing.first().and_then(|queue| queue.reason.clone()))
            .await;
    assert!(reason.contains(&machine.guid.to_string()), "{reason}");
    let _session = machine.call(bridge.address).await;
    let message = machine.wait_for(1).await.remove(0);
    assert_eq!(message.user.queue_manager_address, machine.guid);
    eventually("it has left", || (bridge.report().outgoing[0].queue_messages == 0).then_some(())).await;
    assert!(bridge.report().sessions.iter().all(|session| session.role == "acceptor"));
    bridge.bridge.stop().await.unwrap();
}

/// Whoever calls may claim any identifier. A machine that the directory knows gets its messages where the directory says that
/// it is, and nowhere else.
#[tokio::test]
async fn an_impostor_gets_nothing() {
    let mut machine = Machine::new("claimed");
    let mut impostor = Machine::new("impostor");
    impostor.guid = machine.guid;
    machine.address.set_ip([127, 0, 0, 2].into());
    let site = Site::new("", &[("back", route("{reply_to}", "", ""))]);
    site.know(&[&machine]);
    let bridge = site.start().await;
    let _session = impostor.call(bridge.address).await;
    for name in [format!("PRIVATE={}\\0000000a", machine.guid), machine.queue("q")] {
        site.system.put("out", Incoming { reply_to: Some(name), ..incoming("for the real one") });
    }
    eventually("both wait", || {
        (bridge.report().outgoing.iter().filter(|queue| queue.state == "failing").count() == 2).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(impostor.inbox.messages().is_empty());
    machine.switch_on().await;
    machine.wait_for(2).await;
    bridge.bridge.stop().await.unwrap();
}

/// Names by numbers are found in the directory; several destinations on one machine share a session.
#[tokio::test]
async fn the_directory_says_where_numbered_queues_are() {
    let mut machine = Machine::new("numbered");
    machine.switch_on().await;
    let site = Site::new("", &[("back", route("{reply_to}", "", ""))]);
    site.know(&[&machine]);
    let public = Guid::from_random([0xAB; 16]);
    site.know_queue(&machine, "orders", public);
    let bridge = site.start().await;
    for name in [format!("PRIVATE={}\\0000000a", machine.guid), format!("PUBLIC={public}"), machine.queue("direct")] {
        site.system.put("out", Incoming { reply_to: Some(name), ..incoming("1") });
    }
    let mut messages = machine.wait_for(3).await;
    messages.sort_by_key(|message| message.id().ordinal);
    let machines: Vec<_> = messages.iter().map(|message| message.user.queue_manager_address).collect();
    assert_eq!(machines, [machine.guid, machine.guid, Guid::NULL]);
    eventually("all have left", || {
        bridge.report().outgoing.iter().all(|queue| queue.queue_messages == 0).then_some(())
    })
    .await;
    bridge.bridge.stop().await.unwrap();
}
