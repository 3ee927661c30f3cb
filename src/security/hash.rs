use std::fmt;

use sha2::Digest;

/// What `HashAlgorithm` names (MS-MQMQ 2.2.19.3), from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashAlgorithm {
    /// RFC 1319; not computed here.
    Md2,
    /// RFC 1320; not computed here.
    Md4,
    /// RFC 1321.
    Md5,
    /// FIPS 180.
    Sha1,
    /// FIPS 180.
    Sha256,
    /// FIPS 180; what a sender should use.
    Sha512,
}

impl HashAlgorithm {
    /// The algorithm of a `HashAlgorithm` field.
    pub const fn from_calg(calg: u32) -> Option<Self> {
        Some(match calg {
            0x8001 => Self::Md2,
            0x8002 => Self::Md4,
            0x8003 => Self::Md5,
            0x8004 => Self::Sha1,
            0x800C => Self::Sha256,
            0x800E => Self::Sha512,
            _ => return None,
        })
    }

    /// The value of a `HashAlgorithm` field.
    pub const fn calg(self) -> u32 {
        match self {
            Self::Md2 => 0x8001,
            Self::Md4 => 0x8002,
            Self::Md5 => 0x8003,
            Self::Sha1 => 0x8004,
            Self::Sha256 => 0x800C,
            Self::Sha512 => 0x800E,
        }
    }

    /// Starts a hash; `None` for MD2 and MD4.
    pub(super) fn start(self) -> Option<Hasher> {
        Some(match self {
            Self::Md2 | Self::Md4 => return None,
            Self::Md5 => Hasher::Md5(md5::Md5::new()),
            Self::Sha1 => Hasher::Sha1(sha1::Sha1::new()),
            Self::Sha256 => Hasher::Sha256(sha2::Sha256::new()),
            Self::Sha512 => Hasher::Sha512(sha2::Sha512::new()),
        })
    }

    /// What stands before the hash in a `DigestInfo` (RFC 8017 9.2, note 1); empty for MD2 and MD4.
    pub(super) const fn digest_info(self) -> &'static [u8] {
        match self {
            Self::Md2 | Self::Md4 => &[],
            Self::Md5 => &[
                0x30, 0x20, 0x30, 0x0C, 0x06, 0x08, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x02, 0x05, 0x05, 0x00, 0x04,
                0x10,
            ],
            Self::Sha1 => &[0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2B, 0x0E, 0x03, 0x02, 0x1A, 0x05, 0x00, 0x04, 0x14],
            Self::Sha256 => &[
                0x30, 0x31, 0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
                0x04, 0x20,
            ],
            Self::Sha512 => &[
                0x30, 0x51, 0x30, 0x0D, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00,
                0x04, 0x40,
            ],
        }
    }

    /// Octets of the hash.
    pub(super) const fn size(self) -> usize {
        match self {
            Self::Md2 | Self::Md4 | Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for HashAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Md2 => "MD2",
            Self::Md4 => "MD4",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        })
    }
}

/// A hash in the making. A clone goes on from where the original is, so that a long body is hashed once for many endings.
#[derive(Clone)]
pub(super) enum Hasher {
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hash) => hash.update(bytes),
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Md5(hash) => hash.finalize().to_vec(),
            Self::Sha1(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
            Self::Sha512(hash) => hash.finalize().to_vec(),
        }
    }
}
