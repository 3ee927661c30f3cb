use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::link::{Link, Role};
use super::{Clock, LinkSettings, Peer, Reception, Sessions, Stop};
use crate::mqqb::wire::Guid;

/// Listens on TCP 1801 and runs a link for each connection (MS-MQQB 2.1.1, 3.1.5.10).
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// The listener can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", remedy(.source))]
pub struct ListenError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; another program, perhaps another bridge, has the port: \"ss -ltnp\" shows which",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address: 0.0.0.0 listens on all it has",
        io::ErrorKind::PermissionDenied => "; ports below 1024 are root's",
        _ => "",
    }
}

/// How long to wait when the system has no more file descriptors or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Listener {
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

    /// Accepts connections until shutdown, then waits for their links to end.
    pub async fn run(
        self,
        clock: Clock,
        settings: LinkSettings,
        reception: Arc<dyn Reception>,
        sessions: Sessions,
        shutdown: Stop,
    ) {
        let mut stop = shutdown.clone();
        let mut links = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, address)) => {
                        let peer = Peer { address, local: local_address(&stream, self.address), queue_manager: Guid::NULL };
                        let link = Link::new(clock, settings, Arc::clone(&reception), peer, &sessions, Role::Acceptor);
                        links.spawn(link.run(stream, shutdown.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(event = "accept_failed", reason = %error, "a connection could not be accepted");
                        sessions.make_room();
                        clock.sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = links.join_next(), if !links.is_empty() => {}
                () = stop.requested() => break,
            }
        }
        drop(self.socket);
        while links.join_next().await.is_some() {}
    }
}

fn local_address(stream: &TcpStream, listening: SocketAddr) -> SocketAddr {
    stream.local_addr().unwrap_or(listening)
}
