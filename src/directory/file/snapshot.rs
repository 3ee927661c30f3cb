use std::collections::HashMap;
use std::sync::Arc;

use super::super::{CertificateDigest, Machine, PathName, Queue, User, digest};
use crate::mqqb::wire::{Guid, Sid};

/// All that a file says, unchangeable, found by every name.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    users: Vec<Arc<User>>,
    machines: Vec<Arc<Machine>>,
    queues: Vec<Arc<Queue>>,
    user_of_sid: HashMap<Sid, usize>,
    user_of_certificate: HashMap<CertificateDigest, usize>,
    machine_of_guid: HashMap<Guid, usize>,
    machine_of_name: HashMap<String, usize>,
    queue_of_guid: HashMap<Guid, usize>,
    queue_of_path: HashMap<String, usize>,
}

impl Snapshot {
    /// Of two entries with one name the first is found; whoever reads a file refuses such.
    pub(super) fn new(users: Vec<User>, machines: Vec<Machine>, queues: Vec<Queue>) -> Self {
        let mut snapshot = Self::default();
        for (index, user) in users.iter().enumerate() {
            snapshot.user_of_sid.entry(user.sid.clone()).or_insert(index);
            for certificate in &user.certificates {
                snapshot.user_of_certificate.entry(digest(certificate)).or_insert(index);
            }
        }
        for (index, machine) in machines.iter().enumerate() {
            snapshot.machine_of_guid.entry(machine.guid).or_insert(index);
            snapshot.machine_of_name.entry(machine.name.to_lowercase()).or_insert(index);
        }
        for (index, queue) in queues.iter().enumerate() {
            if let Some(guid) = queue.guid {
                snapshot.queue_of_guid.entry(guid).or_insert(index);
            }
            snapshot.queue_of_path.entry(queue.path.identity()).or_insert(index);
        }
        snapshot.users = users.into_iter().map(Arc::new).collect();
        snapshot.machines = machines.into_iter().map(Arc::new).collect();
        snapshot.queues = queues.into_iter().map(Arc::new).collect();
        snapshot
    }

    /// All users, in the order of the file.
    pub fn users(&self) -> &[Arc<User>] {
        &self.users
    }

    /// All machines, in the order of the file.
    pub fn machines(&self) -> &[Arc<Machine>] {
        &self.machines
    }

    /// All queues, in the order of the file.
    pub fn queues(&self) -> &[Arc<Queue>] {
        &self.queues
    }

    /// The user of a security identifier.
    pub fn user_by_sid(&self, sid: &Sid) -> Option<&Arc<User>> {
        self.users.get(*self.user_of_sid.get(sid)?)
    }

    /// The user for whom a certificate is registered.
    pub fn user_by_certificate(&self, digest: CertificateDigest) -> Option<&Arc<User>> {
        self.users.get(*self.user_of_certificate.get(&digest)?)
    }

    /// The machine of a queue manager's identifier.
    pub fn machine_by_guid(&self, guid: Guid) -> Option<&Arc<Machine>> {
        self.machines.get(*self.machine_of_guid.get(&guid)?)
    }

    /// The machine of a computer name.
    pub fn machine_by_name(&self, name: &str) -> Option<&Arc<Machine>> {
        self.machines.get(*self.machine_of_name.get(&name.to_lowercase())?)
    }

    /// The queue of an identifier.
    pub fn queue_by_guid(&self, guid: Guid) -> Option<&Arc<Queue>> {
        self.queues.get(*self.queue_of_guid.get(&guid)?)
    }

    /// The queue of a path name.
    pub fn queue_by_path(&self, path: &PathName) -> Option<&Arc<Queue>> {
        self.queues.get(*self.queue_of_path.get(&path.identity())?)
    }
}
