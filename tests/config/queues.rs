//! Names of queues in all their spellings.

use super::{Files, MAIN, NOTHING, ROUTE, route_from, wrong_in_route};

#[test]
fn queues_that_this_machine_can_not_have_are_refused() {
    for (queue, expected) in [
        (
            r"bridge02\private$\orders",
            r#"is a queue of "bridge02", not of this machine; add that name to queue_manager.accept_as if it means this one"#,
        ),
        (
            r"DIRECT=TCP:10.9.9.9\private$\orders",
            r#"is a queue of "10.9.9.9", not of this machine; add that name to queue_manager.accept_as if it means this one"#,
        ),
        (r"private$\orders;journal", "is a journal or sub-queue; nobody sends to it"),
        (r"DIRECT=OS:bridge01\private$\orders;retry", "is a journal or sub-queue; nobody sends to it"),
        (r"system$;deadletter", "is a machine's own queue; nobody sends to it"),
        (r".\private$\ORDER_QUEUE$", "is the queue manager's own, for acknowledgments"),
        (r"private$", r"is not the name of a queue: private$\ and the queue's own name are expected"),
        (r"private$\", r"is not the name of a queue: a queue's name is expected, such as private$\orders"),
        (r"", r"is not the name of a queue: a queue's name is expected, such as private$\orders"),
        (r"\private$\orders", r"begins with a backslash; write private$\NAME or .\private$\NAME"),
        (
            r"private$\a,b",
            "is not the name of a queue: it can't hold a backslash, semicolon, plus, comma, quote or control character",
        ),
        (
            r"bridge01\a\b",
            "is not the name of a queue: it can't hold a backslash, semicolon, plus, comma, quote or control character",
        ),
        (
            r"PUBLIC=a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a",
            "is a number, not a name; write the queue's name here and its number as guid or private_id",
        ),
        (
            r"PRIVATE=a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\a",
            "is a number, not a name; write the queue's name here and its number as guid or private_id",
        ),
        (
            r"DIRECT=HTTP://bridge01/msmq/orders",
            "names a queue by a protocol that this bridge does not speak; write DIRECT=OS:",
        ),
        (r"MULTICAST=234.1.1.1:8001", "does not name one queue"),
    ] {
        let lines = wrong_in_route(&ROUTE.replace(r"private$\orders", queue));
        assert_eq!(lines, [format!("routes/orders.toml:2: from.queue: \"{queue}\" {expected}")]);
    }
    let of_length = |length| ROUTE.replace("orders'", &format!("{}'", "x".repeat(length)));
    assert_eq!(wrong_in_route(&of_length(124)), NOTHING);
    assert_eq!(wrong_in_route(&of_length(125)).len(), 1);
    let lines = wrong_in_route(&ROUTE.replace(r"private$\orders", "DIRECT=OS:"));
    assert!(
        lines[0].starts_with("routes/orders.toml:2: from.queue: \"DIRECT=OS:\" is not a format name: "),
        "{lines:?}"
    );
}

#[test]
fn every_spelling_of_a_queue_of_this_machine_is_the_same_queue() {
    for spelling in [
        r"PRIVATE$\Orders",
        r"bridge01\private$\orders",
        r"BRIDGE01.corp.example\Private$\ORDERS",
        r".\private$\orders",
        r"localhost\private$\orders",
        r"DIRECT=OS:bridge01\private$\orders",
        r"direct=tcp:10.1.2.3\PRIVATE$\orders",
        r"Direct=Tcp:127.0.0.1\private$\orders",
    ] {
        let second = ROUTE.replace(r"private$\orders", spelling);
        let lines = Files::new(MAIN).with("routes/orders.toml", ROUTE).with("routes/zz.toml", &second).problems();
        let [line] = lines.as_slice() else { panic!("{spelling}: {lines:?}") };
        assert!(line.starts_with("routes/zz.toml:2: from.queue: private$\\"), "{line}");
        assert!(line.ends_with(" is also the queue of route \"orders\" (routes/orders.toml)"), "{line}");
    }
    let public = ROUTE.replace(r"private$\orders", "orders");
    assert_eq!(Files::new(MAIN).with("routes/orders.toml", ROUTE).with("routes/zz.toml", &public).problems(), NOTHING);
}

#[test]
fn what_two_routes_can_not_share_is_named() {
    let other = |extra: &str| ROUTE.replace("orders", "other").replace("[to]", &format!("{extra}\n[to]"));
    let lines = Files::new(MAIN)
        .with("routes/a.toml", &route_from("private_id = 10"))
        .with("routes/b.toml", &other("private_id = 0xa"))
        .with("routes/A.toml", &other("").replace("other", "third"))
        .problems();
    assert_eq!(
        lines,
        [
            "routes/a.toml: the file's name differs only in case from that of route \"A\" (routes/A.toml)",
            "routes/b.toml:3: from.private_id: 10 is also the number of route \"a\" (routes/a.toml)",
        ]
    );
    let guid = "guid = \"a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a\"";
    let lines = Files::new(MAIN)
        .with("routes/a.toml", &route_from(guid).replace("private$\\", ""))
        .with("routes/b.toml", &other(&guid.to_uppercase().replace("GUID", "guid")).replace("private$\\", ""))
        .problems();
    assert_eq!(
        lines,
        [
            "routes/b.toml:3: from.guid: a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a is also the GUID of route \"a\" (routes/a.toml)",
        ]
    );
}
