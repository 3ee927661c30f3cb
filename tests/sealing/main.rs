//! What the bridge signs and encrypts: for machines behind an outgoing queue, and for receivers behind the foreign system.
//! The foreign system is in memory; the keys are those of the vectors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking and run in real time"
)]

mod command;
#[path = "../guarded/flaky.rs"]
mod flaky;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../returning/machine.rs"]
mod machine;
mod outgoing;
mod passing;
mod resealing;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../security/mod.rs"]
mod security;
mod site;

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

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
