use bytes::Bytes;

use super::Cipher;

/// `bType` SIMPLEBLOB, `bVersion`, reserved.
const PREFIX: [u8; 4] = [0x01, 0x02, 0x00, 0x00];
/// The algorithm of the key that encrypts the key: `CALG_RSA_KEYX`.
const KEY_EXCHANGE: [u8; 4] = [0x00, 0xA4, 0x00, 0x00];

/// A symmetric key under the receiver's public key, as it travels with a message (MS-MQQB 2.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleBlob {
    /// `sessionKeyAlgorithm`.
    pub(super) calg: u32,
    /// `encryptedKey`: little-endian, as long as the modulus, or longer with zeros at its end.
    pub(super) value: Bytes,
}

impl SimpleBlob {
    const HEADER_SIZE: usize = PREFIX.len() + 4 /* sessionKeyAlgorithm */ + KEY_EXCHANGE.len();

    /// Reads a blob. Nothing in it is secret: its maker and whoever saw the message know all of it.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let (calg, rest) = bytes.strip_prefix(&PREFIX)?.split_first_chunk()?;
        rest.strip_prefix(&KEY_EXCHANGE)?;
        Some(Self { calg: u32::from_le_bytes(*calg), value: bytes.slice(Self::HEADER_SIZE..) })
    }

    /// Writes a blob around a value that is big-endian and as long as the modulus.
    pub(super) fn encode(cipher: Cipher, value: &[u8]) -> Bytes {
        let mut blob = Vec::with_capacity(Self::HEADER_SIZE + value.len());
        blob.extend_from_slice(&PREFIX);
        blob.extend_from_slice(&cipher.calg().to_le_bytes());
        blob.extend_from_slice(&KEY_EXCHANGE);
        blob.extend(value.iter().rev());
        blob.into()
    }

    /// The value for a key with a modulus of `size` octets, big-endian. `None` when it is shorter, or has more than
    /// zeros beyond that.
    pub(super) fn value_for(&self, size: usize) -> Option<Vec<u8>> {
        let (value, beyond) = self.value.split_at_checked(size)?;
        beyond.iter().all(|byte| *byte == 0).then(|| value.iter().rev().copied().collect())
    }
}
