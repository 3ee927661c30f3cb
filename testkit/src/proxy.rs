use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::{PortBlock, TestkitError};

/// How long it takes at most until a copying thread notices a change of state.
const NOTICE: Duration = Duration::from_millis(20);

/// A TCP proxy on loopback that cuts, refuses or stalls connections on demand, so that a test can break one client's
/// connection without breaking the broker that others use.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    ports: PortBlock,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// `Some` while connections are accepted: cleared to stop the accepting thread.
    accepting: Mutex<Option<Arc<AtomicBool>>>,
    stalled: AtomicBool,
    connections: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    closed: Arc<AtomicBool>,
}

impl Connection {
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = (self.client.shutdown(Shutdown::Both), self.server.shutdown(Shutdown::Both));
    }
}

impl Proxy {
    /// A proxy for a port on loopback, accepting connections.
    pub fn to(port: u16) -> Result<Self, TestkitError> {
        let proxy = Self::refusing(port)?;
        proxy.heal()?;
        Ok(proxy)
    }

    /// A proxy that refuses connections until it is [healed](Self::heal): a peer that is not there yet.
    pub fn refusing(port: u16) -> Result<Self, TestkitError> {
        let shared = Shared {
            target: (Ipv4Addr::LOCALHOST, port).into(),
            accepting: Mutex::new(None),
            stalled: AtomicBool::new(false),
            connections: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared), ports: PortBlock::claim()? })
    }

    /// The port on loopback where it accepts.
    pub fn port(&self) -> u16 {
        self.ports.port(0)
    }

    /// Where it is, for a RabbitMQ behind it.
    pub fn uri(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        if let Some(accepting) = lock(&self.shared.accepting).take() {
            accepting.store(false, Ordering::SeqCst);
            // Wakes the accepting thread, which then closes the listening socket.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
            while Arc::strong_count(&accepting) > 1 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        self.drop_connections();
    }

    /// Closes all connections but goes on accepting new ones.
    pub fn drop_connections(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            connection.close();
        }
    }

    /// Accepts connections again and passes bytes on again.
    pub fn heal(&self) -> Result<(), TestkitError> {
        self.shared.stalled.store(false, Ordering::SeqCst);
        let mut accepting = lock(&self.shared.accepting);
        if accepting.is_none() {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, self.port())).map_err(TestkitError::running("a proxy"))?;
            let flag = Arc::new(AtomicBool::new(true));
            *accepting = Some(Arc::clone(&flag));
            let shared = Arc::clone(&self.shared);
            thread::spawn(move || {
                accept(listener, &shared, &flag);
                // The flag outlives the listening socket: `cut` waits for it.
                drop(flag);
            });
        }
        Ok(())
    }

    /// Keeps connections open and takes new ones but passes nothing on, until [`heal`](Self::heal).
    pub fn stall(&self) {
        self.shared.stalled.store(true, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the socket is closed at the end")]
fn accept(listener: TcpListener, shared: &Arc<Shared>, accepting: &AtomicBool) {
    while let Ok((client, _)) = listener.accept() {
        if !accepting.load(Ordering::SeqCst) {
            return;
        }
        // A peer that is gone closes the client's connection, as if it had ended right after accepting.
        let Ok(server) = TcpStream::connect(shared.target) else { continue };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let connection = Connection { client, server, closed: Arc::new(AtomicBool::new(false)) };
        for (from, to) in [(&connection.client, &connection.server), (&connection.server, &connection.client)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { break };
            let (shared, closed) = (Arc::clone(shared), Arc::clone(&connection.closed));
            thread::spawn(move || copy(from, to, &shared.stalled, &closed));
        }
        lock(&shared.connections).push(connection);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, stalled: &AtomicBool, closed: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    let _ = from.set_read_timeout(Some(NOTICE));
    while !closed.load(Ordering::SeqCst) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                // What comes in while it stalls is held, so that a stall holds from the moment it is asked for.
                while stalled.load(Ordering::SeqCst) && !closed.load(Ordering::SeqCst) {
                    thread::sleep(NOTICE);
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
