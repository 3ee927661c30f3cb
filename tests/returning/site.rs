//! A bridge in this process, between a foreign system in memory and machines of the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use connector_api::memory::MemorySystem;
use connector_api::{Address, Connector, Incoming};
use mqbridge::bridge::{Bridge, Parts, StatusReport};
use mqbridge::directory::Directory;
use mqbridge::directory::file::FileDirectory;
use mqbridge::mqqb::wire::Guid;
use mqbridge::net::Clock;
use mqbridge::store::{Store, StoreOptions};

use super::machine::Machine;

pub(crate) struct Site {
    directory: tempfile::TempDir,
    pub(crate) system: MemorySystem,
    pub(crate) guid: Guid,
}

pub(crate) struct Running {
    pub(crate) bridge: Bridge,
    pub(crate) address: SocketAddr,
}

impl Site {
    /// With these keys below `[queue_manager]`, and these routes.
    pub(crate) fn new(process: &str, routes: &[(&str, String)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:0\"]\nping = []\n\
             retry_interval = \"100ms\"\nretry_interval_max = \"1s\"\nclock_skew = \"0s\"\n{process}\n\
             [connectors.memory]\ntype = \"amqp091\"\nuris = [\"amqp://127.0.0.1\"]\n"
        );
        std::fs::write(directory.path().join("mqbridge.toml"), text).unwrap();
        std::fs::create_dir(directory.path().join("routes")).unwrap();
        for (name, text) in routes {
            std::fs::write(directory.path().join("routes").join(format!("{name}.toml")), text).unwrap();
        }
        let system = MemorySystem::new();
        system.declare("out");
        Self { directory, system, guid: Guid::from_random([1; 16]) }
    }

    /// Puts machines into the directory, by their names.
    pub(crate) fn know(&self, machines: &[&Machine]) {
        let path = self.path().join("directory.toml");
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let entries = machines.iter().map(|machine| {
            let Machine { guid, name, address, .. } = machine;
            format!("[[machine]]\nguid = \"{guid}\"\nname = \"{name}\"\naddresses = [\"{address}\"]\n")
        });
        std::fs::write(path, known + &entries.collect::<String>()).unwrap();
    }

    pub(crate) fn know_queue(&self, machine: &Machine, name: &str, guid: Guid) {
        let path = self.path().join("directory.toml");
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let queue = format!("[[queue]]\npath = '{}\\{name}'\nguid = \"{guid}\"\n", machine.name);
        std::fs::write(path, known + &queue).unwrap();
    }

    fn directory(&self) -> Option<Arc<dyn Directory>> {
        let path = self.path().join("directory.toml");
        path.exists().then(|| Arc::new(FileDirectory::open(&path, &|_| None).unwrap().0) as Arc<dyn Directory>)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn start(&self) -> Running {
        let config = mqbridge::config::load(&self.path().join("mqbridge.toml"), |_| None).unwrap();
        let connector: Arc<dyn Connector> = Arc::new(self.system.connector("memory"));
        let options = StoreOptions { quota: 1 << 30, history_lifetime: Duration::from_mins(30), history_rows: 1000 };
        let parts = Parts {
            config,
            guid: self.guid,
            store: Store::open(&self.path().join("store.redb"), options).unwrap(),
            places: mqbridge::net::Places::new(100),
            connectors: BTreeMap::from([("memory".to_owned(), connector)]),
            directory: self.directory(),
            credentials: None,
            keyring: mqbridge::security::Keyring::default(),
            clock: Clock::start(),
            chance: || 0.0,
        };
        let bridge = Bridge::start(parts).await.unwrap();
        let address = bridge.view().report().queue_manager.listen[0].parse().unwrap();
        Running { bridge, address }
    }
}

impl Running {
    pub(crate) fn report(&self) -> StatusReport {
        self.bridge.view().report()
    }

    /// As if the process were killed: nothing is waited for. The store is closed, so that the next one can open it.
    pub(crate) async fn crash(self) {
        drop(self.bridge);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A route from the queue `out` to `destination`.
pub(crate) fn route(destination: &str, from: &str, to: &str) -> String {
    format!("[from]\nconnector = \"memory\"\nqueue = \"out\"\n{from}\n[to]\nqueue = '{destination}'\n{to}\n")
}

/// A route from a queue of the bridge to the address `exchange`/`x`.
pub(crate) fn inward(queue: &str, exchange: &str, from: &str) -> String {
    format!(
        "[from]\nqueue = 'private$\\{queue}'\n{from}\n[to]\nconnector = \"memory\"\nexchange = \"{exchange}\"\nrouting_key = \"x\"\n"
    )
}

pub(crate) fn incoming(body: &str) -> Incoming {
    let address = Address { exchange: String::new(), routing_key: "out".to_owned() };
    Incoming::new(address, Bytes::from(body.to_owned()))
}
