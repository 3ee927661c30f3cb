use std::net::SocketAddr;

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
                    clock.sleep(std::time::Duration::from_millis(10)).await;
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
