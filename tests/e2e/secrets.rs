//! Private messages, with the real broker: whoever has the key can open them, and nobody finds anything in the log.

use std::process::Command;

use bytes::Bytes;
use mqbridge::mqqb::wire::{SecurityHeader, SecurityItem, UserMessage};
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
        let hex = CANARY.bytes().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
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

/// The directory can be changed while the bridge runs, and a mistake in it changes nothing.
#[test]
fn the_directory_is_read_anew_when_somebody_says_so() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("anew");
    let site = Site::new(&uri, "", &[("orders", &route("orders", &exchange, "orders", "senders = [\"clerks\"]", ""))]);
    let main = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), main + "[directory]\nkind = \"file\"\n").unwrap();
    let directory = site.path().join("directory.toml");
    let user =
        |group: &str| format!("[[user]]\nsid = \"S-1-5-21-1-2-3-1104\"\nname = 'CORP\\a'\ngroups = [\"{group}\"]\n");
    std::fs::write(&directory, user("others")).unwrap();
    runtime().block_on(Application::declare(&uri, &exchange));
    let bridge = site.start();
    let from_a = |ordinal| {
        let mut message = message("orders", ordinal);
        let sid = Bytes::from_static(&[
            1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0x50, 4, 0, 0,
        ]);
        let sender_id = SecurityItem::new(sid);
        message.security = Some(SecurityHeader { flags: 1, sender_id, ..SecurityHeader::default() });
        message
    };
    deliver(bridge.address, &[from_a(1)]);
    bridge.wait_for(|line| line["outcome"] == "access-denied");
    std::fs::write(&directory, user("clerks")).unwrap();
    bridge.signal("HUP");
    bridge.wait_for(|line| line["event"] == "directory_reloaded");
    deliver(bridge.address, &[from_a(2)]);
    std::fs::write(&directory, "[[usr]]\n").unwrap();
    bridge.signal("HUP");
    let fault = bridge.wait_for(|line| line["event"] == "directory_not_reloaded");
    assert!(fault["reason"].as_str().unwrap().contains("usr"), "{fault}");
    deliver(bridge.address, &[from_a(3)]);
    assert_eq!(bridge.log().iter().filter(|line| line["event"] == "message_refused").count(), 1);
    assert!(bridge.stop().success());
}
