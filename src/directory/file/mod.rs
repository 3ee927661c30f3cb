//! `kind = "file"`: a directory in one file, with certificates and keys in files beside it.
//!
//! The file is read whole and checked whole, as the configuration is; then nothing of it can be unavailable. What was
//! read never changes: a new reading replaces it, when it is right, and whoever still holds an old answer keeps that.

pub(crate) mod material;
mod reading;
mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::{BoxFuture, ready};

use super::{Answer, CertificateDigest, Directory, Machine, PathName, Queue, User};
use crate::config::Problems;
use crate::mqqb::wire::{Guid, Sid};

pub use reading::read;
pub use snapshot::Snapshot;

/// The directory of a file. Cheap to clone; all clones see a new reading.
#[derive(Clone, Debug)]
pub struct FileDirectory {
    path: Arc<PathBuf>,
    current: Arc<RwLock<Arc<Snapshot>>>,
}

impl FileDirectory {
    /// Reads the file. `environment` gives the values for `${NAME}`. The warnings are given besides.
    ///
    /// # Errors
    /// All that is wrong, warnings among it.
    pub fn open(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<(Self, Problems), Problems> {
        let (snapshot, warnings) = read(path, environment)?;
        let current = Arc::new(RwLock::new(Arc::new(snapshot)));
        Ok((Self { path: Arc::new(path.to_owned()), current }, warnings))
    }

    /// Reads the file again. When something is wrong with it, what was read before stays in force.
    ///
    /// # Errors
    /// All that is wrong, warnings among it.
    pub fn reload(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<Problems, Problems> {
        let (snapshot, warnings) = read(&self.path, environment)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        Ok(warnings)
    }

    /// What was read last.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer<'a, T: Send + Sync + 'a>(
        &self,
        look_up: impl FnOnce(&Snapshot) -> Option<&Arc<T>>,
    ) -> BoxFuture<'a, Answer<T>> {
        Box::pin(ready(Ok(look_up(&self.snapshot()).cloned())))
    }
}

impl Directory for FileDirectory {
    fn user_by_sid<'a>(&'a self, sid: &'a Sid) -> BoxFuture<'a, Answer<User>> {
        self.answer(|snapshot| snapshot.user_by_sid(sid))
    }

    fn user_by_certificate(&self, digest: CertificateDigest) -> BoxFuture<'_, Answer<User>> {
        self.answer(|snapshot| snapshot.user_by_certificate(digest))
    }

    fn machine_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Machine>> {
        self.answer(|snapshot| snapshot.machine_by_guid(guid))
    }

    fn machine_by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Answer<Machine>> {
        self.answer(|snapshot| snapshot.machine_by_name(name))
    }

    fn queue_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Queue>> {
        self.answer(|snapshot| snapshot.queue_by_guid(guid))
    }

    fn queue_by_path<'a>(&'a self, path: &'a PathName) -> BoxFuture<'a, Answer<Queue>> {
        self.answer(|snapshot| snapshot.queue_by_path(path))
    }
}
