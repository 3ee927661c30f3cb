//! What no honest peer does: each of these ends the session with a cause that names it, and never more than that.

use bytes::Bytes;
use mqbridge::mqqb::session::{CloseCause, Event, SendToken};
use mqbridge::mqqb::wire::{
    ConnectionParameters, DeliveryMode, EstablishConnection, Malformed, Packet, Padding, Reason, SessionAck,
    SessionHeader, SoapHeader, SoapSection, WideText,
};

use crate::packets::{encode, frame, message};
use crate::script::{OURS, Script, THEIRS, ack_bytes, establish_bytes, golden, header, parameters_bytes};

/// One packet of each kind, by its name.
fn packets() -> [(&'static str, Bytes); 4] {
    [
        ("EstablishConnection", establish_bytes(&EstablishConnection::request(THEIRS, OURS, 1, false))),
        ("ConnectionParameters", parameters_bytes(&ConnectionParameters::new(500, 20_000, 64))),
        ("SessionAck", ack_bytes(&SessionAck::new(header(0, 0, 0, 0, 0)))),
        ("UserMessage", encode(&message(DeliveryMode::Recoverable))),
    ]
}

#[test]
fn each_state_accepts_its_own_packets_and_no_others() {
    type Make = fn() -> Script;
    let states: [(&str, &[&str], Make); 6] = [
        ("waiting for EstablishConnection", &["EstablishConnection"], Script::acceptor),
        ("waiting for ConnectionParameters", &["ConnectionParameters"], || {
            let mut script = Script::acceptor();
            script.establish(OURS);
            script
        }),
        // A request does not pass for an answer, but it is not of the wrong kind.
        ("waiting for the answer to EstablishConnection", &["EstablishConnection"], || Script::initiator(THEIRS)),
        ("waiting for the answer to ConnectionParameters", &["ConnectionParameters"], || {
            let mut script = Script::initiator(THEIRS);
            script.answer(|answer| answer);
            script
        }),
        ("open", &["SessionAck", "UserMessage"], Script::open_acceptor),
        ("open", &["SessionAck", "UserMessage"], || Script::open_initiator(THEIRS)),
    ];
    for (state, accepted, make) in states {
        for (packet, bytes) in packets() {
            let mut script = make();
            script.said();
            script.comes(bytes);
            if accepted.contains(&packet) {
                let wrong = matches!(script.event(), Some(Event::Closed(CloseCause::Unexpected { .. })));
                assert!(!wrong, "{packet} while {state}");
            } else {
                let cause = script.cause();
                assert_eq!(cause, CloseCause::Unexpected { packet, state });
                assert_eq!(cause.to_string(), format!("unexpected {packet} packet while {state}"));
                assert!(script.said().is_empty());
            }
        }
    }
}

#[test]
fn a_malformed_packet_ends_the_session_in_any_state() {
    let mut bytes = golden("frame7_completed").to_vec();
    let label_length =
        bytes.windows(2).position(|pair| pair == [0x0F, 0x0F]).expect("ack request and label length") + 1;
    bytes[label_length] = 0xFF;
    let bytes = Bytes::from(bytes);
    let malformed = Packet::decode(&frame(bytes.clone())).expect_err("a label of 255 characters");
    for mut script in [Script::acceptor(), Script::initiator(THEIRS), Script::open_acceptor()] {
        script.said();
        script.comes(bytes.clone());
        assert_eq!(script.cause(), CloseCause::Malformed(malformed));
        assert!(script.said().is_empty());
    }
}

#[test]
fn a_stream_that_cannot_be_cut_is_reported_by_the_driver() {
    let mut script = Script::open_acceptor();
    script.messages(2, true);
    script.take_received();
    script.settle();
    let malformed = Malformed { field: "BaseHeader.Signature", reason: Reason::Value(0) };
    script.close(malformed.into());
    assert_eq!(script.acks(), [header(1, 1, 1, 0, 0)], "what was good before it is acknowledged");
    assert_eq!(script.cause(), CloseCause::Malformed(malformed));
}

#[test]
fn a_soap_header_does_not_belong_on_this_port() {
    let mut message = message(DeliveryMode::Recoverable);
    let section = SoapSection { reserved: 0, text: Some(WideText::from_text("<a/>")), padding: Padding::default() };
    message.soap = Some(SoapHeader { header: section.clone(), body: section });
    let mut script = Script::open_acceptor();
    script.comes(encode(&message));
    assert!(script.take_received().is_empty());
    let cause = script.cause();
    assert!(matches!(cause, CloseCause::Malformed(Malformed { field: "SoapHeader", .. })), "{cause}");
}

#[test]
fn acknowledgments_of_what_was_never_sent_end_the_session_and_acknowledge_nothing() {
    let lies = [
        (header(4, 0, 0, 0, 0), CloseCause::FalseAck { what: "message", number: 4 }),
        (header(0x8002, 0, 0, 0, 0), CloseCause::FalseAck { what: "message", number: 0x8002 }),
        (header(0xFFFF, 0, 0, 0, 0), CloseCause::FalseAck { what: "message", number: 0xFFFF }),
        (header(3, 3, 1, 0, 0), CloseCause::FalseAck { what: "recoverable message", number: 3 }),
        (header(3, 1, 0b111, 0, 0), CloseCause::FalseAck { what: "recoverable message", number: 3 }),
        (header(3, 1, 0x8000_0001, 0, 0), CloseCause::FalseAck { what: "recoverable message", number: 32 }),
        // Number 0 is message 65536.
        (header(3, 0, 0b11, 0, 0), CloseCause::FalseAck { what: "recoverable message", number: 0 }),
        (header(3, 0xFFFF, 0b1, 0, 0), CloseCause::FalseAck { what: "recoverable message", number: 0xFFFF }),
    ];
    for (lie, cause) in lies {
        let mut script = Script::open_acceptor();
        script.send_all(&[true, false, true]);
        script.message(true);
        script.take_received();
        script.settle_all();
        script.said();
        script.ack(SessionHeader { user_sequence_number: 1, recoverable_sequence_number: 1, ..lie });
        assert_eq!(script.cause(), cause);
        assert!(script.said().is_empty(), "the two sides may count differently: nothing is acknowledged");
    }
}

#[test]
fn a_lying_count_in_an_acknowledgment_ends_the_session() {
    for (sent, recoverable_sent, cause) in [
        (1, 1, CloseCause::Counts { what: "messages", theirs: 1, ours: 2 }),
        (3, 1, CloseCause::Counts { what: "messages", theirs: 3, ours: 2 }),
        (2, 0, CloseCause::Counts { what: "recoverable messages", theirs: 0, ours: 1 }),
        (2, 2, CloseCause::Counts { what: "recoverable messages", theirs: 2, ours: 1 }),
    ] {
        let mut script = Script::open_acceptor();
        script.message(true);
        script.message(false);
        script.take_received();
        script.settle_all();
        assert!(script.send(9, false));
        script.said();
        script.ack(header(1, 0, 0, sent, recoverable_sent));
        assert!(matches!(script.event(), Some(Event::Acknowledged(SendToken(9)))), "before it is judged (3.1.5.5)");
        assert_eq!(script.cause(), cause);
        assert_eq!(script.acks(), [], "our count means nothing to the other side");
    }
}

#[test]
fn a_message_is_delivered_before_its_lying_header_ends_the_session() {
    let mut script = Script::open_acceptor();
    script.message_with(true, &header(0, 0, 0, 0, 0));
    assert_eq!(script.take_received().len(), 1, "MS-MQMQ note 14");
    assert_eq!(script.cause(), CloseCause::Counts { what: "messages", theirs: 0, ours: 1 });

    let mut script = Script::open_acceptor();
    script.message_with(true, &header(0, 0, 0, 1, 1));
    assert!(script.session.is_open(), "the carrying message is counted (A-27)");
}

#[test]
fn after_the_end_nothing_happens() {
    let mut script = Script::open_acceptor();
    script.message(true);
    script.take_received();
    script.send_all(&[true]);
    script.said();
    script.close(CloseCause::Local("first".into()));
    script.close(CloseCause::Local("second".into()));
    for (_, bytes) in packets() {
        script.comes(bytes);
    }
    script.settle_all();
    script.session.handle_timeout(script.now + crate::script::SECOND * 1000);
    assert!(!script.send(2, true));
    assert!(script.said().is_empty());
    assert_eq!(script.cause(), CloseCause::Local("first".into()));
}
