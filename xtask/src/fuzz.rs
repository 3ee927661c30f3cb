use std::process::Command;

use crate::step::{Failure, headline, root, run, succeeds};

/// Runs every fuzz target for a while, from its committed corpus. New inputs go to a directory under `target/`, so that
/// the corpus grows only on purpose.
pub(crate) fn run_all(arguments: &[String]) -> Result<(), Failure> {
    let seconds = match arguments.first() {
        None => 60,
        Some(text) => {
            text.parse::<u32>().map_err(|_| Failure::Because(format!("\"{text}\" is not a number of seconds")))?
        }
    };
    if !succeeds(Command::new("cargo").args(["+nightly", "fuzz", "--version"])) {
        headline("installing cargo-fuzz");
        run(Command::new("cargo").args(["install", "--quiet", "--locked", "cargo-fuzz"]))?;
    }
    let targets = root().join("fuzz/fuzz_targets");
    let listing = std::fs::read_dir(&targets).map_err(|source| Failure::File { path: targets.clone(), source })?;
    let mut names: Vec<String> = listing
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.strip_suffix(".rs")).map(str::to_owned))
        .collect();
    names.sort();
    for name in names {
        headline(&format!("fuzzing {name} for {seconds} s"));
        let found = root().join("target/fuzz-corpus").join(&name);
        std::fs::create_dir_all(&found).map_err(|source| Failure::File { path: found.clone(), source })?;
        let corpus = root().join("fuzz/corpus").join(&name);
        run(Command::new("cargo").args(["+nightly", "fuzz", "run", &name]).arg(&found).arg(&corpus).args([
            "--",
            &format!("-max_total_time={seconds}"),
            "-rss_limit_mb=2048",
            "-timeout=10",
            "-verbosity=0",
            "-print_final_stats=1",
        ]))?;
    }
    Ok(())
}
