//! Request and reply: MSMQ asks, a program in another language answers, the answer comes back to MSMQ.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use mqbridge::mqqb::wire::{DirectField, MessageId, QueueField, UserMessage, WideText};
use testkit::SharedBroker;

use crate::broker::{Application, Publisher, unique};
use crate::forms::python;
use crate::machine::Machine;
use crate::process::{RETURNING, Site, return_route, route};
use crate::sender::{deliver, message, runtime};

const REQUESTS: u32 = 1_000;

#[test]
fn a_thousand_requests_at_once_are_answered_each_with_its_own_answer() {
    let uri = SharedBroker::uri().unwrap();
    let (requests, answers) = (unique("requests"), unique("answers"));
    runtime().block_on(async {
        drop(Application::declare(&uri, &requests).await);
        Publisher::connect(&uri).await.declare(&answers, None).await;
    });
    let there = route("requests", &requests, "request", "", "");
    let back = return_route(&answers, r"DIRECT=OS:win01\private$\answers", "", "");
    let site = Site::new(&uri, RETURNING, &[("requests", &there), ("answers", &back)]);
    let machine = Machine::known_to(&site, "win01");
    let bridge = site.start();
    let mut responder = Command::new(python())
        .args(["tests/e2e/respond_with_pika.py", &uri, &requests, &REQUESTS.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .expect("python3 is there; `cargo xtask test` installs what it needs");

    let asked: Vec<UserMessage> = (1..=REQUESTS).map(request).collect();
    deliver(bridge.address, &asked);
    let answers = machine.wait_for(asked.len());
    assert!(responder.wait().unwrap().success());

    let mut questions: HashMap<_, _> = asked.iter().map(|asked| (asked.id(), asked)).collect();
    for answer in &answers {
        let correlation = MessageId::from_wire(answer.properties.correlation_id);
        let question =
            questions.remove(&correlation).unwrap_or_else(|| panic!("an answer to {correlation}, not asked"));
        let expected = [b"answer to ", question.properties.body.as_ref()].concat();
        assert_eq!(answer.properties.body, expected);
        assert_eq!(answer.destination().unwrap().to_string(), r"DIRECT=OS:win01\private$\answers");
    }
    assert_eq!((answers.len(), questions.len()), (asked.len(), 0));
    assert!(bridge.stop().success());
}

/// A request in the spelling of its own: the bridge finds the way back all the same.
fn request(ordinal: u32) -> UserMessage {
    let mut request = message("requests", ordinal);
    let spelling = [r"OS:win01\private$\answers", r"OS:WIN01\PRIVATE$\Answers"][ordinal as usize % 2];
    request.user.response =
        QueueField::Direct(DirectField { name: WideText::from_text(spelling), ..DirectField::default() });
    request.properties.label = None;
    request
}
