use super::{ConnectionParameters, EstablishConnection, Frame, Malformed, SessionAck, UserMessage};

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
        let _ = frame;
        todo!()
    }
}
