//! Sessions that the bridge opens, against peers that answer as a script says: what is handed to a lane is sent within
//! the window, acknowledged or given back, and whoever calls is told why nothing came of it.
//!
//! Sockets are real, on loopback; time is virtual: it goes on when nobody has anything to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod calling;
mod log;
mod peer;
mod ping;
mod sending;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mqbridge::mqqb::session::SessionSettings;
use mqbridge::mqqb::wire::{DeliveryMode, DirectField, Guid, MessageId, QueueField, UserMessage, WideText};
use mqbridge::net::{
    Arrival, Clock, Consignment, Intake, Lane, Lanes, LanesParts, LinkSettings, Located, Places, Reception,
    RetrySchedule, Sessions, StopSwitch, Unreachable, Verdict,
};
use tokio::sync::mpsc;

/// The queue manager that calls.
const OURS: Guid = Guid::from_wire(*b"the one we are..");
/// The one that is called.
const THEIRS: Guid = Guid::from_wire(*b"the one we call.");
/// How long a machine is not called after a first failure.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// A queue manager that calls others.
struct Caller {
    lanes: Lanes,
    sessions: Sessions,
    clock: Clock,
    /// Dropped, it ends the sessions.
    _switch: StopSwitch,
}

impl Caller {
    fn new() -> Self {
        Self::asking(None)
    }

    /// One that asks by ping before it calls.
    fn asking(ping_port: Option<u16>) -> Self {
        log::install();
        let (switch, stop) = StopSwitch::new();
        let clock = Clock::start();
        let sessions = Sessions::new(Places::new(100));
        let lanes = Lanes::new(LanesParts {
            clock,
            settings: LinkSettings {
                session: SessionSettings::new(OURS),
                max_packet: 4 << 20,
                slow_sender_timeout: Duration::from_secs(60),
            },
            reception: Arc::new(Desk),
            sessions: sessions.clone(),
            schedule: RetrySchedule {
                first: FIRST_WAIT,
                longest: Duration::from_secs(60),
                connect: Duration::from_secs(5),
            },
            ping_port,
            most: 100,
            stop,
        });
        Self { lanes, sessions, clock, _switch: switch }
    }

    /// A session with the machine at `address`, for a direct name.
    async fn open(&self, address: SocketAddr) -> Result<Lane, Unreachable> {
        self.open_for(address, Guid::NULL).await
    }

    /// A session with the machine at `address`, for this queue manager.
    async fn open_for(&self, address: SocketAddr, server: Guid) -> Result<Lane, Unreachable> {
        let located = Located { addresses: vec![address], server };
        self.lanes.open("there", server, || std::future::ready(Ok(located))).await
    }
}

/// Takes whatever comes.
struct Desk;

impl Reception for Desk {
    fn begin(&self) -> Box<dyn Intake> {
        Box::new(Self)
    }

    fn ready(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

impl Intake for Desk {
    fn receive(&mut self, _: Arrival, verdict: Verdict) {
        verdict.stored();
    }
}

/// Somebody who sends, with a token for each message that is its ordinal.
struct Sender {
    acknowledged: mpsc::UnboundedSender<u64>,
    tokens: mpsc::UnboundedReceiver<u64>,
}

impl Sender {
    fn new() -> Self {
        let (acknowledged, tokens) = mpsc::unbounded_channel();
        Self { acknowledged, tokens }
    }

    fn consignment(&self, ordinal: u32) -> Consignment {
        Consignment {
            token: u64::from(ordinal),
            packet: packet(ordinal),
            recoverable: true,
            acknowledged: self.acknowledged.clone(),
        }
    }

    /// Hands a message over.
    async fn send(&self, lane: &Lane, ordinal: u32) {
        lane.send(self.consignment(ordinal)).await.expect("the session is open");
    }

    /// The token of the next message acknowledged.
    async fn token(&mut self) -> u64 {
        let patience = Duration::from_mins(10);
        let token = tokio::time::timeout(patience, self.tokens.recv()).await.expect("nothing is acknowledged");
        token.expect("we have a sending end ourselves")
    }

    /// Nothing more is acknowledged, now that the session is over.
    fn has_no_more(mut self) -> bool {
        drop(self.acknowledged);
        self.tokens.try_recv().is_err()
    }
}

fn packet(ordinal: u32) -> Bytes {
    packet_with(ordinal, Bytes::new())
}

fn packet_with(ordinal: u32, body: Bytes) -> Bytes {
    let destination = DirectField { name: WideText::from_text(r"OS:there\private$\orders"), ..Default::default() };
    let id = MessageId { source: OURS, ordinal };
    let mut message = UserMessage::new(id, 1_700_000_000, Guid::NULL, QueueField::Direct(destination));
    message.delivery = DeliveryMode::Recoverable;
    message.properties.body = body;
    let mut packet = BytesMut::new();
    message.encode(&mut packet).unwrap();
    packet.freeze()
}
