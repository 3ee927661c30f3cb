//! All that is wrong at once, with line, key and what would be right.

use super::{ALICE, ORDERS, Site, WIN01, wrong};

#[test]
fn an_empty_file_and_every_entry_at_its_barest_are_right() {
    for text in [
        "",
        "# nobody yet\n",
        "[[user]]\nsid = \"S-1-1-0\"\nname = \"x\"\n",
        "[[machine]]\nguid = \"c778ca24-7c5a-4060-80c0-aeee428d53ae\"\nname = \"x\"\n",
        "[[queue]]\npath = 'x\\y'\naccess = []\n",
    ] {
        assert_eq!(wrong(text), [] as [String; 0], "{text}");
    }
}

#[test]
fn everything_wrong_is_said_at_once_with_line_key_and_remedy() {
    let text = r#"[[users]]
name = "x"
[[user]]
sid = "S-1-5-x"
nmae = 'CORP\bob'
groups = ["everyone", "", "S-1-5-y"]
certificates = ["nowhere.der", "directory.toml", "key.pem"]
[[machine]]
guid = "00000000-0000-0000-0000-000000000000"
name = "10.1.2.3"
addresses = ["10.1.2.300", "win02:0"]
key_files = ["alice.der", "key.blob"]
[[queue]]
path = 'private$\orders'
[[queue]]
path = 'bridge01\private$\orders'
guid = "a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a"
private_id = 0
[[queue]]
private_id = 5
"#;
    let address = "an IP address or a host name, with or without a port, is expected, such as 10.1.2.3, 10.1.2.3:1801 or \
                   win01.corp.example";
    let sid = "is not a SID: S-1-, an authority and up to 15 numbers are expected, such as S-1-5-21-1-2-3-1104";
    assert_eq!(
        wrong(text),
        [
            "directory.toml:1: users: unknown key; did you mean \"user\"?".to_owned(),
            r"directory.toml:3: user.name: is missing; write the user's name for people, such as name = 'CORP\alice'".to_owned(),
            format!("directory.toml:4: user.sid: \"S-1-5-x\" {sid}"),
            "directory.toml:5: user.nmae: unknown key; did you mean \"name\"?".to_owned(),
            "directory.toml:6: user.groups: everyone is in \"everyone\"; remove it".to_owned(),
            "directory.toml:6: user.groups: an empty name is nobody's".to_owned(),
            format!("directory.toml:6: user.groups: \"S-1-5-y\" {sid}"),
            "directory.toml:7: user.certificates: nowhere.der does not exist".to_owned(),
            "directory.toml:7: user.certificates: directory.toml is not a certificate, neither DER nor PEM (BEGIN CERTIFICATE)"
                .to_owned(),
            "directory.toml:7: user.certificates: key.pem is not a certificate, neither DER nor PEM (BEGIN CERTIFICATE)".to_owned(),
            "directory.toml:9: machine.guid: the null GUID identifies nothing".to_owned(),
            "directory.toml:10: machine.name: \"10.1.2.3\" is not the name of a computer; where it can be reached goes into \
             addresses"
                .to_owned(),
            format!("directory.toml:11: machine.addresses: \"10.1.2.300\" is no address: {address}"),
            format!("directory.toml:11: machine.addresses: \"win02:0\" is no address: {address}"),
            "directory.toml:12: machine.key_files: alice.der is of no use: it is not an RSA public key: neither PEM (BEGIN \
             PUBLIC KEY) nor a PUBLICKEYBLOB"
                .to_owned(),
            "directory.toml:12: machine.key_files: a list holds the one key that serves all providers; for several write \
             key_files = { base = \"…\", enhanced = \"…\", aes = \"…\" }"
                .to_owned(),
            "directory.toml:14: queue.path: \"private$\\orders\" is no path name: a machine and its queue are expected, such as \
             'bridge01\\orders' or 'bridge01\\private$\\orders'"
                .to_owned(),
            "directory.toml:17: queue.guid: a private queue has no GUID of its own; write private_id".to_owned(),
            "directory.toml:18: queue.private_id: 0 is not from 1 to 4294967295".to_owned(),
            r"directory.toml:19: queue.path: is missing; write machine and queue, such as path = 'bridge01\orders'".to_owned(),
        ]
    );
}

#[test]
fn nobody_is_there_twice() {
    let both = format!("{ALICE}{ALICE}{WIN01}{WIN01}{ORDERS}{ORDERS}");
    let both = both.replacen("win01\"\n", "WIN01\"\n", 1).replacen(r"bridge01\orders", r"Bridge01\ORDERS", 1);
    assert_eq!(
        wrong(&both),
        [
            "directory.toml:7: user.sid: is that of another user too, in line 2",
            "directory.toml:10: user.certificates: is that of another entry too, in line 5",
            "directory.toml:18: machine.guid: is that of another machine too, in line 12",
            "directory.toml:19: machine.name: is that of another machine too, in line 13",
            "directory.toml:31: queue.path: is that of another queue too, in line 24",
            "directory.toml:32: queue.guid: is that of another queue too, in line 25",
            "directory.toml:35: queue.path: is that of another queue too, in line 28",
            "directory.toml:36: queue.private_id: is that of another queue of the machine too, in line 29",
        ]
    );
}

#[test]
fn whom_an_access_list_means_is_asked_when_nobody_is_called_that() {
    let queue = |access: &str| format!("{ALICE}[[queue]]\npath = 'b\\q'\naccess = {access}\n");
    assert_eq!(
        wrong(&queue("[\"orders-sendrs\"]")),
        ["directory.toml:8: warning: queue.access: nobody in this file is in a group \"orders-sendrs\"; did you mean \
          \"orders-senders\"?"]
    );
    assert_eq!(
        wrong(&queue("['corp\\ALICE']")),
        ["directory.toml:8: queue.access: \"corp\\ALICE\" is a user; write \"S-1-5-21-1-2-3-1104\""]
    );
    assert_eq!(wrong(&queue("[\"ORDERS-SENDERS\", \"EveryOne\", \"s-1-5-32-545\"]")), [] as [String; 0]);
}

#[test]
fn forms_that_are_not_those_of_toml_or_of_a_list_are_named() {
    assert_eq!(
        wrong("[user]\nsid = \"S-1-1-0\"\n"),
        ["directory.toml:1: user: a list of sections, [[user]], is expected, not a table"]
    );
    let lines = wrong("[[user]]\nname = \"CORP\\alice\"\n");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("directory.toml:2: not TOML: ") && lines[0].contains("single quotes"), "{lines:?}");
    let site = Site::new("");
    std::fs::remove_file(site.file()).unwrap();
    assert_eq!(site.problems(), ["directory.toml: does not exist"]);
}

/// A list of some size is read in no time: a line number is not a walk through the file.
#[test]
fn thousands_of_users_are_read_and_found() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for number in 0..8000 {
        let _ = writeln!(
            text,
            "[[user]]\nsid = \"S-1-5-21-1-2-3-{number}\"\nname = 'CORP\\user{number}'\ngroups = [\"g{}\"]",
            number % 50
        );
    }
    let snapshot = Site::new(&text).read();
    assert_eq!(snapshot.users().len(), 8000);
    let user = snapshot.user_by_sid(&"S-1-5-21-1-2-3-7999".parse().unwrap()).unwrap();
    assert_eq!(user.name, r"CORP\user7999");
}
