use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{self, FileUse};
use super::raw::{At, Section};

/// A foreign message system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectorConfig {
    /// `type = "amqp091"`: AMQP 0-9-1, which is RabbitMQ.
    Amqp091(Amqp091Config),
}

/// How to reach a RabbitMQ broker or cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amqp091Config {
    /// Where it is, and who we are there.
    pub uris: UriSource,
    /// Certificates for `amqps`.
    pub tls: TlsFiles,
    /// How often either side shows that it is alive; a peer that is silent for twice as long is gone.
    pub heartbeat: Duration,
    /// What the broker's management pages call the connection.
    pub connection_name: String,
}

/// Where the URIs of a broker are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriSource {
    /// In the configuration. Never empty.
    Given(Vec<AmqpUri>),
    /// In a file of their own, read at the start.
    File(PathBuf),
}

impl UriSource {
    /// The URIs, in the order in which they are tried.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the file.
    pub fn read(&self) -> Result<Vec<AmqpUri>, String> {
        match self {
            Self::Given(uris) => Ok(uris.clone()),
            Self::File(path) => AmqpUri::read_file(path),
        }
    }
}

/// Certificate files of a TLS connection, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that the broker's certificate may come from; the system's when absent.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and its key, when the broker asks for one.
    pub client: Option<ClientCertificate>,
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with its chain.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// An AMQP URI that was found to be well-formed. Holds a password, so that it prints without credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpUri(String);

impl AmqpUri {
    /// Checks the form: `amqp://user:password@host:port/vhost` or `amqps://…`.
    ///
    /// # Errors
    /// Says what is wrong without repeating any part that could be a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "amqp://user:password@host:5672/%2f is expected";
        let text = text.trim();
        let rest = text.strip_prefix("amqp://").or_else(|| text.strip_prefix("amqps://"));
        let Some(rest) = rest else {
            return Err(format!("not an AMQP URI; {FORM}"));
        };
        if text.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err("an AMQP URI holds no white space; write it as %20".to_owned());
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
        if credentials.contains('@') {
            return Err("an \"@\" in a user name or password is written %40".to_owned());
        }
        let (host, port) = match host_and_port.strip_prefix('[') {
            Some(ipv6) => ipv6.split_once(']').unwrap_or_default(),
            None => host_and_port.split_at(host_and_port.find(':').unwrap_or(host_and_port.len())),
        };
        if host.is_empty() {
            return Err(format!("an AMQP URI without a host; {FORM}"));
        }
        let port_is_fine = port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !port_is_fine {
            return Err(format!(
                "an AMQP URI with a port that is not a number from 1 to 65535; {FORM} (a \"/\" in a password is written %2F)"
            ));
        }
        let vhost = path.split_once('?').map_or(path, |(vhost, _)| vhost);
        if vhost.contains(['/', '@']) {
            let why = "a virtual host with \"/\" or \"@\" in it; in names and passwords they are written %2F and %40";
            return Err(why.to_owned());
        }
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        for (part, text) in [("user name", user), ("password", password), ("virtual host", vhost)] {
            if text.contains('?') {
                return Err(format!("the {part} of an AMQP URI has a \"?\", where parameters begin; write it as %3F"));
            }
            if text.split('%').skip(1).any(|rest| !is_escape(rest)) {
                return Err(format!("the {part} of an AMQP URI has a \"%\" that begins no escape; write it as %25"));
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a file with one URI a line; empty lines and those that begin with `#` don't count.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the file.
    pub fn read_file(path: &Path) -> Result<Vec<Self>, String> {
        let text = files::read(path).map_err(|why| format!("{} {why}", path.display()))?;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let uris = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| Self::parse(line).map_err(|why| format!("{}:{number}: {why}", path.display())))
            .collect::<Result<Vec<_>, _>>()?;
        if uris.is_empty() {
            return Err(format!("{} holds no URI", path.display()));
        }
        Ok(uris)
    }

    /// The whole URI, password included: for the connector alone, never for a log.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("amqps://")
    }

    /// Whether it holds a password that is worth hiding: RabbitMQ's own `guest` is known to everybody and works from
    /// the broker's machine only.
    fn holds_secret(&self) -> bool {
        self.authority()
            .rsplit_once('@')
            .is_some_and(|(credentials, _)| credentials.contains(':') && credentials != "guest:guest")
    }

    fn authority(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_once('/').map_or(rest, |(authority, _)| authority)
    }
}

/// Scheme, host, port and virtual host.
impl fmt::Display for AmqpUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or_default();
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        write!(f, "{scheme}://{host}")?;
        if let Some(path) = path {
            write!(f, "/{}", path.split_once('?').map_or(path, |(vhost, _)| vhost))?;
        }
        Ok(())
    }
}

impl fmt::Debug for AmqpUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether what follows a percent sign makes it an escape.
fn is_escape(rest: &str) -> bool {
    rest.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// What was read of `[connectors]`.
pub(super) struct Connectors {
    /// Those that are right.
    pub(super) configs: BTreeMap<String, ConnectorConfig>,
    /// All names, those of faulty ones too: a route to one of them has no fault of its own.
    pub(super) names: Vec<String>,
    /// The line of a password that stands in the file itself.
    pub(super) secret_line: Option<u32>,
}

/// Reads `[connectors.*]`.
pub(super) fn read(section: &Section<'_>, machine: &str) -> Connectors {
    let mut connectors = Connectors { configs: BTreeMap::new(), names: Vec::new(), secret_line: None };
    for (name, entry) in section.entries() {
        connectors.names.push(name.to_owned());
        if !is_name(name) {
            entry.fault_here("the name of a connector has letters, digits, \"-\" and \"_\" only".to_owned());
        }
        let kind = entry.choice("type", &[("amqp091", ())]);
        if kind.is_none() && !entry.has("type") {
            entry.missing("type", "write type = \"amqp091\"");
        }
        let config = read_amqp091(&entry, machine, &mut connectors.secret_line);
        entry.finish();
        connectors.configs.insert(name.to_owned(), ConnectorConfig::Amqp091(config));
    }
    connectors
}

/// Whether this can be the name of a connector or a route.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
}

fn read_amqp091(entry: &Section<'_>, machine: &str, secret_line: &mut Option<u32>) -> Amqp091Config {
    let uris = entry.texts("uris").map(|texts| read_uris(entry, &texts, secret_line));
    let uri_file = entry.path("uri_file", FileUse::Uris);
    let tls = read_tls(entry, uris.as_deref());
    let uris = match (uris, uri_file) {
        (Some(_), Some(file)) => {
            entry.error("uri_file", file.line, "there is uris as well; write only one of them".to_owned());
            UriSource::File(file.value)
        }
        (None, Some(file)) => UriSource::File(file.value),
        (Some(uris), None) => UriSource::Given(uris),
        (None, None) => {
            if !entry.has("uris") && !entry.has("uri_file") {
                entry.missing("uris", "write uris = [\"amqp://user:password@host:5672/%2f\"], or uri_file");
            }
            UriSource::Given(Vec::new())
        }
    };
    Amqp091Config {
        uris,
        tls,
        heartbeat: entry
            .time("heartbeat", Duration::from_secs(1)..=Duration::from_mins(10))
            .map_or(Duration::from_secs(20), |time| time.value),
        connection_name: entry.text("connection_name").map_or_else(|| format!("mqbridge {machine}"), |name| name.value),
    }
}

fn read_uris(entry: &Section<'_>, texts: &[At<String>], secret_line: &mut Option<u32>) -> Vec<AmqpUri> {
    let mut uris = Vec::new();
    for text in texts {
        let Some(uri) = entry.parsed("uris", text, AmqpUri::parse) else { continue };
        if uri.value.holds_secret() && !text.from_environment {
            secret_line.get_or_insert(text.line);
        }
        uris.push(uri.value);
    }
    if entry.is_empty_list("uris") {
        entry.fault("uris", "an empty list leads nowhere".to_owned());
    }
    uris
}

fn read_tls(entry: &Section<'_>, uris: Option<&[AmqpUri]>) -> TlsFiles {
    let tls = entry.section("tls");
    let ca_file = tls.path("ca_file", FileUse::Public);
    let cert_file = tls.path("cert_file", FileUse::Public);
    let key_file = tls.path("key_file", FileUse::Secret);
    tls.finish();
    // Somebody who names certificates believes that the connection is encrypted.
    let first = [&ca_file, &cert_file, &key_file].into_iter().flatten().next();
    if let (Some(first), Some(uris)) = (first, uris) {
        for uri in uris.iter().filter(|uri| !uri.is_tls()) {
            entry.error(
                "tls",
                first.line,
                format!("{uri} is not encrypted; write amqps:// or remove the certificates"),
            );
        }
    }
    let client = match (cert_file, key_file) {
        (Some(cert), Some(key)) => Some(ClientCertificate { cert_file: cert.value, key_file: key.value }),
        (None, None) => None,
        (Some(_), None) => {
            if !tls.has("key_file") {
                tls.missing("key_file", "a certificate is of no use without its key");
            }
            None
        }
        (None, Some(_)) => {
            if !tls.has("cert_file") {
                tls.missing("cert_file", "a key is of no use without its certificate");
            }
            None
        }
    };
    TlsFiles { ca_file: ca_file.map(|file| file.value), client }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn uris_print_without_credentials() {
        for (uri, shown) in [
            ("amqp://guest:guest@127.0.0.1:5672/%2f", "amqp://127.0.0.1:5672/%2f"),
            ("amqps://alice:s3cret@[::1]:5671/orders?auth=s3cret", "amqps://[::1]:5671/orders"),
            ("amqp://rabbit1", "amqp://rabbit1"),
            ("amqp://rabbit1/", "amqp://rabbit1/"),
        ] {
            let parsed = AmqpUri::parse(uri).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(format!("{parsed:?}"), shown);
            assert_eq!(parsed.expose(), uri);
        }
    }

    #[test]
    fn faulty_uris_are_refused_without_repeating_the_password() {
        for uri in [
            "s3cret",
            "http://alice:s3cret@host/",
            "amqp://alice:s3cret@",
            "amqp://alice:s3cret@:5672/",
            "amqp://alice:s3cret@host:port/",
            "amqp://alice:s3cret@host:0/",
            "amqp://alice:s3cret@host:99999/",
            "amqp://alice:/s3cret@host/",
            "amqp://alice:s3/cret@host/",
            "amqp://alice:s3cret@x@host/",
            "amqp://alice:s3cret@host/a/b",
            "amqp://alice:s3cret @host/",
            "amqp://alice:5672/s3cret@host",
            "amqp://[::1",
            "amqp://alice:s3cret%@host/",
            "amqp://alice:s3%cret@host/",
            "amqp://alice:s3?cret@host/",
        ] {
            let why = AmqpUri::parse(uri).unwrap_err();
            assert!(!why.contains("cret"), "{why}");
        }
    }

    #[test]
    fn a_character_that_must_be_encoded_is_named_with_its_code() {
        for (uri, part, code) in [
            ("amqp://alice:100%@host/", "password", "%25"),
            ("amqp://alice:a%zz@host/", "password", "%25"),
            ("amqp://al?ice:x@host/", "user name", "%3F"),
            ("amqp://alice:x?y@host/", "password", "%3F"),
            ("amqp://host/100%", "virtual host", "%25"),
            ("amqp://alice:x@y@host/", "password", "%40"),
            ("amqp://alice:x/y@host/", "password", "%2F"),
            ("amqp://alice:x y@host/", "", "%20"),
        ] {
            let why = AmqpUri::parse(uri).unwrap_err();
            assert!(why.contains(code) && why.contains(part), "{uri}: {why}");
        }
        for uri in
            ["amqp://alice:100%25@host/", "amqp://alice:!$&'()*+,;=-._~:#[{\\@host?heartbeat=5", "amqp://älice:ö@host/"]
        {
            AmqpUri::parse(uri).unwrap();
        }
    }
}
