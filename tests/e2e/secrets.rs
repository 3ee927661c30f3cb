//! Private messages, with the real broker: whoever has the key can open them, and nobody finds anything in the log.

use std::process::Command;

use bytes::Bytes;
use mqbridge::mqqb::wire::UserMessage;
use mqbridge::security::{Cipher, PrivateKey, Provider, SealingKey};
use testkit::SharedBroker;

use crate::broker::{Application, unique};
use crate::forms::python;
use crate::process::{Site, mqbridge, route};
use crate::sender::{deliver, message, runtime};

/// A machine behind the bridge, for which senders encrypt.
const WAREHOUSE: &str = "tests/fixtures/vectors/keys/qm-other-1024.pem";

fn sealed(ordinal: u32, body: &str, cipher: Cipher, receiver: &PrivateKey) -> UserMessage {
    let mut message = message("orders", ordinal);
    message.properties.body = Bytes::from(body.to_owned());
    let key = SealingKey::generate(Provider::Aes, cipher, receiver.public(), &mut rand::rng()).unwrap();
    key.seal(&mut message).unwrap();
    message
}

fn key(file: &str) -> PrivateKey {
    PrivateKey::from_pem(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn a_consumer_in_another_language_opens_what_a_transparent_route_passes_on() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("transparent");
    let transparent = route("orders", &exchange, "orders", "", "[security]\nmode = \"transparent\"");
    let site = Site::new(&uri, "", &[("orders", &transparent)]);
    runtime().block_on(Application::declare(&uri, &exchange));
    let bridge = site.start();
    let warehouse = key(WAREHOUSE);
    let messages: Vec<_> = (1..)
        .zip([Cipher::Aes128, Cipher::Aes192, Cipher::Aes256])
        .map(|(ordinal, cipher)| sealed(ordinal, &format!("for the warehouse: {ordinal}"), cipher, &warehouse))
        .collect();
    deliver(bridge.address, &messages);
    let output = Command::new(python())
        .args(["tests/e2e/open_with_python.py", &uri, &exchange, WAREHOUSE, "3"])
        .output()
        .expect("python3 is there; `cargo xtask test` installs what it needs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let opened = String::from_utf8(output.stdout).unwrap();
    assert_eq!(opened, "for the warehouse: 1\nfor the warehouse: 2\nfor the warehouse: 3\n");
    assert!(bridge.stop().success());
}

/// The canaries are in bodies that are opened, refused, dead-lettered and returned by the broker; the log has everything
/// that it can have.
#[test]
fn no_line_of_the_log_holds_anything_of_a_body() {
    const CANARY: &str = "CANARY-4c1d9e: what only its receiver may read";
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("canary");
    let routes = [
        ("orders", route("orders", &exchange, "{label}", "", "[on_failure]\nunroutable = \"dead-letter\"")),
        ("strict", route("strict", &exchange, "x", "authenticate = \"required\"", "")),
    ];
    let routes: Vec<_> = routes.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let site = Site::new(&uri, "", &routes);
    let config = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), config.replace("level = \"info\"", "level = \"trace\"")).unwrap();
    assert!(mqbridge(&["init", "--config", site.config().to_str().unwrap()]).status().unwrap().success());
    let own_key = key(site.path().join("state/qm.pem").to_str().unwrap());
    let received = runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        let bridge = site.start();
        let mut clear = message("orders", 1);
        clear.properties.body = Bytes::from_static(CANARY.as_bytes());
        let mut refused = message("strict", 2);
        refused.properties.body = Bytes::from_static(CANARY.as_bytes());
        let opened = sealed(3, CANARY, Cipher::Aes256, &own_key);
        let closed = sealed(4, CANARY, Cipher::Aes256, &key(WAREHOUSE));
        let address = bridge.address;
        let first = vec![clear.clone(), refused, opened, closed];
        tokio::task::spawn_blocking(move || deliver(address, &first)).await.unwrap();
        let received = application.receive(2).await;
        application.unbind().await;
        let mut returned = clear;
        returned.user.message_id = 5;
        tokio::task::spawn_blocking(move || deliver(address, &[returned])).await.unwrap();
        bridge.wait_for(|line| line["event"] == "message_dead_lettered");
        let log = bridge.log();
        assert!(log.iter().any(|line| line["level"] == "trace"), "the log has everything");
        assert!(
            log.iter().any(|line| line["outcome"] == "unproven")
                && log.iter().any(|line| line["outcome"] == "unopened")
        );
        let hex: String = CANARY.bytes().take(8).map(|byte| format!("{byte:02x}")).collect();
        let numbers = CANARY.bytes().take(8).map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        for line in &log {
            let text = line.to_string();
            for secret in ["CANARY-4c1d9e", &hex, &numbers] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        received
    });
    assert!(received.iter().all(|message| message.body() == CANARY.as_bytes()));
}
