//! A foreign system in this process, with faults on demand.

mod queues;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};

use self::queues::{MemoryInlet, Queues};
use crate::{
    Address, Connector, DeliveryError, Inlet, InletOptions, Message, Outlet, OutletOptions, Place, Settlement, Status,
};

/// Where a [`MemoryConnector`] says it is connected to.
pub const PEER: &str = "memory";

/// A foreign system that keeps what it is sent in memory. Clones are the same system.
#[derive(Clone, Debug, Default)]
pub struct MemorySystem(Arc<Shared>);

/// What the system does with messages for an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// Takes and confirms them.
    #[default]
    Accept,
    /// Confirms them negatively, as a full queue does.
    Nack,
    /// Has no place for them.
    Unroutable,
    /// Can't put them into its form.
    Refuse,
}

impl MemorySystem {
    /// A system that is there and accepts everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// A connector to it.
    pub fn connector(&self, name: impl Into<String>) -> MemoryConnector {
        let mut state = self.0.state();
        state.next_line += 1;
        let line = Arc::new(Line::new(&state));
        state.lines.retain(|line| line.strong_count() > 0);
        state.lines.push(Arc::downgrade(&line));
        MemoryConnector { name: name.into(), system: self.clone(), line }
    }

    /// All messages that have arrived, in their order.
    pub fn arrived(&self) -> Vec<Message> {
        self.0.state().arrived.clone()
    }

    /// Takes out the messages that have arrived for an address, in their order.
    pub fn take(&self, address: &Address) -> Vec<Message> {
        let mut state = self.0.state();
        let (taken, kept) = std::mem::take(&mut state.arrived).into_iter().partition(|one| one.address == *address);
        state.arrived = kept;
        taken
    }

    /// From now on messages for this address meet this treatment.
    pub fn treat(&self, address: Address, treatment: Treatment) {
        self.0.state().treatments.insert((address.exchange, address.routing_key), treatment);
    }

    /// Breaks all connections, and lets no new ones come about until [`reconnect`](Self::reconnect).
    pub fn disconnect(&self, reason: impl Into<String>) {
        let mut state = self.0.state();
        state.absent = Some(reason.into());
        // Their settlements resolve when the senders are dropped.
        state.held.clear();
        state.queues.recover(|_| true);
        state.announce();
    }

    /// Breaks all connections; new ones come about at once.
    pub fn drop_connections(&self, reason: impl Into<String>) {
        self.disconnect(reason);
        self.reconnect();
    }

    /// Is there again.
    pub fn reconnect(&self) {
        let mut state = self.0.state();
        state.absent = None;
        state.generation += 1;
        state.announce();
    }

    /// Takes nothing until [`unblock`](Self::unblock): what is handed over waits.
    pub fn block(&self, reason: impl Into<String>) {
        let mut state = self.0.state();
        state.blocked = Some(reason.into());
        state.announce();
    }

    /// Takes messages again, those that waited first.
    pub fn unblock(&self) {
        let mut state = self.0.state();
        state.blocked = None;
        for (message, verdict) in std::mem::take(&mut state.held) {
            state.receive(message, verdict);
        }
        state.announce();
        self.0.wake_inlets();
    }

    /// Confirms come this long after the message has arrived.
    pub fn confirm_after(&self, delay: Duration) {
        self.0.state().delay = delay;
    }
}

/// A connector to a [`MemorySystem`].
pub struct MemoryConnector {
    name: String,
    system: MemorySystem,
    line: Arc<Line>,
}

impl Connector for MemoryConnector {
    fn name(&self) -> &str {
        &self.name
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.line.status.subscribe()
    }

    fn outlet(&self, options: OutletOptions) -> BoxFuture<'_, Box<dyn Outlet>> {
        let mut link = self.line.link.subscribe();
        async move {
            // The sender lives in `self`: this waits and does not fail.
            let generation = link.wait_for(Option::is_some).await.map_or(None, |generation| *generation);
            let system = self.system.clone();
            Box::new(MemoryOutlet { route: options.route, system, link, generation }) as Box<dyn Outlet>
        }
        .boxed()
    }

    /// One line is enough: being blocked holds up nothing but sending.
    fn inlet_status(&self) -> watch::Receiver<Status> {
        self.status()
    }

    fn inlet(&self, options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>> {
        async move {
            let pause = self.system.0.state().queues.pause(self.line.number, &options.route);
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            let mut link = self.line.link.subscribe();
            let generation = link.wait_for(Option::is_some).await.map_or(None, |generation| *generation);
            let line = self.line.number;
            let consumer = self.system.0.state().queues.subscribe(line, &options);
            let system = Arc::clone(&self.system.0);
            let inlet = MemoryInlet { route: options.route, system, line, link, generation, consumer, failed: false };
            Box::new(inlet) as Box<dyn Inlet>
        }
        .boxed()
    }

    fn probe(&self, _timeout: Duration) -> BoxFuture<'_, Result<(), String>> {
        let absent = self.system.0.state().absent.clone();
        let outcome = absent.map_or(Ok(()), |reason| Err(format!("{PEER}: {reason}; is it running?")));
        std::future::ready(outcome).boxed()
    }

    fn missing<'a>(&'a self, wanted: &'a [Place], timeout: Duration) -> BoxFuture<'a, Result<Vec<String>, String>> {
        async move {
            self.probe(timeout).await?;
            let state = self.system.0.state();
            // Exchanges need no declaring here: there are no others than those that messages are sent to.
            let is_missing = |place: &&Place| matches!(place, Place::Queue(name) if !state.queues.has(name));
            Ok(wanted.iter().filter(is_missing).map(|place| format!("{place}: 404 NOT_FOUND")).collect())
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.line.status.send_replace(Status::Closed);
        self.let_go();
        std::future::ready(()).boxed()
    }
}

impl MemoryConnector {
    fn let_go(&self) {
        self.line.link.send_replace(None);
        let number = self.line.number;
        self.system.0.state().queues.recover(|line| line == number);
        self.system.0.wake_inlets();
    }
}

impl Drop for MemoryConnector {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl fmt::Debug for MemoryConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryConnector").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct MemoryOutlet {
    route: String,
    system: MemorySystem,
    link: watch::Receiver<Option<u64>>,
    /// The link that it was opened on.
    generation: Option<u64>,
}

impl Outlet for MemoryOutlet {
    fn deliver(&mut self, burst: Vec<Message>) -> BoxFuture<'_, Vec<Settlement>> {
        let mut state = self.system.0.state();
        let settlements = burst
            .into_iter()
            .map(|message| {
                let (verdict, outcome) = oneshot::channel();
                // Without a link the sender is dropped, which means a retry.
                if self.is_linked() {
                    state.accept(message, verdict);
                }
                self.settlement(outcome, state.delay)
            })
            .collect();
        drop(state);
        self.system.0.wake_inlets();
        std::future::ready(settlements).boxed()
    }
}

impl MemoryOutlet {
    fn is_linked(&self) -> bool {
        let connector_lives = self.link.has_changed().is_ok();
        connector_lives && *self.link.borrow() == self.generation
    }

    fn settlement(&self, outcome: oneshot::Receiver<Result<(), DeliveryError>>, delay: Duration) -> Settlement {
        let mut link = self.link.clone();
        let generation = self.generation;
        let lost = DeliveryError::retry(format!("connection to {PEER} lost, route {}", self.route));
        async move {
            let settled = async {
                let outcome = outcome.await;
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                outcome
            };
            tokio::select! {
                biased;
                outcome = settled => outcome.unwrap_or(Err(lost)),
                _ = link.wait_for(|current| *current != generation) => Err(lost),
            }
        }
        .boxed()
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Changes whenever an inlet may find something new.
    changes: watch::Sender<()>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_inlets(&self) {
        self.changes.send_replace(());
    }
}

type Verdict = oneshot::Sender<Result<(), DeliveryError>>;

#[derive(Debug, Default)]
struct State {
    arrived: Vec<Message>,
    treatments: HashMap<(String, String), Treatment>,
    /// Why it is not there.
    absent: Option<String>,
    /// Counts the times it came back.
    generation: u64,
    blocked: Option<String>,
    held: VecDeque<(Message, Verdict)>,
    delay: Duration,
    queues: Queues,
    lines: Vec<Weak<Line>>,
    next_line: u64,
}

/// What one connector sees of the system.
#[derive(Debug)]
struct Line {
    /// Tells it from others.
    number: u64,
    status: watch::Sender<Status>,
    /// The number of the present connection, which differs from all earlier ones.
    link: watch::Sender<Option<u64>>,
}

impl State {
    fn accept(&mut self, message: Message, verdict: Verdict) {
        if self.blocked.is_some() {
            self.held.push_back((message, verdict));
        } else {
            self.receive(message, verdict);
        }
    }

    fn receive(&mut self, message: Message, verdict: Verdict) {
        let Address { exchange, routing_key } = message.address.clone();
        let outcome = match self.treatments.get(&(exchange, routing_key)).cloned().unwrap_or_default() {
            Treatment::Accept => {
                if !self.queues.route(&message) {
                    self.arrived.push(message);
                }
                Ok(())
            }
            Treatment::Nack => Err(DeliveryError::retry("negative confirm")),
            Treatment::Unroutable => Err(DeliveryError::Unroutable { reason: "312 NO_ROUTE".to_owned() }),
            Treatment::Refuse => Err(DeliveryError::Refused { reason: "does not fit".to_owned() }),
        };
        // Nobody may want to know.
        let _ = verdict.send(outcome);
    }

    fn announce(&self) {
        for line in self.lines.iter().filter_map(Weak::upgrade) {
            if *line.status.borrow() != Status::Closed {
                line.status.send_replace(self.status());
                line.link.send_replace(self.link());
            }
        }
    }

    fn status(&self) -> Status {
        let peer = PEER.to_owned();
        match (&self.absent, &self.blocked) {
            (Some(reason), _) => Status::Connecting { attempt: 1, reason: Some(reason.clone()) },
            (None, Some(reason)) => Status::Blocked { peer, reason: reason.clone() },
            (None, None) => Status::Up { peer },
        }
    }

    fn link(&self) -> Option<u64> {
        self.absent.is_none().then_some(self.generation)
    }
}

impl Line {
    fn new(state: &State) -> Self {
        Self {
            number: state.next_line,
            status: watch::Sender::new(state.status()),
            link: watch::Sender::new(state.link()),
        }
    }
}
