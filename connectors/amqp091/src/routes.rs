use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backoff;

/// Which routes keep failing although the connection is there: a missing exchange, missing rights. Their next outlet
/// opens later each time, so that such a route costs the broker a channel every ten seconds and not a thousand a second.
#[derive(Debug, Default)]
pub(crate) struct Routes(Mutex<HashMap<String, u32>>);

impl Routes {
    /// An outlet of the route lost its channel.
    pub(crate) fn failed(&self, route: &str) {
        let mut failures = self.failures();
        let count = failures.entry(route.to_owned()).or_default();
        *count = count.saturating_add(1);
    }

    /// An outlet of the route got a message through.
    pub(crate) fn succeeded(&self, route: &str) {
        self.failures().remove(route);
    }

    /// How long its next outlet should wait.
    pub(crate) fn pause(&self, route: &str) -> Option<Duration> {
        self.failures().get(route).copied().map(backoff::delay)
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
