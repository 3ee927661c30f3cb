//! Numbers of the protocol in words.

use serde_json::{Value, json};

use crate::mqqb::wire::MessageClass;

/// A number with its name, `other` when it has none.
fn named(table: &[(u32, &str)], number: u32) -> Value {
    let name = table.iter().find(|(known, _)| *known == number).map_or("other", |(_, name)| name);
    json!({ "name": name, "number": number })
}

pub(super) fn queue_type(code: u8) -> Value {
    const TYPES: [(u32, &str); 8] = [
        (0, "none"),
        (1, "same-as-admin-queue"),
        (2, "private-on-source"),
        (3, "private-on-destination"),
        (4, "private-on-admin-host"),
        (5, "public"),
        (6, "private-elsewhere"),
        (7, "direct"),
    ];
    named(&TYPES, code.into())
}

pub(super) fn list_name_type(code: u16) -> Value {
    named(&[(1, "public"), (2, "private"), (3, "direct"), (6, "distribution-list")], code.into())
}

pub(super) fn debug_queue_type(code: u16) -> Value {
    named(&[(0, "none"), (1, "public")], code.into())
}

pub(super) fn delivery(recoverable: bool) -> Value {
    named(&[(0, "express"), (1, "recoverable")], recoverable.into())
}

pub(super) fn packet_type(number: u16) -> Value {
    named(&[(1, "session-ack"), (2, "establish-connection"), (3, "connection-parameters")], number.into())
}

pub(super) fn sender_type(number: u8) -> Value {
    named(&[(0, "none"), (1, "sid"), (2, "queue-manager")], number.into())
}

pub(super) fn provider_type(number: u32) -> Value {
    named(&[(1, "PROV_RSA_FULL"), (24, "PROV_RSA_AES")], number)
}

pub(super) fn privacy_level(number: u32) -> Value {
    named(&[(0, "none"), (1, "base"), (3, "enhanced"), (5, "advanced")], number)
}

pub(super) fn hash_algorithm(number: u32) -> Value {
    const HASHES: [(u32, &str); 6] = [
        (0x8001, "MD2"),
        (0x8002, "MD4"),
        (0x8003, "MD5"),
        (0x8004, "SHA-1"),
        (0x800C, "SHA-256"),
        (0x800E, "SHA-512"),
    ];
    named(&HASHES, number)
}

pub(super) fn encryption_algorithm(number: u32) -> Value {
    const CIPHERS: [(u32, &str); 5] =
        [(0x6602, "RC2"), (0x660E, "AES-128"), (0x660F, "AES-192"), (0x6610, "AES-256"), (0x6801, "RC4")];
    named(&CIPHERS, number)
}

/// MS-MQMQ 2.2.12, and the types that applications really send.
pub(super) fn body_type(number: u32) -> Value {
    const TYPES: [(u32, &str); 26] = [
        (0, "VT_EMPTY"),
        (1, "VT_NULL"),
        (2, "VT_I2"),
        (3, "VT_I4"),
        (4, "VT_R4"),
        (5, "VT_R8"),
        (6, "VT_CY"),
        (7, "VT_DATE"),
        (8, "VT_BSTR"),
        (11, "VT_BOOL"),
        (12, "VT_VARIANT"),
        (16, "VT_I1"),
        (17, "VT_UI1"),
        (18, "VT_UI2"),
        (19, "VT_UI4"),
        (20, "VT_I8"),
        (21, "VT_UI8"),
        (30, "VT_LPSTR"),
        (31, "VT_LPWSTR"),
        (65, "VT_BLOB"),
        (66, "VT_STREAM"),
        (68, "VT_STREAMED_OBJECT"),
        (69, "VT_STORED_OBJECT"),
        (72, "VT_CLSID"),
        (0x1011, "VT_VECTOR|VT_UI1"),
        (0x2011, "VT_ARRAY|VT_UI1"),
    ];
    named(&TYPES, number)
}

pub(super) fn class(class: MessageClass) -> Value {
    let name = class.name().map_or_else(|| "application-defined".to_owned(), |name| format!("MQMSG_CLASS_{name}"));
    json!({ "name": name, "number": class.0, "hex": format!("0x{:04X}", class.0) })
}
