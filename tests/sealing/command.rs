//! `mqbridge send` signs and encrypts as other queue managers do.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use connector_api::{Body, Value};

use super::resealing::route;
use super::security::key;
use super::site::{ALL_KEYS, Site};

fn send(site: &Site, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mqbridge"));
    command.args(["send", "--to", r"DIRECT=TCP:127.0.0.1\private$\orders", "--body", "from the command line"]);
    command.args(["--port", &site.address.port().to_string()]).args(more).output().unwrap()
}

/// A file of the vectors.
fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors/keys").join(name)
}

fn pair(first: &Path, second: &Path) -> String {
    format!("{},{}", first.display(), second.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_be_sent_signed_and_encrypted_by_hand() {
    let site = Site::start(&route(""), ALL_KEYS).await;
    let files = tempfile::tempdir().unwrap();
    let receiver = files.path().join("bridge01.pem");
    std::fs::write(&receiver, key("qm-local-2048").public().to_pem().unwrap()).unwrap();
    let sign = pair(&vector("user-a-1024.pem"), &vector("user-a-1024-internal.der"));
    let encrypt = format!("aes192,{}", receiver.display());
    let (sign, encrypt) = (["--sign", &sign], ["--encrypt", &encrypt]);
    for (number, more) in [vec![], sign.to_vec(), encrypt.to_vec(), [sign, encrypt].concat()].iter().enumerate() {
        let output = send(&site, &[more.as_slice(), &["--count", "2"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for message in &site.arrived(2 * number + 2).await[2 * number..] {
            assert_eq!(message.body, Body::Clear("from the command line".into()), "{more:?}");
            let verified = message.headers.get("msmq-certificate-verified") == Some(&Value::Bool(true));
            assert_eq!(verified, more.contains(&"--sign"), "{more:?}");
        }
    }
}

/// The receiver says so: it takes nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_encrypted_by_hand_is_encrypted_on_its_way() {
    let strict = route("").replace("ignore_expiry", "ciphers = [\"rc4\"]\nprivacy = \"required\"\nignore_expiry");
    let site = Site::start(&strict, ALL_KEYS).await;
    let files = tempfile::tempdir().unwrap();
    let receiver = files.path().join("bridge01.blob");
    std::fs::write(&receiver, key("qm-local-1024").public().to_blob()).unwrap();
    let encrypt = |cipher| format!("{cipher},{}", receiver.display());
    assert!(send(&site, &[]).status.success());
    assert!(send(&site, &["--encrypt", &encrypt("aes128")]).status.success());
    assert!(send(&site, &["--label", "rc4", "--encrypt", &encrypt("rc4")]).status.success());
    let arrived = site.arrived(1).await;
    assert_eq!(arrived[0].headers.get("msmq-label"), Some(&Value::Text("rc4".to_owned())));
    assert_eq!(site.bridge.view().report().routes[0].rejected_messages, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_none_are_named() {
    let site = Site::start(&route(""), ALL_KEYS).await;
    let private = vector("user-a-1024.pem");
    let other = pair(&private, &vector("user-b-1024-internal.der"));
    let private_for_public = format!("aes256,{}", private.display());
    for (more, expected) in [
        (["--sign", &other], "user-b-1024-internal.der is the certificate of another key than "),
        (["--sign", "absent.pem,absent.der"], "absent.pem can't be read: "),
        (["--encrypt", &private_for_public], "user-a-1024.pem holds a private key; only its public half is wanted"),
    ] {
        let output = send(&site, &more);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && err.contains(expected), "{err}");
    }
    assert!(site.system.arrived().is_empty());
}
