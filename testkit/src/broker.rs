use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Watchdog, run, signal};
use crate::scratch::private_dir;
use crate::{Certificates, PortBlock, ScratchDir, TestkitError, install};

/// The scripts of Debian's package that do not change user and keep the environment. Those in `/usr/sbin` do both.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
pub(crate) const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A node starts in about five seconds on an idle machine; builds may be running beside it.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// Linux counts process times in hundredths of a second towards programs, whatever the kernel's own tick.
const TICKS_PER_SECOND: u64 = 100;

/// How a node is set up.
#[derive(Clone, Debug, Default)]
pub struct BrokerOptions {
    /// Plugins to enable, such as `rabbitmq_management` and `rabbitmq_shovel`; none by default.
    pub plugins: Vec<&'static str>,
    /// Whether it also listens with TLS.
    pub tls: Tls,
}

/// TLS of a node. Its certificates are made with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// No TLS listener.
    #[default]
    Off,
    /// A TLS listener that asks for no client certificate.
    Plain,
    /// A TLS listener that insists on a client certificate and takes its common name, `guest`, as the user (SASL
    /// mechanism EXTERNAL).
    Mutual,
}

/// Offsets into the node's block of ports.
mod port {
    pub(super) const AMQP: u16 = 0;
    pub(super) const AMQPS: u16 = 1;
    pub(super) const MANAGEMENT: u16 = 2;
    pub(super) const DISTRIBUTION: u16 = 3;
    pub(super) const EPMD: u16 = 4;
    /// The first of those from which `rabbitmqctl` takes its own.
    pub(super) const CONTROL: u16 = 5;
}

/// A RabbitMQ node of one's own, with its own Erlang port mapper, user `guest`/`guest`, on loopback only.
///
/// Dropping it stops it by SIGKILL and removes its directory; so does the end of this process in any way. The methods
/// block: a start takes about five seconds.
#[derive(Debug)]
pub struct PrivateBroker {
    // Fields are dropped in this order: processes, then what they use.
    node: Mutex<Node>,
    ports: PortBlock,
    certificates: Option<Certificates>,
    scratch: ScratchDir,
}

impl PrivateBroker {
    /// Installs RabbitMQ from the system's packages when it is missing and this process may do so.
    pub fn install_if_missing() -> Result<(), TestkitError> {
        install::install_if_missing()
    }

    /// A node without plugins and without TLS, started.
    pub fn running() -> Result<Self, TestkitError> {
        let broker = Self::new(BrokerOptions::default())?;
        broker.start()?;
        Ok(broker)
    }

    /// Prepares a node: its ports are claimed and its addresses known, but nothing listens yet.
    pub fn new(options: BrokerOptions) -> Result<Self, TestkitError> {
        install::install_if_missing()?;
        let scratch = ScratchDir::new("rabbitmq")?;
        let ports = PortBlock::claim()?;
        let home = scratch.path();
        for name in ["mnesia", "log", "home"] {
            private_dir(&home.join(name))?;
        }
        write_cookie(&home.join("home/.erlang.cookie"))?;
        let certificates = match options.tls {
            Tls::Off => None,
            Tls::Plain | Tls::Mutual => Some(Certificates::make(&home.join("tls"), "guest")?),
        };
        let mut plugins = options.plugins;
        if options.tls == Tls::Mutual {
            plugins.push("rabbitmq_auth_mechanism_ssl");
        }
        write(&home.join("enabled_plugins"), &format!("[{}].\n", plugins.join(",")))?;
        let management = plugins.iter().any(|name| name.starts_with("rabbitmq_management"));
        write(&home.join("rabbitmq.conf"), &configuration(&ports, management, options.tls, certificates.as_ref()))?;
        let watchdog = Watchdog::over(home)?;
        Ok(Self { node: Mutex::new(Node { beam: None, port_mapper: None, watchdog }), ports, certificates, scratch })
    }

    /// Starts the node and waits until it serves. Does nothing when it runs already.
    pub fn start(&self) -> Result<(), TestkitError> {
        let mut node = self.node();
        if node.beam.is_some() {
            return Ok(());
        }
        self.start_port_mapper(&mut node)?;
        self.set_old_logs_aside()?;
        let console = self.file("log/console.out")?;
        let mut server = Command::new(SERVER);
        self.environment(&mut server);
        // With input allowed the script gives way to the Erlang machine (exec), so that its process is the node's.
        server
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-noinput -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            )
            .stdout(duplicate(&console)?)
            .stderr(console);
        let beam = node.spawn(&mut server)?;
        let waited = self.await_service(&mut node, beam);
        if waited.is_err() {
            node.kill_beam()?;
        }
        waited
    }

    /// Stops the node at once (SIGKILL), as a crash does. What it had on disk stays for [`start`](Self::start).
    pub fn kill(&self) -> Result<(), TestkitError> {
        self.node().kill_beam()
    }

    /// Crashes the node and starts it again on the same data and ports.
    pub fn restart(&self) -> Result<(), TestkitError> {
        self.kill()?;
        self.start()
    }

    /// Freezes the node (SIGSTOP): the kernel still accepts its connections, but nothing answers.
    pub fn pause(&self) -> Result<(), TestkitError> {
        signal("STOP", self.pid()?)
    }

    /// Lets a frozen node go on (SIGCONT).
    pub fn resume(&self) -> Result<(), TestkitError> {
        signal("CONT", self.pid()?)
    }

    /// Runs `rabbitmqctl` against the node (about 0.3 s) and returns what it printed.
    pub fn rabbitmqctl(&self, arguments: &[&str]) -> Result<String, TestkitError> {
        let mut command = Command::new(Path::new(SCRIPTS).join("rabbitmqctl"));
        self.environment(&mut command);
        run(command.arg("-q").args(arguments))
    }

    /// The processor time, in user and system mode, that the node has used since it started.
    pub fn cpu_time(&self) -> Result<Duration, TestkitError> {
        let path = PathBuf::from(format!("/proc/{}/stat", self.pid()?));
        let stat = fs::read_to_string(&path).map_err(TestkitError::file("reading", &path))?;
        // The second field, the name in parentheses, may hold spaces: count from its end. utime and stime are the
        // 14th and 15th fields of the line.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }

    /// Where it serves AMQP, with credentials.
    pub fn uri(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())
    }

    /// Where it serves AMQP over TLS, with credentials.
    pub fn tls_uri(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.tls_port())
    }

    /// The AMQP port.
    pub fn port(&self) -> u16 {
        self.ports.port(port::AMQP)
    }

    /// The port of AMQP over TLS; nothing listens there when TLS is off.
    pub fn tls_port(&self) -> u16 {
        self.ports.port(port::AMQPS)
    }

    /// The port of the management plugin's HTTP interface; nothing listens there without the plugin.
    pub fn management_port(&self) -> u16 {
        self.ports.port(port::MANAGEMENT)
    }

    /// The certificates that belong to its TLS listener.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Its directory: `log/`, `rabbitmq.conf`, `mnesia/`.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        // A test that panicked while holding it left the processes as they were: they can still be stopped.
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pid(&self) -> Result<u32, TestkitError> {
        self.node().beam.as_ref().map(Child::id).ok_or(TestkitError::NotRunning)
    }

    fn environment(&self, command: &mut Command) {
        let home = self.directory();
        let control = self.ports.port(port::CONTROL);
        let path = std::env::var("PATH").unwrap_or_default();
        // Nothing of the caller's environment may lead the node to other files or nodes.
        command
            .env_clear()
            .env("PATH", format!("{SCRIPTS}:{path}"))
            .env("LANG", "C.UTF-8")
            .env("HOME", home.join("home"))
            .env("RABBITMQ_NODENAME", format!("mqb{}@localhost", self.port()))
            .env("RABBITMQ_USE_LONGNAME", "false")
            .env("RABBITMQ_CONF_ENV_FILE", home.join("no-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", home.join("advanced.config"))
            .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", home.join("log"))
            .env("RABBITMQ_SCHEMA_DIR", home.join("schema"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", home.join("generated"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("enabled_plugins"))
            .env("RABBITMQ_PID_FILE", home.join("rabbitmq.pid"))
            .env("RABBITMQ_DIST_PORT", self.ports.port(port::DISTRIBUTION).to_string())
            .env("RABBITMQ_CTL_DIST_PORT_MIN", control.to_string())
            .env("RABBITMQ_CTL_DIST_PORT_MAX", self.ports.port(PortBlock::SIZE - 1).to_string())
            .env("ERL_EPMD_PORT", self.ports.port(port::EPMD).to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .current_dir(home)
            .stdin(Stdio::null());
    }

    fn start_port_mapper(&self, node: &mut Node) -> Result<(), TestkitError> {
        if node.port_mapper.is_some() {
            return Ok(());
        }
        let output = self.file("log/epmd.out")?;
        let port = self.ports.port(port::EPMD).to_string();
        let mut epmd = Command::new("epmd");
        self.environment(&mut epmd);
        epmd.args(["-address", "127.0.0.1", "-port", &port]).stdout(duplicate(&output)?).stderr(output);
        let child = node.spawn(&mut epmd)?;
        node.port_mapper = Some(child);
        Ok(())
    }

    fn await_service(&self, node: &mut Node, beam: Child) -> Result<(), TestkitError> {
        let started = Instant::now();
        let beam = node.beam.insert(beam);
        loop {
            if self.log().contains("Server startup complete") {
                return Ok(());
            }
            let ended = beam.try_wait().map_err(TestkitError::running(SERVER))?;
            let reason = match ended {
                Some(status) => format!("it ended with {status}"),
                None if started.elapsed() > PATIENCE => "it is still starting".to_owned(),
                None => {
                    thread::sleep(POLL);
                    continue;
                }
            };
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let log = lines[lines.len().saturating_sub(20)..].join("\n");
            return Err(TestkitError::NotStarted { seconds: started.elapsed().as_secs(), reason, log });
        }
    }

    /// What the node has logged since its last start.
    fn log(&self) -> String {
        self.logs().iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
    }

    fn logs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.directory().join("log")) else { return Vec::new() };
        let mut logs: Vec<_> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        logs.sort();
        logs
    }

    /// So that a restarted node is not taken for ready by what it logged before.
    fn set_old_logs_aside(&self) -> Result<(), TestkitError> {
        for path in self.logs() {
            fs::rename(&path, path.with_extension("log.old")).map_err(TestkitError::file("renaming", &path))?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Result<File, TestkitError> {
        let path = self.directory().join(name);
        OpenOptions::new().create(true).append(true).open(&path).map_err(TestkitError::file("opening", &path))
    }
}

/// The processes of a node.
#[derive(Debug)]
struct Node {
    beam: Option<Child>,
    port_mapper: Option<Child>,
    watchdog: Watchdog,
}

impl Node {
    fn spawn(&mut self, command: &mut Command) -> Result<Child, TestkitError> {
        let program = command.get_program().to_string_lossy().into_owned();
        // A process group of its own: Ctrl-C at the terminal is for the test, not for the node.
        let child = command.process_group(0).spawn().map_err(TestkitError::running(&program))?;
        self.watchdog.add(&child)?;
        Ok(child)
    }

    fn kill_beam(&mut self) -> Result<(), TestkitError> {
        self.beam.take().map_or(Ok(()), |beam| self.end(beam))
    }

    fn end(&mut self, mut process: Child) -> Result<(), TestkitError> {
        // An error means that it has ended by itself.
        let _ = process.kill();
        process.wait().map_err(TestkitError::running("the node"))?;
        self.watchdog.forget(process.id())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for process in [self.beam.take(), self.port_mapper.take()].into_iter().flatten() {
            // The watchdog does it when this does not.
            let _ = self.end(process);
        }
    }
}

fn configuration(ports: &PortBlock, management: bool, tls: Tls, certificates: Option<&Certificates>) -> String {
    let mut lines = vec![
        format!("listeners.tcp.1 = 127.0.0.1:{}", ports.port(port::AMQP)),
        "loopback_users.guest = true".to_owned(),
        "log.console = false".to_owned(),
        "log.file.level = info".to_owned(),
        "disk_free_limit.absolute = 64MB".to_owned(),
        "vm_memory_high_watermark.absolute = 4GB".to_owned(),
    ];
    if management {
        lines.push("management.tcp.ip = 127.0.0.1".to_owned());
        lines.push(format!("management.tcp.port = {}", ports.port(port::MANAGEMENT)));
    }
    if let Some(certificates) = certificates {
        let mutual = tls == Tls::Mutual;
        lines.extend([
            format!("listeners.ssl.1 = 127.0.0.1:{}", ports.port(port::AMQPS)),
            format!("ssl_options.cacertfile = {}", certificates.authority_file().display()),
            format!("ssl_options.certfile = {}", certificates.server_file().display()),
            format!("ssl_options.keyfile = {}", certificates.server_key_file().display()),
            "ssl_options.versions.1 = tlsv1.3".to_owned(),
            "ssl_options.versions.2 = tlsv1.2".to_owned(),
            format!("ssl_options.verify = {}", if mutual { "verify_peer" } else { "verify_none" }),
            format!("ssl_options.fail_if_no_peer_cert = {mutual}"),
        ]);
        if mutual {
            lines.extend(
                [
                    "auth_mechanisms.1 = EXTERNAL",
                    "auth_mechanisms.2 = PLAIN",
                    "auth_mechanisms.3 = AMQPLAIN",
                    "ssl_cert_login_from = common_name",
                ]
                .map(str::to_owned),
            );
        }
    }
    lines.join("\n") + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), TestkitError> {
    fs::write(path, text).map_err(TestkitError::file("writing", path))
}

/// The node and `rabbitmqctl` trust whoever knows this; Erlang insists that nobody else can read it.
fn write_cookie(path: &Path) -> Result<(), TestkitError> {
    let mut secret = [0; 16];
    let random = "/dev/urandom";
    File::open(random)
        .and_then(|mut file| file.read_exact(&mut secret))
        .map_err(TestkitError::file("reading", random))?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(path)
        .and_then(|mut file| write!(file, "{:032x}", u128::from_le_bytes(secret)))
        .map_err(TestkitError::file("writing", path))
}

fn duplicate(file: &File) -> Result<File, TestkitError> {
    file.try_clone().map_err(TestkitError::running("the node"))
}
