//! What a file asks for and this version can't do is never passed over.

use super::{NOTHING, route_from, route_to, wrong_in_route};

#[test]
fn what_this_version_can_not_do_is_an_error_and_what_it_need_not_do_a_warning() {
    let unsupported =
        |key: &str, what: &str, remedy: &str| format!("{key}: {what}is not supported by this version; {remedy}");
    let no_signatures = "signatures are not verified, no message counts as authenticated";
    let as_they_came = "bodies are passed on as they came or not at all";
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
            route_from("authenticate = \"required\""),
            3,
            unsupported("from.authenticate", "\"required\" ", no_signatures),
        ),
        (
            route_from("privacy = \"required\""),
            3,
            unsupported("from.privacy", "\"required\" ", "write privacy = \"optional\" or \"none\""),
        ),
        (
            route_from("senders = [\"S-1-5-21-1-2-3-1104\", \"orders-senders\"]"),
            3,
            unsupported(
                "from.senders",
                "[\"S-1-5-21-1-2-3-1104\", \"orders-senders\"] ",
                "write senders = [\"everyone\"]",
            ),
        ),
        (
            route_from("journal = true"),
            3,
            unsupported("from.journal", "true ", "bind a second queue to the exchange for a copy"),
        ),
        (route_from("trust = [\"ca.pem\"]"), 3, unsupported("from.trust", "[\"ca.pem\"] ", no_signatures)),
        (
            route_to("unpack = \"nservicebus\""),
            6,
            unsupported("to.unpack", "", "extensions are passed on as they came, in the header msmq-extension"),
        ),
        (route_to("[security]\nreseal_for = \"warehouse\""), 7, unsupported("security.reseal_for", "", as_they_came)),
        (route_to("[security]\nreseal_as = \"jwe\""), 7, unsupported("security.reseal_as", "", as_they_came)),
        (
            route_from("min_hash = \"sha256\""),
            3,
            format!("warning: from.min_hash: \"sha256\" has no effect in this version: {no_signatures}"),
        ),
        (
            route_from("ciphers = [\"rc2\", \"rc4\"]"),
            3,
            "warning: from.ciphers: [\"rc2\", \"rc4\"] has no effect in this version: no body is opened".to_owned(),
        ),
    ] {
        assert_eq!(wrong_in_route(&route), [format!("routes/orders.toml:{line}: {expected}")]);
    }
    // What asks for nothing but what is done anyway.
    for harmless in
        ["transactional = false", "trust = []", "min_hash = \"sha1\"", "ciphers = [\"aes128\", \"aes192\", \"aes256\"]"]
    {
        assert_eq!(wrong_in_route(&route_from(harmless)), NOTHING, "{harmless}");
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
fn what_a_route_to_msmq_asks_for_in_vain_is_refused_and_the_rest_understood() {
    let security = [
        "routes/orders.toml:18: security.sign: true is not supported by this version; messages are sent unsigned",
        "routes/orders.toml:19: security.encrypt: is not supported by this version; bodies are sent in clear",
        "routes/orders.toml:20: warning: security.signature_form: has no effect in this version: messages are sent unsigned",
    ];
    assert_eq!(wrong_in_route(TO_MSMQ), security);
    let plain = TO_MSMQ.split("sign = ").next().unwrap();
    assert_eq!(wrong_in_route(plain), NOTHING);
    let faulty = plain.replace("prefetch", "prefech").replace("\"4d\"", "4").replace("\"receive\"", "\"recieve\"");
    assert_eq!(
        wrong_in_route(&faulty),
        [
            "routes/orders.toml:4: from.prefech: unknown key; did you mean \"prefetch\"?",
            "routes/orders.toml:9: to.time_to_reach_queue: a time such as \"4d\" or \"infinite\" is expected, not an integer",
            "routes/orders.toml:15: to.ack: \"recieve\" is not \"reach\" or \"receive\"; did you mean \"receive\"?",
        ]
    );
    for (line, key, remedy) in [
        ("delivery = \"transactional\"", "to.delivery: \"transactional\" ", "write delivery = \"recoverable\""),
        ("journal = true", "to.journal: true ", "no copies are kept of what is sent"),
        ("mode = \"transparent\"", "security.mode: \"transparent\" ", "bodies are sent in clear"),
    ] {
        let name = line.split(' ').next().unwrap();
        let route: String = plain
            .lines()
            .map(|old| if old.starts_with(&format!("{name} =")) { line } else { old })
            .fold(String::new(), |text, line| text + line + "\n");
        let number = 1 + route.lines().position(|it| it == line).unwrap();
        let refusal = format!("routes/orders.toml:{number}: {key}is not supported by this version; {remedy}");
        assert_eq!(wrong_in_route(&route), [refusal]);
    }
}
