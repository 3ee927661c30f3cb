use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// How long to wait after that many failures in a row: doubling from 100 ms to 10 s, less up to a half at random, so
/// that many clients of a restarted broker do not come back in step.
pub(crate) fn delay(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(7);
    let whole = (FIRST * 2_u32.pow(doublings)).min(LONGEST);
    // Each `RandomState` hashes with keys of its own.
    let random = RandomState::new().hash_one(failures) as u32;
    whole.mul_f64(1.0 - f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// A connection that lasted this long counts as a success: the next failure begins a new row.
pub(crate) const STEADY: Duration = LONGEST;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_differ() {
        for failures in 1..40 {
            let whole = (FIRST * 2_u32.pow((failures - 1).min(7))).min(LONGEST);
            let drawn: Vec<_> = (0..50).map(|_| delay(failures)).collect();
            assert!(drawn.iter().all(|delay| (whole / 2..=whole).contains(delay)), "{failures}: {drawn:?}");
            assert!(drawn.iter().any(|delay| *delay != drawn[0]), "{failures}: {drawn:?}");
        }
    }
}
