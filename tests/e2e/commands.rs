//! The command line and the operator's view, and what the bridge does when the broker is not as it should be.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::{PrivateBroker, SharedBroker};

use crate::broker::{Application, unique};
use crate::process::{Site, eventually, mqbridge, route, status};
use crate::sender::{deliver, message, runtime};

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = mqbridge(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn wrong_configuration_shows_all_problems_at_once_and_exits_with_78() {
    let site = Site::new("amqp://127.0.0.1", "quota = 1", &[("a", &route("a", "x", "{lable}", "sendrs = []", ""))]);
    let config = site.config();
    for command in ["check", "run"] {
        let (code, _, errors) = run(&[command, "--config", config.to_str().unwrap()]);
        assert_eq!(code, 78, "{command}: {errors}");
        for wanted in ["quota", "lable", "sendrs"] {
            assert!(errors.contains(wanted), "{command}: no word of {wanted} in: {errors}");
        }
    }
    assert!(!site.path().join("state").exists(), "nothing was made");
    let (code, _, errors) = run(&["frobnicate"]);
    assert_eq!(code, 2, "{errors}");
    let (code, _, errors) = run(&["status", "--config", "/nonexistent/mqbridge.toml"]);
    assert_eq!(code, 78, "{errors}");
}

#[test]
fn the_identity_is_made_once_and_kept() {
    let site = Site::new("amqp://127.0.0.1", "", &[]);
    let config = site.config();
    let config = config.to_str().unwrap();
    assert_eq!(run(&["init", "--config", config]).0, 0);
    let id = |arguments: &[&str]| -> Value { serde_json::from_str(&run(arguments).1).unwrap() };
    let first = id(&["id", "--json", "--config", config]);
    assert_eq!(run(&["init", "--config", config]).0, 0, "a second time makes nothing new");
    assert_eq!(id(&["id", "--json", "--config", config]), first);
    let (code, text, _) = run(&["version"]);
    assert_eq!(code, 0);
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
}

#[test]
fn check_online_says_whether_the_broker_lets_us_in() {
    let uri = SharedBroker::uri().unwrap();
    let good = Site::new(&uri, "", &[("a", &route("a", "amq.topic", "x", "", ""))]);
    let (code, out, errors) = run(&["check", "--online", "--config", good.config().to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{errors}");
    let [exchange, queue] = [unique("exchange"), unique("queue")];
    let routes = [
        ("a", route("a", &exchange, "x", "", "")),
        ("b", route("b", "", &queue, "", "")),
        ("c", route("c", "", "{label}", "", "")),
    ];
    let nowhere = Site::new(&uri, "", &routes.each_ref().map(|(name, route)| (*name, route.as_str())));
    let (code, out, errors) = run(&["check", "--online", "--config", nowhere.config().to_str().unwrap()]);
    assert_eq!(
        (code, errors.lines().count()),
        (1, 2),
        "what depends on the message can't be looked for: {out}{errors}"
    );
    assert!(
        errors.contains(&format!("exchange {exchange:?}")) && errors.contains(&format!("queue {queue:?}")),
        "{errors}"
    );
    let dead = Site::new("amqp://guest:secret@127.0.0.1:1/%2f", "", &[("a", &route("a", "x", "x", "", ""))]);
    let (code, out, errors) = run(&["check", "--online", "--config", dead.config().to_str().unwrap()]);
    assert_eq!(code, 1, "{out}{errors}");
    assert!(errors.contains("127.0.0.1:1"), "{errors}");
    assert!(!errors.contains("secret") && !out.contains("secret"));
}

#[test]
fn send_decode_and_status_work_together() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("send");
    let site = Site::new(&uri, "", &[("orders", &route("orders", &exchange, "x", "", ""))]);
    let bridge = site.start();
    let port = bridge.address.port().to_string();
    let send = |extra: &[&str]| {
        let mut arguments = vec!["send", "--port", &port, "--timeout", "20s"];
        arguments.extend(extra);
        run(&arguments)
    };
    let (code, out, errors) =
        send(&["--to", r"DIRECT=TCP:127.0.0.1\private$\orders", "--label", "l", "--body", "b", "--count", "100"]);
    assert_eq!(code, 0, "{out}{errors}");
    let (code, out, errors) =
        send(&["--to", r"direct=tcp:127.0.0.1\private$\orders", "--delivery", "recoverable", "--body", "b"]);
    assert_eq!(code, 0, "{out}{errors}");
    let report = status(&site);
    assert_eq!(report["routes"][0]["received_messages"], 101);
    let (code, text, _) = run(&["status", "--config", site.config().to_str().unwrap()]);
    assert_eq!(code, 0);
    assert!(text.contains("orders"), "{text}");

    let (code, _, errors) = send(&["--to", "nonsense", "--body", "b"]);
    assert_eq!(code, 2, "{errors}");
    let (code, _, errors) = run(&["send", "--to", r"DIRECT=TCP:127.0.0.1\q", "--port", "1", "--body", "b"]);
    assert_eq!(code, 1);
    assert!(errors.contains("127.0.0.1:1"), "{errors}");

    let (code, text, errors) = run(&["decode", "--json", "tests/fixtures/golden/frame7_completed.hex"]);
    assert_eq!(code, 0, "{errors}");
    assert!(text.contains("mqsender label"), "{text}");
    assert!(bridge.stop().success());
    let (code, _, errors) = run(&["status", "--config", site.config().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(errors.contains("no bridge answers"), "{errors}");
}

#[test]
fn a_second_bridge_on_one_state_directory_is_told_who_has_it() {
    let site = Site::new("amqp://127.0.0.1:1", "", &[("orders", &route("orders", "x", "x", "", ""))]);
    let bridge = site.start();
    let (code, _, errors) = run(&["run", "--config", site.config().to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(errors.contains(&format!("store.redb is in use by another process, pid {};", bridge.pid())), "{errors}");
    assert!(bridge.stop().success());
}

#[test]
fn a_state_directory_that_vanishes_is_noticed_and_nothing_more_is_acknowledged() {
    let uri = SharedBroker::uri().unwrap();
    let site = Site::new(&uri, "", &[("orders", &route("orders", &unique("vanished"), "x", "", ""))]);
    let config = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), config + "\n[http]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let bridge = site.start();
    let health = bridge.wait_for(|line| line["event"] == "listening" && line["protocol"] == "http");
    deliver(bridge.address, &[message("orders", 1)]);
    let (state, elsewhere) = (site.path().join("state"), site.path().join("elsewhere"));
    std::fs::rename(&state, &elsewhere).unwrap();
    // Nobody sends: it is noticed all the same.
    let line = bridge.wait_for(|line| line["event"] == "store_missing");
    assert_eq!(line["level"], "error");
    let (code, why) = http(health["address"].as_str().unwrap(), "/readyz");
    assert!(code == 503 && why.contains("store.redb has been deleted, moved or replaced"), "{code} {why}");
    runtime().block_on(async {
        let mut dialed = crate::sender::connect(bridge.address).await.unwrap();
        let packet = crate::sender::encoded(&message("orders", 2));
        let (acknowledged, _) = crate::sender::send_all(&mut dialed, &[(packet, true)]).await.unwrap_err();
        assert_eq!(acknowledged, 0);
    });
    std::fs::rename(&elsewhere, &state).unwrap();
    deliver(bridge.address, &[message("orders", 2)]);
    bridge.wait_for(|line| line["event"] == "store_found");
    assert_eq!(bridge.log().iter().filter(|line| line["event"] == "store_missing").count(), 1, "once");
    assert!(bridge.stop().success());
}

fn http(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
    (code, answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn a_broker_that_is_absent_at_the_start_and_comes_later() {
    let broker = PrivateBroker::running().unwrap();
    let uri = broker.uri();
    broker.kill().unwrap();
    let site = Site::new(&uri, "", &[("orders", &route("orders", "orders", "x", "", ""))]);
    let config = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), config + "\n[http]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let bridge = site.start();
    let health = bridge.wait_for(|line| line["event"] == "listening" && line["protocol"] == "http");
    let health = health["address"].as_str().unwrap();
    // Messages are taken and acknowledged meanwhile.
    deliver(bridge.address, &(1..=100).map(|ordinal| message("orders", ordinal)).collect::<Vec<_>>());
    assert_eq!(http(health, "/livez").0, 200);
    let (code, why) = http(health, "/readyz");
    assert_eq!(code, 503);
    assert!(why.contains("orders") && why.contains("rabbit"), "{why}");
    let report = status(&site);
    assert_eq!(report["connectors"][0]["state"], "connecting");
    assert_eq!(report["routes"][0]["queue_messages"], 100);

    broker.restart().unwrap();
    // The exchange is missing: the route fails, loudly, and nothing is lost.
    let line = bridge.wait_for(|line| line["event"] == "route_failing");
    assert!(line["reason"].as_str().unwrap().contains("orders"), "{line}");
    assert_eq!(http(health, "/readyz").0, 503);
    let received = runtime().block_on(async { Application::declare(&uri, "orders").await.receive(100).await });
    assert_eq!(
        received.iter().map(crate::broker::Received::ordinal).collect::<Vec<_>>(),
        (1..=100).collect::<Vec<_>>()
    );
    eventually("ready", || (http(health, "/readyz").0 == 200).then_some(()));
    eventually("nothing waits", || (status(&site)["routes"][0]["queue_messages"] == 0).then_some(()));
    assert!(bridge.stop().success());
}

#[test]
fn unroutable_messages_wait_or_are_set_aside_as_the_route_says() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("unroutable");
    let waits = route("waits", &exchange, "x", "", "");
    let aside = route("aside", &exchange, "x", "", "") + "\n[on_failure]\nunroutable = \"dead-letter\"\n";
    let site = Site::new(&uri, "", &[("waits", &waits), ("aside", &aside)]);
    let bridge = site.start();
    runtime().block_on(async {
        // An exchange without a queue behind it.
        let application = Application::declare(&uri, &exchange).await;
        application.unbind().await;
        let address = bridge.address;
        let messages = [message("waits", 1), message("aside", 2)];
        tokio::task::spawn_blocking(move || deliver(address, &messages)).await.unwrap();
        let line = bridge.wait_for(|line| line["event"] == "message_dead_lettered");
        assert_eq!(line["route"], "aside");
        assert!(line["reason"].as_str().unwrap().contains("NO_ROUTE"), "{line}");
        bridge.wait_for(|line| line["event"] == "route_failing" && line["route"] == "waits");
        assert_eq!(status(&site)["routes"].as_array().unwrap().iter().find(|r| r["name"] == "waits").unwrap()["queue_messages"], 1);
        // Somebody binds a queue, and the one that waited arrives.
        let application = Application::declare(&uri, &exchange).await;
        let received = application.receive(1).await;
        assert_eq!(received[0].ordinal(), 1);
    });
}

#[test]
fn a_full_queue_closes_sessions_or_refuses_as_the_route_says() {
    let uri = SharedBroker::uri().unwrap();
    let hold = route("hold", &unique("full"), "x", "quota = \"1 MiB\"", "");
    let refuse = route("refuse", &unique("full"), "x", "quota = \"1 MiB\"\non_quota = \"refuse\"", "");
    let site = Site::new(&uri, "", &[("hold", &hold), ("refuse", &refuse)]);
    let bridge = site.start();
    let large = |queue, ordinal| {
        let mut message = message(queue, ordinal);
        message.properties.body = vec![7; 600_000].into();
        message
    };
    deliver(bridge.address, &[large("refuse", 1), large("refuse", 2)]);
    let line = bridge.wait_for(|line| line["event"] == "message_refused");
    assert_eq!((&line["class"], &line["outcome"]), (&"NACK_Q_EXCEED_QUOTA".into(), &"queue-full".into()));
    assert_eq!(line["route"], "refuse");

    deliver(bridge.address, &[large("hold", 3)]);
    runtime().block_on(async {
        let mut dialed = crate::sender::connect(bridge.address).await.unwrap();
        let packet = crate::sender::encoded(&large("hold", 4));
        let (acknowledged, error) = crate::sender::send_all(&mut dialed, &[(packet, true)]).await.unwrap_err();
        assert_eq!(acknowledged, 0);
        assert!(matches!(error, mqbridge::net::DialError::PeerClosed | mqbridge::net::DialError::Lost(_)), "{error}");
    });
    assert_eq!(bridge.wait_for(|line| line["event"] == "message_held")["route"], "hold");
}

/// A route is taken away while its queue holds messages: that is said, and they are forwarded when it is back.
#[test]
fn messages_whose_route_is_gone_are_not_forgotten() {
    let uri = SharedBroker::uri().unwrap();
    let exchange = unique("forsaken");
    let site = Site::new(&uri, "", &[("orders", &route("orders", &exchange, "orders", "", ""))]);
    let bridge = site.start();
    deliver(bridge.address, &[message("orders", 1)]);
    bridge.wait_for(|line| line["event"] == "route_failing");
    assert!(bridge.stop().success());
    let (there, away) = (site.path().join("routes/orders.toml"), site.path().join("orders.away"));
    std::fs::rename(&there, &away).unwrap();
    let bridge = site.start();
    let line = bridge.wait_for(|line| line["event"] == "queue_without_route");
    assert_eq!((line["queue"].as_str(), line["count"].as_u64()), (Some("private$\\orders"), Some(1)));
    let queues = status(&site)["queues"].as_array().unwrap().clone();
    assert!(
        queues.iter().any(|queue| queue["name"] == "private$\\orders" && queue["kind"] == "no-route"),
        "{queues:?}"
    );
    assert!(bridge.stop().success());
    std::fs::rename(&away, &there).unwrap();
    runtime().block_on(async {
        let application = Application::declare(&uri, &exchange).await;
        let bridge = site.start();
        assert_eq!(application.receive(1).await[0].body(), b"body 1");
        assert!(bridge.stop().success());
    });
}
