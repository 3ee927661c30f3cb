use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::TestkitError;

/// A directory of one's own under the system's temporary directory, removed when dropped.
#[derive(Debug)]
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Makes a fresh directory that only its owner can read.
    pub fn new(purpose: &str) -> Result<Self, TestkitError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let root = user_root()?;
        let unique = format!("{purpose}-{}-{}-{:08x}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed), random());
        let path = root.join(unique);
        private_dir(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What can't be removed now is removed with the system's temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The directory shared by all test runs of this user. Its name holds the user's number, so that a run as root does
/// not lock others out.
pub(crate) fn user_root() -> Result<PathBuf, TestkitError> {
    let owner = fs::metadata("/proc/self").map_err(TestkitError::file("reading", "/proc/self"))?.uid();
    let root = std::env::temp_dir().join(format!("mqbridge-testkit-{owner}"));
    private_dir(&root)?;
    Ok(root)
}

pub(crate) fn private_dir(path: &Path) -> Result<(), TestkitError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(TestkitError::file("creating", path))
}

/// Good enough to keep two runs apart; not for secrets.
pub(crate) fn random() -> u32 {
    let mixed = RandomState::new().hash_one(process::id());
    (mixed ^ (mixed >> 32)) as u32
}
