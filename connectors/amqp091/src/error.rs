use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

use crate::BrokerUri;

/// What is wrong with a connector's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No address to connect to.
    #[error("uris is empty: name at least one broker")]
    NoUri,
    /// A certificate without its key, or the other way round.
    #[error("tls.cert_file and tls.key_file belong together: set both or none")]
    HalfIdentity,
    /// Certificates that no address asks for.
    #[error("tls files are set, but no URI begins with amqps://")]
    UnusedTls,
    /// Login by certificate without one, or without TLS.
    #[error("auth_mechanism=external logs in by certificate: it needs an amqps:// URI, tls.cert_file and tls.key_file")]
    NoCertificateForLogin,
}

/// Why one attempt to connect failed, in a sentence that names the peer and the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{peer}: the host name can't be resolved ({source}); check the spelling and the resolver")]
    Resolve { peer: String, source: io::Error },
    #[error("{peer} refuses connections; is the broker running there, and listening on this port?")]
    Refused { peer: String },
    #[error("{peer} can't be reached: {source}")]
    Unreachable { peer: String, source: io::Error },
    #[error("{peer}: no answer to {stage} within {} s; is the broker overloaded, or something else listening there?", limit.as_secs_f32())]
    Silent { peer: String, stage: Stage, limit: Duration },
    #[error("{path} can't be read: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{path} holds no usable {what}: {reason}", path = path.display())]
    Pem { path: PathBuf, what: &'static str, reason: String },
    #[error("the certificates can't be used: {0}")]
    Certificates(io::Error),
    #[error("{peer}: TLS failed: {reason}; {remedy}")]
    Tls { peer: String, reason: String, remedy: &'static str },
    #[error("{peer} refuses the login of user {user:?}; check user name, password and the user's rights ({reason})")]
    Login { peer: String, user: String, reason: String },
    #[error(
        "{peer} does not accept login by certificate ({reason}); enable rabbitmq_auth_mechanism_ssl there, add EXTERNAL to its auth_mechanisms, and let the certificate name a user"
    )]
    CertificateLogin { peer: String, reason: String },
    #[error(
        "{peer} has no virtual host {name:?} for user {user:?}; the default one is written /%2f in the URI ({reason})"
    )]
    VirtualHost { peer: String, name: String, user: String, reason: String },
    #[error("{peer} ends the handshake ({reason}); {hint}")]
    Handshake { peer: String, reason: String, hint: &'static str },
    #[error("{peer}: {reason}")]
    Other { peer: String, reason: String },
}

/// How far an attempt had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Resolving,
    Connecting,
    Tls,
    Handshake,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Resolving => "the host name's lookup",
            Self::Connecting => "the TCP connection",
            Self::Tls => "the TLS handshake",
            Self::Handshake => "the AMQP handshake",
        })
    }
}

impl ConnectError {
    pub(crate) fn from_connect(peer: &str, source: io::Error) -> Self {
        let peer = peer.to_owned();
        match source.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused { peer },
            _ => Self::Unreachable { peer, source },
        }
    }

    pub(crate) fn from_tls(peer: &str, source: &io::Error) -> Self {
        let reason = source.to_string();
        let remedy = if reason.contains("UnknownIssuer") || reason.contains("BadSignature") {
            "tls.ca_file does not hold the authority that signed the broker's certificate"
        } else if reason.contains("not valid for name") || reason.contains("NotValidForName") {
            "the certificate is for another host: use its name in the URI"
        } else if reason.contains("Expired") || reason.contains("NotValidYet") {
            "check the certificate's dates and this machine's clock"
        } else if reason.contains("InvalidContentType") || reason.contains("corrupt message") {
            "is this the broker's TLS port?"
        } else {
            "check tls.ca_file, the host name in the URI, and the port"
        };
        Self::Tls { peer: peer.to_owned(), reason, remedy }
    }

    /// What lapin reports of the AMQP handshake, made with a client certificate or without.
    pub(crate) fn from_handshake(uri: &BrokerUri, with_certificate: bool, error: &lapin::Error) -> Self {
        let (peer, user, reason) = (uri.endpoint(), uri.user().to_owned(), describe(error));
        match error.kind() {
            ErrorKind::ProtocolError(refusal) => match refusal.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if uri.logs_in_by_certificate() => {
                    Self::CertificateLogin { peer, reason }
                }
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => Self::Login { peer, user, reason },
                AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED | AMQPHardError::INVALIDPATH) => {
                    Self::VirtualHost { peer, name: uri.virtual_host().to_owned(), user, reason }
                }
                _ => Self::Other { peer, reason },
            },
            ErrorKind::IOError(source) if source.to_string().contains("CertificateRequired") => {
                let remedy = "the broker asks for a client certificate: set tls.cert_file and tls.key_file";
                Self::Tls { peer, reason: source.to_string(), remedy }
            }
            ErrorKind::IOError(source) if source.to_string().contains("alert") => {
                let remedy = "the broker does not accept tls.cert_file: check who signed it";
                Self::Tls { peer, reason: source.to_string(), remedy }
            }
            // RabbitMQ hangs up on a mechanism that it does not know.
            ErrorKind::IOError(_) if uri.logs_in_by_certificate() => Self::CertificateLogin { peer, reason },
            ErrorKind::IOError(_) | ErrorKind::ParsingError(_) | ErrorKind::InvalidProtocolVersion(_) => {
                // The alert that says so is easily lost with the connection.
                let hint = match (uri.is_tls(), with_certificate) {
                    (true, false) => "if it asks for a client certificate, set tls.cert_file and tls.key_file",
                    (true, true) => "does it accept tls.cert_file, and is AMQP 0-9-1 spoken on this port?",
                    (false, _) => "is AMQP 0-9-1 spoken on this port, and without TLS?",
                };
                Self::Handshake { peer, reason, hint }
            }
            _ => Self::Other { peer, reason },
        }
    }
}

/// What lapin reports, in the broker's or the system's words and without lapin's wrapping.
pub(crate) fn describe(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => format!("{} {}", refusal.get_id(), refusal.get_message()),
        // What lapin calls the end of the stream.
        ErrorKind::IOError(source) if source.kind() == io::ErrorKind::ConnectionAborted => {
            "the broker closed the connection".to_owned()
        }
        ErrorKind::IOError(source) => source.to_string(),
        ErrorKind::MissingHeartbeatError => "the broker is silent: no heartbeat for twice the agreed time".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether an error only says that something failed before.
pub(crate) fn is_aftermath(error: &lapin::Error) -> bool {
    use ErrorKind::{InvalidChannel, InvalidChannelState, InvalidConnectionState};
    matches!(error.kind(), InvalidChannel(_) | InvalidChannelState(..) | InvalidConnectionState(_))
}
