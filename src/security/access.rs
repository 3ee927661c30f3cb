//! May this sender write to this queue (MS-MQQB 3.1.5.8.3, last part)?

use super::Owner;
use crate::mqqb::wire::{SenderId, Sid};

/// Who may send to a queue: entries in order, the first that concerns the sender decides. Whom none concerns may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList(Vec<AccessEntry>);

/// One entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// Allow or deny.
    pub access: Access,
    /// Whom it concerns.
    pub trustee: Trustee,
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Lets the message in.
    Allow,
    /// Refuses it.
    Deny,
}

/// Whom an entry concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trustee {
    /// All senders, those without sender id too.
    Everyone,
    /// A user, or the members of a group, by SID.
    Sid(Sid),
    /// The members of a group, by its name in the directory; letters of either case are the same.
    Group(String),
}

/// The groups that the directory has for a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups<'a> {
    /// By name.
    pub names: &'a [String],
    /// By SID.
    pub sids: &'a [Sid],
}

/// That a sender may write to a queue. Can only come from [`AccessList::permit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit(());

/// That the sender may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessDenied {
    /// An entry says so.
    #[error("the queue's access list denies it to the sender")]
    Denied,
    /// No entry lets it in.
    #[error("the queue's access list does not allow it to the sender")]
    NotAllowed,
    /// Without sender id, to a queue that not everyone may send to.
    #[error("the message has no sender id, and the queue's access list does not let everyone send")]
    NoSenderId,
}

impl AccessList {
    /// A list of these entries, in this order.
    pub fn new(entries: impl IntoIterator<Item = AccessEntry>) -> Self {
        Self(entries.into_iter().collect())
    }

    /// A list that lets everyone in.
    pub fn everyone() -> Self {
        Self::new([AccessEntry { access: Access::Allow, trustee: Trustee::Everyone }])
    }

    /// Walks the list for a sender and its groups.
    ///
    /// A sender without SID, be it a queue manager (3.1.5.8.3: everyone, S-1-1-0), may send only when the list lets
    /// everyone in before it denies it to anybody: it could be whom an entry denies it to.
    pub fn permit(&self, owner: &Owner, groups: Groups<'_>) -> Result<Permit, AccessDenied> {
        let SenderId::Sid(sid) = owner.sender() else { return self.permit_without_sid() };
        let concerns = |entry: &&AccessEntry| match &entry.trustee {
            Trustee::Everyone => true,
            Trustee::Sid(trustee) => trustee == sid || entry.trustee.is_everyone() || groups.sids.contains(trustee),
            Trustee::Group(name) => groups.names.iter().any(|group| same_name(group, name)),
        };
        match self.0.iter().find(concerns).map(|entry| entry.access) {
            Some(Access::Allow) => Ok(Permit(())),
            Some(Access::Deny) => Err(AccessDenied::Denied),
            None => Err(AccessDenied::NotAllowed),
        }
    }

    fn permit_without_sid(&self) -> Result<Permit, AccessDenied> {
        let deciding = |entry: &&AccessEntry| entry.access == Access::Deny || entry.trustee.is_everyone();
        match self.0.iter().find(deciding).map(|entry| entry.access) {
            Some(Access::Allow) => Ok(Permit(())),
            Some(Access::Deny) | None => Err(AccessDenied::NoSenderId),
        }
    }
}

impl Trustee {
    /// S-1-1-0, the SID of everyone.
    const WORLD: [u8; 12] = [1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

    fn is_everyone(&self) -> bool {
        match self {
            Self::Everyone => true,
            Self::Sid(sid) => sid.as_wire()[..] == Self::WORLD,
            Self::Group(_) => false,
        }
    }
}

fn same_name(a: &str, b: &str) -> bool {
    a.chars().flat_map(char::to_lowercase).eq(b.chars().flat_map(char::to_lowercase))
}
