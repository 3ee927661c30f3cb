use rsa::traits::PublicKeyParts;

/// `bType` PUBLICKEYBLOB, `bVersion`, reserved, `aiKeyAlg` `CALG_RSA_KEYX`, and the letters `RSA1`.
const PREFIX: [u8; 12] = [0x06, 0x02, 0x00, 0x00, 0x00, 0xA4, 0x00, 0x00, b'R', b'S', b'A', b'1'];

/// Modulus and exponent of a PUBLICKEYBLOB that takes all of `blob`. The modulus is little-endian.
pub(super) fn decode(blob: &[u8]) -> Option<(&[u8], u32)> {
    let (bits, rest) = blob.strip_prefix(&PREFIX)?.split_first_chunk()?;
    let (exponent, modulus) = rest.split_first_chunk()?;
    let octets = u32::from_le_bytes(*bits).div_ceil(8) as usize;
    (modulus.len() == octets).then_some((modulus, u32::from_le_bytes(*exponent)))
}

/// The exponent of a key, when a PUBLICKEYBLOB has room for it.
pub(super) fn exponent(key: &rsa::PublicKey) -> Option<u32> {
    let bytes = key.e_bytes();
    let mut exponent = [0; 4];
    let at = exponent.len().checked_sub(bytes.len())?;
    exponent.get_mut(at..)?.copy_from_slice(&bytes);
    Some(u32::from_be_bytes(exponent))
}

/// A public key as queue managers exchange it (MS-MQQB 2.4.1): everything little-endian, the modulus too.
pub(super) fn encode(key: &rsa::PublicKey, exponent: u32) -> Vec<u8> {
    let octets = key.size();
    let mut modulus = key.n_bytes().into_vec();
    modulus.reverse();
    modulus.resize(octets, 0);

    let mut blob = Vec::with_capacity(PREFIX.len() + 4 /* bitLen */ + 4 /* pubExp */ + octets);
    blob.extend_from_slice(&PREFIX);
    blob.extend_from_slice(&(octets as u32 * 8).to_le_bytes());
    blob.extend_from_slice(&exponent.to_le_bytes());
    blob.extend_from_slice(&modulus);
    blob
}
