//! What a file asks for and this version can't do is never passed over.

use super::{Files, MAIN, NOTHING, route_from, route_to, wrong_in_route};

#[test]
fn what_this_version_can_not_do_is_an_error() {
    let unsupported =
        |key: &str, what: &str, remedy: &str| format!("{key}: {what}is not supported by this version; {remedy}");
    for (route, line, expected) in [
        (
            route_from("transactional = true"),
            3,
            unsupported("from.transactional", "true ", "write transactional = false"),
        ),
        (
            route_from("transactional = \"both\""),
            3,
            unsupported("from.transactional", "\"both\" ", "write transactional = false"),
        ),
        (
            route_from("journal = true"),
            3,
            unsupported("from.journal", "true ", "bind a second queue to the exchange for a copy"),
        ),
        (
            route_from("trust = [\"ca.pem\"]"),
            3,
            unsupported(
                "from.trust",
                "[\"ca.pem\"] ",
                "external certificates are not traced to an authority; register them for their users in the directory",
            ),
        ),
        (
            route_to("unpack = \"nservicebus\""),
            6,
            unsupported("to.unpack", "", "extensions are passed on as they came, in the header msmq-extension"),
        ),
    ] {
        assert_eq!(wrong_in_route(&route), [format!("routes/orders.toml:{line}: {expected}")]);
    }
    // What asks for nothing but what is done anyway.
    for harmless in [
        "transactional = false",
        "trust = []",
        "min_hash = \"md5\"",
        "ciphers = [\"rc2\", \"rsa512\"]",
        "senders = [\"S-1-5-21-1-2-3-1104\"]",
    ] {
        assert_eq!(wrong_in_route(&route_from(harmless)), NOTHING, "{harmless}");
    }
}

#[test]
fn who_nobody_can_look_up_is_a_warning_and_a_user_s_name_an_error() {
    for (keys, expected) in [
        (
            "senders = [\"clerks\"]",
            "mqbridge.toml: warning: route orders lets the group \"clerks\" send, and there is no [directory] that says who is in \
             it: nobody may",
        ),
        (
            "authenticate = \"required\"",
            "mqbridge.toml: warning: route orders takes proven senders only, and there is no [directory] with their \
             certificates: it takes nothing",
        ),
        (
            "senders = ['CORP\\anna']",
            "routes/orders.toml:3: from.senders: \"CORP\\anna\" is a user's name; write the SID, or a group that the user is in",
        ),
    ] {
        assert_eq!(wrong_in_route(&route_from(keys)), [expected], "{keys}");
    }
}

/// The example of a route to MSMQ in the contract.
const TO_MSMQ: &str = "\
[from]
connector = \"rabbit\"
queue = \"replies\"
prefetch = 256
settle_after = \"1m\"
[to]
queue = 'DIRECT=OS:win01\\private$\\replies'
delivery = \"recoverable\"
time_to_reach_queue = \"4d\"
time_to_be_received = \"infinite\"
body_type = \"bytes\"
journal = false
dead_letter = true
carry_headers = true
ack = [\"reach\", \"receive\"]
[security]
mode = \"non-transparent\"
sign = true
encrypt = \"aes256\"
signature_form = \"wire\"
";

#[test]
fn a_route_to_msmq_is_told_what_it_asks_for_in_vain() {
    assert_eq!(with_directory(TO_MSMQ), NOTHING);
    let asking = TO_MSMQ.replace("journal = false", "journal = true").replace("\"recoverable\"", "\"transactional\"");
    let more = with_directory(&asking);
    assert_eq!(more.len(), 2, "{more:?}");
    assert!(more[0].contains("to.delivery") && more[1].contains("to.journal"), "{more:?}");
}

/// What is wrong with a route, beside a main file with a directory.
fn with_directory(route: &str) -> Vec<String> {
    Files::new(&format!("{MAIN}[directory]\nkind = \"file\"\n")).with("routes/orders.toml", route).problems()
}

#[test]
fn what_security_asks_for_must_make_sense() {
    let no_directory = "needs the receiver's public key, and there is no [directory] in the main file to look it up in";
    assert_eq!(wrong_in_route(TO_MSMQ), [format!("routes/orders.toml:19: security.encrypt: {no_directory}")]);
    let reseal = route_to("[security]\nreseal_for = \"warehouse\"\nreseal_as = \"jwe\"");
    assert_eq!(wrong_in_route(&reseal), [format!("routes/orders.toml:7: security.reseal_for: {no_directory}")]);
    assert_eq!(with_directory(&reseal), NOTHING);
    let passes_on =
        "a transparent route passes on what its messages bring; remove it, or write mode = \"non-transparent\"";
    let opens_nothing =
        "a transparent route opens nothing that could be encrypted again; write mode = \"non-transparent\"";
    let transparent = |text: &str| text.replace("[security]\n", "[security]\nmode = \"transparent\"\n");
    for (route, expected) in [
        (
            transparent(&TO_MSMQ.replace("mode = \"non-transparent\"\n", "")),
            vec![format!("18: security.sign: {passes_on}"), format!("19: security.encrypt: {passes_on}")],
        ),
        (transparent(&reseal), vec![format!("8: security.reseal_for: {opens_nothing}")]),
        (
            route_to("[security]\nreseal_as = \"jwe\""),
            vec!["7: security.reseal_as: says how, and reseal_for does not say for which machine".to_owned()],
        ),
        (
            route_to("[security]\nreseal_for = \"\""),
            vec!["7: security.reseal_for: write the name of a machine in the directory".to_owned()],
        ),
        (
            format!("{PLAIN_TO_MSMQ}[security]\nsignature_form = \"wire\"\n"),
            vec!["7: warning: security.signature_form: has no effect without sign = true".to_owned()],
        ),
        (
            format!("{PLAIN_TO_MSMQ}[security]\nencrypt = \"des\"\n"),
            vec![
                "7: security.encrypt: \"des\" is not \"aes128\", \"aes192\", \"aes256\", \"rc2\" or \"rc4\"".to_owned(),
            ],
        ),
    ] {
        let expected: Vec<_> = expected.iter().map(|line| format!("routes/orders.toml:{line}")).collect();
        assert_eq!(with_directory(&route), expected, "{route}");
    }
}

const PLAIN_TO_MSMQ: &str = "\
[from]
connector = \"rabbit\"
queue = \"replies\"
[to]
queue = 'DIRECT=OS:win01\\private$\\replies'
";

#[test]
fn faults_of_a_route_to_msmq_are_named_with_line_and_remedy() {
    assert_eq!(wrong_in_route(PLAIN_TO_MSMQ), NOTHING);
    assert_eq!(wrong_in_route(&PLAIN_TO_MSMQ.replace(r"DIRECT=OS:win01\private$\replies", "{Reply_To}")), NOTHING);
    for (given, wrong, expected) in [
        ("\"rabbit\"", "\"rabit\"", "2: from.connector: there is no connector \"rabit\"; did you mean \"rabbit\"?"),
        (
            "queue = \"replies\"\n",
            "",
            "1: from.queue: is missing; write the name of the AMQP queue, such as queue = \"replies\"",
        ),
        ("\"replies\"", "\"\"", "3: from.queue: the name of a queue has 1 to 255 bytes"),
        ("[to]", "prefech = 1\n[to]", "4: from.prefech: unknown key; did you mean \"prefetch\"?"),
        (
            "win01",
            "bridge01",
            "5: to.queue: DIRECT=OS:bridge01\\private$\\replies is a queue of this machine; a route leads to queues of others",
        ),
        (
            "replies'",
            "replies;journal'",
            "5: to.queue: DIRECT=OS:win01\\private$\\replies;JOURNAL is a journal or dead-letter queue; nobody sends to it",
        ),
        (
            "replies'",
            "replies;retry'",
            "5: to.queue: DIRECT=OS:win01\\private$\\replies;retry is a sub-queue; other machines can't send to it",
        ),
        (
            "'DIRECT=OS:win01\\private$\\replies'",
            "'DL=c778ca24-7c5a-4060-80c0-aeee428d53ae'",
            "5: to.queue: DL=C778CA24-7C5A-4060-80C0-AEEE428D53AE is not one queue; DIRECT=, PRIVATE= and PUBLIC= names can be sent to",
        ),
        (
            "replies'\n",
            "replies'\nbody_type = \"blob\"\n",
            "6: to.body_type: is no body type: \"bytes\", \"bstr\", \"lpstr\", \"lpwstr\" or a number such as \"0x1011\" is expected",
        ),
        (
            "replies'\n",
            "replies'\ntime_to_reach_queue = 4\n",
            "6: to.time_to_reach_queue: a time such as \"4d\" or \"infinite\" is expected, not an integer",
        ),
        (
            "replies'\n",
            "replies'\nack = [\"recieve\"]\n",
            "6: to.ack: \"recieve\" is not \"reach\" or \"receive\"; did you mean \"receive\"?",
        ),
    ] {
        let text = PLAIN_TO_MSMQ.replacen(given, wrong, 1);
        assert_eq!(wrong_in_route(&text), [format!("routes/orders.toml:{expected}")], "{wrong}");
    }
}
