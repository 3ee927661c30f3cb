use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::Peer;

/// The sending end of an open session, whoever opened it. Cheap to clone; all clones share the session's window.
#[derive(Clone)]
pub struct Lane {
    to: mpsc::Sender<Consignment>,
    peer: Peer,
    end: LaneEnd,
}

/// A message on its way to the session.
#[derive(Debug)]
pub struct Consignment {
    /// The sender's own name for it.
    pub token: u64,
    /// The encoded packet, without a session header.
    pub packet: Bytes,
    /// Whether it is recoverable or transactional.
    pub recoverable: bool,
    /// Gets the token once the other side has acknowledged the message.
    pub acknowledged: mpsc::UnboundedSender<u64>,
}

/// Why a session has ended, once it has.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneEnd(Arc<OnceLock<String>>);

impl LaneEnd {
    pub(super) fn set(&self, reason: String) {
        // The first reason is the one that counts.
        let _ = self.0.set(reason);
    }
}

/// Messages that wait for the window of a session.
const WAITING: usize = 16;

impl Lane {
    /// A lane and the end that the link keeps.
    pub(super) fn new(peer: Peer, end: LaneEnd) -> (Self, mpsc::Receiver<Consignment>) {
        let (to, from) = mpsc::channel(WAITING);
        (Self { to, peer, end }, from)
    }

    /// The same lane, once the other side has said who it is.
    pub(super) fn with_peer(&self, peer: Peer) -> Self {
        Self { peer, ..self.clone() }
    }

    /// The machine at the other end.
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether the session may still be there.
    pub fn is_open(&self) -> bool {
        !self.to.is_closed()
    }

    /// Resolves when the session is over. What was sent and not acknowledged by then is to be sent again. Cancel safe.
    pub async fn closed(&self) {
        self.to.closed().await;
    }

    /// Why the session has ended.
    pub fn reason(&self) -> String {
        self.end.0.get().cloned().unwrap_or_else(|| "the session is over".to_owned())
    }

    /// Hands a message over, after those handed over before; waits for room. Gives it back when the session is over.
    /// Cancel safe: dropped, nothing was handed over.
    pub async fn send(&self, consignment: Consignment) -> Result<(), Consignment> {
        self.to.send(consignment).await.map_err(|refused| refused.0)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("peer", &self.peer).field("open", &self.is_open()).finish_non_exhaustive()
    }
}
