use bytes::BytesMut;

use super::reader::Reader;
use super::{
    BaseHeader, ConnectionParameters, EstablishConnection, Frame, InternalHeader, Malformed, SessionAck, UserMessage,
};

/// What a frame means (MS-MQQB 3.1.5.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Opens a session, or answers.
    Establish(EstablishConnection),
    /// The session's time-outs and window, or the answer.
    Parameters(ConnectionParameters),
    /// A stand-alone session acknowledgment.
    SessionAck(SessionAck),
    /// A message of any kind.
    User(Box<UserMessage>),
}

/// The kinds of user message that the protocol itself tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKind {
    /// For a queue: an application's message or an acknowledgment message.
    Message,
    /// In-order acknowledgment of transactional messages.
    OrderAck,
    /// Final acknowledgment of a transactional message.
    FinalAck,
}

impl Packet {
    /// Reads a packet from its frame.
    ///
    /// # Errors
    /// Names the field that does not conform: the session is to be closed.
    pub fn decode(frame: &Frame) -> Result<Self, Malformed> {
        let base = frame.base();
        if !base.has(BaseHeader::INTERNAL) {
            return UserMessage::decode(frame).map(|message| Self::User(Box::new(message)));
        }
        let mut reader = Reader::new(frame.bytes(), BaseHeader::SIZE, frame.bytes().len());
        let (internal, packet_type) = InternalHeader::decode(base, &mut reader)?;
        match packet_type {
            InternalHeader::SESSION_ACK => {
                SessionAck::decode(internal, frame.packet_size(), &mut reader).map(Self::SessionAck)
            }
            InternalHeader::ESTABLISH_CONNECTION => {
                EstablishConnection::decode(internal, &mut reader).map(Self::Establish)
            }
            InternalHeader::CONNECTION_PARAMETERS => {
                ConnectionParameters::decode(internal, &mut reader).map(Self::Parameters)
            }
            other => Err(Malformed::value("InternalHeader.Flags.PT", u64::from(other))),
        }
    }

    /// Appends the packet to `out`: exactly the bytes it was decoded from, when it was.
    ///
    /// # Errors
    /// As [`UserMessage::encode`]; other packets always encode.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        match self {
            Self::Establish(packet) => packet.encode(out),
            Self::Parameters(packet) => packet.encode(out),
            Self::SessionAck(packet) => packet.encode(out),
            Self::User(message) => return message.encode(out),
        }
        Ok(())
    }

    /// The packet's name in the specification, such as `EstablishConnection`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Establish(_) => "EstablishConnection",
            Self::Parameters(_) => "ConnectionParameters",
            Self::SessionAck(_) => "SessionAck",
            Self::User(_) => "UserMessage",
        }
    }
}
