//! A message as a Windows machine sent it, replayed byte for byte.

use std::time::Duration;

use bytes::Bytes;

use crate::broker::{Application, unique};
use crate::process::Site;
use crate::sender::{connect, runtime, send_all};
use testkit::SharedBroker;

fn captured() -> Bytes {
    let text = std::fs::read_to_string("tests/fixtures/golden/frame7_completed.hex").unwrap();
    let digits = text.lines().map(|line| line.split('#').next().unwrap()).flat_map(str::split_whitespace);
    digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[test]
fn the_captured_message_arrives_with_everything_it_carried() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("captured");
    // The capture names the queue `a04bm02\q` and is of 2013 by its sent time: the machine is accepted, the age too.
    let routing = format!(
        r#"
[from]
queue = 'q'
ignore_expiry = true

[to]
connector = "rabbit"
exchange = "{exchange}"
routing_key = "captured.{{queue}}.{{label}}"
"#
    );
    let site = Site::new(&uri, r#"accept_as = ["a04bm02"]"#, &[("captured", &routing)]);
    runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        let bridge = site.start();
        let mut dialed = connect(bridge.address).await.unwrap();
        let packets = [(captured(), false)];
        let sending = send_all(&mut dialed, &packets);
        tokio::time::timeout(Duration::from_secs(30), sending).await.unwrap().unwrap();
        let message = &application.receive(1).await[0];

        assert_eq!(message.body(), b"a\0".repeat(1000), "2000 bytes of UTF-16");
        assert_eq!(message.id(), "557358d1-9150-9595-4997-b6e611ea26c6\\2286");
        assert_eq!(message.text("msmq-label").unwrap(), "mqsender label");
        assert_eq!(message.text("msmq-destination").unwrap(), r"DIRECT=OS:a04bm02\q");
        assert_eq!(message.text("msmq-source-machine").unwrap(), "557358d1-9150-9595-4997-b6e611ea26c6");
        assert_eq!(message.text("msmq-sender-id").unwrap(), "S-1-5-21-3181267629-1039849782-3663111779-1000");
        assert_eq!(message.flag("msmq-authenticated"), Some(false));
        assert_eq!(message.flag("msmq-redelivered"), Some(false));
        assert_eq!(message.number("msmq-body-type"), Some(8));
        let absent = [
            "msmq-app-specific",
            "msmq-class",
            "msmq-extension",
            "msmq-response-queue",
            "msmq-admin-queue",
            "msmq-transaction",
            "msmq-encrypted",
        ];
        for header in absent {
            assert!(message.header(header).is_none(), "{header}");
        }
        let properties = &message.0.properties;
        assert_eq!(properties.priority(), &Some(3));
        assert_eq!(properties.timestamp(), &Some(0x524F_494C));
        assert_eq!(properties.delivery_mode(), &Some(1), "it was sent express");
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "text/plain; charset=utf-16le");
        assert!(properties.correlation_id().is_none());
        assert!(properties.expiration().is_none());
        assert_eq!(message.0.routing_key.as_str(), "captured.q.mqsender label");
    });
}
