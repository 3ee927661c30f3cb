//! What is handed to a lane.

use std::collections::BTreeSet;
use std::time::Duration;

use mqbridge::net::{Consignment, Lane};

use crate::log;
use crate::peer::{Peer, Place};
use crate::{Caller, Sender, packet_with};

/// More messages than a session takes over while its window is full.
const MANY: u32 = 100;

/// A caller, a lane, and the other end of its session.
async fn lane(window: u16) -> (Caller, Lane, Peer) {
    let (place, caller) = (Place::new().await, Caller::new());
    let (peer, lane) = tokio::join!(place.session(window), caller.open(place.address()));
    (caller, lane.unwrap(), peer)
}

#[tokio::test(start_paused = true)]
async fn messages_go_out_in_order_and_their_tokens_come_back() {
    let (_caller, lane, mut peer) = lane(64).await;
    let mut sender = Sender::new();
    for ordinal in 1..=3 {
        sender.send(&lane, ordinal).await;
    }
    for ordinal in 1..=3 {
        assert_eq!(peer.ordinal().await, ordinal);
    }
    peer.acknowledge(2, 2).await;
    assert_eq!((sender.token().await, sender.token().await), (1, 2));
    peer.acknowledge(3, 1).await;
    assert_eq!(sender.token().await, 3);
    assert!(lane.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_session_ends_gives_back_what_it_has_not_taken_over() {
    let (_caller, lane, mut peer) = lane(2).await;
    let mut sender = Sender::new();
    sender.send(&lane, 1).await;
    assert_eq!(peer.ordinal().await, 1);
    peer.acknowledge(1, 1).await;
    assert_eq!(sender.token().await, 1);
    let waiting: Vec<_> = (2..=MANY)
        .map(|ordinal| (lane.clone(), sender.consignment(ordinal)))
        .map(|(lane, consignment)| tokio::spawn(async move { lane.send(consignment).await }))
        .collect();
    assert_eq!((peer.ordinal().await, peer.ordinal().await), (2, 3));
    assert!(peer.hears_nothing().await, "the window is full");
    drop(peer);
    lane.closed().await;
    assert!(!lane.is_open());
    assert_eq!(lane.reason(), "the other side closed the connection");
    let mut given_back = Vec::new();
    for task in waiting {
        given_back.extend(task.await.unwrap().err().map(|consignment| consignment.token));
    }
    // Those that were taken over are the first ones; whoever sends begins again behind the last acknowledgment.
    let first = given_back[0];
    assert!((4..=u64::from(MANY) / 2).contains(&first), "from {first} on");
    assert_eq!(given_back, (first..=u64::from(MANY)).collect::<Vec<_>>());
    let late = lane.send(sender.consignment(MANY + 1)).await;
    assert_eq!(late.unwrap_err().token, u64::from(MANY) + 1);
    assert!(sender.has_no_more());
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgment_of_what_was_never_sent_ends_the_session_with_one_line() {
    for (number, stored, expected) in [
        (2, 1, "the other side acknowledges message 2, which was never sent"),
        (1, 2, "the other side acknowledges recoverable message 2, which was never sent"),
    ] {
        let (_caller, lane, mut peer) = lane(64).await;
        let sender = Sender::new();
        sender.send(&lane, 1).await;
        assert_eq!(peer.ordinal().await, 1);
        peer.acknowledge_storage(number, stored).await;
        lane.closed().await;
        assert_eq!(lane.reason(), expected);
        assert!(peer.packet().await.is_none(), "the connection is closed, and nothing is acknowledged");
        let lines = log::take_lines("session_closed");
        assert!(lines.len() == 1 && lines[0].contains(expected) && lines[0].contains("WARN"), "{lines:?}");
        assert!(sender.has_no_more(), "a header with a lie in it acknowledges nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn several_senders_share_a_window_of_one() {
    const EACH: u32 = 20;
    let (_caller, lane, mut peer) = lane(1).await;
    let senders: Vec<_> = (0..3_u32)
        .map(|number| {
            let lane = lane.clone();
            tokio::spawn(async move {
                let mut sender = Sender::new();
                let mine = || (1..=EACH).map(|count| number * 100 + count);
                for ordinal in mine() {
                    sender.send(&lane, ordinal).await;
                }
                for ordinal in mine() {
                    assert_eq!(sender.token().await, u64::from(ordinal), "each gets its own tokens back, in order");
                }
                assert!(sender.has_no_more());
            })
        })
        .collect();
    let mut latest = [0; 3];
    let mut orders = BTreeSet::new();
    for count in 1..=3 * EACH as u16 {
        let ordinal = peer.ordinal().await;
        let (sender, place) = ((ordinal / 100) as usize, ordinal % 100);
        assert_eq!(place, latest[sender] + 1, "each sender's messages are in order");
        latest[sender] = place;
        orders.insert(latest);
        assert!(peer.hears_nothing().await, "a second message before the first is acknowledged");
        peer.acknowledge(count, 1).await;
    }
    for sender in senders {
        sender.await.unwrap();
    }
    assert!(orders.iter().any(|latest| latest.iter().all(|place| (1..EACH).contains(place))), "they take turns");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_fills_its_own_buffers_and_not_our_memory() {
    let (_caller, lane, peer) = lane(64).await;
    let sender = Sender::new();
    let packet = packet_with(1, vec![0; 3 << 20].into());
    let tasks: Vec<_> = (0..60)
        .map(|_| (lane.clone(), Consignment { packet: packet.clone(), ..sender.consignment(1) }))
        .map(|(lane, consignment)| tokio::spawn(async move { lane.send(consignment).await }))
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let taken_over = tasks.iter().filter(|task| task.is_finished()).count();
    // 16 wait for the session, one or two for the system, which holds some of its own.
    assert!((17..25).contains(&taken_over), "{taken_over} messages of 3 MiB are taken over");
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_falls_silent_loses_the_session_after_twice_the_ack_timeout() {
    let (_caller, lane, mut peer) = lane(64).await;
    let sender = Sender::new();
    sender.send(&lane, 1).await;
    assert_eq!(peer.ordinal().await, 1);
    lane.closed().await;
    assert_eq!(lane.reason(), "1 messages stayed unacknowledged and nothing came for 40s");
    assert!(sender.has_no_more());
}

#[tokio::test(start_paused = true)]
async fn messages_and_acknowledgments_go_both_ways_on_one_session() {
    let (caller, lane, mut peer) = lane(64).await;
    let mut sender = Sender::new();
    peer.write(&crate::packet(900)).await;
    sender.send(&lane, 1).await;
    assert_eq!(peer.ordinal().await, 1);
    let Some(mqbridge::mqqb::wire::Packet::SessionAck(ack)) = peer.packet().await else { panic!("no SessionAck") };
    assert_eq!((ack.header.ack_sequence_number, ack.header.recoverable_ack_bits), (1, 1));
    assert_eq!((ack.header.user_sequence_number, ack.header.recoverable_sequence_number), (1, 1), "what we sent");
    peer.acknowledge_one_having_sent_one().await;
    assert_eq!(sender.token().await, 1);
    assert_eq!(caller.sessions.report()[0].received, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(lane.is_open());
}
