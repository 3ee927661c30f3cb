//! From a foreign system to other MSMQ machines, and acknowledgments both ways. The foreign system is in memory, the
//! machines are on loopback addresses of their own; everything between is the bridge as it runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking and run in real time"
)]

mod acknowledgments;
mod faults;
mod forms;
mod machine;
mod site;

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn body(message: &mqbridge::mqqb::wire::UserMessage) -> String {
    String::from_utf8(message.properties.body.to_vec()).unwrap()
}
