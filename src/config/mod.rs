//! What the operator asked for: files read whole, checked whole, and turned into the types that the bridge runs.
//!
//! [`load`] either gives a [`Config`] in which everything holds, or all [`Problems`] at once, each with file, line,
//! key, what is wrong, and the nearest valid name. What a file says and what the bridge runs are different types:
//! nothing of [`Config`] has to be checked again, and nothing of it holds a default that was meant as "not given".
//!
//! Only names of MSMQ and of ciphers are known here besides; no socket is opened, no name resolved, no named file looked into but
//! by [`NamedFile::inspect`].

mod connector;
mod environment;
pub(crate) mod files;
pub(crate) mod problem;
mod process;
pub(crate) mod queue_name;
pub(crate) mod raw;
mod return_route;
mod route;
mod routing_key;
mod summary;
mod unsupported;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use connector::{Amqp091Config, AmqpUri, ClientCertificate, ConnectorConfig, TlsFiles, UriSource};
pub use files::{FileUse, NamedFile, owner_only};
pub use problem::{Problem, Problems, Severity};
pub use process::{
    AdminConfig, DirectoryConfig, KeyCacheConfig, KeysConfig, LogConfig, LogFormat, LogLevel, QueueManagerConfig,
    StoreConfig,
};
pub use return_route::{
    AckWanted, AmqpSource, Delivery, Destination, MsmqTarget, Protection, ReturnRoute, check_sendable,
};
pub use route::{
    Accepts, AmqpTarget, Authenticate, CipherChoice, ExtensionPolicy, Hash, MsmqSource, OnQuota, Privacy, Reseal,
    ResealForm, Route, SecurityMode, Senders, Unroutable,
};
pub use routing_key::{BadRoutingKey, Placeholder, RoutingKeyTemplate};
pub use summary::Summary;
pub use values::{NotAQuantity, parse_size, parse_time};

use crate::mqqb::wire::Sid;
use connector::Connectors;
use problem::Quoted;
use process::Process;
use raw::{Context, Document};
use route::{AnyRoute, RouteDraft, Surroundings};

/// A configuration in which everything holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who we are towards MSMQ.
    pub queue_manager: QueueManagerConfig,
    /// The durable queues.
    pub store: StoreConfig,
    /// The keys that senders encrypt for.
    pub keys: KeysConfig,
    /// Keys of bodies that are kept.
    pub key_cache: KeyCacheConfig,
    /// Where users, machines and queues are looked up; `None`: nowhere.
    pub directory: Option<DirectoryConfig>,
    /// The foreign systems by name.
    pub connectors: BTreeMap<String, ConnectorConfig>,
    /// The routes from MSMQ, by name.
    pub routes: Vec<Route>,
    /// The routes to MSMQ, by name.
    pub return_routes: Vec<ReturnRoute>,
    /// Local control.
    pub admin: AdminConfig,
    /// Where `/livez` and `/readyz` are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// The log.
    pub log: LogConfig,
    /// The files that this was read from, the main one first.
    pub source_files: Vec<PathBuf>,
    /// The files that it names and that have to be there when the bridge starts.
    pub named_files: Vec<NamedFile>,
    /// What looked wrong.
    pub warnings: Vec<Problem>,
}

impl Config {
    /// Looks at the files that the configuration names: what is not there, or can be read by others, keeps the bridge
    /// from running. The warnings are among what is given.
    pub fn inspect(&self) -> Problems {
        let found = self.named_files.iter().filter_map(NamedFile::inspect);
        Problems::sorted(found.chain(self.warnings.iter().cloned()).collect(), &self.source_files)
    }
}

/// Reads the main file and the route files beside it.
///
/// Relative paths in them are relative to the directory of the main file. `environment` gives the values for
/// `${NAME}`.
///
/// # Errors
/// All that is wrong, warnings among it.
pub fn load(path: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    let directory = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let context = Context::new(directory, &environment);
    let mut source_files = vec![path.to_owned()];
    let text = match files::read(path) {
        Ok(text) => text,
        Err(why) => {
            // Whatever lies beside a file that is not there is not its routes.
            context.report(Severity::Error, path, None, None, why);
            return Err(Problems::sorted(context.problems.take(), &source_files));
        }
    };
    let main = read_main(path, &text, &context);
    let (routes, return_routes) = read_routes(path, main.as_ref(), &context, &mut source_files);
    if main.as_ref().is_some_and(|main| main.process.directory.is_none()) {
        warn_without_directory(&routes, path, &context);
    }
    let problems = Problems::sorted(context.problems.take(), &source_files);
    match main {
        Some(Main { process, connectors }) if problems.is_fine() => Ok(Config {
            queue_manager: process.queue_manager,
            store: process.store,
            keys: process.keys,
            key_cache: process.key_cache,
            directory: process.directory,
            connectors: connectors.configs,
            routes,
            return_routes,
            admin: process.admin,
            http: process.http,
            log: process.log,
            source_files,
            named_files: context.named_files.take(),
            warnings: problems.warnings().cloned().collect(),
        }),
        _ => Err(problems),
    }
}

/// What the main file says.
struct Main {
    process: Process,
    connectors: Connectors,
}

fn read_main(path: &Path, text: &str, context: &Context<'_>) -> Option<Main> {
    let document = Document::new(path, text, context);
    let table = document.parse()?;
    let root = document.root(table.get_ref());
    let process = process::read(&root);
    let connectors = connector::read(&root.section("connectors"), &process.queue_manager.name);
    root.finish();
    unsupported::check(&root, unsupported::File::Process);
    warn_of_modes(path, process.secret_line.or(connectors.secret_line), context);
    Some(Main { process, connectors })
}

fn read_routes(
    path: &Path,
    main: Option<&Main>,
    context: &Context<'_>,
    source_files: &mut Vec<PathBuf>,
) -> (Vec<Route>, Vec<ReturnRoute>) {
    let given = main.and_then(|main| main.process.routes_dir.as_ref());
    let directory = given.map_or_else(|| context.directory.join("routes"), |directory| directory.value.clone());
    let files = match files::route_files(&directory) {
        Ok(files) => files,
        Err(error) => {
            let severity = if given.is_some() { Severity::Error } else { Severity::Warning };
            let text = format!("{} {}", directory.display(), files::why(&error));
            let line = given.map(|directory| directory.line);
            context.report(severity, path, line, Some("routes_dir".to_owned()), text);
            return (Vec::new(), Vec::new());
        }
    };
    let files::RouteFiles { routes: files, strays } = files;
    if !strays.is_empty() {
        warn_of_strays(&directory, &strays, context);
    }
    if files.is_empty() {
        let text = format!("there is no route: {} holds no file NAME.toml", directory.display());
        context.report(Severity::Warning, path, None, None, text);
    }
    let surroundings = Surroundings {
        // A machine whose own name is missing can't tell which queues are its own.
        machine: main.map(|main| &main.process.queue_manager).filter(|machine| !machine.name.is_empty()),
        connectors: main.map(|main| &main.connectors),
        has_directory: main.map(|main| main.process.has_directory),
    };
    let drafts: Vec<RouteDraft> = files.iter().filter_map(|file| read_route(file, surroundings, context)).collect();
    route::check_all(context, &drafts, surroundings);
    source_files.extend(files);
    let (mut routes, mut return_routes) = (Vec::new(), Vec::new());
    for route in drafts.into_iter().filter_map(RouteDraft::into_route) {
        match route {
            AnyRoute::ToAmqp(route) => routes.push(*route),
            AnyRoute::ToMsmq(route) => return_routes.push(*route),
        }
    }
    (routes, return_routes)
}

/// A copy that an editor has left, or a name in capitals: it looks like a route and is none.
fn warn_of_strays(directory: &Path, strays: &[String], context: &Context<'_>) {
    const SHOWN: usize = 5;
    let names: Vec<_> = strays.iter().take(SHOWN).map(|name| Quoted(name).to_string()).collect();
    let more = match strays.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("no routes, and not read: {}{more}; a route is a file NAME.toml", names.join(", "));
    context.report(Severity::Warning, directory, None, None, text);
}

fn read_route(path: &Path, surroundings: Surroundings<'_>, context: &Context<'_>) -> Option<RouteDraft> {
    let text = match files::read(path) {
        Ok(text) => text,
        Err(why) => {
            context.report(Severity::Error, path, None, None, why);
            return None;
        }
    };
    let document = Document::new(path, &text, context);
    let table = document.parse()?;
    let draft = route::read(&document, &document.root(table.get_ref()), surroundings);
    warn_of_modes(path, None, context);
    Some(draft)
}

/// What asks who somebody is, and nobody can say.
fn warn_without_directory(routes: &[Route], path: &Path, context: &Context<'_>) {
    for route in routes {
        let from = &route.from;
        let groups = match &from.senders {
            Senders::Everyone => Vec::new(),
            Senders::Listed(listed) => {
                listed.iter().filter(|name| name.parse::<Sid>().is_err() && !name.contains('\\')).collect()
            }
        };
        if let Some(group) = groups.first() {
            let text = format!(
                "route {} lets the group {} send, and there is no [directory] that says who is in it: nobody may",
                route.name,
                Quoted(group)
            );
            context.report(Severity::Warning, path, None, None, text);
        }
        if from.authenticate == Authenticate::Required {
            let text = format!(
                "route {} takes proven senders only, and there is no [directory] with their certificates: it takes nothing",
                route.name
            );
            context.report(Severity::Warning, path, None, None, text);
        }
    }
}

/// Warns when others may read a password or change what the bridge does.
pub(crate) fn warn_of_modes(path: &Path, secret_line: Option<u32>, context: &Context<'_>) {
    const OTHERS_READ: u32 = 0o004;
    const OTHERS_WRITE: u32 = 0o002;
    let mode = files::mode(path).unwrap_or(0);
    let shown = path.display();
    if mode & OTHERS_READ != 0
        && let Some(line) = secret_line
    {
        let text = format!("everybody may read this password; keep it in a file of its own, or chmod o-r {shown}");
        context.report(Severity::Warning, path, Some(line), None, text);
    }
    if mode & OTHERS_WRITE != 0 {
        let text = format!("everybody may write to this file; chmod o-w {shown}");
        context.report(Severity::Warning, path, None, None, text);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// A shipped file with the keys in it that it shows as comments.
    fn uncommented(name: &str) -> String {
        let text = files::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)).unwrap();
        let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
        text.lines().map(|line| if is_key(line) { &line[1..] } else { line }).collect::<Vec<_>>().join("\n")
    }

    /// Keys that the code asks for and the file doesn't have.
    fn undocumented(text: &str, read: impl FnOnce(&Document<'_>, &raw::Section<'_>)) -> Vec<String> {
        let environment = |_: &str| Some("x".to_owned());
        let context = Context::new(PathBuf::new(), &environment);
        let document = Document::new(Path::new("f"), text, &context);
        let table = document.parse().unwrap();
        let root = document.root(table.get_ref());
        read(&document, &root);
        let unknown = context.problems.take().into_iter().filter(|problem| problem.text.starts_with("unknown key"));
        assert_eq!(unknown.collect::<Vec<_>>(), []);
        let known = context.known.take();
        assert!(known.len() > 20, "{known:?}");
        known.into_iter().filter(|key| root.rendered(key).is_none()).collect()
    }

    #[test]
    fn the_shipped_files_show_every_key() {
        let nothing: [&str; 0] = [];
        let of_process = undocumented(&uncommented("mqbridge.toml"), |_, root| {
            process::read(root);
            connector::read(&root.section("connectors"), "bridge01");
            root.finish();
        });
        assert_eq!(of_process, nothing);
        let of_route = undocumented(&uncommented("routes/orders.toml"), |document, root| {
            route::read(document, root, Surroundings::default());
        });
        assert_eq!(of_route, nothing);
        let of_return_route = undocumented(&uncommented("routes/replies.toml"), |document, root| {
            route::read(document, root, Surroundings::default());
        });
        assert_eq!(of_return_route, nothing);
    }
}
