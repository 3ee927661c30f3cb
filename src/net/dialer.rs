use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Clock;
use crate::mqqb::session::{CloseCause, Event, Outgoing, SendToken, Session, SessionSettings};
use crate::mqqb::wire::{FrameCutter, Guid, MAX_PACKET_SIZE, Malformed};

/// A session that we opened, ready to send (MS-MQQB 3.1.5.2).
#[derive(Debug)]
pub struct Dialed {
    clock: Clock,
    stream: TcpStream,
    session: Session,
    cutter: FrameCutter,
    input: BytesMut,
    output: BytesMut,
    acknowledged: Vec<SendToken>,
    remote: Option<Guid>,
}

/// Why there is no session, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name gives no address.
    #[error("cannot resolve {host}: {source}; if it has no address in DNS, say with --host where it is")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// None of the addresses takes a connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The last one tried.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the other side closed the connection; its log may say why")]
    PeerClosed,
    /// The session ended by the protocol's rules.
    #[error("{0}")]
    Session(CloseCause),
    /// What came is no packet.
    #[error("the other side does not speak the MSMQ protocol: {0}")]
    Malformed(#[from] Malformed),
}

/// Connects to the first of `addresses` that answers and does the handshake.
///
/// `server` is the queue manager called, null for a direct name. Each attempt to connect gets `connect_timeout`.
pub async fn dial(
    clock: Clock,
    addresses: &[SocketAddr],
    server: Guid,
    settings: SessionSettings,
    connect_timeout: Duration,
) -> Result<Dialed, DialError> {
    let (stream, _) = connect(addresses, connect_timeout).await?;
    Dialed::establish(clock, stream, server, settings).await
}

/// Names that are looked up at a time.
static LOOKUPS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(16);

/// The addresses of a machine.
///
/// # Errors
/// A sentence that names it.
pub async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    /// A name server that does not answer must not hold things up for ever.
    const PATIENCE: Duration = Duration::from_secs(10);
    // The system's resolver blocks a thread for as long as it likes. A few of them may; who waits for one waits no longer
    // than that.
    let name = host.to_owned();
    let lookup = tokio::spawn(async move {
        let _turn = LOOKUPS.acquire().await;
        tokio::net::lookup_host((name.as_str(), port)).await.map(Iterator::collect::<Vec<_>>)
    });
    let looked_up = tokio::time::timeout(PATIENCE, lookup)
        .await
        .map(|ended| ended.unwrap_or_else(|error| Err(io::Error::other(error))));
    let addresses: Vec<_> = match looked_up {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(format!("cannot resolve {host}: {error}")),
        Err(_) => return Err(format!("cannot resolve {host}: no answer in {PATIENCE:?}")),
    };
    if addresses.is_empty() { Err(format!("cannot resolve {host}: it has no address")) } else { Ok(addresses) }
}

/// Connects to the first of `addresses` that takes the connection within `limit`.
pub(super) async fn connect(addresses: &[SocketAddr], limit: Duration) -> Result<(TcpStream, SocketAddr), DialError> {
    let mut failure = None;
    for &address in addresses {
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(source)) => failure = Some(DialError::Connect { address, source }),
            Err(_) => {
                let source = io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {limit:?}"));
                failure = Some(DialError::Connect { address, source });
            }
        }
    }
    Err(failure.unwrap_or_else(|| DialError::Resolve {
        host: "the destination".to_owned(),
        source: io::Error::new(io::ErrorKind::NotFound, "no address"),
    }))
}

impl Dialed {
    async fn establish(
        clock: Clock,
        stream: TcpStream,
        server: Guid,
        settings: SessionSettings,
    ) -> Result<Self, DialError> {
        stream.set_nodelay(true)?;
        let mut dialed = Self {
            clock,
            stream,
            session: Session::initiator(settings, server, clock.now()),
            cutter: FrameCutter::new(MAX_PACKET_SIZE),
            input: BytesMut::new(),
            output: BytesMut::new(),
            acknowledged: Vec::new(),
            remote: None,
        };
        while dialed.remote.is_none() {
            dialed.turn().await?;
        }
        Ok(dialed)
    }

    /// The queue manager at the other end.
    pub fn remote(&self) -> Guid {
        self.remote.unwrap_or_default()
    }

    /// How many messages [`Dialed::send`] takes now.
    pub fn window_left(&self) -> usize {
        self.session.window_left()
    }

    /// Sends a message when the window has room for it; gives it back when not. It leaves with the next
    /// [`Dialed::acknowledged`].
    pub fn send(&mut self, token: SendToken, packet: Bytes, recoverable: bool) -> Result<(), Outgoing> {
        self.session.send(self.clock.now(), Outgoing { token, packet, recoverable })
    }

    /// Works until at least one message is acknowledged, and says which. Cancel safe.
    pub async fn acknowledged(&mut self) -> Result<Vec<SendToken>, DialError> {
        loop {
            self.drain()?;
            if !self.acknowledged.is_empty() {
                return Ok(std::mem::take(&mut self.acknowledged));
            }
            self.turn().await?;
        }
    }

    /// Closes the connection, having written what was due.
    pub async fn close(mut self) {
        self.session.close(self.clock.now(), CloseCause::Local("done".to_owned()));
        while let Some(bytes) = self.session.poll_transmit() {
            self.output.extend_from_slice(&bytes);
        }
        // Nothing is owed any more: what can't be written now is an acknowledgment of something the peer sends again.
        let _ = self.stream.write_all_buf(&mut self.output).await;
        let _ = self.stream.shutdown().await;
    }

    /// One step of I/O or one timer. Cancel safe.
    async fn turn(&mut self) -> Result<(), DialError> {
        self.drain()?;
        let deadline = self.session.deadline();
        let (mut reader, mut writer) = self.stream.split();
        self.input.reserve(4096);
        tokio::select! {
            written = writer.write_buf(&mut self.output), if !self.output.is_empty() => {
                written?;
            }
            read = reader.read_buf(&mut self.input) => {
                if read? == 0 {
                    return Err(DialError::PeerClosed);
                }
            }
            () = async {
                match deadline {
                    Some(deadline) => self.clock.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            } => self.session.handle_timeout(self.clock.now()),
        }
        self.drain()
    }

    fn drain(&mut self) -> Result<(), DialError> {
        while let Some(frame) = self.cutter.cut(&mut self.input)? {
            self.session.handle_frame(self.clock.now(), frame);
        }
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Opened { remote } => self.remote = Some(remote),
                Event::Acknowledged(token) => self.acknowledged.push(token),
                Event::Writable => {}
                // Nobody here takes messages: unsettled, it stays with its sender.
                Event::Received { message, receipt, .. } => {
                    tracing::debug!(event = "message_ignored", message_id = %message.id(), "a sender receives no messages");
                    drop(receipt);
                }
                Event::Closed(cause) => return Err(DialError::Session(cause)),
            }
        }
        while let Some(bytes) = self.session.poll_transmit() {
            self.output.extend_from_slice(&bytes);
        }
        Ok(())
    }
}
