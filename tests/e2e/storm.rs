//! Nothing acknowledged is lost, whatever is killed.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::PrivateBroker;

use crate::broker::Application;
use crate::process::{Bridge, Site, route};
use crate::sender::{connect, encoded, message, runtime, send_all};

const MESSAGES: u32 = 10_000;

/// 10,000 recoverable messages; the broker is killed and restarted on the way, and so is the bridge, twice.
#[test]
fn ten_thousand_messages_outlive_a_killed_broker_and_a_killed_bridge() {
    let broker = PrivateBroker::running().unwrap();
    let uri = broker.uri();
    let exchange = "storm";
    let routes = [("storm", route("storm", exchange, "storm", "", "max_in_flight = 100").leak() as &str)];
    let site = Site::new(&uri, "", &routes);
    runtime().block_on(async { drop(Application::declare(&uri, exchange).await) });

    let bridge = site.start();
    let address = Arc::new(Mutex::new(bridge.address));
    let progress = Arc::new(Mutex::new(0));
    let sender = {
        let (address, progress) = (Arc::clone(&address), Arc::clone(&progress));
        std::thread::spawn(move || send_until_done(&address, &progress))
    };
    wait_until(&progress, MESSAGES / 10);
    let bridge = kill_and_restart(bridge, &site, &address);
    wait_until(&progress, MESSAGES * 3 / 10);
    broker.kill().unwrap();
    wait_until(&progress, MESSAGES / 2);
    let bridge = kill_and_restart(bridge, &site, &address);
    broker.restart().unwrap();
    wait_until(&progress, MESSAGES * 8 / 10);
    let bridge = kill_and_restart(bridge, &site, &address);
    sender.join().unwrap();

    let received = runtime().block_on(async {
        let application = Application::declare(&uri, exchange).await;
        let mut received = Vec::new();
        let all = |messages: &[crate::broker::Received]| {
            messages.iter().map(crate::broker::Received::ordinal).collect::<HashSet<_>>().len() == MESSAGES as usize
        };
        // Counting them anew each time is slow; the last one published is the last one to come.
        let last = |messages: &[crate::broker::Received]| messages.last().is_some_and(|it| it.ordinal() == MESSAGES);
        application.receive_until(|messages| last(messages) && all(messages), &mut received).await;
        received
    });
    assert!(bridge.stop().success());

    let mut seen = HashSet::new();
    let mut newest = 0;
    let mut repeats = 0;
    for message in &received {
        let ordinal = message.ordinal();
        if seen.insert(ordinal) {
            assert_eq!(ordinal, newest + 1, "message {ordinal} came out of order");
            newest = ordinal;
        } else {
            repeats += 1;
            assert!(message.redelivered(), "message {ordinal} came again without msmq-redelivered");
        }
        assert_eq!(message.body(), format!("body {ordinal}").as_bytes());
    }
    assert_eq!(newest, MESSAGES);
    eprintln!("storm: {MESSAGES} messages sent, {} arrived, {repeats} repeats, all marked", received.len());
}

fn kill_and_restart(bridge: Bridge, site: &Site, address: &Mutex<SocketAddr>) -> Bridge {
    bridge.kill();
    let bridge = site.start();
    *address.lock().unwrap() = bridge.address;
    bridge
}

fn wait_until(progress: &Mutex<u32>, acknowledged: u32) {
    crate::process::eventually("the sender gets on", || (*progress.lock().unwrap() >= acknowledged).then_some(()));
}

/// A sender as MSMQ is one: keeps what is not acknowledged, and sends it again in order over a new session.
fn send_until_done(address: &Mutex<SocketAddr>, progress: &Mutex<u32>) {
    let packets: Vec<_> = (1..=MESSAGES).map(|ordinal| (encoded(&message("storm", ordinal)), true)).collect();
    runtime().block_on(async {
        let mut done = 0;
        while done < packets.len() {
            let called = *address.lock().unwrap();
            let Ok(mut dialed) = connect(called).await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            while done < packets.len() {
                // In portions, so that the test sees the progress, and slowly enough to be interrupted.
                let portion = &packets[done..packets.len().min(done + 200)];
                match send_all(&mut dialed, portion).await {
                    Ok(()) => done += portion.len(),
                    Err((acknowledged, _)) => {
                        done += acknowledged;
                        break;
                    }
                }
                *progress.lock().unwrap() = done as u32;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
}
