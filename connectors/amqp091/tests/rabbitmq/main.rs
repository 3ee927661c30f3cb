//! The connector against real RabbitMQ nodes.
//!
//! Tests that leave their broker as they found it share one. Those that crash, freeze or block theirs take turns on
//! another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

mod conformance;
mod events;
mod faults;
mod inlets;
mod peer;
mod raw;
mod refusals;
mod tls;
