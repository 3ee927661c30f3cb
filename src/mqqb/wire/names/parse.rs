//! Text to names. Keywords are read in any case; what operators and applications chose is kept as it was written.

use std::net::Ipv4Addr;

use super::{Case, DirectName, FormatName, FormatNameError, Guid, Protocol, QueuePath, QueueSuffix, SystemQueue};

/// What is wrong, and what is expected.
type Why = &'static str;

/// The longest name of a sub-queue (MS-MQMQ 2.1.1).
const MAX_SUB_QUEUE_CHARACTERS: usize = 32;

pub(super) fn list(text: &str) -> Result<Vec<FormatName>, FormatNameError> {
    let mut names = Vec::new();
    for element in text.split(',') {
        names.push(element.trim_ascii().parse::<FormatName>()?);
    }
    if names.len() > 1
        && let Some(name) = names.iter().find(|name| name.is_read_only())
    {
        let why = "a journal or dead-letter queue can't be one of several names";
        return Err(FormatNameError { text: name.to_string(), why });
    }
    Ok(names)
}

pub(super) fn format_name(text: &str) -> Result<FormatName, Why> {
    const WANTED: Why = "DIRECT=, PUBLIC=, PRIVATE=, DL=, MACHINE=, CONNECTOR= or MULTICAST= is expected at its start, \
                         such as DIRECT=OS:host\\private$\\orders";
    let (kind, rest) = text.split_once('=').ok_or(WANTED)?;
    let is = |keyword: &str| kind.trim_ascii_start().eq_ignore_ascii_case(keyword);
    if is("DIRECT") {
        direct(rest).map(FormatName::Direct)
    } else if is("PUBLIC") {
        let (rest, suffix) = suffix(rest)?;
        Ok(FormatName::Public { queue: guid(rest)?, suffix })
    } else if is("PRIVATE") {
        private(rest)
    } else if is("DL") {
        distribution_list(rest)
    } else if is("MACHINE") {
        let (rest, queue) = rest.split_once(';').ok_or(SYSTEM_QUEUE_WANTED)?;
        Ok(FormatName::Machine { machine: guid(rest)?, queue: system_queue(queue)? })
    } else if is("CONNECTOR") {
        connector(rest)
    } else if is("MULTICAST") {
        multicast(rest)
    } else {
        Err(WANTED)
    }
}

pub(super) fn direct(text: &str) -> Result<DirectName, Why> {
    const WANTED: Why = "OS:, TCP:, HTTP: or HTTPS: is expected, such as OS:host\\private$\\orders";
    let (protocol, rest) = text.split_once(':').ok_or(WANTED)?;
    let protocol = [Protocol::Os, Protocol::Tcp, Protocol::Http, Protocol::Https, Protocol::Ipx, Protocol::Spx]
        .into_iter()
        .find(|known| known.to_string().eq_ignore_ascii_case(protocol))
        .ok_or(WANTED)?;
    let (address, queue) = if protocol.is_url() { url(rest)? } else { machine_and_queue(rest)? };
    if address.is_empty() {
        return Err("the name or address of a machine is expected after the protocol");
    }
    Ok(DirectName { protocol, address: address.to_owned(), queue: queue_path(queue, protocol.is_url())? })
}

/// `host\queue`. Everything after the first backslash is the queue, further backslashes and slashes included.
fn machine_and_queue(text: &str) -> Result<(&str, &str), Why> {
    text.split_once('\\')
        .ok_or("a backslash and a queue are expected after the machine, such as host\\private$\\orders")
}

/// `//host:port/msmq/queue`, with a slash or, in the grammar of MS-MQMQ 2.1.2, a backslash before the queue. The
/// virtual directory belongs to the address.
fn url(text: &str) -> Result<(&str, &str), Why> {
    const WANTED: Why = "a URL is expected, such as //host/msmq/private$/orders";
    let text = text.strip_prefix("//").ok_or(WANTED)?;
    let directory = text.find('/').ok_or(WANTED)? + 1;
    if directory == 1 {
        return Err(WANTED);
    }
    let (_, path) = text.split_at_checked(directory).ok_or(WANTED)?;
    let separator = path.find(['/', '\\']).ok_or(WANTED)?;
    let (address, queue) = text.split_at_checked(directory + separator).ok_or(WANTED)?;
    Ok((address, queue.get(1..).ok_or(WANTED)?))
}

/// `private$\name`, `name`, `system$;…`; in a URL also `private$/name`.
pub(super) fn queue_path(text: &str, in_url: bool) -> Result<QueuePath, Why> {
    if let Some(queue) = strip_prefix(text, "system$;") {
        return system_queue(queue).map(QueuePath::System);
    }
    let private = strip_prefix(text, "private$\\");
    let private = private.or_else(|| if in_url { strip_prefix(text, "private$/") } else { None });
    let (name, suffix) = suffix(private.unwrap_or(text))?;
    if name.is_empty() {
        return Err("a queue's name is expected, such as private$\\orders");
    }
    let name = name.to_owned();
    Ok(match private {
        Some(_) => QueuePath::Private { name, suffix },
        None => QueuePath::Public { name, suffix },
    })
}

fn private(text: &str) -> Result<FormatName, Why> {
    const WANTED: Why = "a GUID, a backslash and one to eight hexadecimal digits are expected after PRIVATE=";
    let (text, suffix) = suffix(text)?;
    let (machine, id) = text.split_once('\\').ok_or(WANTED)?;
    if id.is_empty() || id.len() > 8 || !id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(WANTED);
    }
    let id = u32::from_str_radix(id, 16).map_err(|_| WANTED)?;
    Ok(FormatName::Private { machine: guid(machine)?, id, suffix })
}

fn distribution_list(text: &str) -> Result<FormatName, Why> {
    let (list, domain) = match text.split_once('@') {
        Some((_, "")) => return Err("a domain is expected after the @"),
        Some((list, domain)) => (list, Some(domain.to_owned())),
        None => (text, None),
    };
    Ok(FormatName::DistributionList { list: guid(list)?, domain })
}

fn connector(text: &str) -> Result<FormatName, Why> {
    let (site, transactional) = match text.split_once(';') {
        Some((site, suffix)) if suffix.eq_ignore_ascii_case("XACTONLY") => (site, true),
        Some(_) => return Err("only XACTONLY can follow the semicolon"),
        None => (text, false),
    };
    Ok(FormatName::Connector { site: guid(site)?, transactional })
}

fn multicast(text: &str) -> Result<FormatName, Why> {
    const WANTED: Why = "an address from 224.0.0.0 to 239.255.255.255, a colon and a port are expected";
    let (address, port) = text.split_once(':').ok_or(WANTED)?;
    let address = address.parse::<Ipv4Addr>().ok().filter(Ipv4Addr::is_multicast).ok_or(WANTED)?;
    // `u16` also reads a plus sign.
    let port = Some(port).filter(|port| port.bytes().all(|digit| digit.is_ascii_digit())).ok_or(WANTED)?;
    Ok(FormatName::Multicast { address, port: port.parse().map_err(|_| WANTED)? })
}

/// Takes `;JOURNAL` or a sub-queue off the end.
fn suffix(text: &str) -> Result<(&str, Option<QueueSuffix>), Why> {
    match text.split_once(';') {
        None => Ok((text, None)),
        Some((_, "")) => Err("JOURNAL or the name of a sub-queue is expected after the semicolon"),
        Some((name, suffix)) if suffix.eq_ignore_ascii_case("JOURNAL") => Ok((name, Some(QueueSuffix::Journal))),
        Some((_, suffix)) if suffix.chars().count() > MAX_SUB_QUEUE_CHARACTERS => {
            Err("the name of a sub-queue has at most 32 characters")
        }
        Some((name, suffix)) => Ok((name, Some(QueueSuffix::SubQueue(suffix.to_owned())))),
    }
}

const SYSTEM_QUEUE_WANTED: Why = "JOURNAL, DEADLETTER or DEADXACT is expected after the semicolon";

fn system_queue(text: &str) -> Result<SystemQueue, Why> {
    let mut all = SystemQueue::ALL.into_iter();
    all.find(|queue| text.eq_ignore_ascii_case(queue.keyword(Case::Upper))).ok_or(SYSTEM_QUEUE_WANTED)
}

fn guid(text: &str) -> Result<Guid, Why> {
    text.parse().map_err(|_| "a GUID is expected: 8-4-4-4-12 hexadecimal digits")
}

/// As [`str::strip_prefix`], in any case.
fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
