//! What `mqbridge.toml` says about the process.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::mqqb::wire::MAX_PACKET_SIZE;

use super::files::FileUse;
use super::problem::Quoted;
use super::raw::{At, Section};

/// `[queue_manager]`: who we are towards MSMQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueManagerConfig {
    /// The computer name that senders use.
    pub name: String,
    /// Every other name or address that means this machine.
    pub accept_as: Vec<String>,
    /// Where identity, queues and keys are kept.
    pub state_dir: PathBuf,
    /// TCP addresses to listen on. Never empty.
    pub listen: Vec<SocketAddr>,
    /// UDP addresses where pings are answered; empty switches that off.
    pub ping: Vec<SocketAddr>,
    /// Sessions at once; a connection beyond it is closed at once.
    pub max_sessions: usize,
    /// Bytes of the largest packet that is taken, headers included.
    pub max_message: u32,
    /// How far a sender's clock may be off before its messages count as expired.
    pub clock_skew: Duration,
    /// How long the handshake of a session may take (MS-MQQB 3.1.2.1).
    pub handshake_timeout: Duration,
    /// How long the rest of a packet may take once its first byte has come.
    pub slow_sender_timeout: Duration,
    /// How long a session may be without messages before it is closed (MS-MQQB 3.1.2.2).
    pub idle_timeout: Duration,
    /// How long after a failure a machine is called again; each further failure doubles it (MS-MQQB 3.1.2.3).
    pub retry_interval: Duration,
    /// The longest wait that comes of that.
    pub retry_interval_max: Duration,
    /// Whether another machine is asked by ping before it is called (MS-MQQB 3.1.5.2.2).
    pub ping_first: bool,
    /// How long an address has to take a connection.
    pub connect_timeout: Duration,
    /// Whether the negative acknowledgments are sent that Windows holds back (MS-MQQB 3.1.7.15).
    pub insecure_nacks: bool,
    /// How long a stop waits for confirms that are owed and for connectors to close.
    pub shutdown_timeout: Duration,
}

impl QueueManagerConfig {
    /// Whether a name or address means this machine: its own names, `.`, `localhost` and loopback addresses.
    pub fn is_called(&self, address: &str) -> bool {
        let address = address.strip_suffix('.').filter(|rest| !rest.is_empty()).unwrap_or(address);
        if address == "." || address.eq_ignore_ascii_case("localhost") || address.eq_ignore_ascii_case(&self.name) {
            return true;
        }
        let ip: Option<IpAddr> = address.parse().ok();
        ip.is_some_and(|ip| ip.is_loopback())
            || self
                .accept_as
                .iter()
                .any(|name| address.eq_ignore_ascii_case(name) || (ip.is_some() && ip == name.parse().ok()))
    }
}

/// `[store]`: the durable queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Bytes in all queues together, beyond which nothing more is taken and nothing is dropped.
    pub quota: u64,
}

/// `[keys]`: the keys that senders encrypt for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeysConfig {
    /// The private key as PKCS#8 PEM; the one in the state directory when absent.
    pub private_key_file: Option<PathBuf>,
}

/// `[key_cache]`: keys of bodies that are kept, so that not every message costs an RSA operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCacheConfig {
    /// Sending machines at once.
    pub machines: NonZeroUsize,
    /// Keys of each.
    pub keys_per_machine: NonZeroUsize,
    /// How long a key is kept.
    pub lifetime: Duration,
}

impl Default for KeyCacheConfig {
    fn default() -> Self {
        const MACHINES: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
        const KEYS_PER_MACHINE: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        Self { machines: MACHINES, keys_per_machine: KEYS_PER_MACHINE, lifetime: Duration::from_hours(12) }
    }
}

/// `[directory]`: where users, machines and queues are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryConfig {
    /// `kind = "file"`: in this file.
    File(PathBuf),
}

/// `[admin]`: local control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// The Unix socket.
    pub socket: PathBuf,
}

/// `[log]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// For people or for programs.
    pub format: LogFormat,
    /// The least important lines shown.
    pub level: LogLevel,
    /// Lines of one event and route in ten seconds, beyond which they are only counted.
    pub repeat_limit: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info, repeat_limit: 10 }
    }
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Readable.
    Text,
    /// One JSON object a line.
    Json,
}

/// The least important lines shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What needs somebody at once.
    Error,
    /// Every refusal and dead letter.
    Warn,
    /// State changes and the summary.
    Info,
    /// Every message.
    Debug,
    /// What the libraries do.
    Trace,
}

impl LogLevel {
    pub(super) const WORDS: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// Everything of `mqbridge.toml` but the connectors and the routes.
pub(super) struct Process {
    pub(super) queue_manager: QueueManagerConfig,
    pub(super) store: StoreConfig,
    pub(super) keys: KeysConfig,
    pub(super) key_cache: KeyCacheConfig,
    pub(super) directory: Option<DirectoryConfig>,
    /// Whether there is one, however it is written.
    pub(super) has_directory: bool,
    pub(super) admin: AdminConfig,
    pub(super) http: Option<SocketAddr>,
    pub(super) log: LogConfig,
    pub(super) routes_dir: Option<At<PathBuf>>,
    /// The line of a password that stands in the file itself.
    pub(super) secret_line: Option<u32>,
}

const ONE_SECOND: Duration = Duration::from_secs(1);
const ONE_HOUR: Duration = Duration::from_hours(1);
const ONE_DAY: Duration = Duration::from_hours(24);

/// Reads the sections of the process.
pub(super) fn read(root: &Section<'_>) -> Process {
    let queue_manager = read_queue_manager(&root.section("queue_manager"));
    let admin = read_admin(&root.section("admin"), &queue_manager);
    let (directory, secret_line) = read_directory(&root.section("directory"));
    Process {
        store: read_store(&root.section("store")),
        keys: read_keys(&root.section("keys")),
        key_cache: read_key_cache(&root.section("key_cache")),
        directory,
        has_directory: root.has("directory"),
        admin,
        http: read_http(&root.section("http")),
        log: read_log(&root.section("log")),
        routes_dir: root.path("routes_dir", FileUse::OurOwn),
        queue_manager,
        secret_line,
    }
}

fn read_queue_manager(section: &Section<'_>) -> QueueManagerConfig {
    let name = section.text("name").and_then(|name| section.parsed("name", &name, machine_name));
    if name.is_none() && !section.has("name") {
        section.missing("name", "write the computer name that senders use, such as name = \"bridge01\"");
    }
    let accept_as = section.texts("accept_as").unwrap_or_default();
    let accept_as = accept_as.iter().filter_map(|name| section.parsed("accept_as", name, machine_name));
    let accept_as = accept_as.map(|name| name.value).collect();
    let state_dir = section.path("state_dir", FileUse::OurOwn);
    let listen = read_addresses(section, "listen", "0.0.0.0:1801");
    if section.is_empty_list("listen") {
        section.fault("listen", "without an address nobody can send; write [\"0.0.0.0:1801\"]".to_owned());
    }
    let timeout = |key, default| section.time(key, ONE_SECOND..=ONE_HOUR).map_or(default, |time| time.value);
    let config = QueueManagerConfig {
        name: name.map(|name| name.value).unwrap_or_default(),
        accept_as,
        state_dir: state_dir.map_or_else(|| PathBuf::from("/var/lib/mqbridge"), |path| path.value),
        listen,
        ping: read_addresses(section, "ping", "0.0.0.0:3527"),
        max_sessions: section
            .integer("max_sessions", 1..=65_535)
            .map_or(1024, |number| usize::try_from(number.value).unwrap_or(usize::MAX)),
        max_message: section
            .size("max_message", 1024..=u64::from(MAX_PACKET_SIZE))
            .map_or(MAX_PACKET_SIZE, |size| u32::try_from(size.value).unwrap_or(MAX_PACKET_SIZE)),
        clock_skew: section
            .time("clock_skew", Duration::ZERO..=ONE_DAY)
            .map_or(Duration::from_mins(5), |time| time.value),
        handshake_timeout: timeout("handshake_timeout", Duration::from_mins(1)),
        slow_sender_timeout: timeout("slow_sender_timeout", Duration::from_mins(1)),
        idle_timeout: timeout("idle_timeout", Duration::from_mins(5)),
        retry_interval: section
            .time("retry_interval", Duration::from_millis(100)..=ONE_HOUR)
            .map_or(Duration::from_secs(5), |time| time.value),
        retry_interval_max: timeout("retry_interval_max", Duration::from_mins(1)),
        ping_first: section.flag("ping_first").is_some_and(|flag| flag.value),
        connect_timeout: timeout("connect_timeout", Duration::from_secs(5)),
        insecure_nacks: section.flag("insecure_nacks").is_some_and(|flag| flag.value),
        shutdown_timeout: timeout("shutdown_timeout", Duration::from_secs(30)),
    };
    section.finish();
    config
}

/// A name or address by which senders know a machine.
fn machine_name(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let is_fine = !text.is_empty()
        && text.len() <= 256
        && !text.starts_with(['.', '-'])
        && text.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'));
    if is_fine {
        return Ok(text.to_owned());
    }
    Err(format!("{} is neither the name nor the address of a machine (without port or queue)", Quoted(text)))
}

fn read_addresses(section: &Section<'_>, key: &'static str, default: &str) -> Vec<SocketAddr> {
    if !section.has(key) {
        let _ = section.texts(key);
        return default.parse().into_iter().collect();
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for text in section.texts(key).unwrap_or_default() {
        let Some(address) = section.parsed(key, &text, |text| socket_address(text, default)) else { continue };
        if addresses.contains(&address.value) {
            section.error(key, address.line, format!("{} is there twice", Quoted(&text.value)));
            continue;
        }
        addresses.push(address.value);
    }
    addresses
}

fn socket_address(text: &str, example: &str) -> Result<SocketAddr, String> {
    match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
        (Ok(address), _) => Ok(address),
        (_, Ok(ip)) => {
            let port = example.rsplit_once(':').map_or("", |(_, port)| port);
            let with_port = if ip.is_ipv6() { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            Err(format!("{} has no port; write \"{with_port}\"", Quoted(text)))
        }
        _ => Err(format!("{} is not an IP address and port such as \"{example}\"", Quoted(text))),
    }
}

fn read_store(section: &Section<'_>) -> StoreConfig {
    let quota = section.size("quota", 1 << 20..=1 << 50).map_or(10 << 30, |size| size.value);
    section.finish();
    StoreConfig { quota }
}

fn read_keys(section: &Section<'_>) -> KeysConfig {
    let private_key_file = section.path("private_key_file", FileUse::Secret).map(|path| path.value);
    for provider in ["base", "enhanced"] {
        let provider = section.section(provider);
        let _ = provider.path("private_key_file", FileUse::Secret);
        provider.finish();
    }
    section.finish();
    KeysConfig { private_key_file }
}

fn read_key_cache(section: &Section<'_>) -> KeyCacheConfig {
    let defaults = KeyCacheConfig::default();
    let number = |number: Option<At<u64>>, default| {
        number.and_then(|number| usize::try_from(number.value).ok()).and_then(NonZeroUsize::new).unwrap_or(default)
    };
    let config = KeyCacheConfig {
        machines: number(section.integer("machines", 1..=1_000_000), defaults.machines),
        keys_per_machine: number(section.integer("keys_per_machine", 1..=10_000), defaults.keys_per_machine),
        lifetime: section.time("lifetime", ONE_SECOND..=ONE_DAY * 366).map_or(defaults.lifetime, |time| time.value),
    };
    section.finish();
    config
}

/// Also gives the line of a password that stands in the file itself.
fn read_directory(section: &Section<'_>) -> (Option<DirectoryConfig>, Option<u32>) {
    const OF_LDAP: [&str; 6] = ["uris", "base_dn", "bind_dn", "bind_password", "bind_password_file", "tls"];
    let kind = section.choice("kind", &[("file", Kind::File), ("ldap", Kind::Ldap)]).map(|kind| kind.value);
    if section.is_present() && !section.has("kind") {
        section.missing("kind", "write kind = \"file\", or remove [directory]");
    }
    // Whether it is there shows when it is read, which says more of it.
    let path = section.path("path", FileUse::OurOwn);
    let _ = section.texts("uris");
    let _ = section.text("base_dn");
    let _ = section.text("bind_dn");
    let password = section.text("bind_password");
    let password_file = section.path("bind_password_file", FileUse::Secret);
    if let (Some(_), Some(file)) = (&password, &password_file) {
        section.error(
            "bind_password_file",
            file.line,
            "there is bind_password as well; write only one of them".to_owned(),
        );
    }
    let tls = section.section("tls");
    let _ = tls.path("ca_file", FileUse::Public);
    let _ = tls.flag("starttls");
    tls.finish();
    section.finish();
    if kind == Some(Kind::File) {
        for key in OF_LDAP.into_iter().filter(|key| section.has(key)) {
            section.fault(key, "belongs to kind = \"ldap\"; a file needs path alone".to_owned());
        }
    }
    let path = path.map_or_else(|| section.beside("directory.toml"), |path| path.value);
    let directory = (kind == Some(Kind::File)).then_some(DirectoryConfig::File(path));
    (directory, password.filter(|password| !password.from_environment).map(|password| password.line))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Ldap,
}

fn read_admin(section: &Section<'_>, queue_manager: &QueueManagerConfig) -> AdminConfig {
    /// `sockaddr_un.sun_path` has 108 bytes, a NUL among them.
    const MAX_SOCKET_PATH: usize = 107;
    let given = section.path("socket", FileUse::OurOwn);
    let socket = given.map_or_else(|| queue_manager.state_dir.join("admin.sock"), |path| path.value);
    let length = socket.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        let shown = socket.display();
        section
            .fault("socket", format!("the path of a socket has at most {MAX_SOCKET_PATH} bytes; {shown} has {length}"));
    }
    section.finish();
    AdminConfig { socket }
}

fn read_http(section: &Section<'_>) -> Option<SocketAddr> {
    let listen = section.text("listen");
    if listen.is_none() && section.is_present() && !section.has("listen") {
        section.missing("listen", "write listen = \"127.0.0.1:9180\", or remove [http]");
    }
    let listen = listen.and_then(|text| section.parsed("listen", &text, |text| socket_address(text, "127.0.0.1:9180")));
    section.finish();
    listen.map(|address| address.value)
}

fn read_log(section: &Section<'_>) -> LogConfig {
    let default = LogConfig::default();
    let config = LogConfig {
        format: section
            .choice("format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])
            .map_or(default.format, |format| format.value),
        level: section.choice("level", &LogLevel::WORDS).map_or(default.level, |level| level.value),
        repeat_limit: section
            .integer("repeat_limit", 1..=1_000_000)
            .map_or(default.repeat_limit, |limit| u32::try_from(limit.value).unwrap_or(u32::MAX)),
    };
    section.finish();
    config
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_machine_answers_to_all_its_names() {
        let machine = QueueManagerConfig {
            name: "bridge01".to_owned(),
            accept_as: vec!["Bridge01.corp.example".to_owned(), "10.1.2.3".to_owned(), "2001:db8::1".to_owned()],
            state_dir: PathBuf::new(),
            listen: Vec::new(),
            ping: Vec::new(),
            max_sessions: 1,
            max_message: 1,
            clock_skew: ONE_SECOND,
            handshake_timeout: ONE_SECOND,
            slow_sender_timeout: ONE_SECOND,
            idle_timeout: ONE_SECOND,
            retry_interval: ONE_SECOND,
            retry_interval_max: ONE_SECOND,
            ping_first: false,
            connect_timeout: ONE_SECOND,
            insecure_nacks: false,
            shutdown_timeout: ONE_SECOND,
        };
        for own in [
            "BRIDGE01",
            "bridge01.",
            ".",
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "bridge01.CORP.example",
            "10.1.2.3",
            "2001:DB8:0::1",
        ] {
            assert!(machine.is_called(own), "{own}");
        }
        for other in ["bridge02", "", "10.1.2.4", "bridge01.other.example", "corp.example"] {
            assert!(!machine.is_called(other), "{other}");
        }
    }
}
