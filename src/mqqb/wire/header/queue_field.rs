use bytes::Bytes;

use crate::mqqb::wire::{Guid, WideText};

/// A queue as a `UserHeader` names it (MS-MQMQ 2.2.18.1.5, 2.2.18.1.7 and the tables of 2.2.19.2).
///
/// Which kinds are legal depends on the place: `{0,3,5,7}` for the destination, `{0,2,3,5,6,7}` for the
/// administration queue, `{0..7}` for the response queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueueField {
    /// 0: no queue.
    #[default]
    None,
    /// 1, response only: the administration queue.
    SameAsAdmin,
    /// 2: a private queue of the source machine.
    PrivateOnSource(u32),
    /// 3: a private queue of the destination machine.
    PrivateOnDestination(u32),
    /// 4, response only: a private queue of the machine that hosts the administration queue.
    PrivateOnAdminHost(u32),
    /// 5: a public queue.
    Public(Guid),
    /// 6: a private queue of a machine that is named here.
    Private {
        /// The machine.
        machine: Guid,
        /// The queue's number there.
        id: u32,
    },
    /// 7: a direct name.
    Direct(DirectField),
}

/// A direct name on the wire: without `DIRECT=`, such as `OS:host\private$\orders` (MS-MQMQ 2.2.18.1.5.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectField {
    /// The name.
    pub name: WideText,
    /// The bytes that pad the field to 4, relative to the start of the header; arbitrary on the wire.
    pub padding: Bytes,
}

impl QueueField {
    /// The 3-bit type code of the flags.
    pub const fn type_code(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::SameAsAdmin => 1,
            Self::PrivateOnSource(_) => 2,
            Self::PrivateOnDestination(_) => 3,
            Self::PrivateOnAdminHost(_) => 4,
            Self::Public(_) => 5,
            Self::Private { .. } => 6,
            Self::Direct(_) => 7,
        }
    }
}
