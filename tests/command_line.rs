//! What can be typed, and what is said to what can't.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use jiff::Timestamp;
use mqbridge::cli::{self, Cli, Command, Delivery, Exit, Lifetime, Surroundings};
use mqbridge::security::Cipher;

fn parse(arguments: &[&str]) -> Result<Command, String> {
    let arguments = std::iter::once("mqbridge").chain(arguments.iter().copied());
    Cli::try_parse_from(arguments).map(|cli| cli.command).map_err(|error| error.to_string())
}

#[test]
fn the_definitions_agree_with_each_other() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in Cli::command().get_subcommands_mut() {
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "{name}: {help}");
        assert!(help.contains(&format!("mqbridge {name}")), "{name}: {help}");
    }
}

#[test]
fn commands_find_their_configuration() {
    let Ok(Command::Check(check)) = parse(&["check", "--config", "c.toml", "--online"]) else { panic!("check") };
    assert_eq!((check.config.config.as_path(), check.online), (Path::new("c.toml"), true));
    let Ok(Command::Run(run)) = parse(&["run"]) else { panic!("run") };
    assert_eq!(run.config, Path::new("/etc/mqbridge/mqbridge.toml"));
    let Ok(Command::Status(status)) = parse(&["status", "--json"]) else { panic!("status") };
    assert!(status.json);
    let Ok(Command::Decode(decode)) = parse(&["decode", "-"]) else { panic!("decode") };
    assert_eq!((decode.file.as_path(), decode.json), (Path::new("-"), false));
}

#[test]
fn a_message_can_be_described_in_full() {
    let arguments = r"send --to DIRECT=OS:bridge01\private$\orders --label order --body x --body-type 0x1011 --delivery express
        --priority 7 --correlation-id {C778CA24-7C5A-4060-80C0-AEEE428D53AE}\17 --response-queue DIRECT=OS:me\private$\r
        --admin-queue PUBLIC=a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a --app-specific 4294967295 --time-to-reach-queue 4d
        --sign alice.pem,alice.der --encrypt AES256,bridge01.pem
        --time-to-be-received infinite --extension-file e --count 5 --timeout 500ms";
    let Ok(Command::Send(send)) = parse(&arguments.split_whitespace().collect::<Vec<_>>()) else { panic!("send") };
    assert_eq!(send.to.to_string(), r"DIRECT=OS:bridge01\private$\orders");
    assert_eq!((send.label.as_str(), send.body.as_deref(), send.body_type), ("order", Some("x"), 0x1011));
    assert_eq!((send.delivery, send.priority, send.app_specific, send.count), (Delivery::Express, 7, u32::MAX, 5));
    assert_eq!(send.correlation_id.unwrap().to_string(), r"c778ca24-7c5a-4060-80c0-aeee428d53ae\17");
    assert_eq!(send.time_to_reach_queue, Lifetime::For(Duration::from_hours(96)));
    assert_eq!(send.sign.unwrap().certificate, Path::new("alice.der"));
    assert_eq!(send.encrypt.unwrap().cipher, Cipher::Aes256);
    assert_eq!(send.time_to_be_received, Lifetime::Infinite);
    assert_eq!(send.timeout, Duration::from_millis(500));

    let Ok(Command::Send(send)) = parse(&["send", "--to", r"DIRECT=OS:b\q"]) else { panic!("send") };
    assert_eq!((send.delivery, send.priority, send.count), (Delivery::Recoverable, 3, 1));
    assert_eq!(send.timeout, Duration::from_secs(30));
}

#[test]
fn what_is_wrong_with_a_message_is_said() {
    let label = "x".repeat(250);
    for (arguments, expected) in [
        (vec![], "--to <FORMATNAME>"),
        (vec!["--to", "orders"], "\"orders\" is not a format name"),
        (vec!["--to", r"DIRECT=OS:b\q", "--priority", "8"], "8 is not in 0..=7"),
        (vec!["--to", r"DIRECT=OS:b\q", "--body", "x", "--body-file", "y"], "cannot be used with"),
        (vec!["--to", r"DIRECT=OS:b\q", "--timeout", "30"], "the unit is missing"),
        (vec!["--to", r"DIRECT=OS:b\q", "--label", &label], "a label has at most 249 characters, not 250"),
        (vec!["--to", r"DIRECT=OS:b\q", "--correlation-id", "17"], "GUID\\NUMBER is expected"),
        (vec!["--to", r"DIRECT=OS:b\q", "--body-type", "bytes"], "a number of 32 bits is expected"),
        (vec!["--to", r"DIRECT=OS:b\q", "--count", "0"], "0 is not in 1.."),
        (vec!["--to", r"DIRECT=OS:b\q", "--sign", "alice.pem"], "two files are expected, such as alice.pem,alice.der"),
        (vec!["--to", r"DIRECT=OS:b\q", "--encrypt", "des,b.pem"], "aes128, aes192, aes256, rc2 or rc4 and a file"),
        (vec!["--to", r"DIRECT=OS:b\q", "--encrypt", "aes256"], "such as aes256,bridge01.pem"),
    ] {
        let error = parse(&[&["send"], arguments.as_slice()].concat()).unwrap_err();
        assert!(error.contains(expected), "{expected} is not in {error}");
    }
}

#[test]
fn exits_have_the_agreed_numbers() {
    assert_eq!([Exit::Done, Exit::Failed, Exit::Usage, Exit::Configuration].map(|exit| exit as u8), [0, 1, 2, 78]);
    let arguments = |last: &str| ["mqbridge".into(), last.into()];
    assert_eq!(cli::parse(arguments("--nonsense")).map(drop), Err(Exit::Usage));
    assert_eq!(cli::parse(arguments("--version")).map(drop), Err(Exit::Done));
}

#[test]
fn the_version_says_what_was_built() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut surroundings =
        Surroundings { out: &mut out, err: &mut err, environment: &|_| None, now: Timestamp::UNIX_EPOCH };
    assert_eq!(cli::version(&mut surroundings), Exit::Done);
    let out = String::from_utf8(out).unwrap();
    assert!(out.starts_with(concat!("mqbridge ", env!("CARGO_PKG_VERSION"), " (commit ")), "{out}");
    assert!(out.ends_with("\nfeatures: amqp091\n"), "{out}");
}
