use std::fmt;

use bytes::Bytes;

/// A security identifier (MS-DTYP 2.4.2.2), kept as the bytes of the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid(Bytes);

impl Sid {
    /// Size of the fixed part.
    const FIXED_SIZE: usize = 1 /* Revision */ + 1 /* SubAuthorityCount */ + 6 /* IdentifierAuthority */;

    /// From the bytes of the wire. `None` when they are not of the size that their own count of sub-authorities says.
    pub fn from_wire(bytes: Bytes) -> Option<Self> {
        let count = usize::from(*bytes.get(1)?);
        (bytes.len() == Self::FIXED_SIZE + 4 * count).then_some(Self(bytes))
    }

    /// The bytes of the wire.
    pub const fn as_wire(&self) -> &Bytes {
        &self.0
    }
}

/// `S-1-…` (MS-DTYP 2.4.2.1). An identifier authority beyond 32 bits is hexadecimal.
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((fixed, sub_authorities)) = self.0.split_first_chunk::<{ Self::FIXED_SIZE }>() else { return Ok(()) };
        let [revision, _, a0, a1, a2, a3, a4, a5] = *fixed;
        let authority = u64::from_be_bytes([0, 0, a0, a1, a2, a3, a4, a5]);
        match u32::try_from(authority) {
            Ok(authority) => write!(f, "S-{revision}-{authority}")?,
            Err(_) => write!(f, "S-{revision}-0x{authority:012X}")?,
        }
        for sub_authority in sub_authorities.as_chunks().0 {
            write!(f, "-{}", u32::from_le_bytes(*sub_authority))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
