use std::path::PathBuf;
use std::time::Duration;

use crate::BrokerUri;

/// One configured RabbitMQ, or several nodes of one cluster.
#[derive(Clone, Debug)]
pub struct Amqp091Config {
    /// The connector's name in the configuration.
    pub name: String,
    /// Where the nodes are, tried in turn. At least one.
    pub uris: Vec<BrokerUri>,
    /// Certificates, for `amqps` URIs.
    pub tls: TlsFiles,
    /// How often each side shows that it is alive, in whole seconds from 1 to 65535; a URI's own `heartbeat` goes
    /// before it, and the broker may insist on a shorter one. A peer that is silent for two of them is given up, so
    /// that it takes up to 2½ until a frozen broker is noticed.
    pub heartbeat: Duration,
    /// The name shown in the broker's list of connections; the host's operators look for it there. The connection that
    /// consumes, and a short one that only looks, have it with ` (consuming)` and ` (probing)`.
    pub connection_name: String,
    /// How long one attempt to connect and log in may take.
    pub connect_timeout: Duration,
}

/// Certificates of a TLS connection, in PEM files. They are read at each attempt to connect, so that renewed ones are
/// taken without a restart.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// The authorities that may have signed the broker's certificate; the system's own when absent.
    pub ca_file: Option<PathBuf>,
    /// The certificate shown to the broker, with those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// The private key of `cert_file`.
    pub key_file: Option<PathBuf>,
}

impl Amqp091Config {
    /// With the usual values for all but name and addresses.
    pub fn new(name: impl Into<String>, uris: Vec<BrokerUri>) -> Self {
        let name = name.into();
        Self {
            connection_name: format!("mqbridge {name}"),
            name,
            uris,
            tls: TlsFiles::default(),
            heartbeat: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
        }
    }
}
