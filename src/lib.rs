//! mqbridge: an MSMQ queue manager for Linux that bridges to RabbitMQ.
//!
//! Seven rooms answer seven questions, here in reading order. What do the bytes mean and what does the protocol
//! say? [`mqqb`]. Is it genuine and what does it contain? [`security`]. What must not be lost? [`store`]. What did the
//! operator ask for? [`config`].
//!
//! Beside them: who this queue manager is, [`identity`]; what operators see, [`telemetry`]; what can be typed, [`cli`];
//! what its commands show, [`admin`].

pub mod admin;
pub mod cli;
pub mod config;
pub mod identity;
pub mod mqqb;
pub mod security;
pub mod store;
pub mod telemetry;
