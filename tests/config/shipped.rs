//! The files that are shipped are right, and say the truth.

use std::fs;
use std::path::{Path, PathBuf};

use mqbridge::config::{self, Config};

use super::Files;

fn shipped() -> Vec<PathBuf> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let examples = fs::read_dir(config.join("examples")).unwrap().map(|entry| entry.unwrap().path());
    std::iter::once(config.clone()).chain(examples).map(|dir| dir.join("mqbridge.toml")).collect()
}

#[test]
fn every_shipped_configuration_is_right() {
    let files = shipped();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let passwords = |name: &str| name.ends_with("_PASSWORD").then(|| "s3cret".to_owned());
        match config::load(&file, passwords) {
            Ok(config) => {
                assert_eq!(config.warnings, [], "{}", file.display());
                assert!(!config.routes.is_empty(), "{}", file.display());
            }
            Err(problems) => panic!("{problems}"),
        }
    }
}

#[test]
fn the_defaults_in_the_shipped_files_are_the_defaults() {
    /// Shown as examples, because there is no default.
    const EXAMPLES: [&str; 15] = [
        "private_key_file",
        "[keys.base]",
        "[keys.enhanced]",
        "uri_file",
        "tls.ca_file",
        "tls.cert_file",
        "tls.key_file",
        "[http]",
        "private_id",
        "guid",
        "trust",
        "content_type",
        "unpack",
        "reseal_for",
        "reseal_as",
    ];
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let with_defaults = |name: &str| {
        let text = fs::read_to_string(config.join(name)).unwrap();
        let mut skipping = false;
        let lines = text.lines().map(|line| {
            let key = line.strip_prefix('#').filter(|key| !key.is_empty() && !key.starts_with(' ')).unwrap_or("");
            // The sections that this version has no use for are examples as a whole.
            skipping = key.starts_with("[directory]") || key.starts_with("[http]") || (skipping && !key.is_empty());
            let is_example = skipping || EXAMPLES.iter().any(|example| key.starts_with(example));
            if key.is_empty() || is_example { line } else { key }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let (main, route) = (with_defaults("mqbridge.toml"), with_defaults("routes/orders.toml"));
    assert!(
        main.contains("\nmax_sessions = ") && main.contains("\nlifetime = ") && !main.contains("\nbase_dn"),
        "{main}"
    );
    assert!(route.contains("\nmax_in_flight = ") && route.contains("\nrequired = "), "{route}");
    let bare_route = fs::read_to_string(config.join("routes/orders.toml")).unwrap();
    let bare_main = fs::read_to_string(config.join("mqbridge.toml")).unwrap();
    let bare = Files::new(&bare_main).with("routes/orders.toml", &bare_route).with_nothing_wrong();
    let written = Files::new(&main).with("routes/orders.toml", &route).with_nothing_wrong();
    let without_place = |config: Config| Config { source_files: Vec::new(), ..config };
    assert_eq!(without_place(written), without_place(bare));
}
