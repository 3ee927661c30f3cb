//! mqbridge: an MSMQ queue manager for Linux that bridges to RabbitMQ.
//!
//! Seven rooms answer seven questions, here in reading order. What do the bytes mean and what does the protocol
//! say? [`mqqb`].

pub mod cli;
pub mod config;
pub mod identity;
pub mod mqqb;
pub mod security;
pub mod store;
pub mod telemetry;
