//! Every published vector that needs keys gets its verdict, opens, and is made again where nothing in it is chance.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its part of it")]
mod security;

use std::convert::Infallible;

use mqbridge::mqqb::Moment;
use mqbridge::mqqb::wire::{SecurityHeader, UserMessage};
use mqbridge::security::{
    Authenticity, BadSignature, CacheLimits, Certificate, Cipher, ClearBody, FormatNameLists, HashAlgorithm, KeyCache,
    KeyForm, Lookup, Owner, Provider, PublicKey, QueueNames, Reading, SealedBody, SealingKey, SignatureForm,
    SignatureVersion, Signer, Unopened, UserCertificate, WrongOwner,
};
use rand::{TryCryptoRng, TryRng};
use security::{ANY_HASH, Directory, Vector, any_cipher, certificate, from_hex, key, keyring, vectors};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What security makes of a message.
#[derive(Debug)]
enum Outcome {
    Genuine { body: ClearBody, authenticity: Authenticity, owner: Owner },
    Unopened(Unopened),
    BadSignature(BadSignature),
    WrongOwner(WrongOwner),
}

fn examine(message: &UserMessage) -> Outcome {
    let mut body = match ClearBody::open(message, &keyring(), &any_cipher(), &mut rand::rng()) {
        Ok(body) => body,
        Err(unopened) => return Outcome::Unopened(unopened),
    };
    let authenticity = match Authenticity::of(message, &mut body, &ANY_HASH) {
        Ok(authenticity) => authenticity,
        Err(bad) => return Outcome::BadSignature(bad),
    };
    let directory = Directory::read();
    match Owner::of(message, &authenticity, |sender| directory.ask(sender)) {
        Ok(owner) => Outcome::Genuine { body, authenticity, owner },
        Err(wrong) => Outcome::WrongOwner(wrong),
    }
}

/// Hashes that are refused on purpose, with a reason of their own: the only vectors that don't get their verdict.
const OBSOLETE: [(&str, HashAlgorithm); 2] = [("md2", HashAlgorithm::Md2), ("md4", HashAlgorithm::Md4)];

#[test]
fn every_vector_gets_its_verdict() {
    let (mut signed, mut encrypted, mut refused, mut obsolete) = (0, 0, 0, 0);
    for vector in vectors() {
        let Vector { name, message, expect, needs } = &vector;
        let outcome = examine(message);
        signed += usize::from(!expect["signature"].is_null());
        encrypted += usize::from(!expect["encryption"].is_null());
        if let Some((_, hash)) = OBSOLETE.iter().find(|(need, _)| needs.iter().any(|needed| needed == need)) {
            let right = matches!(&outcome, Outcome::BadSignature(BadSignature::ObsoleteHash(found)) if found == hash);
            assert!(right, "{name} is {outcome:?}");
            obsolete += 1;
            continue;
        }
        let right = match expect["error"]["kind"].as_str() {
            Some("bad-encryption") => matches!(&outcome, Outcome::Unopened(Unopened::Closed)),
            Some("bad-signature") => matches!(&outcome, Outcome::BadSignature(_)),
            Some("wrong-owner") => {
                matches!(&outcome, Outcome::WrongOwner(WrongOwner::OtherCertificate | WrongOwner::UnknownSender))
            }
            None | Some("unspecified") => matches!(&outcome, Outcome::Genuine { .. }),
            Some(other) => panic!("{name}: {other}"),
        };
        assert!(right, "{name} is {outcome:?}");
        match outcome {
            Outcome::Genuine { body, authenticity, owner } => {
                is_as_stated(&vector, &body);
                signature_is_as_stated(&vector, &authenticity);
                let authenticated = match (&authenticity, owner.is_proven()) {
                    (Authenticity::Unsigned, _) => Value::Null,
                    (Authenticity::Proven(_), true) => "sender".into(),
                    (Authenticity::Proven(_), false) => "certificate".into(),
                };
                // Acknowledgments and the like say nothing of it.
                assert_eq!(expect.get("authenticated_as").unwrap_or(&Value::Null), &authenticated, "{name}");
            }
            _ => refused += 1,
        }
    }
    assert_eq!((signed, encrypted, refused, obsolete), (SIGNED, ENCRYPTED, 59, 2));
}

/// How many vectors have a signature, and how many an encrypted body.
const SIGNED: usize = 109;
const ENCRYPTED: usize = 64;

fn is_as_stated(vector: &Vector, body: &ClearBody) {
    let (name, expect) = (&vector.name, &vector.expect);
    if let Some(plain) = expect.get("plain_body").filter(|plain| !plain.is_null()) {
        assert_eq!(plain["length"], body.plaintext().len(), "{name}");
        match plain["hex"].as_str() {
            Some(hex) => assert_eq!(body.plaintext(), &from_hex(hex), "{name}"),
            None => assert_eq!(Sha256::digest(body.plaintext())[..], from_hex(plain["sha256"].as_str().unwrap())),
        }
    }
    let stated = &expect["encryption"];
    let Some(with) = body.sealed_with() else { return assert!(stated.is_null(), "{name}") };
    assert_eq!(stated["algorithm"]["number"], with.cipher.calg(), "{name}");
    assert_eq!(stated["privacy_level"]["number"], with.provider.privacy_level(), "{name}");
    assert_eq!(stated["provider"], with.provider.name(), "{name}");
    assert_eq!(stated["key_file"], format!("keys/qm-local-{}.pem", with.key_bits), "{name}");
    let salted = stated["cipher_key"] != stated["symmetric_key"];
    assert_eq!(salted, with.form == KeyForm::ZeroSalt, "{name}");
    if with.cipher == Cipher::Rc2 && !salted {
        let bits = stated["symmetric_key"].as_str().unwrap().len() * 4;
        let shortened = stated["rc2_effective_bits"] != bits;
        assert_eq!(shortened, with.form == KeyForm::Effective40, "{name}");
    }
}

fn signature_is_as_stated(vector: &Vector, authenticity: &Authenticity) {
    let (name, stated) = (&vector.name, &vector.expect["signature"]);
    let Some(proof) = authenticity.proof() else { return assert!(stated.is_null(), "{name}") };
    assert_eq!(stated["version"], proof.version().to_string(), "{name}");
    assert_eq!(stated["signature_type"], proof.version().signature_type(), "{name}");
    assert_eq!(stated["hash"]["number"], proof.hash().calg(), "{name}");
    assert_eq!(stated["hash"]["name"], proof.hash().to_string(), "{name}");
    if let Some(file) = stated["certificate"].as_str() {
        assert_eq!(proof.certificate().der(), &security::file(file), "{name}");
    }
    assert!(forms(&stated["form"]).contains(&proof.reading()), "{name}: {}", proof.reading());
}

/// The readings that a vector's form may be: the property form is also the wire form of a message without queues.
fn forms(form: &Value) -> Vec<Reading> {
    let queue_names = match form["queue_names"].as_str().unwrap() {
        "field" => vec![QueueNames::Wire, QueueNames::Property],
        "field-with-padding" => vec![QueueNames::WireWithPadding],
        "name-with-nul" => vec![QueueNames::Name],
        "name-without-nul" => vec![QueueNames::NameWithoutNul],
        "format-name-with-nul" => vec![QueueNames::Property],
        "format-name-without-nul" => vec![QueueNames::PropertyWithoutNul],
        other => panic!("{other}"),
    };
    let lists = match form["format_name_lists"].as_str().unwrap() {
        "destination" => FormatNameLists::Destination,
        "destination-with-padding" => FormatNameLists::DestinationWithPadding,
        "all-three" => FormatNameLists::All,
        "all-three-with-padding" => FormatNameLists::AllWithPadding,
        other => panic!("{other}"),
    };
    let reading = |queue_names| Reading {
        queue_names,
        label_with_nul: form["label"] == "with-nul",
        absent_connector_as_zeros: form["absent_connector_type"] == "16-zero-bytes",
        same_as_admin_repeated: form["response_same_as_admin"] == "admin-queue",
        lists,
        ciphertext: form["body"] == "ciphertext",
        digest_info: form["digest_info"] == true,
        big_endian: form["byte_order"] == "big-endian",
    };
    queue_names.into_iter().map(reading).collect()
}

/// PKCS#1 v1.5 signatures have no chance in them.
#[test]
fn signatures_are_made_again() {
    let mut made = 0;
    for Vector { name, mut message, expect, .. } in vectors() {
        let stated = &expect["signature"];
        let form = &stated["form"];
        let (Some(file), true) = (stated["signing_key"].as_str(), expect["verdict"] == "accept") else { continue };
        let hash = HashAlgorithm::from_calg(message.properties.hash_algorithm).unwrap();
        let default = forms(form).into_iter().any(|reading| {
            let with_queues = Reading { queue_names: QueueNames::Wire, ..reading };
            with_queues.to_string() == "queues=wire" || with_queues.to_string() == "queues=wire response=admin-queue"
        });
        let signature_form = match form["queue_names"].as_str().unwrap() {
            "field" if form["response_same_as_admin"] == "nothing" => SignatureForm::Wire,
            "format-name-with-nul" => SignatureForm::Property,
            _ => continue,
        };
        let Some(certificate) = stated["certificate"].as_str() else { continue };
        if !default || hash < HashAlgorithm::Md5 {
            continue;
        }
        let (key, certificate) = (
            key(file.trim_start_matches("keys/").trim_end_matches(".pem")),
            Certificate::from_der(security::file(certificate)).unwrap(),
        );
        let version = match stated["version"].as_str().unwrap() {
            "1.0" => SignatureVersion::V1,
            "2.0" => SignatureVersion::V2,
            _ => SignatureVersion::V3,
        };
        let mut body = ClearBody::open(&message, &keyring(), &any_cipher(), &mut rand::rng()).unwrap();
        Authenticity::of(&message, &mut body, &ANY_HASH).unwrap();
        // The plaintext that was signed.
        message.properties.body = body.plaintext().clone();
        let signer = Signer { key: &key, certificate: &certificate, hash, form: signature_form };
        signer.sign(&mut message, version, &mut rand::rng()).unwrap();
        let value = match version {
            SignatureVersion::V3 => message.multi_queue.unwrap().signature.value,
            _ => message.security.unwrap().signature.data,
        };
        assert_eq!(value, from_hex(stated["value"].as_str().unwrap()), "{name}");
        made += 1;
    }
    assert_eq!(made, MADE_AGAIN);
}

/// Signatures in a form that we make.
const MADE_AGAIN: usize = 56;

/// Chance that was written down: first the symmetric key, then the padding of the RSA block.
struct Script(std::vec::IntoIter<u8>);

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("bytes are all that is wanted")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("bytes are all that is wanted")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.0.next().expect("no more chance than the vector has"));
        Ok(())
    }
}

impl TryCryptoRng for Script {}

#[test]
fn encrypted_bodies_are_made_again() {
    let mut made = 0;
    for Vector { name, message, expect, .. } in vectors() {
        let stated = &expect["encryption"];
        if stated.is_null() || stated["opens"] != true {
            continue;
        }
        let mut body = ClearBody::open(&message, &keyring(), &any_cipher(), &mut rand::rng()).unwrap();
        // Which plaintext of two it is.
        let _ = Authenticity::of(&message, &mut body, &ANY_HASH);
        let with = body.sealed_with().unwrap();
        if with.form != KeyForm::AsTransported {
            continue;
        }
        let (symmetric, block) = (hex(&stated["symmetric_key"]), hex(&stated["rsa_block"]));
        let padding = &block[2..block.len() - symmetric.len() - 1];
        let mut script = Script([&symmetric, padding].concat().into_iter());
        let receiver = key(&format!("qm-local-{}", with.key_bits));
        let sealing = SealingKey::generate(with.provider, with.cipher, receiver.public(), &mut script).unwrap();

        let mut again = message.clone();
        again.properties.body = body.plaintext().clone();
        let security = again.security.as_mut().unwrap();
        security.flags &= !(SecurityHeader::ENCRYPTED | SecurityHeader::DATA_PRESENT);
        security.flags |= SecurityHeader::DEFAULT_PROVIDER;
        (security.encryption_key, security.provider_info) = Default::default();
        sealing.seal(&mut again).unwrap();

        let (was, is) = (message.security.as_ref().unwrap(), again.security.as_ref().unwrap());
        // Some were filled up with zeros, or name the provider otherwise.
        let padded = was.encryption_key.data.strip_prefix(&is.encryption_key.data[..]);
        assert!(padded.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)), "{name}");
        let other_provider = ["enc-by-application", "sig-encrypted-provider", "sig-alt-ciphertext"];
        if !other_provider.contains(&name.as_str()) {
            assert_eq!((was.flags, &was.provider_info.data), (is.flags, &is.provider_info.data), "{name}");
        }
        let (was, is) = (&message.properties, &again.properties);
        assert_eq!(was.body, is.body, "{name}");
        assert_eq!(was.allocation_body_size, is.allocation_body_size, "{name}");
        assert_eq!(
            (was.encryption_algorithm, was.privacy_level),
            (is.encryption_algorithm, is.privacy_level),
            "{name}"
        );
        made += 1;
    }
    assert_eq!(made, SEALED_AGAIN);
}

/// Encrypted bodies in the form that we make.
const SEALED_AGAIN: usize = 39;

fn hex(value: &Value) -> Vec<u8> {
    from_hex(value.as_str().unwrap()).to_vec()
}

/// The vectors of the key cache, in their order, by a receiver that begins with an empty one.
#[test]
fn the_key_cache_hits_and_misses_as_stated() {
    let mut steps: Vec<Vector> =
        vectors().into_iter().filter(|vector| !vector.expect["encryption"]["cache"].is_null()).collect();
    steps.sort_by_key(|vector| vector.expect["encryption"]["cache"]["step"].as_u64());
    assert_eq!(steps.len(), 7);
    let limits = CacheLimits {
        machines: 8.try_into().unwrap(),
        keys_per_machine: 8.try_into().unwrap(),
        lifetime: std::time::Duration::from_secs(60),
    };
    let (cache, keyring, policy) = (KeyCache::new(limits), keyring(), any_cipher());
    for Vector { name, message, expect, .. } in &steps {
        let stated = &expect["encryption"]["cache"];
        let sealed = SealedBody::of(message, &policy).unwrap();
        let before = cache.figures().keys;
        match cache.look_up(&sealed, Moment::ZERO) {
            Lookup::Hit(keys) => {
                assert_eq!(stated["lookup"], "hit", "{name}");
                sealed.open(&keys, &policy).unwrap();
            }
            Lookup::Miss(flight) => {
                assert_eq!(stated["lookup"], "miss", "{name}");
                let keys = keyring.unwrap(&sealed, &mut rand::rng());
                flight.land(&keys);
                if let Ok((_, proven)) = sealed.open(&keys, &policy) {
                    cache.put(&proven, Moment::ZERO);
                }
                assert_eq!(stated["stored_after"], cache.figures().keys > before, "{name}");
            }
            Lookup::Joined(_) => panic!("{name}: nobody else is there"),
        }
    }
    let figures = cache.figures();
    assert_eq!((figures.hits, figures.misses, figures.rsa_operations), (2, 5, 5));
    assert_eq!((figures.machines, figures.keys, figures.evictions), (2, 4, 0));
}

#[test]
fn the_keys_of_the_vectors_are_read_in_both_forms() {
    for bits in [512, 1024, 2048, 4096] {
        let private = key(&format!("qm-local-{bits}"));
        let public = private.public();
        let blob = security::file(&format!("keys/qm-local-{bits}.publickeyblob.hex"));
        let blob = from_hex(std::str::from_utf8(&blob).unwrap().trim());
        assert_eq!(&PublicKey::from_blob(&blob).unwrap(), public);
        assert_eq!(&PublicKey::from_pem(&public.to_pem().unwrap()).unwrap(), public);
    }
    assert_eq!(certificate("user-a-1024-keyblob").key(), key("user-a-1024").public());
    assert_eq!(Provider::ALL.map(Provider::privacy_level), [1, 3, 5]);
}

#[test]
fn the_certificates_of_a_user_are_read_and_written() {
    for user in ["user-a", "user-b"] {
        let bytes = security::file(&format!("keys/{user}.mqusersigncerts.hex"));
        let bytes = from_hex(std::str::from_utf8(&bytes).unwrap().trim());
        let all = UserCertificate::decode_all(&bytes).unwrap();
        assert!(all.iter().any(|one| one.certificate == certificate(&format!("{user}-1024-internal")).der()));
        assert_eq!(UserCertificate::encode_all(&all), bytes);
        for at in 0..bytes.len() {
            assert_eq!(UserCertificate::decode_all(&bytes.slice(..at)), None);
        }
    }
}
