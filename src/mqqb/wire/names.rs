use std::fmt;
use std::str::FromStr;

use super::Guid;

/// The name of a queue as applications write it (MS-MQMQ 2.1.2 to 2.1.7), apart from any packet.
///
/// Compared exactly; what counts as the same queue is decided by whoever hosts it. `Display` prints the canonical
/// text, GUIDs in upper case, and `FromStr` reads any case and spelling of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FormatName {
    /// `DIRECT=…`
    Direct(DirectName),
    /// `PUBLIC=guid`, with `;JOURNAL` or not.
    Public {
        /// The queue's identifier in the directory.
        queue: Guid,
        /// A suffix, when there is one.
        suffix: Option<QueueSuffix>,
    },
    /// `PRIVATE=guid\number`
    Private {
        /// The machine that hosts it.
        machine: Guid,
        /// The queue's number there, hexadecimal in the text.
        id: u32,
        /// A suffix, when there is one.
        suffix: Option<QueueSuffix>,
    },
    /// `DL=guid[@domain]`
    DistributionList {
        /// The list's identifier in the directory.
        list: Guid,
        /// Its domain.
        domain: Option<String>,
    },
    /// `MACHINE=guid;…`
    Machine {
        /// The machine.
        machine: Guid,
        /// Which of its queues.
        queue: SystemQueue,
    },
    /// `CONNECTOR=guid`
    Connector {
        /// The foreign site.
        site: Guid,
        /// The transactional one (`;XACTONLY`) or not.
        transactional: bool,
    },
    /// `MULTICAST=address:port`
    Multicast {
        /// An address from 224.0.0.0 to 239.255.255.255.
        address: std::net::Ipv4Addr,
        /// The port.
        port: u16,
    },
}

/// What follows `DIRECT=` (MS-MQMQ 2.1.2): protocol, machine, queue. The queue part is opaque after the first
/// backslash, except for the known prefixes and suffixes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirectName {
    /// `TCP`, `OS`, …
    pub protocol: Protocol,
    /// The machine: a name for OS, an address for TCP, a URL's host and path for HTTP.
    pub address: String,
    /// The queue on it.
    pub queue: QueuePath,
}

/// The protocol of a direct name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// By IP address.
    Tcp,
    /// By computer name.
    Os,
    /// By URL.
    Http,
    /// By URL.
    Https,
    /// By IPX address; read, never used.
    Ipx,
    /// By SPX address; read, never used.
    Spx,
}

/// A queue on a machine: the part of a path name after the computer (MS-MQMQ 2.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueuePath {
    /// `private$\name`
    Private {
        /// The queue's name, as it was written.
        name: String,
        /// `;journal` or a sub-queue.
        suffix: Option<QueueSuffix>,
    },
    /// `name`
    Public {
        /// The queue's name, as it was written.
        name: String,
        /// `;journal` or a sub-queue.
        suffix: Option<QueueSuffix>,
    },
    /// `system$;…`
    System(SystemQueue),
}

/// What follows a queue's name after a semicolon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueSuffix {
    /// The queue's journal.
    Journal,
    /// A sub-queue, up to 32 characters.
    SubQueue(String),
}

/// A machine's own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemQueue {
    /// `JOURNAL`
    Journal,
    /// `DEADLETTER`
    DeadLetter,
    /// `DEADXACT`
    TransactionalDeadLetter,
}

/// Text that is not a format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a format name: {why}")]
pub struct FormatNameError {
    /// The text.
    pub text: String,
    /// What is wrong with it, and what is expected.
    pub why: &'static str,
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}

impl FromStr for FormatName {
    type Err = FormatNameError;

    fn from_str(text: &str) -> Result<Self, FormatNameError> {
        let _ = text;
        todo!()
    }
}

/// `private$\name`, `name`, `system$;…`.
impl fmt::Display for QueuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}

impl FromStr for QueuePath {
    type Err = FormatNameError;

    fn from_str(text: &str) -> Result<Self, FormatNameError> {
        let _ = text;
        todo!()
    }
}

impl FormatName {
    /// Reads a multiple-element format name: one or more, separated by commas (MS-MQMQ 2.1.7).
    ///
    /// # Errors
    /// Names the element that is wrong.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, FormatNameError> {
        let _ = text;
        todo!()
    }

    /// Reads the text of a direct name as it stands in a packet, without `DIRECT=`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse_direct(text: &str) -> Result<DirectName, FormatNameError> {
        let _ = text;
        todo!()
    }
}
