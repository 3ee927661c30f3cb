//! A Linux program that sends to a queue of an MSMQ machine, with this crate and without a bridge:
//!
//!     cargo run --example send -- 127.0.0.1:1801 'DIRECT=OS:win01\private$\orders' 'order 4711'
//!
//! The message counts as sent when the other machine has acknowledged it. A program that must not lose what it could not
//! send keeps it on its own disk until then, and sends it again with the same identifier; the bridge does just that.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use mqbridge::mqqb::session::{SendToken, SessionSettings};
use mqbridge::mqqb::wire::{DeliveryMode, FormatName, Guid, MessageId, QueueField, UserMessage, WideText};
use mqbridge::net::{Clock, dial};

const USAGE: &str = "usage: send ADDRESS:PORT FORMATNAME TEXT";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, queue, text] = arguments.as_slice() else {
        eprintln!("{USAGE}");
        return 2.into();
    };
    match send(address, queue, text).await {
        Ok(id) => {
            println!("acknowledged: {id}");
            0.into()
        }
        Err(error) => {
            eprintln!("send: {error}");
            1.into()
        }
    }
}

async fn send(address: &str, queue: &str, text: &str) -> Result<MessageId, Box<dyn std::error::Error>> {
    let address: SocketAddr = address.parse()?;
    let queue: FormatName = queue.parse()?;
    let clock = Clock::start();

    // Who we are, to the other machine. Repeats are recognised by this and the ordinal: a program that sends more than
    // once keeps both.
    let source = Guid::from_random(rand::random());
    let id = MessageId { source, ordinal: 1 };

    // A direct name is for whichever queue manager answers, and says so with a null identifier.
    let destination = QueueField::naming(&queue, Guid::NULL).ok_or("messages can't be sent to such a name")?;
    let mut message = UserMessage::new(id, u32::try_from(clock.unix_now())?, Guid::NULL, destination);
    message.delivery = DeliveryMode::Recoverable;
    message.properties.label = Some(WideText::from_text("from Linux"));
    // VT_LPSTR: 8-bit text, which System.Messaging's ActiveXMessageFormatter reads as a string.
    message.properties.set_body(Bytes::from(text.to_owned()), 30);

    let settings = SessionSettings::new(source);
    let mut session = dial(clock, &[address], Guid::NULL, settings, Duration::from_secs(5)).await?;
    session
        .send(SendToken(1), message.to_packet()?, message.is_recoverable())
        .map_err(|_| "the window is closed, though nothing was sent yet")?;
    tokio::time::timeout(Duration::from_secs(30), session.acknowledged()).await??;
    session.close().await;
    Ok(id)
}
