//! A queue manager that receives, made of the product's own listener: an MSMQ machine that takes what it is sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mqbridge::mqqb::session::SessionSettings;
use mqbridge::mqqb::wire::{Guid, UserMessage};
use mqbridge::net::{Arrival, Clock, Intake, LinkSettings, Listener, Places, Reception, Sessions, StopSwitch, Verdict};
use testkit::PortBlock;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::process::{Site, eventually};

/// A machine that can be switched on and off.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    guid: Guid,
    inbox: Inbox,
    running: Option<(StopSwitch, JoinHandle<()>)>,
    runtime: Runtime,
    _ports: PortBlock,
}

type Inbox = Arc<Mutex<Vec<UserMessage>>>;

impl Machine {
    pub(crate) fn new(name: &str) -> Self {
        let ports = PortBlock::claim().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self {
            name: name.to_owned(),
            address: SocketAddr::from(([127, 0, 0, 1], ports.port(0))),
            guid: Guid::derived(Guid::NULL, name),
            inbox: Inbox::default(),
            running: None,
            runtime,
            _ports: ports,
        }
    }

    /// A machine that is on, and that the bridge of `site` knows.
    pub(crate) fn known_to(site: &Site, name: &str) -> Self {
        let mut machine = Self::new(name);
        machine.switch_on();
        machine.introduce_to(site);
        machine
    }

    pub(crate) fn introduce_to(&self, site: &Site) {
        site.know(&self.name, self.guid, self.address);
    }

    pub(crate) fn switch_on(&mut self) {
        let clock = Clock::start();
        let session = SessionSettings::new(self.guid);
        let settings = LinkSettings { session, max_packet: 4 << 20, slow_sender_timeout: Duration::from_secs(60) };
        let listener = self.runtime.block_on(Listener::bind(self.address)).unwrap();
        let (switch, stop) = StopSwitch::new();
        let desk: Arc<dyn Reception> = Arc::new(Desk(Arc::clone(&self.inbox)));
        let sessions = Sessions::new(Places::new(100));
        self.running = Some((switch, self.runtime.spawn(listener.run(clock, settings, desk, sessions, stop))));
    }

    /// Its sessions break without a goodbye.
    pub(crate) fn switch_off(&mut self) {
        if let Some((_switch, task)) = self.running.take() {
            task.abort();
            let _ = self.runtime.block_on(task);
        }
    }

    pub(crate) fn messages(&self) -> Vec<UserMessage> {
        self.inbox.lock().unwrap().clone()
    }

    pub(crate) fn wait_for(&self, count: usize) -> Vec<UserMessage> {
        eventually(&format!("{count} messages at {}", self.name), || {
            let inbox = self.inbox.lock().unwrap();
            (inbox.len() >= count).then(|| inbox.clone())
        })
    }
}

struct Desk(Inbox);

impl Reception for Desk {
    fn begin(&self) -> Box<dyn Intake> {
        Box::new(Self(Arc::clone(&self.0)))
    }

    fn ready(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

impl Intake for Desk {
    fn receive(&mut self, arrival: Arrival, verdict: Verdict) {
        self.0.lock().unwrap().push(*arrival.message);
        verdict.stored();
    }
}
