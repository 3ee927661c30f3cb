//! Puts the commit into the binary: `MQBRIDGE_COMMIT` from the environment, or else what git says, or else `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=MQBRIDGE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("MQBRIDGE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(commit_of_work_tree).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=MQBRIDGE_COMMIT={commit}");
}

fn commit_of_work_tree() -> Option<String> {
    // An unpacked source archive inside somebody else's repository is not that repository's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top) != Path::new(env!("CARGO_MANIFEST_DIR")) {
        return None;
    }
    // The log of HEAD grows with every commit and every checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
