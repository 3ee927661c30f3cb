//! A queue manager that prints what it is sent: `cargo run --example receiver -- --help`.
//!
//! It takes every message for every queue and keeps nothing: for trying out what the bridge, or Windows, sends.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mqbridge::mqqb::session::SessionSettings;
use mqbridge::mqqb::wire::{Guid, MAX_PACKET_SIZE, MessageId, UserMessage};
use mqbridge::net::{Arrival, Clock, Intake, LinkSettings, Listener, Places, Reception, Sessions, StopSwitch, Verdict};
use tokio::sync::mpsc;

const USAGE: &str = "\
usage: receiver ADDRESS:PORT [--count N] [--timeout SECONDS]

Listens for MSMQ sessions and prints the messages that come. Port 0 takes a free one. With --count it ends after N messages,
and fails when they have not come after --timeout seconds (60).

example: receiver 127.0.0.1:1801";

struct Arguments {
    address: SocketAddr,
    count: Option<usize>,
    timeout: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return 2.into();
    };
    let timeout = if arguments.count.is_some() { arguments.timeout } else { Duration::MAX };
    match tokio::time::timeout(timeout, receive(&arguments)).await {
        Ok(Ok(())) => 0.into(),
        Ok(Err(error)) => {
            eprintln!("receiver: {error}");
            1.into()
        }
        Err(_) => {
            eprintln!("receiver: the messages did not come in {timeout:?}");
            1.into()
        }
    }
}

async fn receive(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let listener = Listener::bind(arguments.address).await?;
    println!("listening at {}", listener.address());
    let (found, mut messages) = mpsc::unbounded_channel();
    let settings = LinkSettings {
        session: SessionSettings::new(Guid::from_random(rand::random())),
        max_packet: MAX_PACKET_SIZE,
        slow_sender_timeout: Duration::from_secs(60),
    };
    let (switch, stop) = StopSwitch::new();
    let reception: Arc<dyn Reception> = Arc::new(Desk(found));
    let sessions = Sessions::new(Places::new(100));
    let listening = tokio::spawn(listener.run(Clock::start(), settings, reception, sessions, stop));
    let mut seen = 0;
    while arguments.count.is_none_or(|count| seen < count) {
        let Some(message) = messages.recv().await else { break };
        print(&message);
        seen += 1;
    }
    // The last acknowledgments leave before the sessions end.
    switch.stop();
    listening.await?;
    Ok(())
}

/// Whoever prints a message has it: it is acknowledged.
#[derive(Clone)]
struct Desk(mpsc::UnboundedSender<Box<UserMessage>>);

impl Reception for Desk {
    fn begin(&self) -> Box<dyn Intake> {
        Box::new(self.clone())
    }

    fn ready(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

impl Intake for Desk {
    fn receive(&mut self, arrival: Arrival, verdict: Verdict) {
        match self.0.send(arrival.message) {
            Ok(()) => verdict.stored(),
            Err(_) => verdict.hold("the receiver ends".to_owned()),
        }
    }
}

fn print(message: &UserMessage) {
    println!("message {}", message.id());
    let properties = &message.properties;
    let correlation = MessageId::from_wire(properties.correlation_id);
    for (name, value) in [
        ("for", message.destination_text()),
        ("label", properties.label.as_ref().map(ToString::to_string)),
        ("answers", (correlation != MessageId::default()).then(|| correlation.to_string())),
        ("replies to", message.response_queue_text()),
    ] {
        if let Some(value) = value {
            println!("  {name:<12} {value}");
        }
    }
    match std::str::from_utf8(&properties.body) {
        Ok(text) => println!("  {:<12} {text}", "body"),
        Err(_) => println!("  {:<12} {} bytes", "body", properties.body.len()),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed =
        Arguments { address: arguments.next()?.parse().ok()?, count: None, timeout: Duration::from_secs(60) };
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--count" => parsed.count = Some(arguments.next()?.parse().ok()?),
            "--timeout" => parsed.timeout = Duration::from_secs(arguments.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some(parsed)
}
