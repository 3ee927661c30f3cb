use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, Bytes, BytesMut};

/// A security identifier: a user or a group of Windows (MS-DTYP 2.4.2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid(Bytes);

impl Sid {
    /// Size of the fixed part.
    const FIXED_SIZE: usize = 1 /* Revision */ + 1 /* SubAuthorityCount */ + 6 /* IdentifierAuthority */;
    /// The most sub-authorities there can be.
    const MAX_SUB_AUTHORITIES: usize = 15;

    /// From the bytes of the wire (MS-DTYP 2.4.2.2). `None` when their number is not what they say.
    pub fn from_wire(bytes: Bytes) -> Option<Self> {
        let count = usize::from(*bytes.get(1)?);
        (count <= Self::MAX_SUB_AUTHORITIES && bytes.len() == Self::FIXED_SIZE + 4 * count).then_some(Self(bytes))
    }

    /// The bytes of the wire.
    pub const fn as_wire(&self) -> &Bytes {
        &self.0
    }
}

/// `S-1-…` (MS-DTYP 2.4.2.1). An identifier authority beyond 32 bits is hexadecimal.
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(([revision, _, a0, a1, a2, a3, a4, a5], sub_authorities)) = self.0.split_first_chunk() else {
            return Err(fmt::Error);
        };
        let authority = u64::from_be_bytes([0, 0, *a0, *a1, *a2, *a3, *a4, *a5]);
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

/// Text that is not a SID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a SID: S-1-, an authority and up to 15 numbers are expected, such as S-1-5-21-1-2-3-1104")]
pub struct NotASid(String);

impl FromStr for Sid {
    type Err = NotASid;

    fn from_str(text: &str) -> Result<Self, NotASid> {
        parse(text).and_then(Self::from_wire).ok_or_else(|| NotASid(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Bytes> {
    let mut parts = text.split('-');
    if !parts.next()?.eq_ignore_ascii_case("S") {
        return None;
    }
    let revision = number::<u8>(parts.next()?)?;
    let authority = parts.next()?;
    let authority = match authority.strip_prefix("0x").or_else(|| authority.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()?
        }
        Some(_) => return None,
        None => number(authority)?,
    };
    let [0, 0, authority @ ..] = authority.to_be_bytes() else {
        return None;
    };
    let sub_authorities = parts.map(number::<u32>).collect::<Option<Vec<u32>>>()?;
    let mut bytes = BytesMut::new();
    bytes.put_u8(revision);
    bytes.put_u8(u8::try_from(sub_authorities.len()).ok()?);
    bytes.put_slice(&authority);
    for sub_authority in sub_authorities {
        bytes.put_u32_le(sub_authority);
    }
    Some(bytes.freeze())
}

/// A decimal number; the standard library also reads a plus sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    if text.bytes().all(|digit| digit.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_sid_is_bytes_and_text() {
        for (text, bytes) in [
            ("S-1-1-0", &[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0][..]),
            ("S-1-5-32-544", &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0]),
            ("S-1-5", &[1, 0, 0, 0, 0, 0, 0, 5]),
            ("S-1-0x010000000000-7", &[1, 1, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0]),
        ] {
            let sid = Sid::from_wire(Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(sid.to_string(), text);
            assert_eq!(text.to_lowercase().parse::<Sid>().unwrap(), sid);
            assert_eq!(sid.as_wire(), bytes);
        }
    }

    #[test]
    fn what_is_no_sid_is_told_so() {
        for text in ["", "S", "S-1", "S-1-", "S-1-5-", "S-1-5--1", "S-1-5-+1", "S-256-5", "S-1-5-4294967296", "T-1-5-1"]
        {
            assert!(text.parse::<Sid>().unwrap_err().to_string().contains("S-1-5-21"), "{text}");
        }
        let sixteen = format!("S-1-5{}", "-1".repeat(16));
        assert!(sixteen.parse::<Sid>().is_err());
        for bytes in [&[][..], &[1], &[1, 1, 0, 0, 0, 0, 0, 5], &[1, 0, 0, 0, 0, 0, 0, 5, 0]] {
            assert_eq!(Sid::from_wire(Bytes::copy_from_slice(bytes)), None);
        }
    }
}
