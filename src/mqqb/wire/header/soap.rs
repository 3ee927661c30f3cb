use bytes::Bytes;

use crate::mqqb::wire::WideText;

/// Two application texts of messages that came by way of SOAP (MS-MQMQ 2.2.20.7). No normal sender puts them on 1801.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoapHeader {
    /// The `Header` section, 0x0320.
    pub header: SoapSection,
    /// The `Body` section, 0x0384.
    pub body: SoapSection,
}

/// One section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoapSection {
    /// Kept, never tested.
    pub reserved: u16,
    /// The text.
    pub text: WideText,
    /// The bytes after it, up to the next multiple of 4; none when the sender does not align.
    pub padding: Bytes,
}
