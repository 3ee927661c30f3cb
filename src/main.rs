//! The daemon and its commands: arguments, configuration, exit code. The one place that names concrete connectors.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use connector_amqp091::{Amqp091Config, Amqp091Connector, BrokerUri, CHATTY_LOG_TARGETS, TlsFiles};
use connector_api::Connector;
use mqbridge::admin::commands;
use mqbridge::cli::{self, Cli, Command, ConfigArgs, Exit, Surroundings};
use mqbridge::config::{AmqpUri, ConnectorConfig};
use mqbridge::{daemon, telemetry};

fn main() -> ExitCode {
    let Cli { command } = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let environment = |name: &str| std::env::var(name).ok();
    let mut surroundings = Surroundings {
        out: &mut io::stdout(),
        err: &mut io::stderr(),
        environment: &environment,
        now: jiff::Timestamp::now(),
    };
    let surroundings = &mut surroundings;
    let exit = match command {
        Command::Run(args) => run(&args, surroundings),
        Command::Check(args) => {
            wait_for(async |world| commands::run_check(&args, connector, world).await, surroundings)
        }
        Command::Init(args) => cli::init(&args, surroundings),
        Command::Id(args) => cli::id(&args, surroundings),
        Command::Send(args) => wait_for(async |world| commands::run_send(*args, world).await, surroundings),
        Command::Status(args) => wait_for(async |world| commands::run_status(&args, world).await, surroundings),
        Command::Directory(args) => cli::directory(&args, surroundings),
        Command::Key(args) => cli::key(&args, surroundings),
        Command::Decode(args) => commands::run_decode(&args, surroundings),
        Command::Version => cli::version(surroundings),
    };
    exit.into()
}

/// The foreign systems that are built in.
fn connector(name: &str, config: &ConnectorConfig) -> Result<Arc<dyn Connector>, String> {
    match config {
        ConnectorConfig::Amqp091(config) => {
            let uris = config.uris.read()?;
            let parse = |uri: &AmqpUri| uri.expose().parse::<BrokerUri>().map_err(|error| error.to_string());
            let uris = uris.iter().map(parse).collect::<Result<_, _>>()?;
            let client = config.tls.client.as_ref();
            let config = Amqp091Config {
                tls: TlsFiles {
                    ca_file: config.tls.ca_file.clone(),
                    cert_file: client.map(|client| client.cert_file.clone()),
                    key_file: client.map(|client| client.key_file.clone()),
                },
                heartbeat: config.heartbeat,
                connection_name: config.connection_name.clone(),
                ..Amqp091Config::new(name, uris)
            };
            let connector = Amqp091Connector::new(config).map_err(|error| error.to_string())?;
            Ok(Arc::new(connector))
        }
    }
}

fn run(args: &ConfigArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config = match cli::load_to_run(&args.config, surroundings) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let log = match telemetry::log::init(&config.log, &CHATTY_LOG_TARGETS) {
        Ok(log) => log,
        Err(error) => return complain(surroundings, &error),
    };
    let outcome = daemon::run(config, &log, connector);
    if let Err(error) = &outcome {
        tracing::error!(event = "failed", reason = %error, "mqbridge can't run");
    }
    log.flush();
    if outcome.is_ok() { Exit::Done } else { Exit::Failed }
}

/// Runs a command that waits for the network.
fn wait_for<'a, 'w>(
    command: impl AsyncFnOnce(&'a mut Surroundings<'w>) -> Exit,
    surroundings: &'a mut Surroundings<'w>,
) -> Exit {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command(surroundings)),
        Err(error) => complain(surroundings, &format!("the runtime can't be started: {error}")),
    }
}

fn complain(surroundings: &mut Surroundings<'_>, why: &dyn std::fmt::Display) -> Exit {
    let _ = writeln!(surroundings.err, "mqbridge: {why}");
    Exit::Failed
}
