use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use testkit::{PrivateBroker, ScratchDir};

use crate::step::{Failure, cargo, headline, missing, root, run, shown};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_mins(1);
const MESSAGES: usize = 3;

/// From nothing to messages that arrive in RabbitMQ, and an answer that comes back.
pub(crate) fn run_all() -> Result<(), Failure> {
    headline("building");
    cargo(&["build", "--quiet", "--package", "mqbridge", "--bins", "--examples"])?;

    headline("a private RabbitMQ, on loopback, in a temporary directory");
    PrivateBroker::install_if_missing()?;
    let broker = PrivateBroker::running()?;
    println!("the broker listens at {}", broker.uri());

    headline("an exchange and a queue (the bridge itself declares nothing in the broker)");
    run(&mut consumer(&broker, &["--declare-only"]))?;

    headline("a program that answers requests, on RabbitMQ's side; it knows nothing of MSMQ");
    let mut responder = Command::new(binary("examples/responder"));
    let _responder =
        Running::start("responder", responder.args([&broker.uri(), "requests", "answers"]), "waiting for requests ")?;

    headline("a machine called win01 that prints the MSMQ messages it is sent");
    let mut receiver = Command::new(binary("examples/receiver"));
    receiver.args(["127.0.0.1:0", "--count", "1", "--timeout", "60"]);
    let mut win01 = Running::start("win01", &mut receiver, "listening at ")?;

    headline("the bridge: one process file, three route files, and a directory that says where win01 is");
    let scratch = ScratchDir::new("demo")?;
    let config = configure(scratch.path(), &broker.uri(), &win01.told)?;
    run(mqbridge().args(["check", "--config"]).arg(&config))?;
    let mut bridge = Running::start("bridge", mqbridge().args(["run", "--config"]).arg(&config), LISTENING)?;
    // Behind the address there is the rest of the line.
    let port = bridge.told.split('"').next().unwrap_or_default().to_owned();
    println!("the bridge listens at 127.0.0.1:{port}");

    headline("three messages over the native MSMQ protocol; each is acknowledged once it is on disk");
    for number in 1..=MESSAGES {
        run(mqbridge().args(["send", "--to", r"DIRECT=TCP:127.0.0.1\private$\orders"]).args([
            "--port",
            &port,
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

    headline("a request with a response queue on win01: the answer comes back over the native protocol");
    run(mqbridge().args(["send", "--to", r"DIRECT=TCP:127.0.0.1\private$\requests"]).args([
        "--port",
        &port,
        "--response-queue",
        ANSWERS,
        "--body",
        "how many orders are there?",
    ]))?;
    win01.wait()?;

    headline("what the bridge says of itself");
    run(mqbridge().args(["status", "--config"]).arg(&config))?;

    headline("an orderly stop");
    bridge.stop()?;
    println!(
        "\nthe demo is over: {MESSAGES} messages went from MSMQ to RabbitMQ, and a request went there and was answered"
    );
    Ok(())
}

const ROUTES: [(&str, &str); 3] = [
    (
        "orders.toml",
        r#"
[from]
queue = 'private$\orders'

[to]
connector = "rabbit"
exchange = "orders"
routing_key = "orders.{label}"
content_type = "text/xml"
"#,
    ),
    (
        "requests.toml",
        r#"
[from]
queue = 'private$\requests'

[to]
connector = "rabbit"
exchange = ""
routing_key = "requests"
"#,
    ),
    (
        "answers.toml",
        r#"
[from]
connector = "rabbit"
queue = "answers"

[to]
queue = 'DIRECT=OS:win01\private$\answers'
"#,
    ),
];

/// Where the route `answers` leads.
const ANSWERS: &str = r"DIRECT=OS:win01\private$\answers";

fn configure(directory: &Path, uri: &str, win01: &str) -> Result<PathBuf, Failure> {
    let mut process = String::new();
    let _ = write!(
        process,
        r#"[queue_manager]
name = "bridge01"
state_dir = "state"
listen = ["127.0.0.1:0"]
ping = []

[directory]
kind = "file"

[connectors.rabbit]
type = "amqp091"
uris = ["{uri}"]

[admin]
socket = "admin.sock"

[log]
format = "json"
"#
    );
    let machine = format!(
        "[[machine]]\nguid = \"c778ca24-7c5a-4060-80c0-aeee428d53ae\"\nname = \"win01\"\naddresses = [\"{win01}\"]\n"
    );
    let config = directory.join("mqbridge.toml");
    let routes = directory.join("routes");
    let file = |path: &Path, source| Failure::File { path: path.to_owned(), source };
    let write = |path: PathBuf, text: &str| std::fs::write(&path, text).map_err(|source| file(&path, source));
    std::fs::create_dir_all(&routes).map_err(|source| file(&routes, source))?;
    write(config.clone(), &process)?;
    write(directory.join("directory.toml"), &machine)?;
    for (name, route) in ROUTES {
        write(routes.join(name), route)?;
    }
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

/// A program that runs, its output on our terminal.
struct Running {
    name: &'static str,
    child: Child,
    /// What stood behind the words that it was waited for with.
    told: String,
    ended: mpsc::Receiver<()>,
}

/// In the bridge's log, which says where it listens: the log is the monitor.
const LISTENING: &str = "\"event\":\"listening\",\"address\":\"127.0.0.1:";

impl Running {
    /// Starts it and waits for a line with `words`.
    fn start(name: &'static str, command: &mut Command, words: &'static str) -> Result<Self, Failure> {
        println!("$ {name} starts: {}", shown(command));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| missing(command, source))?;
        let (found, told) = mpsc::channel();
        let (open, ended) = mpsc::channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] =
            [child.stdout.take().map(|it| Box::new(it) as _), child.stderr.take().map(|it| Box::new(it) as _)];
        for output in outputs.into_iter().flatten() {
            let (found, open) = (found.clone(), open.clone());
            std::thread::spawn(move || {
                follow(name, words, output, &found);
                drop(open);
            });
        }
        drop(found);
        if let Ok(told) = told.recv_timeout(PATIENCE) {
            return Ok(Self { name, child, told, ended });
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(Failure::Because(format!("{name} did not start; what it said is above")))
    }

    fn stop(&mut self) -> Result<(), Failure> {
        run(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        self.wait()
    }

    /// Waits until it has ended and everything that it said is on the terminal.
    fn wait(&mut self) -> Result<(), Failure> {
        let silent = self.ended.recv_timeout(2 * PATIENCE);
        if silent != Err(mpsc::RecvTimeoutError::Disconnected) {
            return Err(Failure::Because(format!("{} does not end", self.name)));
        }
        let failed = |source| Failure::Missing { program: self.name.to_owned(), source, remedy: String::new() };
        let status = self.child.wait().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(Failure::Because(format!("{} ended with {status}", self.name))) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(name: &str, words: &str, output: impl Read, found: &mpsc::Sender<String>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        println!("  {name}: {line}");
        if let Some((_, told)) = line.split_once(words) {
            // Nobody waits any more after the first one.
            let _ = found.send(told.to_owned());
        }
    }
}
