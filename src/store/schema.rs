//! What is on disk, byte by byte. Format 1.
//!
//! Integers are big-endian everywhere, so that the bytes of a key sort as the key does.
//!
//! ```text
//! meta       name                                  -> u64
//!              "version"         the format, 1
//!              "clean"           1 while closed with nothing in flight to a foreign system
//!              "repeated_below"  messages that arrived before may have been published before
//!              "next_ordinal"    the next number for a message of our own; absent: 1
//!
//! queues     u32 queue                             -> 0   u8   version, 1
//!                                                     1   u64  messages in the queue
//!                                                     9   u64  bytes of their frames
//!                                                     17  u64  one more than the last arrival in the queue
//!                                                     25  …    name, UTF-8
//!
//! messages   0   u32  queue                        -> 0   u8   version, 1
//!            4   u8   7 less the priority             1   u8   flags: 0x01 set aside, 0x02 may be repeated,
//!                                                          0xF0 the caller's marks
//!            5   u64  arrival                         2   u16  slices of the frame in `slices`
//!                                                     4   u32  length of the frame
//!                                                     8   u64  received at, seconds since 1970 (UTC)
//!                                                     16  u64  body: what the slices are kept under
//!                                                     24  u32  CRC-32 of the frame
//!                                                     28  u32  CRC-32 of the key, bytes 0 to 27, and the next part
//!                                                     32  …    when set aside: u16 class, u64 at,
//!                                                              u32 length and origin, u32 length and reason
//!                                                     …   …    what of the frame is not in `slices`
//!
//! slices     0   u64  body                         -> a part of a frame
//!            8   u16  0, 1, 2, …
//!
//! history    0   16   source GUID, as on the wire  -> 0   u32  last ordinal of the run
//!            16  u32  first ordinal of the run        4   u64  first seen, seconds since 1970 (UTC)
//!                                                     12  u64  last seen
//!
//! foreign    u64 running number                    -> 16 bytes that tell a foreign system's message from others
//! ```
//!
//! A message moved to another queue gets a new arrival there, and its slices stay where they are: hence the body.
//! The engine checks its pages only when it repairs, so that each message carries its own checksums.

use redb::TableDefinition;

use super::foreign::ForeignKey;
use super::{Position, QueueId, SetAside};

/// The format this program writes, and the latest it reads.
pub(super) const VERSION: u64 = 1;

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const QUEUES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("queues");
pub(super) const MESSAGES: TableDefinition<'_, &MessageKey, &[u8]> = TableDefinition::new("messages");
pub(super) const SLICES: TableDefinition<'_, &SliceKey, &[u8]> = TableDefinition::new("slices");
pub(super) const FOREIGN: TableDefinition<'_, u64, &ForeignKey> = TableDefinition::new("foreign");
pub(super) const HISTORY: TableDefinition<'_, &HistoryKey, &HistoryRow> = TableDefinition::new("history");

/// Keys of the table `meta`.
pub(super) const META_VERSION: &str = "version";
pub(super) const META_CLEAN: &str = "clean";
pub(super) const META_REPEATED_BELOW: &str = "repeated_below";
pub(super) const META_NEXT_ORDINAL: &str = "next_ordinal";

pub(super) type MessageKey = [u8; 4 /* queue */ + 1 /* inverse priority */ + 8];
pub(super) type SliceKey = [u8; SLICE_KEY_SIZE];
pub(super) type HistoryKey = [u8; 16 /* source */ + 4];
pub(super) type HistoryRow = [u8; 4 /* last ordinal */ + 8 /* first seen */ + 8];

const SLICE_KEY_SIZE: usize = 8 /* body */ + 2 /* number */;

const ROW_VERSION: u8 = 1;
const FLAG_SET_ASIDE: u8 = 0x01;
const FLAG_MAY_BE_REPEATED: u8 = 0x02;
const MARKS_SHIFT: u32 = 4;
const HEAD_SIZE: usize = 1 /* version */ + 1 /* flags */ + 2 /* slices */ + 4 /* length */ + 8 /* received at */
    + 8 /* body */ + 4 /* frame's checksum */ + 4 /* head's checksum */;
const HEAD_CHECKED: usize = HEAD_SIZE - 4 /* the checksum itself */;

/// The lowest priority, and the number of priorities less one.
pub(super) const LOWEST: u8 = 7;

pub(super) fn message_key(queue: QueueId, position: Position) -> MessageKey {
    let mut key = [0; size_of::<MessageKey>()];
    key[..4].copy_from_slice(&queue.0.to_be_bytes());
    key[4] = position.inverse_priority;
    key[5..].copy_from_slice(&position.arrival.to_be_bytes());
    key
}

pub(super) fn position_of(key: &MessageKey) -> Position {
    let [_, _, _, _, inverse_priority, arrival @ ..] = *key;
    Position { inverse_priority, arrival: u64::from_be_bytes(arrival) }
}

pub(super) fn slice_key(body: u64, number: u16) -> SliceKey {
    let mut key = [0; SLICE_KEY_SIZE];
    key[..8].copy_from_slice(&body.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The part of a message's row that says what the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) may_be_repeated: bool,
    pub(super) marks: u8,
    pub(super) slices: u16,
    pub(super) length: u32,
    pub(super) received_at: u64,
    pub(super) body: u64,
    pub(super) checksum: u32,
}

/// A message's row, read in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) head: Head,
    /// The encoded [`SetAside`].
    reason: Option<&'a [u8]>,
    /// What of the frame is not in slices.
    pub(super) inline: &'a [u8],
}

impl<'a> Row<'a> {
    /// Reads the row and checks its head; the frame is checked by whoever puts it together.
    pub(super) fn decode(key: &MessageKey, value: &'a [u8]) -> Result<Self, &'static str> {
        let mut rest = Cursor(value);
        let version = rest.u8()?;
        if version != ROW_VERSION {
            return Err("its version is not known");
        }
        let flags = rest.u8()?;
        let head = Head {
            may_be_repeated: flags & FLAG_MAY_BE_REPEATED != 0,
            marks: flags >> MARKS_SHIFT,
            slices: rest.u16()?,
            length: rest.u32()?,
            received_at: rest.u64()?,
            body: rest.u64()?,
            checksum: rest.u32()?,
        };
        let checksum = rest.u32()?;
        let after_head = rest.0;
        let reason = if flags & FLAG_SET_ASIDE == 0 {
            None
        } else {
            decode_reason(&mut rest)?;
            let size = after_head.len() - rest.0.len();
            after_head.get(..size)
        };
        let checked = value.get(..HEAD_CHECKED).unwrap_or_default();
        if checksum != head_checksum(key, checked, reason.unwrap_or_default()) {
            return Err("the checksum of its head is wrong");
        }
        Ok(Self { head, reason, inline: rest.0 })
    }

    /// Why the message was set aside.
    pub(super) fn reason(&self) -> Result<Option<SetAside>, &'static str> {
        self.reason.map(|bytes| decode_reason(&mut Cursor(bytes))).transpose()
    }
}

/// Appends a message's row to `out`.
pub(super) fn encode_row(out: &mut Vec<u8>, key: &MessageKey, head: Head, reason: Option<&SetAside>, inline: &[u8]) {
    let start = out.len();
    let mut flags = (head.marks & 0xF) << MARKS_SHIFT;
    if reason.is_some() {
        flags |= FLAG_SET_ASIDE;
    }
    if head.may_be_repeated {
        flags |= FLAG_MAY_BE_REPEATED;
    }
    out.reserve(HEAD_SIZE + inline.len());
    out.extend_from_slice(&[ROW_VERSION, flags]);
    out.extend_from_slice(&head.slices.to_be_bytes());
    out.extend_from_slice(&head.length.to_be_bytes());
    out.extend_from_slice(&head.received_at.to_be_bytes());
    out.extend_from_slice(&head.body.to_be_bytes());
    out.extend_from_slice(&head.checksum.to_be_bytes());
    let mut words = Vec::new();
    if let Some(reason) = reason {
        encode_reason(&mut words, reason);
    }
    let checksum = head_checksum(key, out.get(start..).unwrap_or_default(), &words);
    out.extend_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&words);
    out.extend_from_slice(inline);
}

fn head_checksum(key: &MessageKey, head: &[u8], reason: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(head);
    hasher.update(reason);
    hasher.finalize()
}

fn encode_reason(out: &mut Vec<u8>, why: &SetAside) {
    out.extend_from_slice(&why.class.to_be_bytes());
    out.extend_from_slice(&why.at.to_be_bytes());
    for text in [&why.origin, &why.reason] {
        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

fn decode_reason(bytes: &mut Cursor<'_>) -> Result<SetAside, &'static str> {
    let class = bytes.u16()?;
    let at = bytes.u64()?;
    Ok(SetAside { origin: bytes.text()?, class, reason: bytes.text()?, at })
}

/// A queue's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueRow {
    pub(super) name: String,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) next_arrival: u64,
}

impl QueueRow {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION];
        out.extend_from_slice(&self.messages.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&self.next_arrival.to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, &'static str> {
        let mut rest = Cursor(value);
        if rest.u8()? != ROW_VERSION {
            return Err("its version is not known");
        }
        let (messages, bytes, next_arrival) = (rest.u64()?, rest.u64()?, rest.u64()?);
        let name = std::str::from_utf8(rest.0).map_err(|_| "its name is not UTF-8")?.to_owned();
        Ok(Self { name, messages, bytes, next_arrival })
    }
}

/// Bytes being read from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, rest) = self.0.split_first_chunk().ok_or("it is cut short")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, &'static str> {
        self.take().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.take().map(u64::from_be_bytes)
    }

    fn text(&mut self) -> Result<String, &'static str> {
        let length = self.u32()? as usize;
        let (text, rest): (&'a [u8], &'a [u8]) = self.0.split_at_checked(length).ok_or("it is cut short")?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| "a text in it is not UTF-8")
    }
}

/// How a frame is cut: slices just as long as a page of the engine holds, and what remains goes into the row.
///
/// A page is 4 KiB times a power of two. A value of its own page that is a little longer than half the page would
/// waste almost half of it, so a frame is cut into pages that it fills: as many of the largest as fit, then one each
/// of the smaller ones. What remains is shorter than the smallest page and shares a page with other rows. When it is
/// a little longer than half a page it could share with nobody, so it is cut in two, of which three fit in a page;
/// and when the row would be a little longer than a page, it is a slice too.
pub(super) mod cut {
    use std::ops::Range;

    use super::{HEAD_SIZE, MessageKey, SLICE_KEY_SIZE};

    const PAGE: usize = 4096;
    /// The largest page used. Larger ones would save nothing and be hard to find room for in a used file.
    const LARGEST: u32 = 4; // 64 KiB
    /// What the engine needs for a single entry of a table with keys of fixed length.
    const ENTRY: usize = 4 /* kind of page and number of entries */ + 4 /* end of the value */;

    /// Of a row that shares its page: 4 for the end of the value, then key and head.
    const ROW: usize = 4 /* end of the value */ + size_of::<MessageKey>() + HEAD_SIZE;
    const SHARED_PAGE: usize = PAGE - 4 /* kind of page and number of entries */;
    const SHARED_SLICE: usize = 4 /* end of the value */ + SLICE_KEY_SIZE;

    const fn capacity(order: u32) -> usize {
        (PAGE << order) - ENTRY - SLICE_KEY_SIZE
    }

    /// The slices of a frame of this length; what is after the last goes into the row.
    pub(crate) fn slices(length: usize) -> Vec<Range<usize>> {
        let mut slices = Vec::new();
        let mut start = 0;
        let mut order = LARGEST;
        loop {
            let size = capacity(order);
            if length - start >= size {
                slices.push(start..start + size);
                start += size;
            } else if order == 0 {
                break;
            } else {
                order -= 1;
            }
        }
        let rest = length - start;
        if rest + ROW > SHARED_PAGE {
            slices.push(start..length);
        } else if 2 * (rest + ROW) > SHARED_PAGE && 3 * (rest.div_ceil(2) + SHARED_SLICE) <= SHARED_PAGE {
            let middle = start + rest.div_ceil(2);
            slices.push(start..middle);
            slices.push(middle..length);
        }
        slices
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::cast_precision_loss, reason = "ratios are rounded")]

        use super::*;

        /// Bytes on disk per frame of this length when all frames are of it.
        fn footprint(length: usize) -> f64 {
            let slices = slices(length);
            let end = slices.last().map_or(0, |last| last.end);
            let share = |size: usize| PAGE as f64 / (SHARED_PAGE / size) as f64;
            let slices: f64 = slices
                .iter()
                .map(|slice| {
                    let single = slice.len() + ENTRY + SLICE_KEY_SIZE;
                    if single >= PAGE { single.next_power_of_two() as f64 } else { share(slice.len() + SHARED_SLICE) }
                })
                .sum();
            slices + share(length - end + ROW)
        }

        #[test]
        fn slices_follow_each_other_and_fill_their_pages() {
            for length in 0..300_000 {
                let slices = slices(length);
                let mut end = 0;
                for slice in &slices {
                    assert_eq!(slice.start, end, "of {length}");
                    end = slice.end;
                }
                assert!(length - end < capacity(0), "of {length}");
            }
        }

        #[test]
        fn no_length_takes_more_than_1_6_times_its_bytes() {
            for length in 700..300_000 {
                let ratio = footprint(length) / length as f64;
                assert!(ratio < 1.6, "{length} bytes take {ratio} times as many");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn sample() -> (MessageKey, Head, SetAside) {
        let key = message_key(QueueId(7), Position { inverse_priority: 4, arrival: 0x0102_0304_0506_0708 });
        let head = Head {
            may_be_repeated: true,
            marks: 0xA,
            slices: 0,
            length: 5,
            received_at: 1_700_000_000,
            body: 99,
            checksum: 0xDEAD_BEEF,
        };
        let why = SetAside { origin: "private$\\orders".into(), class: 0x8003, reason: "refused: é".into(), at: 12 };
        (key, head, why)
    }

    #[test]
    fn keys_sort_by_queue_then_priority_then_arrival() {
        let key =
            |queue, inverse_priority, arrival| message_key(QueueId(queue), Position { inverse_priority, arrival });
        let order = [key(1, 0, 500), key(1, 4, 255), key(1, 4, 256), key(1, 7, 0), key(2, 0, 0), key(256, 0, 0)];
        assert!(order.is_sorted());
        assert_eq!(position_of(&order[2]), Position { inverse_priority: 4, arrival: 256 });
    }

    #[test]
    fn a_row_is_laid_out_as_the_table_says() {
        let (key, head, _) = sample();
        let mut row = Vec::new();
        encode_row(&mut row, &key, head, None, b"frame");
        assert_eq!(row[..2], [1, 0xA2]);
        assert_eq!(row[2..4], [0, 0]);
        assert_eq!(row[4..8], [0, 0, 0, 5]);
        assert_eq!(row[8..16], 1_700_000_000_u64.to_be_bytes());
        assert_eq!(row[16..24], [0, 0, 0, 0, 0, 0, 0, 99]);
        assert_eq!(row[24..28], [0xDE, 0xAD, 0xBE, 0xEF]);
        assert_eq!(row[28..32], crc32fast::hash(&[&key[..], &row[..28]].concat()).to_be_bytes());
        assert_eq!(&row[32..], b"frame");
    }

    #[test]
    fn a_row_reads_back_with_its_reason() {
        let (key, head, why) = sample();
        let mut row = Vec::new();
        encode_row(&mut row, &key, head, Some(&why), b"frame");
        let read = Row::decode(&key, &row).unwrap();
        assert_eq!(read.head, head);
        assert_eq!(read.reason().unwrap(), Some(why));
        assert_eq!(read.inline, b"frame");
    }

    #[test]
    fn every_changed_bit_of_the_head_and_every_other_key_is_noticed() {
        let (key, head, why) = sample();
        let mut row = Vec::new();
        encode_row(&mut row, &key, head, Some(&why), b"");
        for bit in 0..row.len() * 8 {
            let mut changed = row.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Row::decode(&key, &changed).is_err(), "bit {bit}");
        }
        for cut in 0..row.len() {
            assert!(Row::decode(&key, &row[..cut]).is_err(), "cut at {cut}");
        }
        let other = message_key(QueueId(8), position_of(&key));
        assert!(Row::decode(&other, &row).is_err());
    }

    #[test]
    fn a_queue_row_reads_back() {
        let row = QueueRow { name: "private$\\Aufträge".into(), messages: 3, bytes: 4, next_arrival: 5 };
        assert_eq!(QueueRow::decode(&row.encode()).unwrap(), row);
        assert!(QueueRow::decode(&row.encode()[..24]).is_err());
    }
}
