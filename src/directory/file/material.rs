//! Certificates and keys, out of the bytes of their files.

use bytes::Bytes;
use rsa::pkcs8::der::asn1::AnyRef;
use rsa::pkcs8::der::{Decode, Reader, SliceReader, Tag, Tagged, pem};

use crate::security::PublicKey;

/// A certificate, DER or PEM. Gives DER.
///
/// # Errors
/// The second half of a sentence about the file.
pub(crate) fn certificate(bytes: &[u8]) -> Result<Bytes, String> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let Some(begin) = find(bytes, BEGIN) else {
        return if is_certificate(bytes) { Ok(Bytes::copy_from_slice(bytes)) } else { Err(NO_CERTIFICATE.to_owned()) };
    };
    if is_certificate(bytes) {
        // The letters can stand in a certificate too.
        return Ok(Bytes::copy_from_slice(bytes));
    }
    let rest = bytes.get(begin..).unwrap_or_default();
    if find(rest.get(BEGIN.len()..).unwrap_or_default(), BEGIN).is_some() {
        return Err("holds more than one certificate or key; write each certificate into a file of its own".to_owned());
    }
    let (label, der) = pem::decode_vec(rest.trim_ascii_end()).map_err(|error| format!("is not PEM: {error}"))?;
    if label.contains("PRIVATE KEY") {
        return Err("holds a private key; a certificate is expected, and the key belongs to its owner alone".to_owned());
    }
    if label != "CERTIFICATE" || !is_certificate(&der) {
        return Err(NO_CERTIFICATE.to_owned());
    }
    Ok(der.into())
}

const NO_CERTIFICATE: &str = "is not a certificate, neither DER nor PEM (BEGIN CERTIFICATE)";

/// The outline of X.509 and nothing beside it: to be certified, an algorithm, a signature (RFC 5280 4.1). What is inside
/// is looked at when something is verified with it.
fn is_certificate(der: &[u8]) -> bool {
    let outline = || {
        let outer = AnyRef::from_der(der).ok().filter(|outer| outer.tag() == Tag::Sequence)?;
        let mut reader = SliceReader::new(outer.value()).ok()?;
        for tag in [Tag::Sequence, Tag::Sequence, Tag::BitString] {
            AnyRef::decode(&mut reader).ok().filter(|part| part.tag() == tag)?;
        }
        reader.is_finished().then_some(())
    };
    outline().is_some()
}

/// A public key, PEM or PUBLICKEYBLOB.
///
/// # Errors
/// The second half of a sentence about the file.
pub(crate) fn public_key(bytes: &[u8]) -> Result<PublicKey, String> {
    let read = match std::str::from_utf8(bytes) {
        Ok(text) if text.contains("PRIVATE KEY-----") => {
            return Err("holds a private key; only its public half is wanted here: openssl pkey -pubout".to_owned());
        }
        Ok(text) if text.contains("-----BEGIN ") => PublicKey::from_pem(text),
        _ => PublicKey::from_blob(bytes),
    };
    read.map_err(|error| format!("is of no use: {error}"))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
