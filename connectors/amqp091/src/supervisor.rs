//! The task that keeps the connection: connects, watches, reports, and connects again.

use std::sync::Arc;
use std::time::Duration;

use connector_api::Status;
use futures_util::StreamExt;
use lapin::Event;
use tokio::sync::watch;
use tokio::time::{interval, sleep};

use crate::Amqp091Config;
use crate::backoff;
use crate::error::describe;
use crate::lane::Purpose;
use crate::link::Link;

/// How long the broker may take to answer the goodbye.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// lapin reports the loss of a connection by an event, except where the broker closes it without an error.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// What the supervisor shows to the others.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) status: watch::Sender<Status>,
    /// The connection, while there is one.
    pub(crate) link: watch::Sender<Option<Arc<Link>>>,
}

pub(crate) struct Supervisor {
    pub(crate) purpose: Purpose,
    pub(crate) config: Arc<Amqp091Config>,
    pub(crate) board: Arc<Board>,
    /// Its sender says when to stop by being dropped.
    pub(crate) stop: watch::Receiver<()>,
}

/// Why the supervisor stops watching a connection.
enum End {
    Lost(String),
    Stop,
}

impl Supervisor {
    pub(crate) async fn run(mut self) {
        let mut reason = None;
        let mut failures = 0;
        while let Some(link) = self.connect(reason.take(), &mut failures).await {
            let link = Arc::new(link);
            self.show_up(&link.peer);
            self.board.link.send_replace(Some(Arc::clone(&link)));
            let end = self.watch(&link, &mut failures).await;
            self.board.link.send_replace(None);
            match end {
                End::Lost(why) => {
                    link.give_up(&format!("connection to {} lost: {why}", link.peer));
                    self.log_down(&link.peer, &why);
                    reason = Some(why);
                }
                End::Stop => {
                    link.close(CLOSE_LIMIT).await;
                    link.give_up("the connector is closed");
                    break;
                }
            }
        }
        self.show(Status::Closed);
        let (connector, purpose) = self.subject();
        tracing::info!(event = "connector_closed", connector, purpose, "connector closed");
    }

    /// Tries the addresses in turn until one works; `None` when it is time to stop.
    async fn connect(&mut self, mut reason: Option<String>, failures: &mut u32) -> Option<Link> {
        let config = Arc::clone(&self.config);
        let mut told = vec![None; config.uris.len()];
        let mut attempt = 0;
        loop {
            self.show(Status::Connecting { attempt, reason: reason.clone() });
            if *failures > 0 {
                tokio::select! {
                    () = sleep(backoff::delay(*failures)) => {}
                    _ = self.stop.changed() => return None,
                }
            }
            for (uri, told) in config.uris.iter().zip(&mut told) {
                let opened = tokio::select! {
                    opened = Link::open(uri, &config, self.purpose, config.connect_timeout) => opened,
                    _ = self.stop.changed() => return None,
                };
                let error = match opened {
                    Ok(link) => return Some(link),
                    Err(error) => error.to_string(),
                };
                attempt += 1;
                self.log_retry(attempt, &error, told.as_ref() != Some(&error));
                *told = Some(error.clone());
                reason = Some(error);
                self.show(Status::Connecting { attempt, reason: reason.clone() });
            }
            *failures = failures.saturating_add(1);
        }
    }

    /// Reports on the connection until it ends. A connection that is lost before it was steady counts as a failure, so
    /// that a broker that takes connections and drops them again is not besieged.
    async fn watch(&mut self, link: &Link, failures: &mut u32) -> End {
        let connection = &link.connection;
        let mut events = Box::pin(connection.events_listener());
        let mut look_after = interval(LOOK_AFTER);
        let mut steady = Box::pin(sleep(backoff::STEADY));
        let mut is_steady = false;
        *failures = failures.saturating_add(1);
        loop {
            tokio::select! {
                _ = self.stop.changed() => return End::Stop,
                event = events.next() => match event {
                    Some(Event::ConnectionBlocked(why)) => self.show_blocked(&link.peer, why),
                    Some(Event::ConnectionUnblocked) => self.show_unblocked(&link.peer),
                    // A channel's error is such an event too: the connection's own state decides.
                    Some(Event::Error(error)) if !connection.status().connected() => return End::Lost(describe(&error)),
                    _ => {}
                },
                _ = look_after.tick() => {}
                () = &mut steady, if !is_steady => {
                    is_steady = true;
                    *failures = 0;
                }
            }
            if !connection.status().connected() {
                return End::Lost("the broker closed it".to_owned());
            }
        }
    }

    fn show(&self, status: Status) {
        self.board.status.send_if_modified(|present| {
            let modified = *present != status;
            *present = status;
            modified
        });
    }

    fn show_up(&self, peer: &str) {
        self.show(Status::Up { peer: peer.to_owned() });
        let (connector, purpose) = self.subject();
        tracing::info!(event = "connector_up", connector, purpose, peer, "connected");
    }

    fn show_blocked(&self, peer: &str, reason: String) {
        let (connector, purpose) = self.subject();
        tracing::warn!(
            event = "connector_blocked",
            connector,
            purpose,
            peer,
            reason,
            "the broker takes nothing for now"
        );
        self.show(Status::Blocked { peer: peer.to_owned(), reason });
    }

    fn show_unblocked(&self, peer: &str) {
        let (connector, purpose) = self.subject();
        tracing::info!(event = "connector_unblocked", connector, purpose, peer, "the broker takes messages again");
        self.show(Status::Up { peer: peer.to_owned() });
    }

    fn log_down(&self, peer: &str, reason: &str) {
        let (connector, purpose) = self.subject();
        tracing::warn!(event = "connector_down", connector, purpose, peer, reason, "connection lost");
    }

    /// A reason that was told already is only worth a word to those who look closely.
    fn log_retry(&self, attempt: u32, reason: &str, is_news: bool) {
        let (connector, purpose) = self.subject();
        if is_news {
            tracing::warn!(event = "connector_retry", connector, purpose, attempt, reason, "can't connect");
        } else {
            tracing::debug!(event = "connector_retry", connector, purpose, attempt, reason, "still can't connect");
        }
    }

    /// What the log names: the connector, and which of its connections.
    fn subject(&self) -> (&str, &str) {
        (&self.config.name, self.purpose.word())
    }
}
