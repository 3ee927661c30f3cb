//! The local control socket, the health endpoint, and the commands that use or replace a running bridge.

pub mod describe;
