//! mqbridge: an MSMQ queue manager for Linux that bridges to RabbitMQ.
//!
//! Seven rooms answer seven questions, here in reading order. What do the bytes mean and what does the protocol
//! say? [`mqqb`].

pub mod admin;
pub mod mqqb;
pub mod store;
