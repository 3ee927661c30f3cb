use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::dialer::connect;
use super::link::{Link, Role};
use super::ping::ask;
use super::{Clock, Lane, LinkSettings, Peer, Reception, Sessions, Stop};
use crate::mqqb::Moment;
use crate::mqqb::wire::Guid;

/// Sessions to other machines: one for each, opened when something is to be sent and shared by everybody who sends
/// there. A session that the other side has opened is used when it comes from where that queue manager is known to be, or
/// when nobody knows where it is.
///
/// After a failure nobody calls the machine again before its time: the schedule is kept here, for all who wait.
pub struct Lanes {
    parts: LanesParts,
    lines: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Line>>>>,
    links: Mutex<JoinSet<()>>,
    /// `PingCookie`.
    cookies: AtomicU32,
}

/// What sessions from here are made of.
pub struct LanesParts {
    /// Time.
    pub clock: Clock,
    /// As for sessions that others open.
    pub settings: LinkSettings,
    /// Who takes what the other side sends on them.
    pub reception: Arc<dyn Reception>,
    /// Where they are listed.
    pub sessions: Sessions,
    /// How often a machine is called again.
    pub schedule: RetrySchedule,
    /// Sessions at once.
    pub most: usize,
    /// The UDP port where a machine is asked by ping whether it would accept a session, before each attempt to
    /// connect; `None` when it is not asked.
    pub ping_port: Option<u16>,
    /// Ends them.
    pub stop: Stop,
}

/// When a machine is called again (Session Retry Connect Timer, MS-MQQB 3.1.2.3, 3.1.6.1): first after 5 s, as Windows
/// does; then the wait doubles up to the cap, which the specification allows as an adaptive mechanism.
#[derive(Clone, Copy, Debug)]
pub struct RetrySchedule {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// How long one address gets to take the connection.
    pub connect: Duration,
}

/// Where a machine is.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its addresses, tried in this order.
    pub addresses: Vec<SocketAddr>,
    /// Its queue manager; null for a direct name, where any will do (3.1.5.2.3).
    pub server: Guid,
}

/// Why there is no session with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// In words.
    pub reason: String,
    /// Failures since something last went through.
    pub attempt: u32,
    /// Not before this is it called again.
    pub again_at: Moment,
}

/// What is known of the way to one machine.
#[derive(Default)]
struct Line {
    lane: Option<Lane>,
    failure: Option<Unreachable>,
}

impl Lanes {
    /// No sessions yet.
    pub fn new(parts: LanesParts) -> Self {
        Self { parts, lines: Mutex::default(), links: Mutex::default(), cookies: AtomicU32::default() }
    }

    /// A session with the machine that `key` stands for: an open one, or a new one. `known` is its queue manager when
    /// that is certain, else null. `locate` is asked on every attempt, for addresses change.
    ///
    /// # Errors
    /// When it can't be reached now, or may not be called yet.
    pub async fn open<F>(&self, key: &str, known: Guid, locate: impl FnOnce() -> F) -> Result<Lane, Unreachable>
    where
        F: Future<Output = Result<Located, String>>,
    {
        let line = self.line(key);
        // Whoever comes while the machine is being called waits for the outcome.
        let mut line = line.lock().await;
        if let Some(lane) = line.lane.as_ref().filter(|lane| lane.is_open()) {
            return Ok(lane.clone());
        }
        line.lane = None;
        if let Some(failure) = line.failure.as_ref().filter(|failure| self.parts.clock.now() < failure.again_at) {
            return Err(failure.clone());
        }
        let outcome = match locate().await {
            Ok(located) => match self.opened_by(&located) {
                Some(lane) => return Ok(lane),
                None => self.call(&located).await,
            },
            // Nobody knows where it is: then it is whoever called us and says so.
            Err(reason) => match (!known.is_null()).then(|| self.parts.sessions.lane_to(known)).flatten() {
                Some(lane) => return Ok(lane),
                None => Err(reason),
            },
        };
        match outcome {
            Ok(lane) => {
                line.lane = Some(lane.clone());
                Ok(lane)
            }
            Err(reason) => Err(self.fail(&mut line, reason)),
        }
    }

    /// A session that a machine has opened itself, from where it is known to be: an identifier alone is nobody's proof.
    fn opened_by(&self, located: &Located) -> Option<Lane> {
        let lane = self.parts.sessions.lane_to(located.server).filter(|_| !located.server.is_null())?;
        let ip = lane.peer().address.ip().to_canonical();
        located.addresses.iter().any(|address| address.ip().to_canonical() == ip).then_some(lane)
    }

    /// A session with the machine of `key` has ended with messages on their way: it is not called again at once.
    pub async fn failed(&self, key: &str, reason: String) -> Unreachable {
        let line = self.line(key);
        let mut line = line.lock().await;
        match &line.failure {
            // Several who shared the session report its end.
            Some(failure) if self.parts.clock.now() < failure.again_at => failure.clone(),
            _ => self.fail(&mut line, reason),
        }
    }

    /// Something went through to the machine of `key`.
    pub async fn worked(&self, key: &str) {
        self.line(key).lock().await.failure = None;
    }

    /// Waits for the sessions that were opened from here to end, once they were told to.
    pub async fn finished(&self) {
        let mut links = std::mem::take(&mut *self.links());
        while links.join_next().await.is_some() {}
    }

    /// Ends the sessions that were opened from here at once.
    pub fn abandon(&self) {
        drop(std::mem::take(&mut *self.links()));
    }

    fn line(&self, key: &str) -> Arc<tokio::sync::Mutex<Line>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(key.to_owned()).or_default())
    }

    fn links(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, line: &mut Line, reason: String) -> Unreachable {
        let attempt = line.failure.as_ref().map_or(0, |failure| failure.attempt).saturating_add(1);
        let again_at = self.parts.clock.now() + self.parts.schedule.wait(attempt);
        let failure = Unreachable { reason, attempt, again_at };
        line.failure = Some(failure.clone());
        failure
    }

    async fn call(&self, located: &Located) -> Result<Lane, String> {
        {
            let mut links = self.links();
            while links.try_join_next().is_some() {}
            if links.len() >= self.parts.most {
                return Err(format!("{} sessions to other machines are open, as many as may be", self.parts.most));
            }
        }
        let LanesParts { clock, settings, reception, sessions, ping_port, stop, .. } = &self.parts;
        let (stream, address) = self.reach(&located.addresses).await?;
        let local = stream.local_addr().map_err(|error| format!("the connection was lost: {error}"))?;
        let peer = Peer { address, local, queue_manager: Guid::NULL };
        let (caller, opened) = oneshot::channel();
        let role = Role::Initiator { server: located.server, pinged: ping_port.is_some(), caller };
        let link = Link::new(*clock, *settings, Arc::clone(reception), peer, sessions, role);
        self.links().spawn(link.run(stream, stop.clone()));
        opened.await.unwrap_or_else(|_| Err("the bridge stops".to_owned())).map_err(|why| format!("{address}: {why}"))
    }

    /// Connects to the first address that takes the connection; where pings are wanted, one that says by ping that it
    /// would accept a session (MS-MQQB 3.1.5.2.2).
    async fn reach(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), String> {
        let limit = self.parts.schedule.connect;
        let Some(port) = self.parts.ping_port else {
            return connect(addresses, limit).await.map_err(|error| error.to_string());
        };
        let mut failure = "it has no address".to_owned();
        for address in addresses {
            let asked = ask(SocketAddr::new(address.ip(), port), self.parts.settings.session.local, &self.cookies);
            let outcome = match asked.await {
                Ok(()) => connect(&[*address], limit).await.map_err(|error| error.to_string()),
                Err(error) => Err(format!("{address} is not called: {error}")),
            };
            match outcome {
                Ok(reached) => return Ok(reached),
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }
}

impl RetrySchedule {
    /// The wait after so many failures in a row.
    fn wait(&self, attempt: u32) -> Duration {
        self.first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_begin_as_windows_has_them_and_double_up_to_the_cap() {
        let schedule = RetrySchedule {
            first: Duration::from_secs(5),
            longest: Duration::from_secs(60),
            connect: Duration::from_secs(5),
        };
        let waits: Vec<_> = (1..=6).map(|attempt| schedule.wait(attempt).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        assert_eq!(schedule.wait(u32::MAX).as_secs(), 60);
    }
}
