use std::time::Duration;

/// Waits that double, with a part left to chance so that routes do not come back in step.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(10);

    pub(super) const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// The next wait: between a half and the whole of the step. `chance` is from 0 to 1.
    pub(super) fn step(&mut self, chance: f64) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(Self::LONGEST);
        step.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    pub(super) const fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_seconds_and_begin_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..9).map(|_| backoff.step(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        backoff.reset();
        assert_eq!(backoff.step(0.0), Duration::from_millis(50));
    }
}
