use std::fmt;

use bytes::Bytes;

/// A NUL-terminated UTF-16LE text, kept as the bytes of the wire without the NUL.
///
/// Real labels and queue names hold what the grammar forbids, unpaired surrogates included, so the bytes are the
/// truth and the text is a view.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct WideText(Bytes);

impl WideText {
    /// The empty text.
    pub const EMPTY: Self = Self(Bytes::new());

    /// From a Rust string.
    pub fn from_text(text: &str) -> Self {
        Self(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>().into())
    }

    /// From bytes without the NUL. `None` when their number is odd.
    pub fn from_wire(bytes: Bytes) -> Option<Self> {
        bytes.len().is_multiple_of(2).then_some(Self(bytes))
    }

    /// The bytes of the wire, without the NUL.
    pub const fn as_wire(&self) -> &Bytes {
        &self.0
    }

    /// Number of UTF-16 code units, without the NUL.
    pub const fn units(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether there is no character but the NUL.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is exactly `text`.
    pub fn is(&self, text: &str) -> bool {
        text.encode_utf16().flat_map(u16::to_le_bytes).eq(self.0.iter().copied())
    }

    /// The text; what is not valid UTF-16 becomes U+FFFD.
    pub fn to_text(&self) -> String {
        char::decode_utf16(self.0.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])))
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }
}

impl fmt::Display for WideText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl fmt::Debug for WideText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_text(), f)
    }
}
