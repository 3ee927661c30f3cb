//! The one place that knows both message worlds: the table "AMQP form of a message" of the interface, read forwards by
//! [`to_amqp`] and backwards by [`to_msmq`]. Body, extension, label, identifiers, priority and application value come back
//! byte for byte.

mod carried;
mod to_amqp;
mod to_msmq;

pub use to_amqp::{Contents, Found, Resealed, Untranslatable, to_amqp};
pub use to_msmq::{Circumstances, LeadsTo, Translated, Unsendable, encode, to_msmq};
