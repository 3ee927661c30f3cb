use std::io;
use std::path::PathBuf;

/// What kept a real peer from running, in a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TestkitError {
    /// A program that the tests need is not on this machine.
    #[error(
        "{program} is not here: install it with `{remedy}`, or set {} to the URI of a running broker",
        crate::SharedBroker::VARIABLE
    )]
    Missing {
        /// Path or name of the program.
        program: String,
        /// The command that installs it.
        remedy: &'static str,
    },
    /// The package manager could not install RabbitMQ.
    #[error("`{command}` failed: {output}")]
    Install {
        /// What was run.
        command: String,
        /// The end of what it said.
        output: String,
    },
    /// A command ended with a failure.
    #[error("`{command}` failed: {output}")]
    Command {
        /// What was run.
        command: String,
        /// What it said.
        output: String,
    },
    /// No free range of ports was found.
    #[error("no free block of {wanted} loopback ports between {from} and {to}: other test runs hold them all")]
    NoPorts {
        /// Ports wanted in one block.
        wanted: u16,
        /// First port tried.
        from: u16,
        /// Last port tried.
        to: u16,
    },
    /// The node ended, or did not report for duty in time.
    #[error("the RabbitMQ node did not start within {seconds} s: {reason}; the end of its log:\n{log}")]
    NotStarted {
        /// How long it was waited for.
        seconds: u64,
        /// Ended, or still starting.
        reason: String,
        /// The last lines it logged.
        log: String,
    },
    /// The node is not running now.
    #[error("the RabbitMQ node is not running")]
    NotRunning,
    /// The broker that the tests of this process share did not start; every test that wants it hears the same.
    #[error("{0}")]
    Shared(String),
    /// A file or process operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl TestkitError {
    pub(crate) fn file(verb: &str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{verb} {}", path.into().display());
        move |source| Self::Io { what, source }
    }

    pub(crate) fn running(program: &str) -> impl FnOnce(io::Error) -> Self {
        let what = format!("running {program}");
        move |source| Self::Io { what, source }
    }
}
