//! Another queue manager: takes what is sent to it, as its script says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mqbridge::mqqb::session::SessionSettings;
use mqbridge::mqqb::wire::{Guid, UserMessage};
use mqbridge::net::{
    Arrival, Clock, Intake, Lanes, LanesParts, LinkSettings, Listener, Located, Places, Reception, RetrySchedule,
    Sessions, StopSwitch, Verdict,
};
use tokio::task::JoinHandle;

/// A machine that can be switched on and off.
pub(crate) struct Machine {
    pub(crate) name: String,
    /// The directory knows it: only there a machine has another port than 1801.
    pub(crate) address: SocketAddr,
    pub(crate) guid: Guid,
    pub(crate) inbox: Arc<Inbox>,
    running: Option<(StopSwitch, JoinHandle<()>)>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    messages: Mutex<Vec<UserMessage>>,
    /// After so many more messages sessions break, until it is set anew; 0 is never.
    breaks_after: AtomicUsize,
    /// Verdicts are kept, so that nothing is acknowledged.
    silent: AtomicBool,
    kept: Mutex<Vec<Verdict>>,
}

impl Machine {
    pub(crate) fn new(name: &str) -> Self {
        let guid = Guid::derived(Guid::NULL, name);
        // A port that is free now, and that the system gives to nobody soon.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { name: name.to_owned(), address, guid, inbox: Arc::default(), running: None }
    }

    pub(crate) async fn switch_on(&mut self) {
        let clock = Clock::start();
        let mut session = SessionSettings::new(self.guid);
        session.window = 64;
        let settings = LinkSettings { session, max_packet: 4 << 20, slow_sender_timeout: Duration::from_secs(60) };
        let listener = Listener::bind(self.address).await.unwrap();
        let (switch, stop) = StopSwitch::new();
        let reception: Arc<dyn Reception> = Arc::new(Desk(Arc::clone(&self.inbox)));
        let task = tokio::spawn(listener.run(clock, settings, reception, Sessions::new(Places::new(100)), stop));
        self.running = Some((switch, task));
    }

    /// Its sessions break without a goodbye.
    pub(crate) async fn switch_off(&mut self) {
        if let Some((switch, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
            drop(switch);
        }
    }

    /// Opens a session with the bridge, and takes what comes on it.
    pub(crate) async fn call(&self, bridge: SocketAddr) -> (Lanes, StopSwitch) {
        let clock = Clock::start();
        let session = SessionSettings::new(self.guid);
        let (switch, stop) = StopSwitch::new();
        let seconds = Duration::from_secs;
        let lanes = Lanes::new(LanesParts {
            clock,
            settings: LinkSettings { session, max_packet: 4 << 20, slow_sender_timeout: seconds(60) },
            reception: Arc::new(Desk(Arc::clone(&self.inbox))),
            sessions: Sessions::new(Places::new(100)),
            schedule: RetrySchedule { first: seconds(1), longest: seconds(1), connect: seconds(5) },
            most: 100,
            ping_port: None,
            stop,
        });
        let located = Located { addresses: vec![bridge], server: Guid::NULL };
        lanes.open("bridge", Guid::NULL, || std::future::ready(Ok(located))).await.unwrap();
        (lanes, switch)
    }

    pub(crate) fn queue(&self, name: &str) -> String {
        format!(r"DIRECT=OS:{}\private$\{name}", self.name)
    }

    pub(crate) async fn wait_for(&self, count: usize) -> Vec<UserMessage> {
        let inbox = &self.inbox;
        super::eventually(&format!("{count} messages at {}", self.address), || {
            let messages = inbox.messages.lock().unwrap();
            (messages.len() >= count).then(|| messages.clone())
        })
        .await
    }
}

impl Inbox {
    pub(crate) fn messages(&self) -> Vec<UserMessage> {
        self.messages.lock().unwrap().clone()
    }

    pub(crate) fn break_after(&self, messages: usize) {
        self.breaks_after.store(messages, Ordering::SeqCst);
    }

    pub(crate) fn be_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }
}

struct Desk(Arc<Inbox>);

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
        let left = self.0.breaks_after.load(Ordering::SeqCst);
        if left == 1 {
            return verdict.hold("the test says so".to_owned());
        }
        if left > 1 {
            self.0.breaks_after.store(left - 1, Ordering::SeqCst);
        }
        self.0.messages.lock().unwrap().push(*arrival.message);
        if self.0.silent.load(Ordering::SeqCst) {
            self.0.kept.lock().unwrap().push(verdict);
        } else {
            verdict.stored();
        }
    }
}
