//! Packets for sessions to exchange, and a generator of numbers that depends on nothing but its seed.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mqbridge::mqqb::Moment;
use mqbridge::mqqb::wire::{
    AckRequest, BaseHeader, DeliveryMode, DirectField, Frame, Guid, MessageClass, MessageProperties, Padding,
    QueueField, TransactionHeader, TxSequenceId, UserHeader, UserMessage, WideText,
};

/// Offset of `UserHeader.MessageID` in a packet.
const MESSAGE_ID: usize = 16 /* BaseHeader */ + 16 /* SourceQueueManager */ + 16 /* QueueManagerAddress */
    + 4 /* TimeToBeReceived */ + 4 /* SentTime */;

/// Ready packets, to be stamped with a message id.
pub(crate) struct Packets {
    express: Bytes,
    recoverable: Bytes,
}

impl Packets {
    pub(crate) fn new() -> Self {
        Self {
            express: encode(&message(DeliveryMode::Express)),
            recoverable: encode(&message(DeliveryMode::Recoverable)),
        }
    }

    pub(crate) fn message(&self, id: u32, recoverable: bool) -> Bytes {
        let template = if recoverable { &self.recoverable } else { &self.express };
        let mut bytes = BytesMut::from(template.as_ref());
        bytes[MESSAGE_ID..MESSAGE_ID + 4].copy_from_slice(&id.to_le_bytes());
        bytes.freeze()
    }
}

/// A message with nothing special about it.
pub(crate) fn message(delivery: DeliveryMode) -> UserMessage {
    let destination =
        DirectField { name: WideText::from_text("OS:bridge01\\private$\\orders"), padding: Padding::default() };
    UserMessage {
        base: BaseHeader { reserved: 0, flags: 3, time_to_reach_queue: BaseHeader::INFINITE },
        user: UserHeader {
            source_queue_manager: guid(7),
            queue_manager_address: Guid::NULL,
            time_to_be_received: BaseHeader::INFINITE,
            sent_time: 1_700_000_000,
            message_id: 1,
            flags: 0,
            destination: QueueField::Direct(destination),
            admin: QueueField::None,
            response: QueueField::None,
            connector_type: None,
        },
        delivery,
        security: None,
        properties: MessageProperties {
            ack_request: AckRequest(0),
            class: MessageClass::NORMAL,
            correlation_id: [0; 20],
            body_type: 0,
            app_specific: 0,
            allocation_body_size: 5,
            privacy_level: 0,
            hash_algorithm: 0,
            encryption_algorithm: 0,
            label: Some(WideText::from_text("a")),
            extension: Bytes::new(),
            body: Bytes::from_static(b"hello"),
            padding: Padding::default(),
        },
        debug: None,
        soap: None,
        multi_queue: None,
        trailer: Bytes::new(),
        session: None,
    }
}

/// The first message of a sequence.
pub(crate) fn transactional() -> DeliveryMode {
    DeliveryMode::Transactional(TransactionHeader {
        flags: TransactionHeader::FIRST | TransactionHeader::LAST,
        sequence_id: TxSequenceId { timestamp: 1, ordinal: 1 },
        sequence_number: 1,
        previous_sequence_number: 0,
        connector_queue_manager: None,
    })
}

pub(crate) fn encode(message: &UserMessage) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).expect("the message is legal");
    bytes.freeze()
}

pub(crate) fn frame(bytes: Bytes) -> Frame {
    Frame::new(bytes).expect("one packet")
}

/// A queue manager for tests.
pub(crate) const fn guid(last: u8) -> Guid {
    Guid::from_wire([0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, last])
}

/// `SplitMix64`: small, fast, and the same everywhere.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number from `least` to `most`.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True in `percent` of 100 cases.
    pub(crate) const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// When everything begins: not at zero, so that a moment and a time span are not mistaken for each other.
pub(crate) const fn start() -> Moment {
    Moment::from_start(Duration::from_secs(1000))
}
