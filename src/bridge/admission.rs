use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::routes::is_destination;
use super::{OwnNames, Rejection, RouteEntry, RouteTable};
use crate::config::Privacy;
use crate::mqqb::wire::{BaseHeader, FormatName, Guid, QueuePath, UserMessage};

/// Judges messages: is the queue known and of the right kind, is the message in time, of a size and a sort that this
/// bridge can take? (MS-MQQB 3.1.5.8.2, 3.1.5.8.5, 3.1.7.1.2.)
#[derive(Debug)]
pub struct Admission {
    own: Guid,
    names: OwnNames,
    routes: RouteTable,
    max_message: u32,
    clock_skew: Duration,
}

impl Admission {
    /// `own` is this queue manager; `clock_skew` is forgiven when a sender's clock is judged.
    pub const fn new(own: Guid, names: OwnNames, routes: RouteTable, max_message: u32, clock_skew: Duration) -> Self {
        Self { own, names, routes, max_message, clock_skew }
    }

    /// The routes.
    pub const fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// Whether a queue of this name would be one of this machine. `called` is as for [`Admission::judge`].
    pub fn is_ours(&self, name: &FormatName, called: IpAddr) -> bool {
        match name {
            FormatName::Direct(direct) => self.names.mean(direct, called),
            FormatName::Private { machine, .. } => *machine == self.own,
            _ => false,
        }
    }

    /// The route that takes a message of `size` bytes, or why none does. `called` is the address of ours that the
    /// sender connected to, `now` is in seconds since 1970.
    pub fn judge(
        &self,
        message: &UserMessage,
        size: usize,
        called: IpAddr,
        now: u64,
    ) -> Result<&Arc<RouteEntry>, Rejection> {
        let machine = message.user.queue_manager_address;
        // Null is "this machine" everywhere.
        if !machine.is_null() && machine != self.own {
            return Err(Rejection::OtherQueueManager { machine, own: self.own });
        }
        let hops = message.user.hop_count();
        if hops > MAX_HOPS {
            return Err(Rejection::HopCount { hops });
        }
        let name = message.destination().ok_or(Rejection::NoDestination)?;
        let route = self.find(&name, called)?;
        if message.transaction().is_some() {
            return Err(Rejection::NotTransactionalQueue { name: route.config.from.queue.to_string() });
        }
        if size > self.max_message as usize {
            return Err(Rejection::TooLarge { size, limit: self.max_message });
        }
        if !route.config.from.ignore_expiry {
            self.in_time(message, now)?;
        }
        if message.is_encrypted() && route.config.from.privacy == Privacy::None {
            return Err(Rejection::NotPrivate);
        }
        Ok(route)
    }

    /// The route of a queue, in every spelling that means it.
    pub fn find(&self, name: &FormatName, called: IpAddr) -> Result<&Arc<RouteEntry>, Rejection> {
        let unknown = |nearest| Rejection::UnknownQueue { name: name.to_string(), nearest };
        match name {
            FormatName::Direct(direct) => {
                if !self.names.mean(direct, called) {
                    return Err(Rejection::OtherHost { name: name.to_string(), host: direct.address.clone() });
                }
                if !is_destination(&direct.queue) {
                    return Err(Rejection::NotADestination { name: name.to_string() });
                }
                self.routes.by_path(&direct.queue).ok_or_else(|| unknown(self.routes.nearest(&direct.queue)))
            }
            FormatName::Private { machine, id, suffix: None } if *machine == self.own || machine.is_null() => {
                self.routes.by_private_id(*id).ok_or_else(|| unknown(None))
            }
            FormatName::Private { machine, suffix: None, .. } => {
                Err(Rejection::OtherQueueManager { machine: *machine, own: self.own })
            }
            FormatName::Public { queue, suffix: None } => self.routes.by_guid(*queue).ok_or_else(|| unknown(None)),
            _ => Err(Rejection::NotADestination { name: name.to_string() }),
        }
    }

    /// Whether a name means the queue of this machine where acknowledgments come for what it sent.
    pub fn is_acks(&self, name: &FormatName, called: IpAddr) -> bool {
        match name {
            FormatName::Direct(direct) => {
                self.names.mean(direct, called)
                    && matches!(&direct.queue, QueuePath::Private { name, suffix: None } if name.eq_ignore_ascii_case(ACKS))
            }
            _ => false,
        }
    }

    /// Both limits run from the sent time; before the message is in its queue either one ends it (MS-MQMQ 2.2.18.1.6,
    /// `NACK_REACH_QUEUE_TIMEOUT`).
    fn in_time(&self, message: &UserMessage, now: u64) -> Result<(), Rejection> {
        let age = Duration::from_secs(now.saturating_sub(u64::from(message.user.sent_time)));
        let limits =
            [(message.base.time_to_reach_queue, "reach its queue"), (message.user.time_to_be_received, "be received")];
        for (limit, aim) in limits {
            let allowed = Duration::from_secs(u64::from(limit));
            if limit != BaseHeader::INFINITE && age > allowed + self.clock_skew {
                return Err(Rejection::Expired { age, limit: allowed, aim });
            }
        }
        Ok(())
    }
}

/// The private queue for acknowledgments of what was sent from here.
pub(super) const ACKS: &str = "acks";

/// `Flags.RC` has a valid range up to 0x1D.
const MAX_HOPS: u8 = 0x1D;
