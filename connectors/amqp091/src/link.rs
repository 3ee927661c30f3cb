//! One connection to the broker, from its making to its end.

use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_rs::Runtime;
use lapin::tcp::{AsyncTcpStream, RustlsConnector};
use lapin::{Connection, ConnectionProperties};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::{ConnectError, Stage};
use crate::lane::Purpose;
use crate::runtime::ScreeningTokio;
use crate::screen::Screened;
use crate::{Amqp091Config, BrokerUri, tls};

/// A connection that is up, or was.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// Where to, without credentials.
    pub(crate) peer: String,
    /// Largest frame that both sides take, in bytes.
    pub(crate) frame_max: usize,
    /// Why it was lost, once it was.
    pub(crate) lost: watch::Sender<Option<String>>,
    line: Line,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.peer)
    }
}

impl Link {
    /// Connects and logs in, once, within the limit. Cancel safe: what was half made is hung up.
    pub(crate) async fn open(
        uri: &BrokerUri,
        config: &Amqp091Config,
        purpose: Purpose,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let tls = if uri.is_tls() { Some(tls::connector(&config.tls).await?) } else { None };
        let line = Line::default();
        let connecting = connect(uri, config, purpose, tls, Arc::clone(&line.0), limit);
        let connection = match timeout(limit, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                // What went wrong before AMQP's handshake is known first-hand.
                let failure = line.0.state().failure.take();
                let with_certificate = config.tls.cert_file.is_some();
                return Err(failure.unwrap_or_else(|| ConnectError::from_handshake(uri, with_certificate, &error)));
            }
            Err(_) => {
                let stage = line.0.state().stage;
                return Err(ConnectError::Silent { peer: uri.endpoint(), stage, limit });
            }
        };
        let frame_max = connection.configuration().frame_max() as usize;
        Ok(Self { connection, peer: uri.to_string(), frame_max, lost: watch::Sender::new(None), line })
    }

    /// Says goodbye, and hangs up after the limit whether or not there was an answer.
    pub(crate) async fn close(&self, limit: Duration) {
        // No answer, or a connection that is lost already: both end in hanging up.
        let _ = timeout(limit, self.connection.close(200, "OK".into())).await;
        self.line.0.hang_up();
    }

    /// Ends it: everything that uses it hears why.
    pub(crate) fn give_up(&self, reason: &str) {
        self.line.0.hang_up();
        self.lost.send_replace(Some(reason.to_owned()));
    }
}

/// Waits until the connection is lost.
pub(crate) async fn loss(lost: &mut watch::Receiver<Option<String>>) -> String {
    let found = lost.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
    found.unwrap_or_else(|| "the connector is gone".to_owned())
}

async fn connect(
    uri: &BrokerUri,
    config: &Amqp091Config,
    purpose: Purpose,
    tls: Option<RustlsConnector>,
    line: Arc<Socket>,
    limit: Duration,
) -> lapin::Result<Connection> {
    let name = match purpose {
        Purpose::Publishing => config.connection_name.clone(),
        Purpose::Consuming | Purpose::Probing => format!("{} ({})", config.connection_name, purpose.word()),
    };
    let properties = ConnectionProperties::default()
        .with_connection_name(name.into())
        .with_client_property("product".into(), "mqbridge".into())
        .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
    let told = uri.to_lapin(config.heartbeat);
    let (host, port, peer) = (uri.host().to_owned(), uri.port(), uri.endpoint());
    // lapin runs this in its own thread, which only ends when this does: hence limits of its own.
    let runtime = ScreeningTokio::current();
    Connection::connector(
        told,
        Runtime::new(runtime.clone()),
        async move |_, _| {
            let steps = async {
                line.reach(Stage::Resolving);
                let found = timeout(limit, tokio::net::lookup_host((host.as_str(), port))).await;
                let found = found.unwrap_or_else(|late| Err(late.into()));
                let addresses: Vec<_> =
                    found.map_err(|source| ConnectError::Resolve { peer: peer.clone(), source })?.collect();

                line.reach(Stage::Connecting);
                let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
                let mut outcome = Err(ConnectError::from_connect(&peer, std::io::ErrorKind::AddrNotAvailable.into()));
                for address in addresses {
                    let attempt = timeout(share, AsyncTcpStream::connect(runtime.bare(), address)).await;
                    outcome = attempt
                        .unwrap_or_else(|late| Err(late.into()))
                        .map_err(|source| ConnectError::from_connect(&peer, source));
                    if outcome.is_ok() {
                        break;
                    }
                }
                let mut stream = outcome?;
                if let AsyncTcpStream::Plain(plain) = &stream {
                    let copy = plain.get_ref().as_fd().try_clone_to_owned();
                    line.take_up(copy.map_err(|source| ConnectError::from_connect(&peer, source))?.into());
                }

                if let Some(tls) = &tls {
                    line.reach(Stage::Tls);
                    stream =
                        stream.into_rustls(tls, &host).await.map_err(|error| ConnectError::from_tls(&peer, &error))?;
                }
                line.reach(Stage::Handshake);
                Ok(AsyncTcpStream::Plain(Screened::new(stream)))
            };
            steps.await.map_err(|error| line.fail(error))
        },
        properties,
    )
    .await
}

/// Hangs up when dropped: the socket of a connection that nobody holds any more is closed, and with it ends the thread
/// in which lapin serves it, even when the peer does not answer.
#[derive(Debug, Default)]
struct Line(Arc<Socket>);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.hang_up();
    }
}

/// A hand on lapin's socket, and how far it came.
#[derive(Debug, Default)]
struct Socket(Mutex<SocketState>);

#[derive(Debug)]
struct SocketState {
    stage: Stage,
    failure: Option<ConnectError>,
    stream: Option<TcpStream>,
    hung_up: bool,
}

impl Default for SocketState {
    fn default() -> Self {
        Self { stage: Stage::Resolving, failure: None, stream: None, hung_up: false }
    }
}

impl Socket {
    fn state(&self) -> MutexGuard<'_, SocketState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self, stage: Stage) {
        self.state().stage = stage;
    }

    /// Keeps the error in its own form; lapin gets another to give up with.
    fn fail(&self, error: ConnectError) -> lapin::Error {
        let told = std::io::Error::other(error.to_string());
        self.state().failure = Some(error);
        told.into()
    }

    fn take_up(&self, stream: TcpStream) {
        let mut state = self.state();
        if state.hung_up {
            let _ = stream.shutdown(Shutdown::Both);
        } else {
            state.stream = Some(stream);
        }
    }

    fn hang_up(&self) {
        let mut state = self.state();
        state.hung_up = true;
        if let Some(stream) = state.stream.take() {
            // An error means that it is closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
