//! Messages and logins that the broker does not take.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use connector_api::conformance::{Arrived, ArrivedValue, numbered, numbers};
use connector_api::{Address, Connector, DeliveryError, Headers, Message, Status, Value};
use lapin::options::ExchangeDeleteOptions;
use lapin::types::AMQPValue;
use tokio::time::{Instant, timeout};

use crate::peer::{PATIENCE, Peer, connector, deliver, deliver_one, fresh_name, open, settle};

/// What RabbitMQ offers unless configured otherwise.
const FRAME_MAX: usize = 131_072;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_fills_up_takes_some_and_not_the_others() {
    let peer = Peer::shared().await;
    let overflow = AMQPValue::LongString("reject-publish".into());
    let address = peer.queue(&[("x-max-length", AMQPValue::LongInt(5)), ("x-overflow", overflow)]).await;
    let connector = connector(&[peer.uri()]);
    let mut outlet = open(&connector, "full").await;
    let mut taken = 0;
    for number in 0..12 {
        match deliver_one(&mut *outlet, numbered(&address, number)).await {
            Ok(()) => taken += 1,
            Err(DeliveryError::Retry { reason }) => assert!(reason.contains("negative confirm"), "{reason}"),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(numbers(&peer.drain(&address).await).len(), taken);
    assert!((5..12).contains(&taken), "{taken} taken");
    assert!(deliver_one(&mut *outlet, numbered(&address, 12)).await.is_ok(), "room again");
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_exchange_fails_its_route_only_and_costs_little() {
    let peer = Peer::shared().await;
    let queue = peer.queue(&[]).await;
    let missing = Address { exchange: fresh_name(), routing_key: "key".to_owned() };
    let connector = connector(&[peer.uri()]);
    let mut other = open(&connector, "healthy").await;

    // A caller that opens the next outlet at once, as a route does, and hands over more than is written at once.
    let mut opened = 0;
    let two_seconds = Instant::now() + Duration::from_secs(2);
    while Instant::now() < two_seconds {
        let mut outlet = open(&connector, "failing").await;
        opened += 1;
        let burst = (0..1000).map(|number| numbered(&missing, number)).collect();
        for outcome in deliver(&mut *outlet, burst).await {
            let Err(DeliveryError::Retry { reason }) = outcome else { panic!("{outcome:?}") };
            assert!(reason.contains("404") && reason.contains(&missing.exchange), "{reason}");
        }
        let after = deliver_one(&mut *outlet, numbered(&queue, 0)).await;
        assert!(matches!(after, Err(DeliveryError::Retry { .. })), "the channel is gone: {after:?}");
        assert_eq!(deliver_one(&mut *other, numbered(&queue, opened)).await, Ok(()), "the other route goes on");
    }
    assert!((2..9).contains(&opened), "opened {opened} times");
    assert!(matches!(*connector.status().borrow(), Status::Up { .. }), "the connection stays");

    peer.exchange(&missing.exchange, &queue).await;
    let mut outlet = open(&connector, "failing").await;
    assert!(deliver_one(&mut *outlet, numbered(&missing, 7)).await.is_ok());
    let started = Instant::now();
    open(&connector, "failing").await;
    assert!(started.elapsed() < Duration::from_millis(90), "a route that works opens at once");
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_that_vanishes_under_traffic_loses_nothing() {
    let peer = Peer::shared().await;
    let (queue, name) = (peer.queue(&[]).await, fresh_name());
    let address = Address { exchange: name.clone(), routing_key: "key".to_owned() };
    peer.exchange(&name, &queue).await;
    let connector = connector(&[peer.uri()]);
    let mut outlet = open(&connector, "vanishing").await;
    let mut settlements = Vec::new();
    for start in (0..2000).step_by(100) {
        settlements
            .extend(outlet.deliver((start..start + 100).map(|number| numbered(&address, number)).collect()).await);
        if start == 1000 {
            let (_connection, channel) = peer.channel().await;
            channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await.unwrap();
        }
    }
    let outcomes = settle(settlements).await;
    assert!(matches!(outcomes.last(), Some(Err(DeliveryError::Retry { .. }))), "{:?}", outcomes.last());

    peer.exchange(&name, &queue).await;
    let mut outlet = open(&connector, "vanishing").await;
    let again =
        (0..2000).filter(|number| outcomes[*number].is_err()).map(|number| numbered(&address, number)).collect();
    let outcomes = deliver(&mut *outlet, again).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let arrived: BTreeSet<_> = numbers(&peer.drain(&queue).await).into_iter().collect();
    assert!(arrived.into_iter().eq(0..2000), "all there");
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_table_over_the_frame_limit_is_refused_before_it_is_sent() {
    let peer = Peer::shared().await;
    let address = peer.queue(&[]).await;
    let connector = connector(&[peer.uri()]);
    let mut outlet = open(&connector, "headers").await;
    let with_extension = |number, length| {
        let mut headers = Headers::new();
        headers.set("msmq-extension", Value::Bytes(Bytes::from(vec![0x5A; length])));
        Message { headers, ..numbered(&address, number) }
    };
    let refused = |outcome: &Result<(), DeliveryError>| matches!(outcome, Err(DeliveryError::Refused { .. }));

    // The largest that passes is found by trying, and the broker must agree.
    let mut length = FRAME_MAX - 300;
    let last = loop {
        let outcome = deliver_one(&mut *outlet, with_extension(0, length)).await;
        if refused(&outcome) {
            break outcome;
        }
        assert!(outcome.is_ok(), "{length}: {outcome:?}");
        length += 1;
    };
    let Err(DeliveryError::Refused { reason }) = last else { panic!() };
    assert!(reason.contains("131073") && reason.contains("131072"), "{reason}");

    let burst = vec![with_extension(1, 10), with_extension(2, 1_000_000), with_extension(3, 10)];
    let outcomes = deliver(&mut *outlet, burst).await;
    assert!(outcomes[0].is_ok() && refused(&outcomes[1]) && outcomes[2].is_ok(), "{outcomes:?}");
    assert!(matches!(*connector.status().borrow(), Status::Up { .. }));
    assert_eq!(numbers(&peer.drain(&address).await).len(), length - (FRAME_MAX - 300) + 2);
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_for_a_property_does_not_break_the_channel() {
    let peer = Peer::shared().await;
    let address = peer.queue(&[]).await;
    let connector = connector(&[peer.uri()]);
    let mut outlet = open(&connector, "long").await;
    let long = "ü".repeat(128);
    let far = Address { exchange: String::new(), routing_key: long.clone() };
    let burst = vec![
        Message { correlation_id: Some(long.clone()), reply_to: Some(long.clone()), ..numbered(&address, 0) },
        numbered(&far, 1),
        Message { expiration: Some(u64::MAX), ..numbered(&address, 2) },
        Message { expiration: Some(u64::from(u32::MAX)), ..numbered(&address, 3) },
    ];
    let outcomes = deliver(&mut *outlet, burst).await;
    assert!(matches!(&outcomes[1], Err(DeliveryError::Refused { reason }) if reason.contains("routing key")));
    assert!([0, 2, 3].iter().all(|number| outcomes[*number].is_ok()), "{outcomes:?}");

    let arrived = peer.drain(&address).await;
    assert_eq!(numbers(&arrived), [0, 2, 3]);
    let Arrived { correlation_id, reply_to, headers, .. } = &arrived[0];
    assert_eq!((correlation_id, reply_to), (&None, &None));
    assert_eq!(headers["msmq-correlation-id"], ArrivedValue::Text(long.clone()));
    assert_eq!(headers["msmq-reply-to"], ArrivedValue::Text(long));
    assert_eq!((arrived[1].expiration, arrived[2].expiration), (None, Some(u64::from(u32::MAX))));
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_outlets_than_channels_wait_for_their_turn() {
    let peer = Peer::shared().await;
    let address = peer.queue(&[]).await;
    let connector = connector(&[&format!("{}?channel_max=1", peer.uri())]);
    let mut first = open(&connector, "first").await;
    assert!(timeout(Duration::from_millis(300), connector.outlet(crate::peer::options("second"))).await.is_err());
    assert!(deliver_one(&mut *first, numbered(&address, 0)).await.is_ok(), "the first is not disturbed");
    drop(first);
    let mut second = open(&connector, "second").await;
    assert!(deliver_one(&mut *second, numbered(&address, 1)).await.is_ok());
    connector.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_says_in_one_sentence_what_is_wrong() {
    let peer = Peer::shared().await;
    let endpoint = format!("127.0.0.1:{}", peer.port());
    let nobody = testkit::Proxy::refusing(peer.port()).unwrap();
    for (uri, words) in [
        (format!("amqp://guest:hunter2@{endpoint}/%2f"), vec![endpoint.as_str(), "login", "guest", "password"]),
        (format!("amqp://guest:guest@{endpoint}/nope"), vec![&endpoint, "virtual host", "nope", "%2f"]),
        (format!("amqp://guest:guest@{endpoint}/"), vec![&endpoint, "virtual host", "\"\"", "%2f"]),
        (nobody.uri(), vec!["refuses connections", "running"]),
        ("amqp://guest:guest@no.such.host.invalid/%2f".to_owned(), vec!["no.such.host.invalid:5672", "resolved"]),
        (format!("amqps://guest:guest@{endpoint}/%2f"), vec![&endpoint, "TLS"]),
    ] {
        let connector = connector(&[&uri]);
        let sentence = connector.probe(PATIENCE).await.unwrap_err();
        for word in words {
            assert!(sentence.contains(word), "{word:?} is missing in: {sentence}");
        }
        assert!(!sentence.contains("hunter2") && !sentence.contains('\n'), "{sentence}");
    }
    let several = connector(&[&nobody.uri(), peer.uri()]);
    assert_eq!(several.probe(PATIENCE).await, Ok(()), "one of several addresses is enough");
}
