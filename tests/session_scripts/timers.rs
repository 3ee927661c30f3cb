//! The timers of an open session (MS-MQQB 3.1.6.2, 3.1.6.3).

use mqbridge::mqqb::session::{CloseCause, Settled};
use mqbridge::mqqb::wire::Guid;

use crate::script::{MILLISECOND, SECOND, SETTINGS, Script, THEIRS, header};

#[test]
fn silence_after_a_message_ends_the_session_later_for_direct_names() {
    for (server, patience) in [(THEIRS, 20), (Guid::NULL, 40)] {
        for recoverable in [true, false] {
            let mut script = Script::open_initiator(server);
            script.wait(7 * SECOND);
            assert!(script.send(1, recoverable));
            script.wait(SECOND);
            assert!(script.send(2, recoverable));
            script.wait_almost((patience - 1) * SECOND);
            assert!(script.session.is_open());
            script.wait(MILLISECOND);
            assert_eq!(script.cause(), CloseCause::AckTimeout { unacknowledged: 2, waited: patience * SECOND });
        }
    }
}

#[test]
fn the_acceptor_too_knows_whether_it_was_called_by_a_direct_name() {
    for (server, patience) in [(crate::script::OURS, 20), (Guid::NULL, 40)] {
        let mut script = Script::acceptor();
        script.establish(server);
        script.parameters(500, 20_000, 64);
        script.event();
        script.said();
        assert!(script.send(1, true));
        script.wait(patience * SECOND);
        assert!(matches!(script.cause(), CloseCause::AckTimeout { .. }));
    }
}

#[test]
fn any_packet_is_a_sign_of_life_for_one_more_round() {
    let mut script = Script::open_initiator(THEIRS);
    assert!(script.send(1, true));
    script.wait(15 * SECOND);
    script.message(false);
    script.wait(24 * SECOND);
    assert!(script.session.is_open(), "heard in the first round");
    script.wait(SECOND);
    assert_eq!(script.cause(), CloseCause::AckTimeout { unacknowledged: 1, waited: 20 * SECOND });
}

#[test]
fn an_acknowledgment_starts_the_wait_for_the_rest_anew() {
    let mut script = Script::open_initiator(THEIRS);
    script.send_all(&[true, true]);
    script.wait(15 * SECOND);
    script.ack(header(2, 1, 1, 0, 0));
    script.wait_almost(40 * SECOND);
    assert!(script.session.is_open(), "a round in which something was heard, and one in silence");
    script.wait(MILLISECOND);
    assert_eq!(
        script.acknowledged_then_cause(),
        ([1].into(), CloseCause::AckTimeout { unacknowledged: 1, waited: 20 * SECOND })
    );
}

#[test]
fn a_message_that_is_covered_but_not_on_disk_is_still_waited_for() {
    let mut script = Script::open_initiator(THEIRS);
    script.send_all(&[true, false]);
    script.ack(header(2, 0, 0, 0, 0));
    script.wait(60 * SECOND);
    let (tokens, cause) = script.acknowledged_then_cause();
    assert_eq!(tokens, [2]);
    assert_eq!(cause, CloseCause::AckTimeout { unacknowledged: 1, waited: 20 * SECOND });
}

#[test]
fn nobody_waits_when_everything_is_acknowledged() {
    let mut script = Script::open_initiator(THEIRS);
    script.send_all(&[true, false]);
    script.wait(SECOND);
    script.ack(header(2, 1, 1, 0, 0));
    assert_eq!(script.acknowledged(), [2, 1]);
    script.wait(250 * SECOND);
    assert!(script.session.is_open());
    // The next message has the full time again.
    assert!(script.send(3, true));
    script.wait_almost(20 * SECOND);
    assert!(script.session.is_open());
    script.wait(MILLISECOND);
    assert!(matches!(script.cause(), CloseCause::AckTimeout { .. }));
}

#[test]
fn an_idle_session_is_closed() {
    for mut script in [Script::open_acceptor(), Script::open_initiator(THEIRS)] {
        script.wait_almost(SETTINGS.cleanup_timeout);
        assert!(script.session.is_open());
        script.wait(MILLISECOND);
        assert_eq!(script.cause(), CloseCause::Idle(SETTINGS.cleanup_timeout));
    }
}

#[test]
fn a_message_either_way_is_activity_and_an_acknowledgment_is_not() {
    let mut script = Script::open_acceptor();
    script.wait(299 * SECOND);
    script.message(false);
    script.take_received();
    let receipt = script.receipts.pop_front().unwrap();
    script.session.settle(script.now, receipt, Settled::Stored);
    script.wait(300 * SECOND);
    assert!(script.session.is_open());
    assert_eq!(script.acks().len(), 1);
    assert!(script.send(1, false));
    script.ack(header(1, 0, 0, 1, 0));
    assert_eq!(script.acknowledged(), [1]);
    script.wait(300 * SECOND);
    assert!(script.session.is_open());
    script.ack(header(1, 0, 0, 1, 0));
    script.wait(SECOND);
    assert_eq!(script.cause(), CloseCause::Idle(SETTINGS.cleanup_timeout));
}

#[test]
fn an_early_call_of_the_timer_changes_nothing() {
    let mut script = Script::open_acceptor();
    script.messages(2, true);
    script.take_received();
    script.settle_all();
    let deadline = script.session.deadline();
    for _ in 0..10 {
        script.later(MILLISECOND);
        script.session.handle_timeout(script.now);
    }
    assert_eq!(script.session.deadline(), deadline);
    assert_eq!(script.acks(), []);
    assert!(script.event().is_none());
}
