//! The MSMQ binary protocol. No I/O, no clock, no cryptography.
//!
//! * [`wire`] — bytes to packets and back.
//! * [`session`] — one TCP session between two queue managers: handshake, window, session acknowledgments.
//! * [`timers`] — the timers of MS-MQQB 3.1.2 that concern a session.
//!
//! Time comes in from outside as a [`Moment`]; randomness too. Everything here runs in virtual time in the tests.

mod moment;
pub mod session;
pub mod timers;
pub mod wire;

pub use moment::Moment;
