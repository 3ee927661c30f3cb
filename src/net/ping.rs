use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::UdpSocket;

use super::{Clock, ListenError, Sessions, Stop};
use crate::mqqb::wire::{Guid, Ping};

/// Answers "would you accept a session?" on UDP 3527 (MS-MQQB 2.1.2, 3.1.7.7), which machines up to Windows Server
/// 2003 ask before they connect.
#[derive(Debug)]
pub struct PingResponder {
    socket: UdpSocket,
    address: SocketAddr,
}

impl PingResponder {
    /// Opens the port.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, source };
        let socket = UdpSocket::bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// The address, with the port that the system chose when 0 was asked for.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until shutdown. What is no ping gets no answer.
    pub async fn run(self, clock: Clock, own: Guid, sessions: Sessions, mut shutdown: Stop) {
        let mut datagram = [0; 2 * Ping::SIZE];
        loop {
            let received = tokio::select! {
                received = self.socket.recv_from(&mut datagram) => received,
                () = shutdown.requested() => return,
            };
            let (length, from) = match received {
                Ok(received) => received,
                Err(error) => {
                    // Such as "connection refused", reported for an earlier answer whose asker is gone.
                    tracing::debug!(event = "ping_failed", reason = %error, "a ping could not be received");
                    clock.sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            let Some(request) = datagram.get(..length).and_then(Ping::decode) else { continue };
            let answer = request.response(own, !sessions.has_room()).encode();
            if let Err(error) = self.socket.send_to(&answer, from).await {
                tracing::debug!(event = "ping_failed", peer = %from, reason = %error, "a ping could not be answered");
            }
        }
    }
}

/// How often a machine is asked: a datagram may be lost.
const ATTEMPTS: u32 = 2;
/// Ping Response Timer (MS-MQQB 3.1.2.9).
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Why a machine is not called.
#[derive(Debug, thiserror::Error)]
pub(super) enum PingError {
    #[error("its answer to a ping says that it would refuse a session")]
    Refused,
    #[error("no answer to {ATTEMPTS} pings on UDP {0}; ping_first = false calls without asking")]
    Silent(SocketAddr),
    #[error("a ping to UDP {to} failed: {source}; ping_first = false calls without asking")]
    Failed { to: SocketAddr, source: io::Error },
}

/// Asks the machine at `to` whether it would accept a session (MS-MQQB 3.1.5.2.2, 3.1.7.6, 3.1.7.8). `cookies` is the
/// `PingCookie`, incremented for each question.
pub(super) async fn ask(to: SocketAddr, own: Guid, cookies: &AtomicU32) -> Result<(), PingError> {
    let failed = |source| PingError::Failed { to, source };
    let any = if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
    // Datagrams from elsewhere are none of our concern, and "port unreachable" is reported.
    socket.connect(to).await.map_err(failed)?;
    let mut failure = PingError::Silent(to);
    for _ in 0..ATTEMPTS {
        let request = Ping::request(own, cookies.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        match tokio::time::timeout(ANSWER_TIME, question(&socket, &request)).await {
            Ok(Ok(answer)) if answer.is_refusal() => return Err(PingError::Refused),
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(source)) => failure = failed(source),
            Err(_) => failure = PingError::Silent(to),
        }
    }
    Err(failure)
}

async fn question(socket: &UdpSocket, request: &Ping) -> io::Result<Ping> {
    let mut datagram = [0; 2 * Ping::SIZE];
    socket.send(&request.encode()).await?;
    loop {
        let length = socket.recv(&mut datagram).await?;
        let answer = datagram.get(..length).and_then(Ping::decode);
        if let Some(answer) = answer.filter(|answer| answer.answers(request)) {
            return Ok(answer);
        }
    }
}
