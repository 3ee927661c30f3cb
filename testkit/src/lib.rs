//! Real peers for tests, benchmarks and the demo: a private RabbitMQ node, its certificates, and a TCP proxy that
//! misbehaves on demand.
//!
//! Everything lives in a temporary directory, listens on loopback only, and is stopped by process id. A node does
//! not outlive the process that started it, even when that is killed.
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

mod broker;
mod certificates;
mod error;
mod install;
mod ports;
mod process;
mod proxy;
mod scratch;
mod shared;

pub use broker::{BrokerOptions, PrivateBroker, Tls};
pub use certificates::Certificates;
pub use error::TestkitError;
pub use ports::PortBlock;
pub use proxy::Proxy;
pub use scratch::ScratchDir;
pub use shared::SharedBroker;
