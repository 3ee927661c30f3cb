//! Bad input: each closes its session with one log line, and disturbs nobody else.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mqbridge::mqqb::wire::{EstablishConnection, Guid, SoapHeader};
use serde_json::Value;
use testkit::SharedBroker;

use crate::broker::unique;
use crate::process::{Bridge, Site, eventually, route, status};
use crate::sender::{Raw, deliver, encoded, message, source};

fn site(process: &str) -> Site {
    // A broker is of no interest here: messages are acknowledged once they are on disk.
    let uri = SharedBroker::uri().unwrap();
    Site::new(&uri, process, &[("orders", &route("orders", &unique("nowhere"), "x", "", ""))])
}

/// The one line about a connection.
fn closing_line(bridge: &Bridge, local: SocketAddr) -> Value {
    let peer = local.to_string();
    let line = bridge.wait_for(|line| line["event"] == "session_closed" && line["peer"] == peer);
    let closed = |line: &&Value| line["event"] == "session_closed" && line["peer"] == peer;
    assert_eq!(bridge.log().iter().filter(closed).count(), 1);
    line
}

#[test]
fn every_malformed_packet_closes_its_session_with_one_line_that_names_the_field() {
    let site = site("");
    let bridge = site.start();
    // This session stays open through all of it.
    let mut witness = Raw::open(bridge.address);
    let mut tried = 0;
    let mut vectors: Vec<_> =
        std::fs::read_dir("tests/fixtures/vectors").unwrap().map(|entry| entry.unwrap().path()).collect();
    vectors.sort();
    for path in vectors.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let vector: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if vector["expect"]["verdict"] != "malformed" {
            continue;
        }
        let name = vector["name"].as_str().unwrap();
        let packet = vector["packet"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..packet.len()).step_by(2).map(|at| u8::from_str_radix(&packet[at..at + 2], 16).unwrap()).collect();
        let mut raw = Raw::open(bridge.address);
        let local = raw.0.local_addr().unwrap();
        raw.write(&bytes);
        raw.wait_for_close();
        let line = closing_line(&bridge, local);
        let reason = line["reason"].as_str().unwrap();
        assert_eq!(line["level"], "warn", "{name}");
        assert!(reason.starts_with("malformed packet: "), "{name}: {reason}");
        tried += 1;
    }
    assert_eq!(tried, 105);
    witness.write(&encoded(&message("orders", 1)));
    eventually("the witness's message is stored", || {
        (status(&site)["routes"][0]["received_messages"] == 1).then_some(())
    });
    assert!(bridge.stop().success());
}

/// What it is, whether the session is open before, what is sent, and what the reason says.
type Case<'a> = (&'a str, bool, &'a dyn Fn(&mut Raw), &'a str);

#[test]
fn packets_at_the_wrong_time_close_the_session() {
    let site = site("");
    let bridge = site.start();
    let mut establish = BytesMut::new();
    EstablishConnection::request(source(), Guid::NULL, 1, false).encode(&mut establish);
    let mut wrong_server = BytesMut::new();
    EstablishConnection::request(source(), Guid::from_random([9; 16]), 1, false).encode(&mut wrong_server);
    let mut soap = message("orders", 3);
    soap.soap = Some(SoapHeader::default());

    let user_first = |raw: &mut Raw| raw.write(&encoded(&message("orders", 1)));
    let establish_twice = |raw: &mut Raw| {
        raw.write(&establish);
        raw.write(&establish);
    };
    // Its claim alone is enough: nothing of it is waited for.
    let large = b"\x10\0\x03\0LIOR\0\0\x40\0\xFF\xFF\xFF\xFF";
    let cases: [Case<'_>; 6] = [
        ("a message before the session is open", false, &user_first, "unexpected"),
        ("4 MiB before the handshake", false, &|raw| raw.write(large), "BaseHeader.PacketSize"),
        ("establish twice", false, &establish_twice, "unexpected"),
        ("another server", false, &|raw| raw.write(&wrong_server), "meant for queue manager"),
        ("SOAP sections", true, &|raw| raw.write(&encoded(&soap)), "SoapHeader"),
        ("HTTP", false, &|raw| raw.write(b"GET / HTTP/1.1\r\nHost: bridge01\r\n\r\n"), "malformed packet"),
    ];
    for (what, open, send, reason) in cases {
        let mut raw = if open { Raw::open(bridge.address) } else { Raw::connect(bridge.address) };
        let local = raw.0.local_addr().unwrap();
        send(&mut raw);
        if what == "another server" {
            let answer = raw.read(EstablishConnection::PACKET_SIZE);
            assert_eq!(answer[18] & 0x10, 0x10, "InternalHeader.Flags.CS");
        }
        raw.wait_for_close();
        let line = closing_line(&bridge, local);
        assert!(line["reason"].as_str().unwrap().contains(reason), "{what}: {line}");
    }
}

#[test]
fn slow_and_silent_senders_are_sent_away() {
    let site = site("slow_sender_timeout = \"1s\"\nhandshake_timeout = \"2s\"");
    let bridge = site.start();
    let mut half = Raw::open(bridge.address);
    let packet = encoded(&message("orders", 1));
    half.write(&packet[..packet.len() / 2]);
    let half_address = half.0.local_addr().unwrap();

    let mut drip = Raw::connect(bridge.address);
    let drip_address = drip.0.local_addr().unwrap();
    let dripping = std::thread::spawn(move || {
        // The bridge hangs up long before the packet is whole.
        for byte in &packet {
            if std::io::Write::write_all(&mut drip.0, &[*byte]).is_err() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    });
    let silent = Raw::connect(bridge.address);
    let silent_address = silent.0.local_addr().unwrap();

    half.wait_for_close();
    assert!(closing_line(&bridge, half_address)["reason"].as_str().unwrap().contains("incomplete"));
    assert!(dripping.join().unwrap());
    assert!(closing_line(&bridge, drip_address)["reason"].as_str().unwrap().contains("incomplete"));
    { silent }.wait_for_close();
    assert!(closing_line(&bridge, silent_address)["reason"].as_str().unwrap().contains("handshake"));
}

#[test]
fn two_thousand_silent_connections_keep_nobody_out() {
    let site = site("max_sessions = 100");
    let bridge = site.start();
    let mut silent = Vec::new();
    for _ in 0..2000 {
        silent.push(std::net::TcpStream::connect(bridge.address).unwrap());
    }
    deliver(bridge.address, &[message("orders", 1)]);
    assert_eq!(status(&site)["routes"][0]["received_messages"], 1);
    let kilobytes = resident_kilobytes(bridge.pid());
    assert!(kilobytes < 200 * 1024, "{kilobytes} KiB are resident");
    drop(silent);
    assert!(bridge.stop().success());
}

#[test]
fn connections_stay_within_the_limit_of_open_files() {
    let site = site("");
    let bridge = Bridge::start_with_open_files(&site.config(), 256);
    let warned = bridge.wait_for(|line| line["event"] == "sessions_limited");
    assert_eq!((&warned["limit"], &warned["max_sessions"]), (&256.into(), &1024.into()));
    assert!(warned["message"].as_str().unwrap().contains("LimitNOFILE="), "{warned}");
    let silent: Vec<_> = (0..400).map(|_| std::net::TcpStream::connect(bridge.address).unwrap()).collect();
    let sessions: Vec<_> = (0..100).map(|_| Raw::open(bridge.address)).collect();
    let mut message = message("orders", 1);
    // The last of them still finds an open file for everything that a message needs.
    message.properties.body = vec![1; 100_000].into();
    deliver(bridge.address, &[message]);
    // One that was sent away closes a moment later: on a busy machine the next may come before.
    let failed = bridge.log().iter().filter(|line| line["event"] == "accept_failed").count();
    assert!(failed < 10, "{failed}");
    drop((silent, sessions));
    assert!(bridge.stop().success());
}

#[test]
fn more_sessions_than_allowed_are_refused_and_places_become_free_again() {
    let site = site("max_sessions = 2");
    let bridge = site.start();
    let first = Raw::open(bridge.address);
    let _second = Raw::open(bridge.address);
    let mut third = Raw::connect(bridge.address);
    let mut establish = BytesMut::new();
    EstablishConnection::request(source(), Guid::NULL, 1, false).encode(&mut establish);
    third.write(&establish);
    let answer = third.read(EstablishConnection::PACKET_SIZE);
    assert_eq!(answer[18] & 0x10, 0x10, "InternalHeader.Flags.CS: refused");
    third.wait_for_close();
    assert!(closing_line(&bridge, third.0.local_addr().unwrap())["reason"].as_str().unwrap().contains("max_sessions"));
    drop(first);
    eventually("a place is free again", || (status(&site)["sessions"].as_array().unwrap().len() == 1).then_some(()));
    deliver(bridge.address, &[message("orders", 1)]);
}

fn resident_kilobytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
