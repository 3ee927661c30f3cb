//! The connector for RabbitMQ over AMQP 0-9-1, and the only place that knows lapin.
//!
//! One connection publishes for all routes, and another consumes, once an inlet is wanted: a broker that holds up
//! publishers must not hold up what comes in. A task of its own keeps each: connects, watches, reports, and connects
//! again; lapin's own recovery is not used, because what was in flight has to be published again by whoever still has it.
//!
//! Each [`Outlet`] is a channel in confirm mode, with a task that settles what was published. Messages are mandatory: the
//! broker returns what it can't route, and a returned message is a failure although the broker also confirms it. Each
//! [`Inlet`] is a channel with one consumer that acknowledges by hand, and a prefetch that bounds what is in memory.
//!
//! This crate declares nothing in the broker. A missing exchange closes the outlet's channel: what was in flight
//! settles as [`DeliveryError::Retry`](connector_api::DeliveryError::Retry) with the broker's words, and the route's
//! next outlet opens after a pause that grows to ten seconds. An exchange that vanishes under traffic may cost the whole
//! connection once, because lapin writes on to a channel that the broker has closed; nothing is lost by that. A missing
//! or deleted queue is the inlet's error, with the same pauses.
//!
//! What comes from the broker was written by strangers, and is screened before lapin parses it: headers that are
//! nested too deep would end the process otherwise.

mod attribution;
mod backoff;
mod config;
mod decode;
mod encode;
mod error;
mod flight;
mod inlet;
mod lane;
mod link;
mod outlet;
mod places;
mod publisher;
mod routes;
mod runtime;
mod screen;
mod supervisor;
mod tls;
mod uri;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use connector_api::{Connector, Inlet, InletOptions, Outlet, OutletOptions, Place, Status};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};
use tokio::sync::watch;
use tokio::time::timeout;

pub use config::{Amqp091Config, TlsFiles};
pub use error::ConfigError;
pub use uri::{BrokerUri, UriError};

use crate::lane::{Lane, Purpose};
use crate::link::Link;

/// Log targets to silence: lapin reports what this crate reports, in its own words, and prints returned messages with
/// their bodies.
pub const CHATTY_LOG_TARGETS: [&str; 1] = ["lapin"];

/// How long a probe's goodbye may take.
const PROBE_CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// Why a channel could not be opened, when that is all there is to say.
const CONNECTION_LOST: &str = "connection lost";

/// One configured RabbitMQ.
pub struct Amqp091Connector {
    config: Arc<Amqp091Config>,
    publishing: Lane,
    consuming: Lane,
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
        let config = Arc::new(config);
        let [publishing, consuming] =
            [Purpose::Publishing, Purpose::Consuming].map(|purpose| Lane::new(purpose, &config));
        Ok(Self { config, publishing, consuming })
    }

    /// Connects and logs in at the first address that lets it.
    async fn visit(&self, limit: Duration) -> Result<Link, String> {
        let uris = &self.config.uris;
        let share = limit / u32::try_from(uris.len()).unwrap_or(u32::MAX);
        let mut reasons = Vec::new();
        for uri in uris {
            match Link::open(uri, &self.config, Purpose::Probing, share).await {
                Ok(link) => return Ok(link),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(reasons.join("; "))
    }
}

/// The methods that start a connection need a tokio runtime around them.
impl Connector for Amqp091Connector {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.publishing.status()
    }

    fn inlet_status(&self) -> watch::Receiver<Status> {
        self.consuming.status()
    }

    fn outlet(&self, options: OutletOptions) -> BoxFuture<'_, Box<dyn Outlet>> {
        let lane = &self.publishing;
        lane.start();
        async move {
            let OutletOptions { route, .. } = options;
            lane.open(&route, |link| outlet::outlet(link, route.clone(), Arc::clone(&lane.routes))).await
        }
        .boxed()
    }

    fn inlet(&self, options: InletOptions) -> BoxFuture<'_, Box<dyn Inlet>> {
        let lane = &self.consuming;
        lane.start();
        async move {
            lane.open(&options.route, |link| inlet::inlet(link, options.clone(), Arc::clone(&lane.routes))).await
        }
        .boxed()
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let link = self.visit(limit).await?;
            link.close(PROBE_CLOSE_LIMIT).await;
            Ok(())
        }
        .boxed()
    }

    fn missing<'a>(&'a self, wanted: &'a [Place], limit: Duration) -> BoxFuture<'a, Result<Vec<String>, String>> {
        async move {
            let share = limit / 2;
            let link = self.visit(share).await?;
            let looked = timeout(share, places::missing(&link, wanted)).await;
            link.close(PROBE_CLOSE_LIMIT).await;
            let silent = || format!("no answer within {} s on whether the places are there", share.as_secs_f32());
            let missing = looked.unwrap_or_else(|_| Err(silent()));
            missing.map_err(|reason| format!("{}: {reason}", link.peer))
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.publishing.stop();
        self.consuming.stop();
        join(self.publishing.closed(), self.consuming.closed()).map(drop).boxed()
    }
}

impl fmt::Debug for Amqp091Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amqp091Connector")
            .field("name", &self.config.name)
            .field("uris", &self.config.uris)
            .field("status", &self.publishing.present_status())
            .field("inlet_status", &self.consuming.present_status())
            .finish_non_exhaustive()
    }
}
