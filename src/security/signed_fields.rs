//! The fields that a signature covers, as bytes (MS-MQMQ 2.5).

use super::hash::Hasher;
use super::{FormatNameLists, QueueNames, Reading, SignatureVersion};
use crate::mqqb::wire::{AddressList, FormatName, QueueField, UserHeader, UserMessage, WideText};

/// What may be hashed, beyond the body and for all readings together. An extension of several megabytes is hashed for
/// as many readings as fit; without a bound one message could cost seconds.
const MAX_HASHED: usize = 16 << 20;

/// Hashes what all versions and readings begin with: correlation id, application value, body.
pub(super) fn hash_beginning(message: &UserMessage, body: &[u8], hash: &mut Hasher) {
    hash.update(&message.properties.correlation_id);
    hash.update(&message.properties.app_specific.to_le_bytes());
    hash.update(body);
}

/// The rest of what a signature covers under one reading; `None` when the reading gives a queue no name.
pub(super) fn ending(message: &UserMessage, version: SignatureVersion, reading: Reading) -> Option<Vec<u8>> {
    let queues = Queues::of(message, reading.queue_names)?;
    Some(queues.ending(message, version, reading))
}

/// The first reading under which `matches` is true of the ending, which is tried for each that makes a difference to
/// this message: every combination for the property form and the wire form, one by one for the others.
pub(super) fn find_reading(
    message: &UserMessage,
    version: SignatureVersion,
    mut matches: impl FnMut(&[u8]) -> bool,
) -> Option<Reading> {
    let mut tried: Vec<Queues> = Vec::new();
    let mut hashed = 0;
    for names in QueueNames::ALL {
        let Some(mut queues) = Queues::of(message, names) else { continue };
        if version == SignatureVersion::V1 {
            queues.destination.clear();
        }
        if tried.contains(&queues) {
            continue;
        }
        for reading in combinations(message, version, names) {
            let ending = queues.ending(message, version, reading);
            if matches(&ending) {
                return Some(reading);
            }
            hashed += ending.len();
            if hashed > MAX_HASHED {
                return None;
            }
        }
        tried.push(queues);
    }
    None
}

/// The readings with these queue names that differ for this message, the default first.
fn combinations(message: &UserMessage, version: SignatureVersion, names: QueueNames) -> Vec<Reading> {
    let default = Reading::new(names);
    if !matches!(names, QueueNames::Property | QueueNames::Wire) {
        return vec![default];
    }
    let mut readings = vec![default];
    let mut add = |differs: bool, change: fn(&mut Reading)| {
        if differs {
            let changed = readings.iter().map(|reading| {
                let mut reading = *reading;
                change(&mut reading);
                reading
            });
            let changed: Vec<Reading> = changed.collect();
            readings.extend(changed);
        }
    };
    let same_as_admin = message.user.response == QueueField::SameAsAdmin && message.user.admin != QueueField::None;
    add(same_as_admin, |reading| reading.same_as_admin_repeated = true);
    let no_connector = version != SignatureVersion::V1 && message.user.connector_type.is_none();
    add(no_connector, |reading| reading.absent_connector_as_zeros = true);
    add(message.properties.label.is_some(), |reading| reading.label_with_nul = false);
    if version == SignatureVersion::V3 && message.multi_queue.is_some() {
        let others = FormatNameLists::ALL.into_iter().skip(1);
        readings.extend(others.map(|lists| Reading { lists, ..default }));
    }
    readings
}

/// The queues of a message in one of the forms.
#[derive(PartialEq, Eq)]
struct Queues {
    destination: Vec<u8>,
    admin: Vec<u8>,
    /// Empty also when it is the administration queue.
    response: Vec<u8>,
}

impl Queues {
    fn of(message: &UserMessage, names: QueueNames) -> Option<Self> {
        let user = &message.user;
        Some(Self {
            destination: queue(&user.destination, || message.destination(), names)?,
            admin: queue(&user.admin, || message.admin_queue(), names)?,
            response: match &user.response {
                QueueField::SameAsAdmin => Vec::new(),
                response => queue(response, || message.response_queue(), names)?,
            },
        })
    }

    fn ending(&self, message: &UserMessage, version: SignatureVersion, reading: Reading) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(label) = &message.properties.label {
            text(label, reading.label_with_nul, &mut out);
        }
        if reading.same_as_admin_repeated && message.user.response == QueueField::SameAsAdmin {
            out.extend_from_slice(&self.admin);
        }
        out.extend_from_slice(&self.response);
        out.extend_from_slice(&self.admin);
        match version {
            SignatureVersion::V1 => {}
            SignatureVersion::V2 => {
                properties(message, reading, &mut out);
                out.extend_from_slice(&self.destination);
            }
            SignatureVersion::V3 => {
                out.extend_from_slice(&message.properties.extension);
                lists(message, reading.lists, &mut out);
                properties(message, reading, &mut out);
            }
        }
        out
    }
}

/// What 2.0 and 3.0 signatures have in common, from the source to the connector.
fn properties(message: &UserMessage, reading: Reading, out: &mut Vec<u8>) {
    let user = &message.user;
    out.extend_from_slice(&user.source_queue_manager.to_wire());
    let positive = u8::from(user.has(UserHeader::POSITIVE_SOURCE_JOURNAL));
    let negative = u8::from(user.has(UserHeader::NEGATIVE_SOURCE_JOURNAL));
    out.extend_from_slice(&[
        u8::from(message.is_recoverable()),
        message.base.priority(),
        positive << 1 | negative,
        message.properties.ack_request.0 & 0x0F,
    ]);
    out.extend_from_slice(&message.properties.class.0.to_le_bytes());
    out.extend_from_slice(&message.properties.body_type.to_le_bytes());
    match user.connector_type {
        Some(connector) => out.extend_from_slice(&connector.to_wire()),
        None if reading.absent_connector_as_zeros => out.extend_from_slice(&[0; 16]),
        None => {}
    }
}

/// `MultiQueueFormatHeader.FormatNameList`.
fn lists(message: &UserMessage, lists: FormatNameLists, out: &mut Vec<u8>) {
    let Some(multi_queue) = &message.multi_queue else { return };
    let mut put = |list: &AddressList, with_padding: bool| {
        out.extend_from_slice(&list.format_name_list);
        if with_padding {
            out.extend_from_slice(&list.padding);
        }
    };
    let (all, with_padding) = match lists {
        FormatNameLists::Destination => (false, false),
        FormatNameLists::DestinationWithPadding => (false, true),
        FormatNameLists::All => (true, false),
        FormatNameLists::AllWithPadding => (true, true),
    };
    put(&multi_queue.destination, with_padding);
    if all {
        put(&multi_queue.administration, with_padding);
        put(&multi_queue.response, with_padding);
    }
}

/// A queue in one of the forms; `name` makes its format name.
fn queue(field: &QueueField, name: impl FnOnce() -> Option<FormatName>, names: QueueNames) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match (names, field) {
        (_, QueueField::None | QueueField::SameAsAdmin) => {}
        (QueueNames::Name, QueueField::Direct(direct)) => text(&direct.name, true, &mut out),
        (QueueNames::NameWithoutNul, QueueField::Direct(direct)) => text(&direct.name, false, &mut out),
        (QueueNames::Wire | QueueNames::WireWithPadding | QueueNames::Name | QueueNames::NameWithoutNul, field) => {
            out.extend_from_slice(&field.to_wire());
            if let (QueueNames::WireWithPadding, QueueField::Direct(direct)) = (names, field) {
                out.extend_from_slice(&direct.padding);
            }
        }
        (_, field) => {
            let with_nul = names != QueueNames::PropertyWithoutNul;
            if let QueueField::Direct(direct) = field {
                out.extend("DIRECT=".encode_utf16().flat_map(u16::to_le_bytes));
                text(&direct.name, with_nul, &mut out);
            } else {
                text(&WideText::from_text(&spelt(&name()?, names)?), with_nul, &mut out);
            }
        }
    }
    Some(out)
}

/// The name of a queue that has a GUID.
fn spelt(name: &FormatName, names: QueueNames) -> Option<String> {
    let lower = matches!(names, QueueNames::PropertyLower | QueueNames::PropertyLowerShort);
    let short = matches!(names, QueueNames::PropertyShort | QueueNames::PropertyLowerShort);
    Some(match name {
        FormatName::Public { queue, .. } if lower => format!("PUBLIC={queue}"),
        FormatName::Public { queue, .. } => format!("PUBLIC={queue:X}"),
        FormatName::Private { machine, id, .. } => match (lower, short) {
            (false, false) => format!("PRIVATE={machine:X}\\{id:08X}"),
            (false, true) => format!("PRIVATE={machine:X}\\{id:X}"),
            (true, false) => format!("PRIVATE={machine}\\{id:08x}"),
            (true, true) => format!("PRIVATE={machine}\\{id:x}"),
        },
        _ => return None,
    })
}

fn text(text: &WideText, with_nul: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_wire());
    if with_nul {
        out.extend_from_slice(&[0, 0]);
    }
}
