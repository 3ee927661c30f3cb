//! Where the specification leaves the bytes of a signature open, and which way a signature took.

use std::fmt;

/// Which of the three signatures of MSMQ (MS-MQMQ 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureVersion {
    /// 2.5.1: correlation id, application value, body, label, response and administration queue.
    V1,
    /// 2.5.2: these, and source, delivery, priority, journaling, acknowledgments, class, body type, connector and
    /// destination.
    V2,
    /// 2.5.3: these with the extension, and the list of destinations instead of the one.
    V3,
}

impl SignatureVersion {
    /// `SecurityHeader.Flags.AS` as a receiver sets it (MS-MQQB 3.1.5.8.3).
    pub const fn signature_type(self) -> u8 {
        match self {
            Self::V1 => 0x1,
            Self::V2 => 0x3,
            Self::V3 => 0x5,
        }
    }
}

impl fmt::Display for SignatureVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
            Self::V3 => "3.0",
        })
    }
}

/// Which reading of the open points a signature follows. `Display` gives it in words for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one open point of the specification")]
pub struct Reading {
    /// How queues are written.
    pub queue_names: QueueNames,
    /// Whether the label has its NUL (A-03: it has).
    pub label_with_nul: bool,
    /// Whether an absent connector type is 16 zero bytes (A-03: it is nothing).
    pub absent_connector_as_zeros: bool,
    /// Whether a response queue that is "the administration queue" is hashed as that (A-03: it is nothing).
    pub same_as_admin_repeated: bool,
    /// Which lists a 3.0 signature covers.
    pub lists: FormatNameLists,
    /// Which body is signed (A-01: the plaintext).
    pub ciphertext: bool,
    /// Whether the hash is in a `DigestInfo` (A-01: it is).
    pub digest_info: bool,
    /// Whether the value is big-endian (A-01: it is little-endian).
    pub big_endian: bool,
}

/// How the hash has the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueNames {
    /// The property form: the format name as UTF-16 text, `DIRECT=OS:host\private$\q`, with its NUL.
    Property,
    /// The wire form: the field as it stands in the packet, without padding.
    Wire,
    /// The wire form with its padding.
    WireWithPadding,
    /// Direct names without `Count`, with their NUL.
    Name,
    /// Direct names without `Count` and NUL.
    NameWithoutNul,
    /// The property form without its NUL.
    PropertyWithoutNul,
    /// The property form, GUIDs and numbers in lower case.
    PropertyLower,
    /// The property form, numbers without leading zeros.
    PropertyShort,
    /// The property form, in lower case and without leading zeros.
    PropertyLowerShort,
}

impl QueueNames {
    /// In the order in which a receiver tries them.
    pub(super) const ALL: [Self; 9] = [
        Self::Property,
        Self::Wire,
        Self::WireWithPadding,
        Self::Name,
        Self::NameWithoutNul,
        Self::PropertyWithoutNul,
        Self::PropertyLower,
        Self::PropertyShort,
        Self::PropertyLowerShort,
    ];
}

/// What `FormatNameList` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FormatNameLists {
    /// The destinations.
    Destination,
    /// The destinations with the list's padding.
    DestinationWithPadding,
    /// Destinations, administration and response queues.
    All,
    /// All three, each with its padding.
    AllWithPadding,
}

impl FormatNameLists {
    pub(super) const ALL: [Self; 4] =
        [Self::Destination, Self::DestinationWithPadding, Self::All, Self::AllWithPadding];
}

impl Reading {
    /// The default of every point but the queue names, of which there are two.
    pub(super) const fn new(queue_names: QueueNames) -> Self {
        Self {
            queue_names,
            label_with_nul: true,
            absent_connector_as_zeros: false,
            same_as_admin_repeated: false,
            lists: FormatNameLists::Destination,
            ciphertext: false,
            digest_info: true,
            big_endian: false,
        }
    }
}

/// The queue names, then what differs from the default: `queues=property label=without-nul`.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.queue_names {
            QueueNames::Property => "queues=property",
            QueueNames::Wire => "queues=wire",
            QueueNames::WireWithPadding => "queues=wire-with-padding",
            QueueNames::Name => "queues=name",
            QueueNames::NameWithoutNul => "queues=name-without-nul",
            QueueNames::PropertyWithoutNul => "queues=property-without-nul",
            QueueNames::PropertyLower => "queues=property-lower-case",
            QueueNames::PropertyShort => "queues=property-short",
            QueueNames::PropertyLowerShort => "queues=property-lower-case-short",
        })?;
        let lists = match self.lists {
            FormatNameLists::Destination => "",
            FormatNameLists::DestinationWithPadding => " lists=destination-with-padding",
            FormatNameLists::All => " lists=all",
            FormatNameLists::AllWithPadding => " lists=all-with-padding",
        };
        f.write_str(lists)?;
        for (differs, words) in [
            (!self.label_with_nul, " label=without-nul"),
            (self.absent_connector_as_zeros, " connector=zeros"),
            (self.same_as_admin_repeated, " response=admin-queue"),
            (self.ciphertext, " body=ciphertext"),
            (!self.digest_info, " digest-info=none"),
            (self.big_endian, " byte-order=big-endian"),
        ] {
            if differs {
                f.write_str(words)?;
            }
        }
        Ok(())
    }
}
