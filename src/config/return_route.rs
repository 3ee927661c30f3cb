use std::time::Duration;

use crate::mqqb::wire::{FormatName, Protocol, QueuePath, QueueSuffix};

use super::connector::Connectors;
use super::process::QueueManagerConfig;
use super::raw::Section;
use super::route::{SecurityMode, Surroundings, check_connector};
use crate::security::{Cipher, SignatureForm};

/// A way from a queue of a foreign system to queues of other MSMQ machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnRoute {
    /// The name of its file, without `.toml`.
    pub name: String,
    /// Where messages come from.
    pub from: AmqpSource,
    /// Where they go.
    pub to: MsmqTarget,
    /// What the bridge does for what is inside.
    pub protection: Protection,
    /// Whether the bridge counts as ready only while this route works.
    pub required: bool,
}

/// `[security]` of a route from AMQP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// What signs and encrypts a message comes with it, in its headers, and goes on as it came.
    Transparent,
    /// The bridge is the sender.
    Own {
        /// `sign` and `signature_form`: signed, in this form; `None` for unsigned.
        sign: Option<SignatureForm>,
        /// `encrypt`: with this cipher; `None` for in clear.
        encrypt: Option<Cipher>,
    },
}

/// `[from]` of a route from AMQP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpSource {
    /// The connector's name.
    pub connector: String,
    /// The queue there.
    pub queue: String,
    /// Deliveries that may be open at a time.
    pub prefetch: u16,
    /// After this long a delivery is settled although the destination has not acknowledged it: it is on our disk.
    pub settle_after: Duration,
}

/// `[to]` of a route to MSMQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsmqTarget {
    /// Which queue.
    pub queue: Destination,
    /// How messages are delivered; as the foreign message says when absent.
    pub delivery: Option<Delivery>,
    /// How long a message may take to reach its queue; `None` for ever.
    pub time_to_reach_queue: Option<Duration>,
    /// How long it may take to be read there; `None` for as long as the foreign message says.
    pub time_to_be_received: Option<Duration>,
    /// The type of the body; by header and content type when absent.
    pub body_type: Option<u32>,
    /// Whether a message that can't be delivered is kept as a dead letter.
    pub dead_letter: bool,
    /// Which acknowledgment messages are asked for.
    pub acknowledgments: AckWanted,
    /// Whether properties without a place in MSMQ go into the extension.
    pub carry_headers: bool,
    /// Bytes that may wait for one destination.
    pub quota: u64,
}

/// `to.queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Always this one.
    Fixed(FormatName),
    /// `{reply_to}`: the one that the message names.
    ReplyTo,
}

/// `to.delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// May be lost with a machine.
    Express,
    /// On disk everywhere.
    Recoverable,
}

/// `to.ack`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckWanted {
    /// Whether it reached its queue.
    pub reach: bool,
    /// Whether it was read.
    pub receive: bool,
}

impl AckWanted {
    /// Whether any is.
    pub const fn any(self) -> bool {
        self.reach || self.receive
    }
}

/// What MSMQ calls `LONG_LIVED`, the time that messages have to reach their queue when nobody says otherwise.
const LONG_LIVED: Duration = Duration::from_hours(4 * 24);

/// The word that stands for the message's own destination.
const REPLY_TO: &str = "{reply_to}";

/// Body types that have a name: `VT_ARRAY | VT_UI1`, `VT_BSTR`, `VT_LPSTR`, `VT_LPWSTR` (MS-MQMQ 2.2.12).
const BODY_TYPES: [(&str, u32); 4] = [("bytes", 0x1011), ("bstr", 8), ("lpstr", 30), ("lpwstr", 31)];

/// Reads `[from]` and `[to]`; `None` when something is missing or wrong.
pub(super) fn read(
    name: String,
    root: &Section<'_>,
    security: &Section<'_>,
    mode: SecurityMode,
    surroundings: Surroundings<'_>,
    required: bool,
) -> Option<ReturnRoute> {
    let from = read_from_amqp(&root.section("from"), surroundings.connectors);
    let to = read_to_msmq(&root.section("to"), surroundings.machine);
    let protection = read_protection(security, mode, surroundings);
    Some(ReturnRoute { name, from: from?, to: to?, protection, required })
}

fn read_protection(security: &Section<'_>, mode: SecurityMode, surroundings: Surroundings<'_>) -> Protection {
    let sign = security.flag("sign").filter(|sign| sign.value);
    let encrypt = security.choice("encrypt", &Cipher::ALL.map(|cipher| (cipher.name(), cipher)));
    let form = [("property", SignatureForm::Property), ("wire", SignatureForm::Wire)];
    let form = security.choice("signature_form", &form);
    if mode == SecurityMode::Transparent {
        let both =
            "a transparent route passes on what its messages bring; remove it, or write mode = \"non-transparent\"";
        for (key, line) in [("sign", sign.map(|sign| sign.line)), ("encrypt", encrypt.map(|encrypt| encrypt.line))] {
            if let Some(line) = line {
                security.error(key, line, both.to_owned());
            }
        }
        return Protection::Transparent;
    }
    if let (Some(form), None) = (&form, &sign) {
        security.warning("signature_form", form.line, "has no effect without sign = true".to_owned());
    }
    if let Some(encrypt) = &encrypt {
        surroundings.need_directory(security, "encrypt", encrypt.line);
    }
    Protection::Own {
        sign: sign.map(|_| form.map_or(SignatureForm::default(), |form| form.value)),
        encrypt: encrypt.map(|encrypt| encrypt.value),
    }
}

fn read_from_amqp(from: &Section<'_>, connectors: Option<&Connectors>) -> Option<AmqpSource> {
    let connector = from.text("connector");
    match &connector {
        Some(connector) => check_connector(from, connector, connectors),
        None if !from.has("connector") => {
            from.missing("connector", "write the name of a section [connectors.NAME] to take messages from");
        }
        None => {}
    }
    let queue = from.text("queue");
    match &queue {
        // Queue names are short strings (AMQP 0-9-1, 4.2.5.3).
        Some(queue) if queue.value.is_empty() || queue.value.len() > 255 => {
            from.error("queue", queue.line, "the name of a queue has 1 to 255 bytes".to_owned());
        }
        None if !from.has("queue") => {
            from.missing("queue", "write the name of the AMQP queue, such as queue = \"replies\"");
        }
        _ => {}
    }
    let prefetch = from.integer("prefetch", 1..=65_535);
    let settle_after = from.time("settle_after", Duration::from_secs(1)..=Duration::from_mins(25));
    from.finish();
    Some(AmqpSource {
        connector: connector?.value,
        queue: queue?.value,
        prefetch: prefetch.and_then(|number| u16::try_from(number.value).ok()).unwrap_or(256),
        settle_after: settle_after.map_or(Duration::from_mins(1), |time| time.value),
    })
}

fn read_to_msmq(to: &Section<'_>, machine: Option<&QueueManagerConfig>) -> Option<MsmqTarget> {
    let queue = to.text("queue");
    if queue.is_none() && !to.has("queue") {
        to.missing(
            "queue",
            "write a format name, such as queue = 'DIRECT=OS:win01\\private$\\replies', or \"{reply_to}\"",
        );
    }
    let queue = queue.and_then(|text| to.parsed("queue", &text, |text| destination(text, machine)));
    let delivery = to.choice(
        "delivery",
        &[("express", Some(Delivery::Express)), ("recoverable", Some(Delivery::Recoverable)), ("transactional", None)],
    );
    let time_to_reach_queue = to.time_or_infinite("time_to_reach_queue");
    let time_to_be_received = to.time_or_infinite("time_to_be_received");
    let body_type = to.text("body_type").and_then(|text| to.parsed("body_type", &text, body_type));
    let _ = to.flag("journal");
    let dead_letter = to.flag("dead_letter").is_some_and(|flag| flag.value);
    let carry_headers = to.flag("carry_headers").is_some_and(|flag| flag.value);
    let reach_and_receive = to.choices("ack", &[("reach", true), ("receive", false)]).unwrap_or_default();
    let quota = to.size("quota", 1 << 20..=1 << 50).map_or(1 << 30, |size| size.value);
    to.finish();
    Some(MsmqTarget {
        queue: queue?.value,
        delivery: delivery.and_then(|delivery| delivery.value),
        time_to_reach_queue: time_to_reach_queue.map_or(Some(LONG_LIVED), |time| time.value),
        time_to_be_received: time_to_be_received.and_then(|time| time.value),
        body_type: body_type.map(|body_type| body_type.value),
        dead_letter,
        acknowledgments: AckWanted {
            reach: reach_and_receive.iter().any(|wanted| wanted.value),
            receive: reach_and_receive.iter().any(|wanted| !wanted.value),
        },
        carry_headers,
        quota,
    })
}

fn body_type(text: &str) -> Result<u32, String> {
    let named = BODY_TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, number)| *number);
    let number = || match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    named.or_else(number).ok_or_else(|| {
        "is no body type: \"bytes\", \"bstr\", \"lpstr\", \"lpwstr\" or a number such as \"0x1011\" is expected"
            .to_owned()
    })
}

fn destination(text: &str, machine: Option<&QueueManagerConfig>) -> Result<Destination, String> {
    if text.eq_ignore_ascii_case(REPLY_TO) {
        return Ok(Destination::ReplyTo);
    }
    let name: FormatName = text.parse().map_err(|error: crate::mqqb::wire::FormatNameError| error.to_string())?;
    check_sendable(&name)?;
    if let (FormatName::Direct(direct), Some(machine)) = (&name, machine)
        && machine.is_called(&direct.address)
    {
        return Err(format!("{name} is a queue of this machine; a route leads to queues of others"));
    }
    Ok(Destination::Fixed(name))
}

/// Whether messages can be sent to a queue from here.
///
/// # Errors
/// A sentence that says why not.
pub fn check_sendable(name: &FormatName) -> Result<(), String> {
    let is_sub_queue = |path: &QueuePath| {
        matches!(
            path,
            QueuePath::Private { suffix: Some(QueueSuffix::SubQueue(_)), .. }
                | QueuePath::Public { suffix: Some(QueueSuffix::SubQueue(_)), .. }
        )
    };
    match name {
        name if name.is_read_only() => Err(format!("{name} is a journal or dead-letter queue; nobody sends to it")),
        FormatName::Direct(direct) if is_sub_queue(&direct.queue) => {
            Err(format!("{name} is a sub-queue; other machines can't send to it"))
        }
        FormatName::Direct(direct) if matches!(direct.protocol, Protocol::Os | Protocol::Tcp) => Ok(()),
        FormatName::Direct(_) => Err(format!(
            "{name} names a protocol that this bridge does not speak; DIRECT=OS: and DIRECT=TCP: can be reached"
        )),
        FormatName::Public { suffix: None, .. } | FormatName::Private { suffix: None, .. } => Ok(()),
        _ => Err(format!("{name} is not one queue; DIRECT=, PRIVATE= and PUBLIC= names can be sent to")),
    }
}
