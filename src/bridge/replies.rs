use std::collections::HashMap;

use connector_api::Address;

use super::translate::LeadsTo;
use crate::config::{Destination, ReturnRoute, Route};
use crate::mqqb::wire::{DirectName, FormatName, Protocol};

/// Where replies to a message go on the other side: the foreign address that leads to its response queue.
#[derive(Debug, Default)]
pub struct ReplyAddresses {
    /// By the response queue's name in lower case.
    fixed: HashMap<String, String>,
    /// The queue of a route that sends wherever its messages say.
    anywhere: Option<String>,
}

impl ReplyAddresses {
    /// Of these routes; the first one counts when several lead to a queue. `spellings` gives the other names that a
    /// queue is known under.
    pub fn new(routes: &[ReturnRoute], spellings: impl Fn(&FormatName) -> Vec<FormatName>) -> Self {
        let mut addresses = Self::default();
        for route in routes {
            match &route.to.queue {
                Destination::Fixed(name) => {
                    for name in std::iter::once(name.clone()).chain(spellings(name)) {
                        addresses.fixed.entry(identity(&name)).or_insert_with(|| route.from.queue.clone());
                    }
                }
                Destination::ReplyTo => {
                    addresses.anywhere.get_or_insert_with(|| route.from.queue.clone());
                }
            }
        }
        addresses
    }

    /// The foreign address for replies to `queue`.
    pub fn of(&self, queue: &FormatName) -> Option<&str> {
        self.fixed.get(&identity(queue)).or(self.anywhere.as_ref()).map(String::as_str)
    }
}

/// The text by which two names are told apart: MSMQ compares them without regard to case.
fn identity(name: &FormatName) -> String {
    name.to_string().to_lowercase()
}

/// Which of our queues leads to which foreign address, of the routes whose routing key is fixed.
#[derive(Debug, Default)]
pub struct OwnQueues(HashMap<(String, String), FormatName>);

impl OwnQueues {
    /// Of these routes, as queues of the machine `name`.
    pub fn new(name: &str, routes: &[Route]) -> Self {
        let mut queues = HashMap::new();
        for route in routes {
            let Some(key) = route.to.routing_key.fixed() else { continue };
            let direct =
                DirectName { protocol: Protocol::Os, address: name.to_owned(), queue: route.from.queue.clone() };
            queues.entry((route.to.exchange.clone(), key)).or_insert(FormatName::Direct(direct));
        }
        Self(queues)
    }
}

impl LeadsTo for OwnQueues {
    fn queue(&self, address: &Address) -> Option<FormatName> {
        self.0.get(&(address.exchange.clone(), address.routing_key.clone())).cloned()
    }
}
