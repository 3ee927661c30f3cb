use bytes::{BufMut, Bytes, BytesMut};

use crate::mqqb::wire::reader::Reader;
use crate::mqqb::wire::writer::{Write, size_field};
use crate::mqqb::wire::{Guid, Malformed, Padding, Sid, WideText};

/// Who sent the message, the evidence, and the key of an encrypted body (MS-MQMQ 2.2.20.6).
///
/// The sizes decide what is there, not `Flags.AI`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityHeader {
    /// The 16 flag bits as they came.
    pub flags: u16,
    /// `SecurityID`: a SID or a queue manager's GUID.
    pub sender_id: SecurityItem,
    /// `EncryptionKey`: a SIMPLEBLOB (MS-MQQB 2.4.2).
    pub encryption_key: SecurityItem,
    /// `Signature`.
    pub signature: SecurityItem,
    /// `SenderCert`: an X.509 certificate.
    pub sender_certificate: SecurityItem,
    /// `ProviderInfo`: a provider type (4 bytes) and its name with the NUL.
    pub provider_info: SecurityItem,
}

/// One item of `SecurityData`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityItem {
    /// The item; empty when it is absent.
    pub data: Bytes,
    /// The bytes that pad it to 4.
    pub padding: Padding,
}

/// Who the sender claims to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderId {
    /// ST 0: nobody.
    None,
    /// ST 1: a user.
    Sid(Sid),
    /// ST 2: a queue manager.
    QueueManager(Guid),
}

impl SecurityHeader {
    /// Size of the fixed part.
    pub const FIXED_SIZE: usize = 2 /* Flags */ + 2 /* SenderIdSize */ + 2 /* EncryptionKeySize */
        + 2 /* SignatureSize */ + 4 /* SenderCertSize */ + 4 /* ProviderInfoSize */;
    /// Flags.AU.
    pub const AUTHENTICATED: u16 = 1 << 4;
    /// Flags.EB: the body is encrypted.
    pub const ENCRYPTED: u16 = 1 << 5;
    /// Flags.DE: the default provider was used.
    pub const DEFAULT_PROVIDER: u16 = 1 << 6;
    /// Flags.AI.
    pub const DATA_PRESENT: u16 = 1 << 7;

    /// Flags.ST, 0 to 15.
    pub const fn sender_type(&self) -> u8 {
        (self.flags & 0xF) as u8
    }

    /// Flags.AS, 0 to 15.
    pub const fn signature_type(&self) -> u8 {
        (self.flags >> 8 & 0xF) as u8
    }

    /// Whether the body is encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.flags & Self::ENCRYPTED != 0
    }
}

impl SecurityHeader {
    /// `SenderCertSize` has 4 bytes, of which the lower two may be used.
    const MAX_CERTIFICATE_SIZE: u32 = 0xFFFF;

    /// Who the sender claims to be. A message whose claim makes no sense is refused, its session is not closed:
    /// hence this is no matter of decoding.
    ///
    /// # Errors
    /// For an unknown kind of sender, and a size that does not go with the kind.
    pub fn sender(&self) -> Result<SenderId, Malformed> {
        let id = &self.sender_id.data;
        match self.sender_type() {
            0 if id.is_empty() => Ok(SenderId::None),
            0 => Err(Malformed::size("SecurityHeader.SenderIdSize", id.len() as u64, 0, 0)),
            1 => match Sid::from_wire(id.clone()) {
                Some(sid) => Ok(SenderId::Sid(sid)),
                None => Err(Malformed::because("SecurityHeader.SecurityID", "not the size of a SID")),
            },
            2 => match <[u8; 16]>::try_from(&id[..]) {
                Ok(guid) => Ok(SenderId::QueueManager(Guid::from_wire(guid))),
                Err(_) => Err(Malformed::size("SecurityHeader.SenderIdSize", id.len() as u64, 16, 16)),
            },
            kind => Err(Malformed::value("SecurityHeader.Flags.ST", u64::from(kind))),
        }
    }

    /// `ProviderInfo`: the type and the name of the cryptographic provider, when the sender names one.
    pub fn provider(&self) -> Option<(u32, WideText)> {
        let (kind, name) = self.provider_info.data.split_first_chunk()?;
        let name = name.strip_suffix(&[0, 0]).unwrap_or(name);
        let name = WideText::from_wire(self.provider_info.data.slice_ref(name))?;
        Some((u32::from_le_bytes(*kind), name))
    }

    pub(in crate::mqqb::wire) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let start = reader.at();
        let flags = reader.u16("SecurityHeader.Flags")?;
        let sender_id = reader.u16("SecurityHeader.SenderIdSize")?;
        let encryption_key = reader.u16("SecurityHeader.EncryptionKeySize")?;
        let signature = reader.u16("SecurityHeader.SignatureSize")?;
        let certificate = reader.u32("SecurityHeader.SenderCertSize")?;
        let provider_info = reader.u32("SecurityHeader.ProviderInfoSize")?;
        if certificate > Self::MAX_CERTIFICATE_SIZE {
            let most = u64::from(Self::MAX_CERTIFICATE_SIZE);
            return Err(Malformed::size("SecurityHeader.SenderCertSize", u64::from(certificate), 0, most));
        }
        let mut item = |size: u32, field| {
            let data = reader.bytes(u64::from(size), field)?;
            Ok(SecurityItem { data, padding: reader.padding(start, field)? })
        };
        Ok(Self {
            flags,
            sender_id: item(sender_id.into(), "SecurityHeader.SenderIdSize")?,
            encryption_key: item(encryption_key.into(), "SecurityHeader.EncryptionKeySize")?,
            signature: item(signature.into(), "SecurityHeader.SignatureSize")?,
            sender_certificate: item(certificate, "SecurityHeader.SenderCertSize")?,
            provider_info: item(provider_info, "SecurityHeader.ProviderInfoSize")?,
        })
    }

    pub(in crate::mqqb::wire) fn encode(&self, out: &mut BytesMut) -> Result<(), Malformed> {
        let short = |item: &SecurityItem, field| size_field::<u16>(item.data.len(), u16::MAX.into(), field);
        let start = out.len();
        out.put_u16_le(self.flags);
        out.put_u16_le(short(&self.sender_id, "SecurityHeader.SenderIdSize")?);
        out.put_u16_le(short(&self.encryption_key, "SecurityHeader.EncryptionKeySize")?);
        out.put_u16_le(short(&self.signature, "SecurityHeader.SignatureSize")?);
        out.put_u32_le(short(&self.sender_certificate, "SecurityHeader.SenderCertSize")?.into());
        let provider_size = self.provider_info.data.len();
        out.put_u32_le(size_field(provider_size, u32::MAX.into(), "SecurityHeader.ProviderInfoSize")?);
        for item in self.items() {
            out.put_slice(&item.data);
            out.pad(start, item.padding);
        }
        Ok(())
    }

    const fn items(&self) -> [&SecurityItem; 5] {
        [&self.sender_id, &self.encryption_key, &self.signature, &self.sender_certificate, &self.provider_info]
    }
}

impl SecurityItem {
    /// An item with the padding that it needs.
    pub const fn new(data: Bytes) -> Self {
        Self { data, padding: Padding::NONE }
    }
}
