mod parse;

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

impl FormatName {
    /// Reads a multiple-element format name: one or more, separated by commas (MS-MQMQ 2.1.7).
    ///
    /// # Errors
    /// Names the element that is wrong.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, FormatNameError> {
        parse::list(text)
    }

    /// Reads the text of a direct name as it stands in a packet, without `DIRECT=`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse_direct(text: &str) -> Result<DirectName, FormatNameError> {
        parse::direct(text).map_err(|why| FormatNameError { text: text.to_owned(), why })
    }

    /// Whether nobody can send to it: a journal or a dead-letter queue.
    pub const fn is_read_only(&self) -> bool {
        match self {
            Self::Direct(name) => match &name.queue {
                QueuePath::Private { suffix, .. } | QueuePath::Public { suffix, .. } => {
                    QueueSuffix::is_journal(suffix.as_ref())
                }
                QueuePath::System(_) => true,
            },
            Self::Public { suffix, .. } | Self::Private { suffix, .. } => QueueSuffix::is_journal(suffix.as_ref()),
            Self::Machine { .. } => true,
            Self::DistributionList { .. } | Self::Connector { .. } | Self::Multicast { .. } => false,
        }
    }
}

impl FromStr for FormatName {
    type Err = FormatNameError;

    fn from_str(text: &str) -> Result<Self, FormatNameError> {
        parse::format_name(text).map_err(|why| FormatNameError { text: text.to_owned(), why })
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(name) => write!(f, "DIRECT={name}"),
            Self::Public { queue, suffix } => {
                write!(f, "PUBLIC={queue:X}")?;
                QueueSuffix::write(suffix.as_ref(), Case::Upper, f)
            }
            Self::Private { machine, id, suffix } => {
                write!(f, "PRIVATE={machine:X}\\{id:08X}")?;
                QueueSuffix::write(suffix.as_ref(), Case::Upper, f)
            }
            Self::DistributionList { list, domain: None } => write!(f, "DL={list:X}"),
            Self::DistributionList { list, domain: Some(domain) } => write!(f, "DL={list:X}@{domain}"),
            Self::Machine { machine, queue } => write!(f, "MACHINE={machine:X};{}", queue.keyword(Case::Upper)),
            Self::Connector { site, transactional: false } => write!(f, "CONNECTOR={site:X}"),
            Self::Connector { site, transactional: true } => write!(f, "CONNECTOR={site:X};XACTONLY"),
            Self::Multicast { address, port } => write!(f, "MULTICAST={address}:{port}"),
        }
    }
}

/// The text on the wire, without `DIRECT=`: `OS:host\private$\name`, `HTTP://host/msmq/private$/name`.
impl fmt::Display for DirectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slashes, separator) = if self.protocol.is_url() { ("//", '/') } else { ("", '\\') };
        write!(f, "{}:{slashes}{}{separator}", self.protocol, self.address)?;
        self.queue.write(separator, Case::Upper, f)
    }
}

impl Protocol {
    /// Whether the machine is named by a URL.
    pub const fn is_url(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Os => "OS",
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Ipx => "IPX",
            Self::Spx => "SPX",
        })
    }
}

impl FromStr for QueuePath {
    type Err = FormatNameError;

    fn from_str(text: &str) -> Result<Self, FormatNameError> {
        parse::queue_path(text, false).map_err(|why| FormatNameError { text: text.to_owned(), why })
    }
}

/// `private$\name`, `name`, `system$;…`.
impl fmt::Display for QueuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write('\\', Case::Lower, f)
    }
}

/// How keywords are written: in upper case in format names, in lower case where operators read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
}

impl QueuePath {
    fn write(&self, separator: char, keywords: Case, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, suffix) = match self {
            Self::Private { name, suffix } => {
                write!(f, "private${separator}")?;
                (name, suffix)
            }
            Self::Public { name, suffix } => (name, suffix),
            Self::System(queue) => return write!(f, "system$;{}", queue.keyword(keywords)),
        };
        f.write_str(name)?;
        QueueSuffix::write(suffix.as_ref(), keywords, f)
    }
}

impl QueueSuffix {
    const fn is_journal(suffix: Option<&Self>) -> bool {
        matches!(suffix, Some(Self::Journal))
    }

    fn write(suffix: Option<&Self>, keywords: Case, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match suffix {
            None => Ok(()),
            Some(Self::Journal) => write!(f, ";{}", SystemQueue::Journal.keyword(keywords)),
            Some(Self::SubQueue(name)) => write!(f, ";{name}"),
        }
    }
}

impl SystemQueue {
    const ALL: [Self; 3] = [Self::Journal, Self::DeadLetter, Self::TransactionalDeadLetter];

    const fn keyword(self, case: Case) -> &'static str {
        match (self, case) {
            (Self::Journal, Case::Upper) => "JOURNAL",
            (Self::Journal, Case::Lower) => "journal",
            (Self::DeadLetter, Case::Upper) => "DEADLETTER",
            (Self::DeadLetter, Case::Lower) => "deadletter",
            (Self::TransactionalDeadLetter, Case::Upper) => "DEADXACT",
            (Self::TransactionalDeadLetter, Case::Lower) => "deadxact",
        }
    }
}

#[cfg(test)]
mod tests;
