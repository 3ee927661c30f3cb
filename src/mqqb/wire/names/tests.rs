#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{DirectName, FormatName, Protocol, QueuePath, QueueSuffix, SystemQueue};

/// What people write, and what is printed for it.
const CANONICAL: &[(&str, &str)] = &[
    (r"DIRECT=OS:host\private$\orders", r"DIRECT=OS:host\private$\orders"),
    (r"direct=os:HOST\Private$\Orders", r"DIRECT=OS:HOST\private$\Orders"),
    (r"Direct=Tcp:10.1.2.3\PRIVATE$\q;Journal", r"DIRECT=TCP:10.1.2.3\private$\q;JOURNAL"),
    (r"DIRECT=TCP:2001:db8::17\private$\acks", r"DIRECT=TCP:2001:db8::17\private$\acks"),
    (r"DIRECT=OS:win-a.corp.example\orders", r"DIRECT=OS:win-a.corp.example\orders"),
    (r"DIRECT=OS:bridge01\private$\orders;retry", r"DIRECT=OS:bridge01\private$\orders;retry"),
    (r"DIRECT=OS:würzburg\private$\ответы", r"DIRECT=OS:würzburg\private$\ответы"),
    (r"DIRECT=OS:host\private$\a/b\c", r"DIRECT=OS:host\private$\a/b\c"),
    (r"DIRECT=OS:host\private$/a", r"DIRECT=OS:host\private$/a"),
    (r"DIRECT=OS:.\System$;DeadXact", r"DIRECT=OS:.\system$;DEADXACT"),
    (r"DIRECT=SPX:00000012.00a0234f7500\q", r"DIRECT=SPX:00000012.00a0234f7500\q"),
    (r"DIRECT=HTTP://host/msmq/private$/orders", r"DIRECT=HTTP://host/msmq/private$/orders"),
    (r"DIRECT=https://host:8443/MSMQ\private$\orders", r"DIRECT=HTTPS://host:8443/MSMQ/private$/orders"),
    (r"DIRECT=HTTP://[2001:db8::1]:80/msmq/a/b", r"DIRECT=HTTP://[2001:db8::1]:80/msmq/a/b"),
    ("public=aac490a4-e621-46ea-9520-85bb0466ddec", "PUBLIC=AAC490A4-E621-46EA-9520-85BB0466DDEC"),
    ("PUBLIC={AAC490A4-E621-46EA-9520-85BB0466DDEC};journal", "PUBLIC=AAC490A4-E621-46EA-9520-85BB0466DDEC;JOURNAL"),
    (r"PRIVATE=c778ca24-7c5a-4060-80c0-aeee428d53ae\a", r"PRIVATE=C778CA24-7C5A-4060-80C0-AEEE428D53AE\0000000A"),
    (
        r"private=c778ca24-7c5a-4060-80c0-aeee428d53ae\FFFFFFFF;JOURNAL",
        r"PRIVATE=C778CA24-7C5A-4060-80C0-AEEE428D53AE\FFFFFFFF;JOURNAL",
    ),
    ("dl=4e1f8c1a-fa64-4ce4-a439-39434a74c8be", "DL=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE"),
    ("DL=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE@corp.example", "DL=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE@corp.example"),
    (
        "MACHINE=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE;deadletter",
        "MACHINE=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE;DEADLETTER",
    ),
    ("Connector=4e1f8c1a-fa64-4ce4-a439-39434a74c8be", "CONNECTOR=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE"),
    (
        "CONNECTOR=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE;xactonly",
        "CONNECTOR=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE;XACTONLY",
    ),
    ("MULTICAST=234.1.1.1:57", "MULTICAST=234.1.1.1:57"),
];

#[test]
fn every_spelling_is_read_and_printed_in_one() {
    for (written, printed) in CANONICAL {
        let name: FormatName = written.parse().unwrap();
        assert_eq!(name.to_string(), *printed, "{written}");
        assert_eq!(printed.parse::<FormatName>().unwrap(), name, "{printed} means the same");
    }
}

/// What is no format name, and a word of what it is told.
const WRONG: &[(&str, &str)] = &[
    ("", "DIRECT="),
    (r"host\private$\orders", "DIRECT="),
    (r"DIRECTION=OS:host\q", "DIRECT="),
    ("DIRECT=orders", "OS:"),
    (r"DIRECT=UDP:host\q", "OS:"),
    ("DIRECT=OS:host", "backslash"),
    (r"DIRECT=OS:\q", "machine"),
    (r"DIRECT=OS:host\", "queue's name"),
    (r"DIRECT=OS:host\private$\", "queue's name"),
    (r"DIRECT=OS:host\private$\;journal", "queue's name"),
    (r"DIRECT=OS:host\q;", "sub-queue"),
    (r"DIRECT=OS:host\q;123456789012345678901234567890123", "32 characters"),
    (r"DIRECT=OS:host\system$;orders", "DEADXACT"),
    ("DIRECT=HTTP:host/msmq/q", "URL"),
    ("DIRECT=HTTP://host/q", "URL"),
    ("DIRECT=HTTP:///msmq/q", "URL"),
    ("PUBLIC=orders", "GUID"),
    ("PRIVATE=c778ca24-7c5a-4060-80c0-aeee428d53ae", "hexadecimal"),
    (r"PRIVATE=c778ca24-7c5a-4060-80c0-aeee428d53ae\", "hexadecimal"),
    (r"PRIVATE=c778ca24-7c5a-4060-80c0-aeee428d53ae\+1", "hexadecimal"),
    (r"PRIVATE=c778ca24-7c5a-4060-80c0-aeee428d53ae\123456789", "hexadecimal"),
    ("DL=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE@", "domain"),
    ("MACHINE=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE", "DEADXACT"),
    ("CONNECTOR=4E1F8C1A-FA64-4CE4-A439-39434A74C8BE;JOURNAL", "XACTONLY"),
    ("MULTICAST=10.1.1.1:57", "224.0.0.0"),
    ("MULTICAST=234.1.1.1:65536", "port"),
    ("MULTICAST=234.1.1.1:+57", "port"),
];

#[test]
fn a_wrong_name_is_told_what_is_expected() {
    for (written, word) in WRONG {
        let error = written.parse::<FormatName>().unwrap_err();
        assert!(error.why.contains(word), "{written}: {error}");
        assert!(error.to_string().contains(written), "{error}");
    }
}

#[test]
fn the_parts_of_a_direct_name() {
    let retry = Some(QueueSuffix::SubQueue("retry".to_owned()));
    let name = FormatName::parse_direct(r"TCP:10.1.2.3\private$\orders;retry").unwrap();
    let queue = QueuePath::Private { name: "orders".to_owned(), suffix: retry };
    assert_eq!(name, DirectName { protocol: Protocol::Tcp, address: "10.1.2.3".to_owned(), queue });
    assert_eq!(FormatName::parse_direct("HTTP://h:81/msmq/q").unwrap().address, "h:81/msmq");
}

#[test]
fn queues_are_named_in_lower_case_to_operators() {
    for (written, printed) in [
        (r"PRIVATE$\Orders;JOURNAL", r"private$\Orders;journal"),
        ("Orders", "Orders"),
        ("SYSTEM$;DEADLETTER", "system$;deadletter"),
    ] {
        let queue: QueuePath = written.parse().unwrap();
        assert_eq!(queue.to_string(), printed);
        assert_eq!(printed.parse::<QueuePath>().unwrap(), queue);
    }
    assert_eq!("system$;deadxact".parse(), Ok(QueuePath::System(SystemQueue::TransactionalDeadLetter)));
}

#[test]
fn a_list_names_the_element_that_is_wrong() {
    let list = r"DIRECT=OS:a\q, PUBLIC=aac490a4-e621-46ea-9520-85bb0466ddec,DL=4e1f8c1a-fa64-4ce4-a439-39434a74c8be";
    assert_eq!(FormatName::parse_list(list).unwrap().len(), 3);
    assert_eq!(FormatName::parse_list(r"DIRECT=OS:a\q,orders").unwrap_err().text, "orders");
    assert_eq!(FormatName::parse_list(r"DIRECT=OS:a\q,").unwrap_err().text, "");
}

#[test]
fn a_read_only_queue_stands_alone() {
    let journal = r"DIRECT=OS:a\private$\q;JOURNAL";
    assert_eq!(FormatName::parse_list(journal).unwrap().len(), 1);
    assert_eq!(FormatName::parse_list(&format!(r"DIRECT=OS:a\q,{journal}")).unwrap_err().text, journal);
}
