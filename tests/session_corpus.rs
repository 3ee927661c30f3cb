//! Replays the corpus of the fuzz target `session` on every ordinary test run, and inputs made by chance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on says so")]
#![allow(clippy::print_stdout, reason = "a failure must name its input")]

#[path = "simulation/packets.rs"]
mod packets;

#[path = "../fuzz/src/session.rs"]
#[allow(unreachable_pub, reason = "the file is a module of another crate")]
mod session;

use packets::Chance;

#[test]
fn the_corpus_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/session");
    let files: Vec<_> = std::fs::read_dir(folder).expect("the corpus").map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        println!("{}", file.display());
        session::session(&std::fs::read(&file).expect("a file of the corpus"));
    }
}

#[test]
fn operations_made_by_chance_hold() {
    for seed in 0..800 {
        let mut chance = Chance::new(seed);
        let length = chance.between(4, 300);
        let input: Vec<u8> = (0..length).map(|_| chance.next() as u8).collect();
        println!("seed {seed}");
        session::session(&input);
    }
}
