//! `mqbridge directory`, and what the other commands say of a faulty directory.

use std::process::Command;

use serde_json::{Value, json};

use super::{ALICE, ORDERS, Site, WIN01};

fn configured(directory: &str) -> Site {
    let site = Site::new(directory);
    std::fs::create_dir(site.dir.path().join("routes")).unwrap();
    site.write(
        "routes/orders.toml",
        "[from]\nqueue = 'private$\\orders'\n[to]\nconnector = \"rabbit\"\nexchange = \"orders\"\n",
    );
    let main = "[queue_manager]\nname = \"bridge01\"\nstate_dir = \"state\"\n[directory]\nkind = \"file\"\n\
                [connectors.rabbit]\ntype = \"amqp091\"\nuris = [\"amqp://127.0.0.1\"]\n";
    site.write("mqbridge.toml", main);
    site
}

fn run(site: &Site, arguments: &[&str]) -> (i32, String, String) {
    let config = site.dir.path().join("mqbridge.toml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_mqbridge")).args(arguments).arg("--config").arg(config).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_directory_is_shown_to_people_and_to_programs() {
    let site = configured(&format!("{ALICE}{WIN01}{ORDERS}"));
    let (code, out, err) = run(&site, &["directory", "check"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.ends_with("directory.toml: 1 user, 1 machine, 2 queues\n"), "{out}");

    let (code, out, _) = run(&site, &["directory", "show", "--json"]);
    assert_eq!(code, 0);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let digest = |name: &str| mqbridge::directory::digest(&super::certificate(name)).to_string();
    assert_eq!(
        shown,
        json!({
            "users": [{
                "sid": "S-1-5-21-1-2-3-1104", "name": "CORP\\alice", "groups": ["orders-senders", "S-1-5-32-545"],
                "certificates": [digest("alice")],
            }],
            "machines": [{
                "guid": "c778ca24-7c5a-4060-80c0-aeee428d53ae", "name": "win01",
                "addresses": ["10.1.2.3", "10.1.2.4:1802", "win01.corp.example"],
                "keys": [
                    { "provider": "base", "bits": 1024 }, { "provider": "enhanced", "bits": 1024 },
                    { "provider": "aes", "bits": 1024 },
                ],
                "certificates": [digest("bob")],
            }],
            "queues": [
                {
                    "path": "bridge01\\orders", "guid": "a0c5c6a0-3c1e-4b53-9f4e-2f3c0d6f1b7a", "private_id": null,
                    "access": ["orders-senders", "everyone", "S-1-5-21-1-2-3-1104"],
                },
                { "path": "bridge01\\private$\\audit", "guid": null, "private_id": 10, "access": null },
            ],
        })
    );
    let (code, out, _) = run(&site, &["directory", "show"]);
    assert_eq!(code, 0);
    for wanted in ["user CORP\\alice S-1-5-21-1-2-3-1104\n", "  addresses 10.1.2.3, 10.1.2.4:1802", "  private_id 10\n"]
    {
        assert!(out.contains(wanted), "{out}");
    }
}

#[test]
fn a_faulty_directory_keeps_the_bridge_from_running_and_is_shown_by_every_command_that_reads_it() {
    let site = configured("[[user]]\nsid = 7\n[[machine]]\nname = \"x y\"\n");
    for arguments in [&["directory", "check"][..], &["directory", "show"], &["check"], &["run"]] {
        let (code, _, err) = run(&site, arguments);
        assert_eq!(code, 78, "{arguments:?}: {err}");
        for wanted in ["directory.toml:2: user.sid: ", "directory.toml:4: machine.name: ", "machine.guid: is missing"] {
            assert!(err.contains(wanted), "{arguments:?}: no word of {wanted} in {err}");
        }
    }
    assert!(!site.dir.path().join("state").exists());
    std::fs::remove_file(site.file()).unwrap();
    let (code, _, err) = run(&site, &["check"]);
    assert_eq!(code, 78);
    assert!(err.contains("directory.toml: does not exist"), "{err}");
}

#[test]
fn a_configuration_without_a_directory_is_told_how_to_have_one() {
    let site = configured("");
    let main = std::fs::read_to_string(site.dir.path().join("mqbridge.toml")).unwrap();
    site.write("mqbridge.toml", main.replace("[directory]\nkind = \"file\"\n", ""));
    let (code, _, err) = run(&site, &["directory", "check"]);
    assert_eq!(code, 78);
    assert!(err.contains("has no [directory]; write kind = \"file\""), "{err}");
    assert_eq!(run(&site, &["check"]).0, 0, "it needs none");
}

#[test]
fn the_shipped_directory_shows_every_key_and_is_right() {
    let text = std::fs::read_to_string("config/directory.toml").unwrap();
    assert_eq!(super::wrong(&text), [] as [String; 0], "as it is");
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && line.len() > 1;
    let keys: Vec<&str> = text.lines().filter(is_key).map(|line| &line[1..]).collect();
    let site = Site::new(&keys.join("\n"));
    std::fs::create_dir(site.dir.path().join("certs")).unwrap();
    std::fs::create_dir(site.dir.path().join("keys")).unwrap();
    site.write("certs/alice.der", super::certificate("alice"));
    site.write("certs/win01.der", super::certificate("win01"));
    site.write("keys/win01.pem", super::KEY_PEM);
    assert_eq!(site.problems(), [] as [String; 0]);
    let names = |section: &str| {
        let of_section =
            keys.iter().skip_while(|line| **line != section).skip(1).take_while(|line| !line.starts_with('['));
        of_section.map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("[[user]]"), ["sid", "name", "groups", "certificates"]);
    assert_eq!(names("[[machine]]"), ["guid", "name", "addresses", "key_files", "certificates"]);
    assert_eq!(names("[[queue]]"), ["path", "guid", "access"]);
    assert!(text.contains("\n# private_id = 10\n"), "it can't stand beside guid");
}
