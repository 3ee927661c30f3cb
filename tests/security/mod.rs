//! The vectors, their keys and their directory, for the tests of the security room.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use mqbridge::mqqb::wire::{
    DeliveryMode, FormatName, Frame, Guid, MessageId, Packet, QueueField, SecurityHeader, SecurityItem, SenderId, Sid,
    UserMessage, WideText,
};
use mqbridge::security::{
    Certificate, Cipher, CipherPolicy, DirectoryAnswer, HashAlgorithm, Keyring, PrivateKey, Provider, SignatureForm,
    SignaturePolicy, SignatureVersion, Signer,
};
use rand::{TryCryptoRng, TryRng};
use serde_json::Value;

/// One published vector that decodes as a user message.
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) message: UserMessage,
    pub(crate) expect: Value,
    pub(crate) needs: Vec<String>,
}

/// Every vector that a receiver gets as far as looking into.
pub(crate) fn vectors() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| {
            let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            if !["accept", "reject", "either"].contains(&json["expect"]["verdict"].as_str().unwrap()) {
                return None;
            }
            let frame = Frame::new(from_hex(json["packet"].as_str().unwrap())).ok()?;
            let Ok(Packet::User(message)) = Packet::decode(&frame) else { return None };
            let needs = json["needs"].as_array().into_iter().flatten();
            Some(Vector {
                name: json["name"].as_str().unwrap().to_owned(),
                message: *message,
                needs: needs.map(|need| need.as_str().unwrap().to_owned()).collect(),
                expect: json["expect"].clone(),
            })
        })
        .collect();
    vectors.sort_by(|a, b| a.name.cmp(&b.name));
    vectors
}

pub(crate) fn vector(name: &str) -> Vector {
    vectors().into_iter().find(|vector| vector.name == name).unwrap()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors")
}

/// A file that the vectors name, such as `keys/user-a-1024.pem`.
pub(crate) fn file(name: &str) -> Bytes {
    fs::read(folder().join(name)).unwrap().into()
}

pub(crate) fn key(name: &str) -> PrivateKey {
    PrivateKey::from_pem(std::str::from_utf8(&file(&format!("keys/{name}.pem"))).unwrap()).unwrap()
}

pub(crate) fn certificate(name: &str) -> Certificate {
    Certificate::from_der(file(&format!("keys/{name}.der"))).unwrap()
}

/// The keys of the receiving queue manager: the vectors use each size with each provider.
pub(crate) fn keyring() -> Keyring {
    let mut ring = Keyring::default();
    for provider in Provider::ALL {
        for bits in [4096, 512, 2048, 1024] {
            assert!(ring.put(provider, key(&format!("qm-local-{bits}"))));
        }
    }
    ring
}

/// Takes everything.
pub(crate) fn any_cipher() -> CipherPolicy {
    CipherPolicy { ciphers: Cipher::ALL.to_vec(), min_key_bits: 512 }
}

/// Takes everything that can be verified here.
pub(crate) const ANY_HASH: SignaturePolicy = SignaturePolicy { min_hash: HashAlgorithm::Md2, min_key_bits: 512 };

/// The directory of the vectors: certificates by sender.
pub(crate) struct Directory(BTreeMap<String, Vec<Bytes>>);

impl Directory {
    pub(crate) fn read() -> Self {
        let json: Value = serde_json::from_slice(&file("keys/directory.json")).unwrap();
        let certificates = |entry: &Value| -> Vec<Bytes> {
            let names = entry["certificates"].as_array().unwrap();
            names.iter().map(|name| file(&format!("keys/{}", name.as_str().unwrap()))).collect()
        };
        let users = json["users"].as_array().unwrap();
        let machines = json["queue_managers"].as_array().unwrap();
        let users = users.iter().map(|user| (user["sid"].as_str().unwrap().to_owned(), certificates(user)));
        let machines =
            machines.iter().map(|machine| (machine["id"]["guid"].as_str().unwrap().to_owned(), certificates(machine)));
        Self(users.chain(machines).collect())
    }

    pub(crate) fn ask(&self, sender: &SenderId) -> DirectoryAnswer<'_> {
        let sender = match sender {
            SenderId::None => panic!("nobody asks for nobody"),
            SenderId::Sid(sid) => sid.to_string(),
            SenderId::QueueManager(machine) => machine.to_string(),
        };
        self.0.get(&sender).map_or(DirectoryAnswer::Unknown, |certificates| DirectoryAnswer::Certificates(certificates))
    }
}

/// A recoverable message of user A from source A to a private queue, with every field that a signature covers.
pub(crate) fn message(body: &[u8]) -> UserMessage {
    let direct = |text| QueueField::direct(&FormatName::parse_direct(text).unwrap());
    let source: Guid = "a9110b98-378a-46cb-b7b6-af622cc5e71a".parse().unwrap();
    let receiver: Guid = "c778ca24-7c5a-4060-80c0-aeee428d53ae".parse().unwrap();
    let id = MessageId { source, ordinal: 4711 };
    let mut message = UserMessage::new(id, 1_753_805_055, receiver, QueueField::PrivateOnDestination(10));
    message.delivery = DeliveryMode::Recoverable;
    message.user.admin = direct(r"OS:win-a\private$\acks");
    message.user.response = direct(r"OS:win-a\private$\replies");
    message.properties.label = Some(WideText::from_text("order 4711"));
    message.properties.app_specific = 7;
    message.properties.extension = Bytes::from_static(b"extension");
    message.properties.set_body(Bytes::copy_from_slice(body), 8);
    let sid: Sid = "S-1-5-21-1552933431-374529340-4150820168-1104".parse().unwrap();
    message.security = Some(SecurityHeader {
        flags: 1 | SecurityHeader::DATA_PRESENT,
        sender_id: SecurityItem::new(sid.as_wire().clone()),
        ..SecurityHeader::default()
    });
    message
}

/// The same, signed by user A with SHA-256.
pub(crate) fn signed(body: &[u8], version: SignatureVersion) -> UserMessage {
    let mut message = message(body);
    sign(&mut message, version);
    message
}

pub(crate) fn sign(message: &mut UserMessage, version: SignatureVersion) {
    let (key, certificate) = (key("user-a-1024"), certificate("user-a-1024-internal"));
    let hash = HashAlgorithm::Sha256;
    let signer = Signer { key: &key, certificate: &certificate, hash, form: SignatureForm::Property };
    signer.sign(message, version, &mut rand::rng()).unwrap();
}

/// What a receiver finds in the packet of `message`.
pub(crate) fn sent(message: &UserMessage) -> UserMessage {
    let frame = Frame::new(message.to_packet().unwrap()).unwrap();
    UserMessage::decode(&frame).unwrap()
}

pub(crate) fn from_hex(text: &str) -> Bytes {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Chance that is the same in every run: what comes out right once in 62,000 times by chance does so always or never.
pub(crate) struct Chance(u64);

impl Default for Chance {
    fn default() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| (number >> 32) as u32)
    }

    /// `SplitMix64`.
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        Ok(number ^ number >> 31)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for byte in bytes {
            *byte = self.try_next_u64()? as u8;
        }
        Ok(())
    }
}

impl TryCryptoRng for Chance {}
