use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};

use crate::TestkitError;
use crate::scratch::{random, user_root};

/// Below the range from which Linux takes the local ports of outgoing connections (32768 and up by default), so that
/// no client socket sits on a port between its choice and its use.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// A run of consecutive loopback ports that are free and stay ours: claimed by a lock file as long as this lives, so
/// that two test runs at once choose different ones.
#[derive(Debug)]
pub struct PortBlock {
    base: u16,
    _claim: File,
}

impl PortBlock {
    /// Ports in a block.
    pub const SIZE: u16 = 16;

    /// Claims a block.
    pub fn claim() -> Result<Self, TestkitError> {
        let locks = user_root()?.join("ports");
        fs::create_dir_all(&locks).map_err(TestkitError::file("creating", &locks))?;
        let blocks = (LAST - FIRST + 1) / Self::SIZE;
        let start = (random() % u32::from(blocks)) as u16;
        for step in 0..blocks {
            let base = FIRST + (start + step) % blocks * Self::SIZE;
            let path = locks.join(base.to_string());
            let claim = File::create(&path).map_err(TestkitError::file("creating", &path))?;
            if claim.try_lock().is_ok() && all_free(base) {
                return Ok(Self { base, _claim: claim });
            }
        }
        Err(TestkitError::NoPorts { wanted: Self::SIZE, from: FIRST, to: LAST })
    }

    /// A port of the block; `offset` below [`SIZE`](Self::SIZE).
    pub fn port(&self, offset: u16) -> u16 {
        debug_assert!(offset < Self::SIZE, "a block has {} ports", Self::SIZE);
        self.base + offset
    }
}

fn all_free(base: u16) -> bool {
    // Held together, so that the whole block is free at one moment.
    let held: Vec<_> =
        (base..base + PortBlock::SIZE).map_while(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).collect();
    held.len() == usize::from(PortBlock::SIZE)
}
