//! Several files, missing files, files that others can reach.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mqbridge::config::ConnectorConfig;

use super::{Files, MAIN, NOTHING, ROUTE};

#[test]
fn all_files_are_checked_at_once() {
    let files =
        Files::new("name = \"bridge01\"\n[queue_manager]\nnmae = \"x\"\n[connectors.rabbit]\ntype = \"amqp\"\n")
            .with("routes/a.toml", "[from\nqueue = 1\n")
            .with("routes/b.toml", "[from]\nqueue = 1\n[to]\nconnector = \"rabit\"\nexchange = \"\"\n")
            .with("routes/c d.toml", ROUTE)
            .with("routes/notes.txt", "not a route, and said to be none")
            .with("routes/.hidden.toml", "not a route");
    assert_eq!(
        files.problems(),
        [
            "mqbridge.toml:1: name: unknown key; this file may have admin, connectors, directory, http, key_cache, keys, log, \
         queue_manager, routes_dir, store",
            "mqbridge.toml:2: queue_manager.name: is missing; write the computer name that senders use, such as name = \
         \"bridge01\"",
            "mqbridge.toml:3: queue_manager.nmae: unknown key; did you mean \"name\"?",
            "mqbridge.toml:4: connectors.rabbit.uris: is missing; write uris = [\"amqp://user:password@host:5672/%2f\"], or \
         uri_file",
            "mqbridge.toml:5: connectors.rabbit.type: \"amqp\" is not \"amqp091\"",
            "routes/a.toml:1: not TOML: unclosed table, expected `]`",
            "routes/b.toml:2: from.queue: a string is expected, not an integer",
            "routes/b.toml:4: to.connector: there is no connector \"rabit\"; did you mean \"rabbit\"?",
            "routes/c d.toml: \"c d\" can't be the name of a route: it has letters, digits, \"-\" and \"_\" only, and at most 64 \
         of them",
            "routes: warning: no routes, and not read: \"notes.txt\"; a route is a file NAME.toml",
        ]
    );
}

#[test]
fn routes_are_checked_without_a_readable_main_file() {
    let files = Files::new("[queue_manager\nname = \"bridge01\"\nname = \"bridge02\"\n")
        .with("routes/a.toml", &ROUTE.replace(r"private$\orders", r"bridge09\private$\orders"))
        .with("routes/b.toml", &ROUTE.replace("exchange", "exchnage"));
    let lines = files.problems();
    assert!(lines[0].starts_with("mqbridge.toml:1: not TOML: "), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("routes/a.toml")).count(), 0, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("routes/b.toml")).count(), 2, "{lines:?}");
}

#[test]
fn files_that_are_no_configuration_are_named() {
    let files = Files::new(MAIN);
    let path = files.dir.path().join("mqbridge.toml");
    assert_eq!(files.problems(), ["mqbridge.toml: warning: there is no route: routes holds no file NAME.toml"]);
    fs::remove_dir(files.dir.path().join("routes")).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: warning: routes_dir: routes does not exist"]);
    fs::write(&path, format!("routes_dir = \"ways\"\n{MAIN}")).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml:1: routes_dir: ways does not exist"]);
    fs::write(&path, [b'a', 0xFF]).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is not a text in UTF-8"]);
    fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is longer than 1 MiB and surely not what was meant"]);
    fs::remove_file(&path).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: does not exist"]);
    fs::create_dir(&path).unwrap();
    assert_eq!(files.problems(), ["mqbridge.toml: is a directory"]);
}

#[test]
fn what_looks_like_a_route_and_is_none_is_named_once() {
    let files = Files::new(MAIN)
        .with("routes/orders.toml", ROUTE)
        .with("routes/orders.toml.bak", ROUTE)
        .with("routes/PRICES.TOML", ROUTE)
        .with("routes/.orders.toml.swp", "");
    fs::create_dir(files.dir.path().join("routes/old.toml")).unwrap();
    assert_eq!(
        files.problems(),
        [
            "routes: warning: no routes, and not read: \"PRICES.TOML\", \"old.toml\", \"orders.toml.bak\"; a route is a file \
          NAME.toml"
        ]
    );
    assert_eq!(files.load().unwrap().routes.len(), 1);
    let files =
        ["a", "b", "c", "d", "e", "f", "g"].iter().fold(files, |files, name| files.with(&format!("routes/{name}"), ""));
    let lines = files.problems();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("\"a\", \"b\", \"c\", \"d\" and 5 more"), "{lines:?}");
}

#[test]
fn a_route_file_that_leads_nowhere_is_not_passed_over() {
    let files = Files::new(MAIN).with("routes/orders.toml", ROUTE);
    std::os::unix::fs::symlink("nowhere", files.dir.path().join("routes/prices.toml")).unwrap();
    assert_eq!(files.problems(), ["routes/prices.toml: does not exist"]);
}

#[test]
fn files_that_others_may_read_or_change_are_warned_of() {
    let main = MAIN.replace("guest:guest", "mqbridge:s3cret");
    let files = Files::new(&main).with("routes/orders.toml", ROUTE);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(files.dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("mqbridge.toml", 0o640);
    assert_eq!(files.problems(), NOTHING);
    set_mode("mqbridge.toml", 0o644);
    assert_eq!(
        files.problems(),
        [
            "mqbridge.toml:6: warning: everybody may read this password; keep it in a file of its own, or chmod o-r mqbridge.toml",
        ]
    );
    set_mode("mqbridge.toml", 0o600);
    set_mode("routes/orders.toml", 0o666);
    assert_eq!(
        files.problems(),
        ["routes/orders.toml: warning: everybody may write to this file; chmod o-w routes/orders.toml",]
    );
}

#[test]
fn files_that_the_configuration_names_are_looked_at_on_request() {
    let main = "\
[queue_manager]
name = \"bridge01\"
state_dir = \"state\"
[keys]
private_key_file = \"qm.pem\"
[connectors.rabbit]
type = \"amqp091\"
uri_file = \"rabbit.uri\"
tls.ca_file = \"ca.pem\"
";
    let files = Files::new(main).with("routes/orders.toml", ROUTE);
    let inspect = || {
        let prefix = format!("{}/", files.dir.path().display());
        let problems = files.load().unwrap().inspect();
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect::<Vec<_>>()
    };
    assert_eq!(
        inspect(),
        [
            "mqbridge.toml:5: keys.private_key_file: qm.pem does not exist",
            "mqbridge.toml:8: connectors.rabbit.uri_file: rabbit.uri does not exist",
            "mqbridge.toml:9: connectors.rabbit.tls.ca_file: ca.pem does not exist",
        ]
    );
    let write = |name: &str, text: &str, mode| {
        let path = files.dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("qm.pem", "x", 0o640);
    write("rabbit.uri", "# no uri\n\namqp://mqbridge:s3cret@rabbit:port/\n", 0o600);
    write("ca.pem", "x", 0o644);
    assert_eq!(
        inspect(),
        [
            "mqbridge.toml:5: keys.private_key_file: qm.pem holds a secret and has mode 0640; let only its owner read it: \
         chmod 600 qm.pem",
            "mqbridge.toml:8: connectors.rabbit.uri_file: rabbit.uri:3: an AMQP URI with a port that is not a number from 1 to \
         65535; amqp://user:password@host:5672/%2f is expected (a \"/\" in a password is written %2F)",
        ]
    );
    write("qm.pem", "x", 0o600);
    write("rabbit.uri", "# two\namqps://mqbridge:s3cret@rabbit1\n  amqps://mqbridge:s3cret@rabbit2  \n", 0o600);
    assert_eq!(inspect(), NOTHING);
    let config = files.load().unwrap();
    let ConnectorConfig::Amqp091(rabbit) = &config.connectors["rabbit"];
    assert_eq!(rabbit.uris.read().unwrap().len(), 2);
    assert!(!files.dir.path().join("state").exists(), "reading a configuration makes nothing");
}

#[test]
fn files_of_windows_editors_are_read() {
    let windows = |text: &str| format!("\u{FEFF}{}", text.replace('\n', "\r\n"));
    Files::new(&windows(MAIN)).with("routes/orders.toml", &windows(ROUTE)).with_nothing_wrong();
    let faulty = windows(&ROUTE.replace("exchange", "exchnage"));
    let lines = Files::new(MAIN).with("routes/orders.toml", &faulty).problems();
    assert!(lines[1].starts_with("routes/orders.toml:5: to.exchnage: unknown key"), "{lines:?}");
}
