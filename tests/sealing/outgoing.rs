//! Routes to MSMQ that sign and encrypt.

use bytes::Bytes;
use mqbridge::mqqb::wire::{SenderId, UserMessage};
use mqbridge::security::{
    Authenticity, Cipher, ClearBody, DirectoryAnswer, HashAlgorithm, Keyring, Owner, Provider, SignatureVersion,
};

use super::eventually;
use super::flaky::Outage;
use super::machine::Machine;
use super::security::{ANY_HASH, any_cipher, key};
use super::site::{ALL_KEYS, QUEUE, Site, route_out};

const SECRET: &str = "CANARY-91c4: nobody but the receiver reads this";
const HERE: &str = r"DIRECT=OS:win-a\private$\q";

/// The body as the machine opens it with its private key.
fn opened(message: &UserMessage) -> ClearBody {
    ClearBody::open(message, &Keyring::new(&key("qm-other-1024")), &any_cipher(), &mut rand::rng()).unwrap()
}

/// Whether the bytes stand anywhere in clear.
fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// The machine finds a genuine signature of the bridge.
fn assert_signed_by_the_bridge(site: &Site, message: &UserMessage) {
    let mut body = opened(message);
    let authenticity = Authenticity::of(message, &mut body, &ANY_HASH).unwrap();
    let proof = authenticity.proof().expect("signed");
    assert_eq!((proof.version(), proof.hash()), (SignatureVersion::V2, HashAlgorithm::Sha256));
    let registered = [site.credentials.certificate.der().clone()];
    let owner = Owner::of(message, &authenticity, |sender| {
        assert_eq!(*sender, SenderId::QueueManager(Site::own()));
        DirectoryAnswer::Certificates(&registered)
    });
    assert!(owner.unwrap().is_proven());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receiver_alone_reads_what_is_encrypted_for_it_and_knows_who_sent_it() {
    for (cipher, provider, form) in [
        (Cipher::Aes256, Provider::Aes, "property"),
        (Cipher::Aes192, Provider::Aes, "wire"),
        (Cipher::Aes128, Provider::Aes, "property"),
        (Cipher::Rc2, Provider::Enhanced, "property"),
        (Cipher::Rc4, Provider::Enhanced, "wire"),
    ] {
        let security = format!("sign = true\nencrypt = \"{cipher}\"\nsignature_form = \"{form}\"");
        let mut site = Site::start(&route_out(HERE, &security), ALL_KEYS).await;
        site.put(SECRET);
        site.put(SECRET);
        site.wait_for_stored(2).await;
        // What is stored is what is sent.
        assert!(!contains(&site.disk(), &SECRET[..12]), "{cipher}");
        site.machine.switch_on().await;
        let messages = site.machine.wait_for(2).await;
        for message in &messages {
            assert!(message.is_encrypted() && !contains(&message.properties.body, &SECRET[..12]));
            let body = opened(message);
            assert_eq!(body.plaintext(), &Bytes::from_static(SECRET.as_bytes()));
            let sealed_with = body.sealed_with().unwrap();
            assert_eq!((sealed_with.cipher, sealed_with.provider), (cipher, provider));
            assert_signed_by_the_bridge(&site, message);
        }
        // One RSA operation serves both, and chance is no part of the test: the encrypted key is the same.
        let keys = messages.iter().map(|message| &message.security.as_ref().unwrap().encryption_key.data);
        assert_eq!(keys.collect::<std::collections::HashSet<_>>().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_and_encrypting_are_independent() {
    for security in ["", "sign = true", "encrypt = \"aes256\""] {
        let mut site = Site::start(&route_out(HERE, security), ALL_KEYS).await;
        site.put(SECRET);
        site.wait_for_stored(1).await;
        assert_eq!(contains(&site.disk(), &SECRET[..12]), !security.contains("encrypt"), "{security}");
        site.machine.switch_on().await;
        let message = site.machine.wait_for(1).await.pop().unwrap();
        assert_eq!(message.is_signed(), security.contains("sign"), "{security}");
        assert_eq!(message.is_encrypted(), security.contains("encrypt"), "{security}");
        assert_eq!(opened(&message).plaintext(), &Bytes::from_static(SECRET.as_bytes()));
        if message.is_signed() {
            assert_signed_by_the_bridge(&site, &message);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_found_by_every_name_of_a_queue() {
    let guid = Machine::new("win-a").guid;
    for name in [HERE.to_owned(), format!("PRIVATE={guid}\\0000000a"), format!("PUBLIC={QUEUE}")] {
        let security = "sign = true\nencrypt = \"aes256\"";
        let mut site = Site::start(&route_out(&name, security), ALL_KEYS).await;
        site.machine.switch_on().await;
        site.put(SECRET);
        let message = site.machine.wait_for(1).await.pop().unwrap();
        assert_eq!(opened(&message).plaintext(), &Bytes::from_static(SECRET.as_bytes()), "{name}");
        assert_signed_by_the_bridge(&site, &message);
    }
}

/// RC2 and RC4 take the better of the two old providers; AES takes neither.
#[tokio::test(flavor = "multi_thread")]
async fn the_provider_follows_from_the_cipher_and_the_keys_that_there_are() {
    for (keys, cipher, provider) in [
        ("key_files = { base = \"win-a.pem\" }", "rc2", Provider::Base),
        ("key_files = { base = \"win-a.pem\", enhanced = \"win-a.pem\" }", "rc4", Provider::Enhanced),
        ("key_files = { aes = \"win-a.pem\" }", "aes128", Provider::Aes),
    ] {
        let mut site = Site::start(&route_out(HERE, &format!("encrypt = \"{cipher}\"")), keys).await;
        site.machine.switch_on().await;
        site.put(SECRET);
        let message = site.machine.wait_for(1).await.pop().unwrap();
        assert_eq!(opened(&message).sealed_with().unwrap().provider, provider, "{keys}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_in_clear_to_a_machine_without_the_key() {
    for (destination, keys) in [
        (HERE, ""),
        (HERE, "key_files = { base = \"win-a.pem\", enhanced = \"win-a.pem\" }"),
        (r"DIRECT=OS:nobody\private$\q", ALL_KEYS),
        (r"DIRECT=TCP:192.0.2.1\private$\q", ALL_KEYS),
        ("PUBLIC=b0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a", ALL_KEYS),
    ] {
        let site = Site::start(&route_out(destination, "encrypt = \"aes256\""), keys).await;
        site.put(SECRET);
        let refused = eventually("a dead letter", || site.system.refused("out").pop()).await;
        assert_eq!(refused.body, SECRET.as_bytes(), "{destination} {keys}");
        assert!(!contains(&site.disk(), &SECRET[..12]), "{destination} {keys}");
        assert!(site.bridge.view().report().outgoing.is_empty(), "{destination} {keys}");
    }
}

/// What can't be asked now is asked again, and nothing overtakes.
#[tokio::test(flavor = "multi_thread")]
async fn messages_wait_while_the_directory_can_t_be_asked() {
    let mut site = Site::start(&route_out(HERE, "encrypt = \"aes256\""), ALL_KEYS).await;
    site.machine.switch_on().await;
    site.put("1");
    site.machine.wait_for(1).await;
    site.directory.set(Outage::Down);
    for body in ["2", "3", "4"] {
        site.put(body);
    }
    site.wait_for_failure("the directory can't be asked").await;
    assert_eq!(site.machine.inbox.messages().len(), 1);
    assert!(site.system.refused("out").is_empty());
    site.directory.set(Outage::None);
    let messages = site.machine.wait_for(4).await;
    let bodies: Vec<_> = messages.iter().map(|message| opened(message).plaintext().clone()).collect();
    assert_eq!(bodies, ["1", "2", "3", "4"]);
    site.wait_for_recovery().await;
}

/// A stop in the meantime gives the message back.
#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_stops_meanwhile_leaves_its_messages_where_they_were() {
    let site = Site::start(&route_out(HERE, "encrypt = \"aes256\""), ALL_KEYS).await;
    site.directory.set(Outage::Down);
    site.put(SECRET);
    site.wait_for_failure("the directory can't be asked").await;
    let Site { bridge, system, .. } = site;
    bridge.stop().await.unwrap();
    assert_eq!((system.waiting("out"), system.refused("out").len()), (1, 0));
}
