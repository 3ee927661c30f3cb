//! What holds for all messages: what is signed verifies, what is sealed opens, and no input does harm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../fuzz/src/security.rs"]
#[expect(unreachable_pub, reason = "the fuzz crate shares this file")]
mod oracle;
#[allow(dead_code, reason = "each test file uses its part of it")]
mod packets;
#[allow(dead_code, reason = "each test file uses its part of it")]
mod security;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use mqbridge::mqqb::wire::{MultiQueueSignature, SecurityHeader, SecurityItem, UserMessage};
use mqbridge::security::{
    Authenticity, BadSignature, CannotSign, Certificate, Cipher, ClearBody, HashAlgorithm, KeyForm, Keyring,
    PrivateKey, Provider, SealingKey, SignatureForm, SignatureVersion, Signer,
};
use packets::strategies;
use proptest::prelude::*;
use security::{ANY_HASH, any_cipher, certificate, key, sent};

static USER: LazyLock<(PrivateKey, Certificate)> =
    LazyLock::new(|| (key("user-a-1024"), certificate("user-a-1024-internal")));
static RECEIVER: LazyLock<PrivateKey> = LazyLock::new(|| key("qm-local-512"));

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Any message, but nothing of it signed or encrypted yet.
fn plain_message() -> impl Strategy<Value = UserMessage> {
    strategies::user_message().prop_map(|mut message| {
        if let Some(security) = &mut message.security {
            security.flags &= !SecurityHeader::ENCRYPTED;
            security.signature = SecurityItem::default();
            security.encryption_key = SecurityItem::default();
        }
        if let Some(multi_queue) = &mut message.multi_queue {
            multi_queue.signature = MultiQueueSignature::default();
        }
        message
    })
}

fn version() -> impl Strategy<Value = SignatureVersion> {
    prop_oneof![Just(SignatureVersion::V1), Just(SignatureVersion::V2), Just(SignatureVersion::V3)]
}

fn hash() -> impl Strategy<Value = HashAlgorithm> {
    use HashAlgorithm::{Md5, Sha1, Sha256, Sha512};
    prop_oneof![Just(Md5), Just(Sha1), Just(Sha256), Just(Sha512)]
}

fn cipher() -> impl Strategy<Value = (Provider, Cipher)> {
    let all = Provider::ALL.into_iter().flat_map(|provider| Cipher::ALL.map(|cipher| (provider, cipher)));
    let possible: Vec<_> = all.filter(|(provider, cipher)| provider.key_size(*cipher).is_some()).collect();
    prop::sample::select(possible)
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn what_is_signed_verifies_and_nothing_else_does(
        mut message in plain_message(),
        version in version(),
        hash in hash(),
        wire in any::<bool>(),
        at in any::<prop::sample::Index>(),
    ) {
        let (key, certificate) = &*USER;
        let form = if wire { SignatureForm::Wire } else { SignatureForm::Property };
        let signer = Signer { key, certificate, hash, form };
        match signer.sign(&mut message, version, &mut rand::rng()) {
            Ok(()) => {}
            Err(CannotSign::NoLists) => {
                prop_assert_eq!(version, SignatureVersion::V3);
                return Ok(());
            }
            Err(CannotSign::NoName) => {
                prop_assert_eq!(form, SignatureForm::Property);
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        }
        let message = sent(&message);
        let mut body = ClearBody::of(&message).unwrap();
        let authenticity = Authenticity::of(&message, &mut body, &ANY_HASH).unwrap();
        let proof = authenticity.proof().unwrap();
        prop_assert_eq!((proof.version(), proof.hash()), (version, hash));
        prop_assert_eq!(proof.certificate(), certificate);

        let mut altered = message;
        if altered.properties.body.is_empty() {
            altered.properties.body = vec![0].into();
        } else {
            let mut body = altered.properties.body.to_vec();
            let at = at.index(body.len());
            body[at] ^= 1;
            altered.properties.body = body.into();
        }
        let mut body = ClearBody::of(&altered).unwrap();
        let verified = Authenticity::of(&altered, &mut body, &ANY_HASH);
        prop_assert_eq!(verified, Err(BadSignature::HashDiffers));
    }

    #[test]
    fn what_is_sealed_opens(
        mut message in plain_message(),
        (provider, cipher) in cipher(),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let receiver = &*RECEIVER;
        let sealing = SealingKey::generate(provider, cipher, receiver.public(), &mut rand::rng()).unwrap();
        message.properties.set_body(body.clone().into(), 0);
        sealing.seal(&mut message).unwrap();
        let message = sent(&message);
        prop_assert!(message.is_encrypted());
        prop_assert_eq!(message.properties.allocation_body_size as usize, message.properties.body.len());
        if cipher != Cipher::Rc4 {
            prop_assert!(message.properties.body.len() > body.len());
        }
        let ring = Keyring::new(receiver);
        let opened = ClearBody::open(&message, &ring, &any_cipher(), &mut rand::rng()).unwrap();
        let with = opened.sealed_with().unwrap();
        prop_assert_eq!((with.provider, with.cipher, with.key_bits), (provider, cipher, 512));
        // RC2 has two readings: once in 100,000 times the other one has the longer padding.
        if with.form == KeyForm::AsTransported {
            prop_assert_eq!(opened.plaintext(), &body);
        } else {
            prop_assert_eq!(cipher, Cipher::Rc2);
        }
    }

    #[test]
    fn no_bytes_do_harm(kind in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        oracle::security(&[&[kind][..], &bytes].concat());
    }

    /// Bytes of the corpus with a few of them changed get further.
    #[test]
    fn no_change_does_harm(
        file in prop::sample::select(corpus()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.2),
    ) {
        let mut input = file;
        for (at, byte) in changes {
            // The kind stays.
            let at = 1 + at.index(input.len() - 1);
            input[at] = byte;
        }
        if is_cut {
            input.truncate(1 + cut.index(input.len() - 1));
        }
        oracle::security(&input);
    }
}

#[test]
fn the_corpus_does_no_harm() {
    let corpus = corpus();
    assert!(corpus.len() > 20);
    for input in corpus {
        oracle::security(&input);
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/security");
    fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}
