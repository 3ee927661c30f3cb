//! The whole bridge, as a process, between real peers: the native protocol on one side, RabbitMQ on the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking, run in real time and report what they saw"
)]

mod abuse;
mod admission;
mod broker;
mod captured;
mod commands;
mod forms;
mod machine;
mod process;
mod relay;
mod replies;
mod round_trip;
mod secrets;
mod sender;
mod standstill;
mod storm;
mod strangers;
