use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use testkit::{PrivateBroker, ScratchDir};

use crate::step::{Failure, cargo, headline, missing, root, run};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_mins(1);
const MESSAGES: usize = 3;

/// From nothing to messages that arrive in RabbitMQ.
pub(crate) fn run_all() -> Result<(), Failure> {
    headline("building");
    cargo(&["build", "--quiet", "--package", "mqbridge", "--bins", "--examples"])?;

    headline("a private RabbitMQ, on loopback, in a temporary directory");
    PrivateBroker::install_if_missing()?;
    let broker = PrivateBroker::running()?;
    println!("the broker listens at {}", broker.uri());

    headline("an exchange and a queue (the bridge itself declares nothing in the broker)");
    run(&mut consumer(&broker, &["--declare-only"]))?;

    headline("the bridge: one process file, one route file");
    let scratch = ScratchDir::new("demo")?;
    let config = configure(scratch.path(), &broker.uri())?;
    run(mqbridge().args(["check", "--config"]).arg(&config))?;
    let mut bridge = Running::start(&config)?;
    println!("the bridge listens at 127.0.0.1:{}", bridge.port);

    headline("three messages over the native MSMQ protocol; each is acknowledged once it is on disk");
    for number in 1..=MESSAGES {
        run(mqbridge().args(["send", "--to", r"DIRECT=TCP:127.0.0.1\private$\orders"]).args([
            "--port",
            &bridge.port,
            "--label",
            &format!("order-{number}"),
            "--body",
            &format!("<order number=\"{number}\"/>"),
            "--delivery",
            "recoverable",
        ]))?;
    }

    headline("what arrives in RabbitMQ");
    run(&mut consumer(&broker, &["--count", &MESSAGES.to_string(), "--timeout", "30"]))?;

    headline("what the bridge says of itself");
    run(mqbridge().args(["status", "--config"]).arg(&config))?;

    headline("an orderly stop");
    bridge.stop()?;
    println!("\nthe demo is over: {MESSAGES} messages went from MSMQ's protocol to RabbitMQ");
    Ok(())
}

fn configure(directory: &Path, uri: &str) -> Result<PathBuf, Failure> {
    let route = r#"
[from]
queue = 'private$\orders'

[to]
connector = "rabbit"
exchange = "orders"
routing_key = "orders.{label}"
content_type = "text/xml"
"#;
    let mut process = String::new();
    let _ = write!(
        process,
        r#"[queue_manager]
name = "bridge01"
state_dir = "state"
listen = ["127.0.0.1:0"]
ping = []

[connectors.rabbit]
type = "amqp091"
uris = ["{uri}"]

[admin]
socket = "admin.sock"

[log]
format = "json"
"#
    );
    let config = directory.join("mqbridge.toml");
    let routes = directory.join("routes");
    let file = |path: &Path, source| Failure::File { path: path.to_owned(), source };
    std::fs::create_dir_all(&routes).map_err(|source| file(&routes, source))?;
    std::fs::write(&config, process).map_err(|source| file(&config, source))?;
    let orders = routes.join("orders.toml");
    std::fs::write(&orders, route).map_err(|source| file(&orders, source))?;
    Ok(config)
}

fn mqbridge() -> Command {
    Command::new(binary("mqbridge"))
}

fn consumer(broker: &PrivateBroker, options: &[&str]) -> Command {
    let mut command = Command::new(binary("examples/consumer"));
    command.args([&broker.uri(), "orders", "orders-demo"]).args(options);
    command
}

fn binary(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("debug").join(name)
}

/// A bridge that runs, its log on our terminal.
struct Running {
    child: Child,
    port: String,
}

impl Running {
    fn start(config: &Path) -> Result<Self, Failure> {
        let mut command = mqbridge();
        command.args(["run", "--config"]).arg(config).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| missing(&command, source))?;
        let (found, port) = mpsc::channel();
        if let Some(log) = child.stderr.take() {
            std::thread::spawn(move || follow(log, &found));
        }
        // The log is the monitor: it says where the bridge listens.
        if let Ok(port) = port.recv_timeout(PATIENCE) {
            return Ok(Self { child, port });
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(Failure::Because("the bridge did not start; its log is above".to_owned()))
    }

    fn stop(&mut self) -> Result<(), Failure> {
        run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait().map_err(|source| Failure::Missing {
            program: "mqbridge".to_owned(),
            source,
            remedy: String::new(),
        })?;
        if status.success() { Ok(()) } else { Err(Failure::Because(format!("the bridge ended with {status}"))) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(log: impl Read, found: &mpsc::Sender<String>) {
    for line in BufReader::new(log).lines().map_while(Result::ok) {
        println!("  bridge: {line}");
        let address = line.split("\"address\":\"127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next());
        if let Some(port) = address.filter(|_| line.contains("\"listening\"") && line.contains("\"tcp\"")) {
            // Nobody waits any more after the first one.
            let _ = found.send(port.to_owned());
        }
    }
}
