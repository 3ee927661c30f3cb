//! From the store to a foreign system that fails in every way a foreign system can: order is kept, nothing is lost,
//! repeats are marked. The foreign system is in memory; everything else is the bridge as it runs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests fail by panicking and run in real time"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use connector_api::memory::{MemorySystem, Treatment};
use connector_api::{Address, Connector, Message, Value};
use mqbridge::bridge::{Bridge, Parts};
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{DeliveryMode, DirectField, Guid, MessageId, QueueField, UserMessage, WideText};
use mqbridge::net::{Clock, Dialed, Places, dial};
use mqbridge::store::{Store, StoreOptions};

const PATIENCE: Duration = Duration::from_secs(20);

/// A bridge with one route, `private$\orders`, to the address `orders`/`x`.
struct Site {
    directory: tempfile::TempDir,
    system: MemorySystem,
    options: &'static str,
    quota: &'static str,
}

struct Running {
    bridge: Bridge,
    address: SocketAddr,
}

impl Site {
    fn new(options: &'static str) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), system: MemorySystem::new(), options, quota: "" }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn store(&self) -> Store {
        let options = StoreOptions { quota: 1 << 30, history_lifetime: Duration::from_mins(30), history_rows: 1000 };
        Store::open(&self.path().join("store.redb"), options).unwrap()
    }

    async fn start(&self) -> Running {
        let routes = self.path().join("routes");
        std::fs::create_dir_all(&routes).unwrap();
        let process = "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\nlisten = [\"127.0.0.1:0\"]\nping = []\n\
                       clock_skew = \"0s\"\n[connectors.memory]\ntype = \"amqp091\"\nuris = [\"amqp://127.0.0.1\"]\n";
        let route = format!(
            "[from]\nqueue = 'private$\\orders'\n{}\n[to]\nconnector = \"memory\"\nexchange = \"orders\"\nrouting_key = \"x\"\n{}",
            self.quota, self.options
        );
        std::fs::write(self.path().join("mqbridge.toml"), process).unwrap();
        std::fs::write(routes.join("orders.toml"), route).unwrap();
        let config = mqbridge::config::load(&self.path().join("mqbridge.toml"), |_| None).unwrap();
        let connector: Arc<dyn Connector> = Arc::new(self.system.connector("memory"));
        let parts = Parts {
            config,
            guid: Guid::from_random([1; 16]),
            store: self.store(),
            connectors: BTreeMap::from([("memory".to_owned(), connector)]),
            places: Places::new(1024),
            directory: None,
            credentials: None,
            keyring: mqbridge::security::Keyring::default(),
            clock: Clock::start(),
            chance: || 0.0,
        };
        let bridge = Bridge::start(parts).await.unwrap();
        let address = bridge.view().report().queue_manager.listen[0].parse().unwrap();
        Running { bridge, address }
    }

    fn arrived(&self) -> Vec<Message> {
        self.system.arrived()
    }

    async fn wait_for(&self, count: usize) -> Vec<Message> {
        eventually(&format!("{count} messages"), || (self.arrived().len() >= count).then(|| self.arrived())).await
    }
}

fn address() -> Address {
    Address { exchange: "orders".to_owned(), routing_key: "x".to_owned() }
}

fn ordinal(message: &Message) -> u32 {
    message.message_id.rsplit_once('\\').unwrap().1.parse().unwrap()
}

fn ordinals(messages: &[Message]) -> Vec<u32> {
    messages.iter().map(ordinal).collect()
}

fn is_marked(message: &Message) -> bool {
    message.headers.get("msmq-redelivered") == Some(&Value::Bool(true))
}

async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Running {
    async fn send(&self, ordinals: impl IntoIterator<Item = u32>) {
        self.send_each(ordinals.into_iter().map(message)).await;
    }

    async fn send_each(&self, messages: impl IntoIterator<Item = UserMessage>) {
        let mut dialed = self.dial().await;
        for message in messages {
            let mut packet = BytesMut::new();
            message.encode(&mut packet).unwrap();
            while dialed.window_left() == 0 {
                dialed.acknowledged().await.unwrap();
            }
            dialed.send(SendToken(0), packet.freeze(), message.is_recoverable()).unwrap();
        }
        while dialed.window_left() < 64 {
            dialed.acknowledged().await.unwrap();
        }
        dialed.close().await;
    }

    /// Hands all of them over before any is acknowledged, and waits until the bridge has closed the session.
    async fn try_send_at_once(&self, messages: &[UserMessage]) {
        let mut dialed = self.dial().await;
        for message in messages {
            let mut packet = BytesMut::new();
            message.encode(&mut packet).unwrap();
            dialed.send(SendToken(0), packet.freeze(), true).unwrap();
        }
        while dialed.acknowledged().await.is_ok() {}
    }

    async fn dial(&self) -> Dialed {
        let settings = SessionSettings {
            local: Guid::from_random([2; 16]),
            window: 64,
            ack_timeout: Duration::from_secs(20),
            initialization_timeout: Duration::from_mins(1),
            cleanup_timeout: Duration::from_mins(5),
        };
        dial(Clock::start(), &[self.address], Guid::NULL, settings, PATIENCE).await.unwrap()
    }

    fn waiting(&self) -> u64 {
        self.bridge.view().report().routes[0].queue_messages
    }

    fn state(&self) -> String {
        self.bridge.view().report().routes[0].state.clone()
    }

    fn dead_letters(&self) -> u64 {
        let report = self.bridge.view().report();
        report.queues.iter().find(|queue| queue.kind == "dead-letter").unwrap().messages
    }

    async fn wait_until_empty(&self) {
        eventually("nothing waits", || (self.waiting() == 0).then_some(())).await;
    }
}

fn message(ordinal: u32) -> UserMessage {
    let name = WideText::from_text(r"OS:bridge01\private$\orders");
    let destination = QueueField::Direct(DirectField { name, ..Default::default() });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32;
    let mut message =
        UserMessage::new(MessageId { source: Guid::from_random([3; 16]), ordinal }, now, Guid::NULL, destination);
    message.delivery = DeliveryMode::Recoverable;
    message.properties.body = format!("body {ordinal}").into();
    message
}

#[tokio::test]
async fn negative_confirms_hold_the_route_and_keep_the_order() {
    let site = Site::new("max_in_flight = 8");
    site.system.treat(address(), Treatment::Nack);
    let running = site.start().await;
    running.send(1..=50).await;
    eventually("the route fails", || (running.state() == "failing").then_some(())).await;
    assert_eq!(running.waiting(), 50);
    assert!(site.arrived().is_empty());
    site.system.treat(address(), Treatment::Accept);
    let arrived = site.wait_for(50).await;
    assert_eq!(ordinals(&arrived), (1..=50).collect::<Vec<_>>());
    let marked: Vec<_> = arrived.iter().filter(|message| is_marked(message)).map(ordinal).collect();
    assert_eq!(marked, (1..=8).collect::<Vec<_>>(), "those that were published before, and no others");
    running.wait_until_empty().await;
    assert_eq!(running.state(), "forwarding");
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_comes_and_goes_costs_nothing_but_marked_repeats() {
    let site = Site::new("max_in_flight = 16");
    let running = site.start().await;
    let sending = running.send(1..=2000);
    let breaking = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            site.system.drop_connections("the test says so");
        }
    };
    tokio::join!(sending, breaking);
    running.wait_until_empty().await;
    let arrived = site.arrived();
    let mut newest = 0;
    for message in &arrived {
        if ordinal(message) > newest {
            assert_eq!(ordinal(message), newest + 1, "order is kept");
            newest += 1;
        } else {
            assert!(is_marked(message), "a repeat without its mark");
        }
    }
    assert_eq!(newest, 2000);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn an_idle_route_notices_that_its_connection_is_gone() {
    let site = Site::new("");
    let running = site.start().await;
    running.send([1]).await;
    site.wait_for(1).await;
    eventually("it forwards", || (running.state() == "forwarding").then_some(())).await;
    site.system.disconnect("gone");
    eventually("it waits", || (running.state() == "waiting").then_some(())).await;
    running.send([2]).await;
    site.system.reconnect();
    let arrived = site.wait_for(2).await;
    assert_eq!(ordinals(&arrived), [1, 2]);
    assert!(!is_marked(&arrived[1]), "it was never published before");
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn strict_order_has_one_message_on_its_way() {
    let site = Site::new("strict_order = true");
    site.system.confirm_after(Duration::from_millis(30));
    let running = site.start().await;
    running.send(1..=5).await;
    let mut seen = 0;
    while seen < 5 {
        let arrived = site.arrived().len() as u64;
        let confirmed = running.bridge.view().report().routes[0].confirmed_messages;
        assert!(arrived <= confirmed + 1, "{arrived} arrived and {confirmed} confirmed");
        seen = confirmed;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(ordinals(&site.arrived()), [1, 2, 3, 4, 5]);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_refused_message_is_set_aside_and_the_next_one_proceeds() {
    let site = Site::new("");
    site.system.treat(address(), Treatment::Refuse);
    let running = site.start().await;
    running.send([1]).await;
    eventually("a dead letter", || (running.dead_letters() == 1).then_some(())).await;
    site.system.treat(address(), Treatment::Accept);
    running.send([2]).await;
    assert_eq!(ordinals(&site.wait_for(1).await), [2]);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_that_expires_while_it_waits_becomes_a_dead_letter() {
    let site = Site::new("");
    site.system.disconnect("not yet");
    let running = site.start().await;
    let mut short = message(1);
    short.user.time_to_be_received = 1;
    running.send_each([short, message(2)]).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    site.system.reconnect();
    assert_eq!(ordinals(&site.wait_for(1).await), [2]);
    assert_eq!(running.dead_letters(), 1);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn higher_priorities_overtake_what_waits_and_nothing_else_does() {
    let site = Site::new("");
    site.system.disconnect("not yet");
    let running = site.start().await;
    let with_priority = |ordinal, priority| {
        let mut message = message(ordinal);
        message.base.flags = priority;
        message
    };
    running.send_each([with_priority(1, 3), with_priority(2, 0), with_priority(3, 7), with_priority(4, 3)]).await;
    site.system.reconnect();
    assert_eq!(ordinals(&site.wait_for(4).await), [3, 1, 4, 2]);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn after_an_orderly_stop_nothing_is_taken_for_a_repeat_and_after_a_crash_everything_is() {
    let site = Site::new("");
    site.system.disconnect("not yet");
    let running = site.start().await;
    running.send(1..=3).await;
    running.bridge.stop().await.unwrap();
    let running = site.start().await;
    site.system.reconnect();
    assert!(site.wait_for(3).await.iter().all(|message| !is_marked(message)));
    running.wait_until_empty().await;

    site.system.disconnect("again");
    running.send(4..=5).await;
    // Dropped without a stop, as far as that goes in one process.
    drop(running);
    let running = eventually_started(&site).await;
    running.send([6]).await;
    site.system.reconnect();
    let arrived = site.wait_for(6).await;
    assert_eq!(ordinals(&arrived), [1, 2, 3, 4, 5, 6]);
    assert_eq!(arrived.iter().map(is_marked).collect::<Vec<_>>(), [false, false, false, true, true, false]);
    running.bridge.stop().await.unwrap();
}

/// The store is free once the last handle of the bridge that was dropped is gone.
async fn eventually_started(site: &Site) -> Running {
    let deadline = Instant::now() + PATIENCE;
    let options = StoreOptions { quota: 1 << 30, history_lifetime: Duration::from_mins(30), history_rows: 1000 };
    while let Err(error) = Store::open(&site.path().join("store.redb"), options) {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    site.start().await
}

#[tokio::test]
async fn a_stop_waits_for_the_confirms_that_are_owed() {
    let site = Site::new("");
    site.system.confirm_after(Duration::from_millis(500));
    let running = site.start().await;
    running.send(1..=20).await;
    site.wait_for(20).await;
    running.bridge.stop().await.unwrap();
    let running = site.start().await;
    assert_eq!(running.waiting(), 0);
    assert_eq!(site.arrived().len(), 20);
    running.bridge.stop().await.unwrap();
}

#[tokio::test]
async fn behind_a_message_that_could_not_be_stored_nothing_of_its_session_is() {
    let site = Site { quota: "quota = \"1 MiB\"", ..Site::new("") };
    site.system.disconnect("not yet");
    let running = site.start().await;
    let large = |ordinal| {
        let mut message = message(ordinal);
        message.properties.body = vec![7; 600_000].into();
        message
    };
    let messages = [large(1), large(2), message(3), message(4)];
    running.try_send_at_once(&messages).await;
    assert_eq!(running.waiting(), 1, "the second did not fit, and those behind it must not overtake it");
    site.system.reconnect();
    running.wait_until_empty().await;
    running.send_each(messages).await;
    assert_eq!(ordinals(&site.wait_for(4).await), [1, 2, 3, 4]);
    running.bridge.stop().await.unwrap();
}
