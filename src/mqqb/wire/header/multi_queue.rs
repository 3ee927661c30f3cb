use bytes::Bytes;

use crate::mqqb::wire::{Guid, WideText};

/// All queues that a message was sent to (MS-MQMQ 2.2.20.1), each sub-header always present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiQueueHeader {
    /// Every destination that got a copy.
    pub destination: AddressList,
    /// The administration queues.
    pub administration: AddressList,
    /// The response queues.
    pub response: AddressList,
    /// The signature over all of them.
    pub signature: MultiQueueSignature,
}

/// A list of format names (MS-MQMQ 2.2.20.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList {
    /// Kept, never tested.
    pub reserved: u16,
    /// The names.
    pub elements: Vec<ListElement>,
    /// The bytes of all elements with their inner alignment, as they came: what a 3.0 signature hashes.
    pub format_name_list: Bytes,
    /// The bytes that pad the list to 4.
    pub padding: Bytes,
    /// How many of the padding bytes `HeaderSize` counts: all, or none.
    pub padding_counted: usize,
}

/// One name of a list (MS-MQMQ 2.2.18.1.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListElement {
    /// The bytes between `FormatType` and the name.
    pub padding_before_name: Bytes,
    /// The name.
    pub name: ListName,
}

/// What a list can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListName {
    /// 1: a public queue.
    Public(Guid),
    /// 2: a private queue.
    Private {
        /// The machine.
        machine: Guid,
        /// The queue's number there.
        id: u32,
    },
    /// 3: a direct name, without `DIRECT=`.
    Direct(WideText),
    /// 6: a distribution list.
    DistributionList(Guid),
}

/// The signature over the lists (MS-MQMQ 2.2.20.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiQueueSignature {
    /// Kept, never tested.
    pub reserved: u16,
    /// The signature; empty when there is none.
    pub value: Bytes,
    /// The bytes that pad it to 4.
    pub padding: Bytes,
}
