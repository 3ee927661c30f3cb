use crate::mqqb::wire::Guid;

/// Where report messages go (MS-MQMQ 2.2.20.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugHeader {
    /// The 16 flag bits as they came. QT is overwritten on output by `queue`.
    pub flags: u16,
    /// Kept, never tested.
    pub reserved: u16,
    /// The public queue for report messages (QT 1); `None` for QT 0.
    pub queue: Option<Guid>,
}
