use std::fmt;
use std::ops::Deref;

/// The bytes, at most 3, that bring something to a multiple of 4. Arbitrary on the wire (they are uninitialised
/// memory of the sender) and kept as they came.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Padding {
    bytes: [u8; 3],
    length: u8,
}

impl Padding {
    /// No padding.
    pub const NONE: Self = Self { bytes: [0; 3], length: 0 };

    /// These bytes; beyond the third they are cut off.
    pub fn new(padding: &[u8]) -> Self {
        let mut kept = Self::NONE;
        for (byte, new) in kept.bytes.iter_mut().zip(padding) {
            *byte = *new;
            kept.length += 1;
        }
        kept
    }

    /// The zeros that bring `length` to a multiple of 4.
    pub const fn zeros(length: usize) -> Self {
        Self { bytes: [0; 3], length: padding_to_4(length) as u8 }
    }
}

impl Deref for Padding {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// How many bytes bring `length` to a multiple of 4.
pub(super) const fn padding_to_4(length: usize) -> usize {
    length.wrapping_neg() & 3
}
