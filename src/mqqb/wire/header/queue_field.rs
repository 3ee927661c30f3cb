use bytes::{BufMut, Bytes, BytesMut};

use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::{Write, size_field};
use crate::mqqb::wire::{DirectName, FormatName, Guid, Malformed, Padding, WideText};

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
    pub padding: Padding,
}

impl QueueField {
    /// A direct name.
    pub fn direct(name: &DirectName) -> Self {
        let name = WideText::from_text(&name.to_string());
        Self::Direct(DirectField { name, padding: Padding::NONE })
    }

    /// The field for `name` in a message to the machine `destination`, legal in the places of the
    /// administration and response queue, and in that of the destination when it is one on that machine.
    ///
    /// `None` for names that have no such field: lists, machines, connectors, multicast, and suffixes after GUIDs.
    pub fn naming(name: &FormatName, destination: Guid) -> Option<Self> {
        match name {
            FormatName::Direct(name) => Some(Self::direct(name)),
            FormatName::Public { queue, suffix: None } => Some(Self::Public(*queue)),
            FormatName::Private { machine, id, suffix: None } if *machine == destination => {
                Some(Self::PrivateOnDestination(*id))
            }
            FormatName::Private { machine, id, suffix: None } => Some(Self::Private { machine: *machine, id: *id }),
            _ => None,
        }
    }

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

/// A place for a queue in the `UserHeader`: the names of its fields, and the kinds that may stand there.
#[derive(Clone, Copy, Debug)]
pub(in crate::mqqb::wire) struct QueuePlace {
    /// The field, such as `UserHeader.AdminQueue`.
    field: &'static str,
    /// The size of a direct name, such as `UserHeader.AdminQueue.Count`.
    count: &'static str,
    /// The type code, such as `UserHeader.Flags.AQ`.
    code: &'static str,
    /// Where the type code is in the flags.
    pub(super) shift: u32,
    /// Bit n says that code n may stand here.
    codes: u8,
}

impl QueuePlace {
    pub(super) const DESTINATION: Self = Self {
        field: "UserHeader.DestinationQueue",
        count: "UserHeader.DestinationQueue.Count",
        code: "UserHeader.Flags.DQ",
        shift: 10,
        codes: 0b1010_1001,
    };
    pub(super) const ADMIN: Self = Self {
        field: "UserHeader.AdminQueue",
        count: "UserHeader.AdminQueue.Count",
        code: "UserHeader.Flags.AQ",
        shift: 13,
        codes: 0b1110_1101,
    };
    pub(super) const RESPONSE: Self = Self {
        field: "UserHeader.ResponseQueue",
        count: "UserHeader.ResponseQueue.Count",
        code: "UserHeader.Flags.RQ",
        shift: 16,
        codes: 0b1111_1111,
    };

    /// The type code in the flags, when it may stand here.
    fn code(self, flags: u32) -> Result<u32, Malformed> {
        let code = flags >> self.shift & 0x7;
        match self.codes >> code & 1 {
            1 => Ok(code),
            _ => Err(Malformed::value(self.code, u64::from(code))),
        }
    }
}

impl QueueField {
    /// The field on the wire without its padding, as the default reading of A-02 signs it.
    pub fn to_wire(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.write(&mut out);
        out.freeze()
    }

    fn write(&self, out: &mut BytesMut) {
        match self {
            Self::None | Self::SameAsAdmin => {}
            Self::PrivateOnSource(id) | Self::PrivateOnDestination(id) | Self::PrivateOnAdminHost(id) => {
                out.put_u32_le(*id);
            }
            Self::Public(queue) => out.guid(*queue),
            Self::Private { machine, id } => {
                out.guid(*machine);
                out.put_u32_le(*id);
            }
            Self::Direct(direct) => {
                out.put_u16_le(direct.count() as u16);
                out.text(&direct.name);
            }
        }
    }

    /// Reads the field that the flags announce at `place`, in a header that begins at `start`.
    pub(super) fn decode(
        place: QueuePlace,
        flags: u32,
        start: usize,
        reader: &mut Reader<'_>,
    ) -> Result<Self, Malformed> {
        Ok(match place.code(flags)? {
            1 => Self::SameAsAdmin,
            2 => Self::PrivateOnSource(reader.u32(place.field)?),
            3 => Self::PrivateOnDestination(reader.u32(place.field)?),
            4 => Self::PrivateOnAdminHost(reader.u32(place.field)?),
            5 => Self::Public(reader.guid(place.field)?),
            6 => Self::Private { machine: reader.guid(place.field)?, id: reader.u32(place.field)? },
            7 => {
                let count = reader.u16(place.count)?;
                let name = reader.text(u64::from(count), place.count, place.field)?;
                Self::Direct(DirectField { name, padding: reader.padding(start, place.field)? })
            }
            _ => Self::None,
        })
    }

    /// Appends the field to a header that begins at `start`.
    pub(super) fn encode(&self, place: QueuePlace, start: usize, out: &mut BytesMut) -> Result<(), Malformed> {
        place.code(u32::from(self.type_code()) << place.shift)?;
        if let Self::Direct(direct) = self {
            let _: u16 = size_field(direct.count(), u16::MAX.into(), place.count)?;
        }
        self.write(out);
        if let Self::Direct(direct) = self {
            out.pad(start, direct.padding);
        }
        Ok(())
    }
}

impl DirectField {
    /// `Count`: bytes of the name with its NUL.
    pub const fn count(&self) -> usize {
        self.name.units() * 2 + 2 /* NUL */
    }
}
