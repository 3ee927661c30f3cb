use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing::Level;

/// How long repeats are counted before the count is shown.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// No more windows than this are kept at a time. There is one for each event and route that was warned of in the
/// last ten seconds, so that this is out of reach unless an event's name is made from what a peer says.
const MAX_WINDOWS: usize = 4096;

/// Counts the lines of each event and route, and says which are too many.
#[derive(Debug)]
pub(super) struct Limiter {
    /// Lines shown in a window.
    limit: u32,
    windows: HashMap<Subject, Window>,
}

/// What lines are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Subject {
    pub(super) event: String,
    pub(super) route: Option<String>,
    /// Counted apart: what is usual must not crowd out a warning of the same name.
    pub(super) is_info: bool,
}

#[derive(Debug)]
struct Window {
    began: Timestamp,
    level: Level,
    shown: u32,
    suppressed: u64,
}

impl Window {
    /// A window that lies in the future is over too: somebody has set the clock back.
    fn is_over(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.began);
        age.is_negative() || age >= SignedDuration::try_from(WINDOW).unwrap_or(SignedDuration::MAX)
    }
}

/// Lines that were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) subject: Subject,
    pub(super) level: Level,
    pub(super) count: u64,
}

impl Limiter {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, windows: HashMap::new() }
    }

    /// Whether a line is shown. Windows that are over are to be taken with [`Limiter::take_over`] before.
    pub(super) fn admit(&mut self, now: Timestamp, level: Level, subject: Subject) -> bool {
        if self.windows.len() >= MAX_WINDOWS && !self.windows.contains_key(&subject) {
            return true;
        }
        let window = self.windows.entry(subject).or_insert(Window { began: now, level, shown: 0, suppressed: 0 });
        if window.shown < self.limit {
            window.shown += 1;
            return true;
        }
        window.suppressed += 1;
        // The count is as important as the worst line in it.
        window.level = window.level.min(level);
        false
    }

    /// Ends the windows that are over and gives what was left out in them.
    pub(super) fn take_over(&mut self, now: Timestamp) -> Vec<Suppressed> {
        self.take(|window| window.is_over(now))
    }

    /// Ends all windows.
    pub(super) fn take_all(&mut self) -> Vec<Suppressed> {
        self.take(|_| true)
    }

    fn take(&mut self, mut ends: impl FnMut(&Window) -> bool) -> Vec<Suppressed> {
        let ended = self.windows.extract_if(|_, window| ends(window)).filter(|(_, window)| window.suppressed > 0);
        let mut suppressed: Vec<_> = ended
            .map(|(subject, window)| Suppressed { subject, level: window.level, count: window.suppressed })
            .collect();
        suppressed.sort_by(|a, b| a.subject.cmp(&b.subject));
        suppressed
    }
}
