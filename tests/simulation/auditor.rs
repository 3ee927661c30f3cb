//! Watches one direction of messages, from one side's outgoing queue to the other side's disk.

use std::collections::BTreeMap;

use mqbridge::mqqb::wire::SessionHeader;

/// A message, by the place its sender made it in.
pub(crate) type Id = u32;

#[derive(Default)]
pub(crate) struct Auditor {
    /// What became of each message at the receiver, for good.
    settled: BTreeMap<Id, Fate>,
    acknowledged: BTreeMap<Id, u64>,
    /// The latest message the receiver has ever seen.
    latest_seen: Id,
    connection: Connection,
    pub(crate) repeats: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    OnDisk,
    Refused,
}

/// One session's share.
#[derive(Default)]
struct Connection {
    number: u64,
    sent: Vec<(Id, bool)>,
    /// Whether the receipt of each message received is back.
    received: Vec<bool>,
}

impl Auditor {
    pub(crate) fn connect(&mut self, number: u64) {
        self.connection = Connection { number, ..Connection::default() };
    }

    pub(crate) fn sent(&mut self, id: Id, recoverable: bool) {
        assert!(!self.acknowledged.contains_key(&id), "{id} is sent again though it was acknowledged");
        assert!(self.connection.sent.last().is_none_or(|(last, _)| *last < id), "{id} is sent out of order");
        self.connection.sent.push((id, recoverable));
    }

    pub(crate) fn received(&mut self, id: Id, recoverable: bool) -> usize {
        let place = self.connection.received.len();
        assert_eq!(
            self.connection.sent.get(place),
            Some(&(id, recoverable)),
            "not what was sent as number {}",
            place + 1
        );
        if id > self.latest_seen {
            self.latest_seen = id;
        } else {
            // An earlier session brought it: on this one, each comes after the one before it.
            self.repeats += 1;
        }
        self.connection.received.push(false);
        place
    }

    pub(crate) fn settled(&mut self, id: Id, fate: Fate) {
        self.settled.entry(id).or_insert(fate);
    }

    pub(crate) fn is_settled(&self, id: Id) -> bool {
        self.settled.contains_key(&id)
    }

    /// A receipt went back to a session, perhaps not to the one it came from.
    pub(crate) fn receipt_returned(&mut self, connection: u64, place: usize) {
        if connection == self.connection.number {
            self.connection.received[place] = true;
        }
    }

    /// The receiver puts an acknowledgment on the wire: true for every way to read it.
    pub(crate) fn header_leaves(&self, header: &SessionHeader) {
        let row = self.connection.received.iter().take_while(|settled| **settled).count();
        let recoverable_row = self.connection.sent[..row].iter().filter(|(_, recoverable)| *recoverable).count();
        let number = usize::from(header.ack_sequence_number);
        assert!(number <= row, "acknowledges {number}, settled are {row}");
        let base = usize::from(header.recoverable_ack_sequence_number);
        assert!(base <= recoverable_row, "base {base}, settled recoverable are {recoverable_row}");
        for bit in header.recoverable_acknowledged() {
            assert!((1..=recoverable_row).contains(&usize::from(bit)), "bit {bit} of {recoverable_row}");
        }
    }

    /// The sender takes a message for acknowledged.
    pub(crate) fn acknowledged(&mut self, id: Id) {
        assert!(self.settled.contains_key(&id), "{id} is acknowledged but neither on disk nor refused");
        let sent = self.connection.sent.binary_search_by_key(&id, |(sent, _)| *sent);
        assert!(sent.is_ok(), "{id} was not sent on this session");
        let before = self.acknowledged.insert(id, self.connection.number);
        assert_eq!(before, None, "{id} is acknowledged a second time");
    }

    pub(crate) fn acknowledged_count(&self) -> u64 {
        self.acknowledged.len() as u64
    }

    pub(crate) fn is_acknowledged(&self, id: Id) -> bool {
        self.acknowledged.contains_key(&id)
    }
}
