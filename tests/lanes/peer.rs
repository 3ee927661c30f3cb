//! A machine that is called, and answers as the test says.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mqbridge::mqqb::wire::{
    ConnectionParameters, EstablishConnection, FrameCutter, Guid, MAX_PACKET_SIZE, Packet, SessionAck, SessionHeader,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::THEIRS;

/// After this, in virtual time, nothing will come.
const PATIENCE: Duration = Duration::from_mins(10);

/// Where the machine listens.
pub(crate) struct Place(TcpListener);

/// A connection that came.
pub(crate) struct Peer {
    stream: TcpStream,
    cutter: FrameCutter,
    input: BytesMut,
    window: u16,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Somebody calls.
    pub(crate) async fn connection(&self) -> Peer {
        let (stream, _) = timeout(PATIENCE, self.0.accept()).await.expect("nobody calls").unwrap();
        // The system's own patience with small segments is real time.
        stream.set_nodelay(true).unwrap();
        Peer { stream, cutter: FrameCutter::new(MAX_PACKET_SIZE), input: BytesMut::new(), window: 64 }
    }

    /// Somebody calls, and gets a session with this window.
    pub(crate) async fn session(&self, window: u16) -> Peer {
        let mut peer = self.connection().await;
        peer.window = window;
        let request = peer.request().await;
        peer.answer(&request.response(THEIRS, false)).await;
        let Some(Packet::Parameters(parameters)) = peer.packet().await else { panic!("no ConnectionParameters") };
        let ConnectionParameters { recoverable_ack_timeout, ack_timeout, .. } = parameters;
        let mut bytes = BytesMut::new();
        ConnectionParameters::new(recoverable_ack_timeout, ack_timeout, window).encode(&mut bytes);
        peer.write(&bytes).await;
        peer
    }

    /// Nobody calls.
    pub(crate) async fn is_left_alone(&self) -> bool {
        timeout(Duration::from_millis(100), self.0.accept()).await.is_err()
    }
}

impl Peer {
    /// The next packet; `None` at the end of the connection.
    pub(crate) async fn packet(&mut self) -> Option<Packet> {
        loop {
            if let Some(frame) = self.cutter.cut(&mut self.input).unwrap() {
                return Some(Packet::decode(&frame).expect("we send what we can read"));
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await.expect("nothing comes");
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn request(&mut self) -> EstablishConnection {
        let Some(Packet::Establish(request)) = self.packet().await else { panic!("no EstablishConnection") };
        request
    }

    pub(crate) async fn answer(&mut self, answer: &EstablishConnection) {
        let mut bytes = BytesMut::new();
        answer.encode(&mut bytes);
        self.write(&bytes).await;
    }

    /// The ordinal of the next message.
    pub(crate) async fn ordinal(&mut self) -> u32 {
        match self.packet().await {
            Some(Packet::User(message)) => message.id().ordinal,
            other => panic!("not a message but {other:?}"),
        }
    }

    /// Nothing comes for a second, in which nobody else has anything to do.
    pub(crate) async fn hears_nothing(&mut self) -> bool {
        timeout(Duration::from_secs(1), self.packet()).await.is_err()
    }

    /// Acknowledges recoverable messages: all up to this number, and the storage of the `count` last of them.
    pub(crate) async fn acknowledge(&mut self, number: u16, count: u16) {
        self.say(self.header(number, number + 1 - count, (1 << count) - 1)).await;
    }

    /// Acknowledges that all up to this number came, and that the recoverable ones up to `stored` are on disk.
    pub(crate) async fn acknowledge_storage(&mut self, number: u16, stored: u16) {
        self.say(self.header(number, 1, (1 << stored) - 1)).await;
    }

    /// Acknowledges one recoverable message, having sent one as well.
    pub(crate) async fn acknowledge_one_having_sent_one(&mut self) {
        self.say(SessionHeader { user_sequence_number: 1, recoverable_sequence_number: 1, ..self.header(1, 1, 1) })
            .await;
    }

    const fn header(&self, number: u16, base: u16, bits: u32) -> SessionHeader {
        SessionHeader {
            ack_sequence_number: number,
            recoverable_ack_sequence_number: base,
            recoverable_ack_bits: bits,
            user_sequence_number: 0,
            recoverable_sequence_number: 0,
            window_size: self.window,
            reserved: 0,
        }
    }

    async fn say(&mut self, header: SessionHeader) {
        let mut bytes = BytesMut::new();
        SessionAck::new(header).encode(&mut bytes);
        self.write(&bytes).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

/// Another queue manager than the one that is called.
pub(crate) const STRANGER: Guid = Guid::from_wire(*b"somebody else...");
