//! A private broker starts, breaks and goes as the tests that use it expect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed expectation is a failed test")]
#![allow(clippy::disallowed_methods, reason = "it runs beside real peers, in real time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{PortBlock, PrivateBroker, Proxy};

/// What an AMQP 0-9-1 client says first, and the size of the frame header in which the broker answers.
const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
const FRAME_HEADER: usize = 1 /* type */ + 2 /* channel */ + 4 /* size */;

#[test]
fn it_crashes_keeps_its_data_freezes_and_leaves_nothing_behind() {
    let broker = PrivateBroker::running().unwrap();
    let directory = broker.directory().to_owned();
    assert!(speaks_amqp(broker.port(), Duration::from_secs(5)));
    broker.rabbitmqctl(&["add_vhost", "kept"]).unwrap();
    assert!(broker.cpu_time().unwrap() > Duration::from_millis(500), "starting costs seconds of processor time");

    broker.pause().unwrap();
    assert!(!speaks_amqp(broker.port(), Duration::from_millis(300)), "a frozen node answers nothing");
    broker.resume().unwrap();
    assert!(speaks_amqp(broker.port(), Duration::from_secs(5)));

    broker.kill().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", broker.port())).is_err(), "nothing listens after a crash");
    assert!(broker.cpu_time().is_err());
    broker.start().unwrap();
    assert!(broker.rabbitmqctl(&["list_vhosts"]).unwrap().contains("kept"));

    let port = broker.port();
    drop(broker);
    assert!(!directory.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn it_does_not_outlive_a_killed_owner() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_of_a_broker", "--nocapture"])
        .env(OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let directory = lines.find_map(|line| line.split_once("DIRECTORY=").map(|(_, path)| PathBuf::from(path))).unwrap();
    let port = lines.find_map(|line| line.split_once("PORT=").map(|(_, port)| port.parse::<u16>().unwrap())).unwrap();
    assert!(speaks_amqp(port, Duration::from_secs(5)));

    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the node to be gone", || TcpStream::connect(("127.0.0.1", port)).is_err());
    wait_until("its directory to be gone", || !directory.exists());
}

const OWNER: &str = "TESTKIT_OWNER_OF_A_BROKER";

/// Not a test by itself: the process that [`it_does_not_outlive_a_killed_owner`] starts and kills.
#[test]
#[expect(clippy::print_stdout, reason = "this is how the other process hears of the broker")]
fn owner_of_a_broker() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    let broker = PrivateBroker::running().unwrap();
    println!("DIRECTORY={}\nPORT={}", broker.directory().display(), broker.port());
    thread::sleep(Duration::from_mins(1));
}

#[test]
fn blocks_of_ports_do_not_overlap() {
    let blocks: Vec<_> = (0..20).map(|_| PortBlock::claim().unwrap()).collect();
    let mut bases: Vec<_> = blocks.iter().map(|block| block.port(0)).collect();
    bases.sort_unstable();
    assert!(bases.windows(2).all(|pair| pair[0] + PortBlock::SIZE <= pair[1]), "{bases:?}");
}

#[test]
fn a_proxy_passes_cuts_stalls_and_heals() {
    let echo = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in echo.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    let proxy = Proxy::refusing(port).unwrap();
    let connect = || TcpStream::connect(("127.0.0.1", proxy.port()));
    assert!(connect().is_err(), "refuses until healed");
    proxy.heal().unwrap();

    let mut stream = connect().unwrap();
    assert_eq!(echoed(&mut stream), Some(b'x'));
    proxy.stall();
    assert_eq!(echoed(&mut stream), None, "stalled");
    proxy.heal().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(read_one(&mut stream), Some(b'x'), "what was held back arrives");

    proxy.cut();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "closed");
    assert!(connect().is_err(), "refused");
    proxy.heal().unwrap();
    assert_eq!(echoed(&mut connect().unwrap()), Some(b'x'));
}

fn echoed(stream: &mut TcpStream) -> Option<u8> {
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.write_all(b"x").unwrap();
    read_one(stream)
}

fn read_one(stream: &mut TcpStream) -> Option<u8> {
    let mut byte = [0];
    stream.read_exact(&mut byte).ok().map(|()| byte[0])
}

fn speaks_amqp(port: u16, patience: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.write_all(PROTOCOL_HEADER).unwrap();
    stream.read_exact(&mut [0; FRAME_HEADER]).is_ok()
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(10), "waited for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
