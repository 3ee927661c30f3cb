//! Checks of the way in.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

use super::{
    Arrived, GLANCE, PATIENCE, Rig, assorted, await_any_status, check_silence, close, numbered, numbers, open, settle,
};
use crate::{Address, Connector, Delivery, Inlet, InletError, InletOptions, Message, Place, Status};

/// A fresh queue that an inlet can take from, and what surrounds it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The queue, for [`InletOptions::address`].
    pub queue: String,
    /// What an outlet sends there arrives in the queue.
    pub entrance: Address,
    /// Keeps what was refused.
    pub dead_letters: Address,
}

/// All properties, all kinds of headers, bodies from none to larger than one frame; in the order of the queue.
pub async fn brings_in_every_property_unchanged<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    let messages = assorted(&source.entrance);
    send(&*connector, messages.clone()).await;
    let mut inlet = open_inlet(&*connector, &source, 10).await;
    for sent in messages {
        let Delivery { message, receipt } = receive(&mut *inlet).await;
        assert_eq!(message.address, sent.address);
        assert!(!message.redelivered, "{message:?} has not been delivered before");
        let (arrived, expected) = (Arrived::from(&message), Arrived::from(&sent));
        assert!(arrived.body == expected.body, "body of {:?} differs", expected.message_id);
        let strip = |one: &Arrived| Arrived { body: Bytes::new(), ..one.clone() };
        assert_eq!(strip(&arrived), strip(&expected));
        receipt.accept();
    }
}

/// Accepted is gone for good, also when everything is settled at once, in any order, and from a thread of its own.
pub async fn forgets_what_was_accepted<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..60).await;
    let mut inlet = open_inlet(&*connector, &source, 20).await;
    let mut taken = Vec::new();
    for round in 0..3 {
        let mut deliveries = Vec::new();
        for _ in 0..20 {
            deliveries.push(receive(&mut *inlet).await);
        }
        taken.extend(deliveries.iter().map(number));
        if round == 1 {
            deliveries.reverse();
        }
        let settling = std::thread::spawn(|| deliveries.into_iter().for_each(Delivery::accept));
        settling.join().expect("settling needs no runtime");
    }
    assert_eq!(taken, (0..60).collect::<Vec<_>>());
    assert_nothing_more(&mut *inlet).await;
    drop(inlet);
    close(&*connector).await;
    assert_eq!(rig.arrived(&source_of(&source)).await, [], "accepted and still there");
    assert_eq!(rig.arrived(&source.dead_letters).await, []);
}

/// The prefetch bounds what is open; each settlement makes room for one more, whatever kind it is.
pub async fn keeps_within_the_prefetch<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..10).await;
    let mut inlet = open_inlet(&*connector, &source, 3).await;
    let mut open_ones = Vec::new();
    for _ in 0..3 {
        open_ones.push(receive(&mut *inlet).await);
    }
    assert_nothing_more(&mut *inlet).await;
    open_ones.remove(1).accept();
    open_ones.push(receive(&mut *inlet).await);
    assert_nothing_more(&mut *inlet).await;
    open_ones.remove(0).refuse();
    open_ones.push(receive(&mut *inlet).await);
    assert_eq!(open_ones.iter().map(number).collect::<Vec<_>>(), [2, 3, 4]);
    assert_nothing_more(&mut *inlet).await;
}

/// What is put back, or just dropped, comes again and says so.
pub async fn delivers_again_what_was_put_back<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..2).await;
    let mut inlet = open_inlet(&*connector, &source, 1).await;
    let first = receive(&mut *inlet).await;
    assert!(!first.message.redelivered);
    first.requeue();
    let again = receive(&mut *inlet).await;
    assert_eq!((number(&again), again.message.redelivered), (0, true));
    drop(again);
    let once_more = receive(&mut *inlet).await;
    assert_eq!((number(&once_more), once_more.message.redelivered), (0, true));
    let Delivery { message, receipt } = once_more;
    drop(message);
    receipt.accept();
    let next = receive(&mut *inlet).await;
    assert_eq!((number(&next), next.message.redelivered), (1, false));
    next.accept();
    assert_nothing_more(&mut *inlet).await;
}

/// Refused goes to the dead letters and does not come again.
pub async fn sends_refused_ones_to_the_dead_letters<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..6).await;
    let mut inlet = open_inlet(&*connector, &source, 10).await;
    for number in 0..6 {
        let delivery = receive(&mut *inlet).await;
        if number % 2 == 0 { delivery.refuse() } else { delivery.accept() }
    }
    assert_nothing_more(&mut *inlet).await;
    assert_eq!(numbers(&rig.arrived(&source.dead_letters).await), [0, 2, 4]);
    drop(inlet);
    assert_eq!(rig.arrived(&source_of(&source)).await, []);
}

/// What was open comes again at the next inlet; the old one and its receipts are of no use, and do no harm.
pub async fn delivers_again_what_was_open_when_the_connection_broke<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..8).await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    receive(&mut *inlet).await.accept();
    let mut open_ones = Vec::new();
    // The last one comes only when the system has heard of the accepted one.
    for _ in 0..5 {
        open_ones.push(receive(&mut *inlet).await);
    }
    rig.disconnect().await;
    let error = expect_error(&mut *inlet).await;
    check_silence(rig, &format!("{error:?} {error}"));
    assert!(!error.reason.is_empty());
    assert_eq!(expect_error(&mut *inlet).await, error, "the same answer to every later call");

    rig.reconnect().await;
    let mut next = open_inlet(&*connector, &source, 10).await;
    let mut came = BTreeSet::new();
    let mut redelivered = BTreeSet::new();
    let mut receipts = Vec::new();
    for _ in 1..8 {
        let delivery = receive(&mut *next).await;
        came.insert(number(&delivery));
        if delivery.message.redelivered {
            redelivered.insert(number(&delivery));
        }
        receipts.push(delivery);
    }
    assert_eq!(came, (1..8).collect(), "all that was not accepted");
    assert!(redelivered.is_superset(&(1..6).collect()), "open ones are marked: {redelivered:?}");
    // Their tags may be the same as those of the present deliveries.
    open_ones.into_iter().for_each(Delivery::accept);
    drop(inlet);
    drop(receipts);
    for _ in 1..8 {
        receive(&mut *next).await.accept();
    }
    assert_nothing_more(&mut *next).await;
}

/// Not only when the connection is closed.
pub async fn notices_when_the_system_freezes_under_an_inlet<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..1).await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    let open_one = receive(&mut *inlet).await;
    rig.freeze().await;
    expect_error(&mut *inlet).await;
    let down = |status: &Status| matches!(status, Status::Connecting { reason: Some(_), .. });
    await_any_status(connector.inlet_status(), down).await;
    open_one.accept();
    rig.reconnect().await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    let again = receive(&mut *inlet).await;
    assert_eq!((number(&again), again.message.redelivered), (0, true));
    again.accept();
}

/// An absent system is a state, not an error.
pub async fn waits_with_inlets_for_a_system_that_is_not_there<R: Rig>(rig: &R) {
    let source = rig.source().await;
    rig.disconnect().await;
    let connector = rig.connector();
    let down = |status: &Status| matches!(status, Status::Connecting { reason: Some(_), .. });
    let status = await_any_status(connector.inlet_status(), down).await;
    check_silence(rig, &format!("{status:?} {connector:?}"));
    for _ in 0..3 {
        let waiting = timeout(GLANCE, connector.inlet(options(&source, 5))).await;
        assert!(waiting.is_err(), "no inlet without a system; giving up waiting does no harm");
    }
    let waiting = connector.inlet(options(&source, 5));
    rig.reconnect().await;
    let mut inlet = timeout(PATIENCE, waiting).await.expect("an inlet once the system is there");
    await_any_status(connector.inlet_status(), |status| matches!(status, Status::Up { .. })).await;
    send_numbered(&*connector, &source, 0..1).await;
    receive(&mut *inlet).await.accept();
}

/// A queue that is not there is the error of the first call, in words that name it; and opening one inlet after the
/// other becomes slower.
pub async fn tells_that_a_queue_is_missing<R: Rig>(rig: &R) {
    let connector = rig.connector();
    let source = Source { queue: "no-such-queue".to_owned(), ..rig.source().await };
    let started = Instant::now();
    for _ in 0..4 {
        let mut inlet = open_inlet(&*connector, &source, 5).await;
        let error = expect_error(&mut *inlet).await;
        assert!(error.reason.contains("no-such-queue"), "{error}");
        assert_eq!(expect_error(&mut *inlet).await, error);
    }
    // Pauses of 100, 200 and 400 ms, less up to half.
    assert!(started.elapsed() >= GLANCE, "four failures took only {:?}", started.elapsed());
    await_any_status(connector.inlet_status(), |status| matches!(status, Status::Up { .. })).await;
}

/// A queue that vanishes is an error, not silence.
pub async fn fails_when_its_queue_is_deleted<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..1).await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    let open_one = receive(&mut *inlet).await;
    rig.delete(&source.queue).await;
    assert!(!expect_error(&mut *inlet).await.reason.is_empty());
    open_one.accept();
    expect_error(&mut *open_inlet(&*connector, &source, 5).await).await;
}

/// Giving up waiting loses nothing.
pub async fn loses_no_delivery_when_receiving_is_given_up<R: Rig>(rig: &R) {
    const TOTAL: usize = 200;
    let (connector, source) = (rig.connector(), rig.source().await);
    let mut inlet = open_inlet(&*connector, &source, 7).await;
    let mut taken = Vec::new();
    let mut outlet = open(&*connector).await;
    for start in (0..TOTAL).step_by(20) {
        let sent = outlet.deliver((start..start + 20).map(|n| numbered(&source.entrance, n)).collect()).await;
        let deadline = Instant::now() + PATIENCE;
        while taken.len() < start + 20 {
            assert!(Instant::now() < deadline, "only {} came", taken.len());
            // Polled once, and a little longer.
            let at_once = inlet.receive().now_or_never();
            let soon = timeout(Duration::from_micros(300), inlet.receive()).await.ok();
            for delivery in [at_once, soon].into_iter().flatten() {
                let delivery = delivery.expect("the inlet works");
                assert!(!delivery.message.redelivered, "{delivery:?} was put back");
                taken.push(number(&delivery));
                delivery.accept();
            }
        }
        settle(sent).await.into_iter().for_each(|one| one.expect("confirmed"));
    }
    assert_eq!(taken, (0..TOTAL).collect::<Vec<_>>());
}

/// What it had not handed over goes back, and what is open may still be settled.
pub async fn leaves_nothing_behind_when_an_inlet_is_dropped<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..10).await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    let (first, second) = (receive(&mut *inlet).await, receive(&mut *inlet).await);
    drop(inlet);
    let mut inlet = open_inlet(&*connector, &source, 20).await;
    let mut deliveries = Vec::new();
    for _ in 2..10 {
        deliveries.push(receive(&mut *inlet).await);
    }
    let came: BTreeSet<_> = deliveries.iter().map(number).collect();
    assert_eq!(came, (2..10).collect(), "what is open stays so, and holds up nothing else");
    assert_nothing_more(&mut *inlet).await;
    first.accept();
    second.requeue();
    let again = receive(&mut *inlet).await;
    assert_eq!((number(&again), again.message.redelivered), (1, true));
    assert_nothing_more(&mut *inlet).await;
    again.accept();
    deliveries.into_iter().for_each(Delivery::accept);
}

/// Each route has its own, also on the same queue.
pub async fn opens_inlets_that_do_not_disturb_each_other<R: Rig>(rig: &R) {
    let (connector, left, right) = (rig.connector(), rig.source().await, rig.source().await);
    let nowhere = Source { queue: "no-such-queue".to_owned(), ..left.clone() };
    let mut inlets = [open_inlet(&*connector, &left, 5).await, open_inlet(&*connector, &right, 5).await];
    let mut lost = open_inlet(&*connector, &nowhere, 5).await;
    send_numbered(&*connector, &left, 0..20).await;
    send_numbered(&*connector, &right, 20..40).await;
    expect_error(&mut *lost).await;
    for expected in 0..20 {
        for (which, first) in [0, 20].into_iter().enumerate() {
            let delivery = receive(&mut *inlets[which]).await;
            assert_eq!(number(&delivery), first + expected);
            delivery.accept();
        }
    }
}

/// A system that takes nothing for now still gives.
pub async fn goes_on_receiving_while_sending_is_blocked<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..20).await;
    let mut inlet = open_inlet(&*connector, &source, 2).await;
    let mut outlet = open(&*connector).await;
    rig.block().await;
    let waiting = outlet.deliver(vec![numbered(&source.entrance, 20)]).await;
    await_any_status(connector.status(), |status| matches!(status, Status::Blocked { .. })).await;
    for expected in 0..20 {
        let delivery = receive(&mut *inlet).await;
        assert_eq!(number(&delivery), expected);
        delivery.accept();
    }
    let status = connector.inlet_status().borrow().clone();
    assert!(!matches!(status, Status::Connecting { .. }), "{status:?}");
    rig.unblock().await;
    settle(waiting).await.remove(0).expect("confirmed after the block");
    receive(&mut *inlet).await.accept();
}

/// Inlets end, nothing opens any more, and what was open is in the queue again.
pub async fn closes_its_inlets<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    send_numbered(&*connector, &source, 0..3).await;
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    let open_one = receive(&mut *inlet).await;
    close(&*connector).await;
    assert_eq!(*connector.inlet_status().borrow(), Status::Closed);
    expect_error(&mut *inlet).await;
    open_one.accept();
    assert!(timeout(GLANCE, connector.inlet(options(&source, 5))).await.is_err(), "no inlet after closing");
    drop(inlet);
    assert_eq!(numbers(&rig.arrived(&source_of(&source)).await), [0, 1, 2]);
}

/// A peer that does not answer is left behind.
pub async fn closes_its_inlets_when_the_system_is_frozen<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    let mut inlet = open_inlet(&*connector, &source, 5).await;
    rig.freeze().await;
    close(&*connector).await;
    expect_error(&mut *inlet).await;
    rig.reconnect().await;
}

/// Looks for places without making them.
pub async fn says_which_places_are_missing<R: Rig>(rig: &R) {
    let (connector, source) = (rig.connector(), rig.source().await);
    let there = [Place::Queue(source.queue.clone()), Place::Exchange(source.entrance.exchange.clone())];
    assert_eq!(connector.missing(&there, PATIENCE).await, Ok(vec![]));
    let [queue, exchange] = there;
    let wanted = [Place::Queue("no-such-queue".to_owned()), queue, Place::Queue("neither".to_owned()), exchange];
    for _ in 0..2 {
        let missing = connector.missing(&wanted, PATIENCE).await.expect("the system is there");
        assert_eq!(missing.len(), 2, "looking makes nothing: {missing:?}");
        assert!(missing[0].contains("no-such-queue") && missing[1].contains("neither"), "{missing:?}");
        assert!(missing.iter().all(|one| one.len() > 10 && !one.contains('\n')), "{missing:?}");
    }
    rig.disconnect().await;
    let sentence = connector.missing(&wanted, PATIENCE).await.expect_err("the system is not there");
    check_silence(rig, &sentence);
    rig.reconnect().await;
}

fn options(source: &Source, prefetch: u16) -> InletOptions {
    InletOptions { route: format!("conformance of {}", source.queue), address: source.queue.clone(), prefetch }
}

/// The queue itself, for looking into it.
fn source_of(source: &Source) -> Address {
    source.entrance.clone()
}

async fn open_inlet(connector: &dyn Connector, source: &Source, prefetch: u16) -> Box<dyn Inlet> {
    timeout(PATIENCE, connector.inlet(options(source, prefetch))).await.expect("an inlet opens")
}

async fn receive(inlet: &mut dyn Inlet) -> Delivery {
    timeout(PATIENCE, inlet.receive()).await.expect("a delivery comes").expect("the inlet works")
}

async fn expect_error(inlet: &mut dyn Inlet) -> InletError {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let received = timeout(PATIENCE, inlet.receive()).await.expect("receiving ends");
        match received {
            Err(error) => return error,
            // What was on its way.
            Ok(delivery) => assert!(Instant::now() < deadline, "{delivery:?} and no error"),
        }
    }
}

async fn assert_nothing_more(inlet: &mut dyn Inlet) {
    if let Ok(outcome) = timeout(GLANCE, inlet.receive()).await {
        panic!("nothing was to come: {outcome:?}");
    }
}

async fn send_numbered(connector: &dyn Connector, source: &Source, which: std::ops::Range<usize>) {
    send(connector, which.map(|number| numbered(&source.entrance, number)).collect()).await;
}

async fn send(connector: &dyn Connector, messages: Vec<Message>) {
    let mut outlet = open(connector).await;
    settle(outlet.deliver(messages).await).await.into_iter().for_each(|one| one.expect("confirmed"));
}

fn number(delivery: &Delivery) -> usize {
    numbers(&[Arrived::from(&delivery.message)])[0]
}
