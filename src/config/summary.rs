use std::fmt;

use crate::mqqb::wire::{DirectName, FormatName, Protocol};

use super::process::QueueManagerConfig;
use super::return_route::{Delivery, Destination, Protection, ReturnRoute};
use super::route::{
    Accepts, Authenticate, ExtensionPolicy, OnQuota, Privacy, Reseal, ResealForm, Route, SecurityMode, Senders,
    Unroutable,
};
use super::values::{Size, Time};
use super::{Config, ConnectorConfig, DirectoryConfig, UriSource};

/// What a [`Config`] comes to, for people: canonical names, defaults filled in, no secrets.
pub struct Summary<'a>(pub &'a Config);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { queue_manager, store, directory, connectors, routes, return_routes, http, admin, .. } = self.0;
        write!(f, "queue manager {}", queue_manager.name)?;
        if !queue_manager.accept_as.is_empty() {
            write!(f, ", also called {}", queue_manager.accept_as.join(", "))?;
        }
        writeln!(f)?;
        writeln!(f, "  listens on {}", list(&queue_manager.listen))?;
        if queue_manager.ping.is_empty() {
            writeln!(f, "  answers no pings")?;
        } else {
            writeln!(f, "  answers pings on {}", list(&queue_manager.ping))?;
        }
        if queue_manager.ping_first {
            writeln!(f, "  asks other machines by ping before it calls them")?;
        }
        writeln!(f, "  keeps at most {} in {}", Size(store.quota), queue_manager.state_dir.display())?;
        writeln!(f, "  is controlled by {}", admin.socket.display())?;
        if let Some(http) = http {
            writeln!(f, "  serves health on http://{http}")?;
        }
        if let Some(DirectoryConfig::File(path)) = directory {
            writeln!(f, "  knows users and machines from {}", path.display())?;
        }
        for (name, connector) in connectors {
            let ConnectorConfig::Amqp091(amqp) = connector;
            write!(f, "connector {name}: AMQP 0-9-1 at ")?;
            match &amqp.uris {
                UriSource::Given(uris) => write!(f, "{}", list(uris))?,
                UriSource::File(path) => write!(f, "the addresses in {}", path.display())?,
            }
            writeln!(f, ", heartbeat {}", Time(amqp.heartbeat))?;
        }
        for route in routes {
            write_route(f, route, queue_manager)?;
        }
        for route in return_routes {
            write_return_route(f, route)?;
        }
        Ok(())
    }
}

fn write_route(f: &mut fmt::Formatter<'_>, route: &Route, machine: &QueueManagerConfig) -> fmt::Result {
    let Route { name, from, to, mode, reseal, unroutable, required } = route;
    let direct = DirectName { protocol: Protocol::Os, address: machine.name.clone(), queue: from.queue.clone() };
    writeln!(f, "route {name}: {}", FormatName::Direct(direct))?;
    write!(f, "  to {}, ", to.connector)?;
    if to.exchange.is_empty() {
        f.write_str("default exchange")?;
    } else {
        write!(f, "exchange \"{}\"", to.exchange)?;
    }
    writeln!(f, ", routing key \"{}\"", to.routing_key)?;

    let accepts = match from.accepts {
        Accepts::NonTransactional => "non-transactional messages",
        Accepts::Transactional => "transactional messages",
        Accepts::Both => "messages of either kind",
    };
    let senders = match &from.senders {
        Senders::Everyone => "everyone".to_owned(),
        Senders::Listed(senders) => senders.join(", "),
    };
    let authenticate = match from.authenticate {
        Authenticate::Optional => "signed or not",
        Authenticate::Required => "signed",
    };
    let privacy = match from.privacy {
        Privacy::Optional => "encrypted or not",
        Privacy::None => "not encrypted",
        Privacy::Required => "encrypted",
    };
    writeln!(f, "  takes {accepts} from {senders}, {authenticate}, {privacy}")?;
    f.write_str(match mode {
        SecurityMode::Transparent => "  transparent: bodies and signatures pass as they came\n",
        SecurityMode::NonTransparent => "  non-transparent: signatures are verified and bodies are opened\n",
    })?;
    if let Some(Reseal { machine, form }) = reseal {
        let form = match form {
            ResealForm::Msmq => "as MSMQ does it",
            ResealForm::Jwe => "as JWE",
        };
        writeln!(f, "  bodies are encrypted again for {machine}, {form}")?;
    }
    let full = match from.on_quota {
        OnQuota::Hold => "then sessions are closed",
        OnQuota::Refuse => "then messages are refused",
    };
    let in_flight = if to.strict_order { 1 } else { to.max_in_flight };
    writeln!(f, "  holds at most {}, {full}; {in_flight} in flight", Size(from.quota))?;
    let unroutable = match unroutable {
        Unroutable::Retry => "tried again",
        Unroutable::DeadLetter => "dead letters",
    };
    let extension = match to.extension_policy {
        ExtensionPolicy::Omit => "are left out",
        ExtensionPolicy::DeadLetter => "make dead letters",
    };
    writeln!(f, "  unroutable messages: {unroutable}; extensions over {} {extension}", Size(to.extension_limit))?;
    if from.ignore_expiry {
        writeln!(f, "  delivers expired messages")?;
    }
    if !required {
        writeln!(f, "  the bridge counts as ready without it")?;
    }
    Ok(())
}

fn write_return_route(f: &mut fmt::Formatter<'_>, route: &ReturnRoute) -> fmt::Result {
    let ReturnRoute { name, from, to, protection, required } = route;
    write!(f, "route {name}: queue \"{}\" of {} to ", from.queue, from.connector)?;
    match &to.queue {
        Destination::Fixed(queue) => writeln!(f, "{queue}")?,
        Destination::ReplyTo => writeln!(f, "wherever each message says")?,
    }
    let delivery = match to.delivery {
        Some(Delivery::Express) => "express",
        Some(Delivery::Recoverable) => "recoverable",
        None => "express or recoverable as it comes",
    };
    write!(f, "  sends {delivery}")?;
    for (limit, aim) in [(to.time_to_reach_queue, "reach its queue"), (to.time_to_be_received, "be received")] {
        if let Some(limit) = limit {
            write!(f, ", with {} to {aim}", Time(limit))?;
        }
    }
    writeln!(f, "; what can't be delivered {}", if to.dead_letter { "becomes a dead letter" } else { "is dropped" })?;
    match protection {
        Protection::Transparent => writeln!(f, "  transparent: bodies and signatures pass as they came")?,
        Protection::Own { sign, encrypt } => {
            let sign = if sign.is_some() { "signed by the bridge" } else { "not signed" };
            match encrypt {
                Some(cipher) => writeln!(f, "  {sign}, encrypted for the destination with {cipher}")?,
                None => writeln!(f, "  {sign}, not encrypted")?,
            }
        }
    }
    let (prefetch, settled) = (from.prefetch, Time(from.settle_after));
    writeln!(
        f,
        "  holds at most {} for a destination; {prefetch} deliveries open, settled after {settled} at the latest",
        Size(to.quota)
    )?;
    if to.carry_headers {
        writeln!(f, "  headers without a place in MSMQ go into the extension")?;
    }
    let asked = [(to.acknowledgments.reach, "their arrival"), (to.acknowledgments.receive, "their being read")];
    let asked: Vec<_> = asked.iter().filter(|(wanted, _)| *wanted).map(|(_, what)| *what).collect();
    if !asked.is_empty() {
        writeln!(f, "  asks for acknowledgments of {}", asked.join(" and "))?;
    }
    if !required {
        writeln!(f, "  the bridge counts as ready without it")?;
    }
    Ok(())
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
