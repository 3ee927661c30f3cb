//! `from.queue`: any spelling that MSMQ has for a queue of this machine.

use crate::mqqb::wire::{FormatName, Protocol, QueuePath};

use super::problem::Quoted;
use super::process::QueueManagerConfig;

/// Reads the name of a queue that this machine is to receive for. While it isn't known which machine this is, any
/// will do.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn parse_local(text: &str, machine: Option<&QueueManagerConfig>) -> Result<QueuePath, String> {
    let (address, queue) = split(text)?;
    if let (Some(address), Some(machine)) = (address, machine)
        && !machine.is_called(&address)
    {
        return Err(format!(
            "{} is a queue of {}, not of this machine; add that name to queue_manager.accept_as if it means this one",
            Quoted(text),
            Quoted(&address)
        ));
    }
    let (name, suffix) = match &queue {
        QueuePath::System(_) => return Err(format!("{} is a machine's own queue; nobody sends to it", Quoted(text))),
        QueuePath::Private { name, suffix } | QueuePath::Public { name, suffix } => (name, suffix),
    };
    if suffix.is_some() {
        return Err(format!("{} is a journal or sub-queue; nobody sends to it", Quoted(text)));
    }
    check_name(name).map_err(|why| format!("{} is not the name of a queue: {why}", Quoted(text)))?;
    if matches!(queue, QueuePath::Private { .. }) && name.eq_ignore_ascii_case(ORDER_QUEUE) {
        return Err(format!("{} is the queue manager's own, for acknowledgments", Quoted(text)));
    }
    Ok(queue)
}

/// What Windows lets a queue be called (MS-MQMQ 2.1.1), letters of all languages included.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    const MAX_CHARACTERS: usize = 124;
    if name.eq_ignore_ascii_case("private$") {
        return Err("private$\\ and the queue's own name are expected");
    }
    if name.encode_utf16().count() > MAX_CHARACTERS {
        return Err("it has more than 124 characters");
    }
    if name.chars().any(|character| character.is_control() || matches!(character, '\\' | ';' | '+' | ',' | '"')) {
        return Err("it can't hold a backslash, semicolon, plus, comma, quote or control character");
    }
    Ok(())
}

/// Where order acknowledgments go (MS-MQQB 2.2.4).
const ORDER_QUEUE: &str = "order_queue$";

/// The text by which two queues are told apart: MSMQ compares names without regard to case.
pub(super) fn identity(queue: &QueuePath) -> String {
    queue.to_string().to_lowercase()
}

/// Splits off the machine, when one is named.
fn split(text: &str) -> Result<(Option<String>, QueuePath), String> {
    let is_format_name = text.find('=').is_some_and(|equals| !text[..equals].contains(['\\', ';']));
    if is_format_name {
        return match text.parse::<FormatName>() {
            Ok(FormatName::Direct(name)) if matches!(name.protocol, Protocol::Os | Protocol::Tcp) => {
                Ok((Some(name.address), name.queue))
            }
            Ok(FormatName::Direct(_)) => Err(format!(
                "{} names a queue by a protocol that this bridge does not speak; write DIRECT=OS:",
                Quoted(text)
            )),
            Ok(FormatName::Public { .. } | FormatName::Private { .. }) => Err(format!(
                "{} is a number, not a name; write the queue's name here and its number as guid or private_id",
                Quoted(text)
            )),
            Ok(_) => Err(format!("{} does not name one queue", Quoted(text))),
            Err(error) => Err(error.to_string()),
        };
    }
    // `machine\queue`, unless what stands before the backslash is already part of the queue.
    let (machine, path) = match text.split_once('\\') {
        Some((first, rest)) if !first.eq_ignore_ascii_case("private$") => (Some(first.to_owned()), rest),
        _ => (None, text),
    };
    if machine.as_deref() == Some("") {
        return Err(format!("{} begins with a backslash; write private$\\NAME or .\\private$\\NAME", Quoted(text)));
    }
    let queue = path
        .parse::<QueuePath>()
        .map_err(|error| format!("{} is not the name of a queue: {}", Quoted(text), error.why))?;
    Ok((machine, queue))
}
