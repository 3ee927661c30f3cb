//! Answers requests that the bridge has published: `cargo run --example responder -- --help`.
//!
//! It knows nothing of MSMQ: it publishes to the queue in reply-to, with the request's message-id as correlation-id, as every
//! responder does.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties};

const USAGE: &str = "\
usage: responder URI REQUESTS ANSWERS

Declares the durable queues REQUESTS and ANSWERS, then answers what comes into REQUESTS.

example: responder amqp://guest:guest@127.0.0.1:5672/%2f requests answers";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, requests, answers] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return 2.into();
    };
    match respond(uri, requests, answers).await {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("responder: {error}");
            1.into()
        }
    }
}

async fn respond(uri: &str, requests: &str, answers: &str) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::connect(uri, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    for queue in [requests, answers] {
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(queue.into(), durable, FieldTable::default()).await?;
    }
    let (options, table) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut consumer = channel.basic_consume(requests.into(), "responder".into(), options, table).await?;
    println!("waiting for requests in {requests}");
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery?;
        let request = &delivery.properties;
        if let (Some(reply_to), Some(id)) = (request.reply_to(), request.message_id()) {
            let body = format!("the answer to: {}", String::from_utf8_lossy(&delivery.data));
            let answer = BasicProperties::default()
                .with_correlation_id(id.clone())
                .with_content_type("text/plain".into())
                .with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            channel.basic_publish("".into(), reply_to.clone(), options, body.as_bytes(), answer).await?.await?;
            println!("answered {id} to {reply_to}");
        }
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Err("the broker ended the subscription".into())
}
