//! What the documents say of the code is true: events, refusals, commands.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_event_is_documented_and_every_documented_event_exists() {
    let mut written = BTreeSet::new();
    for file in sources(&["src", "connectors/api/src", "connectors/amqp091/src"]) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        // Examples in doc comments are not events.
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for piece in lines.flat_map(|line| line.split("event = \"").skip(1)) {
            written.insert(piece.split('"').next().unwrap().to_owned());
        }
        // Lines that the log makes itself.
        for piece in code.split("event: \"").skip(1) {
            written.insert(piece.split('"').next().unwrap().to_owned());
        }
    }
    let documented = first_column("docs/operations.md", "| Event |");
    assert_eq!(written, documented);
}

#[test]
fn every_refusal_is_documented_and_every_documented_refusal_exists() {
    let text = fs::read_to_string("src/bridge/rejection.rs").unwrap();
    let written: BTreeSet<String> = text
        .lines()
        .filter(|line| line.contains("MessageClass::NACK_") && line.contains("=> (\""))
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect();
    assert!(written.len() > 10);
    assert_eq!(written, first_column("docs/operations.md", "| `outcome` |"));
}

/// The names in the first column of the table that begins with `head`.
fn first_column(file: &str, head: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2).take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let cell = row.split('|').nth(1).unwrap();
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

fn sources(roots: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = roots.iter().map(|root| Path::new(root).to_path_buf()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}
