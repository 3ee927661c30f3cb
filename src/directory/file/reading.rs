//! From the text of a directory file to a [`Snapshot`], or to all that is wrong with it.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::hash::Hash;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;

use super::super::entries::is_host_name;
use super::super::{Machine, MachineAddress, PathName, PublicKeys, Queue, Trustee, User, digest};
use super::{Snapshot, material};
use crate::config::files::{self, why};
use crate::config::problem::{Quoted, suggestion};
use crate::config::raw::{At, Context, Document, Section};
use crate::config::{Problems, Severity, warn_of_modes};
use crate::mqqb::wire::{Guid, Sid};

/// No certificate and no key is longer.
const MAX_MATERIAL: u64 = 64 << 10;

/// Reads a directory file and the files that it names, which are beside it unless their paths say otherwise.
/// `environment` gives the values for `${NAME}`. The warnings are given besides.
///
/// # Errors
/// All that is wrong, warnings among it.
pub fn read(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<(Snapshot, Problems), Problems> {
    let directory = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let context = Context::new(directory, environment);
    let snapshot = match files::read(path) {
        Ok(text) => read_text(&Document::new(path, &text, &context)),
        Err(why) => {
            context.report(Severity::Error, path, None, None, why);
            None
        }
    };
    warn_of_modes(path, None, &context);
    let problems = Problems::sorted(context.problems.take(), &[path.to_owned()]);
    match snapshot {
        Some(snapshot) if problems.is_fine() => Ok((snapshot, problems)),
        _ => Err(problems),
    }
}

fn read_text(document: &Document<'_>) -> Option<Snapshot> {
    let table = document.parse()?;
    let root = document.root(table.get_ref());
    let users = read_users(&root);
    let machines = read_machines(&root);
    let queues = read_queues(&root, &users);
    root.finish();
    Some(Snapshot::new(users, machines, queues))
}

fn read_users(root: &Section<'_>) -> Vec<User> {
    let (mut sids, mut certificates_seen) = (Unique::default(), Unique::default());
    let mut users = Vec::new();
    for section in root.tables("user") {
        let sid = section.text("sid").and_then(|text| section.parsed("sid", &text, str::parse::<Sid>));
        if sid.is_none() && !section.has("sid") {
            section.missing("sid", "write sid = \"S-1-5-21-…\"; on Windows \"whoami /user\" shows one's own");
        }
        sids.check(&section, "sid", sid.as_ref(), "another user");
        let name = read_name(&section, r"write the user's name for people, such as name = 'CORP\alice'");
        let (groups, group_sids) = read_groups(&section);
        let certificates = read_certificates(&section);
        for certificate in &certificates {
            let its_digest = certificate.with(digest(&certificate.value));
            certificates_seen.check(&section, "certificates", Some(&its_digest), "another entry");
        }
        section.finish();
        if let (Some(sid), Some(name)) = (sid, name) {
            let certificates = certificates.into_iter().map(|certificate| certificate.value).collect();
            users.push(User { sid: sid.value, name, groups, group_sids, certificates });
        }
    }
    users
}

/// Names of groups and SIDs of groups.
fn read_groups(section: &Section<'_>) -> (Vec<String>, Vec<Sid>) {
    let (mut names, mut sids) = (Vec::new(), Vec::new());
    for text in section.texts("groups").unwrap_or_default() {
        match trustee(&text.value) {
            Ok(Trustee::Group(name)) => names.push(name),
            Ok(Trustee::Sid(sid)) => sids.push(sid),
            Ok(Trustee::Everyone) => {
                section.error("groups", text.line, "everyone is in \"everyone\"; remove it".to_owned());
            }
            Err(why) => section.error("groups", text.line, why),
        }
    }
    (names, sids)
}

fn read_machines(root: &Section<'_>) -> Vec<Machine> {
    let (mut guids, mut names) = (Unique::default(), Unique::default());
    let mut machines = Vec::new();
    for section in root.tables("machine") {
        let guid = read_guid(&section);
        if guid.is_none() && !section.has("guid") {
            section.missing(
                "guid",
                "write the queue manager's identifier; on Windows it is QMId in \
                 HKLM\\SOFTWARE\\Microsoft\\MSMQ\\Parameters\\MachineCache, on a bridge \"mqbridge id\" shows it",
            );
        }
        guids.check(&section, "guid", guid.as_ref(), "another machine");
        let name = section.text("name").and_then(|text| section.parsed("name", &text, computer_name));
        if name.is_none() && !section.has("name") {
            section.missing("name", "write the computer name, such as name = \"win01\"");
        }
        let lower_case = name.as_ref().map(|name| name.with(name.value.to_lowercase()));
        names.check(&section, "name", lower_case.as_ref(), "another machine");
        let addresses = section.texts("addresses").unwrap_or_default();
        let addresses = addresses.iter().filter_map(|text| {
            let named = |text: &str| text.parse().map_err(|error| format!("{} is no address: {error}", Quoted(text)));
            section.parsed::<MachineAddress, String>("addresses", text, named)
        });
        let addresses = addresses.map(|address| address.value).collect();
        let keys = read_keys(&section);
        let certificates = read_certificates(&section).into_iter().map(|certificate| certificate.value).collect();
        section.finish();
        if let (Some(guid), Some(name)) = (guid, name) {
            machines.push(Machine { guid: guid.value, name: name.value, addresses, keys, certificates });
        }
    }
    machines
}

/// `key_files`: a list with the key of all providers, or a section with a file for each.
fn read_keys(section: &Section<'_>) -> PublicKeys {
    if section.has_section("key_files") {
        let providers = section.section("key_files");
        let key = |provider| read_material(&providers, provider, &providers.text(provider)?, material::public_key);
        let keys = PublicKeys { base: key("base"), enhanced: key("enhanced"), aes: key("aes") };
        providers.finish();
        return keys;
    }
    let files = section.texts("key_files").unwrap_or_default();
    let mut keys =
        files.iter().map(|file| (file.line, read_material(section, "key_files", file, material::public_key)));
    let Some((_, first)) = keys.next() else { return PublicKeys::default() };
    // The others are read too, so that all that is wrong is said at once.
    if let Some((line, _)) = keys.last() {
        let text = "a list holds the one key that serves all providers; for several write key_files = { base = \"…\", \
                    enhanced = \"…\", aes = \"…\" }";
        section.error("key_files", line, text.to_owned());
    }
    first.map(PublicKeys::all).unwrap_or_default()
}

fn read_queues(root: &Section<'_>, users: &[User]) -> Vec<Queue> {
    let (mut paths, mut guids, mut ids) = (Unique::default(), Unique::default(), Unique::default());
    let mut queues = Vec::new();
    for section in root.tables("queue") {
        let named = |text: &str| text.parse().map_err(|error| format!("{} is no path name: {error}", Quoted(text)));
        let path = section.text("path").and_then(|text| section.parsed::<PathName, String>("path", &text, named));
        if path.is_none() && !section.has("path") {
            section.missing("path", r"write machine and queue, such as path = 'bridge01\orders'");
        }
        let identity = path.as_ref().map(|path| path.with(path.value.identity()));
        paths.check(&section, "path", identity.as_ref(), "another queue");
        let guid = read_guid(&section);
        let private_id = section.integer("private_id", 1..=u64::from(u32::MAX));
        let private_id = private_id.and_then(|id| Some(id.with(u32::try_from(id.value).ok()?)));
        let is_private = path.as_ref().map(|path| path.value.is_private());
        if let (Some(true), Some(guid)) = (is_private, &guid) {
            let text = "a private queue has no GUID of its own; write private_id";
            section.error("guid", guid.line, text.to_owned());
        }
        if let (Some(false), Some(id)) = (is_private, &private_id) {
            let text = "a public queue has no such number; write guid, or private$\\ before the queue's name";
            section.error("private_id", id.line, text.to_owned());
        }
        guids.check(&section, "guid", guid.as_ref(), "another queue");
        if let (Some(path), Some(id)) = (&path, &private_id) {
            let id = id.with((path.value.machine.to_lowercase(), id.value));
            ids.check(&section, "private_id", Some(&id), "another queue of the machine");
        }
        let access = read_access(&section, users);
        section.finish();
        if let Some(path) = path {
            let (guid, private_id) = (guid.map(|guid| guid.value), private_id.map(|id| id.value));
            queues.push(Queue { path: path.value, guid, private_id, access });
        }
    }
    queues
}

fn read_access(section: &Section<'_>, users: &[User]) -> Option<Vec<Trustee>> {
    let groups: BTreeSet<&str> = users.iter().flat_map(|user| &user.groups).map(String::as_str).collect();
    let mut access = Vec::new();
    for text in section.texts("access")? {
        let Some(trustee) = section.parsed("access", &text, trustee) else { continue };
        if let Trustee::Group(name) = &trustee.value {
            let lower_case = name.to_lowercase();
            if let Some(user) = users.iter().find(|user| user.name.to_lowercase() == lower_case) {
                let text = format!("{} is a user; write \"{}\"", Quoted(name), user.sid);
                section.error("access", trustee.line, text);
            } else if !groups.iter().any(|group| group.to_lowercase() == lower_case) {
                let hint = suggestion(name, groups.iter().copied(), "there are the groups");
                let text = format!("nobody in this file is in a group {}{hint}", Quoted(name));
                section.warning("access", trustee.line, text);
            }
        }
        access.push(trustee.value);
    }
    Some(access)
}

/// `everyone`, a SID, or a group's name.
fn trustee(text: &str) -> Result<Trustee, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("an empty name is nobody's".to_owned());
    }
    if text.eq_ignore_ascii_case("everyone") {
        return Ok(Trustee::Everyone);
    }
    if text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("S-1-")) {
        return text.parse().map(Trustee::Sid).map_err(|error: crate::mqqb::wire::NotASid| error.to_string());
    }
    Ok(Trustee::Group(text.to_owned()))
}

fn read_name(section: &Section<'_>, remedy: &str) -> Option<String> {
    match section.text("name") {
        Some(name) if name.value.trim().is_empty() => {
            section.error("name", name.line, "is empty".to_owned());
            None
        }
        Some(name) => Some(name.value),
        None => {
            if !section.has("name") {
                section.missing("name", remedy);
            }
            None
        }
    }
}

fn computer_name(text: &str) -> Result<String, String> {
    if is_host_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("{} is not the name of a computer; where it can be reached goes into addresses", Quoted(text)))
}

fn read_guid(section: &Section<'_>) -> Option<At<Guid>> {
    let text = section.text("guid")?;
    let guid = section.parsed("guid", &text, str::parse::<Guid>)?;
    if guid.value.is_null() {
        section.error("guid", guid.line, "the null GUID identifies nothing".to_owned());
        return None;
    }
    Some(guid)
}

fn read_certificates(section: &Section<'_>) -> Vec<At<Bytes>> {
    let files = section.texts("certificates").unwrap_or_default();
    let read = |file: &At<String>| {
        read_material(section, "certificates", file, material::certificate).map(|certificate| file.with(certificate))
    };
    files.iter().filter_map(read).collect()
}

/// What a file beside the directory file holds.
fn read_material<T>(
    section: &Section<'_>,
    key: &'static str,
    file: &At<String>,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Option<T> {
    if file.value.is_empty() {
        section.error(key, file.line, "an empty path".to_owned());
        return None;
    }
    let path = section.beside(&file.value);
    let read = File::open(&path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(MAX_MATERIAL + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let parsed = read.map_err(|error| why(&error)).and_then(|bytes| {
        if bytes.len() as u64 > MAX_MATERIAL { Err("is longer than 64 KiB".to_owned()) } else { parse(&bytes) }
    });
    parsed.map_err(|why| section.error(key, file.line, format!("{} {why}", path.display()))).ok()
}

/// Values that may be there once only, with their lines.
struct Unique<T>(HashMap<T, u32>);

impl<T> Default for Unique<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone + Eq + Hash> Unique<T> {
    fn check(&mut self, section: &Section<'_>, key: &str, value: Option<&At<T>>, whose: &str) {
        let Some(At { value, line, .. }) = value else { return };
        match self.0.get(value) {
            Some(first) => section.error(key, *line, format!("is that of {whose} too, in line {first}")),
            None => {
                self.0.insert(value.clone(), *line);
            }
        }
    }
}
