//! A sender that writes frames itself, for messages that no client library would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const FRAME_END: u8 = 0xCE;

/// Properties, by the bit that says that they are there; to be given from the highest to the lowest.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    ContentType = 15,
    ContentEncoding = 14,
    Headers = 13,
    DeliveryMode = 12,
    Priority = 11,
    CorrelationId = 10,
    ReplyTo = 9,
    Expiration = 8,
    MessageId = 7,
    Timestamp = 6,
    Kind = 5,
    UserId = 4,
    AppId = 3,
}

/// A connection with one open channel.
pub(crate) struct RawSender(TcpStream);

impl RawSender {
    /// Logs in at a broker on loopback.
    pub(crate) fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"AMQP\0\0\x09\x01").unwrap();
        let mut sender = Self(stream);
        sender.expect((10, 10));
        let login = [long(b""), short(b"PLAIN"), long(b"\0guest\0guest"), short(b"en_US")].concat();
        sender.method(0, (10, 11), &login);
        sender.expect((10, 30));
        // Up to 2047 channels, frames of 128 KiB, no heartbeats.
        sender.method(0, (10, 31), &[0x07, 0xFF, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00]);
        sender.method(0, (10, 40), &[short(b"/"), short(b""), vec![0]].concat());
        sender.expect((10, 41));
        sender.method(1, (20, 10), &short(b""));
        sender.expect((20, 11));
        sender
    }

    /// Publishes one message with these encoded properties.
    pub(crate) fn publish(&mut self, exchange: &[u8], routing_key: &[u8], properties: &[(Flag, Vec<u8>)], body: &[u8]) {
        let flags = properties.iter().fold(0_u16, |flags, (flag, _)| flags | 1 << *flag as u16);
        let properties: Vec<_> = properties.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        self.method(1, (60, 40), &[vec![0, 0], short(exchange), short(routing_key), vec![0]].concat());
        let size = (body.len() as u64).to_be_bytes();
        let header = [&[0, 60, 0, 0], &size[..], &flags.to_be_bytes(), &properties].concat();
        self.frame(HEADER, 1, &header);
        if !body.is_empty() {
            self.frame(BODY, 1, body);
        }
    }

    /// Waits until the broker has taken everything.
    pub(crate) fn finish(mut self) {
        self.method(1, (20, 40), &[0, 200, 0, 0, 0, 0, 0]);
        self.expect((20, 41));
    }

    fn method(&mut self, channel: u16, (class, method): (u16, u16), arguments: &[u8]) {
        self.frame(METHOD, channel, &[&class.to_be_bytes(), &method.to_be_bytes(), arguments].concat());
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let size = (payload.len() as u32).to_be_bytes();
        let frame = [&[kind], &channel.to_be_bytes()[..], &size, payload, &[FRAME_END]].concat();
        self.0.write_all(&frame).unwrap();
    }

    fn expect(&mut self, method: (u16, u16)) {
        let mut start = [0; 7];
        self.0.read_exact(&mut start).unwrap();
        let size = u32::from_be_bytes([start[3], start[4], start[5], start[6]]) as usize;
        let mut rest = vec![0; size + 1];
        self.0.read_exact(&mut rest).unwrap();
        let number = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        assert_eq!((start[0], number(0), number(2)), (METHOD, method.0, method.1), "{rest:?}");
    }
}

/// A short string.
pub(crate) fn short(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

/// A long string, a table or a list: anything with a length of four bytes.
pub(crate) fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A list in a list in a list.
pub(crate) fn nested_lists(depth: usize) -> Vec<u8> {
    (0..depth).fold(vec![b'V'], |value, _| [vec![b'A'], long(&value)].concat())
}
