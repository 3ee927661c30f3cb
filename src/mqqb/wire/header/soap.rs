use bytes::{BufMut, BytesMut};

use crate::mqqb::wire::padding::padding_to_4;
use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::{Write, size_field};
use crate::mqqb::wire::{Malformed, Padding, WideText};

/// Two application texts of messages that came by way of SOAP (MS-MQMQ 2.2.20.7). No normal sender puts them on 1801.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoapHeader {
    /// The `Header` section, 0x0320.
    pub header: SoapSection,
    /// The `Body` section, 0x0384.
    pub body: SoapSection,
}

/// One section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoapSection {
    /// Kept, never tested.
    pub reserved: u16,
    /// The text. `None` is a length of 0, `Some` of the empty text a length of 1.
    pub text: Option<WideText>,
    /// The bytes after it, up to the next multiple of 4; none when the sender does not align. Written as they
    /// are: [`SoapSection::new`] makes the right ones.
    pub padding: Padding,
}

impl SoapHeader {
    const HEADER_ID: u16 = 0x0320;
    const BODY_ID: u16 = 0x0384;

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = reader.at();
        let (reserved, text) = SoapSection::decode(&HEADER, reader)?;
        let aligned = padding_to_4(reader.at() - start);
        let padding = if Self::body_begins(reader.rest().get(aligned..)) {
            reader.padding(start, "SoapHeader.Header")?
        } else {
            Padding::NONE
        };
        let header = SoapSection { reserved, text, padding };
        let (reserved, text) = SoapSection::decode(&BODY, reader)?;
        let body = SoapSection { reserved, text, padding: reader.padding_if_any(start) };
        Ok(Self { header, body })
    }

    /// Whether `bytes` begin with the body section, which comes after the alignment or at once.
    pub(in crate::mqqb::wire) fn body_begins(bytes: Option<&[u8]>) -> bool {
        bytes.is_some_and(|bytes| bytes.starts_with(&Self::BODY_ID.to_le_bytes()))
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        let start = out.len();
        self.header.encode(&HEADER, out)?;
        if !self.header.padding.is_empty() {
            out.pad(start, self.header.padding);
        }
        self.body.encode(&BODY, out)?;
        out.put_slice(&self.body.padding);
        Ok(())
    }
}

/// The names and the number of a section.
struct SectionFields {
    number: u16,
    id: &'static str,
    reserved: &'static str,
    length: &'static str,
    text: &'static str,
}

const HEADER: SectionFields = SectionFields {
    number: SoapHeader::HEADER_ID,
    id: "SoapHeader.HeaderSectionID",
    reserved: "SoapHeader.Reserved",
    length: "SoapHeader.HeaderDataLength",
    text: "SoapHeader.Header",
};

const BODY: SectionFields = SectionFields {
    number: SoapHeader::BODY_ID,
    id: "SoapHeader.BodySectionID",
    reserved: "SoapHeader.Reserved1",
    length: "SoapHeader.BodyDataLength",
    text: "SoapHeader.Body",
};

impl SoapSection {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 2 /* SectionID */ + 2 /* Reserved */ + 4 /* DataLength */;

    /// A section with its padding.
    pub fn new(text: &str) -> Self {
        let text = WideText::from_text(text);
        let padding = Padding::zeros(text.units() * 2 + 2 /* NUL */);
        Self { reserved: 0, text: Some(text), padding }
    }

    fn decode(fields: &SectionFields, reader: &mut Reader<'_>) -> Result<(u16, Option<WideText>), Malformed> {
        let id = reader.u16(fields.id)?;
        if id != fields.number {
            return Err(Malformed::value(fields.id, u64::from(id)));
        }
        let reserved = reader.u16(fields.reserved)?;
        let text = match reader.u32(fields.length)? {
            0 => None,
            length => Some(reader.text(u64::from(length) * 2, fields.length, fields.text)?),
        };
        Ok((reserved, text))
    }

    fn encode(&self, fields: &SectionFields, out: &mut BytesMut) -> Result<(), Malformed> {
        let length = self.text.as_ref().map_or(0, |text| text.units() + 1 /* NUL */);
        out.put_u16_le(fields.number);
        out.put_u16_le(self.reserved);
        out.put_u32_le(size_field(length, u32::MAX.into(), fields.length)?);
        if let Some(text) = &self.text {
            out.text(text);
        }
        Ok(())
    }
}
