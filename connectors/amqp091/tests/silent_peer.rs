//! A peer that accepts connections and never says a word costs an attempt now and then, and nothing that stays.
//!
//! A test program of its own: it counts the threads of this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use connector_amqp091::{Amqp091Config, Amqp091Connector};
use connector_api::{Connector, Status};
use tokio::time::{sleep, timeout};

/// The name that lapin gives the thread in which it serves a connection, as far as Linux keeps it.
const LAPIN_THREAD: &str = "lapin-io-loop";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_at_a_silent_peer_leave_no_threads_behind() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("amqp://guest:guest@{}/%2f", peer.local_addr().unwrap());
    let config = Amqp091Config {
        connect_timeout: Duration::from_millis(100),
        ..Amqp091Config::new("silent", vec![uri.parse().unwrap()])
    };
    let connector = Amqp091Connector::new(config).unwrap();
    let mut status = connector.status();
    let many = |status: &Status| matches!(status, Status::Connecting { attempt: 5.., .. });
    let seen = timeout(Duration::from_secs(20), status.wait_for(many)).await.unwrap().unwrap().clone();
    let Status::Connecting { reason: Some(reason), .. } = seen else { panic!("{seen:?}") };
    assert!(reason.contains("no answer to the AMQP handshake within 0.1 s"), "{reason}");
    assert!(lapin_threads() <= 2, "{} threads after five attempts", lapin_threads());

    connector.close().await;
    for _ in 0..200 {
        if lapin_threads() == 0 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{} threads are left", lapin_threads());
}

fn lapin_threads() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == LAPIN_THREAD).count()
}
