use std::fmt;

/// A packet that does not conform to the published layout: the session that brought it is closed
/// (MS-MQQB 3.1.5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {field}: {reason}")]
pub struct Malformed {
    /// The field, in the specification's spelling, such as `UserHeader.Flags.DQ`.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: Reason,
}

impl Malformed {
    pub(super) const fn ends(field: &'static str, needed: u64, left: usize) -> Self {
        Self { field, reason: Reason::Ends { needed, left } }
    }

    pub(super) const fn value(field: &'static str, value: u64) -> Self {
        Self { field, reason: Reason::Value(value) }
    }

    pub(super) const fn size(field: &'static str, found: u64, least: u64, most: u64) -> Self {
        Self { field, reason: Reason::Size { found, least, most } }
    }

    pub(super) const fn because(field: &'static str, words: &'static str) -> Self {
        Self { field, reason: Reason::Because(words) }
    }
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The packet ends before the field does.
    Ends {
        /// Bytes the field needs.
        needed: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// The value is outside what the specification allows.
    Value(u64),
    /// A size outside its limits.
    Size {
        /// The size found.
        found: u64,
        /// The smallest legal one.
        least: u64,
        /// The largest legal one.
        most: u64,
    },
    /// A text without the NUL at its end.
    NoNul,
    /// A wide text of an odd number of bytes.
    OddLength(usize),
    /// In words, for what fits nowhere else.
    Because(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends { needed, left } => write!(f, "needs {needed} bytes, {left} left"),
            Self::Value(value) => write!(f, "value 0x{value:X} is not allowed"),
            Self::Size { found, least, most } => write!(f, "size {found} is not between {least} and {most}"),
            Self::NoNul => f.write_str("no NUL at the end"),
            Self::OddLength(length) => write!(f, "{length} bytes are not a whole number of characters"),
            Self::Because(words) => f.write_str(words),
        }
    }
}
