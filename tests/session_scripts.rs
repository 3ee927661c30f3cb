//! Sessions, frame by frame: what each state accepts, what each rule does, in virtual time.
//!
//! One side is the session under test, the other one is the script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on says so")]

#[path = "simulation/packets.rs"]
mod packets;

#[path = "session_scripts/script.rs"]
mod script;

#[path = "session_scripts/handshake.rs"]
mod handshake;

#[path = "session_scripts/receiving.rs"]
mod receiving;

#[path = "session_scripts/sending.rs"]
mod sending;

#[path = "session_scripts/timers.rs"]
mod timers;

#[path = "session_scripts/bad_input.rs"]
mod bad_input;
