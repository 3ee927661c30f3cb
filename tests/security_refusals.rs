//! What must not be believed, opened or let in, each with its reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test file uses its part of it")]
mod security;

use bytes::{BufMut, Bytes, BytesMut};
use mqbridge::mqqb::wire::{SecurityItem, SenderId, UserMessage};
use mqbridge::security::{
    Access, AccessDenied, AccessEntry, AccessList, Authenticity, BadSignature, CannotSeal, CannotSign, Certificate,
    CertificateError, Cipher, CipherPolicy, ClearBody, DirectoryAnswer, Groups, HashAlgorithm, KeyError, KeyForm,
    Keyring, Owner, PrivateKey, Provider, SealedBody, SealingKey, SignatureForm, SignaturePolicy, SignatureVersion,
    Signer, Trustee, Unopened, WrongOwner,
};
use rsa::pkcs8::DecodePublicKey;
use security::{ANY_HASH, Chance, any_cipher, certificate, file, key, keyring, message, sent, sign, signed, vector};

fn verify(message: &UserMessage) -> Result<Authenticity, BadSignature> {
    verify_with(message, &ANY_HASH)
}

fn verify_with(message: &UserMessage, policy: &SignaturePolicy) -> Result<Authenticity, BadSignature> {
    Authenticity::of(message, &mut ClearBody::of(message).unwrap(), policy)
}

fn with_certificate(certificate: Bytes) -> UserMessage {
    let mut message = signed(b"body", SignatureVersion::V2);
    message.security.as_mut().unwrap().sender_certificate = SecurityItem::new(certificate);
    message
}

fn open(message: &UserMessage) -> Result<ClearBody, Unopened> {
    ClearBody::open(message, &keyring(), &any_cipher(), &mut rand::rng())
}

fn sealed(provider: Provider, cipher: Cipher, bits: usize, body: &[u8]) -> UserMessage {
    let receiver = key(&format!("qm-local-{bits}"));
    let sealing = SealingKey::generate(provider, cipher, receiver.public(), &mut Chance::default()).unwrap();
    let mut message = message(body);
    sealing.seal(&mut message).unwrap();
    message
}

#[test]
fn a_certificate_without_signature_proves_nothing() {
    let mut message = signed(b"body", SignatureVersion::V2);
    message.security.as_mut().unwrap().signature = SecurityItem::default();
    assert_eq!(verify(&message), Ok(Authenticity::Unsigned));
    let owner = Owner::of(&message, &Authenticity::Unsigned, |_| panic!("nothing to ask")).unwrap();
    assert!(!owner.is_proven());
    assert!(matches!(owner.sender(), SenderId::Sid(_)));
}

/// DER of a certificate of user A with another modulus put in: of as many bits as one likes.
fn certificate_with_modulus(bits: usize) -> Bytes {
    certificate_der(bits, &[0x30, 0x00])
}

/// DER: a tag, a length, contents.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        length @ 0..0x80 => out.push(length as u8),
        length @ 0x80..0x100 => out.extend([0x81, length as u8]),
        length => out.extend([&[0x82][..], &(length as u16).to_be_bytes()].concat()),
    }
    out.extend_from_slice(content);
    out
}

fn certificate_der(bits: usize, name: &[u8]) -> Bytes {
    let modulus = [&[0][..], &vec![0xFF; bits / 8]].concat();
    let key = tagged(0x30, &[tagged(0x02, &modulus), tagged(0x02, &[1, 0, 1])].concat());
    let rsa = [0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00];
    let info = tagged(0x30, &[&rsa[..], &tagged(0x03, &[&[0][..], &key].concat())].concat());
    let signed_with = [0x30, 0x0D, 0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x0B, 0x05, 0x00];
    let validity = tagged(0x30, &tagged(0x17, b"250101000000Z").repeat(2));
    let version = [0xA0, 0x03, 0x02, 0x01, 0x02];
    let fields = [&version[..], &tagged(0x02, &[1]), &signed_with, name, &validity, &[0x30, 0x00], &info].concat();
    tagged(0x30, &[&tagged(0x30, &fields)[..], &signed_with, &tagged(0x03, &[0, 1])].concat()).into()
}

#[test]
fn a_certificate_that_can_verify_nothing_says_why() {
    let bad = |certificate| verify(&with_certificate(certificate)).unwrap_err();
    assert_eq!(bad(Bytes::new()), BadSignature::NoCertificate);
    for junk in [&b"no certificate"[..], &vec![0x30; 0xFFFF], &vec![0; 0xFFFF], &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]] {
        let bad = bad(Bytes::copy_from_slice(junk));
        assert_eq!(bad, BadSignature::Certificate(CertificateError::NotX509));
        assert_eq!(bad.to_string(), "the certificate is not X.509");
    }
    let elliptic = bad(file("keys/user-a-p256-external.der"));
    assert_eq!(elliptic, BadSignature::Certificate(CertificateError::NotRsa));
    for bits in [16384, 8200, 504] {
        let error = CertificateError::Key(KeyError::Size(bits));
        assert_eq!(bad(certificate_with_modulus(bits)), BadSignature::Certificate(error));
    }
    // A good one with something behind it is another certificate.
    let mut longer = certificate("user-a-1024-internal").der().to_vec();
    longer.push(0);
    assert_eq!(bad(longer.into()), BadSignature::Certificate(CertificateError::NotX509));
    // The longest key that is read: it opens to no hash, but is no trouble.
    let longest = bad(certificate_with_modulus(8192));
    assert_eq!(longest, BadSignature::Length { found: 128, modulus: 1024 });
}

#[test]
fn a_signature_as_long_as_another_key_is_not_even_opened() {
    for length in [0, 1, 127, 129, 256, 0xFFFF] {
        let mut message = signed(b"body", SignatureVersion::V2);
        message.security.as_mut().unwrap().signature = SecurityItem::new(vec![1; length].into());
        match length {
            0 => assert_eq!(verify(&message), Ok(Authenticity::Unsigned)),
            found => assert_eq!(verify(&message), Err(BadSignature::Length { found, modulus: 128 })),
        }
    }
    // Not below the modulus.
    let mut message = signed(b"body", SignatureVersion::V2);
    message.security.as_mut().unwrap().signature = SecurityItem::new(vec![0xFF; 128].into());
    assert_eq!(verify(&message), Err(BadSignature::NotOpened(HashAlgorithm::Sha256)));
}

#[test]
fn hashes_are_refused_each_with_its_reason() {
    let with_hash = |calg| {
        let mut message = signed(b"body", SignatureVersion::V2);
        message.properties.hash_algorithm = calg;
        message
    };
    assert_eq!(verify(&with_hash(0x800D)), Err(BadSignature::UnknownHash(0x800D)));
    assert_eq!(verify(&with_hash(0x8001)), Err(BadSignature::ObsoleteHash(HashAlgorithm::Md2)));
    assert_eq!(verify(&with_hash(0x8002)), Err(BadSignature::ObsoleteHash(HashAlgorithm::Md4)));
    // Named wrongly, it is no signature of that hash.
    assert_eq!(verify(&with_hash(0x8004)), Err(BadSignature::NotOpened(HashAlgorithm::Sha1)));

    let policy = SignaturePolicy { min_hash: HashAlgorithm::Sha512, min_key_bits: 1024 };
    let weak = BadSignature::WeakHash { found: HashAlgorithm::Sha256, least: HashAlgorithm::Sha512 };
    assert_eq!(verify_with(&signed(b"body", SignatureVersion::V2), &policy), Err(weak));
    let policy = SignaturePolicy { min_key_bits: 2048, ..SignaturePolicy::default() };
    let short = BadSignature::ShortKey { found: 1024, least: 2048 };
    assert_eq!(verify_with(&signed(b"body", SignatureVersion::V2), &policy), Err(short));
}

/// A message that was altered, and signed anew by somebody else under the original sender's SID.
#[test]
fn the_replacement_attack_fails_for_its_owner() {
    let attack = vector("bad-owner-replacement").message;
    let authenticity = verify(&attack).unwrap();
    let directory = security::Directory::read();
    let owner = Owner::of(&attack, &authenticity, |sender| directory.ask(sender));
    assert_eq!(owner, Err(WrongOwner::OtherCertificate));
}

#[test]
fn absent_and_unavailable_are_different_answers() {
    let message = signed(b"body", SignatureVersion::V1);
    let authenticity = verify(&message).unwrap();
    let own = [certificate("user-a-1024-internal").der().clone()];
    let owner = |answer| Owner::of(&message, &authenticity, |_| answer);
    assert_eq!(owner(DirectoryAnswer::Unavailable), Err(WrongOwner::DirectoryUnavailable));
    assert_eq!(owner(DirectoryAnswer::Unknown), Err(WrongOwner::UnknownSender));
    assert_eq!(owner(DirectoryAnswer::Certificates(&[])), Err(WrongOwner::OtherCertificate));
    assert!(owner(DirectoryAnswer::Certificates(&own)).unwrap().is_proven());

    let mut nonsense = message.clone();
    nonsense.security.as_mut().unwrap().sender_id = SecurityItem::new(Bytes::from_static(&[1, 255, 0]));
    let owner = Owner::of(&nonsense, &authenticity, |_| panic!("there is nobody to ask for"));
    assert!(matches!(owner, Err(WrongOwner::Malformed(_))));
}

#[test]
fn what_can_not_be_signed_says_why() {
    let (own, certificate) = (key("user-a-1024"), certificate("user-a-1024-internal"));
    let sign = |key: &PrivateKey, hash, version| {
        let signer = Signer { key, certificate: &certificate, hash, form: SignatureForm::Wire };
        signer.sign(&mut message(b"body"), version, &mut rand::rng())
    };
    let sha = HashAlgorithm::Sha256;
    assert_eq!(sign(&key("user-b-1024"), sha, SignatureVersion::V1), Err(CannotSign::OtherKey));
    assert_eq!(sign(&own, sha, SignatureVersion::V3), Err(CannotSign::NoLists));
    let obsolete = CannotSign::ObsoleteHash(HashAlgorithm::Md4);
    assert_eq!(sign(&own, HashAlgorithm::Md4, SignatureVersion::V2), Err(obsolete));
    assert_eq!(sign(&own, sha, SignatureVersion::V2), Ok(()));
}

/// One and the same refusal, whatever the cause: [`Unopened::Closed`], with one text.
#[test]
fn a_body_that_can_not_be_opened_says_no_more_than_that() {
    let good = || sealed(Provider::Aes, Cipher::Aes256, 2048, b"two blocks with padding");
    assert_eq!(open(&good()).unwrap().plaintext(), &b"two blocks with padding"[..]);
    let with_key = |change: fn(&mut BytesMut)| {
        let mut message = good();
        let item = &mut message.security.as_mut().unwrap().encryption_key;
        let mut blob = BytesMut::from(&item.data[..]);
        change(&mut blob);
        item.data = blob.freeze();
        message
    };
    let with_body = |change: fn(&mut BytesMut)| {
        let mut message = good();
        let mut body = BytesMut::from(&message.properties.body[..]);
        change(&mut body);
        message.properties.body = body.freeze();
        message
    };
    let with_fields = |change: fn(&mut UserMessage)| {
        let mut message = good();
        change(&mut message);
        message
    };
    let other_machine = {
        let (other, mut chance) = (key("qm-other-1024"), Chance::default());
        let other = SealingKey::generate(Provider::Aes, Cipher::Aes256, other.public(), &mut chance);
        let mut message = message(b"the body");
        other.unwrap().seal(&mut message).unwrap();
        message
    };
    for (what, message) in vec![
        ("no key", with_key(BytesMut::clear)),
        ("a key shorter than its header", with_key(|blob| blob.truncate(11))),
        ("a key without value", with_key(|blob| blob.truncate(12))),
        ("a key one octet short", with_key(|blob| blob.truncate(blob.len() - 1))),
        ("a key one octet long, not zero", with_key(|blob| blob.put_u8(1))),
        ("a key of another type", with_key(|blob| blob[0] = 6)),
        ("a key by another exchange", with_key(|blob| blob[9] = 0x24)),
        ("another algorithm inside", with_key(|blob| blob[4] = 0x0E)),
        ("a damaged key", with_key(|blob| blob[20] ^= 1)),
        ("a key not below the modulus", with_key(|blob| blob[12..].fill(0xFF))),
        ("no body", with_body(BytesMut::clear)),
        ("not a multiple of the block", with_body(|body| body.truncate(15))),
        ("wrong padding", with_body(|body| body[15] ^= 0x80)),
        ("another level", with_fields(|message| message.properties.privacy_level = 3)),
        ("no level", with_fields(|message| message.properties.privacy_level = 0)),
        ("an unknown level", with_fields(|message| message.properties.privacy_level = 2)),
        ("an unknown algorithm", with_fields(|message| message.properties.encryption_algorithm = 0x6603)),
        ("another machine's key", other_machine),
    ] {
        assert_eq!(open(&message), Err(Unopened::Closed), "{what}");
    }
    // Longer, but with zeros beyond the modulus, is another way to write it.
    assert!(open(&with_key(|blob| blob.put_bytes(0, 20))).is_ok());
    assert_eq!(ClearBody::of(&good()), None, "an encrypted body is not taken for a clear one");
    let keyless = ClearBody::open(&good(), &Keyring::default(), &any_cipher(), &mut rand::rng());
    assert_eq!(keyless, Err(Unopened::Closed));
}

/// Any last block that is no padding is refused, and no other. The cipher is symmetric enough to choose it freely: what
/// is changed in a block of ciphertext changes the same bits of the next plaintext.
#[test]
fn every_padding_is_judged() {
    for (provider, cipher, bits, block) in
        [(Provider::Aes, Cipher::Aes128, 1024, 16_usize), (Provider::Base, Cipher::Rc2, 512, 8)]
    {
        // A block of text and a block of padding.
        let good = sealed(provider, cipher, bits, &vec![b'x'; block]);
        for count in 0..=255_u8 {
            let mut message = good.clone();
            let mut body = BytesMut::from(&good.properties.body[..]);
            for (at, octet) in body[..block].iter_mut().enumerate() {
                // The last `count` octets become `count`, those before something else.
                let wanted = if at + usize::from(count) >= block { count } else { 0xEE };
                *octet ^= block as u8 ^ wanted;
            }
            message.properties.body = body.freeze();
            let opened = open(&message);
            if (1..=block).contains(&usize::from(count)) {
                let opened = opened.unwrap();
                assert_eq!(opened.plaintext().len(), 2 * block - usize::from(count), "{cipher} {count}");
                // All octets of a padding count, not the last alone.
                if count > 1 && cipher == Cipher::Aes128 {
                    let mut body = message.properties.body.to_vec();
                    body[block - usize::from(count)] ^= 1;
                    message.properties.body = body.into();
                    assert_eq!(open(&message), Err(Unopened::Closed), "{count}");
                }
            } else if cipher == Cipher::Aes128 {
                assert_eq!(opened, Err(Unopened::Closed), "{cipher} {count}");
            } else if let Ok(opened) = opened {
                // RC2 has two readings, and the other one may come out right by chance.
                assert_ne!(opened.sealed_with().unwrap().form, KeyForm::AsTransported);
            }
        }
    }
}

/// RC4 takes keys of any length: what is too long or too short by one is no key of the provider's.
#[test]
fn a_key_of_another_length_is_not_tried_as_far_as_it_goes() {
    let receiver = key("qm-local-1024").public().to_pem().unwrap();
    let receiver = rsa::PublicKey::from_public_key_pem(&receiver).unwrap();
    for (length, opens) in [(15, false), (16, true), (17, false), (0, false), (5, false)] {
        let mut message = sealed(Provider::Enhanced, Cipher::Rc4, 1024, b"body");
        let transported = receiver.encrypt(&mut Chance::default(), rsa::Pkcs1v15Encrypt, &vec![7; length]).unwrap();
        let item = &mut message.security.as_mut().unwrap().encryption_key;
        let blob = [&item.data[..12], &transported.iter().rev().copied().collect::<Vec<_>>()].concat();
        item.data = blob.into();
        assert_eq!(open(&message).is_ok(), opens, "{length}");
    }
}

#[test]
fn weak_ciphers_and_keys_are_for_queues_that_want_them() {
    let aes = CipherPolicy::default();
    let open = |message: &UserMessage| ClearBody::open(message, &keyring(), &aes, &mut rand::rng());
    let rc2 = sealed(Provider::Enhanced, Cipher::Rc2, 1024, b"body");
    assert_eq!(open(&rc2), Err(Unopened::Cipher(Cipher::Rc2)));
    let short = sealed(Provider::Aes, Cipher::Aes128, 512, b"body");
    assert_eq!(open(&short), Err(Unopened::ShortKey { found: 512, least: 1024 }));
    assert!(open(&sealed(Provider::Aes, Cipher::Aes128, 1024, b"body")).is_ok());
    // A policy is a queue's: another queue's cached key does not get round it.
    let sealed = SealedBody::of(&short, &any_cipher()).unwrap();
    let (_, proven) = sealed.open(&keyring().unwrap(&sealed, &mut rand::rng()), &any_cipher()).unwrap();
    assert!(!format!("{proven:?}").is_empty());
    let keys = keyring().unwrap(&sealed, &mut rand::rng());
    assert!(matches!(sealed.open(&keys, &aes), Err(Unopened::ShortKey { .. })));

    let receiver = key("qm-local-1024");
    let none = SealingKey::generate(Provider::Base, Cipher::Aes128, receiver.public(), &mut rand::rng());
    let error = CannotSeal::NoSuchCipher { provider: Provider::Base, cipher: Cipher::Aes128 };
    assert_eq!(none.unwrap_err(), error);
}

#[test]
fn former_keys_open_until_they_are_retired() {
    let (former, new) = (key("qm-local-1024"), key("qm-other-1024"));
    let message = sealed(Provider::Aes, Cipher::Aes128, 1024, b"body");
    let mut ring = Keyring::new(&former);
    assert_eq!(ring.published(Provider::Aes), Some(former.public()));
    assert!(ring.put(Provider::Aes, new.clone()));
    assert_eq!(ring.published(Provider::Aes), Some(new.public()));
    assert_eq!(ring.published(Provider::Base), Some(former.public()));
    let open = |ring: &Keyring| ClearBody::open(&message, ring, &any_cipher(), &mut rand::rng());
    assert_eq!(open(&ring).unwrap().plaintext(), &b"body"[..]);
    assert!(ring.retire(former.public()));
    assert!(!ring.retire(former.public()));
    assert_eq!(open(&ring), Err(Unopened::Closed));
    assert!(ring.put(Provider::Aes, former.clone()));
    assert_eq!(open(&ring).unwrap().plaintext(), &b"body"[..]);
}

/// While two keys overlap, what the wrong one makes of a body may look like a body, of RC4 every hundredth time.
#[test]
fn a_body_that_two_keys_open_is_refused_rather_than_garbled() {
    let (former, new) = (key("qm-local-1024"), key("qm-other-1024"));
    let mut ring = Keyring::new(&former);
    assert!(ring.put(Provider::Enhanced, new));
    let (mut refused, mut chance) = (0, Chance::default());
    for _ in 0..600 {
        let sealing = SealingKey::generate(Provider::Enhanced, Cipher::Rc4, former.public(), &mut chance).unwrap();
        let mut message = message(b"body");
        sealing.seal(&mut message).unwrap();
        match ClearBody::open(&message, &ring, &any_cipher(), &mut chance) {
            Ok(body) => assert_eq!(body.plaintext(), &b"body"[..]),
            Err(error) => {
                assert_eq!(error, Unopened::Closed);
                refused += 1;
            }
        }
    }
    assert!((1..30).contains(&refused), "{refused}");
}

#[test]
fn a_certificate_may_be_as_long_as_its_field() {
    let attribute = |number: u16| {
        let name = number.to_string();
        tagged(0x30, &[tagged(0x06, &[0x55, 0x04, 0x03]), tagged(0x0C, name.as_bytes())].concat())
    };
    let names = (0..4000).rev().map(attribute).collect::<Vec<_>>().concat();
    let name = tagged(0x30, &tagged(0x31, &names));
    let certificate = Certificate::from_der(certificate_der(1024, &name)).unwrap();
    assert!(certificate.der().len() > 50_000);
    let unopened = verify(&with_certificate(certificate.der().clone()));
    assert_eq!(unopened, Err(BadSignature::NotOpened(HashAlgorithm::Sha256)));
}

/// Signed, then encrypted: the signature is of the plaintext, and who changes the ciphertext is found out.
#[test]
fn a_signature_covers_the_plaintext() {
    let receiver = key("qm-local-2048");
    let sealing = SealingKey::generate(Provider::Aes, Cipher::Aes256, receiver.public(), &mut rand::rng()).unwrap();
    let mut message = message(&[b'x'; 40]);
    sign(&mut message, SignatureVersion::V2);
    sealing.seal(&mut message).unwrap();
    assert_eq!(sealing.seal(&mut message), Err(CannotSeal::Encrypted));
    let message = sent(&message);
    let mut body = open(&message).unwrap();
    let authenticity = Authenticity::of(&message, &mut body, &ANY_HASH).unwrap();
    let proof = authenticity.proof().unwrap();
    assert_eq!(proof.reading().to_string(), "queues=property");
    assert_eq!(proof.certificate(), &certificate("user-a-1024-internal"));

    let mut changed = message;
    let mut ciphertext = changed.properties.body.to_vec();
    ciphertext[0] ^= 1;
    changed.properties.body = ciphertext.into();
    let mut body = open(&changed).unwrap();
    assert_eq!(Authenticity::of(&changed, &mut body, &ANY_HASH), Err(BadSignature::HashDiffers));
}

#[test]
fn the_first_entry_that_concerns_the_sender_decides() {
    let anna = "S-1-5-21-1552933431-374529340-4150820168-1104";
    let owner = |message: &UserMessage| Owner::of(message, &Authenticity::Unsigned, |_| panic!("unsigned")).unwrap();
    let with_sid = owner(&message(b""));
    let mut anonymous = message(b"");
    anonymous.security = None;
    let anonymous = owner(&anonymous);
    let machine = owner(&vector("header-security-guid").message);

    let names = ["Orders-Senders".to_owned()];
    let sids = ["S-1-5-32-545".parse().unwrap()];
    let groups = Groups { names: &names, sids: &sids };
    let allow = |trustee: &Trustee| AccessEntry { access: Access::Allow, trustee: trustee.clone() };
    let deny = |trustee: &Trustee| AccessEntry { access: Access::Deny, trustee: trustee.clone() };
    let (everyone, user) = (Trustee::Everyone, Trustee::Sid(anna.parse().unwrap()));
    let world = Trustee::Sid("S-1-1-0".parse().unwrap());
    let group = Trustee::Group("orders-senders".to_owned());
    let group_sid = Trustee::Sid("S-1-5-32-545".parse().unwrap());
    let other = Trustee::Sid("S-1-5-21-1-2-3-4".parse().unwrap());

    let (denied, not_allowed, no_sid) =
        (Err(AccessDenied::Denied), Err(AccessDenied::NotAllowed), Err(AccessDenied::NoSenderId));
    for (entries, of_anna, of_others) in [
        (vec![], not_allowed.clone(), no_sid.clone()),
        (vec![allow(&everyone)], Ok(()), Ok(())),
        (vec![allow(&world)], Ok(()), Ok(())),
        (vec![allow(&user)], Ok(()), no_sid.clone()),
        (vec![allow(&group)], Ok(()), no_sid.clone()),
        (vec![allow(&group_sid)], Ok(()), no_sid.clone()),
        (vec![allow(&other)], not_allowed, no_sid.clone()),
        (vec![deny(&user), allow(&everyone)], denied.clone(), no_sid.clone()),
        (vec![deny(&other), allow(&everyone)], Ok(()), no_sid.clone()),
        (vec![allow(&user), deny(&group), allow(&everyone)], Ok(()), no_sid.clone()),
        (vec![deny(&group), allow(&user)], denied.clone(), no_sid.clone()),
        (vec![allow(&everyone), deny(&user)], Ok(()), Ok(())),
        (vec![deny(&everyone), allow(&user)], denied, no_sid),
    ] {
        let list = AccessList::new(entries);
        let permit = |owner, groups| list.permit(owner, groups).map(drop);
        assert_eq!(permit(&with_sid, groups), of_anna, "{list:?}");
        assert_eq!(permit(&anonymous, Groups::default()), of_others, "{list:?}");
        assert_eq!(permit(&machine, Groups::default()), of_others, "{list:?}");
    }
    assert!(AccessList::everyone().permit(&anonymous, Groups::default()).is_ok());
    let list = AccessList::new([allow(&group)]);
    assert!(list.permit(&with_sid, Groups::default()).is_err(), "only a member");
}

#[test]
fn nothing_secret_is_printed() {
    let body = open(&sealed(Provider::Aes, Cipher::Aes256, 1024, b"canary")).unwrap();
    let shown = format!("{body:?} {:?} {:?}", keyring(), certificate("user-a-1024-internal"));
    assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
    assert!(shown.contains("ClearBody(6 bytes") && shown.contains("PrivateKey(4096 bits)"), "{shown}");
    assert!(Certificate::from_der(Bytes::new()).is_err());
}
