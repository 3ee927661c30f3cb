//! Checks of the contract, for any connector.
//!
//! A connector's tests implement [`Rig`] and write [`conformance_tests!`](crate::conformance_tests) once; every check
//! then is a test of its own. A check panics when the connector breaks its promise.
#![allow(clippy::panic, clippy::expect_used, reason = "a check fails by panicking")]
#![allow(clippy::missing_panics_doc, reason = "the module's documentation says so once")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

mod arrived;
mod inlets;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub use self::arrived::{Arrived, ArrivedValue};
pub use self::inlets::*;
use crate::{
    Address, Body, Connector, DeliveryError, Headers, Message, Outlet, OutletOptions, Settlement, Status, Value,
};

/// How long a check waits for what must happen. Generous: builds may be running beside it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a check watches that something does not happen.
const GLANCE: Duration = Duration::from_millis(300);

/// Upper bound of [`Connector::close`].
const CLOSE_BOUND: Duration = Duration::from_secs(8);

/// A foreign system under test and the levers on it. Each check uses a rig of its own.
pub trait Rig: Send + Sync {
    /// A connector to the system, not started.
    fn connector(&self) -> Box<dyn Connector>;

    /// A fresh address that keeps what arrives.
    fn destination(&self) -> impl Future<Output = Address> + Send;

    /// An address for which the system has no place.
    fn unroutable(&self) -> impl Future<Output = Address> + Send;

    /// An address whose messages the system confirms negatively.
    fn refusing(&self) -> impl Future<Output = Address> + Send;

    /// A fresh queue for an inlet. [`arrived`](Self::arrived) takes out what waits in it, at its entrance, and its dead
    /// letters.
    fn source(&self) -> impl Future<Output = Source> + Send;

    /// Deletes the queue of a source.
    fn delete(&self, queue: &str) -> impl Future<Output = ()> + Send;

    /// Takes out what has arrived at an address, in order.
    fn arrived(&self, address: &Address) -> impl Future<Output = Vec<Arrived>> + Send;

    /// Breaks the connection and lets no new one come about.
    fn disconnect(&self) -> impl Future<Output = ()> + Send;

    /// Makes the system stop answering while connections stay open. [`disconnect`](Self::disconnect) when the
    /// difference can't be made.
    fn freeze(&self) -> impl Future<Output = ()> + Send;

    /// Undoes [`disconnect`](Self::disconnect) and [`freeze`](Self::freeze).
    fn reconnect(&self) -> impl Future<Output = ()> + Send;

    /// Makes the system take nothing and say so.
    fn block(&self) -> impl Future<Output = ()> + Send;

    /// Undoes [`block`](Self::block).
    fn unblock(&self) -> impl Future<Output = ()> + Send;

    /// What must not be seen in any status, error or debug output, such as the password.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Makes a test of every check. `$rig` is an `async fn(check: &str) -> impl Rig` that makes the rig for the check of that
/// name. The crate needs tokio with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! conformance_tests {
    ($rig:path) => {
        $crate::conformance_tests! { $rig =>
            confirms_what_has_arrived
            keeps_the_order_of_the_calls
            carries_every_property_unchanged
            tells_unroutable_messages_from_those_around_them
            retries_after_a_negative_confirm
            loses_nothing_when_the_connection_breaks
            resolves_everything_when_the_system_freezes
            waits_for_a_system_that_is_not_there
            shows_that_it_is_blocked
            forgives_dropped_settlements
            settles_after_the_outlet_is_gone
            opens_outlets_that_do_not_disturb_each_other
            closes_in_bounded_time
            closes_in_bounded_time_when_the_system_is_frozen
            probes_once_with_a_sentence
            brings_in_every_property_unchanged
            forgets_what_was_accepted
            keeps_within_the_prefetch
            delivers_again_what_was_put_back
            sends_refused_ones_to_the_dead_letters
            delivers_again_what_was_open_when_the_connection_broke
            notices_when_the_system_freezes_under_an_inlet
            waits_with_inlets_for_a_system_that_is_not_there
            tells_that_a_queue_is_missing
            fails_when_its_queue_is_deleted
            loses_no_delivery_when_receiving_is_given_up
            leaves_nothing_behind_when_an_inlet_is_dropped
            opens_inlets_that_do_not_disturb_each_other
            goes_on_receiving_while_sending_is_blocked
            closes_its_inlets
            closes_its_inlets_when_the_system_is_frozen
            says_which_places_are_missing
        }
    };
    ($rig:path => $($check:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::conformance::$check(&$rig(stringify!($check)).await).await;
            }
        )*
    };
}

/// A settlement that resolves well means that the message is there, complete, at that moment.
pub async fn confirms_what_has_arrived<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    assert!(outlet.deliver(Vec::new()).await.is_empty(), "an empty burst has no settlements");
    for number in 0..5 {
        let message = numbered(&address, number);
        let expected = Arrived::from(&message);
        settle(outlet.deliver(vec![message]).await).await.into_iter().for_each(|one| one.expect("confirmed"));
        assert_eq!(rig.arrived(&address).await, [expected]);
    }
}

/// Within and across bursts of any size.
pub async fn keeps_the_order_of_the_calls<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    let mut settlements = Vec::new();
    let mut next = 0;
    for size in [1, 2, 64, 1, 7, 128, 3, 1, 1, 200] {
        let burst = (next..next + size).map(|number| numbered(&address, number)).collect();
        settlements.extend(outlet.deliver(burst).await);
        next += size;
    }
    assert!(settle(settlements).await.iter().all(Result::is_ok), "all confirmed");
    assert_eq!(numbers(&rig.arrived(&address).await), (0..next).collect::<Vec<_>>());
}

/// All properties, all kinds of headers, bodies from none to larger than one frame.
pub async fn carries_every_property_unchanged<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    let messages = assorted(&address);
    let expected: Vec<_> = messages.iter().map(Arrived::from).collect();
    assert!(settle(outlet.deliver(messages).await).await.iter().all(Result::is_ok), "all confirmed");
    let arrived = rig.arrived(&address).await;
    assert_eq!(arrived.len(), expected.len());
    for (arrived, expected) in arrived.iter().zip(&expected) {
        assert!(arrived.body == expected.body, "body of {:?} differs", expected.message_id);
        let strip = |one: &Arrived| Arrived { body: Bytes::new(), ..one.clone() };
        assert_eq!(strip(arrived), strip(expected));
    }
}

/// Even though the system takes responsibility for its neighbours, and even where it also confirms what it returns.
pub async fn tells_unroutable_messages_from_those_around_them<R: Rig>(rig: &R) {
    const TOTAL: usize = 4000;
    const BURST: usize = 200;
    let (connector, there, nowhere) = (rig.connector(), rig.destination().await, rig.unroutable().await);
    let mut outlet = open(&*connector).await;
    let mut outcomes = Vec::new();
    let is_lost = |number: usize| number % 3 == 1 || number.is_multiple_of(7);
    // Confirms of messages that need not be written to disk overtake each other most.
    let message =
        |number| Message { durable: false, ..numbered(if is_lost(number) { &nowhere } else { &there }, number) };
    for start in (0..TOTAL).step_by(BURST) {
        outcomes.extend(settle(outlet.deliver((start..start + BURST).map(message).collect()).await).await);
    }
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Err(DeliveryError::Unroutable { reason }) if is_lost(number) => assert!(!reason.is_empty()),
            Ok(()) if !is_lost(number) => {}
            other => {
                panic!("message {number}, {} unroutable: {other:?}", if is_lost(number) { "is" } else { "is not" })
            }
        }
    }
    let expected: Vec<_> = (0..TOTAL).filter(|number| !is_lost(*number)).collect();
    assert_eq!(numbers(&rig.arrived(&there).await), expected, "the others have arrived, once");
}

/// And the outlet goes on.
pub async fn retries_after_a_negative_confirm<R: Rig>(rig: &R) {
    let (connector, there, full) = (rig.connector(), rig.destination().await, rig.refusing().await);
    let mut outlet = open(&*connector).await;
    let burst = (0..9).map(|number| numbered(if number % 3 == 0 { &full } else { &there }, number)).collect();
    for (number, outcome) in settle(outlet.deliver(burst).await).await.into_iter().enumerate() {
        match outcome {
            Err(DeliveryError::Retry { reason }) if number % 3 == 0 => assert!(!reason.is_empty()),
            Ok(()) if number % 3 != 0 => {}
            other => panic!("message {number}: {other:?}"),
        }
    }
    assert_eq!(numbers(&rig.arrived(&there).await), [1, 2, 4, 5, 7, 8]);
    settle_one(&mut *outlet, numbered(&there, 10)).await.expect("the outlet goes on");
}

/// What is open resolves, what was confirmed has arrived, the old outlet only says retry, a new one works, and what is
/// delivered again keeps the order.
pub async fn loses_nothing_when_the_connection_breaks<R: Rig>(rig: &R) {
    const TOTAL: usize = 3000;
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    let mut settlements = Vec::new();
    for start in (0..TOTAL).step_by(100) {
        settlements.extend(outlet.deliver((start..start + 100).map(|n| numbered(&address, n)).collect()).await);
        if start == TOTAL / 2 {
            rig.disconnect().await;
        }
    }
    let outcomes = settle(settlements).await;
    let confirmed: Vec<_> = (0..TOTAL).filter(|number| outcomes[*number].is_ok()).collect();
    let open_ones: Vec<_> = (0..TOTAL).filter(|number| outcomes[*number].is_err()).collect();
    for number in &open_ones {
        assert!(is_retry(&outcomes[*number]), "message {number}: {:?}", outcomes[*number]);
    }
    assert!(!open_ones.is_empty(), "nothing after the break can have been confirmed");
    assert!(is_retry(&settle_one(&mut *outlet, numbered(&address, TOTAL)).await), "the old outlet is of no use");

    rig.reconnect().await;
    let mut outlet = open(&*connector).await;
    let burst = open_ones.iter().map(|number| numbered(&address, *number)).collect();
    assert!(settle(outlet.deliver(burst).await).await.iter().all(Result::is_ok), "the new outlet works");

    let mut seen = vec![false; TOTAL];
    let first_arrivals: Vec<_> = numbers(&rig.arrived(&address).await)
        .into_iter()
        .filter(|number| !std::mem::replace(&mut seen[*number], true))
        .collect();
    let missing: Vec<_> = confirmed.iter().filter(|number| !seen[**number]).collect();
    assert!(missing.is_empty(), "confirmed and not there: {missing:?}");
    assert_eq!(first_arrivals, (0..TOTAL).collect::<Vec<_>>(), "all there, in order");
}

/// Not only when the connection is closed.
pub async fn resolves_everything_when_the_system_freezes<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    rig.freeze().await;
    let settlements = outlet.deliver((0..50).map(|number| numbered(&address, number)).collect()).await;
    for (number, outcome) in settle(settlements).await.iter().enumerate() {
        assert!(is_retry(outcome), "message {number}: {outcome:?}");
    }
    await_status(&*connector, |status| matches!(status, Status::Connecting { reason: Some(_), .. })).await;
    rig.reconnect().await;
    settle_one(&mut *open(&*connector).await, numbered(&address, 50)).await.expect("works after the thaw");
}

/// An absent system is a state, not an error.
pub async fn waits_for_a_system_that_is_not_there<R: Rig>(rig: &R) {
    let address = rig.destination().await;
    rig.disconnect().await;
    let connector = rig.connector();
    let status = await_status(&*connector, |status| matches!(status, Status::Connecting { reason: Some(_), .. })).await;
    check_silence(rig, &format!("{status:?} {connector:?}"));
    for _ in 0..3 {
        let waiting = timeout(GLANCE, connector.outlet(options())).await;
        assert!(waiting.is_err(), "no outlet without a system; giving up waiting does no harm");
    }
    let waiting = connector.outlet(options());
    rig.reconnect().await;
    let mut outlet = timeout(PATIENCE, waiting).await.expect("an outlet once the system is there");
    let status = await_status(&*connector, |status| matches!(status, Status::Up { .. })).await;
    check_silence(rig, &format!("{status:?} {connector:?}"));
    settle_one(&mut *outlet, numbered(&address, 0)).await.expect("confirmed");
}

/// Blocked is a state that is seen, not an error: nothing resolves until it ends, and then everything resolves well.
pub async fn shows_that_it_is_blocked<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    rig.block().await;
    // A system may say that it is blocked only to those who send.
    let mut settlements = outlet.deliver(vec![numbered(&address, 0)]).await;
    await_status(&*connector, |status| matches!(status, Status::Blocked { reason, .. } if !reason.is_empty())).await;
    settlements.extend(outlet.deliver((1..50).map(|number| numbered(&address, number)).collect()).await);
    let mut settled = Box::pin(settle(settlements));
    assert!(timeout(GLANCE, &mut settled).await.is_err(), "nothing resolves while blocked");
    rig.unblock().await;
    await_status(&*connector, |status| matches!(status, Status::Up { .. })).await;
    assert!(settled.await.iter().all(Result::is_ok), "all confirmed after the block");
    assert_eq!(numbers(&rig.arrived(&address).await), (0..50).collect::<Vec<_>>());
}

/// Nobody has to want to know.
pub async fn forgives_dropped_settlements<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    drop(outlet.deliver((0..20).map(|number| numbered(&address, number)).collect()).await);
    let every_other = outlet
        .deliver((20..40).map(|number| numbered(&address, number)).collect())
        .await
        .into_iter()
        .step_by(2)
        .collect();
    assert!(settle(every_other).await.iter().all(Result::is_ok), "those that are wanted resolve");
    settle_one(&mut *outlet, numbered(&address, 40)).await.expect("the outlet goes on");
    assert_eq!(numbers(&rig.arrived(&address).await), (0..=40).collect::<Vec<_>>());
}

/// Dropping the outlet takes nothing back.
pub async fn settles_after_the_outlet_is_gone<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    let settlements = outlet.deliver((0..100).map(|number| numbered(&address, number)).collect()).await;
    drop(outlet);
    assert!(settle(settlements).await.iter().all(Result::is_ok), "confirmed without the outlet");
    assert_eq!(numbers(&rig.arrived(&address).await).len(), 100);
}

/// Each route has its own.
pub async fn opens_outlets_that_do_not_disturb_each_other<R: Rig>(rig: &R) {
    let (connector, left, right, nowhere) =
        (rig.connector(), rig.destination().await, rig.destination().await, rig.unroutable().await);
    let mut outlets = [open(&*connector).await, open(&*connector).await, open(&*connector).await];
    let mut settlements: [Vec<Settlement>; 3] = Default::default();
    for number in 0..60 {
        for (which, address) in [&left, &nowhere, &right].into_iter().enumerate() {
            settlements[which].extend(outlets[which].deliver(vec![numbered(address, number)]).await);
        }
    }
    let [first, lost, third] = settlements;
    assert!(settle(first).await.iter().all(Result::is_ok));
    assert!(settle(lost).await.iter().all(|one| matches!(one, Err(DeliveryError::Unroutable { .. }))));
    assert!(settle(third).await.iter().all(Result::is_ok));
    for address in [&left, &right] {
        assert_eq!(numbers(&rig.arrived(address).await), (0..60).collect::<Vec<_>>());
    }
}

/// And what was open is settled; afterwards nothing opens any more.
pub async fn closes_in_bounded_time<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    let open_ones = outlet.deliver((0..100).map(|number| numbered(&address, number)).collect()).await;
    close(&*connector).await;
    for outcome in settle(open_ones).await {
        assert!(outcome.is_ok() || is_retry(&outcome), "{outcome:?}");
    }
    assert!(is_retry(&settle_one(&mut *outlet, numbered(&address, 100)).await), "closed for good");
    assert!(timeout(GLANCE, connector.outlet(options())).await.is_err(), "no outlet after closing");
    close(&*connector).await;
}

/// A peer that does not answer is left behind.
pub async fn closes_in_bounded_time_when_the_system_is_frozen<R: Rig>(rig: &R) {
    let (connector, address) = (rig.connector(), rig.destination().await);
    let mut outlet = open(&*connector).await;
    rig.freeze().await;
    let open_ones = outlet.deliver((0..100).map(|number| numbered(&address, number)).collect()).await;
    close(&*connector).await;
    assert!(settle(open_ones).await.iter().all(is_retry), "what is open is settled");
    rig.reconnect().await;
}

/// Good when the system is there; when it is not, one sentence without credentials, in the time allowed.
pub async fn probes_once_with_a_sentence<R: Rig>(rig: &R) {
    let connector = rig.connector();
    connector.probe(PATIENCE).await.expect("the system is there");
    rig.disconnect().await;
    let sentence = connector.probe(PATIENCE).await.expect_err("the system is not there");
    assert!(sentence.len() > 10 && !sentence.contains('\n'), "{sentence}");
    check_silence(rig, &sentence);
    rig.reconnect().await;
    rig.freeze().await;
    let (started, allowed) = (Instant::now(), Duration::from_secs(1));
    connector.probe(allowed).await.expect_err("the system does not answer");
    assert!(started.elapsed() < allowed * 3, "took {:?}", started.elapsed());
    rig.reconnect().await;
}

fn options() -> OutletOptions {
    OutletOptions { route: "conformance".to_owned(), max_in_flight: 4096 }
}

async fn open(connector: &dyn Connector) -> Box<dyn Outlet> {
    timeout(PATIENCE, connector.outlet(options())).await.expect("an outlet opens")
}

async fn close(connector: &dyn Connector) {
    timeout(CLOSE_BOUND, connector.close()).await.expect("closing is bounded");
    assert_eq!(*connector.status().borrow(), Status::Closed);
}

async fn settle(settlements: Vec<Settlement>) -> Vec<Result<(), DeliveryError>> {
    timeout(PATIENCE, join_all(settlements)).await.expect("all settlements resolve")
}

async fn settle_one(outlet: &mut dyn Outlet, message: Message) -> Result<(), DeliveryError> {
    let settlements = outlet.deliver(vec![message]).await;
    assert_eq!(settlements.len(), 1, "one settlement for each message");
    settle(settlements).await.remove(0)
}

fn is_retry(outcome: &Result<(), DeliveryError>) -> bool {
    matches!(outcome, Err(DeliveryError::Retry { .. }))
}

async fn await_status(connector: &dyn Connector, wanted: impl Fn(&Status) -> bool) -> Status {
    await_any_status(connector.status(), wanted).await
}

async fn await_any_status(mut status: watch::Receiver<Status>, wanted: impl Fn(&Status) -> bool) -> Status {
    let found = timeout(PATIENCE, status.wait_for(wanted)).await.ok().map(|found| found.expect("it lives").clone());
    found.unwrap_or_else(|| panic!("the status stays {:?}", *status.borrow()))
}

fn check_silence<R: Rig>(rig: &R, text: &str) {
    for secret in rig.secrets() {
        assert!(!text.contains(&secret), "a secret is shown: {}", text.replace(&secret, "***"));
    }
}

/// A plain message that is told by its number: for a connector's own tests too.
pub fn numbered(address: &Address, number: usize) -> Message {
    let mut headers = Headers::new();
    headers.set("msmq-label", Value::Text(format!("message {number}")));
    Message {
        address: address.clone(),
        message_id: format!("c778ca24-7c5a-4060-80c0-aeee428d53ae\\{number}"),
        correlation_id: None,
        reply_to: None,
        timestamp: Some(1_700_000_000),
        priority: 3,
        durable: true,
        expiration: None,
        content_type: "text/plain".to_owned(),
        headers,
        body: Body::Clear(Bytes::from(format!("body of {number}"))),
    }
}

/// The numbers of [`numbered`] messages.
pub fn numbers(arrived: &[Arrived]) -> Vec<usize> {
    let number = |one: &Arrived| one.message_id.as_deref()?.rsplit_once('\\')?.1.parse().ok();
    arrived.iter().map(|one| number(one).expect("a message of the check's own")).collect()
}

fn assorted(address: &Address) -> Vec<Message> {
    let plain = |number| Message { headers: Headers::new(), timestamp: None, ..numbered(address, number) };
    let mut inner = Headers::new();
    inner.set("index", Value::Int(7));
    inner.set("first", Value::Bool(true));
    inner.set("empty", Value::Table(Headers::new()));
    let mut headers = Headers::new();
    headers.set("msmq-label", Value::Text("Grüße, 世界 \u{1F40C}".to_owned()));
    headers.set("msmq-empty", Value::Text(String::new()));
    headers.set("msmq-app-specific", Value::Int(4_294_967_295));
    headers.set("msmq-smallest", Value::Int(i64::MIN));
    headers.set("msmq-largest", Value::Int(i64::MAX));
    headers.set("msmq-authenticated", Value::Bool(true));
    headers.set("msmq-redelivered", Value::Bool(false));
    headers.set("msmq-extension", Value::Bytes(Bytes::from((0..=255).collect::<Vec<u8>>())));
    headers.set("msmq-nothing", Value::Bytes(Bytes::new()));
    headers.set("msmq-transaction", Value::Table(inner));
    headers.set("null", Value::Null);
    headers.set("float", Value::Float(-0.5));
    headers.set("decimal", Value::Decimal { scale: 2, unscaled: 1250 });
    headers.set("timestamp", Value::Timestamp(4_000_000_000));
    headers
        .set("list", Value::List(vec![Value::Int(1), Value::Text("two".to_owned()), Value::List(vec![Value::Null])]));
    let full = Message {
        correlation_id: Some("c778ca24-7c5a-4060-80c0-aeee428d53ae\\4294967295".to_owned()),
        reply_to: Some("replies".to_owned()),
        timestamp: Some(4_000_000_000),
        priority: 7,
        expiration: Some(123_456_789),
        content_type: "application/octet-stream".to_owned(),
        headers,
        ..numbered(address, 0)
    };
    let sealed = Body::Sealed {
        ciphertext: Bytes::from(vec![0xA5; 64]),
        encrypted_key: Bytes::from(vec![1; 140]),
        algorithm: 0x6610,
        provider: Some("a provider".to_owned()),
    };
    let large = Bytes::from((0..700_000_u32).map(|number| (number % 251) as u8).collect::<Vec<_>>());
    vec![
        full,
        Message { durable: false, priority: 0, ..plain(1) },
        Message { body: Body::Clear(Bytes::new()), ..plain(2) },
        Message { body: sealed, ..plain(3) },
        Message { body: Body::Clear(large), ..plain(4) },
        plain(5),
    ]
}
