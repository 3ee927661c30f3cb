use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::mqqb::Moment;

/// The one place that reads the operating system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock whose moments count from now.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes in")]
    pub fn start() -> Self {
        Self { start: tokio::time::Instant::now() }
    }

    /// Monotonic time, for the protocol's timers.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes in")]
    pub fn now(&self) -> Moment {
        Moment::from_start(tokio::time::Instant::now().saturating_duration_since(self.start))
    }

    /// The runtime's instant for a moment, for its sleeps.
    pub fn instant(&self, moment: Moment) -> tokio::time::Instant {
        self.start + moment.since_start()
    }

    /// Sleeps until a moment. Cancel safe.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(self.instant(moment)).await;
    }

    /// Sleeps for a while. Cancel safe.
    pub async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }

    /// Wall clock time: seconds since 1970 (UTC). Zero for a clock before that.
    #[expect(clippy::disallowed_methods, reason = "this is where time comes in")]
    pub fn unix_now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}
