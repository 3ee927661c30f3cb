use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};

const AMQP_PORT: u16 = 5672;
const AMQPS_PORT: u16 = 5671;

/// The address of a broker with what is needed to log in there. It never prints the credentials: `Display` and
/// `Debug` leave them out, and so do the errors of parsing.
///
/// `amqp://user:password@host:port/vhost?heartbeat=10`, or `amqps://` for TLS. Reserved characters in the parts are
/// percent-encoded; no path at all is the virtual host `/`, which is `/%2f` in full, while a path of one slash is the
/// virtual host with the empty name. Query parameters: `heartbeat` (seconds), `frame_max` (bytes), `channel_max`,
/// `auth_mechanism` (`plain`, `external`, `amqplain`, `anonymous`).
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerUri {
    tls: bool,
    user: String,
    password: String,
    host: String,
    port: u16,
    virtual_host: String,
    heartbeat: Option<u16>,
    frame_max: Option<u32>,
    channel_max: Option<u16>,
    mechanism: Option<SASLMechanism>,
}

/// What is wrong with a broker's URI. Says nothing of its credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// Neither `amqp://` nor `amqps://`.
    #[error("it must begin with amqp:// or amqps://")]
    Scheme,
    /// No host between the slashes.
    #[error("it names no host")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("the port {0:?} is not a number from 1 to 65535")]
    Port(String),
    /// A percent sign that is not followed by two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the {0} is not properly percent-encoded: a \"%\" in it is written %25, \"@\" %40, \"/\" %2F, \"?\" %3F")]
    Encoding(&'static str),
    /// A path of several parts.
    #[error("the path is the name of the virtual host: write a slash in it as %2f")]
    Path,
    /// A query parameter that means nothing here.
    #[error(
        "unknown parameter {0:?}; known are heartbeat, frame_max, channel_max and auth_mechanism, certificates are set in tls"
    )]
    Parameter(String),
    /// A query parameter with a value that it can't have.
    #[error("parameter {name} can't be {value:?}")]
    Value {
        /// The parameter.
        name: String,
        /// What it was set to.
        value: String,
    },
}

impl BrokerUri {
    /// Whether the connection is encrypted.
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// User name.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Name of the virtual host.
    pub fn virtual_host(&self) -> &str {
        &self.virtual_host
    }

    /// Whether the certificate is the login.
    pub(crate) fn logs_in_by_certificate(&self) -> bool {
        self.mechanism == Some(SASLMechanism::External)
    }

    /// `host:port`, for sentences.
    pub(crate) fn endpoint(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// What lapin is told. TLS is not its business: this crate makes the connection.
    pub(crate) fn to_lapin(&self, heartbeat: Duration) -> AMQPUri {
        let configured = heartbeat.as_secs().clamp(1, u64::from(u16::MAX)) as u16;
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: self.user.clone(), password: self.password.clone() },
                host: self.host.clone(),
                port: self.port,
            },
            vhost: self.virtual_host.clone(),
            query: AMQPQueryString {
                frame_max: self.frame_max,
                channel_max: self.channel_max,
                heartbeat: Some(self.heartbeat.unwrap_or(configured)),
                connection_timeout: None,
                auth_mechanism: self.mechanism,
            },
        }
    }
}

/// Without credentials.
impl fmt::Display for BrokerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "amqps" } else { "amqp" };
        write!(f, "{scheme}://{}/{}", self.endpoint(), encode(&self.virtual_host))
    }
}

/// Without credentials.
impl fmt::Debug for BrokerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrokerUri({self})")
    }
}

impl FromStr for BrokerUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (tls, rest) = match text.split_once("://") {
            Some(("amqp", rest)) => (false, rest),
            Some(("amqps", rest)) => (true, rest),
            _ => return Err(UriError::Scheme),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(before, after)| (before, Some(after)));
        let (login, endpoint) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = split_endpoint(endpoint)?;
        let default = |text: &str, part| if text.is_empty() { Ok("guest".to_owned()) } else { decode(text, part) };
        let mut uri = Self {
            tls,
            user: default(user, "user name")?,
            password: default(password, "password")?,
            host: decode(host, "host")?,
            port: port.unwrap_or(if tls { AMQPS_PORT } else { AMQP_PORT }),
            virtual_host: match path {
                None => "/".to_owned(),
                Some(path) if path.contains('/') => return Err(UriError::Path),
                Some(path) => decode(path, "virtual host")?,
            },
            heartbeat: None,
            frame_max: None,
            channel_max: None,
            mechanism: None,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            uri.set(name, value)?;
        }
        Ok(uri)
    }
}

impl BrokerUri {
    fn set(&mut self, name: &str, value: &str) -> Result<(), UriError> {
        let wrong = || UriError::Value { name: name.to_owned(), value: value.to_owned() };
        match name {
            // Without heartbeats a connection that has died unseen is never noticed.
            "heartbeat" => self.heartbeat = Some(value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            // The smallest that the protocol allows; everything lower, 0 included, would break on the first long header.
            "frame_max" => self.frame_max = Some(value.parse().ok().filter(|n| *n >= 4096).ok_or_else(wrong)?),
            "channel_max" => self.channel_max = Some(value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            "auth_mechanism" => self.mechanism = Some(value.parse().map_err(|_| wrong())?),
            _ => return Err(UriError::Parameter(name.to_owned())),
        }
        Ok(())
    }
}

fn split_endpoint(endpoint: &str) -> Result<(&str, Option<u16>), UriError> {
    let (host, port) = match endpoint.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or(UriError::Host)?;
            (host, rest.strip_prefix(':'))
        }
        None => endpoint.split_once(':').map_or((endpoint, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(UriError::Host);
    }
    let number = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(UriError::Port(text.to_owned())),
    };
    Ok((host, port.map(number).transpose()?))
}

fn decode(text: &str, part: &'static str) -> Result<String, UriError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
            let (Some(high), Some(low)) = (digit(), digit()) else { return Err(UriError::Encoding(part)) };
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| UriError::Encoding(part))
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend([byte >> 4, byte & 0xF].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default()));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

    use super::*;

    fn parse(text: &str) -> BrokerUri {
        text.parse().unwrap()
    }

    #[test]
    fn all_parts_are_read() {
        let uri = parse("amqps://us%65r:p%40ss%2fw@rabbit.example:1234/v%2Fhost?heartbeat=7&auth_mechanism=external");
        assert!(uri.is_tls() && uri.logs_in_by_certificate());
        assert_eq!((uri.user(), uri.password.as_str()), ("user", "p@ss/w"));
        assert_eq!((uri.host(), uri.port(), uri.virtual_host()), ("rabbit.example", 1234, "v/host"));
        let told = uri.to_lapin(Duration::from_secs(10));
        assert_eq!(told.query.heartbeat, Some(7), "the URI's own goes before the configured one");
        assert_eq!(told.authority.userinfo.password, "p@ss/w");
    }

    #[test]
    fn what_is_left_out_has_the_usual_value() {
        let uri = parse("amqp://localhost");
        assert_eq!((uri.user(), uri.password.as_str(), uri.port()), ("guest", "guest", 5672));
        assert_eq!(uri.virtual_host(), "/");
        assert_eq!(uri.to_lapin(Duration::from_secs(10)).query.heartbeat, Some(10));
        assert_eq!(parse("amqps://localhost").port(), 5671);
        assert_eq!(parse("amqp://localhost/").virtual_host(), "", "as the broker's own rules say");
        assert_eq!(parse("amqp://localhost/%2F").virtual_host(), "/");
    }

    #[test]
    fn an_ipv6_address_is_a_host() {
        let uri = parse("amqp://[::1]:5673/%2f");
        assert_eq!((uri.host(), uri.port()), ("::1", 5673));
        assert_eq!(uri.to_string(), "amqp://[::1]:5673/%2f");
        assert_eq!("amqp://[::1".parse::<BrokerUri>(), Err(UriError::Host));
    }

    #[test]
    fn credentials_are_never_printed() {
        let secret = "amqp://someone:hunter2@rabbit.example/sales?heartbeat=5";
        let uri = parse(secret);
        assert_eq!(uri.to_string(), "amqp://rabbit.example:5672/sales");
        assert_eq!(format!("{uri:?}"), "BrokerUri(amqp://rabbit.example:5672/sales)");
        let broken = [
            "rabbit://someone:hunter2@rabbit.example",
            "amqp://someone:hunter2%@rabbit.example",
            "amqp://someone:hunter2@",
            "amqp://someone:hunter2@rabbit.example:port",
            "amqp://someone:hunter2@rabbit.example/a/b",
            "amqp://someone:hunter2@rabbit.example/a?heartbeat=soon",
            "amqp://someone:hunter2@rabbit.example/a?cacertfile=x",
            "someone:hunter2@rabbit.example",
        ];
        for text in broken {
            let error = text.parse::<BrokerUri>().unwrap_err();
            for shown in [error.to_string(), format!("{error:?}")] {
                assert!(!shown.contains("hunter2") && !shown.contains("someone"), "{shown}");
            }
        }
    }

    #[test]
    fn values_that_would_break_the_connection_are_refused() {
        for query in
            ["heartbeat=0", "heartbeat=70000", "frame_max=0", "frame_max=100", "channel_max=0", "auth_mechanism=x"]
        {
            let outcome = format!("amqp://localhost/%2f?{query}").parse::<BrokerUri>();
            assert!(matches!(outcome, Err(UriError::Value { .. })), "{query}: {outcome:?}");
        }
        for port in ["0", "65536", "x", ""] {
            let outcome = format!("amqp://localhost:{port}").parse::<BrokerUri>();
            assert_eq!(outcome, Err(UriError::Port(port.to_owned())));
        }
    }
}
