//! Pings before a call (MS-MQQB 3.1.5.2.2, 3.1.7.6, 3.1.7.8).

use std::net::SocketAddr;
use std::time::Duration;

use mqbridge::mqqb::wire::{Guid, OperatingSystem, Ping};
use mqbridge::net::{Clock, Located, PingResponder, Places, Sessions, StopSwitch};
use tokio::net::UdpSocket;

use crate::peer::Place;
use crate::{Caller, OURS, THEIRS};

/// A machine that answers pings with what room it has; the switch ends it.
async fn responder(places: Places) -> (u16, StopSwitch) {
    let responder = PingResponder::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = responder.address().port();
    let (switch, stop) = StopSwitch::new();
    tokio::spawn(responder.run(Clock::start(), THEIRS, Sessions::new(places), stop));
    (port, switch)
}

/// A machine that gets pings, and answers as the test says.
async fn silent() -> (u16, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    (socket.local_addr().unwrap().port(), socket)
}

async fn question(socket: &UdpSocket) -> (Ping, SocketAddr) {
    let mut datagram = [0; 64];
    let asked = tokio::time::timeout(Duration::from_mins(10), socket.recv_from(&mut datagram));
    let (length, from) = asked.await.expect("nobody asks").unwrap();
    assert_eq!(length, Ping::SIZE);
    (Ping::decode(&datagram).unwrap(), from)
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_would_accept_is_called_and_told_that_it_was_asked() {
    let place = Place::new().await;
    let (port, _switch) = responder(Places::new(1)).await;
    let caller = Caller::asking(Some(port));
    let script = async {
        let mut peer = place.connection().await;
        let request = peer.request().await;
        assert!(!request.operating_system.has(OperatingSystem::NO_PING_SENT), "SE is 0 after a ping");
        assert!(request.operating_system.has(OperatingSystem::SERVER));
    };
    let ((), outcome) = tokio::join!(script, caller.open(place.address()));
    assert!(outcome.is_err(), "the script ends there");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_would_refuse_is_not_called() {
    let place = Place::new().await;
    let (port, _switch) = responder(Places { open: 0, pending: 1 }).await;
    let caller = Caller::asking(Some(port));
    let failure = caller.open(place.address()).await.unwrap_err();
    let address = place.address();
    let expected = format!("{address} is not called: its answer to a ping says that it would refuse a session");
    assert_eq!((failure.reason, failure.attempt), (expected, 1));
    assert!(place.is_left_alone().await);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_answer_is_asked_twice_for_a_second_each() {
    let place = Place::new().await;
    let (port, socket) = silent().await;
    let caller = Caller::asking(Some(port));
    let before = caller.clock.now();
    let failure = caller.open(place.address()).await.unwrap_err();
    let waited = caller.clock.now() - before;
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(2100), "{waited:?}");
    let expected = format!(
        "{} is not called: no answer to 2 pings on UDP 127.0.0.1:{port}; ping_first = false calls without asking",
        place.address()
    );
    assert_eq!(failure.reason, expected);
    let ((first, _), (second, _)) = (question(&socket).await, question(&socket).await);
    assert_eq!((first.flags, first.queue_manager), (0, OURS));
    assert_eq!(second.cookie, first.cookie + 1, "each question has its own cookie");
    assert!(tokio::time::timeout(Duration::from_secs(5), question(&socket)).await.is_err(), "twice");
    assert!(place.is_left_alone().await);
}

#[tokio::test(start_paused = true)]
async fn only_the_answer_to_the_question_counts() {
    let place = Place::new().await;
    let (port, socket) = silent().await;
    let caller = Caller::asking(Some(port));
    let script = async {
        let (first, _) = question(&socket).await;
        let (second, from) = question(&socket).await;
        let answer = second.response(THEIRS, false);
        let mut no_ping = answer.encode();
        no_ping[2] ^= 1;
        for datagram in [
            &Ping { flags: Ping::REFUSED, ..first }.encode()[..],
            &no_ping,
            &answer.encode()[..Ping::SIZE - 1],
            b"",
            &answer.encode(),
        ] {
            socket.send_to(datagram, from).await.unwrap();
        }
        place.session(64).await
    };
    let (_peer, outcome) = tokio::join!(script, caller.open(place.address()));
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_port_where_nobody_listens_is_said_at_once() {
    let place = Place::new().await;
    let (port, socket) = silent().await;
    drop(socket);
    let caller = Caller::asking(Some(port));
    let before = caller.clock.now();
    let reason = caller.open(place.address()).await.unwrap_err().reason;
    assert!(reason.contains(&format!("a ping to UDP 127.0.0.1:{port} failed")), "{reason}");
    assert!(caller.clock.now() - before < Duration::from_secs(1));
    assert!(place.is_left_alone().await);
}

#[tokio::test(start_paused = true)]
async fn each_address_of_a_machine_is_asked_before_it_is_called() {
    // Nothing but this port tells the addresses apart: the first one takes no connection though it answers pings.
    let (gone, place) = (Place::new().await, Place::new().await);
    let (port, _switch) = responder(Places::new(1)).await;
    let caller = Caller::asking(Some(port));
    let located = Located { addresses: vec![gone.address(), place.address()], server: Guid::NULL };
    drop(gone);
    let opening = caller.lanes.open("there", Guid::NULL, || std::future::ready(Ok(located)));
    let (_peer, outcome) = tokio::join!(place.session(64), opening);
    assert!(outcome.is_ok(), "{outcome:?}");
}
