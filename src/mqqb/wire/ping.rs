use super::Guid;

/// "Would you accept a session?", and the answer (MS-MQQB 2.2.7). Travels by UDP, port 3527.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The 16 flag bits as they came; unused ones are arbitrary.
    pub flags: u16,
    /// Ties the answer to the question.
    pub cookie: u32,
    /// The queue manager that made the packet.
    pub queue_manager: Guid,
}

impl Ping {
    /// Size on the wire.
    pub const SIZE: usize = 2 /* Flags */ + 2 /* Signature */ + 4 /* Cookie */ + 16 /* QMGuid */;
    /// Flags.RC: the initiator is not a server system.
    pub const NOT_A_SERVER: u16 = 1;
    /// Flags.RF: a session would be refused.
    pub const REFUSED: u16 = 1 << 1;

    /// Reads a datagram; `None` for what is no ping, which is dropped without an answer.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let _ = datagram;
        todo!()
    }

    /// The datagram.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        todo!()
    }

    /// The answer of the queue manager `own`.
    pub fn response(&self, own: Guid, refused: bool) -> Self {
        let _ = (own, refused);
        todo!()
    }
}
