use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::{Opener, ReplyAddresses, Resealer, Sealer};
use crate::config::{self, CipherChoice, Hash, SecurityMode, Senders};
use crate::mqqb::wire::{Guid, QueuePath, QueueSuffix};
use crate::security::{Access, AccessEntry, AccessList, Cipher, CipherPolicy, HashAlgorithm, SignaturePolicy, Trustee};
use crate::store::{QueueId, Store, StoreError};
use crate::telemetry::RouteCounters;

/// A route that runs.
#[derive(Debug)]
pub struct RouteEntry {
    /// What the operator asked for.
    pub config: config::Route,
    /// Its queue in the store.
    pub queue: QueueId,
    /// The number in `PRIVATE=guid\number`.
    pub private_id: u32,
    /// The identifier in `PUBLIC=guid`.
    pub guid: Guid,
    /// Forgiven when a sender's clock is judged.
    pub clock_skew: Duration,
    /// What the bridge does with what is inside.
    pub handling: Handling,
    /// What a signature must be worth.
    pub signatures: SignaturePolicy,
    /// Who may send, by the route and by the directory: every list must let the sender in. None for everyone.
    pub access: Vec<AccessList>,
    /// Where replies to its messages go.
    pub replies: Arc<ReplyAddresses>,
    /// What it has done.
    pub counters: Arc<RouteCounters>,
}

/// The route's security mode. A transparent route has nothing to open a body with: it can't be forgotten to pass it on as
/// it came.
#[derive(Clone, Debug)]
pub enum Handling {
    /// Bodies pass as they came.
    Transparent,
    /// Bodies are opened.
    NonTransparent {
        /// What opens them.
        opener: Opener,
        /// Which ones.
        ciphers: CipherPolicy,
        /// What encrypts them again, where the route asks for that.
        resealer: Option<Resealer>,
    },
}

/// The routes by every name that a sender can use.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    entries: Vec<Arc<RouteEntry>>,
    by_path: HashMap<String, usize>,
    by_private_id: HashMap<u32, usize>,
    by_guid: HashMap<Guid, usize>,
}

/// The routes contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum RouteTableError {
    /// The store has no room for a queue.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two queues would have one number.
    #[error(
        "route {second}: the private queue number {id:#x} belongs to route {first}; set from.private_id to a free one"
    )]
    PrivateId {
        /// The number.
        id: u32,
        /// Who has it.
        first: String,
        /// Who wants it.
        second: String,
    },
}

/// Private queue numbers that the configuration does not fix begin here: below are MSMQ's own queues, such as
/// `order_queue$` with 4.
const FIRST_PRIVATE_ID: u32 = 0x100;

impl RouteTable {
    /// Makes the routes ready: each gets its queue in the store and the numbers that its names need. Those that the
    /// configuration does not fix follow from the queue's number in the store and from our own identifier, and so
    /// stay what they are.
    pub fn build(
        routes: Vec<config::Route>,
        own: Guid,
        clock_skew: Duration,
        store: &Store,
        replies: &Arc<ReplyAddresses>,
        (opener, sealer): (&Opener, &Sealer),
        listed: &BTreeMap<String, AccessList>,
    ) -> Result<Self, RouteTableError> {
        let mut table = Self::default();
        for config in routes {
            let path = config.from.queue.to_string().to_lowercase();
            let queue = store.queue(&path)?;
            let private_id = config.from.private_id.unwrap_or(FIRST_PRIVATE_ID + queue.number());
            let guid = config.from.guid.unwrap_or_else(|| Guid::derived(own, &path));
            let index = table.entries.len();
            if let Some(&first) = table.by_private_id.get(&private_id) {
                let name_of = |index: usize| table.entries.get(index).map(|entry| entry.config.name.clone());
                return Err(RouteTableError::PrivateId {
                    id: private_id,
                    first: name_of(first).unwrap_or_default(),
                    second: config.name,
                });
            }
            let listed = listed.get(&path).cloned();
            table.by_path.insert(path, index);
            table.by_private_id.insert(private_id, index);
            table.by_guid.insert(guid, index);
            let entry = RouteEntry {
                handling: match config.mode {
                    SecurityMode::Transparent => Handling::Transparent,
                    SecurityMode::NonTransparent => Handling::NonTransparent {
                        opener: opener.clone(),
                        ciphers: ciphers(&config.from.ciphers),
                        resealer: config.reseal.clone().map(|reseal| Resealer::new(reseal, sealer.clone())),
                    },
                },
                signatures: signatures(&config.from),
                access: access(&config.from.senders).into_iter().chain(listed).collect(),
                config,
                queue,
                private_id,
                guid,
                clock_skew,
                replies: Arc::clone(replies),
                counters: Arc::default(),
            };
            table.entries.push(Arc::new(entry));
        }
        Ok(table)
    }

    /// All routes, in the order of their names.
    pub fn entries(&self) -> &[Arc<RouteEntry>] {
        &self.entries
    }

    /// The route of a queue that is named by its path on this machine, in any case.
    pub fn by_path(&self, path: &QueuePath) -> Option<&Arc<RouteEntry>> {
        self.entries.get(*self.by_path.get(&path.to_string().to_lowercase())?)
    }

    /// The route of `PRIVATE=own\id`.
    pub fn by_private_id(&self, id: u32) -> Option<&Arc<RouteEntry>> {
        self.entries.get(*self.by_private_id.get(&id)?)
    }

    /// The route of `PUBLIC=guid`.
    pub fn by_guid(&self, guid: Guid) -> Option<&Arc<RouteEntry>> {
        self.entries.get(*self.by_guid.get(&guid)?)
    }

    /// The queue whose name comes nearest, when one comes near.
    pub fn nearest(&self, path: &QueuePath) -> Option<String> {
        let wanted = path.to_string().to_lowercase();
        // The most likely mistake of all.
        let private = format!("private$\\{wanted}");
        if self.by_path.contains_key(&private) {
            return Some(private);
        }
        let close = |name: &String| strsim::damerau_levenshtein(&wanted, name);
        let name = self.by_path.keys().min_by_key(|name| close(name))?;
        (close(name) <= 1 + wanted.len() / 6).then(|| name.clone())
    }
}

/// The shortest RSA key that is worth anything, and the shortest that `rsa512` lets in.
const KEY_BITS: usize = 1024;
const SHORT_KEY_BITS: usize = 512;

fn shortest_key(choices: &[CipherChoice]) -> usize {
    if choices.contains(&CipherChoice::Rsa512) { SHORT_KEY_BITS } else { KEY_BITS }
}

fn ciphers(choices: &[CipherChoice]) -> CipherPolicy {
    let cipher = |choice: &CipherChoice| match choice {
        CipherChoice::Aes128 => Some(Cipher::Aes128),
        CipherChoice::Aes192 => Some(Cipher::Aes192),
        CipherChoice::Aes256 => Some(Cipher::Aes256),
        CipherChoice::Rc2 => Some(Cipher::Rc2),
        CipherChoice::Rc4 => Some(Cipher::Rc4),
        CipherChoice::Rsa512 => None,
    };
    CipherPolicy { ciphers: choices.iter().filter_map(cipher).collect(), min_key_bits: shortest_key(choices) }
}

fn signatures(from: &config::MsmqSource) -> SignaturePolicy {
    let min_hash = match from.min_hash {
        Hash::Md2 => HashAlgorithm::Md2,
        Hash::Md4 => HashAlgorithm::Md4,
        Hash::Md5 => HashAlgorithm::Md5,
        Hash::Sha1 => HashAlgorithm::Sha1,
        Hash::Sha256 => HashAlgorithm::Sha256,
        Hash::Sha512 => HashAlgorithm::Sha512,
    };
    SignaturePolicy { min_hash, min_key_bits: shortest_key(&from.ciphers) }
}

/// SIDs are users or groups; everything else is the name of a group in the directory.
fn access(senders: &Senders) -> Option<AccessList> {
    let Senders::Listed(listed) = senders else { return None };
    let entry = |text: &String| {
        let trustee = text.parse().map_or_else(|_| Trustee::Group(text.clone()), Trustee::Sid);
        AccessEntry { access: Access::Allow, trustee }
    };
    Some(AccessList::new(listed.iter().map(entry)))
}

/// Whether a queue of this path can be sent to from outside: journals and sub-queues can't.
pub(super) const fn is_destination(path: &QueuePath) -> bool {
    !matches!(
        path,
        QueuePath::System(_)
            | QueuePath::Private { suffix: Some(QueueSuffix::Journal | QueueSuffix::SubQueue(_)), .. }
            | QueuePath::Public { suffix: Some(QueueSuffix::Journal | QueueSuffix::SubQueue(_)), .. }
    )
}
