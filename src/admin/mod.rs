//! The local control socket, the health endpoint, and the commands that use or replace a running bridge.

pub mod commands;
pub mod describe;
pub mod health;
pub mod send;
pub mod socket;
pub mod status;
