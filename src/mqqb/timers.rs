//! The timers of MS-MQQB 3.1.2 that concern a session.
//!
//! A timer here is a pair of moments in a small table. Nothing ticks: whoever drives the session asks for the
//! [earliest deadline](Timers::next) and comes back then.

use std::time::Duration;

use super::Moment;

/// The timers of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Session Initialization Timer (3.1.2.1, 3.1.6.6): bounds the whole handshake.
    Initialization,
    /// Session Cleanup Timer (3.1.2.2, 3.1.6.2): closes a session on which no message went either way.
    Cleanup,
    /// Session Ack Wait Timer (3.1.2.4, 3.1.6.3): closes a session whose messages stay unacknowledged in silence.
    AckWait,
    /// Session Ack Send Timer (3.1.2.5, 3.1.6.4): bounds how long an acknowledgment is held back to gather more.
    AckSend,
}

impl Timer {
    const ALL: [Self; 4] = [Self::Initialization, Self::Cleanup, Self::AckWait, Self::AckSend];
}

/// The running timers of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    running: [Option<Span>; Timer::ALL.len()],
}

/// From when to when a timer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    since: Moment,
    until: Moment,
}

impl Timers {
    /// Starts a timer, or starts it anew.
    pub fn start(&mut self, timer: Timer, now: Moment, duration: Duration) {
        *self.slot(timer) = Some(Span { since: now, until: now + duration });
    }

    /// Starts a timer unless it runs already and ends sooner.
    pub fn start_or_shorten(&mut self, timer: Timer, now: Moment, duration: Duration) {
        let slot = self.slot(timer);
        let until = now + duration;
        if slot.is_none_or(|span| until < span.until) {
            *slot = Some(Span { since: now, until });
        }
    }

    /// Starts a timer unless it runs already.
    pub fn start_if_stopped(&mut self, timer: Timer, now: Moment, duration: Duration) {
        if self.slot(timer).is_none() {
            self.start(timer, now, duration);
        }
    }

    /// Stops a timer.
    pub fn stop(&mut self, timer: Timer) {
        *self.slot(timer) = None;
    }

    /// Stops all of them.
    pub fn stop_all(&mut self) {
        self.running = Default::default();
    }

    /// Whether a running timer has more than three quarters of its time behind it (3.1.7.11).
    pub fn is_mostly_over(&self, timer: Timer, now: Moment) -> bool {
        self.running[timer as usize].is_some_and(|span| (now - span.since) * 4 > (span.until - span.since) * 3)
    }

    /// The deadline of the timer that ends first.
    pub fn next(&self) -> Option<Moment> {
        self.running.iter().flatten().map(|span| span.until).min()
    }

    /// Takes one timer that has ended, in the order of [`Timer`]'s lines, and stops it.
    pub fn take_ended(&mut self, now: Moment) -> Option<Timer> {
        let ended = Timer::ALL.into_iter().find(|timer| self.slot(*timer).is_some_and(|span| span.until <= now))?;
        self.stop(ended);
        Some(ended)
    }

    const fn slot(&mut self, timer: Timer) -> &mut Option<Span> {
        &mut self.running[timer as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment::from_start(Duration::from_secs(seconds))
    }

    #[test]
    fn the_next_deadline_is_the_earliest_and_each_timer_ends_once() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        timers.start(Timer::Cleanup, at(0), 300 * SECOND);
        timers.start(Timer::AckSend, at(0), 10 * SECOND);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.take_ended(at(9)), None);
        assert_eq!(timers.take_ended(at(10)), Some(Timer::AckSend));
        assert_eq!(timers.take_ended(at(10)), None);
        assert_eq!(timers.next(), Some(at(300)));
        timers.stop_all();
        assert_eq!(timers.take_ended(at(1000)), None);
    }

    #[test]
    fn a_running_timer_is_shortened_but_never_prolonged_unless_started_anew() {
        let mut timers = Timers::default();
        timers.start_or_shorten(Timer::AckSend, at(0), 10 * SECOND);
        timers.start_or_shorten(Timer::AckSend, at(1), 20 * SECOND);
        timers.start_if_stopped(Timer::AckSend, at(1), SECOND);
        assert_eq!(timers.next(), Some(at(10)));
        timers.start_or_shorten(Timer::AckSend, at(2), SECOND);
        assert_eq!(timers.next(), Some(at(3)));
        timers.start(Timer::AckSend, at(2), 60 * SECOND);
        assert_eq!(timers.next(), Some(at(62)));
    }

    #[test]
    fn three_quarters_are_not_yet_mostly() {
        let mut timers = Timers::default();
        timers.start(Timer::AckSend, at(100), 8 * SECOND);
        assert!(!timers.is_mostly_over(Timer::AckSend, at(106)));
        assert!(timers.is_mostly_over(Timer::AckSend, at(107)));
        assert!(!timers.is_mostly_over(Timer::AckWait, at(107)));
    }
}
