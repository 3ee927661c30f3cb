use std::collections::BTreeMap;
use std::sync::Arc;

use connector_api::{Connector, Status};
use tokio::sync::watch;

use super::intake::ReturnEntry;
use super::status::{QueueManagerStatus, QueueStatus};
use super::{
    Admission, ConnectorStatus, Outgoing, ReturnRouteStatus, RouteEntry, RouteState, RouteStatus, SessionStatus,
    StateBoard, StatusReport,
};
use crate::config::Destination;
use crate::mqqb::Moment;
use crate::mqqb::wire::{FormatName, Guid};
use crate::net::{Clock, Sessions};
use crate::store::{QueueId, Store};
use crate::telemetry::Counters;

/// The queue for messages that can't be forwarded or sent.
pub(super) const DEAD_LETTERS: &str = "system$;deadletter";

/// What can be asked of a running bridge.
pub struct View {
    name: String,
    guid: Guid,
    listen: Vec<String>,
    admission: Arc<Admission>,
    return_routes: Vec<Arc<ReturnEntry>>,
    outgoing: Outgoing,
    store: Store,
    sessions: Sessions,
    counters: Arc<Counters>,
    states: StateBoard,
    /// For sending to a foreign system, and for receiving from it where a route does.
    connectors: BTreeMap<String, watch::Receiver<Status>>,
    inlets: BTreeMap<String, watch::Receiver<Status>>,
    clock: Clock,
    started: Moment,
}

/// What a view is made of.
pub(super) struct ViewParts<'a> {
    pub(super) name: String,
    pub(super) guid: Guid,
    pub(super) listen: Vec<String>,
    pub(super) admission: Arc<Admission>,
    pub(super) return_routes: Vec<Arc<ReturnEntry>>,
    pub(super) outgoing: Outgoing,
    pub(super) store: Store,
    pub(super) sessions: Sessions,
    pub(super) counters: Arc<Counters>,
    pub(super) states: StateBoard,
    pub(super) connectors: &'a BTreeMap<String, Arc<dyn Connector>>,
    pub(super) clock: Clock,
}

/// Whether a bridge can do its work, for `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every required route can forward.
    Ready,
    /// What is in the way, a sentence each.
    NotReady(Vec<String>),
}

impl View {
    pub(super) fn new(parts: ViewParts<'_>) -> Self {
        let ViewParts {
            name,
            guid,
            listen,
            admission,
            return_routes,
            outgoing,
            store,
            sessions,
            counters,
            states,
            connectors,
            clock,
        } = parts;
        let sends = |name: &str| admission.routes().entries().iter().any(|route| route.config.to.connector == name);
        let receives = |name: &str| return_routes.iter().any(|route| route.config.from.connector == name);
        // A connection is made for what uses it; a connector that nothing uses is looked after all the same.
        let outlets = connectors.iter().filter(|(name, _)| sends(name) || !receives(name));
        let inlets = connectors.iter().filter(|(name, _)| receives(name));
        Self {
            connectors: outlets.map(|(name, connector)| (name.clone(), connector.status())).collect(),
            inlets: inlets.map(|(name, connector)| (name.clone(), connector.inlet_status())).collect(),
            started: clock.now(),
            name,
            guid,
            listen,
            admission,
            return_routes,
            outgoing,
            store,
            sessions,
            counters,
            states,
            clock,
        }
    }

    pub(super) const fn store(&self) -> &Store {
        &self.store
    }

    /// Whether every required route can forward.
    pub fn readiness(&self) -> Readiness {
        let mut missing = Vec::new();
        for route in self.admission.routes().entries().iter().filter(|route| route.config.required) {
            let connector = &route.config.to.connector;
            self.look_at(&route.config.name, connector, self.connectors.get(connector), &mut missing);
        }
        for route in self.return_routes.iter().filter(|route| route.config.required) {
            let connector = &route.config.from.connector;
            self.look_at(&route.config.name, connector, self.inlets.get(connector), &mut missing);
        }
        if let Err(error) = self.store.look_for_file() {
            missing.push(error.to_string());
        }
        if missing.is_empty() { Readiness::Ready } else { Readiness::NotReady(missing) }
    }

    fn look_at(
        &self,
        route: &str,
        connector: &str,
        status: Option<&watch::Receiver<Status>>,
        missing: &mut Vec<String>,
    ) {
        match status.map(|status| status.borrow().clone()) {
            Some(Status::Up { .. }) => {}
            Some(Status::Blocked { reason, .. }) => {
                missing.push(format!("route {route}: the broker behind connector {connector} takes nothing: {reason}"));
            }
            _ => missing.push(format!("route {route}: connector {connector} is not connected")),
        }
        if let RouteState::Failing { reason, .. } = self.states.of(route) {
            missing.push(format!("route {route}: {reason}"));
        }
    }

    /// Everything `status` shows.
    pub fn report(&self) -> StatusReport {
        let now = self.clock.unix_now();
        let moment = self.clock.now();
        let mut queues: Vec<_> =
            self.store.queues().into_iter().map(|(name, queue)| self.queue_status(name, queue, now)).collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        StatusReport {
            queue_manager: QueueManagerStatus {
                name: self.name.clone(),
                guid: self.guid.to_string(),
                version: crate::cli::VERSION.to_owned(),
                listen: self.listen.clone(),
                uptime_s: (moment - self.started).as_secs(),
            },
            rejected_without_route: self.counters.rejected_by(""),
            routes: self.admission.routes().entries().iter().map(|route| self.route_status(route, now)).collect(),
            return_routes: self.return_routes.iter().map(|route| self.return_route_status(route)).collect(),
            outgoing: self.outgoing.report(now),
            queues,
            sessions: self
                .sessions
                .report()
                .into_iter()
                .map(|session| SessionStatus {
                    peer: session.peer.to_string(),
                    source_machine: session.peer.queue_manager.to_string(),
                    role: session.role.word().to_owned(),
                    age_s: (moment - session.since).as_secs(),
                    received_messages: session.received,
                })
                .collect(),
            connectors: self
                .connectors
                .iter()
                .chain(self.inlets.iter().filter(|(name, _)| !self.connectors.contains_key(*name)))
                .map(|(name, status)| ConnectorStatus::new(name, &status.borrow()))
                .collect(),
        }
    }

    fn route_status(&self, route: &RouteEntry, now: u64) -> RouteStatus {
        let config = &route.config;
        let reading = route.counters.read();
        let depth = self.store.depth(route.queue);
        let state = self.states.of(&config.name);
        let private = FormatName::Private { machine: self.guid, id: route.private_id, suffix: None };
        let public = FormatName::Public { queue: route.guid, suffix: None };
        RouteStatus {
            name: config.name.clone(),
            queue: config.from.queue.to_string(),
            format_names: vec![private.to_string(), public.to_string()],
            connector: config.to.connector.clone(),
            state: state.word().to_owned(),
            reason: match state {
                RouteState::Failing { reason, .. } => Some(reason),
                _ => None,
            },
            received_messages: reading.received(),
            duplicates: reading.duplicates,
            confirmed_messages: reading.confirmed,
            rejected_messages: self.counters.rejected_by(&config.name),
            dead_lettered_messages: reading.dead_lettered,
            queue_messages: depth.messages,
            queue_bytes: depth.bytes,
            queue_oldest_seconds: self.age(route.queue, now).unwrap_or(0),
        }
    }

    fn return_route_status(&self, route: &ReturnEntry) -> ReturnRouteStatus {
        let config = &route.config;
        let reading = route.counters.read();
        let state = self.states.of(&config.name);
        ReturnRouteStatus {
            name: config.name.clone(),
            queue: config.from.queue.clone(),
            connector: config.from.connector.clone(),
            destination: match &config.to.queue {
                Destination::Fixed(name) => name.to_string(),
                Destination::ReplyTo => "{reply_to}".to_owned(),
            },
            state: state.word().to_owned(),
            reason: match state {
                RouteState::Failing { reason, .. } => Some(reason),
                _ => None,
            },
            received_messages: reading.received(),
            duplicates: reading.duplicates,
            rejected_messages: self.counters.rejected_by(&config.name),
        }
    }

    fn queue_status(&self, name: String, queue: QueueId, now: u64) -> QueueStatus {
        let depth = self.store.depth(queue);
        let routed = self.admission.routes().entries().iter().any(|route| route.queue == queue);
        let kind = match name.as_str() {
            DEAD_LETTERS => "dead-letter",
            _ if routed => "route",
            outgoing if outgoing.starts_with("outgoing:") => "outgoing",
            _ => "no-route",
        };
        QueueStatus {
            kind: kind.to_owned(),
            messages: depth.messages,
            bytes: depth.bytes,
            oldest_age_s: self.age(queue, now),
            name,
        }
    }

    fn age(&self, queue: QueueId, now: u64) -> Option<u64> {
        self.store.oldest(queue).ok().flatten().map(|came| now.saturating_sub(came))
    }
}
