//! Who is who: users, machines and queues, as a directory has them.
//!
//! What an answer means is decided elsewhere: here a message is neither authentic nor allowed. A [`Directory`] that
//! does not know somebody says so with `None`; one that can't be asked says [`Unavailable`]. The two must never be
//! mixed up: an unknown sender is refused for good, while a directory that is down is no fault of the message's.
//!
//! * [`User`], [`Machine`], [`Queue`] — what is known of each.
//! * [`mod@file`] — a directory in one file, `directory.toml`.

mod entries;
pub mod file;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::mqqb::wire::{Guid, Sid};

pub use entries::{
    CertificateDigest, Host, Machine, MachineAddress, NotAMachineAddress, NotAPathName, PathName, PublicKeys, Queue,
    Trustee, User, digest,
};

/// Something that knows users, machines and queues.
///
/// Names are compared without regard to case. Answers are shared and don't change: what changes in the directory is in
/// the next answer.
pub trait Directory: Send + Sync + fmt::Debug {
    /// The user of a security identifier.
    fn user_by_sid<'a>(&'a self, sid: &'a Sid) -> BoxFuture<'a, Answer<User>>;

    /// The user for whom a certificate is registered.
    fn user_by_certificate(&self, digest: CertificateDigest) -> BoxFuture<'_, Answer<User>>;

    /// The machine of a queue manager's identifier.
    fn machine_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Machine>>;

    /// The machine of a computer name: the name itself, not one of its addresses.
    fn machine_by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Answer<Machine>>;

    /// The queue of `PUBLIC=guid`.
    fn queue_by_guid(&self, guid: Guid) -> BoxFuture<'_, Answer<Queue>>;

    /// The queue of a path name.
    fn queue_by_path<'a>(&'a self, path: &'a PathName) -> BoxFuture<'a, Answer<Queue>>;
}

/// What a directory says: an entry, `None` when it has none such, or that it can't be asked.
pub type Answer<T> = Result<Option<Arc<T>>, Unavailable>;

/// The directory can't be asked now. That says nothing of whom it was asked about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory can't be asked: {reason}")]
pub struct Unavailable {
    /// Why.
    pub reason: String,
}
