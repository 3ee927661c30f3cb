use bytes::Bytes;

use crate::mqqb::wire::Guid;

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
    pub padding: Bytes,
}

/// Who the sender claims to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderId {
    /// ST 0: nobody.
    None,
    /// ST 1: a user, by the bytes of the SID (MS-DTYP 2.4.2.2).
    Sid(Bytes),
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
