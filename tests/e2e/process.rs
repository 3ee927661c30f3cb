//! A bridge process with its own directory, its log read line by line.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use mqbridge::mqqb::wire::Guid;
use serde_json::Value;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory with a configuration, whose bridge can be started, killed and started again.
pub(crate) struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    /// `process` is added to mqbridge.toml below `[queue_manager]`; `routes` are the files of `routes/`.
    pub(crate) fn new(uri: &str, process: &str, routes: &[(&str, &str)]) -> Self {
        Self::called("bridge01", "127.0.0.1:0", uri, process, routes)
    }

    /// As [`Site::new`], with a name and an address of its own.
    pub(crate) fn called(name: &str, listen: &str, uri: &str, process: &str, routes: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let routes_dir = directory.path().join("routes");
        std::fs::create_dir(&routes_dir).unwrap();
        for (route, text) in routes {
            std::fs::write(routes_dir.join(format!("{route}.toml")), text).unwrap();
        }
        let text = format!(
            r#"
[queue_manager]
name = "{name}"
state_dir = "state"
listen = ["{listen}"]
{process}

[connectors.rabbit]
type = "amqp091"
uris = ["{uri}"]

[admin]
socket = "admin.sock"

[log]
format = "json"
level = "info"
repeat_limit = 100000
"#
        );
        let text = if process.contains("ping =") { text } else { text.replace("listen =", "ping = []\nlisten =") };
        std::fs::write(directory.path().join("mqbridge.toml"), text).unwrap();
        Self { directory }
    }

    /// Puts a machine into the directory, which [`RETURNING`] switches on.
    pub(crate) fn know(&self, name: &str, guid: Guid, address: SocketAddr) {
        let path = self.path().join("directory.toml");
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let machine = format!("[[machine]]\nguid = \"{guid}\"\nname = \"{name}\"\naddresses = [\"{address}\"]\n");
        std::fs::write(path, known + &machine).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("mqbridge.toml")
    }

    pub(crate) fn start(&self) -> Bridge {
        Bridge::start(&self.config())
    }
}

/// For a bridge that sends to other machines: it finds them in its directory and does not wait long for them.
pub(crate) const RETURNING: &str =
    "retry_interval = \"100ms\"\nretry_interval_max = \"1s\"\n[directory]\nkind = \"file\"";

/// A route from an AMQP queue to a format name, everything else at its default.
pub(crate) fn return_route(queue: &str, destination: &str, from: &str, to: &str) -> String {
    format!("[from]\nconnector = \"rabbit\"\nqueue = \"{queue}\"\n{from}\n[to]\nqueue = '{destination}'\n{to}\n")
}

/// A route from `private$\name` to an exchange, everything else at its default.
pub(crate) fn route(name: &str, exchange: &str, routing_key: &str, from: &str, to: &str) -> String {
    format!(
        r#"
[from]
queue = 'private$\{name}'
{from}

[to]
connector = "rabbit"
exchange = "{exchange}"
routing_key = "{routing_key}"
{to}
"#
    )
}

pub(crate) fn mqbridge(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mqbridge"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) struct Bridge {
    child: Child,
    log: Arc<Log>,
    pub(crate) address: SocketAddr,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<Value>>,
    news: Condvar,
}

impl Bridge {
    pub(crate) fn start(config: &Path) -> Self {
        Self::follow(mqbridge(&["run", "--config", config.to_str().unwrap()]))
    }

    /// As [`Bridge::start`], with no more open files than that.
    pub(crate) fn start_with_open_files(config: &Path, limit: u32) -> Self {
        let mut command = Command::new("sh");
        let run = format!("ulimit -n {limit} && exec \"$0\" run --config \"$1\"");
        command.args(["-c", &run, env!("CARGO_BIN_EXE_mqbridge")]).arg(config).stdin(Stdio::null());
        Self::follow(command)
    }

    fn follow(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().unwrap();
        let follower = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if std::env::var_os("MQBRIDGE_TEST_LOG").is_some() {
                    eprintln!("bridge: {line}");
                }
                let value = serde_json::from_str(&line).unwrap_or_else(|_| serde_json::json!({ "not_json": line }));
                follower.lines.lock().unwrap().push(value);
                follower.news.notify_all();
            }
        });
        let mut bridge = Self { child, log, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let listening = bridge.wait_for(|line| line["event"] == "listening" && line["protocol"] == "tcp");
        bridge.address = listening["address"].as_str().unwrap().parse().unwrap();
        bridge
    }

    /// Waits for a line of the log.
    pub(crate) fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for_count(1, wanted).pop().unwrap()
    }

    /// Waits until that many lines have come.
    pub(crate) fn wait_for_count(&self, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = self.log.lines.lock().unwrap();
        loop {
            let found: Vec<_> = lines.iter().filter(|line| wanted(line)).cloned().collect();
            if found.len() >= count {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {count} lines came; the log:\n{}", found.len(), show(&lines));
            lines = self.log.news.wait_timeout(lines, left.min(Duration::from_millis(200))).unwrap().0;
        }
    }

    pub(crate) fn log(&self) -> Vec<Value> {
        self.log.lines.lock().unwrap().clone()
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it runs");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As `kill -9` does it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the exit.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the bridge does not end; its log:\n{}", show(&self.log()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `mqbridge status --json`.
pub(crate) fn status(site: &Site) -> Value {
    let output = mqbridge(&["status", "--json", "--config", site.config().to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asks again and again until the answer is right.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn show(lines: &[Value]) -> String {
    lines.iter().skip(lines.len().saturating_sub(30)).map(Value::to_string).collect::<Vec<_>>().join("\n")
}
