//! `mqbridge run`: everything that a process needs around a bridge.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use connector_api::Connector;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin::health::Health;
use crate::admin::socket::{ControlSocket, SocketError};
use crate::bridge::{Bridge, Credentials, Parts, StartError};
use crate::cli::VERSION;
use crate::config::{Config, ConnectorConfig, DirectoryConfig, Problems, Protection, QueueManagerConfig, ReturnRoute};
use crate::directory::Directory;
use crate::directory::file::FileDirectory;
use crate::identity::{Identity, IdentityError};
use crate::net::{Clock, ListenError, Places, StopSwitch};
use crate::security::Keyring;
use crate::store::{Store, StoreError, StoreOptions};
use crate::telemetry::log::LogHandle;

/// Makes a connector from its configuration; given by whoever knows concrete connectors.
pub type MakeConnector = fn(&str, &ConnectorConfig) -> Result<Arc<dyn Connector>, String>;

/// Why the daemon can't run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The state directory.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bridge.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A port.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The directory.
    #[error("the directory can't be read:\n{0}")]
    Directory(Problems),
    /// A connector.
    #[error("connector {name}: {why}")]
    Connector {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A part of the bridge has ended although nobody stopped it.
    #[error("the {0} has ended by itself; this is a defect, please report it. Nothing that was acknowledged is lost")]
    Lost(&'static str),
    /// The operating system.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// Message ids are remembered for so long, as Windows does (MS-MQQB 3.1.2.8).
const HISTORY_LIFETIME: Duration = Duration::from_mins(30);
/// Runs of message ids that are remembered: a few megabytes at the most.
const HISTORY_ROWS: usize = 200_000;

/// The store, in the state directory.
pub const STORE_FILE: &str = "store.redb";

/// How the store is opened.
pub const fn store_options(config: &Config) -> StoreOptions {
    StoreOptions { quota: config.store.quota, history_lifetime: HISTORY_LIFETIME, history_rows: HISTORY_ROWS }
}

/// Runs a bridge until SIGTERM or SIGINT.
pub fn run(config: Config, log: &LogHandle, make_connector: MakeConnector) -> Result<(), DaemonError> {
    let places = places(config.queue_manager.max_sessions);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("mqbridge")
        .build()
        .map_err(|source| DaemonError::System { what: "the runtime can't be started", source })?;
    let result = runtime.block_on(serve(config, places, log, make_connector));
    // A name that a name server is still being asked for must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    result
}

async fn serve(
    config: Config,
    places: Places,
    log: &LogHandle,
    make_connector: MakeConnector,
) -> Result<(), DaemonError> {
    let mut signals = Signals::listen()?;
    let manager = &config.queue_manager;
    let key_file = config.keys.private_key_file.as_deref();
    let (identity, made) =
        Identity::open_or_create(&manager.state_dir, key_file, &mut rand::rng(), jiff::Timestamp::now())?;
    tracing::info!(
        event = "starting", version = VERSION, queue_manager = %manager.name, guid = %identity.guid,
        state_dir = %manager.state_dir.display(), new_identity = made.identity, routes = config.routes.len() + config.return_routes.len(),
        "mqbridge starts"
    );
    if made.key && !made.identity {
        tracing::warn!(
            event = "key_made", file = %identity.key_file.display(),
            "there was an identity without its key, and a new key was made: what was encrypted for the old one can't be opened"
        );
    }
    for warning in config.inspect().warnings() {
        tracing::warn!(event = "config_warning", reason = %warning, "the configuration may not mean what it says");
    }
    let store_file = manager.state_dir.join(STORE_FILE);
    if !made.identity && std::fs::metadata(&store_file).map_or(true, |file| file.len() == 0) {
        tracing::warn!(
            event = "store_made", file = %store_file.display(),
            "there is an identity without its store, and an empty store is made: messages that waited in the old one are gone"
        );
    }
    let options = store_options(&config);
    let store = Store::open(&store_file, options)?;
    let mut connectors = BTreeMap::new();
    for (name, connector) in &config.connectors {
        let made = make_connector(name, connector).map_err(|why| DaemonError::Connector { name: name.clone(), why })?;
        connectors.insert(name.clone(), made);
    }

    let files = match &config.directory {
        Some(DirectoryConfig::File(path)) => Some(open_directory(path)?),
        None => None,
    };
    let credentials = credentials(&config, &identity)?;
    let directory = files.clone().map(|files| Arc::new(files) as Arc<dyn Directory>);
    signals.directory = files;
    let health = match config.http {
        Some(address) => Some(Health::bind(address).await?),
        None => None,
    };
    let control = ControlSocket::bind(&config.admin.socket)?;
    let (stopped, stop) = StopSwitch::new();
    let clock = Clock::start();
    let parts = Parts {
        config,
        guid: identity.guid,
        store,
        connectors,
        directory,
        keyring: Keyring::new(&identity.key),
        credentials,
        places,
        clock,
        chance: rand::random::<f64>,
    };
    let mut bridge = Bridge::start(parts).await?;
    let view = bridge.view();
    let mut around = tokio::task::JoinSet::new();
    around.spawn(control.run(Arc::clone(&view), stop.clone()));
    if let Some(health) = health {
        tracing::info!(event = "listening", address = %health.address(), protocol = "http", "ready for health checks");
        around.spawn(health.run(view, stop.clone()));
    }
    let settle = settle_log(log.clone(), clock);
    tokio::select! {
        () = signals.next() => {}
        () = settle => {}
        part = bridge.lost() => return Err(DaemonError::Lost(part)),
    }
    // A second signal ends the process at once: what was acknowledged is on disk.
    let result = tokio::select! {
        result = bridge.stop() => result,
        () = signals.next() => {
            tracing::warn!(event = "stopped", clean = false, "a second signal: stopped at once");
            Ok(())
        }
    };
    stopped.stop();
    // Nobody's request is worth waiting for now.
    let last_answers = async { while around.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), last_answers).await;
    Ok(result?)
}

/// What messages are signed with, when a route signs any. The certificate is made the first time.
fn credentials(config: &Config, identity: &Identity) -> Result<Option<Credentials>, IdentityError> {
    let signs = |route: &ReturnRoute| matches!(route.protection, Protection::Own { sign: Some(_), .. });
    if !config.return_routes.iter().any(signs) {
        return Ok(None);
    }
    let QueueManagerConfig { state_dir, name, .. } = &config.queue_manager;
    let (certificate, made) =
        identity.certificate_or_create(state_dir, name, &mut rand::rng(), jiff::Timestamp::now())?;
    if made {
        tracing::warn!(
            event = "certificate_made", file = %Identity::certificate_file(state_dir).display(),
            "a certificate to sign with was made; receivers that demand signatures need it in their directory for this machine"
        );
    }
    Ok(Some(Credentials { key: identity.key.clone(), certificate }))
}

fn open_directory(path: &Path) -> Result<FileDirectory, DaemonError> {
    let (directory, problems) = FileDirectory::open(path, &environment).map_err(DaemonError::Directory)?;
    warn_of(&problems);
    Ok(directory)
}

/// Reads the directory anew. One that is faulty changes nothing.
fn reload(directory: &FileDirectory) {
    match directory.reload(&environment) {
        Ok(problems) => {
            warn_of(&problems);
            tracing::info!(event = "directory_reloaded", "the directory was read anew");
        }
        Err(problems) => {
            for problem in problems.errors() {
                tracing::error!(
                    event = "directory_not_reloaded", reason = %problem,
                    "the directory is faulty; what it said before still holds"
                );
            }
        }
    }
}

fn warn_of(problems: &Problems) {
    for warning in problems.warnings() {
        tracing::warn!(event = "config_warning", reason = %warning, "the directory may not mean what it says");
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Shows counts of suppressed lines when nothing else is logged.
async fn settle_log(log: LogHandle, clock: Clock) {
    loop {
        clock.sleep(Duration::from_secs(10)).await;
        log.settle();
    }
}

/// SIGTERM and SIGINT, which end the process; SIGHUP, which has the directory read anew.
struct Signals {
    directory: Option<FileDirectory>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::System { what: "signals can't be received", source };
        Ok(Self {
            directory: None,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    /// The next one that asks for an end. Cancel safe.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    if let Some(directory) = &self.directory {
                        reload(directory);
                    }
                    tracing::warn!(
                        event = "reload_ignored",
                        "SIGHUP: this version reads nothing but the directory anew; restart to take other changes, nothing is lost by it"
                    );
                }
            }
        }
    }
}

/// Each connection is an open file: raises the limit as far as it goes, and keeps within it.
fn places(max_sessions: usize) -> Places {
    let raised = rlimit::increase_nofile_limit(u64::MAX);
    let limit = raised.or_else(|error| {
        tracing::debug!(event = "file_limit", reason = %error, "the limit of open files stays as it is");
        rlimit::getrlimit(rlimit::Resource::NOFILE).map(|(soft, _)| soft)
    });
    // A limit that nobody can tell is met when a connection can't be accepted, and says so then.
    let Ok(limit) = limit else { return Places::new(max_sessions) };
    let places = Places::within(max_sessions, limit);
    if places.open < max_sessions {
        tracing::warn!(
            event = "sessions_limited",
            limit,
            max_sessions,
            sessions = places.open,
            "the limit of open files allows fewer sessions than queue_manager.max_sessions: raise it with LimitNOFILE= in \
             the systemd unit or with ulimit -n, or lower max_sessions"
        );
    }
    places
}
