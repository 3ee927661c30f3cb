//! Bytes to packets and back (MS-MQQB 2.2, MS-MQMQ 2.2.18 to 2.2.20).
//!
//! A [`FrameCutter`] finds the boundary of a packet and nothing else; [`Packet::decode`] gives it a meaning.
//! Everything that varies in length is a slice of the frame: decoding copies no body. Padding and reserved
//! bytes are kept, so that encoding a decoded packet gives the same bytes again.

mod class;
mod error;
mod frame;
mod guid;
mod header;
mod internal;
mod names;
mod order;
mod packet;
mod ping;
mod reader;
mod user_message;
mod wide;

pub use class::MessageClass;
pub use error::{Malformed, Reason};
pub use frame::{Frame, FrameCutter, MAX_PACKET_SIZE};
pub use guid::{Guid, MessageId};
pub use header::{
    AckRequest, AddressList, BaseHeader, DebugHeader, DirectField, ListElement, ListName, MessageProperties,
    MultiQueueHeader, MultiQueueSignature, QueueField, SecurityHeader, SecurityItem, SenderId, SessionHeader, SoapHeader,
    SoapSection, TransactionHeader, TxSequenceId, UserHeader,
};
pub use internal::{ConnectionParameters, EstablishConnection, InternalHeader, OperatingSystem, SessionAck};
pub use names::{DirectName, FormatName, FormatNameError, Protocol, QueuePath, QueueSuffix, SystemQueue};
pub use order::{FinalAckBody, OrderAckBody};
pub use packet::{Packet, UserKind};
pub use ping::Ping;
pub use user_message::{DeliveryMode, PiggyBackedSession, UserMessage};
pub use wide::WideText;
