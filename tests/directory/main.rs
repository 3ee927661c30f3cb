//! Who is who: found by every name, absent or unavailable but never both, and all that is wrong said at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod commands;
mod faults;
mod material;

use std::fs;
use std::path::PathBuf;

use mqbridge::directory::file::{self, FileDirectory, Snapshot};
use tempfile::TempDir;

/// A directory file with files beside it.
struct Site {
    dir: TempDir,
}

impl Site {
    fn new(text: &str) -> Self {
        let site = Self { dir: TempDir::new().unwrap() };
        site.write("alice.der", certificate("alice"));
        site.write("bob.pem", pem("CERTIFICATE", &certificate("bob")));
        site.write("key.pem", KEY_PEM);
        site.write("key.blob", key_blob());
        site.write("directory.toml", text);
        site
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("directory.toml")
    }

    fn open(&self) -> FileDirectory {
        match FileDirectory::open(&self.file(), &|_| None) {
            Ok((directory, warnings)) => {
                assert_eq!(warnings.to_string(), "");
                directory
            }
            Err(problems) => panic!("{problems}"),
        }
    }

    fn read(&self) -> Snapshot {
        Snapshot::clone(&self.open().snapshot())
    }

    /// The lines that are printed, without the directory.
    fn problems(&self) -> Vec<String> {
        let problems = match file::read(&self.file(), &|_| None) {
            Ok((_, warnings)) => warnings,
            Err(problems) => {
                assert!(!problems.is_fine());
                problems
            }
        };
        let prefix = format!("{}/", self.dir.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
    }
}

fn wrong(text: &str) -> Vec<String> {
    Site::new(text).problems()
}

/// Bytes with the outline of X.509, different for each name.
fn certificate(name: &str) -> Vec<u8> {
    let tbs = [&[0x30, name.len() as u8 + 2, 0x0C, name.len() as u8][..], name.as_bytes()].concat();
    let inner = [&tbs[..], &[0x30, 0x00], &[0x03, 0x02, 0x00, 0xFF]].concat();
    [&[0x30, inner.len() as u8][..], &inner].concat()
}

fn pem(label: &str, bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = bytes.chunks(3).flat_map(|chunk| {
        let number = chunk.iter().chain(&[0, 0]).take(3).fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        let letter = move |index: usize| {
            if index <= chunk.len() { char::from(ALPHABET[number >> (18 - 6 * index) & 63]) } else { '=' }
        };
        (0..4).map(letter)
    });
    let letters: Vec<char> = letters.collect();
    let lines: Vec<String> = letters.chunks(64).map(|line| line.iter().collect()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// An RSA key with 1024 bits; its private half is gone.
const KEY_PEM: &str = include_str!("../fixtures/directory/key.pem");

fn key_blob() -> Vec<u8> {
    mqbridge::security::PublicKey::from_pem(KEY_PEM).unwrap().to_blob()
}

const ALICE: &str = "\
[[user]]
sid = \"S-1-5-21-1-2-3-1104\"
name = 'CORP\\alice'
groups = [\"orders-senders\", \"S-1-5-32-545\"]
certificates = [\"alice.der\"]
";

const WIN01: &str = "\
[[machine]]
guid = \"c778ca24-7c5a-4060-80c0-aeee428d53ae\"
name = \"win01\"
addresses = [\"10.1.2.3\", \"10.1.2.4:1802\", \"win01.corp.example\"]
key_files = [\"key.pem\"]
certificates = [\"bob.pem\"]
";

const ORDERS: &str = "\
[[queue]]
path = 'bridge01\\orders'
guid = \"a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\"
access = [\"orders-senders\", \"everyone\", \"S-1-5-21-1-2-3-1104\"]
[[queue]]
path = 'bridge01\\private$\\audit'
private_id = 10
";
