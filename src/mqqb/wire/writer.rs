use bytes::{BufMut, BytesMut};

use super::padding::padding_to_4;
use super::{Guid, Malformed, Padding, WideText};

/// What all encoders share: little-endian fields, wide texts, padding.
pub(super) trait Write {
    fn guid(&mut self, guid: Guid);

    /// A wide text and its NUL.
    fn text(&mut self, text: &WideText);

    /// Pads what was written since `start` to a multiple of 4: with the bytes that are kept, then with zeros.
    fn pad(&mut self, start: usize, kept: Padding);

    /// Overwrites the 4 bytes at `at` with a size that is only known now.
    ///
    /// # Errors
    /// When it is above `most`.
    fn set_size(&mut self, at: usize, size: usize, most: u32, field: &'static str) -> Result<(), Malformed>;
}

/// A length as a field of the wire.
///
/// # Errors
/// When it does not fit.
pub(super) fn size_field<N: TryFrom<usize>>(size: usize, most: u64, field: &'static str) -> Result<N, Malformed> {
    N::try_from(size).map_err(|_| Malformed::size(field, size as u64, 0, most))
}

impl Write for BytesMut {
    fn guid(&mut self, guid: Guid) {
        self.put_slice(&guid.to_wire());
    }

    fn text(&mut self, text: &WideText) {
        self.put_slice(text.as_wire());
        self.put_u16_le(0);
    }

    fn pad(&mut self, start: usize, kept: Padding) {
        let wanted = padding_to_4(self.len() - start);
        let kept = kept.get(..wanted.min(kept.len())).unwrap_or_default();
        self.put_slice(kept);
        self.put_bytes(0, wanted - kept.len());
    }

    fn set_size(&mut self, at: usize, size: usize, most: u32, field: &'static str) -> Result<(), Malformed> {
        let place = self.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
        match (u32::try_from(size), place) {
            (Ok(size), Some(place)) if size <= most => {
                *place = size.to_le_bytes();
                Ok(())
            }
            _ => Err(Malformed::size(field, size as u64, 0, most.into())),
        }
    }
}
