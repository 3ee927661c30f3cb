//! The rules of ARCHITECTURE.md that a compiler does not know: who may use what. Each source file is read as text.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_protocol_and_security_rooms_touch_nothing_outside() {
    let banned = [
        "tokio",
        "std::net::Tcp",
        "std::net::Udp",
        "std::time::Instant",
        "std::time::SystemTime",
        "std::fs",
        "std::thread",
    ];
    for room in ["src/mqqb", "src/security"] {
        assert_no_use(room, &banned, &[]);
    }
    assert_no_use(
        "src/mqqb/wire",
        &["crate::security", "crate::store", "crate::net", "crate::bridge", "crate::config"],
        &[],
    );
    let outside = [
        "crate::security",
        "crate::directory",
        "crate::store",
        "crate::net",
        "crate::bridge",
        "crate::config",
        "crate::admin",
    ];
    assert_no_use("src/mqqb", &outside, &[]);
}

#[test]
fn dependencies_point_one_way() {
    assert_no_use("src/net", &["crate::bridge", "crate::store", "crate::config", "crate::admin"], &[]);
    assert_no_use(
        "src/store",
        &["crate::bridge", "crate::net", "crate::config", "crate::admin", "crate::mqqb::session"],
        &[],
    );
    assert_no_use(
        "src/config",
        &["crate::bridge", "crate::net", "crate::store", "crate::directory", "crate::admin", "connector_", "tokio"],
        &[],
    );
    assert_no_use(
        "src/directory",
        &["crate::bridge", "crate::net", "crate::store", "crate::admin", "crate::cli", "connector_", "tokio"],
        &[],
    );
    assert_no_use("src/bridge", &["crate::admin", "connector_amqp091", "lapin", "redb::"], &[]);
}

#[test]
fn each_foreign_library_stays_in_its_room() {
    assert_no_use("src", &["redb::"], &["src/store"]);
    assert_no_use("src", &["lapin", "connector_amqp091"], &["src/main.rs"]);
    assert_no_use(
        "src",
        &["std::net::TcpListener", "tokio::net::TcpListener", "tokio::net::TcpStream", "tokio::net::UdpSocket"],
        &["src/net", "src/admin"],
    );
    assert_no_use("connectors/api/src", &["lapin", "mqbridge::"], &[]);
    assert_no_use("connectors/amqp091/src", &["mqbridge::"], &[]);
}

#[test]
fn one_place_translates_and_one_place_writes() {
    // Only these know the messages of both worlds.
    let both = files("src").into_iter().filter(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.contains("UserMessage") && text.contains("use connector_api::{Address")
    });
    assert_eq!(
        both.collect::<Vec<_>>(),
        ["to_amqp", "to_msmq"].map(|name| PathBuf::from(format!("src/bridge/translate/{name}.rs")))
    );
    let writers =
        files("src/store").into_iter().filter(|file| fs::read_to_string(file).unwrap().contains("begin_write"));
    let writers: Vec<_> = writers.map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(writers, ["writer.rs"]);
}

#[test]
fn files_stay_readable() {
    for root in ["src", "connectors", "testkit", "xtask", "tests", "benches", "examples"] {
        for file in files(root) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines", file.display());
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    for root in ["src", "connectors", "testkit", "xtask"] {
        for file in files(root) {
            let text = fs::read_to_string(&file).unwrap();
            for word in ["todo!(", "unimplemented!(", "dbg!(", "#[ignore", "FIXME", "XXX"] {
                assert!(!text.contains(word), "{}: {word}", file.display());
            }
        }
    }
}

/// No file below `room`, but for those below an exception, names any of `banned` in a `use` line or a path.
fn assert_no_use(room: &str, banned: &[&str], except: &[&str]) {
    let mut read = 0;
    for file in files(room) {
        if except.iter().any(|exception| file.starts_with(exception)) {
            continue;
        }
        read += 1;
        let text = fs::read_to_string(&file).unwrap();
        // Tests inside a file may read fixtures.
        for (number, line) in text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate() {
            let code = line.split("//").next().unwrap();
            for word in banned {
                assert!(!code.contains(word), "{}:{}: {word} does not belong in {room}", file.display(), number + 1);
            }
        }
    }
    assert!(read > 0, "there is nothing in {room}");
}

fn files(root: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.as_ref().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
