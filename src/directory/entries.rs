use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use bytes::Bytes;
use md5::{Digest, Md5};

use crate::config::queue_name::check_name;
use crate::mqqb::wire::{Guid, QueuePath, Sid};
use crate::security::PublicKey;

/// A user (`User`, MS-MQDMPR 3.1.1.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Who it is.
    pub sid: Sid,
    /// `DOMAIN\name`.
    pub name: String,
    /// The groups it is in, by name.
    pub groups: Vec<String>,
    /// The groups it is in that are known by their SID.
    pub group_sids: Vec<Sid>,
    /// The certificates that are registered for it, DER.
    pub certificates: Vec<Bytes>,
}

/// A machine with a queue manager (`QueueManager`, MS-MQDMPR 3.1.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The queue manager's identifier.
    pub guid: Guid,
    /// The computer name.
    pub name: String,
    /// Where it can be reached, the best first. May be empty: its name is an address too.
    pub addresses: Vec<MachineAddress>,
    /// What is encrypted for it is encrypted with these.
    pub keys: PublicKeys,
    /// The certificates that it signs with, DER.
    pub certificates: Vec<Bytes>,
}

/// The public keys of a machine, one for each cryptographic provider of Windows (`PublicEncryptionKeyList`,
/// MS-MQDMPR 3.1.1.1). Absent where the machine has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicKeys {
    /// For the base provider.
    pub base: Option<PublicKey>,
    /// For the enhanced provider.
    pub enhanced: Option<PublicKey>,
    /// For the provider with AES.
    pub aes: Option<PublicKey>,
}

impl PublicKeys {
    /// One key for all providers.
    pub fn all(key: PublicKey) -> Self {
        Self { base: Some(key.clone()), enhanced: Some(key.clone()), aes: Some(key) }
    }

    /// Those that there are, with the provider's name in the configuration.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &PublicKey)> {
        let all = [("base", &self.base), ("enhanced", &self.enhanced), ("aes", &self.aes)];
        all.into_iter().filter_map(|(name, key)| Some((name, key.as_ref()?)))
    }
}

/// A queue (`Queue`, MS-MQDMPR 3.1.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Where it is.
    pub path: PathName,
    /// Its identifier, for `PUBLIC=`.
    pub guid: Option<Guid>,
    /// Its number on its machine, for `PRIVATE=`.
    pub private_id: Option<u32>,
    /// Who may send to it. `None`: the directory says nothing of that.
    pub access: Option<Vec<Trustee>>,
}

/// Somebody who may send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trustee {
    /// All senders, those without a sender id too.
    Everyone,
    /// A user, or the members of a group.
    Sid(Sid),
    /// The members of a group, by its name.
    Group(String),
}

/// `everyone`, the SID, or the group's name.
impl fmt::Display for Trustee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Sid(sid) => sid.fmt(f),
            Self::Group(name) => f.write_str(name),
        }
    }
}

/// The MD5 hash of a certificate in DER, by which directories list it (`CertificateDigestList`, MS-MQDMPR 3.1.1.15). It
/// finds a certificate and proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateDigest(pub [u8; 16]);

/// The digest of a certificate in DER.
pub fn digest(certificate: &[u8]) -> CertificateDigest {
    CertificateDigest(Md5::digest(certificate).into())
}

/// Hexadecimal.
impl fmt::Display for CertificateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CertificateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a machine can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineAddress {
    /// Its address, or a name to be resolved.
    pub host: Host,
    /// The port, where it is not 1801.
    pub port: Option<u16>,
}

/// An IP address or a host name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name.
    Name(String),
}

/// Text that is not the address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an IP address or a host name, with or without a port, is expected, such as 10.1.2.3, 10.1.2.3:1801 or win01.corp.example"
)]
pub struct NotAMachineAddress(());

impl FromStr for MachineAddress {
    type Err = NotAMachineAddress;

    fn from_str(text: &str) -> Result<Self, NotAMachineAddress> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse() {
            return Ok(Self { host: Host::Ip(ip), port: None });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            let port = Some(address.port()).filter(|port| *port > 0).ok_or(NotAMachineAddress(()))?;
            return Ok(Self { host: Host::Ip(address.ip()), port: Some(port) });
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => {
                let port = port.parse().ok().filter(|port: &u16| *port > 0).ok_or(NotAMachineAddress(()))?;
                (name, Some(port))
            }
            None => (text, None),
        };
        if !is_host_name(name) {
            return Err(NotAMachineAddress(()));
        }
        Ok(Self { host: Host::Name(name.to_owned()), port })
    }
}

/// As it is written in the file.
impl fmt::Display for MachineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Ip(ip), None) => ip.fmt(f),
            (Host::Ip(ip), Some(port)) => SocketAddr::new(*ip, port).fmt(f),
            (Host::Name(name), None) => f.write_str(name),
            (Host::Name(name), Some(port)) => write!(f, "{name}:{port}"),
        }
    }
}

/// Whether this can be the name of a computer. Four numbers with dots are meant to be an address.
pub(super) fn is_host_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && !name.starts_with(['.', '-'])
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'))
        && name.chars().any(|letter| !letter.is_ascii_digit() && letter != '.')
}

/// A queue of a machine: `machine\queue` or `machine\private$\queue` (MS-MQMQ 2.1.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathName {
    /// The computer name.
    pub machine: String,
    /// The queue there.
    pub queue: QueuePath,
}

impl PathName {
    /// The text by which two path names are told apart.
    pub fn identity(&self) -> String {
        self.to_string().to_lowercase()
    }

    /// Whether the queue is private, which has a number on its machine and no identifier of its own.
    pub const fn is_private(&self) -> bool {
        matches!(self.queue, QueuePath::Private { .. })
    }
}

/// Text that is not a path name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a machine and its queue are expected, such as 'bridge01\\orders' or 'bridge01\\private$\\orders'")]
pub struct NotAPathName(());

impl FromStr for PathName {
    type Err = NotAPathName;

    fn from_str(text: &str) -> Result<Self, NotAPathName> {
        let (machine, queue) = text.split_once('\\').ok_or(NotAPathName(()))?;
        if !is_host_name(machine) {
            return Err(NotAPathName(()));
        }
        let queue: QueuePath = queue.parse().map_err(|_| NotAPathName(()))?;
        match &queue {
            QueuePath::Private { name, suffix: None } | QueuePath::Public { name, suffix: None }
                if check_name(name).is_ok() =>
            {
                Ok(Self { machine: machine.to_owned(), queue })
            }
            _ => Err(NotAPathName(())),
        }
    }
}

impl fmt::Display for PathName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\\{}", self.machine, self.queue)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn addresses_print_as_they_are_written() {
        for text in ["10.1.2.3", "10.1.2.3:1802", "fd00::1", "[fd00::1]:1802", "win01", "win01.corp.example:1802"] {
            assert_eq!(text.parse::<MachineAddress>().unwrap().to_string(), text);
        }
        let bracketed: MachineAddress = "[fd00::1]".parse().unwrap();
        assert_eq!(bracketed, MachineAddress { host: Host::Ip("fd00::1".parse().unwrap()), port: None });
        for text in
            ["", "10.1.2", "10.1.2.256", "10.1.2.3:0", "win01:", "win01:x", "win 01", "http://win01", r"win01\q"]
        {
            assert!(text.parse::<MachineAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn path_names_name_their_machine() {
        let path = |text: &str| text.parse::<PathName>();
        assert_eq!(path(r"Bridge01\PRIVATE$\Orders").unwrap().identity(), r"bridge01\private$\orders");
        assert!(path(r"bridge01\private$\orders").unwrap().is_private());
        assert!(!path(r"bridge01\orders").unwrap().is_private());
        for text in [
            "orders",
            r"private$\orders",
            r"\orders",
            r"bridge01\",
            r"bridge01\orders;journal",
            r"b\a\c",
            r"b\private$\a\c",
            r"b\a,c",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
    }
}
