//! Reads what the bridge has published, and prints it: `cargo run --example consumer -- --help`.
//!
//! Makes the exchange, the queue and the binding first, since the bridge itself declares nothing in the broker.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};

const USAGE: &str = "\
usage: consumer URI EXCHANGE QUEUE [--count N] [--timeout SECONDS] [--declare-only]

Declares a durable topic EXCHANGE and a durable QUEUE bound to all its messages, then prints messages as they come.
With --count it ends after N messages, and fails when they have not come after --timeout seconds (60).

example: consumer amqp://guest:guest@127.0.0.1:5672/%2f orders orders-test --count 3";

struct Arguments {
    uri: String,
    exchange: String,
    queue: String,
    count: Option<usize>,
    timeout: Duration,
    declare_only: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return 2.into();
    };
    let timeout = arguments.timeout;
    let bounded = arguments.count.is_some();
    let reading = consume(arguments);
    let result = if bounded {
        tokio::time::timeout(timeout, reading)
            .await
            .unwrap_or_else(|_| Err(format!("the messages did not come in {timeout:?}").into()))
    } else {
        reading.await
    };
    match result {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("consumer: {error}");
            1.into()
        }
    }
}

async fn consume(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::connect(&arguments.uri, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel
        .exchange_declare(arguments.exchange.as_str().into(), ExchangeKind::Topic, durable, FieldTable::default())
        .await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(arguments.queue.as_str().into(), durable, FieldTable::default()).await?;
    channel
        .queue_bind(
            arguments.queue.as_str().into(),
            arguments.exchange.as_str().into(),
            "#".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await?;
    if arguments.declare_only {
        println!("exchange {} and queue {} are there", arguments.exchange, arguments.queue);
        return Ok(());
    }
    let mut consumer = channel
        .basic_consume(
            arguments.queue.as_str().into(),
            "mqbridge-example".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await?;
    let mut seen = 0;
    while arguments.count.is_none_or(|count| seen < count) {
        let Some(delivery) = consumer.next().await else { return Err("the broker ended the subscription".into()) };
        let delivery = delivery?;
        print(&delivery);
        delivery.ack(BasicAckOptions::default()).await?;
        seen += 1;
    }
    Ok(())
}

fn print(delivery: &lapin::message::Delivery) {
    let properties = &delivery.properties;
    println!("message {}", properties.message_id().as_ref().map_or("(no id)", |id| id.as_str()));
    println!("  routing key  {}", delivery.routing_key);
    if let Some(kind) = properties.content_type() {
        println!("  content type {kind}");
    }
    for (name, value) in properties.headers().iter().flat_map(FieldTable::inner) {
        println!("  {name:<20} {}", show(value));
    }
    println!("  body         {}", text(&delivery.data));
}

fn show(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::ByteArray(bytes) => format!("{} bytes", bytes.as_slice().len()),
        other => format!("{other:?}"),
    }
}

/// Text, in UTF-8 or in the UTF-16 that MSMQ's own tools write; else the number of bytes.
fn text(body: &[u8]) -> String {
    const SHOWN: usize = 100;
    let wide = body.len().is_multiple_of(2) && body.chunks_exact(2).all(|unit| unit[1] == 0 && unit[0] != 0);
    let text = if wide && !body.is_empty() {
        Some(body.iter().step_by(2).map(|&byte| char::from(byte)).collect())
    } else {
        String::from_utf8(body.to_vec()).ok()
    };
    let Some(text) = text else { return format!("{} bytes", body.len()) };
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown} ({} bytes)", body.len())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut parsed = Arguments {
        uri: arguments.next()?,
        exchange: arguments.next()?,
        queue: arguments.next()?,
        count: None,
        timeout: Duration::from_secs(60),
        declare_only: false,
    };
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--count" => parsed.count = Some(arguments.next()?.parse().ok()?),
            "--timeout" => parsed.timeout = Duration::from_secs(arguments.next()?.parse().ok()?),
            "--declare-only" => parsed.declare_only = true,
            _ => return None,
        }
    }
    Some(parsed)
}
