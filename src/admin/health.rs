//! `/livez` and `/readyz`. A broker that is down makes the bridge not ready; it never makes it dead.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::bridge::{Readiness, View};
use crate::net::{ListenError, Stop};

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

    /// Serves until shutdown.
    pub async fn run(self, view: Arc<View>, mut shutdown: Stop) {
        let routes = Router::new()
            // That it answers at all is the answer: the event loop turns.
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(ready))
            .with_state(view);
        let stopped = async move {
            // A sender that is gone has stopped too.
            let () = shutdown.requested().await;
        };
        if let Err(error) = axum::serve(self.socket, routes).with_graceful_shutdown(stopped).await {
            tracing::warn!(event = "health_failed", reason = %error, "the health endpoint has stopped");
        }
    }
}

async fn ready(State(view): State<Arc<View>>) -> (StatusCode, String) {
    match view.readiness() {
        Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
        Readiness::NotReady(reasons) => (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n"),
    }
}
