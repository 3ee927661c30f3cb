//! The files that a configuration consists of and those that it names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::connector::AmqpUri;
use super::problem::{Problem, Severity};

/// No sensible configuration file is longer.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// What a named file is used as, which decides who may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// Anybody may read it: a certificate.
    Public,
    /// Only its owner may read it: a private key, a password.
    Secret,
    /// Like a secret; holds AMQP URIs, one a line.
    Uris,
    /// Made by the bridge itself, so that it need not be there.
    OurOwn,
}

/// A file that the configuration names and that has to be there when the bridge starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is for.
    pub used_as: FileUse,
    /// The configuration file that names it.
    pub config_file: PathBuf,
    /// The line there.
    pub line: u32,
    /// The key there.
    pub key: String,
}

impl NamedFile {
    /// Looks whether the file is there and fit for its use. `None` when it is.
    pub fn inspect(&self) -> Option<Problem> {
        let fault = match self.used_as {
            FileUse::OurOwn => return None,
            FileUse::Public => readable(&self.path).err(),
            FileUse::Secret => owner_only(&self.path).and_then(|()| readable(&self.path)).err(),
            FileUse::Uris => owner_only(&self.path).and_then(|()| AmqpUri::read_file(&self.path).map(drop)).err(),
        };
        fault.map(|text| Problem {
            severity: Severity::Error,
            file: self.config_file.clone(),
            line: Some(self.line),
            key: Some(self.key.clone()),
            text,
        })
    }
}

/// Refuses a file that others than its owner may read.
///
/// # Errors
/// A sentence with the command that puts it right, or why the file can't be looked at.
pub fn owner_only(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| format!("{shown} {}", why(&error)))?;
    let mode = metadata.permissions().mode() & 0o7777;
    let of_others = mode & 0o077;
    if of_others == 0 {
        return Ok(());
    }
    Err(format!("{shown} holds a secret and has mode {mode:04o}; let only its owner read it: chmod 600 {shown}"))
}

fn readable(path: &Path) -> Result<(), String> {
    let first_byte = File::open(path).and_then(|mut file| file.read(&mut [0]));
    first_byte.map(drop).map_err(|error| format!("{} {}", path.display(), why(&error)))
}

/// Reads a text of moderate length.
///
/// # Errors
/// The second half of a sentence about the file.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| why(&error))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes).map_err(|error| why(&error))?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err("is longer than 1 MiB and surely not what was meant".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "is not a text in UTF-8".to_owned())
}

/// Who besides the owner may do what with a file.
pub(crate) fn mode(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|metadata| metadata.permissions().mode())
}

/// What a directory of routes holds.
#[derive(Debug, Default)]
pub(crate) struct RouteFiles {
    /// The route files, by name.
    pub(crate) routes: Vec<PathBuf>,
    /// The names of what is not read. Hidden files are not meant to be, and are not among them.
    pub(crate) strays: Vec<String>,
}

/// Looks into a directory of routes.
pub(crate) fn route_files(directory: &Path) -> io::Result<RouteFiles> {
    let mut files = RouteFiles::default();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // A dangling link stays in: reading it says so, skipping it would lose a route in silence.
        if path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir() {
            files.routes.push(path);
        } else {
            files.strays.push(name.to_string_lossy().into_owned());
        }
    }
    files.routes.sort();
    files.strays.sort();
    Ok(files)
}

/// What the operating system says, as the second half of a sentence about the file.
pub(crate) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "can't be read: permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        io::ErrorKind::NotADirectory => "is not a directory".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}
