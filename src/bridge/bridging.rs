use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use connector_api::{Connector, Status};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::forward::Forwarder;
use super::status::{QueueManagerStatus, QueueStatus};
use super::summary::Summary;
use super::{
    Admission, ConnectorStatus, Desk, OwnNames, RouteState, RouteStatus, RouteTable, RouteTableError, SessionStatus,
    StateBoard, StatusReport,
};
use crate::config::Config;
use crate::mqqb::Moment;
use crate::mqqb::session::SessionSettings;
use crate::mqqb::wire::{FormatName, Guid, MAX_PACKET_SIZE};
use crate::net::{Clock, LinkSettings, ListenError, Listener, PingResponder, Places, Reception, Sessions, StopSwitch};
use crate::store::{QueueId, Store, StoreError};
use crate::telemetry::Counters;

/// The queue for messages that can't be forwarded.
const DEAD_LETTERS: &str = "system$;deadletter";

/// What a bridge is made of.
pub struct Parts {
    /// What the operator asked for.
    pub config: Config,
    /// This queue manager.
    pub guid: Guid,
    /// The durable queues.
    pub store: Store,
    /// The foreign systems, by name.
    pub connectors: BTreeMap<String, Arc<dyn Connector>>,
    /// How many connections there may be.
    pub places: Places,
    /// Time.
    pub clock: Clock,
    /// A number from 0 to 1, for waits that must not come in step.
    pub chance: fn() -> f64,
}

/// A bridge that runs. Dropped, it ends as if it were killed.
pub struct Bridge {
    view: Arc<View>,
    /// Nothing comes in any more.
    close: StopSwitch,
    /// Nothing goes out any more.
    drain: StopSwitch,
    net: JoinSet<()>,
    forwarders: JoinSet<bool>,
    summary: JoinSet<()>,
    connectors: BTreeMap<String, Arc<dyn Connector>>,
    shutdown_timeout: Duration,
}

/// What can be asked of a running bridge.
pub struct View {
    name: String,
    guid: Guid,
    listen: Vec<String>,
    admission: Arc<Admission>,
    store: Store,
    sessions: Sessions,
    counters: Arc<Counters>,
    states: StateBoard,
    connectors: BTreeMap<String, watch::Receiver<Status>>,
    clock: Clock,
    started: Moment,
}

/// Why a bridge can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port can't be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The routes contradict each other.
    #[error(transparent)]
    Routes(#[from] RouteTableError),
    /// The store has no room for a queue.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A route's connector is not there.
    #[error("route {route}: there is no connector {connector}")]
    NoConnector {
        /// The route.
        route: String,
        /// The connector.
        connector: String,
    },
}

impl Bridge {
    /// Opens the ports and sets everything going.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { config, guid, store, connectors, places, clock, chance } = parts;
        let manager = &config.queue_manager;
        let routes = RouteTable::build(config.routes, guid, manager.clock_skew, &store)?;
        let dead_letters = store.queue(DEAD_LETTERS)?;
        let mut listeners = Vec::new();
        for address in &manager.listen {
            listeners.push(Listener::bind(*address).await?);
        }
        let mut responders = Vec::new();
        for address in &manager.ping {
            responders.push(PingResponder::bind(*address).await?);
        }

        let names = OwnNames::new(&manager.name, manager.accept_as.iter().map(String::as_str));
        let admission = Arc::new(Admission::new(guid, names, routes.clone(), manager.max_message, manager.clock_skew));
        let counters = Arc::new(Counters::default());
        let sessions = Sessions::new(places);
        let states = StateBoard::default();
        let (close, closing) = StopSwitch::new();
        let (drain, draining) = StopSwitch::new();

        let view = Arc::new(View {
            name: manager.name.clone(),
            guid,
            listen: listeners.iter().map(|listener| listener.address().to_string()).collect(),
            admission: Arc::clone(&admission),
            store: store.clone(),
            sessions: sessions.clone(),
            counters: Arc::clone(&counters),
            states: states.clone(),
            connectors: connectors.iter().map(|(name, connector)| (name.clone(), connector.status())).collect(),
            clock,
            started: clock.now(),
        });

        let mut forwarders = JoinSet::new();
        for route in routes.entries() {
            let connector = connectors.get(&route.config.to.connector).ok_or_else(|| StartError::NoConnector {
                route: route.config.name.clone(),
                connector: route.config.to.connector.clone(),
            })?;
            let forwarder = Forwarder {
                route: Arc::clone(route),
                connector: Arc::clone(connector),
                store: store.clone(),
                dead_letters,
                clock,
                states: states.clone(),
                chance,
            };
            forwarders.spawn(forwarder.run(draining.clone(), manager.shutdown_timeout));
        }

        let settings = LinkSettings {
            session: SessionSettings {
                local: guid,
                window: SESSION_WINDOW,
                ack_timeout: ACK_TIMEOUT,
                initialization_timeout: manager.handshake_timeout,
                cleanup_timeout: manager.idle_timeout,
            },
            max_packet: MAX_PACKET_SIZE,
            slow_sender_timeout: manager.slow_sender_timeout,
        };
        let reception: Arc<dyn Reception> = Arc::new(Desk::new(admission, store.clone(), clock, Arc::clone(&counters)));
        let mut net = JoinSet::new();
        for listener in listeners {
            tracing::info!(event = "listening", address = %listener.address(), protocol = "tcp", "ready for sessions");
            let (reception, sessions) = (Arc::clone(&reception), sessions.clone());
            net.spawn(listener.run(clock, settings, reception, sessions, closing.clone()));
        }
        for responder in responders {
            tracing::info!(event = "listening", address = %responder.address(), protocol = "udp", "ready for pings");
            net.spawn(responder.run(clock, guid, sessions.clone(), closing.clone()));
        }
        let summary = Summary { routes, store, counters, states, clock };
        let mut last = JoinSet::new();
        last.spawn(summary.run(draining));
        let shutdown_timeout = manager.shutdown_timeout;
        Ok(Self { view, close, drain, net, forwarders, summary: last, connectors, shutdown_timeout })
    }

    /// What can be asked of it.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Waits for a part of the bridge to end without having been stopped, which only a defect can bring about, and names
    /// it. Whoever runs the bridge had better end then: it would look alive and not forward. Cancel safe.
    pub async fn lost(&mut self) -> &'static str {
        tokio::select! {
            Some(_) = self.net.join_next() => "listener",
            Some(_) = self.forwarders.join_next() => "forwarder",
            Some(_) = self.summary.join_next() => "summary",
            else => std::future::pending().await,
        }
    }

    /// Stops: closes the ports and the sessions, waits for the confirms that are owed, closes the connectors and the
    /// store. Bounded by the configured shutdown time-out.
    pub async fn stop(mut self) -> Result<(), StoreError> {
        tracing::info!(event = "stopping", "no more messages are taken; waiting for the broker's confirms");
        self.close.stop();
        while self.net.join_next().await.is_some() {}
        self.drain.stop();
        let mut clean = true;
        while let Some(finished) = self.forwarders.join_next().await {
            clean &= finished.unwrap_or(false);
        }
        while self.summary.join_next().await.is_some() {}
        for connector in self.connectors.values() {
            if tokio::time::timeout(self.shutdown_timeout, connector.close()).await.is_err() {
                tracing::warn!(event = "connector_not_closed", connector = %connector.name(), "left behind");
            }
        }
        let store = self.view.store.clone();
        store.close(clean).await?;
        tracing::info!(event = "stopped", clean, "stopped");
        Ok(())
    }
}

/// `WindowSize` (MS-MQQB 3.1.3.2).
const SESSION_WINDOW: u16 = 64;
/// `AckWaitTimeout` until the other side names its own.
const ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether a bridge can do its work, for `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every required route can forward.
    Ready,
    /// What is in the way, a sentence each.
    NotReady(Vec<String>),
}

impl View {
    /// Whether every required route can forward.
    pub fn readiness(&self) -> Readiness {
        let mut missing = Vec::new();
        for route in self.admission.routes().entries().iter().filter(|route| route.config.required) {
            let name = &route.config.name;
            let connector = &route.config.to.connector;
            match self.connectors.get(connector).map(|status| status.borrow().clone()) {
                Some(Status::Up { .. }) => {}
                Some(Status::Blocked { reason, .. }) => {
                    missing
                        .push(format!("route {name}: the broker behind connector {connector} takes nothing: {reason}"));
                }
                _ => missing.push(format!("route {name}: connector {connector} is not connected")),
            }
            if let RouteState::Failing { reason, .. } = self.states.of(name) {
                missing.push(format!("route {name}: {reason}"));
            }
        }
        if let Err(error) = self.store.look_for_file() {
            missing.push(error.to_string());
        }
        if missing.is_empty() { Readiness::Ready } else { Readiness::NotReady(missing) }
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
            queues,
            sessions: self
                .sessions
                .report()
                .into_iter()
                .map(|session| SessionStatus {
                    peer: session.peer.to_string(),
                    source_machine: session.peer.queue_manager.to_string(),
                    role: "acceptor".to_owned(),
                    age_s: (moment - session.since).as_secs(),
                    received_messages: session.received,
                })
                .collect(),
            connectors: self
                .connectors
                .iter()
                .map(|(name, status)| ConnectorStatus::new(name, &status.borrow()))
                .collect(),
        }
    }

    fn route_status(&self, route: &super::RouteEntry, now: u64) -> RouteStatus {
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

    fn queue_status(&self, name: String, queue: QueueId, now: u64) -> QueueStatus {
        let depth = self.store.depth(queue);
        let routed = self.admission.routes().entries().iter().any(|route| route.queue == queue);
        let kind = match name.as_str() {
            DEAD_LETTERS => "dead-letter",
            _ if routed => "route",
            _ => "other",
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
