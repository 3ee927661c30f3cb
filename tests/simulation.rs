//! Two queue managers over a bad network, in virtual time: sessions are cut anywhere, machines crash, receipts come
//! late, out of order or never. After every step an auditor compares what was acknowledged with what is on disk.
//!
//! Everything follows from a seed. A failure prints it; `one_seed` runs it again:
//!
//! ```text
//! MQBRIDGE_SEED=1234 cargo test --test simulation one_seed -- --nocapture
//! ```
//!
//! There are two worlds. In the [first one](world) the auditor reads every acknowledgment on the wire, receipts come back
//! in any order or get lost, and each side has one session at a time. In the [second one](network) each machine has a
//! disk and a memory, several queues share a session, both sides may call, and several connections overlap; the
//! auditor looks at the disks. `MQBRIDGE_SEEDS` sets how many runs there are of each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on says so")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a failure must name its seed")]

#[path = "simulation/packets.rs"]
mod packets;

#[path = "simulation/report.rs"]
mod report;

#[path = "simulation/wire.rs"]
mod wire;

#[path = "simulation/auditor.rs"]
mod auditor;

#[path = "simulation/side.rs"]
mod side;

#[path = "simulation/world.rs"]
mod world;

#[path = "simulation/disk.rs"]
mod disk;

#[path = "simulation/ledger.rs"]
mod ledger;

#[path = "simulation/machine.rs"]
mod machine;

#[path = "simulation/network.rs"]
mod network;

use std::ops::Range;

use network::Network;
use world::World;

#[test]
fn nothing_acknowledged_is_lost_and_everything_recoverable_arrives() {
    let seeds = 0..seeds(4_000);
    let worlds = on_all_processors(&seeds, |seed| World::new(seed).run());
    let report = worlds.into_iter().fold(world::Report::default(), world::Report::plus);
    println!("{report:#?}");
    assert_everything_happened(&report.counts(), seeds.end);
}

#[test]
fn what_machines_that_crash_send_each_other_arrives_once_and_in_order() {
    let seeds = 0..seeds(3_000);
    let networks = on_all_processors(&seeds, |seed| Network::new(seed).run());
    let report = networks.into_iter().fold(network::Report::default(), network::Report::plus);
    println!("{report:#?}");
    assert_everything_happened(&report.counts(), seeds.end);
}

#[test]
fn one_seed() {
    let seed = number_from("MQBRIDGE_SEED").unwrap_or(1);
    println!("{:#?}", told(seed, |seed| World::new(seed).run()));
    println!("{:#?}", told(seed, |seed| Network::new(seed).run()));
}

fn seeds(usual: u64) -> u64 {
    number_from("MQBRIDGE_SEEDS").unwrap_or(usual)
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

fn on_all_processors<R: Send>(seeds: &Range<u64>, run: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = |worker| seeds.clone().skip(worker).step_by(threads).map(|seed| told(seed, &run)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|worker| scope.spawn(move || share(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a seed failed")).collect()
    })
}

/// A simulation in which nothing goes wrong proves nothing.
fn assert_everything_happened(counts: &[(&'static str, u64)], seeds: u64) {
    for (what, count) in counts {
        assert!(*count > seeds / 200, "{what} happened only {count} times in {seeds} runs");
    }
}

fn told<R>(seed: u64, run: impl FnOnce(u64) -> R) -> R {
    let _told = TellSeed(seed);
    run(seed)
}

struct TellSeed(u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}", self.0);
        }
    }
}
