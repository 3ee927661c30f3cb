//! One connection of a connector: its life, and what is opened on it.
//!
//! A connector has two, so that a broker that holds up publishers does not hold up what comes in: while it blocks a
//! connection lapin writes nothing to it, acknowledgements included.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use connector_api::Status;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::link::Link;
use crate::routes::Routes;
use crate::supervisor::{Board, CLOSE_LIMIT, Supervisor};
use crate::{Amqp091Config, backoff};

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Publishing,
    Consuming,
    Probing,
}

impl Purpose {
    /// For the log.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Publishing => "publishing",
            Self::Consuming => "consuming",
            Self::Probing => "probing",
        }
    }
}

/// How far a connection is in its life.
enum Course {
    New,
    /// Dropping the sender stops the supervisor.
    Running(#[expect(dead_code, reason = "held for being dropped")] watch::Sender<()>),
    Closed,
}

pub(crate) struct Lane {
    purpose: Purpose,
    config: Arc<Amqp091Config>,
    board: Arc<Board>,
    pub(crate) routes: Arc<Routes>,
    course: Mutex<Course>,
}

impl Lane {
    /// Nothing is started.
    pub(crate) fn new(purpose: Purpose, config: &Arc<Amqp091Config>) -> Self {
        let board = Board {
            status: watch::Sender::new(Status::Connecting { attempt: 0, reason: None }),
            link: watch::Sender::new(None),
        };
        Self {
            purpose,
            config: Arc::clone(config),
            board: Arc::new(board),
            routes: Arc::default(),
            course: Mutex::new(Course::New),
        }
    }

    /// Starts the connection, unless it has been started.
    pub(crate) fn start(&self) {
        let mut course = self.course();
        if matches!(*course, Course::New) {
            let (sender, stop) = watch::channel(());
            *course = Course::Running(sender);
            let (config, board) = (Arc::clone(&self.config), Arc::clone(&self.board));
            tokio::spawn(Supervisor { purpose: self.purpose, config, board, stop }.run());
        }
    }

    /// Starts the connection like [`start`](Self::start), and reports on it.
    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.start();
        self.board.status.subscribe()
    }

    /// Looks at the status without starting anything.
    pub(crate) fn present_status(&self) -> Status {
        self.board.status.borrow().clone()
    }

    /// Opens something for a route on the started connection, as often as it takes. An error is a reason to try again.
    pub(crate) async fn open<T, F>(&self, route: &str, open: impl Fn(Arc<Link>) -> F) -> T
    where
        F: Future<Output = Result<T, String>>,
    {
        let mut links = self.board.link.subscribe();
        if let Some(pause) = self.routes.pause(route) {
            sleep(pause).await;
        }
        let mut failures = 0;
        loop {
            let link = links.wait_for(Option::is_some).await.ok().and_then(|link| link.clone());
            // The sender lives in `self`: there is always a link in the end.
            let Some(link) = link else { return std::future::pending().await };
            match open(link).await {
                Ok(opened) => return opened,
                Err(reason) => {
                    failures += 1;
                    self.log_retry(route, &reason);
                    sleep(backoff::delay(failures)).await;
                }
            }
        }
    }

    /// Begins to close it for good.
    pub(crate) fn stop(&self) {
        let was = std::mem::replace(&mut *self.course(), Course::Closed);
        if matches!(was, Course::New) {
            self.board.status.send_replace(Status::Closed);
        }
    }

    /// Waits until it is closed.
    pub(crate) async fn closed(&self) {
        let mut status = self.board.status.subscribe();
        // The supervisor keeps its own limit; this one holds should the runtime be too busy for it.
        let _ = timeout(CLOSE_LIMIT + CLOSE_LIMIT / 5, status.wait_for(|status| *status == Status::Closed)).await;
    }

    fn log_retry(&self, route: &str, reason: &str) {
        if self.purpose == Purpose::Consuming {
            tracing::debug!(event = "inlet_retry", route, reason, "can't open a channel");
        } else {
            tracing::debug!(event = "outlet_retry", route, reason, "can't open a channel");
        }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
