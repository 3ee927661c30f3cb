//! mqbridge: an MSMQ queue manager for Linux that bridges to RabbitMQ.
//!
//! Each room answers one question; here they are in reading order.
//!
//! * [`mqqb`]: what do the bytes mean, and what does the protocol say?
//! * [`security`]: is it genuine, and what does it contain?
//! * [`directory`]: who is that?
//! * [`store`]: what must not be lost?
//! * [`bridge`]: what do we do with it?
//! * [`net`]: how does it touch the network?
//! * [`config`]: what did the operator ask for?
//! * [`telemetry`]: what does the operator see?
//!
//! Around them: [`identity`] is who this queue manager is, [`admin`] and [`cli`] are the commands, [`daemon`] is the
//! process.

pub mod mqqb;

pub mod security;

pub mod directory;

pub mod store;

pub mod bridge;

pub mod net;

pub mod config;

pub mod telemetry;

pub mod identity;

pub mod admin;
pub mod cli;
pub mod daemon;
