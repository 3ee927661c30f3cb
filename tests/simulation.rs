//! Two queue managers over a bad network, in virtual time: sessions are cut anywhere, machines crash, receipts come
//! late, out of order or never. After every step an auditor compares what was acknowledged with what is on disk.
//!
//! Everything follows from a seed. A failure prints it; `one_seed` runs it again:
//!
//! ```text
//! MQBRIDGE_SEED=1234 cargo test --test simulation one_seed -- --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on says so")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a failure must name its seed")]

#[path = "simulation/packets.rs"]
mod packets;

#[path = "simulation/wire.rs"]
mod wire;

#[path = "simulation/auditor.rs"]
mod auditor;

#[path = "simulation/side.rs"]
mod side;

#[path = "simulation/world.rs"]
mod world;

use world::{Report, World};

const SEEDS: u64 = 6_000;

#[test]
fn nothing_acknowledged_is_lost_and_everything_recoverable_arrives() {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let report = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|worker| scope.spawn(move || run((worker..SEEDS).step_by(threads as usize)))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a seed failed")).fold(Report::default(), Report::plus)
    });
    println!("{report:#?}");
    // A simulation in which nothing goes wrong proves nothing.
    for (what, count) in report.counts() {
        assert!(count > SEEDS / 200, "{what} happened only {count} times in {SEEDS} runs");
    }
}

#[test]
fn one_seed() {
    let seed = std::env::var("MQBRIDGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("{:#?}", run(std::iter::once(seed)));
}

fn run(seeds: impl Iterator<Item = u64>) -> Report {
    seeds.fold(Report::default(), |report, seed| {
        let _told = TellSeed(seed);
        report.plus(World::new(seed).run())
    })
}

struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}
