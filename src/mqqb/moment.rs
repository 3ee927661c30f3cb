use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in monotonic time, counted from an arbitrary start chosen by whoever owns the clock.
///
/// The protocol room never reads a clock: `net::clock` makes moments from the operating system's monotonic
/// clock, and tests make them from thin air.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The start of time.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The moment `since_start` after [`Moment::ZERO`].
    pub const fn from_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// Time passed since [`Moment::ZERO`].
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Milliseconds since [`Moment::ZERO`], modulo 2^32: `EstablishConnectionHeader.TimeStamp`.
    pub const fn as_timestamp(self) -> u32 {
        self.0.as_millis() as u32
    }

    /// Time passed since `earlier`; zero when `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}
