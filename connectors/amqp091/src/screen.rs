//! What the broker sends, made harmless before lapin reads it.
//!
//! lapin reads header tables by recursion without a bound, in a thread with the usual 2 MiB of stack: a message whose
//! headers are lists in lists, a few hundred deep, ends the whole process, and does so again after each restart, because
//! it is still in its queue. A short string that is not UTF-8 ends the connection, again and again likewise. RabbitMQ
//! carries both, so that anyone who may publish can send them.
//!
//! [`Screened`] stands between socket and lapin and passes on what it reads. Frames that carry what a sender chose, content
//! headers and `basic.deliver`, it looks at as a whole. It changes bytes in place and no length:
//!
//! * a table or list that is too deep or holds too much becomes a byte array, which has the same form: a length and
//!   bytes;
//! * bytes of a short string that are not UTF-8 become question marks.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use connector_api::{MAX_DEPTH, MAX_VALUES};
use futures_util::{AsyncRead, AsyncWrite};

const FRAME_METHOD: u8 = 1;
const FRAME_HEADER: u8 = 2;

/// Frame type, channel and size.
const FRAME_START: usize = 1 + 2 + 4;
const FRAME_END: usize = 1;

/// Longer frames of these types are not waited for: no broker agrees on so large a `frame_max`.
const LARGEST_SCREENED: usize = 0x100_0000;

/// How much is read at once.
const READ: usize = 0x4000;

/// Class and method of `basic.deliver`.
const BASIC_DELIVER: [u8; 4] = [0, 60, 0, 60];

/// A stream whose reading side is screened.
#[derive(Debug)]
pub(crate) struct Screened<S> {
    stream: S,
    buffer: Vec<u8>,
    /// So much of the buffer has been read from the stream.
    filled: usize,
    /// So much has been read by lapin.
    taken: usize,
    /// So much may be.
    cleared: usize,
    /// So many bytes of a frame that needs no look are still to come.
    passing: usize,
}

impl<S> Screened<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), filled: 0, taken: 0, cleared: 0, passing: 0 }
    }

    /// Clears as many bytes as it can.
    fn clear(&mut self) -> io::Result<()> {
        loop {
            let passed = self.passing.min(self.filled - self.cleared);
            self.cleared += passed;
            self.passing -= passed;
            let unclear = self.buffer.get_mut(self.cleared..self.filled).unwrap_or_default();
            let Some((&mut [kind, _, _, a, b, c, d], rest)) = unclear.split_first_chunk_mut::<FRAME_START>() else {
                return Ok(());
            };
            let size = u32::from_be_bytes([a, b, c, d]) as usize;
            if kind != FRAME_METHOD && kind != FRAME_HEADER {
                // A body, a heartbeat, or what a broker says that wants another protocol.
                self.passing = FRAME_START + size + FRAME_END;
                continue;
            }
            if size > LARGEST_SCREENED {
                return Err(unreadable("a frame of more than 16 MiB"));
            }
            let Some(payload) = rest.get_mut(..size) else { return Ok(()) };
            if kind == FRAME_HEADER {
                screen_content_header(payload).ok_or_else(|| unreadable("a content header that can't be read"))?;
            } else if let Some((&mut BASIC_DELIVER, arguments)) = payload.split_first_chunk_mut() {
                screen_deliver(arguments).ok_or_else(|| unreadable("a delivery that can't be read"))?;
            }
            self.passing = FRAME_START + size + FRAME_END;
        }
    }

    /// Makes room behind what is filled.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.cleared -= self.taken;
        self.taken = 0;
        if self.buffer.len() < self.filled + READ {
            self.buffer.resize(self.filled + READ, 0);
        }
    }
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the broker sent {what}"))
}

impl<S: AsyncRead + Unpin> AsyncRead for Screened<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        while this.taken == this.cleared {
            this.make_room();
            let room = this.buffer.get_mut(this.filled..).unwrap_or_default();
            let read = ready!(Pin::new(&mut this.stream).poll_read(context, room))?;
            if read == 0 {
                return Poll::Ready(Ok(0));
            }
            this.filled += read;
            this.clear()?;
        }
        let clear = this.buffer.get(this.taken..this.cleared).unwrap_or_default();
        let count = out.len().min(clear.len());
        out[..count].copy_from_slice(&clear[..count]);
        this.taken += count;
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Screened<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// Arguments of `basic.deliver`. `None` when they can't be read; so with all that follow.
fn screen_deliver(arguments: &mut [u8]) -> Option<()> {
    let rest = screen_short_string(arguments)?; // consumer tag
    let rest = rest.get_mut(8 + 1..)?; // delivery tag, redelivered
    let rest = screen_short_string(rest)?; // exchange
    screen_short_string(rest)?; // routing key
    Some(())
}

/// Payload of a content header frame.
fn screen_content_header(payload: &mut [u8]) -> Option<()> {
    let rest = payload.get_mut(2 + 2 + 8..)?; // class, weight, body size
    let (flags, mut rest) = rest.split_first_chunk_mut::<2>()?;
    let flags = u16::from_be_bytes(*flags);
    // From the highest flag to the lowest that has a meaning.
    for bit in (2..16).rev().filter(|bit| flags & (1 << bit) != 0) {
        rest = match bit {
            13 => {
                let (table, rest) = split_long(rest)?;
                screen_headers(table)?;
                rest
            }
            12 | 11 => rest.get_mut(1..)?, // delivery mode, priority
            6 => rest.get_mut(8..)?,       // timestamp
            _ => screen_short_string(rest)?,
        };
    }
    Some(())
}

/// The entries of the outermost table.
fn screen_headers(mut rest: &mut [u8]) -> Option<()> {
    /// Tag and length of a byte array.
    const BYTE_ARRAY_START: usize = 1 + 4;
    // When all are used up, what is left is one byte array, or too short for one and then a few values.
    let mut left = MAX_VALUES - BYTE_ARRAY_START;
    while !rest.is_empty() {
        rest = screen_short_string(rest)?;
        if left == 0 && rest.len() >= BYTE_ARRAY_START {
            let (tag, value) = rest.split_first_mut()?;
            let (length, bytes) = value.split_first_chunk_mut::<4>()?;
            *tag = BYTE_ARRAY;
            *length = u32::try_from(bytes.len()).ok()?.to_be_bytes();
            return Some(());
        }
        left = left.max(1);
        rest = screen_value(rest, 1, &mut left).ok()?;
    }
    Some(())
}

const BYTE_ARRAY: u8 = b'x';

enum Trouble {
    TooMany,
    Unreadable,
}

/// One value in a table or list that is `depth` deep, of which so many are `left`. Returns what follows it.
fn screen_value<'a>(bytes: &'a mut [u8], depth: usize, left: &mut usize) -> Result<&'a mut [u8], Trouble> {
    *left = left.checked_sub(1).ok_or(Trouble::TooMany)?;
    let (tag, rest) = bytes.split_first_mut().ok_or(Trouble::Unreadable)?;
    let fixed = match *tag {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'U' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 1 + 4,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'S' | BYTE_ARRAY => return split_long(rest).map(|(_, rest)| rest).ok_or(Trouble::Unreadable),
        b'A' | b'F' => {
            let (inner, rest) = split_long(rest).ok_or(Trouble::Unreadable)?;
            let before = *left;
            let has_names = *tag == b'F';
            let outcome = if depth <= MAX_DEPTH {
                screen_inner(inner, has_names, depth + 1, left)
            } else {
                Err(Trouble::TooMany)
            };
            if let Err(Trouble::TooMany) = outcome {
                *tag = BYTE_ARRAY;
                *left = before;
                return Ok(rest);
            }
            return outcome.map(|()| rest);
        }
        _ => return Err(Trouble::Unreadable),
    };
    rest.get_mut(fixed..).ok_or(Trouble::Unreadable)
}

fn screen_inner(mut rest: &mut [u8], has_names: bool, depth: usize, left: &mut usize) -> Result<(), Trouble> {
    while !rest.is_empty() {
        if has_names {
            rest = screen_short_string(rest).ok_or(Trouble::Unreadable)?;
        }
        rest = screen_value(rest, depth, left)?;
    }
    Ok(())
}

/// Returns what follows it.
fn screen_short_string(bytes: &mut [u8]) -> Option<&mut [u8]> {
    let (length, rest) = bytes.split_first_mut()?;
    let (mut text, rest) = rest.split_at_mut_checked(usize::from(*length))?;
    while let Err(error) = std::str::from_utf8(text) {
        let start = error.valid_up_to();
        let end = start + error.error_len().unwrap_or(text.len() - start);
        let (wrong, rest) = text.split_at_mut_checked(end)?;
        wrong.get_mut(start..)?.fill(b'?');
        text = rest;
    }
    Some(rest)
}

/// What a length of four bytes stands before, and what follows that.
fn split_long(bytes: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let (length, rest) = bytes.split_first_chunk_mut::<4>()?;
    rest.split_at_mut_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

    use futures_util::FutureExt;
    use futures_util::io::{AllowStdIo, AsyncReadExt};

    use super::*;

    fn short(text: &[u8]) -> Vec<u8> {
        [&[text.len() as u8], text].concat()
    }

    fn long(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        [&[kind, 0, 1], &long(payload)[..], &[0xCE]].concat()
    }

    /// A content header whose only property is this table.
    fn header(table: &[u8]) -> Vec<u8> {
        frame(2, &[&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0][..], &long(table)].concat())
    }

    fn list(depth: usize) -> Vec<u8> {
        (0..depth).fold(vec![b'V'], |value, _| [vec![b'A'], long(&value)].concat())
    }

    /// Reads so many bytes at a time, from a stream that gives so many at a time.
    fn through(input: &[u8], give: usize, take: usize) -> io::Result<Vec<u8>> {
        let pieces = input.chunks(give).map(io::Cursor::new);
        let stream = pieces.fold(Box::new(io::empty()) as Box<dyn io::Read>, |before, next| {
            Box::new(io::Read::chain(before, next)) as Box<dyn io::Read>
        });
        let mut screened = Screened::new(AllowStdIo::new(stream));
        let mut output = Vec::new();
        let mut piece = vec![0; take];
        loop {
            match screened.read(&mut piece).now_or_never().unwrap()? {
                0 => return Ok(output),
                read => output.extend_from_slice(&piece[..read]),
            }
        }
    }

    fn screened(input: &[u8]) -> Vec<u8> {
        through(input, usize::MAX, 100_000).unwrap()
    }

    #[test]
    fn harmless_frames_pass_unchanged_however_they_are_cut() {
        let table = [short("Grüße".as_bytes()), list(MAX_DEPTH), short(b"n"), b"I\0\0\0\x07".to_vec()].concat();
        let deliver = [&BASIC_DELIVER[..], &short(b"tag"), &[0; 9], &short(b"exchange"), &short(b"key")].concat();
        let input = [
            frame(1, &[0, 10, 0, 10, 1, 2, 3]),
            frame(1, &deliver),
            header(&table),
            frame(3, &[0xCE; 300]),
            frame(8, &[]),
            header(&[]),
        ]
        .concat();
        for (give, take) in [(usize::MAX, 100_000), (1, 1), (3, 7), (100, 1), (7, 1000)] {
            assert_eq!(through(&input, give, take).unwrap(), input, "{give} {take}");
        }
        // What a broker answers that wants another protocol.
        assert_eq!(screened(b"AMQP\0\0\x09\x01"), b"AMQP\0\0\x09\x01");
    }

    #[test]
    fn what_is_too_deep_becomes_bytes() {
        let output = screened(&header(&[short(b"deep"), list(20_000)].concat()));
        let plain = header(&[short(b"deep"), list(20_000)].concat());
        let changed: Vec<_> = (0..plain.len()).filter(|at| plain[*at] != output[*at]).collect();
        let first = FRAME_START + 14 + 4 + 5;
        assert_eq!(changed, [first + MAX_DEPTH * 5], "one tag");
        assert_eq!(output[changed[0]], b'x');
    }

    #[test]
    fn a_list_that_holds_too_much_becomes_bytes_and_its_neighbours_stay() {
        let long_list = [vec![b'A'], long(&[b'V'; MAX_VALUES])].concat();
        let table = [short(b"a"), long_list, short(b"b"), vec![b't', 1], short(b"c"), list(2)].concat();
        let output = screened(&header(&table));
        let mut expected = header(&table);
        expected[FRAME_START + 14 + 4 + 2] = b'x';
        assert_eq!(output, expected);
    }

    #[test]
    fn headers_beyond_the_bound_are_one_byte_array() {
        let table: Vec<_> =
            (0..40_000_u16).flat_map(|n| [short(&n.to_string().into_bytes()), vec![b'V']].concat()).collect();
        let mut output = screened(&header(&table));
        assert_eq!(output.len(), header(&table).len());
        let payload = &mut output[FRAME_START + 14 + 4..];
        let end = payload.len() - FRAME_END;
        let (mut rest, mut count) = (&mut payload[..end], 0);
        while !rest.is_empty() {
            rest = screen_short_string(rest).unwrap();
            rest = screen_value(rest, 1, &mut 10).ok().unwrap();
            count += 1;
        }
        assert!((MAX_VALUES - 5..=MAX_VALUES).contains(&count), "{count}");
    }

    #[test]
    fn texts_that_are_not_utf_8_become_readable() {
        let deliver = [&BASIC_DELIVER[..], &short(b"tag"), &[0; 9], &short(b"e"), &short(b"k\xFFy\xC3")].concat();
        let output = screened(&frame(1, &deliver));
        assert!(output.ends_with(b"k?y?\xCE"), "{output:?}");
        let output = screened(&header(&[short(b"n\xFF"), vec![b'V']].concat()));
        assert!(output.ends_with(b"n?V\xCE"), "{output:?}");
    }

    #[test]
    fn what_can_not_be_read_ends_the_connection() {
        let cut = [short(b"list"), vec![b'A', 0, 0, 1, 0, b'V']].concat();
        let unknown = [short(b"what"), vec![b'?', 0, 0, 1, 0, b'V']].concat();
        for table in [cut, unknown, vec![9, 1]] {
            assert_eq!(through(&header(&table), 100, 100).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        let endless = [&[2, 0, 1][..], &u32::MAX.to_be_bytes()].concat();
        assert_eq!(through(&endless, 100, 100).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
