use bytes::{BufMut, Bytes, BytesMut};

use crate::mqqb::wire::padding::padding_to_4;
use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::{Write, size_field};
use crate::mqqb::wire::{Guid, Malformed, Padding, Reason, WideText};

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
    /// Output is made from `elements`; [`AddressList::new`] makes both agree.
    pub format_name_list: Bytes,
    /// The bytes that pad the list to 4.
    pub padding: Padding,
    /// Whether `HeaderSize` leaves out the padding. By default it counts it.
    pub padding_left_out: bool,
}

/// One name of a list (MS-MQMQ 2.2.18.1.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListElement {
    /// The bytes between `FormatType` and the name.
    pub padding_before_name: Padding,
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
    pub padding: Padding,
}

impl MultiQueueHeader {
    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            destination: AddressList::decode(AddressList::DESTINATION_ID, reader)?,
            administration: AddressList::decode(AddressList::ADMINISTRATION_ID, reader)?,
            response: AddressList::decode(AddressList::RESPONSE_ID, reader)?,
            signature: MultiQueueSignature::decode(reader)?,
        })
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        self.destination.encode(AddressList::DESTINATION_ID, out)?;
        self.administration.encode(AddressList::ADMINISTRATION_ID, out)?;
        self.response.encode(AddressList::RESPONSE_ID, out)?;
        self.signature.encode(out)
    }
}

impl AddressList {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 4 /* HeaderSize */ + 2 /* HeaderID */ + 2 /* Reserved */ + 4 /* ElementCount */;
    /// `HeaderID` of the destinations.
    pub const DESTINATION_ID: u16 = 0x0064;
    /// `HeaderID` of the administration queues.
    pub const ADMINISTRATION_ID: u16 = 0x00C8;
    /// `HeaderID` of the response queues.
    pub const RESPONSE_ID: u16 = 0x012C;

    /// A list of these names, aligned as the specification has it.
    pub fn new(names: impl IntoIterator<Item = ListName>) -> Self {
        let mut at = Self::FIXED_SIZE;
        let mut elements = Vec::new();
        for name in names {
            at += 2 /* FormatType */;
            let padding_before_name =
                if matches!(name, ListName::Direct(_)) { Padding::NONE } else { Padding::zeros(at) };
            at += padding_before_name.len() + name.size();
            elements.push(ListElement { padding_before_name, name });
        }
        let mut list = BytesMut::new();
        for element in &elements {
            element.encode(&mut list);
        }
        Self {
            reserved: 0,
            elements,
            format_name_list: list.freeze(),
            padding: Padding::zeros(at),
            padding_left_out: false,
        }
    }

    /// `HeaderSize` on the wire.
    pub fn header_size(&self) -> usize {
        let size = Self::FIXED_SIZE + self.elements.iter().map(ListElement::size).sum::<usize>();
        if self.padding_left_out { size } else { size.next_multiple_of(4) }
    }

    fn decode(id: u16, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const SIZE: &str = "MQFAddressHeader.HeaderSize";
        let start = reader.at();
        let left = reader.left();
        let header_size = reader.u32(SIZE)?;
        let found_id = reader.u16("MQFAddressHeader.HeaderID")?;
        let reserved = reader.u16("MQFAddressHeader.Reserved")?;
        let count = reader.u32("MQFAddressHeader.ElementCount")?;
        let Some(list_size) = u64::from(header_size).checked_sub(Self::FIXED_SIZE as u64) else {
            return Err(Malformed::size(SIZE, header_size.into(), Self::FIXED_SIZE as u64, left as u64));
        };
        if found_id != id {
            return Err(Malformed::value("MQFAddressHeader.HeaderID", found_id.into()));
        }
        let list = reader.split(list_size, SIZE)?;
        // names of public queues are aligned like all others, but some senders may leave that out.
        let elements = match Elements::decode(count, true, start, list.clone()) {
            Err(aligned) => Elements::decode(count, false, start, list.clone()).map_err(|_| aligned)?,
            Ok(elements) => elements,
        };
        let mut list = list;
        let format_name_list = list.bytes(elements.size as u64, SIZE)?;
        // `HeaderSize` counts the alignment, or not.
        let padding = match list.left() {
            0 => reader.padding(start, SIZE)?,
            _ => list.padding(start, SIZE)?,
        };
        let padding_left_out = !u64::from(header_size).is_multiple_of(4);
        Ok(Self { reserved, elements: elements.names, format_name_list, padding, padding_left_out })
    }

    fn encode(&self, id: u16, out: &mut BytesMut) -> Result<(), Malformed> {
        let start = out.len();
        out.put_u32_le(size_field(self.header_size(), u32::MAX.into(), "MQFAddressHeader.HeaderSize")?);
        out.put_u16_le(id);
        out.put_u16_le(self.reserved);
        out.put_u32_le(size_field(self.elements.len(), u32::MAX.into(), "MQFAddressHeader.ElementCount")?);
        for element in &self.elements {
            element.encode(out);
        }
        out.pad(start, self.padding);
        Ok(())
    }
}

/// The elements of a list and their size.
struct Elements {
    names: Vec<ListElement>,
    size: usize,
}

impl Elements {
    /// Reads `count` elements, which must fill `list` but for its padding.
    fn decode(count: u32, public_aligned: bool, start: usize, mut list: Reader<'_>) -> Result<Self, Malformed> {
        const COUNT: &str = "MQFAddressHeader.ElementCount";
        let begin = list.at();
        let mut names = Vec::new();
        for _ in 0..count {
            if list.left() == 0 {
                return Err(Malformed::because(COUNT, "more than HeaderSize holds"));
            }
            names.push(ListElement::decode(public_aligned, start, &mut list)?);
        }
        match list.left() {
            left if left == 0 || left == padding_to_4(list.at() - start) => Ok(Self { names, size: list.at() - begin }),
            _ => Err(Malformed::because(COUNT, "less than HeaderSize holds")),
        }
    }
}

impl ListElement {
    fn decode(public_aligned: bool, start: usize, list: &mut Reader<'_>) -> Result<Self, Malformed> {
        const NAME: &str = "MQFFormatNameElement.FormatName";
        let kind = list.u16("MQFFormatNameElement.FormatType")?;
        let padding_before_name = match kind {
            1 if public_aligned => list.padding(start, NAME)?,
            2 | 6 => list.padding(start, NAME)?,
            // A direct name begins on an even offset, and there are no others here.
            _ => Padding::NONE,
        };
        let name = match kind {
            1 => ListName::Public(list.guid(NAME)?),
            2 => ListName::Private { machine: list.guid(NAME)?, id: list.u32(NAME)? },
            3 => {
                const DIRECT: &str = "MQFDirectQueueFormatName";
                let nul = list.rest().as_chunks().0.iter().position(|unit| *unit == [0, 0]);
                let units = nul.ok_or(Malformed { field: DIRECT, reason: Reason::NoNul })? as u64;
                ListName::Direct(list.text(units * 2 + 2 /* NUL */, DIRECT, DIRECT)?)
            }
            6 => ListName::DistributionList(list.guid(NAME)?),
            _ => return Err(Malformed::value("MQFFormatNameElement.FormatType", kind.into())),
        };
        Ok(Self { padding_before_name, name })
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u16_le(self.name.type_code());
        out.put_slice(&self.padding_before_name);
        match &self.name {
            ListName::Public(guid) | ListName::DistributionList(guid) => out.guid(*guid),
            ListName::Private { machine, id } => {
                out.guid(*machine);
                out.put_u32_le(*id);
            }
            ListName::Direct(name) => out.text(name),
        }
    }

    fn size(&self) -> usize {
        2 /* FormatType */ + self.padding_before_name.len() + self.name.size()
    }
}

impl ListName {
    /// `FormatType`.
    pub const fn type_code(&self) -> u16 {
        match self {
            Self::Public(_) => 1,
            Self::Private { .. } => 2,
            Self::Direct(_) => 3,
            Self::DistributionList(_) => 6,
        }
    }

    /// Bytes on the wire.
    const fn size(&self) -> usize {
        const GUID: usize = 16;
        const NUL: usize = 2;
        match self {
            Self::Public(_) | Self::DistributionList(_) => GUID,
            Self::Private { .. } => GUID + 4,
            Self::Direct(name) => name.units() * 2 + NUL,
        }
    }
}

impl MultiQueueSignature {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 2 /* ID */ + 2 /* Reserved */ + 4 /* Size */;
    /// `ID`.
    const ID: u16 = 0x015E;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = reader.at();
        let id = reader.u16("MQFSignatureHeader.ID")?;
        if id != Self::ID {
            return Err(Malformed::value("MQFSignatureHeader.ID", id.into()));
        }
        let reserved = reader.u16("MQFSignatureHeader.Reserved")?;
        let size = reader.u32("MQFSignatureHeader.Size")?;
        let value = reader.bytes(size.into(), "MQFSignatureHeader.Size")?;
        // Nothing in the specification says that a signature is padded, unlike the lists before it.
        Ok(Self { reserved, value, padding: reader.padding_if_any(start) })
    }

    fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        out.put_u16_le(Self::ID);
        out.put_u16_le(self.reserved);
        out.put_u32_le(size_field(self.value.len(), u32::MAX.into(), "MQFSignatureHeader.Size")?);
        out.put_slice(&self.value);
        out.put_slice(&self.padding);
        Ok(())
    }
}
