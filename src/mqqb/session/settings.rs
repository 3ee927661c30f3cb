use std::ops::RangeInclusive;
use std::time::Duration;

use crate::mqqb::wire::Guid;

/// What both roles of a session are configured with.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// Our own queue manager.
    pub local: Guid,
    /// `WindowSize`: how many messages either side may leave unacknowledged; 64 by default.
    pub window: u16,
    /// `AckWaitTimeout`: 20 s to 120 s.
    pub ack_timeout: Duration,
    /// Session Initialization Timer: 60 s by default.
    pub initialization_timeout: Duration,
    /// Session Cleanup Timer: an idle session is closed after this, 5 min by default.
    pub cleanup_timeout: Duration,
}

impl SessionSettings {
    /// The defaults of the specification (3.1.3.2, notes 43, 44, 50, 51).
    pub const fn new(local: Guid) -> Self {
        Self {
            local,
            window: 64,
            ack_timeout: Duration::from_secs(20),
            initialization_timeout: Duration::from_mins(1),
            cleanup_timeout: Duration::from_mins(5),
        }
    }

    /// The window as we announce it: the legal range begins at 1 (MS-MQMQ 2.2.20.4).
    pub(super) fn own_window(&self) -> u16 {
        self.window.max(1)
    }
}

/// The legal `ConnectionParameters.AckTimeout`, in milliseconds (2.2.2.1).
pub(super) const ACK_TIMEOUT: RangeInclusive<u32> = 0x4E20..=0x1_D4C0;
/// The legal `ConnectionParameters.RecoverableAckTimeout`, in milliseconds (2.2.2.1).
pub(super) const RECOVERABLE_ACK_TIMEOUT: RangeInclusive<u32> = 0x1F4..=0x1_D4C0;

/// The time-outs that both sides of a session keep to, in milliseconds, within their legal ranges whatever the
/// other side wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    ack: u32,
    recoverable_ack: u32,
    /// Whether the session was made for a direct format name: `ServerGuid` was null.
    direct: bool,
}

impl Timeouts {
    pub(super) fn new(ack: u32, recoverable_ack: u32, direct: bool) -> Self {
        Self {
            ack: clamp(ack, &ACK_TIMEOUT),
            recoverable_ack: clamp(recoverable_ack, &RECOVERABLE_ACK_TIMEOUT),
            direct,
        }
    }

    /// How long the Session Ack Wait Timer runs: twice the time-out for direct format names (note 46).
    pub(super) const fn ack_wait(&self) -> Duration {
        milliseconds(if self.direct { self.ack.saturating_mul(2) } else { self.ack })
    }

    /// How long the Session Ack Send Timer runs for an express message (3.1.5.8.2).
    pub(super) const fn express_ack_delay(&self) -> Duration {
        milliseconds(self.ack / 2)
    }

    /// How long it runs for a recoverable message (3.1.5.8.7): never longer than for an express one, since a round
    /// trip measured on a bad day must not outlast the sender's patience.
    pub(super) fn recoverable_ack_delay(&self) -> Duration {
        milliseconds(self.recoverable_ack.min(self.ack / 2))
    }

    pub(super) const fn ack(&self) -> u32 {
        self.ack
    }

    pub(super) const fn recoverable_ack(&self) -> u32 {
        self.recoverable_ack
    }
}

/// A duration as the field of a packet has it; what does not fit is as long as can be.
pub(super) fn as_milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

const fn milliseconds(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds as u64)
}

fn clamp(value: u32, legal: &RangeInclusive<u32>) -> u32 {
    value.clamp(*legal.start(), *legal.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_the_other_side_are_kept_in_their_legal_ranges() {
        let none = Timeouts::new(0, 0, false);
        assert_eq!(none.ack_wait(), Duration::from_secs(20));
        assert_eq!(none.express_ack_delay(), Duration::from_secs(10));
        assert_eq!(none.recoverable_ack_delay(), Duration::from_millis(500));
        let huge = Timeouts::new(u32::MAX, u32::MAX, true);
        assert_eq!(huge.ack_wait(), Duration::from_mins(4));
        assert_eq!(huge.express_ack_delay(), Duration::from_mins(1));
        assert_eq!(huge.recoverable_ack_delay(), Duration::from_mins(1));
    }
}
