use std::time::Duration;

use crate::mqqb::wire::{Guid, MessageClass};
use crate::security::{AccessDenied, BadSignature, Unopened, WrongOwner};

/// Why a message is refused. What each one means on the wire and in the metrics is [`Rejection::terms`]; what it
/// means to the operator is its `Display`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// `Flags.DQ` is 0.
    #[error("the message names no destination queue")]
    NoDestination,
    /// No route has this queue.
    #[error("no route has the queue {name}{}", did_you_mean(.nearest.as_deref()))]
    UnknownQueue {
        /// The destination as the sender named it.
        name: String,
        /// A queue of this machine that it may have meant.
        nearest: Option<String>,
    },
    /// The name means another machine, or a name of ours that we were not told.
    #[error(
        "{name} is not a queue of this machine; if \"{host}\" means this machine, add it to queue_manager.accept_as"
    )]
    OtherHost {
        /// The destination as the sender named it.
        name: String,
        /// The host part.
        host: String,
    },
    /// The packet is for another queue manager: the bridge is not a router.
    #[error("the message is for queue manager {machine}, and this is {own}; the bridge does not route")]
    OtherQueueManager {
        /// Whom it is for.
        machine: Guid,
        /// Our own.
        own: Guid,
    },
    /// Journals, dead-letter queues and sub-queues take no messages from outside.
    #[error("{name} takes no messages from other machines")]
    NotADestination {
        /// The destination as the sender named it.
        name: String,
    },
    /// A transactional message for a queue that is not transactional.
    #[error("a transactional message for the queue {name}, which is not transactional")]
    NotTransactionalQueue {
        /// The queue.
        name: String,
    },
    /// Too many hops.
    #[error("{hops} routing servers have passed the message on; 29 are allowed")]
    HopCount {
        /// `Flags.RC`.
        hops: u8,
    },
    /// It came too late.
    #[error(
        "the message is {age:?} old and had {limit:?} to {aim}; if the sender's clock is wrong, raise queue_manager.clock_skew"
    )]
    Expired {
        /// By the sender's clock and ours.
        age: Duration,
        /// What the sender gave it.
        limit: Duration,
        /// `reach its queue` or `be received`.
        aim: &'static str,
    },
    /// Larger than the configuration allows.
    #[error("the packet has {size} bytes; queue_manager.max_message allows {limit}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: u32,
    },
    /// The signature does not prove what the message says.
    #[error("{0}")]
    BadSignature(BadSignature),
    /// The signature is somebody else's.
    #[error("{wrong}; the certificate's MD5 is {certificate}{}", no_directory(*.has_directory))]
    WrongOwner {
        /// The certificate's digest, by which directories list it.
        certificate: String,
        /// What is wrong.
        wrong: WrongOwner,
        /// Whether there is a directory that could know better.
        has_directory: bool,
    },
    /// Nothing proves who sent it, and the queue wants that.
    #[error(
        "from.authenticate = \"required\", and {}",
        if *.signed { "the signature's certificate belongs to nobody: the message names no sender" } else { "the message is not signed" }
    )]
    Unproven {
        /// Whether there is a signature all the same.
        signed: bool,
    },
    /// The sender may not write to the queue.
    #[error("{0}")]
    AccessDenied(AccessDenied),
    /// The body is encrypted and can't be opened here.
    #[error("{0}")]
    Unopened(Unopened),
    /// The body is clear and the queue takes encrypted ones only.
    #[error("the body is not encrypted and from.privacy = \"required\" wants it to be")]
    NotEncrypted,
    /// The body is encrypted and the queue takes clear ones only.
    #[error("the body is encrypted and from.privacy = \"none\" allows clear bodies only")]
    NotPrivate,
    /// The route's queue is full and the route says to refuse.
    #[error("{0}")]
    QueueFull(String),
}

/// What a refusal means to everybody but the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the sender would be told.
    pub class: MessageClass,
    /// The stable word for metrics and logs.
    pub reason: &'static str,
}

impl Rejection {
    /// The table.
    pub const fn terms(&self) -> Terms {
        let (reason, class) = match self {
            Self::NoDestination => ("no-destination", MessageClass::NACK_BAD_DST_Q),
            Self::UnknownQueue { .. } => ("unknown-queue", MessageClass::NACK_BAD_DST_Q),
            Self::OtherHost { .. } => ("other-host", MessageClass::NACK_BAD_DST_Q),
            Self::OtherQueueManager { .. } => ("other-queue-manager", MessageClass::NACK_BAD_DST_Q),
            Self::NotADestination { .. } => ("not-a-destination", MessageClass::NACK_BAD_DST_Q),
            Self::NotTransactionalQueue { .. } => ("not-transactional-queue", MessageClass::NACK_NOT_TRANSACTIONAL_Q),
            Self::HopCount { .. } => ("hop-count", MessageClass::NACK_HOP_COUNT_EXCEEDED),
            Self::Expired { .. } => ("expired", MessageClass::NACK_REACH_QUEUE_TIMEOUT),
            Self::TooLarge { .. } => ("too-large", MessageClass::NACK_Q_EXCEED_QUOTA),
            Self::BadSignature(_) => ("bad-signature", MessageClass::NACK_BAD_SIGNATURE),
            Self::WrongOwner { .. } => ("wrong-owner", MessageClass::NACK_BAD_SIGNATURE),
            Self::Unproven { .. } => ("unproven", MessageClass::NACK_BAD_SIGNATURE),
            Self::AccessDenied(_) => ("access-denied", MessageClass::NACK_ACCESS_DENIED),
            Self::Unopened(_) => ("unopened", MessageClass::NACK_BAD_ENCRYPTION),
            Self::NotEncrypted => ("not-encrypted", MessageClass::NACK_BAD_ENCRYPTION),
            Self::NotPrivate => ("privacy", MessageClass::NACK_BAD_ENCRYPTION),
            Self::QueueFull(_) => ("queue-full", MessageClass::NACK_Q_EXCEED_QUOTA),
        };
        Terms { class, reason }
    }
}

fn no_directory(has_directory: bool) -> &'static str {
    if has_directory {
        ""
    } else {
        "; there is no [directory] in which senders and their certificates could be looked up"
    }
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!("; did the sender mean {name}?")).unwrap_or_default()
}
