use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How a route is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteState {
    /// Its connector is not connected.
    Waiting,
    /// Messages go out.
    Forwarding,
    /// The foreign system does not take the message at the head of the queue.
    Failing {
        /// Why.
        reason: String,
        /// Since when, seconds since 1970.
        since: u64,
    },
    /// Shut down.
    Stopped,
}

impl RouteState {
    /// The word for `status`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Forwarding => "forwarding",
            Self::Failing { .. } => "failing",
            Self::Stopped => "stopped",
        }
    }
}

/// The states of all routes, for `status` and `/readyz`. Changes are logged here, once each.
#[derive(Clone, Debug, Default)]
pub struct StateBoard(Arc<Mutex<BTreeMap<String, RouteState>>>);

impl StateBoard {
    /// The state of a route.
    pub fn of(&self, route: &str) -> RouteState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(route).cloned().unwrap_or(RouteState::Waiting)
    }

    /// Records a state, and logs it when it is news.
    pub(super) fn set(&self, route: &str, state: RouteState) {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = board.get(route);
        // That it fails, and why, is news; since when it fails is not.
        let same = match (before, &state) {
            (Some(RouteState::Failing { reason: old, .. }), RouteState::Failing { reason: new, .. }) => old == new,
            (before, state) => before == Some(state),
        };
        if same {
            return;
        }
        match &state {
            RouteState::Waiting => {
                tracing::info!(event = "route_waiting", route = %route, "the route waits for its connector");
            }
            RouteState::Forwarding => {
                tracing::info!(event = "route_forwarding", route = %route, "the route forwards messages");
            }
            RouteState::Failing { reason, .. } => tracing::warn!(
                event = "route_failing", route = %route, reason = %reason,
                "the route is stuck; its messages wait in order and nothing is lost"
            ),
            RouteState::Stopped => tracing::info!(event = "route_stopped", route = %route, "the route has stopped"),
        }
        board.insert(route.to_owned(), state);
    }
}
