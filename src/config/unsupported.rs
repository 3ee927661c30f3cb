//! What the configuration can ask for and this version can't do, in one table.
//!
//! All names of the contract are known and their types are checked, so that a file written for a later version
//! reads well; but nothing that it asks for is passed over in silence. A version that learns something deletes the
//! entry.

use super::problem::Severity;
use super::raw::Section;

/// Which file an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Process,
    RouteToAmqp,
    RouteToMsmq,
}

/// Which values an entry is about.
#[derive(Clone, Copy, Debug)]
enum Asks {
    /// Whatever it says.
    Whatever,
    /// Everything but these values, which ask for what is done anyway.
    OtherThan(&'static [&'static str]),
}

struct Unsupported {
    file: File,
    key: &'static str,
    asks: Asks,
    /// An error when the operator would get something else than was asked for, a warning when the key only tunes
    /// what isn't there yet.
    severity: Severity,
    /// What to do, or what happens instead.
    remedy: &'static str,
}

const fn error(file: File, key: &'static str, asks: Asks, remedy: &'static str) -> Unsupported {
    Unsupported { file, key, asks, severity: Severity::Error, remedy }
}

const fn idle(file: File, key: &'static str, asks: Asks, remedy: &'static str) -> Unsupported {
    Unsupported { file, key, asks, severity: Severity::Warning, remedy }
}

use Asks::{OtherThan, Whatever};
use File::{Process, RouteToAmqp, RouteToMsmq};

const NO_RESEALING: &str = "bodies are passed on as they came or not at all";

const TABLE: &[Unsupported] = &[
    error(Process, "directory.kind", OtherThan(&["file"]), "remove [directory]"),
    error(Process, "keys.base", Whatever, "one key serves all providers: write private_key_file in [keys]"),
    error(Process, "keys.enhanced", Whatever, "one key serves all providers: write private_key_file in [keys]"),
    error(RouteToAmqp, "from.transactional", OtherThan(&["false"]), "write transactional = false"),
    error(RouteToAmqp, "from.journal", OtherThan(&["false"]), "bind a second queue to the exchange for a copy"),
    error(
        RouteToAmqp,
        "from.trust",
        OtherThan(&[""]),
        "external certificates are not traced to an authority; register them for their users in the directory",
    ),
    error(RouteToAmqp, "to.unpack", Whatever, "extensions are passed on as they came, in the header msmq-extension"),
    error(RouteToAmqp, "security.reseal_for", Whatever, NO_RESEALING),
    error(RouteToAmqp, "security.reseal_as", Whatever, NO_RESEALING),
    error(RouteToMsmq, "to.delivery", OtherThan(&["express", "recoverable"]), "write delivery = \"recoverable\""),
    error(RouteToMsmq, "to.journal", OtherThan(&["false"]), "no copies are kept of what is sent"),
    error(RouteToMsmq, "security.mode", OtherThan(&["non-transparent"]), "bodies are sent in clear"),
    error(RouteToMsmq, "security.sign", OtherThan(&["false"]), "messages are sent unsigned"),
    error(RouteToMsmq, "security.encrypt", Whatever, "bodies are sent in clear"),
    idle(RouteToMsmq, "security.signature_form", Whatever, "messages are sent unsigned"),
];

/// Reports what a file asks for and this version can't do.
pub(super) fn check(root: &Section<'_>, file: File) {
    for entry in TABLE.iter().filter(|entry| entry.file == file) {
        let Some(value) = root.rendered(entry.key).filter(|_| !root.is_faulty(entry.key)) else { continue };
        let what = match entry.asks {
            OtherThan(harmless) if harmless.iter().any(|word| word.eq_ignore_ascii_case(&value.plain)) => continue,
            OtherThan(_) => format!("{} ", value.shown),
            Whatever => String::new(),
        };
        let remedy = entry.remedy;
        match entry.severity {
            Severity::Error => {
                root.error(entry.key, value.line, format!("{what}is not supported by this version; {remedy}"));
            }
            Severity::Warning => {
                root.warning(entry.key, value.line, format!("{what}has no effect in this version: {remedy}"));
            }
        }
    }
}
