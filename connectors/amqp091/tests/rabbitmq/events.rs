//! The log is the monitor: one line for each change of state, with stable names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use connector_api::{Connector, InletOptions, Status};
use testkit::Proxy;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::peer::{Peer, await_status, connector};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("connector_amqp091")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(BTreeMap::from([("level".to_owned(), event.metadata().level().to_string())]));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line(BTreeMap<String, String>);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// On one thread, so that everything is logged through this test's subscriber.
#[tokio::test]
async fn each_change_of_state_is_one_line() {
    let peer = Peer::shared().await;
    let log = Log::default();
    // With a single subscriber in the process, the thread that comes first to a line of log decides whether it is of
    // interest, and in other tests' threads nobody listens.
    let _second = tracing::Dispatch::new(Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    let proxy = Proxy::to(peer.port()).unwrap();
    let connector = connector(&[&proxy.uri()]);
    let is_up = |status: &Status| matches!(status, Status::Up { .. });
    await_status(&connector, is_up).await;
    proxy.cut();
    await_status(&connector, |status| matches!(status, Status::Connecting { attempt: 4.., .. })).await;
    proxy.heal().unwrap();
    await_status(&connector, is_up).await;
    connector.close().await;

    let lines = log.0.lock().unwrap().clone();
    let told: Vec<_> = lines.iter().map(|line| (line["level"].as_str(), line["event"].as_str())).collect();
    let expected = [
        ("INFO", "connector_up"),
        ("WARN", "connector_down"),
        ("WARN", "connector_retry"),
        ("INFO", "connector_up"),
        ("INFO", "connector_closed"),
    ];
    assert_eq!(told, expected, "and no line for each attempt: {lines:?}");
    assert!(lines.iter().all(|line| line["connector"] == "rabbit" && line["purpose"] == "publishing"), "{lines:?}");
    let address = format!("127.0.0.1:{}", proxy.port());
    assert_eq!(lines[0]["peer"], format!("amqp://{address}/%2f"));
    assert_eq!(lines[1]["reason"], "the broker closed the connection");
    assert!(lines[2]["reason"].contains(&address) && lines[2]["attempt"] == "1", "{:?}", lines[2]);
    assert!(!format!("{lines:?}").contains("guest"), "{lines:?}");
}

#[tokio::test]
async fn each_trouble_of_a_queue_is_one_line() {
    let peer = Peer::shared().await;
    let source = peer.source().await;
    let log = Log::default();
    // As above.
    let _second = tracing::Dispatch::new(Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    let connector = connector(&[peer.uri()]);
    let options = InletOptions { route: "inward".to_owned(), address: source.queue.clone(), prefetch: 5 };
    let mut inlet = connector.inlet(options.clone()).await;
    peer.delete(&source.queue).await;
    for _ in 0..3 {
        inlet.receive().await.unwrap_err();
    }
    let mut inlet = connector.inlet(options).await;
    for _ in 0..3 {
        inlet.receive().await.unwrap_err();
    }
    connector.close().await;

    let lines = log.0.lock().unwrap().clone();
    let told: Vec<_> = lines.iter().map(|line| (line["level"].as_str(), line["event"].as_str())).collect();
    let expected =
        [("INFO", "connector_up"), ("WARN", "inlet_failed"), ("WARN", "inlet_failed"), ("INFO", "connector_closed")];
    assert_eq!(told, expected, "{lines:?}");
    assert!(lines[0]["purpose"] == "consuming" && lines[3]["purpose"] == "consuming", "{lines:?}");
    for line in &lines[1..3] {
        assert!(line["route"] == "inward" && line["queue"] == source.queue, "{line:?}");
    }
    assert!(lines[1]["reason"].contains("cancelled") && lines[1]["reason"].contains("deleted"), "{lines:?}");
    assert!(lines[2]["reason"].contains("404"), "{lines:?}");
}
