//! A queue manager that sends to the bridge, made of the product's own dialer, and raw connections for what no
//! queue manager would send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{
    ConnectionParameters, DeliveryMode, DirectField, EstablishConnection, Guid, MessageId, QueueField, UserMessage,
    WideText,
};
use mqbridge::net::{Clock, DialError, Dialed, dial};

/// The queue manager that sends.
pub(crate) const SOURCE: [u8; 16] = *b"a test's machine";

pub(crate) fn source() -> Guid {
    Guid::from_wire(SOURCE)
}

pub(crate) fn settings() -> SessionSettings {
    SessionSettings {
        local: source(),
        window: 64,
        ack_timeout: Duration::from_secs(20),
        initialization_timeout: Duration::from_secs(60),
        cleanup_timeout: Duration::from_secs(300),
    }
}

/// A message for a queue of the bridge, by its name behind `private$\`.
pub(crate) fn message(queue: &str, ordinal: u32) -> UserMessage {
    message_to(&format!(r"OS:bridge01\private$\{queue}"), ordinal)
}

/// A message for a direct name, as it stands in the packet.
pub(crate) fn message_to(direct: &str, ordinal: u32) -> UserMessage {
    let destination = QueueField::Direct(DirectField { name: WideText::from_text(direct), ..Default::default() });
    let id = MessageId { source: source(), ordinal };
    let mut message = UserMessage::new(id, now(), Guid::NULL, destination);
    message.delivery = DeliveryMode::Recoverable;
    message.properties.label = Some(WideText::from_text(&format!("message {ordinal}")));
    message.properties.body = format!("body {ordinal}").into_bytes().into();
    message
}

pub(crate) fn now() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32
}

pub(crate) fn encoded(message: &UserMessage) -> Bytes {
    let mut packet = BytesMut::new();
    message.encode(&mut packet).unwrap();
    packet.freeze()
}

pub(crate) async fn connect(address: SocketAddr) -> Result<Dialed, DialError> {
    dial(Clock::start(), &[address], Guid::NULL, settings(), Duration::from_secs(5)).await
}

/// Sends messages in order within the window and waits until all are acknowledged. Gives back how many were, from the
/// first one on, when the session ends before.
pub(crate) async fn send_all(dialed: &mut Dialed, packets: &[(Bytes, bool)]) -> Result<(), (usize, DialError)> {
    let mut next = 0;
    let mut acknowledged = vec![false; packets.len()];
    loop {
        while next < packets.len() && dialed.window_left() > 0 {
            let (packet, recoverable) = packets[next].clone();
            dialed.send(SendToken(next as u64), packet, recoverable).expect("there is room in the window");
            next += 1;
        }
        if acknowledged.iter().all(|&it| it) {
            return Ok(());
        }
        match dialed.acknowledged().await {
            Ok(tokens) => tokens.iter().for_each(|token| acknowledged[token.0 as usize] = true),
            Err(error) => return Err((acknowledged.iter().take_while(|&&it| it).count(), error)),
        }
    }
}

/// Sends messages over a session of their own.
pub(crate) fn deliver(address: SocketAddr, messages: &[UserMessage]) {
    let packets: Vec<_> = messages.iter().map(|message| (encoded(message), message.is_recoverable())).collect();
    runtime().block_on(async {
        let mut dialed = connect(address).await.unwrap();
        let sending = tokio::time::timeout(Duration::from_secs(60), send_all(&mut dialed, &packets));
        sending.await.expect("acknowledged in time").unwrap();
        dialed.close().await;
    });
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A connection that sends what the test says.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// A session after its handshake.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address);
        let mut packet = BytesMut::new();
        EstablishConnection::request(source(), Guid::NULL, 1, false).encode(&mut packet);
        raw.write(&packet);
        raw.read(EstablishConnection::PACKET_SIZE);
        packet.clear();
        ConnectionParameters::new(500, 20_000, 64).encode(&mut packet);
        raw.write(&packet);
        raw.read(ConnectionParameters::PACKET_SIZE);
        raw
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the bridge closes the connection; what came before is of no interest.
    pub(crate) fn wait_for_close(&mut self) {
        let mut rest = [0; 1024];
        loop {
            match self.0.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
                Err(error) => panic!("the bridge did not close the connection: {error}"),
            }
        }
    }
}
