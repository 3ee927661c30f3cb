use std::fmt;
use std::net::SocketAddr;

use crate::mqqb::wire::{Frame, Guid, UserMessage};

/// A message that came in, and from whom.
#[derive(Debug)]
pub struct Arrival {
    /// The message.
    pub message: Box<UserMessage>,
    /// The bytes it came in.
    pub frame: Frame,
    /// The machine that brought it.
    pub peer: Peer,
}

/// The machine at the other end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it is.
    pub address: SocketAddr,
    /// The address of ours that it called.
    pub local: SocketAddr,
    /// Who it says it is; null before it has said so.
    pub queue_manager: Guid,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
