//! A directory in a file that can be taken away.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mqbridge::directory::file::FileDirectory;
use mqbridge::directory::{Answer, CertificateDigest, Directory, Machine, PathName, Queue, Unavailable, User};
use mqbridge::mqqb::wire::{Guid, Sid};

/// What is wrong with the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outage {
    None,
    Down,
}

/// A directory that can be taken away.
#[derive(Clone, Debug)]
pub(crate) struct Flaky {
    inner: FileDirectory,
    outage: Arc<Mutex<Outage>>,
}

impl Flaky {
    /// The directory in a file, which can be asked.
    pub(crate) fn open(file: &Path) -> Self {
        let inner = FileDirectory::open(file, &|_| None).unwrap().0;
        Self { inner, outage: Arc::new(Mutex::new(Outage::None)) }
    }

    pub(crate) fn set(&self, outage: Outage) {
        *self.outage.lock().unwrap() = outage;
    }

    fn check<'a, T: Send + Sync + 'static>(&'a self, answer: BoxFuture<'a, Answer<T>>) -> BoxFuture<'a, Answer<T>> {
        async move {
            if *self.outage.lock().unwrap() == Outage::Down {
                return Err(Unavailable { reason: "the test says so".to_owned() });
            }
            answer.await
        }
        .boxed()
    }
}

impl Directory for Flaky {
    fn user_by_sid<'a>(&'a self, sid: &'a Sid) -> BoxFuture<'a, Answer<User>> {
        self.check(self.inner.user_by_sid(sid))
    }

    fn user_by_certificate(&self, digest: CertificateDigest) -> BoxFuture<'_, Answer<User>> {
        self.check(self.inner.user_by_certificate(digest))
    }

    fn machine_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Machine>> {
        self.check(self.inner.machine_by_guid(guid))
    }

    fn machine_by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Answer<Machine>> {
        self.check(self.inner.machine_by_name(name))
    }

    fn queue_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Queue>> {
        self.check(self.inner.queue_by_guid(guid))
    }

    fn queue_by_path<'a>(&'a self, path: &'a PathName) -> BoxFuture<'a, Answer<Queue>> {
        self.check(self.inner.queue_by_path(path))
    }
}
