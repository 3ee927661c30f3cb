//! A bridge with one route, a directory that knows the people of the vectors, and a machine for acknowledgments.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use connector_api::memory::MemorySystem;
use connector_api::{Connector, Message, Value};
use mqbridge::bridge::{Bridge, Parts};
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{AckRequest, FormatName, Guid, QueueField, UserMessage};
use mqbridge::net::{Clock, DialError, Places, dial};
use mqbridge::store::{Store, StoreOptions};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../returning/machine.rs"]
mod machine;

use super::flaky::Flaky;
use machine::Machine;

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Site {
    home: tempfile::TempDir,
    pub(crate) system: MemorySystem,
    pub(crate) machine: Machine,
    pub(crate) directory: Flaky,
    bridge: Bridge,
    address: SocketAddr,
}

impl Site {
    /// With these keys below `[queue_manager]` and `[from]`.
    pub(crate) async fn start(process: &str, from: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let main = format!(
            "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:0\"]\nping = []\n\
             retry_interval = \"100ms\"\n{process}\n\
             [connectors.memory]\ntype = \"amqp091\"\nuris = [\"amqp://127.0.0.1\"]\n"
        );
        std::fs::write(home.path().join("mqbridge.toml"), main).unwrap();
        std::fs::create_dir(home.path().join("routes")).unwrap();
        // Keys behind "[[queue]]" are of the directory's entry for the queue.
        let (from, queue) = from.split_once("[[queue]]").unwrap_or((from, ""));
        let queue = match queue {
            "" => String::new(),
            keys => format!("[[queue]]\npath = 'bridge01\\private$\\orders'\n{keys}\n"),
        };
        let (before, from) = from.split_once("[from]").unwrap_or(("", from));
        let route = format!(
            "{before}\n[from]\nqueue = 'private$\\orders'\nprivate_id = 10\nignore_expiry = true\n{from}\n\
             [to]\nconnector = \"memory\"\nexchange = \"orders\"\nrouting_key = \"x\"\n"
        );
        std::fs::write(home.path().join("routes/orders.toml"), route).unwrap();
        let mut machine = Machine::new("win-a");
        machine.switch_on().await;
        let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors/keys");
        let people = format!(
            "{queue}[[user]]\nsid = \"{}\"\nname = 'CORP\\a'\ngroups = [\"order-clerks\", \"S-1-5-21-1-2-3-513\"]\n\
             certificates = ['{}']\n[[machine]]\nguid = \"{}\"\nname = \"win-a\"\naddresses = [\"{}\"]\n",
            super::SID_A,
            keys.join("user-a-1024-internal.der").display(),
            machine.guid,
            machine.address,
        );
        std::fs::write(home.path().join("directory.toml"), people).unwrap();
        let system = MemorySystem::new();
        let directory = Flaky::open(&home.path().join("directory.toml"));
        let (bridge, address) = start(&home, &system, &directory).await;
        Self { home, system, machine, directory, bridge, address }
    }

    pub(crate) async fn restart(self) -> Self {
        let Self { home, system, machine, directory, bridge, .. } = self;
        bridge.stop().await.unwrap();
        system.reconnect();
        let (bridge, address) = start(&home, &system, &directory).await;
        Self { home, system, machine, directory, bridge, address }
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(crate) async fn send(&self, messages: &[UserMessage]) {
        self.try_send(messages).await.unwrap();
    }

    pub(crate) async fn try_send(&self, messages: &[UserMessage]) -> Result<(), DialError> {
        let settings = SessionSettings::new(Guid::from_random([9; 16]));
        let mut dialed = dial(Clock::start(), &[self.address], Guid::NULL, settings, PATIENCE).await?;
        for (number, message) in messages.iter().enumerate() {
            let packet = message.to_packet().unwrap();
            dialed.send(SendToken(number as u64), packet, message.is_recoverable()).unwrap();
        }
        let mut left = messages.len();
        while left > 0 {
            left -= tokio::time::timeout(PATIENCE, dialed.acknowledged()).await.expect("acknowledged in time")?.len();
        }
        dialed.close().await;
        Ok(())
    }

    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Message> {
        eventually(&format!("{count} messages"), || {
            let arrived = self.system.arrived();
            (arrived.len() >= count).then_some(arrived)
        })
        .await
    }
}

/// The message with a request for every acknowledgment. None of that is signed by a 1.0 signature alone.
pub(crate) fn asking(mut message: UserMessage) -> UserMessage {
    let signed_before = message.is_signed();
    let admin: FormatName = r"DIRECT=OS:win-a\private$\acks".parse().unwrap();
    message.user.admin = QueueField::naming(&admin, Guid::NULL).unwrap();
    message.properties.ack_request = AckRequest(AckRequest::NEGATIVE_ARRIVAL);
    if signed_before && message.properties.body.as_ref() == b"x" && !message.is_encrypted() && is_genuine(&message) {
        super::sign(&mut message, super::SignatureVersion::V2);
    }
    message
}

/// Whether the test has left the signature as it was made.
fn is_genuine(message: &UserMessage) -> bool {
    let security = message.security.as_ref().unwrap();
    security.sender_certificate.data == super::security::file("keys/user-a-1024-internal.der")
        && security.signature.data.len() == 128
        && security.sender_id.data.len() > 16
        && message.properties.hash_algorithm == 0x800C
        && security.signature.data.iter().any(|byte| *byte != 0xFF)
}

async fn start(home: &tempfile::TempDir, system: &MemorySystem, directory: &Flaky) -> (Bridge, SocketAddr) {
    let config = mqbridge::config::load(&home.path().join("mqbridge.toml"), |_| None).unwrap();
    let connector: Arc<dyn Connector> = Arc::new(system.connector("memory"));
    let options = StoreOptions { quota: 1 << 30, history_lifetime: Duration::from_mins(30), history_rows: 1000 };
    let parts = Parts {
        config,
        guid: "c778ca24-7c5a-4060-80c0-aeee428d53ae".parse().unwrap(),
        store: Store::open(&home.path().join("store.redb"), options).unwrap(),
        places: Places::new(100),
        connectors: BTreeMap::from([("memory".to_owned(), connector)]),
        credentials: None,
        keyring: super::security::keyring(),
        directory: Some(Arc::new(directory.clone())),
        clock: Clock::start(),
        chance: || 0.0,
    };
    let bridge = Bridge::start(parts).await.unwrap();
    let address = bridge.view().report().queue_manager.listen[0].parse().unwrap();
    (bridge, address)
}

pub(crate) async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}
