//! A bridge between a foreign system in memory and one machine of the test, whose key is in the directory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connector_api::memory::MemorySystem;
use connector_api::{Address, Connector, Incoming, Message};
use mqbridge::bridge::{Bridge, Credentials, Parts};
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{Guid, UserMessage};
use mqbridge::net::{Clock, Places, dial};
use mqbridge::security::Certificate;
use mqbridge::store::{Store, StoreOptions};

use super::eventually;
use super::flaky::Flaky;
use super::machine::Machine;
use super::security::{key, keyring};

pub(crate) const QUEUE: &str = "a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a";

pub(crate) struct Site {
    home: tempfile::TempDir,
    pub(crate) system: MemorySystem,
    pub(crate) machine: Machine,
    pub(crate) directory: Flaky,
    pub(crate) credentials: Credentials,
    pub(crate) bridge: Bridge,
    pub(crate) address: SocketAddr,
}

/// How the machine's keys stand in the directory.
pub(crate) const ALL_KEYS: &str = "key_files = [\"win-a.pem\"]";

impl Site {
    /// With one route, and the machine's keys. The machine is off.
    pub(crate) async fn start(route: &str, keys: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let main = "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:0\"]\nping = []\n\
                    retry_interval = \"100ms\"\n[directory]\nkind = \"file\"\npath = \"directory.toml\"\n\
                    [connectors.memory]\ntype = \"amqp091\"\nuris = [\"amqp://127.0.0.1\"]\n";
        std::fs::write(home.path().join("mqbridge.toml"), main).unwrap();
        std::fs::create_dir(home.path().join("routes")).unwrap();
        std::fs::write(home.path().join("routes/route.toml"), route).unwrap();
        std::fs::write(home.path().join("win-a.pem"), key("qm-other-1024").public().to_pem().unwrap()).unwrap();
        std::fs::write(home.path().join("short.pem"), key("qm-local-512").public().to_pem().unwrap()).unwrap();
        let machine = Machine::new("win-a");
        let mut known = String::new();
        let (guid, address) = (machine.guid, machine.address);
        writeln!(known, "[[machine]]\nguid = \"{guid}\"\nname = \"win-a\"\naddresses = [\"{address}\"]\n{keys}")
            .unwrap();
        writeln!(known, "[[queue]]\npath = 'win-a\\q'\nguid = \"{QUEUE}\"").unwrap();
        std::fs::write(home.path().join("directory.toml"), known).unwrap();
        let directory = Flaky::open(&home.path().join("directory.toml"));
        let system = MemorySystem::new();
        system.declare("out");
        let own = key("qm-local-2048");
        let certificate = Certificate::internal(&own, "bridge01", "bridge01", 0, 365, &mut rand::rng()).unwrap();
        let credentials = Credentials { key: own, certificate };
        let (bridge, address) = start(home.path(), &system, &directory, &credentials).await;
        Self { home, system, machine, directory, credentials, bridge, address }
    }

    pub(crate) fn own() -> Guid {
        Guid::from_random([1; 16])
    }

    pub(crate) fn put(&self, body: &'static str) {
        self.put_with(body, |_| {});
    }

    pub(crate) fn put_with(&self, body: &'static str, change: impl FnOnce(&mut Incoming)) {
        let address = Address { exchange: String::new(), routing_key: "out".to_owned() };
        let mut incoming = Incoming::new(address, Bytes::from_static(body.as_bytes()));
        change(&mut incoming);
        self.system.put("out", incoming);
    }

    /// The store's file, as it is now.
    pub(crate) fn disk(&self) -> Vec<u8> {
        std::fs::read(self.home.path().join("store.redb")).unwrap()
    }

    /// Waits until so many messages are in the outgoing queues.
    pub(crate) async fn wait_for_stored(&self, count: u64) {
        eventually("stored", || {
            let report = self.bridge.view().report();
            (report.outgoing.iter().map(|queue| queue.queue_messages).sum::<u64>() >= count).then_some(())
        })
        .await;
    }

    /// The route's state, and why it fails.
    pub(crate) fn state(&self) -> (String, String) {
        let report = self.bridge.view().report();
        let from_amqp = report.return_routes.into_iter().map(|route| (route.state, route.reason));
        let routes = report.routes.into_iter().map(|route| (route.state, route.reason)).chain(from_amqp);
        routes.map(|(state, reason)| (state, reason.unwrap_or_default())).next().unwrap()
    }

    pub(crate) async fn wait_for_failure(&self, because: &str) {
        eventually(because, || {
            let (state, reason) = self.state();
            (state == "failing" && reason.contains(because)).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for_recovery(&self) {
        eventually("the route works", || (self.state().0 == "forwarding").then_some(())).await;
    }

    /// Sends as a queue manager does.
    pub(crate) async fn send(&self, messages: &[UserMessage]) {
        let settings = SessionSettings::new(Guid::from_random([9; 16]));
        let patience = Duration::from_secs(30);
        let mut dialed = dial(Clock::start(), &[self.address], Guid::NULL, settings, patience).await.unwrap();
        for (number, message) in messages.iter().enumerate() {
            let packet = message.to_packet().unwrap();
            dialed.send(SendToken(number as u64), packet, message.is_recoverable()).unwrap();
        }
        let mut left = messages.len();
        while left > 0 {
            left -= dialed.acknowledged().await.unwrap().len();
        }
        dialed.close().await;
    }

    pub(crate) async fn arrived(&self, count: usize) -> Vec<Message> {
        eventually("messages in the foreign system", || {
            let arrived = self.system.arrived();
            (arrived.len() >= count).then_some(arrived)
        })
        .await
    }
}

async fn start(
    home: &Path,
    system: &MemorySystem,
    directory: &Flaky,
    credentials: &Credentials,
) -> (Bridge, SocketAddr) {
    let config = mqbridge::config::load(&home.join("mqbridge.toml"), |_| None).unwrap();
    let connector: Arc<dyn Connector> = Arc::new(system.connector("memory"));
    let options = StoreOptions { quota: 1 << 30, history_lifetime: Duration::from_mins(30), history_rows: 1000 };
    let parts = Parts {
        config,
        guid: Site::own(),
        store: Store::open(&home.join("store.redb"), options).unwrap(),
        places: Places::new(100),
        connectors: BTreeMap::from([("memory".to_owned(), connector)]),
        keyring: keyring(),
        credentials: Some(credentials.clone()),
        directory: Some(Arc::new(directory.clone())),
        clock: Clock::start(),
        chance: || 0.0,
    };
    let bridge = Bridge::start(parts).await.unwrap();
    let address = bridge.view().report().queue_manager.listen[0].parse().unwrap();
    (bridge, address)
}

/// A route from the queue `out` to `destination`.
pub(crate) fn route_out(destination: &str, security: &str) -> String {
    format!("[from]\nconnector = \"memory\"\nqueue = \"out\"\n[to]\nqueue = '{destination}'\n[security]\n{security}\n")
}
