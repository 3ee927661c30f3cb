//! The project's chores. `cargo xtask` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod demo;
mod fuzz;
mod python;
mod step;
mod test;

use std::process::ExitCode;

use step::Failure;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo     installs RabbitMQ from the system's packages if it is missing, starts a private broker and the bridge, sends
           messages over the native MSMQ protocol, shows them arriving in RabbitMQ, and an answer coming back
  test     installs what the tests need if it is missing, then runs every check and every test, the real broker's too
  bench    the benchmarks of docs/performance.md (release builds; takes some minutes)
  fuzz     each fuzz target for 60 seconds (needs the nightly toolchain); `cargo xtask fuzz SECONDS` for longer";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let outcome = match command.as_deref() {
        Some("demo") => demo::run_all(),
        Some("test") => test::run_all(),
        Some("bench") => bench(&rest),
        Some("fuzz") => fuzz::run_all(&rest),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nxtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// All of them, or the named ones: `codec`, `security`, `store`, `end_to_end`.
fn bench(names: &[String]) -> Result<(), Failure> {
    testkit::PrivateBroker::install_if_missing()?;
    let all = ["codec", "security", "store", "end_to_end"].map(str::to_owned);
    for name in if names.is_empty() { all.as_slice() } else { names } {
        step::cargo(&["bench", "--package", "mqbridge", "--bench", name])?;
    }
    Ok(())
}
