use bytes::Bytes;

use super::padding::padding_to_4;
use super::{Guid, Malformed, Padding, Reason, WideText};

/// The cursor that all decoders share: it walks over the bytes of one packet and never leaves them.
///
/// Fixed fields come out as numbers, everything that varies in length as a slice of the frame.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    packet: &'a Bytes,
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// A cursor over `packet` from `at` up to `end`, both clamped to the packet.
    pub(super) fn new(packet: &'a Bytes, at: usize, end: usize) -> Self {
        let end = end.min(packet.len());
        Self { packet, at: at.min(end), end }
    }

    /// Where the cursor is, counted from the start of the packet.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(super) const fn left(&self) -> usize {
        self.end - self.at
    }

    /// The bytes that are left, without moving.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.packet.get(self.at..self.end).unwrap_or_default()
    }

    /// A cursor over the next `size` bytes, and this one behind them.
    pub(super) fn split(&mut self, size: u64, field: &'static str) -> Result<Self, Malformed> {
        let size = self.check(size, field)?;
        let part = Self { packet: self.packet, at: self.at, end: self.at + size };
        self.at += size;
        Ok(part)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn guid(&mut self, field: &'static str) -> Result<Guid, Malformed> {
        self.array(field).map(Guid::from_wire)
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let Some(bytes) = self.rest().first_chunk::<N>() else {
            return Err(Malformed::ends(field, N as u64, self.left()));
        };
        self.at += N;
        Ok(*bytes)
    }

    /// The next `size` bytes, not copied. `field` is where the size is from.
    pub(super) fn bytes(&mut self, size: u64, field: &'static str) -> Result<Bytes, Malformed> {
        let size = self.check(size, field)?;
        let bytes = self.packet.slice(self.at..self.at + size);
        self.at += size;
        Ok(bytes)
    }

    /// The bytes up to the next multiple of 4, counted from `start`.
    pub(super) fn padding(&mut self, start: usize, field: &'static str) -> Result<Padding, Malformed> {
        let size = self.check(padding_to_4(self.at - start) as u64, field)?;
        Ok(self.padding_of(size))
    }

    /// As [`Reader::padding`], where the packet may end before.
    pub(super) fn padding_if_any(&mut self, start: usize) -> Padding {
        self.padding_of(padding_to_4(self.at - start).min(self.left()))
    }

    fn padding_of(&mut self, size: usize) -> Padding {
        let padding = Padding::new(self.rest().get(..size).unwrap_or_default());
        self.at += size;
        padding
    }

    /// A wide text of `size` bytes with the NUL that ends it, and no NUL before. `size_field` is where the size is from.
    pub(super) fn text(
        &mut self,
        size: u64,
        size_field: &'static str,
        field: &'static str,
    ) -> Result<WideText, Malformed> {
        let text = self.loose_text(size, size_field, field)?;
        if text.as_wire().as_chunks().0.contains(&[0, 0]) {
            return Err(Malformed::because(field, "a NUL before its end"));
        }
        Ok(text)
    }

    /// A wide text of `size` bytes with the NUL that ends it, and any number of NULs before.
    pub(super) fn loose_text(
        &mut self,
        size: u64,
        size_field: &'static str,
        field: &'static str,
    ) -> Result<WideText, Malformed> {
        let size = self.check(size, size_field)?;
        let odd = Malformed { field: size_field, reason: Reason::OddLength(size) };
        let (units, []) = self.rest().get(..size).unwrap_or_default().as_chunks::<2>() else {
            return Err(odd);
        };
        let Some(([0, 0], before)) = units.split_last() else {
            return Err(Malformed { field, reason: Reason::NoNul });
        };
        let text = WideText::from_wire(self.packet.slice(self.at..self.at + before.len() * 2)).ok_or(odd)?;
        self.at += size;
        Ok(text)
    }

    fn check(&self, size: u64, field: &'static str) -> Result<usize, Malformed> {
        match usize::try_from(size) {
            Ok(size) if size <= self.left() => Ok(size),
            _ => Err(Malformed::ends(field, size, self.left())),
        }
    }
}
