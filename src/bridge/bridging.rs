use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use connector_api::Connector;
use tokio::task::JoinSet;

use super::acknowledge::{Acknowledger, AcknowledgerCell};
use super::admission::ACKS;
use super::awaited::Awaited;
use super::examination::Examiner;
use super::forward::Forwarder;
use super::intake::{ReturnEntry, RouteIntake};
use super::outgoing::{Locator, Outgoing, OutgoingParts};
use super::summary::Summary;
use super::view::{DEAD_LETTERS, View, ViewParts};
use super::{
    Admission, Credentials, Desk, Opener, Ordinals, OwnNames, OwnQueues, ReplyAddresses, RouteTable, RouteTableError,
    Sealer, StateBoard,
};
use crate::config::{Config, Destination, Protection, QueueManagerConfig, ReturnRoute};
use crate::directory::{self, Directory, PathName, Unavailable};
use crate::mqqb::session::SessionSettings;
use crate::mqqb::wire::{DirectName, FormatName, Guid, MAX_PACKET_SIZE, Ping, Protocol, QueuePath};
use crate::net::{
    Clock, Lanes, LanesParts, LinkSettings, ListenError, Listener, PingResponder, Places, Reception, RetrySchedule,
    Sessions, Stop, StopSwitch,
};
use crate::security::{Access, AccessEntry, AccessList, CacheLimits, KeyCache, Keyring, SendKeyCache, Trustee};
use crate::store::{QueueId, Store, StoreError};
use crate::telemetry::Counters;

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
    /// What opens bodies.
    pub keyring: Keyring,
    /// What messages are signed with; needed when a route signs any.
    pub credentials: Option<Credentials>,
    /// Who is who, when that is looked up anywhere.
    pub directory: Option<Arc<dyn Directory>>,
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
    /// The sessions that were opened from here end.
    hang_up: StopSwitch,
    net: JoinSet<()>,
    forwarders: JoinSet<bool>,
    intakes: JoinSet<()>,
    outgoing: Outgoing,
    summary: JoinSet<()>,
    connectors: BTreeMap<String, Arc<dyn Connector>>,
    shutdown_timeout: Duration,
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
    /// A route signs, and there is nothing to sign with.
    #[error("route {0}: there is no certificate to sign with")]
    NoCertificate(String),
    /// Who may send to our queues is not known.
    #[error(transparent)]
    Directory(#[from] Unavailable),
    /// A route's connector is not there.
    #[error("route {route}: there is no connector {connector}")]
    NoConnector {
        /// The route.
        route: String,
        /// The connector.
        connector: String,
    },
}

/// What everything that runs needs some of.
struct Ground {
    store: Store,
    clock: Clock,
    chance: fn() -> f64,
    connectors: BTreeMap<String, Arc<dyn Connector>>,
    counters: Arc<Counters>,
    states: StateBoard,
    dead_letters: QueueId,
    sealer: Sealer,
}

impl Ground {
    fn desk(&self, admission: &Arc<Admission>, acknowledger: &AcknowledgerCell, examiner: Examiner) -> Desk {
        let (counters, acknowledger) = (Arc::clone(&self.counters), Arc::clone(acknowledger));
        Desk::new(Arc::clone(admission), self.store.clone(), self.clock, counters, acknowledger, examiner)
    }

    fn connector(&self, route: &str, name: &str) -> Result<Arc<dyn Connector>, StartError> {
        self.connectors
            .get(name)
            .cloned()
            .ok_or_else(|| StartError::NoConnector { route: route.to_owned(), connector: name.to_owned() })
    }

    fn intake(
        &self,
        route: Arc<ReturnEntry>,
        outgoing: &Outgoing,
        ordinals: &Ordinals,
        awaited: &Awaited,
        acks: &FormatName,
        own_queues: &Arc<OwnQueues>,
    ) -> Result<RouteIntake, StartError> {
        Ok(RouteIntake {
            connector: self.connector(&route.config.name, &route.config.from.connector)?,
            route,
            store: self.store.clone(),
            outgoing: outgoing.clone(),
            sealer: self.sealer.clone(),
            ordinals: ordinals.clone(),
            awaited: awaited.clone(),
            clock: self.clock,
            states: self.states.clone(),
            counters: Arc::clone(&self.counters),
            acks: acks.clone(),
            own_queues: Arc::clone(own_queues),
            chance: self.chance,
        })
    }
}

impl Bridge {
    /// Opens the ports and sets everything going.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { config, guid, store, connectors, places, keyring, credentials, directory, clock, chance } = parts;
        let manager = &config.queue_manager;
        let listed = listed_access(&config, directory.as_deref()).await?;
        let opener = opener(&config, keyring, clock);
        let examiner = Examiner::new(directory.clone());
        let locator = Locator::new(directory);
        let sealer = sealer(&config, guid, credentials, &locator, clock)?;
        let replies = Arc::new(reply_addresses(&config.return_routes, &locator).await);
        let own_queues = Arc::new(OwnQueues::new(&manager.name, &config.routes));
        let bodies = (&opener, &sealer);
        let routes = RouteTable::build(config.routes, guid, manager.clock_skew, &store, &replies, bodies, &listed)?;
        let ordinals = Ordinals::new(guid, store.clone()).await?;
        let dead_letters = store.queue(DEAD_LETTERS)?;
        let ports = Ports::open(manager).await?;
        let names = OwnNames::new(&manager.name, manager.accept_as.iter().map(String::as_str));
        let admission = Arc::new(Admission::new(guid, names, routes.clone(), manager.max_message, manager.clock_skew));
        let counters = Arc::new(Counters::default());
        let sessions = Sessions::new(places);
        let states = StateBoard::default();
        let ground = Ground { store, clock, chance, connectors, counters, states, dead_letters, sealer };
        let switches = Switches::new();

        let acknowledger = AcknowledgerCell::default();
        let reception: Arc<dyn Reception> = Arc::new(ground.desk(&admission, &acknowledger, examiner));
        let awaited = Awaited::default();
        let settings = link_settings(manager, guid);
        let outgoing = Outgoing::open(OutgoingParts {
            admission: Arc::clone(&admission),
            store: ground.store.clone(),
            locator,
            lanes: lanes(manager, clock, &reception, &sessions, &switches.hang_up.1, guid),
            clock,
            dead_letters,
            awaited: awaited.clone(),
            acknowledger: Arc::clone(&acknowledger),
            drain: switches.drain.1.clone(),
            patience: manager.shutdown_timeout,
        });
        let _ = acknowledger.set(Acknowledger {
            admission: Arc::clone(&admission),
            outgoing: outgoing.downgrade(),
            ordinals: ordinals.clone(),
            clock,
            insecure_nacks: manager.insecure_nacks,
        });
        outgoing.start();

        let return_routes: Vec<_> = config.return_routes.into_iter().map(ReturnEntry::new).map(Arc::new).collect();
        let listen = ports.listen();
        let view = Arc::new(View::new(ViewParts {
            name: manager.name.clone(),
            guid,
            listen,
            admission,
            return_routes: return_routes.clone(),
            outgoing: outgoing.clone(),
            store: ground.store.clone(),
            sessions: sessions.clone(),
            counters: Arc::clone(&ground.counters),
            states: ground.states.clone(),
            connectors: &ground.connectors,
            clock,
        }));
        warn_of_forsaken(&ground.store, &routes);
        let (drain, patience) = (&switches.drain.1, manager.shutdown_timeout);
        let forwarders = forwarders(&ground, &routes, &acknowledger, drain, patience)?;
        let mut intakes = JoinSet::new();
        let acks = acks_queue(&manager.name);
        for route in return_routes.iter().cloned() {
            let intake = ground.intake(route, &outgoing, &ordinals, &awaited, &acks, &own_queues)?;
            intakes.spawn(intake.run(switches.close.1.clone()));
        }
        intakes.spawn(settle_deliveries(awaited, clock, switches.close.1.clone()));
        let net = ports.serve(clock, settings, &reception, &sessions, &switches.close.1, guid);
        let Ground { store, counters, states, connectors, .. } = ground;
        let mut summary = JoinSet::new();
        let lines =
            Summary { routes, return_routes, outgoing: outgoing.clone(), store, counters, states, opener, clock };
        summary.spawn(lines.run(switches.drain.1.clone()));
        let Switches { close: (close, _), drain: (drain, _), hang_up: (hang_up, _) } = switches;
        let shutdown_timeout = manager.shutdown_timeout;
        Ok(Self {
            view,
            close,
            drain,
            hang_up,
            net,
            forwarders,
            intakes,
            outgoing,
            summary,
            connectors,
            shutdown_timeout,
        })
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
            Some(_) = self.intakes.join_next() => "intake",
            Some(_) = self.summary.join_next() => "summary",
            else => std::future::pending().await,
        }
    }

    /// Stops: closes the ports and the sessions, waits for the confirms that are owed, closes the connectors and the
    /// store. Bounded by the configured shutdown time-out.
    pub async fn stop(mut self) -> Result<(), StoreError> {
        tracing::info!(event = "stopping", "no more messages are taken; waiting for what is on its way");
        self.close.stop();
        while self.intakes.join_next().await.is_some() {}
        while self.net.join_next().await.is_some() {}
        self.drain.stop();
        let mut clean = true;
        while let Some(finished) = self.forwarders.join_next().await {
            clean &= finished.unwrap_or(false);
        }
        self.outgoing.finished().await;
        self.hang_up.stop();
        self.outgoing.hung_up().await;
        while self.summary.join_next().await.is_some() {}
        for connector in self.connectors.values() {
            if tokio::time::timeout(self.shutdown_timeout, connector.close()).await.is_err() {
                tracing::warn!(event = "connector_not_closed", connector = %connector.name(), "left behind");
            }
        }
        self.view.store().close(clean).await?;
        tracing::info!(event = "stopped", clean, "stopped");
        Ok(())
    }
}

/// `WindowSize` (MS-MQQB 3.1.3.2).
const SESSION_WINDOW: u16 = 64;
/// `SymmetricKeyShortLifetime` (MS-MQQB 3.1.1.3): how long a key that was made here encrypts bodies.
const SEND_KEY_LIFETIME: Duration = Duration::from_mins(10);
/// `AckWaitTimeout` until the other side names its own.
const ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Dropped, it ends as if it were killed: the couriers and their sessions, too.
impl Drop for Bridge {
    fn drop(&mut self) {
        self.outgoing.abandon();
    }
}

/// The words to stop, in the order in which they are given.
struct Switches {
    close: (StopSwitch, Stop),
    drain: (StopSwitch, Stop),
    hang_up: (StopSwitch, Stop),
}

impl Switches {
    fn new() -> Self {
        Self { close: StopSwitch::new(), drain: StopSwitch::new(), hang_up: StopSwitch::new() }
    }
}

/// The open ports.
struct Ports {
    listeners: Vec<Listener>,
    responders: Vec<PingResponder>,
}

impl Ports {
    async fn open(manager: &QueueManagerConfig) -> Result<Self, ListenError> {
        let mut ports = Self { listeners: Vec::new(), responders: Vec::new() };
        for address in &manager.listen {
            ports.listeners.push(Listener::bind(*address).await?);
        }
        for address in &manager.ping {
            ports.responders.push(PingResponder::bind(*address).await?);
        }
        Ok(ports)
    }

    fn listen(&self) -> Vec<String> {
        self.listeners.iter().map(|listener| listener.address().to_string()).collect()
    }

    fn serve(
        self,
        clock: Clock,
        settings: LinkSettings,
        reception: &Arc<dyn Reception>,
        sessions: &Sessions,
        closing: &Stop,
        own: Guid,
    ) -> JoinSet<()> {
        let mut net = JoinSet::new();
        for listener in self.listeners {
            tracing::info!(event = "listening", address = %listener.address(), protocol = "tcp", "ready for sessions");
            net.spawn(listener.run(clock, settings, Arc::clone(reception), sessions.clone(), closing.clone()));
        }
        for responder in self.responders {
            tracing::info!(event = "listening", address = %responder.address(), protocol = "udp", "ready for pings");
            net.spawn(responder.run(clock, own, sessions.clone(), closing.clone()));
        }
        net
    }
}

fn lanes(
    manager: &QueueManagerConfig,
    clock: Clock,
    reception: &Arc<dyn Reception>,
    sessions: &Sessions,
    hanging_up: &Stop,
    own: Guid,
) -> Lanes {
    Lanes::new(LanesParts {
        clock,
        settings: link_settings(manager, own),
        reception: Arc::clone(reception),
        sessions: sessions.clone(),
        schedule: RetrySchedule {
            first: manager.retry_interval,
            longest: manager.retry_interval_max,
            connect: manager.connect_timeout,
        },
        // Whoever asks for acknowledgments says which machines are called: that must not take the places of senders.
        most: (sessions.places().open / 8).max(32),
        ping_port: manager.ping_first.then_some(Ping::PORT),
        stop: hanging_up.clone(),
    })
}

fn link_settings(manager: &QueueManagerConfig, own: Guid) -> LinkSettings {
    LinkSettings {
        session: SessionSettings {
            local: own,
            window: SESSION_WINDOW,
            ack_timeout: ACK_TIMEOUT,
            initialization_timeout: manager.handshake_timeout,
            cleanup_timeout: manager.idle_timeout,
        },
        max_packet: MAX_PACKET_SIZE,
        slow_sender_timeout: manager.slow_sender_timeout,
    }
}

fn forwarders(
    ground: &Ground,
    routes: &RouteTable,
    acknowledger: &AcknowledgerCell,
    drain: &Stop,
    patience: Duration,
) -> Result<JoinSet<bool>, StartError> {
    let mut forwarders = JoinSet::new();
    for route in routes.entries() {
        let forwarder = Forwarder {
            route: Arc::clone(route),
            connector: ground.connector(&route.config.name, &route.config.to.connector)?,
            store: ground.store.clone(),
            dead_letters: ground.dead_letters,
            clock: ground.clock,
            states: ground.states.clone(),
            acknowledger: Arc::clone(acknowledger),
            chance: ground.chance,
        };
        forwarders.spawn(forwarder.run(drain.clone(), patience));
    }
    Ok(forwarders)
}

/// Messages in a queue whose route is gone wait for it to come back: nobody would notice.
fn warn_of_forsaken(store: &Store, routes: &RouteTable) {
    for (name, queue) in store.queues() {
        let is_ours = name.starts_with("outgoing:") || name.starts_with("system$;");
        let messages = store.depth(queue).messages;
        if messages > 0 && !is_ours && routes.entries().iter().all(|route| route.queue != queue) {
            tracing::warn!(
                event = "queue_without_route", queue = %name, count = messages,
                "a queue holds messages and no route has it; they stay until a route with this queue is back"
            );
        }
    }
}

/// What the directory says of who may send to our queues, by their paths in lower case.
async fn listed_access(
    config: &Config,
    directory: Option<&dyn Directory>,
) -> Result<BTreeMap<String, AccessList>, Unavailable> {
    let mut listed = BTreeMap::new();
    let Some(directory) = directory else { return Ok(listed) };
    for route in &config.routes {
        let queue = route.from.queue.clone();
        let identity = queue.to_string().to_lowercase();
        let path = PathName { machine: config.queue_manager.name.clone(), queue };
        let Some(access) = directory.queue_by_path(&path).await?.and_then(|entry| entry.access.clone()) else {
            continue;
        };
        let entries = access.into_iter().map(|trustee| AccessEntry {
            access: Access::Allow,
            trustee: match trustee {
                directory::Trustee::Everyone => Trustee::Everyone,
                directory::Trustee::Sid(sid) => Trustee::Sid(sid),
                directory::Trustee::Group(name) => Trustee::Group(name),
            },
        });
        listed.insert(identity, AccessList::new(entries));
    }
    Ok(listed)
}

/// RSA operations at once: one for each processor but one, which has other things to do.
fn rsa_permits() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).saturating_sub(1)
}

fn opener(config: &Config, keyring: Keyring, clock: Clock) -> Opener {
    let cache = KeyCache::new(CacheLimits {
        machines: config.key_cache.machines,
        keys_per_machine: config.key_cache.keys_per_machine,
        lifetime: config.key_cache.lifetime,
    });
    Opener::new(keyring, cache, rsa_permits(), clock)
}

fn sealer(
    config: &Config,
    own: Guid,
    credentials: Option<Credentials>,
    locator: &Locator,
    clock: Clock,
) -> Result<Sealer, StartError> {
    let signs = |route: &&ReturnRoute| matches!(route.protection, Protection::Own { sign: Some(_), .. });
    if credentials.is_none()
        && let Some(route) = config.return_routes.iter().find(signs)
    {
        return Err(StartError::NoCertificate(route.name.clone()));
    }
    let keys = SendKeyCache::new(config.key_cache.machines, config.key_cache.lifetime.min(SEND_KEY_LIFETIME));
    Ok(Sealer::new(own, credentials, locator.clone(), keys, rsa_permits(), clock))
}

/// Which foreign address leads to which queue, by all its names.
async fn reply_addresses(routes: &[ReturnRoute], locator: &Locator) -> ReplyAddresses {
    let mut spellings = BTreeMap::new();
    for route in routes {
        let Destination::Fixed(name) = &route.to.queue else { continue };
        match locator.spellings(name).await {
            Ok(names) => {
                spellings.insert(name.to_string(), names);
            }
            Err(error) => tracing::warn!(
                event = "directory_unavailable", route = %route.name, reason = %error,
                "replies are recognised by the name in the route only"
            ),
        }
    }
    ReplyAddresses::new(routes, |name| spellings.get(&name.to_string()).cloned().unwrap_or_default())
}

/// Where acknowledgments for what is sent from here are to come.
fn acks_queue(name: &str) -> FormatName {
    let queue = QueuePath::Private { name: ACKS.to_owned(), suffix: None };
    FormatName::Direct(DirectName { protocol: Protocol::Os, address: name.to_owned(), queue })
}

/// Settles deliveries whose time is up.
async fn settle_deliveries(awaited: Awaited, clock: Clock, mut stop: Stop) {
    while !stop.is_requested() {
        tokio::select! {
            () = clock.sleep(Duration::from_secs(1)) => awaited.settle_due(clock.now()),
            () = stop.requested() => {}
        }
    }
}
