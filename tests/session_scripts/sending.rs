//! What is sent, and how its acknowledgments come (MS-MQQB 3.1.5.5, 3.1.7.1).

use mqbridge::mqqb::session::{CloseCause, Event, SendToken, SessionSettings, Tally};
use mqbridge::mqqb::wire::{Guid, Packet, SessionHeader};

use crate::script::{SETTINGS, Script, THEIRS, header};

#[test]
fn messages_go_out_as_they_are_and_in_order() {
    let mut script = Script::open_acceptor();
    script.send_all(&[true, false, true]);
    let ids: Vec<u32> = script
        .said()
        .into_iter()
        .map(|packet| match packet {
            Packet::User(message) if message.session.is_none() => message.user.message_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(script.session.tally(), Tally { sent: 3, ..Tally::default() });
}

#[test]
fn nothing_is_sent_before_the_session_is_open_or_after_its_end() {
    let mut script = Script::initiator(THEIRS);
    assert!(!script.send(1, true));
    script.answer(|answer| answer);
    assert!(!script.send(1, true));
    script.parameters(500, 20_000, 64);
    assert!(script.send(1, true));
    script.close(CloseCause::Local("test".into()));
    assert!(!script.send(2, true));
}

#[test]
fn express_messages_are_acknowledged_by_the_count_and_recoverable_ones_by_their_bit() {
    let mut script = Script::open_acceptor();
    script.send_all(&[false, true, false, true, true]);
    script.ack(header(3, 0, 0, 0, 0));
    assert_eq!(script.acknowledged(), [1, 3]);
    script.ack(header(5, 3, 0b1, 0, 0));
    assert_eq!(script.acknowledged(), [5], "the bit is the truth, not the base (A-14)");
    script.ack(header(5, 1, 0b11, 0, 0));
    assert_eq!(script.acknowledged(), [2, 4]);
    script.ack(header(5, 1, 0b111, 0, 0));
    assert!(script.acknowledged().is_empty(), "once");
    assert_eq!(script.session.window_left(), 64);
}

#[test]
fn a_base_without_a_bit_acknowledges_nothing() {
    let mut script = Script::open_acceptor();
    script.send_all(&[true, true]);
    script.ack(header(2, 2, 0, 0, 0));
    assert!(script.acknowledged().is_empty());
    assert_eq!(script.session.window_left(), 62);
}

#[test]
fn the_window_is_the_smaller_one() {
    for (own, peer, room) in
        [(64, 64, 64), (64, 10, 10), (10, 64, 10), (0, 64, 1), (64, 0, 1), (u16::MAX, u16::MAX, 0x7FFF)]
    {
        let mut script = Script::open(SessionSettings { window: own, ..SETTINGS }, peer);
        assert_eq!(script.session.window_left(), room, "windows of {own} and {peer}");
        for token in 0..room as u64 {
            assert!(script.send(token, token % 2 == 0));
        }
        assert_eq!(script.session.window_left(), 0);
        assert!(!script.send(u64::MAX, true));
    }
}

#[test]
fn the_driver_is_told_once_when_there_is_room_again() {
    let mut script = Script::open(SETTINGS, 2);
    script.send_all(&[false, false]);
    let smaller = |header: SessionHeader| SessionHeader { window_size: 2, ..header };
    script.ack(smaller(header(1, 0, 0, 0, 0)));
    assert_eq!(script.acknowledged(), [1], "nobody was turned away");
    assert!(script.send(3, true));
    assert!(!script.send(4, true));
    assert!(!script.send(5, true));
    script.ack(smaller(header(1, 0, 0, 0, 0)));
    assert!(script.event().is_none(), "no room yet");
    script.ack(smaller(header(3, 0, 0, 0, 0)));
    assert!(matches!(script.event(), Some(Event::Acknowledged(SendToken(2)))));
    assert!(matches!(script.event(), Some(Event::Writable)));
    assert!(script.event().is_none());
    script.ack(smaller(header(3, 1, 1, 0, 0)));
    assert_eq!(script.acknowledged(), [3]);
}

#[test]
fn every_header_brings_the_window_of_the_other_side() {
    let mut script = Script::open_acceptor();
    script.send_all(&[false; 10]);
    script.ack(SessionHeader { window_size: 1, ..header(0, 0, 0, 0, 0) });
    assert_eq!(script.session.window_left(), 0, "MS-MQMQ note 15");
    assert!(!script.send(11, false));
    script.ack(SessionHeader { window_size: 1, ..header(9, 0, 0, 0, 0) });
    assert_eq!(script.acknowledged(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    script.message_with(false, &SessionHeader { window_size: 4, ..header(9, 0, 0, 1, 0) });
    script.take_received();
    assert!(matches!(script.event(), Some(Event::Writable)));
    assert_eq!(script.session.window_left(), 3);
    script.ack(SessionHeader { window_size: 0, ..header(10, 0, 0, 1, 0) });
    assert_eq!(script.session.window_left(), 1, "a window of 0 is one of 1");
}

#[test]
fn a_message_holds_its_place_until_both_acknowledgments_have_come() {
    let mut script = Script::open(SETTINGS, 4);
    let four = |header: SessionHeader| SessionHeader { window_size: 4, ..header };
    script.send_all(&[true; 4]);
    script.ack(four(header(4, 0, 0, 0, 0)));
    assert_eq!(script.session.window_left(), 0, "covered, but not on disk");
    script.ack(four(header(4, 2, 0b111, 0, 0)));
    assert_eq!(script.acknowledged(), [2, 3, 4]);
    assert_eq!(script.session.window_left(), 0, "the first is not on disk");
    script.ack(four(header(4, 1, 0b1, 0, 0)));
    assert_eq!(script.acknowledged(), [1]);
    assert_eq!(script.session.window_left(), 4);
    assert!(script.send(5, true));
    script.ack(four(header(4, 5, 0b1, 0, 0)));
    assert_eq!(script.acknowledged(), [5]);
    assert_eq!(script.session.window_left(), 3, "on disk, but not covered");
}

#[test]
fn an_old_header_takes_nothing_back() {
    let mut script = Script::open_acceptor();
    script.send_all(&[false, false, false]);
    script.ack(header(3, 0, 0, 0, 0));
    script.ack(header(1, 0, 0, 0, 0));
    assert_eq!(script.acknowledged(), [1, 2, 3]);
    assert_eq!(script.session.window_left(), 64);
}

#[test]
fn both_counters_wrap() {
    let mut script = Script::open_initiator(Guid::NULL);
    let mut token = 0;
    for round in 1..=2100_u64 {
        let first = token + 1;
        for _ in 0..32 {
            token += 1;
            assert!(script.send(token, true), "round {round}");
        }
        script.said();
        script.ack(header(token as u16, first as u16, u32::MAX, 0, 0));
        assert_eq!(script.acknowledged(), (first..=token).collect::<Vec<_>>());
    }
    assert!(token > 65_536);
    assert_eq!(script.session.window_left(), 64);
    script.ack(header(token as u16 + 1, 0, 0, 0, 0));
    assert!(matches!(script.cause(), CloseCause::FalseAck { what: "message", .. }));
}

#[test]
fn bits_across_the_wrap_find_their_messages() {
    let mut script = Script::open_acceptor();
    let mut token = 0_u64;
    while token < 65_533 {
        token += 1;
        assert!(script.send(token, true));
        script.said();
        script.ack(header(token as u16, token as u16, 1, 0, 0));
    }
    script.acknowledged();
    for token in 65_534..=65_538 {
        assert!(script.send(token, true));
    }
    script.ack(header(2, 65_534, 0b1_0111, 0, 0));
    assert_eq!(script.acknowledged(), [65_534, 65_535, 65_536, 65_538]);
    script.ack(header(2, 1, 0b1, 0, 0));
    assert_eq!(script.acknowledged(), [65_537]);
}
