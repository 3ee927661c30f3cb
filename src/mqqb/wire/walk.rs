//! Where the headers of a user message end, found without decoding them.
//!
//! Only the sizes are looked at. What is in the headers is judged by the decoders, which end at the same place: a
//! property test holds both together.

use super::header::{AddressList, DebugHeader, MultiQueueSignature, SecurityHeader, SoapHeader, SoapSection};
use super::padding::padding_to_4;
use super::{BaseHeader, Malformed, MessageProperties, TransactionHeader, UserHeader};

/// The offset behind the last header of the user message in `packet`, `SessionHeader` and trailer apart.
///
/// # Errors
/// When a header reaches beyond the packet.
pub(super) fn end_of_headers(packet: &[u8]) -> Result<usize, Malformed> {
    let mut walk = Walk { packet, at: 0 };
    let base_flags = walk.u16(BaseHeader::FLAGS_AT, "BaseHeader.Flags")?;
    walk.skip(BaseHeader::SIZE as u64, "BaseHeader")?;
    let flags = walk.user_header()?;
    if flags & UserHeader::TRANSACTION_HEADER != 0 {
        walk.transaction_header()?;
    }
    if flags & UserHeader::SECURITY_HEADER != 0 {
        walk.security_header()?;
    }
    walk.properties_header()?;
    if base_flags & BaseHeader::DEBUG_HEADER != 0 {
        walk.debug_header()?;
    }
    if flags & UserHeader::SOAP_HEADER != 0 {
        walk.soap_header()?;
    }
    if flags & UserHeader::MULTI_QUEUE_HEADER != 0 {
        walk.multi_queue_header()?;
    }
    Ok(walk.at)
}

struct Walk<'a> {
    packet: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn user_header(&mut self) -> Result<u32, Malformed> {
        const NAME: &str = "UserHeader";
        let start = self.at;
        let flags = self.u32(UserHeader::FIXED_SIZE - 4, NAME)?;
        self.skip(UserHeader::FIXED_SIZE as u64, NAME)?;
        for shift in [10 /* DQ */, 13 /* AQ */, 16 /* RQ */] {
            match flags >> shift & 0x7 {
                2..=4 => self.skip(4, NAME)?,
                5 => self.skip(16, NAME)?,
                6 => self.skip(20, NAME)?,
                7 => {
                    let count = self.u16(0, NAME)?;
                    self.skip(2 /* Count */ + u64::from(count), NAME)?;
                    self.align(start, NAME)?;
                }
                _ => {}
            }
        }
        if flags & UserHeader::CONNECTOR_TYPE != 0 {
            self.skip(16, "UserHeader.ConnectorType")?;
        }
        Ok(flags)
    }

    fn transaction_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "TransactionHeader";
        let connector = if self.u32(0, NAME)? & TransactionHeader::CONNECTOR == 0 { 0 } else { 16 };
        self.skip(TransactionHeader::FIXED_SIZE as u64 + connector, NAME)
    }

    fn security_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "SecurityHeader";
        let mut items = 0;
        for size in [
            self.u16(2, NAME)?.into(),  // SenderIdSize
            self.u16(4, NAME)?.into(),  // EncryptionKeySize
            self.u16(6, NAME)?.into(),  // SignatureSize
            self.u32(8, NAME)?.into(),  // SenderCertSize
            self.u32(12, NAME)?.into(), // ProviderInfoSize
        ] {
            items += u64::next_multiple_of(size, 4);
        }
        self.skip(SecurityHeader::FIXED_SIZE as u64 + items, NAME)
    }

    fn properties_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "MessagePropertiesHeader";
        let label = u64::from(self.u8(1, NAME)?) * 2;
        let body = u64::from(self.u32(32, NAME)?);
        let extension = u64::from(self.u32(MessageProperties::FIXED_SIZE - 4, NAME)?);
        let size = MessageProperties::FIXED_SIZE as u64 + label + extension + body;
        self.skip(size.next_multiple_of(4), NAME)
    }

    fn debug_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "DebugHeader";
        let queue = if self.u16(0, NAME)? & DebugHeader::QUEUE_TYPE == 1 { 16 } else { 0 };
        self.skip(DebugHeader::FIXED_SIZE as u64 + queue, NAME)
    }

    fn soap_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "SoapHeader";
        let start = self.at;
        let section = |walk: &mut Self| {
            let length = walk.u32(4, NAME)?;
            walk.skip(SoapSection::FIXED_SIZE as u64 + u64::from(length) * 2, NAME)
        };
        section(self)?;
        let aligned = self.at + padding_to_4(self.at - start);
        if SoapHeader::body_begins(self.packet.get(aligned..)) {
            self.at = aligned;
        }
        section(self)?;
        self.align_if_any(start);
        Ok(())
    }

    fn multi_queue_header(&mut self) -> Result<(), Malformed> {
        const NAME: &str = "MultiQueueFormatHeader";
        for _ in 0..3 {
            let size = u64::from(self.u32(0, NAME)?);
            self.skip(size.max(AddressList::FIXED_SIZE as u64).next_multiple_of(4), NAME)?;
        }
        let start = self.at;
        let signature = self.u32(4, NAME)?;
        self.skip(MultiQueueSignature::FIXED_SIZE as u64 + u64::from(signature), NAME)?;
        self.align_if_any(start);
        Ok(())
    }

    fn u8(&self, offset: usize, field: &'static str) -> Result<u8, Malformed> {
        self.array(offset, field).map(u8::from_le_bytes)
    }

    fn u16(&self, offset: usize, field: &'static str) -> Result<u16, Malformed> {
        self.array(offset, field).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: usize, field: &'static str) -> Result<u32, Malformed> {
        self.array(offset, field).map(u32::from_le_bytes)
    }

    fn array<const N: usize>(&self, offset: usize, field: &'static str) -> Result<[u8; N], Malformed> {
        let bytes = self.packet.get(self.at + offset..).and_then(<[u8]>::first_chunk);
        bytes.copied().ok_or_else(|| Malformed::ends(field, (offset + N) as u64, self.left()))
    }

    fn skip(&mut self, size: u64, field: &'static str) -> Result<(), Malformed> {
        match usize::try_from(size) {
            Ok(size) if size <= self.left() => self.at += size,
            _ => return Err(Malformed::ends(field, size, self.left())),
        }
        Ok(())
    }

    fn align(&mut self, start: usize, field: &'static str) -> Result<(), Malformed> {
        self.skip(padding_to_4(self.at - start) as u64, field)
    }

    fn align_if_any(&mut self, start: usize) {
        self.at += padding_to_4(self.at - start).min(self.left());
    }

    const fn left(&self) -> usize {
        self.packet.len() - self.at
    }
}
