//! `/livez` and `/readyz`. A broker that is down makes the bridge not ready; it never makes it dead.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::bridge::{Readiness, View};
use crate::net::{ListenError, Stop};

/// Connections at once; the oldest gives way to the next, so that whoever asks at once is answered however many stay
/// silent.
const MAX_CONNECTIONS: usize = 64;
/// For a whole connection: the request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait when the system has no more file descriptors or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The endpoint, open and not serving yet.
#[derive(Debug)]
pub struct Health {
    socket: TcpListener,
    address: SocketAddr,
}

impl Health {
    /// Opens the port.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address, with the port that the system chose when 0 was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until shutdown. Requests under way end with it: nobody's probe is worth waiting for then.
    pub async fn run(self, view: Arc<View>, shutdown: Stop) {
        let routes = Router::new()
            // That it answers at all is the answer: the event loop turns.
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(ready))
            .with_state(view);
        self.serve(routes, shutdown).await;
    }

    async fn serve(self, routes: Router, mut shutdown: Stop) {
        let mut connections = JoinSet::new();
        let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => {
                        oldest_first.retain(|connection| !connection.is_finished());
                        if oldest_first.len() >= MAX_CONNECTIONS
                            && let Some(oldest) = oldest_first.pop_front()
                        {
                            oldest.abort();
                        }
                        oldest_first.push_back(connections.spawn(answer(stream, routes.clone())));
                    }
                    Err(error) => {
                        tracing::warn!(event = "health_failed", reason = %error, "a health check could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = shutdown.requested() => return,
            }
        }
    }
}

/// One request, one answer. Whoever is slow at either is cut off.
async fn answer(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    match tokio::time::timeout(PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(event = "health_failed", reason = %error, "a health check broke off"),
        Err(_) => tracing::debug!(event = "health_failed", reason = "too slow", "a health check was cut off"),
    }
}

async fn ready(State(view): State<Arc<View>>) -> (StatusCode, String) {
    match view.readiness() {
        Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
        Readiness::NotReady(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::net::StopSwitch;

    async fn serve() -> (SocketAddr, StopSwitch) {
        let health = Health::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = health.address();
        let (switch, stop) = StopSwitch::new();
        tokio::spawn(health.serve(Router::new().route("/livez", get(|| async { "alive\n" })), stop));
        (address, switch)
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_silent_or_slow_is_cut_off() {
        let (address, _running) = serve().await;
        for beginning in ["", "GET /livez HTTP/1.1\r\nHost: "] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(beginning.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // Virtual time: an endpoint that waits for ever is given up after a minute.
            let closed = tokio::time::timeout(Duration::from_mins(1), silent.read_to_end(&mut answer)).await;
            assert!(closed.is_ok(), "{beginning:?}");
        }
    }

    #[tokio::test]
    async fn many_silent_connections_keep_nobody_out() {
        let (address, _running) = serve().await;
        let mut silent = Vec::new();
        for _ in 0..3 * MAX_CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(ask(address).await.ends_with("alive\n"));
        let mut open = 0;
        for mut stream in silent {
            let closed = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0])).await;
            open += usize::from(closed.is_err());
        }
        assert!(open > 0 && open < MAX_CONNECTIONS, "{open}");
    }
}
