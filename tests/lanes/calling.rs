//! How a session comes about, and what is said when none does.

use std::time::Duration;

use mqbridge::mqqb::wire::{Guid, OperatingSystem};
use mqbridge::net::SessionRole;

use crate::log;
use crate::peer::{Place, STRANGER};
use crate::{Caller, FIRST_WAIT, OURS, THEIRS};

#[tokio::test(start_paused = true)]
async fn whoever_asks_while_a_machine_is_called_gets_the_same_session() {
    let (place, caller) = (Place::new().await, Caller::new());
    let address = place.address();
    let (mut peer, first, second) = tokio::join!(place.session(64), caller.open(address), caller.open(address));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.peer(), second.peer().queue_manager), (second.peer(), THEIRS));
    let third = caller.open(address).await.unwrap();
    assert_eq!(third.peer(), first.peer());
    assert!(place.is_left_alone().await);
    assert!(peer.hears_nothing().await);
    let [report] = caller.sessions.report().try_into().unwrap();
    assert_eq!((report.role, report.peer), (SessionRole::Initiator, first.peer()));
}

#[tokio::test(start_paused = true)]
async fn the_request_names_whom_it_is_for_and_says_that_no_ping_was_sent() {
    for server in [Guid::NULL, THEIRS] {
        let (place, caller) = (Place::new().await, Caller::new());
        let script = async {
            let request = place.connection().await.request().await;
            assert_eq!((request.client, request.server), (OURS, server));
            assert!(request.operating_system.has(OperatingSystem::NO_PING_SENT));
        };
        let ((), outcome) = tokio::join!(script, caller.open_for(place.address(), server));
        let reason = outcome.unwrap_err().reason;
        assert_eq!(reason, format!("{}: the other side closed the connection", place.address()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_another_queue_manager_is_a_failure_and_nobody_calls_again_before_its_time() {
    let (place, caller) = (Place::new().await, Caller::new());
    let script = async {
        let mut peer = place.connection().await;
        let request = peer.request().await;
        peer.answer(&request.response(STRANGER, false)).await;
        assert!(peer.packet().await.is_none(), "the connection is closed");
    };
    let before = caller.clock.now();
    let ((), outcome) = tokio::join!(script, caller.open_for(place.address(), THEIRS));
    let failure = outcome.unwrap_err();
    let expected = format!("{}: the answer came from queue manager {STRANGER}, not from {THEIRS}", place.address());
    assert_eq!((failure.reason.as_str(), failure.attempt), (expected.as_str(), 1));
    assert!(failure.again_at - before >= FIRST_WAIT && failure.again_at - before < 2 * FIRST_WAIT);
    assert!(log::take_lines("session_").is_empty(), "whoever called says it");
    assert!(caller.sessions.report().is_empty());

    assert_eq!(caller.open_for(place.address(), THEIRS).await.unwrap_err(), failure, "the same failure, no new call");
    assert!(place.is_left_alone().await);

    tokio::time::sleep(FIRST_WAIT).await;
    let (peer, outcome) = tokio::join!(place.session(64), caller.open_for(place.address(), THEIRS));
    assert!(outcome.is_ok(), "{outcome:?}");
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_another_caller_a_refusal_and_silence_are_told_apart() {
    let (place, caller) = (Place::new().await, Caller::new());
    let mut attempt = 0;
    for (kind, expected) in [
        ("stranger", format!("the answer is for queue manager {STRANGER}, this is {OURS}")),
        ("refusal", "the other side refused the session".to_owned()),
        ("silence", "the handshake took longer than 60s".to_owned()),
        ("noise", "BaseHeader".to_owned()),
    ] {
        let script = async {
            let mut peer = place.connection().await;
            let mut request = peer.request().await;
            match kind {
                "stranger" => {
                    request.client = STRANGER;
                    peer.answer(&request.response(THEIRS, false)).await;
                }
                "refusal" => peer.answer(&request.response(THEIRS, true)).await,
                "noise" => peer.write(&[0x47; 64]).await,
                _ => {}
            }
            assert!(peer.packet().await.is_none(), "the connection is closed");
        };
        let ((), outcome) = tokio::join!(script, caller.open(place.address()));
        let failure = outcome.unwrap_err();
        attempt += 1;
        assert!(failure.reason.contains(&expected), "{}", failure.reason);
        assert_eq!(failure.attempt, attempt);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_there_is_named_with_its_address() {
    let (place, caller) = (Place::new().await, Caller::new());
    let address = place.address();
    drop(place);
    let reason = caller.open(address).await.unwrap_err().reason;
    assert!(reason.starts_with(&format!("cannot connect to {address}: ")), "{reason}");
}
