use crate::mqqb::wire::{DirectName, FormatName, Guid, Protocol};
use crate::net::{Located, resolve};

/// The port of every MSMQ machine (MS-MQQB 2.1.1).
pub(super) const PORT: u16 = 1801;

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

/// Where the machine of a queue is (MS-MQQB 3.1.5.2.1).
///
/// # Errors
/// A sentence that says why nobody knows.
pub(super) async fn locate(name: FormatName) -> Result<Located, String> {
    match name {
        FormatName::Direct(DirectName { protocol: Protocol::Os | Protocol::Tcp, address, .. }) => {
            let host = if address == "." { "localhost" } else { address.trim_matches(['[', ']']) };
            Ok(Located { addresses: resolve(host, PORT).await?, server: Guid::NULL })
        }
        FormatName::Private { machine, .. } => {
            Err(format!("nobody knows where queue manager {machine} is: it has no session with this machine"))
        }
        other => Err(format!("nobody knows which machine has {other}")),
    }
}
