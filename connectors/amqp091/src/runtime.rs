//! What lapin runs on: tokio, with streams that are [`Screened`].

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_rs::Tokio;
use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use futures_util::{AsyncRead, AsyncWrite, Stream};
use lapin::tcp::AsyncTcpStream;

use crate::screen::Screened;

/// A connection before it is screened, with TLS or without.
pub(crate) type BareStream = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// The runtime that it was made in.
#[derive(Clone, Debug)]
pub(crate) struct ScreeningTokio(Tokio);

impl ScreeningTokio {
    pub(crate) fn current() -> Self {
        Self(Tokio::current())
    }

    /// For making a [`BareStream`].
    pub(crate) const fn bare(&self) -> &Tokio {
        &self.0
    }
}

impl RuntimeKit for ScreeningTokio {}

impl Executor for ScreeningTokio {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.0.block_on(future)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, future: F) -> Task<Self::Task<T>> {
        self.0.spawn(future)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, work: F) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(work)
    }
}

impl Reactor for ScreeningTokio {
    type TcpStream = Screened<BareStream>;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// Is for sockets of another make, which lapin has none of.
    fn register<H: Read + Write + Send + 'static>(
        &self,
        _socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Self::TcpStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, period: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(period)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async { Ok(Screened::new(AsyncTcpStream::Plain(connecting.await?))) }
    }
}
