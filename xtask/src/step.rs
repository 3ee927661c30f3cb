use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What went wrong in a chore.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A command failed; it has said why.
    #[error("this failed: {0}")]
    Command(String),
    /// A command could not be started.
    #[error("cannot run {program}: {source}{remedy}")]
    Missing { program: String, source: std::io::Error, remedy: String },
    /// The broker.
    #[error(transparent)]
    Testkit(#[from] testkit::TestkitError),
    /// A file.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// Something else.
    #[error("{0}")]
    Because(String),
}

/// The project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Says what comes next.
pub(crate) fn headline(what: &str) {
    println!("\n==> {what}");
}

/// Runs cargo in the root.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    run(&mut command)
}

/// Runs a command in the root, showing its output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = shown(command);
    let started = clock();
    println!("$ {shown}");
    let status =
        command.current_dir(root()).stdin(Stdio::null()).status().map_err(|source| missing(command, source))?;
    println!("  ({:.1} s)", started.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(Failure::Command(shown)) }
}

/// Whether a command can be run at all and succeeds; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let command = command.current_dir(root()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn missing(command: &Command, source: std::io::Error) -> Failure {
    let program = command.get_program().to_string_lossy().into_owned();
    Failure::Missing { program, source, remedy: String::new() }
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// As a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[expect(clippy::disallowed_methods, reason = "chores run in real time")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
