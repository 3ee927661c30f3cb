use rsa::traits::PublicKeyParts;

/// `bType` PUBLICKEYBLOB, `bVersion`.
const PREFIX: [u8; 2] = [0x06, 0x02];
/// `reserved`.
const RESERVED: [u8; 2] = [0, 0];
/// `aiKeyAlg` `CALG_RSA_KEYX`: a key that encrypts keys.
const KEY_EXCHANGE: [u8; 4] = [0x00, 0xA4, 0x00, 0x00];
/// `aiKeyAlg` `CALG_RSA_SIGN`: a key that verifies signatures.
const SIGNATURE: [u8; 4] = [0x00, 0x24, 0x00, 0x00];
/// The letters that say that the public half follows.
const MAGIC: [u8; 4] = *b"RSA1";

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

    let mut blob = Vec::with_capacity(
        PREFIX.len() + RESERVED.len() + KEY_EXCHANGE.len() + MAGIC.len() + 4 /* bitLen */ + 4 /* pubExp */ + octets,
    );
    for part in [&PREFIX[..], &RESERVED, &KEY_EXCHANGE, &MAGIC] {
        blob.extend_from_slice(part);
    }
    blob.extend_from_slice(&(octets as u32 * 8).to_le_bytes());
    blob.extend_from_slice(&exponent.to_le_bytes());
    blob.extend_from_slice(&modulus);
    blob
}

/// The numbers in a PUBLICKEYBLOB.
#[derive(Debug)]
pub(super) struct Numbers<'a> {
    /// Little-endian.
    pub(super) modulus: &'a [u8],
    pub(super) exponent: u32,
}

/// Reads a PUBLICKEYBLOB of either kind of key, which must take all of `blob`.
pub(super) fn decode(blob: &[u8]) -> Option<Numbers<'_>> {
    decode_behind(blob.strip_prefix(&PREFIX)?.strip_prefix(&RESERVED)?)
}

/// As [`decode`], also with one reserved byte only, as MS-MQMQ 2.2.20.6 draws the key of a certificate.
pub(super) fn decode_in_certificate(blob: &[u8]) -> Option<Numbers<'_>> {
    decode(blob).or_else(|| decode_behind(blob.strip_prefix(&PREFIX)?.strip_prefix(&RESERVED[..1])?))
}

fn decode_behind(rest: &[u8]) -> Option<Numbers<'_>> {
    let (algorithm, rest) = rest.split_first_chunk()?;
    if ![KEY_EXCHANGE, SIGNATURE].contains(algorithm) {
        return None;
    }
    let (bits, rest) = rest.strip_prefix(&MAGIC)?.split_first_chunk()?;
    let (exponent, modulus) = rest.split_first_chunk()?;
    let octets = u32::from_le_bytes(*bits).div_ceil(8) as usize;
    (modulus.len() == octets).then_some(Numbers { modulus, exponent: u32::from_le_bytes(*exponent) })
}
