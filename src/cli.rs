//! The command line: what can be typed, and the commands that need neither network nor a running bridge.

mod directory;
mod identify;
mod key;
mod send;
mod verify;
mod version;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;

pub use directory::directory;
pub use identify::{id, init};
pub use key::key;
pub use send::{Delivery, EncryptWith, Lifetime, SendArgs, SignWith};
pub use verify::{check, load, load_to_run};
pub use version::{VERSION, version};

/// An MSMQ queue manager for Linux that bridges to RabbitMQ.
#[derive(Debug, Parser)]
#[command(name = "mqbridge", version = VERSION, arg_required_else_help = true, after_help = "\
Begin with:
  mqbridge check --config config/mqbridge.toml
  mqbridge run --config config/mqbridge.toml

Exit codes: 0 done, 1 failed, 2 usage, 78 configuration.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the bridge in the foreground
    ///
    /// SIGTERM finishes what is on its way and stops; a second one stops at once.
    #[command(after_help = "Example:\n  mqbridge run --config /etc/mqbridge/mqbridge.toml")]
    Run(ConfigArgs),

    /// Show everything that is wrong with a configuration, or what it comes to
    ///
    /// Exits with 0 when nothing is wrong with the files and with 78 when something is. Ports, disks and what the broker
    /// holds are not looked at.
    #[command(after_help = "Examples:\n  mqbridge check --config config/mqbridge.toml\n  \
                            mqbridge check --config config/mqbridge.toml --online")]
    Check(CheckArgs),

    /// Make the state directory, the identity and the key
    ///
    /// What is there already stays as it is. `run` does the same when it finds nothing.
    #[command(after_help = "Example:\n  mqbridge init --config /etc/mqbridge/mqbridge.toml")]
    Init(ConfigArgs),

    /// Show who this queue manager is: GUID, names and public keys
    #[command(after_help = "Examples:\n  mqbridge id --config /etc/mqbridge/mqbridge.toml\n  \
                            mqbridge id --json | jq -r '.public_keys[0].pem'")]
    Id(JsonArgs),

    /// Send a message as any other queue manager would, and wait until it is acknowledged
    ///
    /// Needs no configuration and no running bridge.
    #[command(after_help = "Examples:\n  \
        mqbridge send --to 'DIRECT=OS:bridge01\\private$\\orders' --label order --body '<order id=\"17\"/>'\n  \
        mqbridge send --to 'DIRECT=TCP:10.1.2.3\\private$\\orders' --body-file order.xml --delivery express --count 1000\n  \
        mqbridge send --to 'DIRECT=OS:bridge01\\private$\\orders' --body secret --sign alice.pem,alice.der --encrypt aes256,bridge01.pem")]
    Send(Box<SendArgs>),

    /// Show routes, queues, sessions and connectors of the running bridge
    #[command(
        after_help = "Examples:\n  mqbridge status --config /etc/mqbridge/mqbridge.toml\n  mqbridge status --json"
    )]
    Status(JsonArgs),

    /// Check or show the directory: users, machines and queues
    ///
    /// Needs no running bridge.
    #[command(
        arg_required_else_help = true,
        after_help = "Examples:\n  mqbridge directory check --config /etc/mqbridge/mqbridge.toml\n  \
                      mqbridge directory show --json"
    )]
    Directory(DirectoryArgs),

    /// Show the key and the certificate of this queue manager, or make another certificate
    ///
    /// Needs no running bridge.
    #[command(
        arg_required_else_help = true,
        after_help = "Examples:\n  mqbridge key show --config /etc/mqbridge/mqbridge.toml\n  mqbridge key new-cert"
    )]
    Key(KeyArgs),

    /// Show a packet in words
    #[command(
        after_help = "Examples:\n  mqbridge decode packet.bin\n  xxd -r -p packet.hex | mqbridge decode - --json"
    )]
    Decode(DecodeArgs),

    /// Show version, commit and features
    #[command(after_help = "Example:\n  mqbridge version")]
    Version,
}

/// Which configuration.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ConfigArgs {
    /// The main configuration file; routes are beside it
    #[arg(long, value_name = "FILE", default_value = "/etc/mqbridge/mqbridge.toml")]
    pub config: PathBuf,
}

/// Arguments of `check`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Also connect to the brokers and log in
    #[arg(long)]
    pub online: bool,
}

/// Arguments of commands that show something.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct JsonArgs {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// As one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `directory`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DirectoryArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DirectoryCommand,
}

/// What can be done with the directory.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum DirectoryCommand {
    /// Show everything that is wrong with the directory file, or how much it holds
    #[command(after_help = "Example:\n  mqbridge directory check --config /etc/mqbridge/mqbridge.toml")]
    Check(ConfigArgs),
    /// Show who is in it
    #[command(after_help = "Example:\n  mqbridge directory show --json | jq '.machines[].name'")]
    Show(JsonArgs),
}

/// Arguments of `key`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct KeyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// What can be done with the key.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum KeyCommand {
    /// Show the public key that senders encrypt for, and the certificate that is signed with
    #[command(after_help = "Example:\n  mqbridge key show --json | jq -r .key.pem")]
    Show(JsonArgs),
    /// Make another certificate in place of the one that there is; the key stays
    ///
    /// A running bridge signs with the former one until it is restarted.
    #[command(after_help = "Example:\n  mqbridge key new-cert --config /etc/mqbridge/mqbridge.toml")]
    NewCert(ConfigArgs),
}

/// Arguments of `decode`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DecodeArgs {
    /// The file with the bytes, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// As one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked for.
    Done = 0,
    /// It did not.
    Failed = 1,
    /// It was asked for something that it does not understand.
    Usage = 2,
    /// The configuration is wrong (`EX_CONFIG`).
    Configuration = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What a command sees of the world.
pub struct Surroundings<'a> {
    /// Where results go.
    pub out: &'a mut dyn Write,
    /// Where problems go.
    pub err: &'a mut dyn Write,
    /// Environment variables by name.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The time.
    pub now: Timestamp,
}

/// Reads the command line. Help, version and complaints are printed here, and the command ends with what is given.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    Cli::try_parse_from(arguments).map_err(|error| {
        // A reader that is gone needs no help.
        let _ = error.print();
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    })
}
