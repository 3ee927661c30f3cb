use std::net::SocketAddr;
use std::sync::Arc;

use crate::directory::{Directory, Host, Machine, PathName, Unavailable};
use crate::mqqb::wire::{DirectName, FormatName, Guid, Protocol};
use crate::net::{Located, resolve};

/// The port of every MSMQ machine (MS-MQQB 2.1.1).
const PORT: u16 = 1801;

/// What sessions to one machine are kept under.
pub(super) fn machine_key(name: &FormatName) -> String {
    match name {
        FormatName::Direct(DirectName { protocol, address, .. }) => format!("{protocol}:{address}").to_lowercase(),
        FormatName::Private { machine, .. } => machine.to_string(),
        // Of which machine it is, only the directory knows.
        other => other.to_string().to_lowercase(),
    }
}

/// The queue manager of a name that says it.
pub(super) const fn known_machine(name: &FormatName) -> Guid {
    match name {
        FormatName::Private { machine, .. } => *machine,
        _ => Guid::NULL,
    }
}

/// Says where the machine of a queue is (MS-MQQB 3.1.5.2.1): as the directory has it, else by name.
#[derive(Clone, Debug)]
pub(in crate::bridge) struct Locator {
    directory: Option<Arc<dyn Directory>>,
}

impl Locator {
    /// With or without a directory.
    pub(in crate::bridge) fn new(directory: Option<Arc<dyn Directory>>) -> Self {
        Self { directory }
    }

    /// Where the machine of `name` is now.
    ///
    /// # Errors
    /// A sentence that says why nobody knows.
    pub(super) async fn locate(&self, name: FormatName) -> Result<Located, String> {
        match name {
            FormatName::Direct(DirectName { protocol: Protocol::Os | Protocol::Tcp, address, .. }) => {
                let machine = self.machine_by_name(&address).await.map_err(|error| error.to_string())?;
                let addresses = match machine {
                    Some(machine) => addresses(&machine).await?,
                    None => resolve(bare(&address), PORT).await?,
                };
                Ok(Located { addresses, server: Guid::NULL })
            }
            FormatName::Private { machine: guid, .. } => {
                let machine = self.machine_by_guid(guid).await.map_err(|error| error.to_string())?;
                let machine = machine.ok_or_else(|| {
                    format!(
                        "nobody knows where queue manager {guid} is: it has no session here and is not in the directory"
                    )
                })?;
                Ok(Located { addresses: addresses(&machine).await?, server: guid })
            }
            other => {
                let machine = self.machine_of(&other).await.map_err(|error| error.to_string())?;
                let machine = machine
                    .ok_or_else(|| format!("nobody knows which machine has {other}: it is not in the directory"))?;
                Ok(Located { addresses: addresses(&machine).await?, server: machine.guid })
            }
        }
    }

    /// The other names that a queue is known under: its machine's other names and addresses, and its numbers.
    pub(in crate::bridge) async fn spellings(&self, name: &FormatName) -> Result<Vec<FormatName>, Unavailable> {
        let FormatName::Direct(direct) = name else { return Ok(Vec::new()) };
        let Some(machine) = self.machine_by_name(&direct.address).await? else { return Ok(Vec::new()) };
        let called = |protocol, address: String| {
            FormatName::Direct(DirectName { protocol, address, queue: direct.queue.clone() })
        };
        let mut names = vec![called(Protocol::Os, machine.name.clone())];
        for address in &machine.addresses {
            names.push(match &address.host {
                Host::Ip(ip) => called(Protocol::Tcp, ip.to_string()),
                Host::Name(name) => called(Protocol::Os, name.clone()),
            });
        }
        let path = PathName { machine: machine.name.clone(), queue: direct.queue.clone() };
        let queue = match &self.directory {
            Some(directory) => directory.queue_by_path(&path).await?,
            None => None,
        };
        if let Some(queue) = queue {
            names.extend(queue.guid.map(|queue| FormatName::Public { queue, suffix: None }));
            let private = queue.private_id.map(|id| FormatName::Private { machine: machine.guid, id, suffix: None });
            names.extend(private);
        }
        Ok(names)
    }

    /// The machine of a queue that messages can be sent to, where the directory has it.
    pub(in crate::bridge) async fn machine(&self, name: &FormatName) -> Result<Option<Arc<Machine>>, Unavailable> {
        match name {
            FormatName::Direct(direct) => self.machine_by_name(&direct.address).await,
            FormatName::Private { machine, .. } => self.machine_by_guid(*machine).await,
            other => self.machine_of(other).await,
        }
    }

    async fn machine_of(&self, name: &FormatName) -> Result<Option<Arc<Machine>>, Unavailable> {
        let (Some(directory), FormatName::Public { queue, .. }) = (&self.directory, name) else { return Ok(None) };
        let Some(queue) = directory.queue_by_guid(*queue).await? else { return Ok(None) };
        directory.machine_by_name(&queue.path.machine).await
    }

    /// The machine of a computer name.
    pub(in crate::bridge) async fn machine_by_name(&self, name: &str) -> Result<Option<Arc<Machine>>, Unavailable> {
        match &self.directory {
            Some(directory) => directory.machine_by_name(name).await,
            None => Ok(None),
        }
    }

    async fn machine_by_guid(&self, guid: Guid) -> Result<Option<Arc<Machine>>, Unavailable> {
        match &self.directory {
            Some(directory) => directory.machine_by_guid(guid).await,
            None => Ok(None),
        }
    }
}

/// The addresses of a machine, in the directory's order; its name when there are none.
async fn addresses(machine: &Machine) -> Result<Vec<SocketAddr>, String> {
    if machine.addresses.is_empty() {
        return resolve(&machine.name, PORT).await;
    }
    let mut addresses = Vec::new();
    let mut failure = None;
    for address in &machine.addresses {
        let port = address.port.unwrap_or(PORT);
        match &address.host {
            Host::Ip(ip) => addresses.push(SocketAddr::new(*ip, port)),
            // One name that is not known does not take away the other addresses.
            Host::Name(name) => match resolve(name, port).await {
                Ok(found) => addresses.extend(found),
                Err(reason) => failure = Some(reason),
            },
        }
    }
    match failure {
        Some(reason) if addresses.is_empty() => Err(reason),
        _ => Ok(addresses),
    }
}

/// "." is this machine in MSMQ's names; IPv6 addresses may be in brackets.
fn bare(address: &str) -> &str {
    if address == "." { "localhost" } else { address.trim_matches(['[', ']']) }
}
