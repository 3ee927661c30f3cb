use std::time::Duration;

use crate::mqqb::wire::{Guid, Malformed};

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseCause {
    /// The other side broke the layout of a packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The other side sent a legal packet at the wrong time.
    #[error("unexpected {packet} packet while {state}")]
    Unexpected {
        /// The packet.
        packet: &'static str,
        /// The state we were in.
        state: &'static str,
    },
    /// We refused the session: it was meant for another queue manager.
    #[error("refused: the session was meant for queue manager {wanted}, this is {own}")]
    WrongServer {
        /// The queue manager it was meant for.
        wanted: Guid,
        /// Our own.
        own: Guid,
    },
    /// The other side refused the session.
    #[error("the other side refused the session")]
    Refused,
    /// The answer came from another queue manager than the one we called.
    #[error("the answer came from queue manager {got}, not from {wanted}")]
    WrongAnswer {
        /// The one we called.
        wanted: Guid,
        /// The one that answered.
        got: Guid,
    },
    /// The answer was given to another caller than us.
    #[error("the answer is for queue manager {got}, this is {own}")]
    WrongClient {
        /// Our own.
        own: Guid,
        /// The one that the answer names.
        got: Guid,
    },
    /// The handshake took too long (Session Initialization Timer).
    #[error("the handshake took longer than {0:?}")]
    Initialization(Duration),
    /// Messages stayed unacknowledged and nothing came (Session Ack Wait Timer).
    #[error("{unacknowledged} messages stayed unacknowledged and nothing came for {waited:?}")]
    AckTimeout {
        /// How many.
        unacknowledged: usize,
        /// The timer.
        waited: Duration,
    },
    /// No message went either way (Session Cleanup Timer).
    #[error("no message for {0:?}")]
    Idle(Duration),
    /// The two sides count differently (MS-MQQB 3.1.5.5.5).
    #[error("the other side has sent {theirs} {what} (modulo 65536), we have received {ours}")]
    Counts {
        /// `messages` or `recoverable messages`.
        what: &'static str,
        /// Their count, modulo 2^16.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// The other side acknowledges what was never sent.
    #[error("the other side acknowledges {what} {number}, which was never sent")]
    FalseAck {
        /// `message` or `recoverable message`.
        what: &'static str,
        /// Its number, modulo 2^16.
        number: u16,
    },
    /// The other side sends on and on without waiting for acknowledgments, beyond what the numbers on the wire can
    /// tell apart.
    #[error("{0} messages came that are not settled yet, more than the other side may leave unacknowledged")]
    Overrun(usize),
    /// Our own reason, such as a full store.
    #[error("{0}")]
    Local(String),
}

impl CloseCause {
    /// Whether the two sides may number messages differently: then an acknowledgment would end the other side's
    /// duty for a message that never came.
    pub(super) const fn breaks_the_count(&self) -> bool {
        matches!(self, Self::Counts { .. } | Self::FalseAck { .. })
    }
}
