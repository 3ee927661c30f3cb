//! What is received, counted and acknowledged (MS-MQQB 3.1.5.8, 3.1.6.4, 3.1.7.11).

use mqbridge::mqqb::session::{CloseCause, Event, SessionSettings, Settled, Tally};
use mqbridge::mqqb::wire::{DeliveryMode, MessageClass, Packet};

use crate::packets::{encode, message, transactional};
use crate::script::{MILLISECOND, SECOND, SETTINGS, Script, header};

fn bits(count: u32) -> u32 {
    ((1_u64 << count) - 1) as u32
}

#[test]
fn nothing_is_acknowledged_before_its_receipt_is_back() {
    for recoverable in [false, true] {
        let mut script = Script::open_acceptor();
        script.messages(40, recoverable);
        assert_eq!(script.take_received().len(), 40);
        script.wait(15 * SECOND);
        assert_eq!(script.acks(), [], "neither window nor timer makes it true");
        script.settle();
        let recoverable_part = if recoverable { (1, 1) } else { (0, 0) };
        assert_eq!(
            script.acks(),
            [header(1, recoverable_part.0, recoverable_part.1, 0, 0)],
            "the timer is over: at once, and only that one"
        );
    }
}

#[test]
fn receipts_may_come_back_in_any_order_but_only_an_unbroken_row_is_acknowledged() {
    let mut script = Script::open_acceptor();
    script.messages(6, true);
    script.take_received();
    script.settle_at(&[5, 1, 3, 2]);
    script.wait(SECOND);
    assert_eq!(script.acks(), [], "the first is missing");
    script.settle_at(&[0]);
    assert_eq!(script.acks(), [header(4, 1, bits(4), 0, 0)], "1 to 4; 5 is missing before 6");
    script.settle_at(&[0]);
    script.wait(SECOND);
    assert_eq!(script.acks(), [header(6, 5, bits(2), 0, 0)]);
}

#[test]
fn an_express_message_that_is_not_settled_holds_back_the_recoverable_ones_after_it() {
    let mut script = Script::open_acceptor();
    script.message(false);
    script.messages(2, true);
    script.take_received();
    script.settle_at(&[1, 2]);
    script.wait(SECOND);
    assert_eq!(script.acks(), []);
    script.settle_all();
    assert_eq!(script.acks(), [header(3, 1, bits(2), 0, 0)]);
}

#[test]
fn behind_a_lost_receipt_nothing_is_acknowledged_ever() {
    let mut script = Script::open_acceptor();
    script.messages(3, true);
    script.take_received();
    script.settle();
    script.receipts.pop_front();
    script.settle();
    script.wait(100 * SECOND);
    assert_eq!(script.acks(), [header(1, 1, 1, 0, 0)]);
    assert_eq!(script.session.unsettled(), 2);
    script.close(CloseCause::Local("test".into()));
    assert_eq!(script.acks(), []);
}

#[test]
fn a_rejected_message_is_acknowledged_like_a_stored_one() {
    let mut script = Script::open_acceptor();
    script.messages(2, true);
    script.take_received();
    let receipt = script.receipts.pop_front().unwrap();
    script.session.settle(script.now, receipt, Settled::Rejected);
    script.settle();
    script.wait(SECOND);
    assert_eq!(script.acks(), [header(2, 1, bits(2), 0, 0)]);
    assert_eq!(script.session.tally(), Tally { received: 2, stored: 1, rejected: 1, ..Tally::default() });
}

#[test]
fn a_receipt_of_another_session_acknowledges_nothing() {
    let mut other = Script::open_acceptor();
    other.message(true);
    other.take_received();
    let mut script = Script::open_acceptor();
    script.message(true);
    script.take_received();
    script.receipts = other.receipts;
    script.settle_all();
    script.wait(20 * SECOND);
    assert_eq!(script.acks(), []);
    assert_eq!(script.session.unsettled(), 1);
}

#[test]
fn a_recoverable_message_is_acknowledged_after_the_recoverable_time_out() {
    let mut script = Script::open_acceptor();
    script.message(true);
    script.take_received();
    script.settle_all();
    script.wait_almost(500 * MILLISECOND);
    assert_eq!(script.acks(), []);
    script.wait(MILLISECOND);
    assert_eq!(script.acks(), [header(1, 1, 1, 0, 0)]);
    script.wait(30 * SECOND);
    assert_eq!(script.acks(), [], "once");
}

#[test]
fn an_express_message_is_acknowledged_after_half_of_the_time_out() {
    let mut script = Script::open_acceptor();
    script.message(false);
    script.take_received();
    script.settle_all();
    script.wait_almost(10 * SECOND);
    assert_eq!(script.acks(), []);
    script.wait(MILLISECOND);
    assert_eq!(script.acks(), [header(1, 0, 0, 0, 0)]);
}

#[test]
fn a_recoverable_message_hurries_the_express_ones_before_it_and_later_ones_do_not_put_it_off() {
    let mut script = Script::open_acceptor();
    script.message(false);
    script.wait(SECOND);
    script.message(true);
    script.wait(300 * MILLISECOND);
    script.message(true);
    script.message(false);
    script.take_received();
    script.settle_all();
    script.wait(200 * MILLISECOND);
    assert_eq!(script.acks(), [header(4, 1, bits(2), 0, 0)]);
}

#[test]
fn the_recoverable_time_out_never_outlasts_half_of_the_senders_patience() {
    let mut script = Script::acceptor();
    script.establish(crate::script::OURS);
    script.parameters(120_000, 20_000, 64);
    script.said();
    assert!(matches!(script.event(), Some(Event::Opened { .. })));
    script.message(true);
    script.take_received();
    script.settle_all();
    script.wait(10 * SECOND);
    assert_eq!(script.acks(), [header(1, 1, 1, 0, 0)]);
}

#[test]
fn half_the_smaller_window_is_acknowledged_at_once() {
    for (own, peer, half) in [(64, 64, 32), (64, 20, 10), (10, 64, 5), (3, 64, 1), (1, 64, 1), (64, 0, 1)] {
        let mut script = Script::open(SessionSettings { window: own, ..SETTINGS }, peer);
        script.messages(half, false);
        script.take_received();
        for _ in 1..half {
            script.settle();
            assert_eq!(script.acks(), []);
        }
        script.settle();
        let acks = script.acks();
        assert_eq!(acks.len(), 1, "windows of {own} and {peer}");
        assert_eq!((acks[0].ack_sequence_number, acks[0].window_size), (half as u16, own));
    }
}

#[test]
fn a_batch_of_receipts_costs_one_packet_for_32_recoverable_messages() {
    let mut script = Script::open_acceptor();
    script.messages(70, true);
    script.take_received();
    script.settle_all();
    assert_eq!(
        script.acks(),
        [header(70, 1, u32::MAX, 0, 0), header(70, 33, u32::MAX, 0, 0)],
        "the rest waits for company"
    );
    script.wait(500 * MILLISECOND);
    assert_eq!(script.acks(), [header(70, 65, bits(6), 0, 0)]);
}

#[test]
fn thirty_two_recoverable_messages_are_acknowledged_at_once_in_any_window() {
    let mut script = Script::open(SessionSettings { window: 1000, ..SETTINGS }, 1000);
    script.messages(31, true);
    script.take_received();
    script.settle_all();
    assert_eq!(script.acks(), []);
    script.message(true);
    script.take_received();
    script.settle_all();
    let acks = script.acks();
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].recoverable_ack_bits, u32::MAX);
}

#[test]
fn an_acknowledgment_rides_on_a_message_when_its_timer_is_mostly_over() {
    let mut script = Script::open_acceptor();
    script.message(true);
    script.take_received();
    script.settle_all();
    script.later(375 * MILLISECOND);
    assert!(script.send(1, true));
    assert!(matches!(script.said().as_slice(), [Packet::User(message)] if message.session.is_none()), "75 %");
    script.later(MILLISECOND);
    assert!(script.send(2, false));
    let said = script.said();
    let [Packet::User(carrier)] = said.as_slice() else { panic!("{said:?}") };
    let piggy_backed = carrier.session.expect("more than 75 %");
    assert_eq!(piggy_backed.header, header(1, 1, 1, 2, 1), "the carrying message is counted (A-27)");
    assert!(!piggy_backed.counted_in_packet_size, "A-10");
    script.wait(SECOND);
    assert_eq!(script.acks(), [], "it has been said");
}

#[test]
fn an_acknowledgment_that_is_due_rides_on_a_message() {
    let mut script = Script::open_acceptor();
    script.messages(33, true);
    script.take_received();
    script.settle_all();
    assert!(script.send(1, false));
    assert!(script.send(2, false));
    let said = script.said();
    let [Packet::User(first), Packet::User(second)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(first.session.unwrap().header, header(33, 1, u32::MAX, 1, 0));
    assert!(second.session.is_none());
    script.wait(500 * MILLISECOND);
    assert_eq!(script.acks(), [header(33, 33, 1, 2, 0)]);
}

#[test]
fn nothing_settled_nothing_to_say() {
    let mut script = Script::open_acceptor();
    script.message(true);
    for token in 1..=6 {
        script.wait(90 * MILLISECOND);
        assert!(script.send(token, false));
        let said = script.said();
        assert!(matches!(said.as_slice(), [Packet::User(message)] if message.session.is_none()), "{token}: {said:?}");
    }
}

#[test]
fn what_settles_after_the_timer_is_acknowledged_at_once_and_to_the_last() {
    let mut script = Script::open(SessionSettings { window: 200, ..SETTINGS }, 200);
    script.messages(70, true);
    script.take_received();
    script.wait(SECOND);
    script.settle_all();
    assert_eq!(
        script.acks().iter().map(|ack| ack.recoverable_ack_bits).collect::<Vec<_>>(),
        [u32::MAX, u32::MAX, bits(6)]
    );
    // And then the timer has its time again.
    script.message(true);
    script.take_received();
    script.settle_all();
    assert_eq!(script.acks(), []);
    script.wait(500 * MILLISECOND);
    assert_eq!(script.acks().len(), 1);
}

#[test]
fn an_acknowledgment_says_how_much_went_out_before_it() {
    let mut script = Script::open_acceptor();
    script.send_all(&[true, false, true]);
    script.messages(32, false);
    script.take_received();
    script.settle_all();
    let said = script.said();
    assert!(matches!(said[..3], [Packet::User(_), Packet::User(_), Packet::User(_)]));
    let [Packet::SessionAck(ack)] = &said[3..] else { panic!("{said:?}") };
    assert_eq!(ack.header, header(32, 0, 0, 3, 2));
}

#[test]
fn every_packet_that_is_not_internal_counts() {
    let mut script = Script::open_acceptor();
    let classes = [MessageClass::NORMAL, MessageClass::ORDER_ACK, MessageClass::ACK_RECEIVE, MessageClass(0x1234)];
    for class in classes {
        let mut message = message(DeliveryMode::Express);
        message.properties.class = class;
        script.comes(encode(&message));
    }
    script.comes(encode(&message(transactional())));
    assert_eq!(script.take_received().len(), 5);
    script.ack(header(0, 0, 0, 5, 1));
    assert!(script.session.is_open(), "A-15; a transactional message is recoverable (3.1.1.4)");
}

#[test]
fn what_is_settled_is_acknowledged_before_the_end() {
    let mut script = Script::open_acceptor();
    script.messages(34, true);
    script.message(false);
    script.message(true);
    script.take_received();
    let receipt = script.receipts.pop_back();
    script.settle_all();
    script.close(CloseCause::Local("shutting down".into()));
    assert_eq!(script.acks(), [header(35, 1, u32::MAX, 0, 0), header(35, 33, bits(2), 0, 0)]);
    assert_eq!(script.cause(), CloseCause::Local("shutting down".into()));
    script.session.settle(script.now, receipt.unwrap(), Settled::Stored);
    assert_eq!(script.acks(), [], "too late");
}

#[test]
fn both_counters_wrap() {
    let mut script = Script::open_acceptor();
    let (mut covered, mut on_disk) = (0_u64, 0_u64);
    for round in 1..=2100_u64 {
        script.messages(32, true);
        script.take_received();
        script.settle_all();
        let acks = script.acks();
        assert_eq!(acks.len(), 1);
        covered += 32;
        assert_eq!(acks[0].ack_sequence_number, covered as u16, "round {round}");
        assert_eq!(acks[0].recoverable_ack_sequence_number, (on_disk + 1) as u16);
        assert_eq!(acks[0].recoverable_ack_bits, u32::MAX);
        on_disk += 32;
    }
    assert!(covered > 65_536);
    let seen = covered as u16;
    script.ack(header(0, 0, 0, seen, seen));
    assert!(script.session.is_open(), "the counts agree modulo 65536");
}

#[test]
fn message_65536_is_number_zero_with_its_bit() {
    let mut script = Script::open_acceptor();
    for _ in 0..2047 {
        script.messages(32, true);
        script.take_received();
        script.settle_all();
        script.acks();
    }
    script.messages(31, true);
    script.take_received();
    script.settle_all();
    script.wait(500 * MILLISECOND);
    assert_eq!(script.acks(), [header(65_535, 65_505, bits(31), 0, 0)]);
    script.message(true);
    script.take_received();
    script.settle_all();
    script.wait(500 * MILLISECOND);
    assert_eq!(script.acks(), [header(0, 0, 1, 0, 0)], "A-48");
}

#[test]
fn a_flood_beyond_all_windows_ends_the_session() {
    let mut script = Script::open_acceptor();
    script.messages(0x7FFF, false);
    assert!(script.session.is_open());
    script.message(false);
    assert_eq!(script.cause(), CloseCause::Overrun(0x7FFF));
}

#[test]
fn a_header_on_a_message_acknowledges_after_the_message_is_counted() {
    let mut script = Script::open_acceptor();
    script.send_all(&[false, true]);
    script.said();
    script.message_with(true, &header(2, 1, 1, 1, 1));
    assert_eq!(script.take_received().len(), 1);
    assert_eq!(script.acknowledged(), [1, 2]);
    assert!(script.event().is_none());
    assert_eq!(script.session.tally().acknowledged, 2);
}
