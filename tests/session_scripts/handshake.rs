//! Opening a session, in both roles (MS-MQQB 3.1.5.2.3, 3.1.5.3, 3.1.5.4).

use mqbridge::mqqb::session::{CloseCause, Event, Session, SessionSettings};
use mqbridge::mqqb::wire::{EstablishConnection, Guid, OperatingSystem, Packet};

use crate::packets::{frame, guid, start};
use crate::script::{
    MILLISECOND, OURS, SECOND, SETTINGS, Script, THEIRS, establish_bytes, golden, header, parameters_bytes,
};

#[test]
fn the_captured_session_replayed_to_an_acceptor() {
    let Packet::Establish(request) = Packet::decode(&frame(golden("frame3_establish_request"))).unwrap() else {
        panic!("frame 3")
    };
    let local = request.server;
    let mut script = Script::new(|now| Session::acceptor(SessionSettings::new(local), now));

    script.comes(golden("frame3_establish_request"));
    let said = script.said();
    let [Packet::Establish(answer)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((answer.client, answer.server, answer.timestamp), (request.client, local, request.timestamp));
    assert!(!answer.internal.refused);
    let se = OperatingSystem::NO_PING_SENT;
    assert_eq!(answer.operating_system.0 & se, request.operating_system.0 & se);
    assert_eq!(answer.operating_system.0 & 0xFF, OperatingSystem::RESERVED_LOW_BYTE);
    assert!(answer.padding.len() == 512 && answer.padding.iter().all(|byte| *byte == 0x5A));

    script.comes(golden("frame5_parameters_request"));
    let said = script.said();
    let [Packet::Parameters(answer)] = said.as_slice() else { panic!("{said:?}") };
    let Packet::Parameters(captured) = Packet::decode(&frame(golden("frame6_parameters_response"))).unwrap() else {
        panic!("frame 6")
    };
    assert_eq!(
        (answer.recoverable_ack_timeout, answer.ack_timeout, answer.window_size),
        (captured.recoverable_ack_timeout, captured.ack_timeout, captured.window_size)
    );
    assert!(matches!(script.event(), Some(Event::Opened { remote }) if remote == request.client));

    script.comes(golden("frame7_completed"));
    let message = script.take_received().pop().expect("frame 7");
    assert_eq!(message.properties.body.len(), 2000);
    script.settle_all();
    assert_eq!(script.acks(), [], "an express message waits for half of AckTimeout, 120 s");
    script.wait(60 * SECOND);
    let Packet::SessionAck(captured) = Packet::decode(&frame(golden("frame8_session_ack"))).unwrap() else {
        panic!("frame 8")
    };
    assert_eq!(script.acks(), [captured.header]);
}

#[test]
fn the_captured_session_replayed_to_an_initiator() {
    let Packet::Establish(answer) = Packet::decode(&frame(golden("frame4_establish_response"))).unwrap() else {
        panic!("frame 4")
    };
    let mut script = Script::new(|now| Session::initiator(SessionSettings::new(answer.client), answer.server, now));
    script.said();
    script.comes(golden("frame4_establish_response"));
    assert!(matches!(script.said().as_slice(), [Packet::Parameters(_)]));
    script.comes(golden("frame6_parameters_response"));
    assert!(matches!(script.event(), Some(Event::Opened { remote }) if remote == answer.server));
    assert!(script.send(7, false));
    assert!(matches!(script.said().as_slice(), [Packet::User(message)] if message.session.is_none()));
    script.comes(golden("frame8_session_ack"));
    assert_eq!(script.acknowledged(), [7]);
}

#[test]
fn an_initiator_introduces_itself_at_once() {
    let mut script = Script::initiator(THEIRS);
    let timestamp = script.now.as_timestamp();
    let said = script.said();
    let [Packet::Establish(request)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((request.client, request.server, request.timestamp), (OURS, THEIRS, timestamp));
    assert!(!request.internal.refused);
    assert_ne!(request.operating_system.0 & OperatingSystem::NO_PING_SENT, 0, "no ping was sent");
    assert_eq!(script.session.remote(), None);
}

#[test]
fn an_acceptor_answers_to_its_own_name_and_to_none() {
    for server in [OURS, Guid::NULL] {
        let mut script = Script::acceptor();
        script.establish(server);
        let said = script.said();
        let [Packet::Establish(answer)] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!((answer.client, answer.server, answer.internal.refused), (THEIRS, OURS, false));
        assert_eq!(script.session.remote(), Some(THEIRS));
        script.parameters(500, 20_000, 64);
        assert!(matches!(script.event(), Some(Event::Opened { remote: THEIRS })));
    }
}

#[test]
fn an_acceptor_refuses_who_looks_for_somebody_else() {
    let mut script = Script::acceptor();
    script.establish(guid(9));
    let said = script.said();
    let [Packet::Establish(answer)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((answer.client, answer.server, answer.internal.refused), (THEIRS, OURS, true), "A-45: our own GUID");
    assert_eq!(answer.timestamp, 4711);
    assert_eq!(script.cause(), CloseCause::WrongServer { wanted: guid(9), own: OURS });
    script.parameters(500, 20_000, 64);
    assert!(script.said().is_empty() && script.event().is_none());
}

#[test]
fn an_acceptor_without_room_answers_with_a_refusal() {
    let mut script = Script::new(|now| Session::refusing_acceptor(SETTINGS, "1024 sessions are open".into(), now));
    script.establish(OURS);
    assert!(matches!(script.said().as_slice(), [Packet::Establish(answer)] if answer.internal.refused));
    assert_eq!(script.cause(), CloseCause::Local("1024 sessions are open".into()));
}

#[test]
fn an_initiator_is_told_of_a_refusal() {
    let mut script = Script::initiator(THEIRS);
    script.answer(|mut answer| {
        answer.internal.refused = true;
        answer.server = guid(9);
        answer
    });
    assert_eq!(script.cause(), CloseCause::Refused, "whatever else the refusal says (A-45)");
    assert!(script.said().is_empty());

    let mut script = Script::initiator(THEIRS);
    script.answer(|answer| answer);
    let said = script.said();
    let &[Packet::Parameters(mut parameters)] = said.as_slice() else { panic!("{said:?}") };
    parameters.internal.refused = true;
    script.comes(parameters_bytes(&parameters));
    assert_eq!(script.cause(), CloseCause::Refused);
}

#[test]
fn an_acceptor_is_told_that_its_caller_gave_up() {
    let mut script = Script::acceptor();
    let mut request = EstablishConnection::request(THEIRS, OURS, 1, false);
    request.internal.refused = true;
    script.comes(establish_bytes(&request));
    assert_eq!(script.cause(), CloseCause::Refused);
    assert!(script.said().is_empty());
}

#[test]
fn an_initiator_wants_its_own_name_back_and_the_one_it_called() {
    let mut script = Script::initiator(THEIRS);
    script.answer(|mut answer| {
        answer.client = guid(9);
        answer
    });
    assert_eq!(script.cause(), CloseCause::WrongClient { own: OURS, got: guid(9) });

    let mut script = Script::initiator(THEIRS);
    script.answer(|mut answer| {
        answer.server = guid(9);
        answer
    });
    assert_eq!(script.cause(), CloseCause::WrongAnswer { wanted: THEIRS, got: guid(9) });

    // Whoever answers to a direct name is the right one.
    let mut script = Script::initiator(Guid::NULL);
    script.answer(|mut answer| {
        answer.server = guid(9);
        answer
    });
    script.parameters(500, 20_000, 64);
    assert!(matches!(script.event(), Some(Event::Opened { remote }) if remote == guid(9)));
    assert_eq!(script.session.remote(), Some(guid(9)));
}

#[test]
fn the_initiator_measures_the_round_trip_within_limits() {
    for (round_trip, expected) in [(0, 500), (62, 500), (63, 504), (1_000, 8_000), (15_000, 120_000), (15_001, 120_000)]
    {
        let mut script = Script::initiator(THEIRS);
        script.later(round_trip * MILLISECOND);
        script.answer(|mut answer| {
            answer.timestamp = 0; // The repeated time stamp may lie.
            answer
        });
        let said = script.said();
        let [Packet::Parameters(parameters)] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(parameters.recoverable_ack_timeout, expected, "round trip of {round_trip} ms");
        assert_eq!((parameters.ack_timeout, parameters.window_size), (20_000, 64));
    }
}

#[test]
fn parameters_are_repeated_as_they_came_but_kept_within_limits() {
    for (ack_timeout, kept) in [(0, 20), (19_999, 20), (30_000, 30), (u32::MAX, 120)] {
        let mut script = Script::acceptor();
        script.establish(OURS);
        script.said();
        script.parameters(u32::MAX, ack_timeout, 7);
        let said = script.said();
        let [Packet::Parameters(answer)] = said.as_slice() else { panic!("{said:?}") };
        assert_eq!(
            (answer.recoverable_ack_timeout, answer.ack_timeout, answer.window_size),
            (u32::MAX, ack_timeout, 64)
        );
        assert!(matches!(script.event(), Some(Event::Opened { .. })));
        assert_eq!(script.session.window_left(), 7, "the smaller window (A-13)");
        assert!(script.send(1, false));
        script.wait_almost(kept * SECOND);
        assert!(script.session.is_open());
        script.wait(MILLISECOND);
        assert_eq!(script.cause(), CloseCause::AckTimeout { unacknowledged: 1, waited: kept * SECOND });
    }
}

#[test]
fn our_own_settings_are_kept_within_limits() {
    let settings = SessionSettings { window: 0, ack_timeout: SECOND, ..SETTINGS };
    let mut script = Script::new(|now| Session::initiator(settings, THEIRS, now));
    script.answer(|answer| answer);
    let said = script.said();
    let [Packet::Parameters(parameters)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((parameters.ack_timeout, parameters.window_size), (20_000, 1));
}

#[test]
fn the_window_of_the_answer_counts_and_nothing_else_of_it() {
    let mut script = Script::initiator(THEIRS);
    script.answer(|answer| answer);
    script.said();
    script.parameters(1, 120_000, 5);
    assert!(matches!(script.event(), Some(Event::Opened { .. })));
    assert_eq!(script.session.window_left(), 5);
    assert!(script.send(1, false));
    script.wait(20 * SECOND);
    assert_eq!(script.cause(), CloseCause::AckTimeout { unacknowledged: 1, waited: 20 * SECOND });
}

#[test]
fn a_handshake_takes_no_longer_than_its_timer_in_any_state() {
    let limit = SETTINGS.initialization_timeout;
    let waiting_for_parameters = {
        let mut script = Script::acceptor();
        script.later(limit / 2);
        script.establish(OURS);
        script
    };
    let waiting_for_answered_parameters = {
        let mut script = Script::initiator(THEIRS);
        script.later(limit / 2);
        script.answer(|answer| answer);
        script
    };
    let scripts =
        [Script::acceptor(), Script::initiator(THEIRS), waiting_for_parameters, waiting_for_answered_parameters];
    for mut script in scripts {
        script.said();
        let start = start();
        script.wait_almost(limit.saturating_sub(script.now - start));
        assert!(!script.session.is_closed());
        script.wait(MILLISECOND);
        assert_eq!(script.cause(), CloseCause::Initialization(limit));
        assert!(script.said().is_empty());
    }
}

#[test]
fn the_handshake_timer_ends_with_the_handshake() {
    for mut script in [Script::open_acceptor(), Script::open_initiator(THEIRS)] {
        script.wait(SETTINGS.initialization_timeout * 2);
        assert!(script.session.is_open());
        script.ack(header(0, 0, 0, 0, 0));
        assert!(script.session.is_open());
    }
}
