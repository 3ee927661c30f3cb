use std::process::Command;

use testkit::PrivateBroker;

use crate::python;
use crate::step::{Failure, cargo, headline, run, succeeds};

/// Every check and every test. What is green here is green in CI: CI runs nothing else.
pub(crate) fn run_all() -> Result<(), Failure> {
    headline("the tools");
    PrivateBroker::install_if_missing()?;
    let python = python::with_client()?;
    let deny = deny_is_there();

    headline("formatting, lints, documentation");
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    run(Command::new("cargo").args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;

    headline("licences, sources, duplicate and banned crates");
    if deny {
        // The advisory database is fetched from the network; `cargo deny check` alone reads it too.
        cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"])?;
    } else {
        println!("left out: cargo-deny is not installed and could not be; `cargo install cargo-deny` brings it");
    }

    headline("tests");
    let broker = PrivateBroker::running()?;
    run(Command::new("cargo")
        .args(["test", "--workspace", "--quiet"])
        .env(testkit::SharedBroker::VARIABLE, broker.uri())
        .env("MQBRIDGE_TEST_PYTHON", &python))?;
    println!("\neverything passed");
    Ok(())
}

fn deny_is_there() -> bool {
    let there = || succeeds(Command::new("cargo").args(["deny", "--version"]));
    there() || (run(Command::new("cargo").args(["install", "--quiet", "--locked", "cargo-deny"])).is_ok() && there())
}
