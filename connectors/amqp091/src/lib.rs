//! The connector for RabbitMQ over AMQP 0-9-1, and the only place that knows lapin.
//!
//! One connection publishes for all routes. A task of its own keeps it: connects, watches, reports, and connects again;
//! lapin's own recovery is not used, because what was in flight has to be published again by whoever still has it.
//! Each [`Outlet`] is a channel in confirm mode, with a task that settles what was published. Messages are mandatory: the
//! broker returns what it can't route, and a returned message is a failure although the broker also confirms it.
//!
//! This crate declares nothing in the broker. A missing exchange closes the outlet's channel: what was in flight
//! settles as [`DeliveryError::Retry`](connector_api::DeliveryError::Retry) with the broker's words, and the route's
//! next outlet opens after a pause that grows to ten seconds. An exchange that vanishes under traffic may cost the whole
//! connection once, because lapin writes on to a channel that the broker has closed; nothing is lost by that.

mod attribution;
mod backoff;
mod config;
mod encode;
mod error;
mod flight;
mod link;
mod outlet;
mod publisher;
mod routes;
mod runtime;
mod screen;
mod supervisor;
mod tls;
mod uri;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use connector_api::{Connector, Inlet, InletOptions, Outlet, OutletOptions, Place, Status};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lapin::Channel;
use lapin::options::ConfirmSelectOptions;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use config::{Amqp091Config, TlsFiles};
pub use error::ConfigError;
pub use uri::{BrokerUri, UriError};

use crate::error::describe;
use crate::link::Link;
use crate::routes::Routes;
use crate::supervisor::{Board, CLOSE_LIMIT, Supervisor};

/// Log targets to silence: lapin reports what this crate reports, in its own words, and prints returned messages with
/// their bodies.
pub const CHATTY_LOG_TARGETS: [&str; 1] = ["lapin"];

/// How long a probe's goodbye may take.
const PROBE_CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// One configured RabbitMQ.
pub struct Amqp091Connector {
    config: Arc<Amqp091Config>,
    board: Arc<Board>,
    routes: Arc<Routes>,
    course: Mutex<Course>,
}

/// How far a connector is in its life.
enum Course {
    New,
    /// Dropping the sender stops the supervisor.
    Running(#[expect(dead_code, reason = "held for being dropped")] watch::Sender<()>),
    Closed,
}

impl Amqp091Connector {
    /// Checks what can be checked without a file or a broker. Nothing is started.
    pub fn new(config: Amqp091Config) -> Result<Self, ConfigError> {
        let Amqp091Config { uris, tls, .. } = &config;
        let has_identity = tls.cert_file.is_some() && tls.key_file.is_some();
        if uris.is_empty() {
            return Err(ConfigError::NoUri);
        }
        if tls.cert_file.is_some() != tls.key_file.is_some() {
            return Err(ConfigError::HalfIdentity);
        }
        if uris.iter().any(|uri| uri.logs_in_by_certificate() && !(uri.is_tls() && has_identity)) {
            return Err(ConfigError::NoCertificateForLogin);
        }
        if (tls.ca_file.is_some() || has_identity) && !uris.iter().any(BrokerUri::is_tls) {
            return Err(ConfigError::UnusedTls);
        }
        let board = Board {
            status: watch::Sender::new(Status::Connecting { attempt: 0, reason: None }),
            link: watch::Sender::new(None),
        };
        Ok(Self {
            config: Arc::new(config),
            board: Arc::new(board),
            routes: Arc::default(),
            course: Mutex::new(Course::New),
        })
    }

    fn start(&self) {
        let mut course = self.course();
        if matches!(*course, Course::New) {
            let (sender, stop) = watch::channel(());
            *course = Course::Running(sender);
            let supervisor = Supervisor { config: Arc::clone(&self.config), board: Arc::clone(&self.board), stop };
            tokio::spawn(supervisor.run());
        }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The methods that start the connection need a tokio runtime around them.
impl Connector for Amqp091Connector {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.start();
        self.board.status.subscribe()
    }

    fn outlet(&self, options: OutletOptions) -> BoxFuture<'_, Box<dyn Outlet>> {
        self.start();
        async move {
            let mut links = self.board.link.subscribe();
            if let Some(pause) = self.routes.pause(&options.route) {
                sleep(pause).await;
            }
            let mut failures = 0;
            loop {
                let link = links.wait_for(Option::is_some).await.ok().and_then(|link| link.clone());
                // The sender lives in `self`: there is always a link in the end.
                let Some(link) = link else { return std::future::pending().await };
                match open_channel(&link).await {
                    Ok(channel) => {
                        return outlet::outlet(channel, &link, options.route, Arc::clone(&self.routes));
                    }
                    Err(reason) => {
                        failures += 1;
                        tracing::debug!(event = "outlet_retry", route = options.route, reason, "can't open a channel");
                        sleep(backoff::delay(failures)).await;
                    }
                }
            }
        }
        .boxed()
    }

    fn inlet_status(&self) -> watch::Receiver<Status> {
        self.status()
    }

    fn inlet(&self, _options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>> {
        std::future::pending().boxed()
    }

    fn missing<'a>(&'a self, _wanted: &'a [Place], limit: Duration) -> BoxFuture<'a, Result<Vec<String>, String>> {
        async move { self.probe(limit).await.map(|()| Vec::new()) }.boxed()
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let uris = &self.config.uris;
            let share = limit / u32::try_from(uris.len()).unwrap_or(u32::MAX);
            let mut reasons = Vec::new();
            for uri in uris {
                match Link::open(uri, &self.config, share).await {
                    Ok(link) => {
                        link.close(PROBE_CLOSE_LIMIT).await;
                        return Ok(());
                    }
                    Err(error) => reasons.push(error.to_string()),
                }
            }
            Err(reasons.join("; "))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let was = std::mem::replace(&mut *self.course(), Course::Closed);
        if matches!(was, Course::New) {
            self.board.status.send_replace(Status::Closed);
        }
        drop(was);
        async move {
            let mut status = self.board.status.subscribe();
            // The supervisor keeps its own limit; this one holds should the runtime be too busy for it.
            let _ = timeout(CLOSE_LIMIT + CLOSE_LIMIT / 5, status.wait_for(|status| *status == Status::Closed)).await;
        }
        .boxed()
    }
}

impl fmt::Debug for Amqp091Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amqp091Connector")
            .field("name", &self.config.name)
            .field("uris", &self.config.uris)
            .field("status", &*self.board.status.borrow())
            .finish_non_exhaustive()
    }
}

async fn open_channel(link: &Link) -> Result<Channel, String> {
    let mut lost = link.lost.subscribe();
    let opened = async {
        let channel = link.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    };
    tokio::select! {
        opened = opened => opened.map_err(|error: lapin::Error| describe(&error)),
        _ = lost.wait_for(Option::is_some) => Err("connection lost".to_owned()),
    }
}
