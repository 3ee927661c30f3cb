use std::collections::HashSet;
use std::net::IpAddr;

use crate::mqqb::wire::{DirectName, Protocol};

/// Every name and address by which this machine is called.
#[derive(Clone, Debug)]
pub struct OwnNames {
    names: HashSet<String>,
    addresses: HashSet<IpAddr>,
}

impl OwnNames {
    /// `name` and `accept_as` of the configuration. `localhost`, `.` and loopback addresses always mean this machine.
    pub fn new<'a>(name: &'a str, accept_as: impl IntoIterator<Item = &'a str>) -> Self {
        let mut own = Self { names: HashSet::new(), addresses: HashSet::new() };
        for called in [name, "localhost", "."].into_iter().chain(accept_as) {
            match address(called) {
                Some(address) => {
                    own.addresses.insert(address);
                }
                None => {
                    own.names.insert(called.to_lowercase());
                }
            }
        }
        own
    }

    /// Whether a direct name means this machine. `called` is the address that the sender connected to: whoever names
    /// it names us.
    pub fn mean(&self, name: &DirectName, called: IpAddr) -> bool {
        match name.protocol {
            Protocol::Tcp | Protocol::Os => match address(&name.address) {
                Some(address) => {
                    address.is_loopback() || address == called.to_canonical() || self.addresses.contains(&address)
                }
                None => self.names.contains(&name.address.to_lowercase()),
            },
            Protocol::Http | Protocol::Https | Protocol::Ipx | Protocol::Spx => false,
        }
    }
}

/// An address in any spelling, IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqqb::wire::FormatName;

    fn mean(own: &OwnNames, direct: &str) -> bool {
        own.mean(&FormatName::parse_direct(direct).unwrap(), "10.9.8.7".parse().unwrap())
    }

    #[test]
    fn every_spelling_of_this_machine_is_recognised_and_no_other() {
        let own = OwnNames::new("Bridge01", ["bridge01.corp.example", "10.1.2.3", "fd00::1"]);
        for ours in [
            r"OS:bridge01\private$\q",
            r"OS:BRIDGE01\private$\q",
            r"OS:Bridge01.Corp.Example\private$\q",
            r"OS:localhost\q",
            r"OS:.\q",
            r"TCP:127.0.0.1\q",
            r"TCP:127.9.9.9\q",
            r"OS:127.0.0.1\q",
            r"TCP:10.1.2.3\private$\q",
            r"OS:10.1.2.3\private$\q",
            r"TCP:10.9.8.7\private$\q",
            r"TCP:fd00::1\q",
            r"TCP:[fd00:0:0::1]\q",
            r"TCP:::1\q",
        ] {
            assert!(mean(&own, ours), "{ours}");
        }
        for other in [r"OS:bridge02\q", r"OS:bridge01.other\q", r"TCP:10.1.2.4\q", r"HTTP://bridge01/msmq\q"] {
            assert!(!mean(&own, other), "{other}");
        }
    }
}
