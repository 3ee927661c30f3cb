use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::Cipher;
use crate::mqqb::wire::WideText;

/// A cryptographic provider of Windows, which a message selects by its privacy level (MS-MQQB 3.1.5.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Level 1: RC2 and RC4 with 40-bit keys.
    Base,
    /// Level 3: RC2 and RC4 with 128-bit keys.
    Enhanced,
    /// Level 5: AES.
    Aes,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 3] = [Self::Base, Self::Enhanced, Self::Aes];

    /// The provider that a `PrivacyLevel` selects; `None` for a value outside the table.
    pub const fn of_privacy_level(level: u32) -> Option<Self> {
        match level {
            1 => Some(Self::Base),
            3 => Some(Self::Enhanced),
            5 => Some(Self::Aes),
            _ => None,
        }
    }

    /// `PrivacyLevel`.
    pub const fn privacy_level(self) -> u32 {
        match self {
            Self::Base => 1,
            Self::Enhanced => 3,
            Self::Aes => 5,
        }
    }

    /// The name that Windows gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "Microsoft Base Cryptographic Provider v1.0",
            Self::Enhanced => "Microsoft Enhanced Cryptographic Provider v1.0",
            Self::Aes => "Microsoft Enhanced RSA and AES Cryptographic Provider",
        }
    }

    /// `ProviderType`: `PROV_RSA_FULL` or `PROV_RSA_AES`.
    pub const fn type_code(self) -> u32 {
        match self {
            Self::Base | Self::Enhanced => 0x01,
            Self::Aes => 0x18,
        }
    }

    /// Octets of a symmetric key of this provider; `None` for a cipher that it does not have (MS-MQMQ 2.2.19.3).
    pub const fn key_size(self, cipher: Cipher) -> Option<usize> {
        match (self, cipher) {
            (Self::Aes, Cipher::Aes128) | (Self::Enhanced, Cipher::Rc2 | Cipher::Rc4) => Some(16),
            (Self::Aes, Cipher::Aes192) => Some(24),
            (Self::Aes, Cipher::Aes256) => Some(32),
            (Self::Base, Cipher::Rc2 | Cipher::Rc4) => Some(5),
            _ => None,
        }
    }

    /// `ProviderInfo` of a security header (MS-MQMQ 2.2.20.6): type, name, NUL.
    pub(super) fn info(self) -> Bytes {
        let name = WideText::from_text(self.name());
        let mut info = BytesMut::with_capacity(4 /* ProviderType */ + name.as_wire().len() + 2 /* NUL */);
        info.put_u32_le(self.type_code());
        info.put_slice(name.as_wire());
        info.put_u16_le(0);
        info.freeze()
    }
}

/// `base`, `enhanced` or `aes`, as the configuration spells them.
impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Enhanced => "enhanced",
            Self::Aes => "aes",
        })
    }
}
