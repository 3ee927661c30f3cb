//! The headers that packets are made of.

mod base;
mod debug;
mod multi_queue;
mod properties;
mod queue_field;
mod security;
mod session;
mod soap;
mod transaction;
mod user;

pub use base::BaseHeader;
pub use debug::DebugHeader;
pub use multi_queue::{AddressList, ListElement, ListName, MultiQueueHeader, MultiQueueSignature};
pub use properties::{AckRequest, MessageProperties};
pub use queue_field::{DirectField, QueueField};
pub use security::{SecurityHeader, SecurityItem, SenderId};
pub use session::SessionHeader;
pub use soap::{SoapHeader, SoapSection};
pub use transaction::{TransactionHeader, TxSequenceId};
pub use user::UserHeader;
