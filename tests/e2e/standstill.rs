//! The destination is away and RabbitMQ's queue grows: the bridge takes what its quota allows, and waits.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use testkit::SharedBroker;

use crate::broker::{Publisher, unique};
use crate::machine::Machine;
use crate::process::{RETURNING, Site, eventually, return_route, status};
use crate::sender::runtime;

const MESSAGES: u32 = 4_000;
const BODY: usize = 16 << 10;
const QUOTA: u64 = 1 << 20;
const PREFETCH: u64 = 64;

#[test]
fn a_destination_that_is_away_costs_no_more_memory_than_was_allowed() {
    let uri = SharedBroker::uri().unwrap();
    let queue = unique("standstill");
    let from = format!("prefetch = {PREFETCH}\nsettle_after = \"1s\"");
    let route = return_route(&queue, r"DIRECT=OS:win01\private$\q", &from, "quota = \"1 MiB\"");
    let site = Site::new(&uri, RETURNING, &[("back", &route)]);
    let mut machine = Machine::new("win01");
    machine.introduce_to(&site);
    let publisher = runtime().block_on(async {
        let publisher = Publisher::connect(&uri).await;
        publisher.declare(&queue, None).await;
        publisher
    });
    drop(publisher);
    let mut bridge = site.start();
    let before = bridge.memory();
    let feeder = {
        let (uri, queue) = (uri.clone(), queue.clone());
        std::thread::spawn(move || runtime().block_on(feed(&uri, &queue)))
    };
    eventually("the route says that its queue is full", || {
        let report = status(&site);
        let route = &report["return_routes"][0];
        (route["state"] == "failing" && route["reason"].as_str().unwrap().contains("full")).then_some(())
    });
    feeder.join().unwrap();
    // Long enough for whatever would go on taking.
    let mut most = 0;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        most = most.max(bridge.memory());
        std::thread::sleep(Duration::from_millis(100));
    }
    let waiting = &status(&site)["outgoing"][0];
    let bytes = waiting["queue_bytes"].as_u64().unwrap();
    assert!((QUOTA / 2..=QUOTA).contains(&bytes), "{bytes} bytes wait in the bridge");
    let taken = waiting["queue_messages"].as_u64().unwrap();
    let left = runtime().block_on(async { Publisher::connect(&uri).await.depth(&queue).await });
    assert!(u64::from(left) + taken + PREFETCH >= u64::from(MESSAGES), "{left} are still in RabbitMQ, {taken} here");
    let line = bridge.wait_for(|line| line["event"] == "outgoing_summary");
    assert_eq!((&line["queue_bytes"], &line["state"]), (&waiting["queue_bytes"], &"failing".into()));
    let allowed = QUOTA + PREFETCH * BODY as u64;
    let grown = most.saturating_sub(before);
    eprintln!(
        "standstill: the bridge grew by {} MiB, {} MiB of messages wait",
        grown >> 20,
        (MESSAGES as usize * BODY) >> 20
    );
    assert!(grown < 2 * allowed + (16 << 20), "it grew by {grown} bytes; prefetch and quota allow {allowed}");

    let back = Instant::now();
    machine.switch_on();
    machine.wait_for(100);
    // It goes away once more, in the middle of a session.
    machine.switch_off();
    machine.switch_on();
    let arrived = eventually("all have arrived", || {
        let arrived = first_arrivals(&machine);
        (arrived.len() == MESSAGES as usize).then_some(arrived)
    });
    eprintln!("standstill: all had arrived {:.1} s after the machine was back", back.elapsed().as_secs_f64());
    assert_eq!(arrived, (0..MESSAGES).collect::<Vec<_>>());
    eventually("the route forwards again", || {
        (status(&site)["return_routes"][0]["state"] == "forwarding").then_some(())
    });
    let failing = bridge.log().iter().filter(|line| line["event"] == "route_failing").count();
    assert!(failing <= 3, "one trouble is {failing} lines in the log");
    let connected = bridge.log().iter().filter(|line| line["event"] == "outgoing_connected").count();
    assert_eq!(connected, 2, "a line for each session, not for each time that the queue was empty");
    bridge.signal("TERM");
    let closed = bridge.wait_for_count(2, |line| line["event"] == "session_closed").pop().unwrap();
    assert_eq!((&closed["reason"], &closed["level"]), (&"shutting down".into(), &"info".into()));
    assert!(bridge.wait().success());
}

fn first_arrivals(machine: &Machine) -> Vec<u32> {
    let mut seen = HashSet::new();
    let numbers = machine
        .messages()
        .into_iter()
        .map(|message| u32::from_be_bytes(message.properties.body[..4].try_into().unwrap()));
    numbers.filter(|number| seen.insert(*number)).collect()
}

async fn feed(uri: &str, queue: &str) {
    let publisher = Publisher::connect(uri).await;
    let mut body = vec![b'x'; BODY];
    for number in 0..MESSAGES {
        body[..4].copy_from_slice(&number.to_be_bytes());
        let id = format!("standstill {number}");
        let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(id.into());
        publisher.publish(queue, properties, &body).await;
    }
}
