use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{self, DirectoryConfig};
use crate::directory::file::{self, Snapshot};
use crate::directory::{Machine, PublicKeys, Queue, User, digest};

use super::verify::{counted, show};
use super::{DirectoryArgs, DirectoryCommand, Exit, Surroundings};

/// `directory`: what can be done with the directory file alone.
pub fn directory(args: &DirectoryArgs, surroundings: &mut Surroundings<'_>) -> Exit {
    let config = match &args.command {
        DirectoryCommand::Check(args) => &args.config,
        DirectoryCommand::Show(args) => &args.config.config,
    };
    let (snapshot, path) = match read(config, surroundings) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    let text = match &args.command {
        DirectoryCommand::Check(_) => {
            let (users, machines) = (snapshot.users().len(), snapshot.machines().len());
            let (users, machines) = (counted(users, "user"), counted(machines, "machine"));
            format!("{path}: {users}, {machines}, {}\n", counted(snapshot.queues().len(), "queue"))
        }
        DirectoryCommand::Show(args) if args.json => {
            serde_json::to_string_pretty(&Shown::of(&snapshot)).map(|json| json + "\n").unwrap_or_default()
        }
        DirectoryCommand::Show(_) => render(&Shown::of(&snapshot)),
    };
    // A reader that is gone has seen enough.
    let _ = surroundings.out.write_all(text.as_bytes());
    Exit::Done
}

/// Reads the directory file; shows what is wrong with it, or with the configuration that leads there. Other files that
/// the configuration names are not looked at.
fn read(config: &Path, surroundings: &mut Surroundings<'_>) -> Result<(Snapshot, String), Exit> {
    let config_file = config;
    let config = config::load(config_file, surroundings.environment).map_err(|problems| {
        show(&problems, surroundings.err);
        Exit::Configuration
    })?;
    let Some(DirectoryConfig::File(path)) = config.directory else {
        let _ = writeln!(
            surroundings.err,
            "mqbridge: {} has no [directory]; write kind = \"file\" and path = \"directory.toml\" there",
            config_file.display()
        );
        return Err(Exit::Configuration);
    };
    match file::read(&path, surroundings.environment) {
        Ok((snapshot, warnings)) => {
            show(&warnings, surroundings.err);
            Ok((snapshot, path.display().to_string()))
        }
        Err(problems) => {
            show(&problems, surroundings.err);
            Err(Exit::Configuration)
        }
    }
}

/// What is shown of a directory; the names are those of `--json`.
#[derive(Serialize)]
struct Shown {
    users: Vec<ShownUser>,
    machines: Vec<ShownMachine>,
    queues: Vec<ShownQueue>,
}

#[derive(Serialize)]
struct ShownUser {
    sid: String,
    name: String,
    groups: Vec<String>,
    /// Their MD5 hashes, by which MSMQ's own directory lists them.
    certificates: Vec<String>,
}

#[derive(Serialize)]
struct ShownMachine {
    guid: String,
    name: String,
    addresses: Vec<String>,
    keys: Vec<ShownKey>,
    certificates: Vec<String>,
}

#[derive(Serialize)]
struct ShownKey {
    provider: &'static str,
    bits: usize,
}

#[derive(Serialize)]
struct ShownQueue {
    path: String,
    guid: Option<String>,
    private_id: Option<u32>,
    /// Absent when the directory says nothing of it.
    access: Option<Vec<String>>,
}

impl Shown {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            users: snapshot.users().iter().map(ShownUser::of).collect(),
            machines: snapshot.machines().iter().map(ShownMachine::of).collect(),
            queues: snapshot.queues().iter().map(ShownQueue::of).collect(),
        }
    }
}

impl ShownUser {
    fn of(user: &Arc<User>) -> Self {
        let User { sid, name, groups, group_sids, certificates } = user.as_ref();
        Self {
            sid: sid.to_string(),
            name: name.clone(),
            groups: groups.iter().cloned().chain(group_sids.iter().map(ToString::to_string)).collect(),
            certificates: digests(certificates),
        }
    }
}

impl ShownMachine {
    fn of(machine: &Arc<Machine>) -> Self {
        let Machine { guid, name, addresses, keys, certificates } = machine.as_ref();
        Self {
            guid: guid.to_string(),
            name: name.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            keys: shown_keys(keys),
            certificates: digests(certificates),
        }
    }
}

impl ShownQueue {
    fn of(queue: &Arc<Queue>) -> Self {
        let Queue { path, guid, private_id, access } = queue.as_ref();
        Self {
            path: path.to_string(),
            guid: guid.map(|guid| guid.to_string()),
            private_id: *private_id,
            access: access.as_ref().map(|access| access.iter().map(ToString::to_string).collect()),
        }
    }
}

fn digests(certificates: &[bytes::Bytes]) -> Vec<String> {
    certificates.iter().map(|certificate| digest(certificate).to_string()).collect()
}

fn shown_keys(keys: &PublicKeys) -> Vec<ShownKey> {
    keys.named().map(|(provider, key)| ShownKey { provider, bits: key.bits() }).collect()
}

/// For people: an entry a block, what there is none of left out.
fn render(shown: &Shown) -> String {
    let mut text = String::new();
    let list = |name: &str, items: &[String]| {
        if items.is_empty() { String::new() } else { format!("  {name} {}\n", items.join(", ")) }
    };
    for user in &shown.users {
        let _ = writeln!(text, "user {} {}", user.name, user.sid);
        text += &list("groups", &user.groups);
        text += &list("certificates", &user.certificates);
    }
    for machine in &shown.machines {
        let _ = writeln!(text, "machine {} {}", machine.name, machine.guid);
        text += &list("addresses", &machine.addresses);
        let keys: Vec<_> = machine.keys.iter().map(|key| format!("{} {} bits", key.provider, key.bits)).collect();
        text += &list("keys", &keys);
        text += &list("certificates", &machine.certificates);
    }
    for queue in &shown.queues {
        let _ = writeln!(text, "queue {}", queue.path);
        text += &list("guid", queue.guid.as_slice());
        text += &list("private_id", queue.private_id.map(|id| id.to_string()).as_slice());
        match &queue.access {
            Some(access) if access.is_empty() => text += "  access nobody\n",
            Some(access) => text += &list("access", access),
            None => {}
        }
    }
    text
}
