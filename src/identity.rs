//! Who this queue manager is: a GUID that is made once, and the key that senders encrypt for.
//!
//! Senders recognise a queue manager by its GUID, number their messages for it, and put it into the names of its
//! private queues. A new GUID is a new machine, so that one is made only when there is none: a damaged file is an
//! error. Files are written beside their place, synced, and linked into it; whoever comes second finds the first one's.

mod certificate;

use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::config::{QueueManagerConfig, owner_only};
use crate::mqqb::wire::Guid;
use crate::security::{KeyError, PrivateKey, PublicKey};

use certificate::CERTIFICATE_FILE;

/// The file of the GUID in the state directory.
const IDENTITY_FILE: &str = "identity";
/// The file of the key in the state directory, when the configuration names none.
const KEY_FILE: &str = "qm.pem";
/// The version of the identity file that is written, and the latest that is understood.
const FORMAT: u32 = 1;
/// Smaller keys are broken by anybody.
const MIN_KEY_BITS: usize = 1024;

/// Who this queue manager is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The queue manager's identifier (`QueueManager.Identifier`, MS-MQDMPR 3.1.1.1).
    pub guid: Guid,
    /// When it was made.
    pub created: Timestamp,
    /// What opens bodies that were encrypted for it.
    pub key: PrivateKey,
    /// Where that is kept.
    pub key_file: PathBuf,
}

/// What [`Identity::open_or_create`] had to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The GUID.
    pub identity: bool,
    /// The key.
    pub key: bool,
}

/// Why there is no identity. Each is a sentence with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nothing was made yet.
    #[error("{} holds no identity yet; make it with: mqbridge init", .0.display())]
    Absent(PathBuf),
    /// The state directory.
    #[error("the state directory {} can't be made: {why}; make it and give it to the user that runs mqbridge", path.display())]
    StateDirectory {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// A file can't be read.
    #[error("{} can't be read: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// A file can't be written.
    #[error("{} can't be written: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        why: io::Error,
    },
    /// The identity file is there, but not what was written.
    #[error(
        "{} is damaged: {why}. Restore it from a backup: with a new identity every sender would take this for \
         another machine",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Others can read the key.
    #[error("{0}")]
    Exposed(String),
    /// The key file is there, but of no use.
    #[error("{} is of no use: {why}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: KeyError,
    },
    /// The key is too short.
    #[error("the key in {} has {bits} bits; it takes at least {MIN_KEY_BITS}", path.display())]
    ShortKey {
        /// The file.
        path: PathBuf,
        /// Its bits.
        bits: usize,
    },
    /// The certificate that messages are signed with.
    #[error("the certificate {} is of no use: {why}; make another with: mqbridge key new-cert", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What the identity file holds.
#[derive(Serialize, Deserialize)]
struct IdentityFile {
    format: u32,
    guid: String,
    created: String,
}

impl Identity {
    /// Opens the identity in the state directory, making what is absent: the directory (0700), the GUID, and the key
    /// unless `private_key_file` is given, which has to be there. `now` is written down as the time of making.
    pub fn open_or_create<R: CryptoRng + ?Sized>(
        state_dir: &Path,
        private_key_file: Option<&Path>,
        random: &mut R,
        now: Timestamp,
    ) -> Result<(Self, Made), IdentityError> {
        make_state_dir(state_dir).map_err(|why| IdentityError::StateDirectory { path: state_dir.to_owned(), why })?;
        let mut made = Made::default();
        let key_file = state_dir.join(KEY_FILE);
        if private_key_file.is_none() && is_absent(&key_file)? {
            let pem = PrivateKey::generate(random).and_then(|key| key.to_pem());
            let pem = pem.map_err(|why| IdentityError::Key { path: key_file.clone(), why })?;
            made.key = create_once(state_dir, KEY_FILE, pem.as_bytes(), random)
                .map_err(|why| IdentityError::Write { path: key_file, why })?;
        }
        let identity_file = state_dir.join(IDENTITY_FILE);
        if is_absent(&identity_file)? {
            let mut bytes = [0; 16];
            random.fill_bytes(&mut bytes);
            let text = render_file(Guid::from_random(bytes), now);
            made.identity = create_once(state_dir, IDENTITY_FILE, text.as_bytes(), random)
                .map_err(|why| IdentityError::Write { path: identity_file, why })?;
        }
        // What counts is on the disk, whoever has put it there.
        let identity = Self::open(state_dir, private_key_file)?;
        remove_leftovers(state_dir);
        Ok((identity, made))
    }

    /// Opens the identity in the state directory and changes nothing.
    pub fn open(state_dir: &Path, private_key_file: Option<&Path>) -> Result<Self, IdentityError> {
        let path = state_dir.join(IDENTITY_FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(IdentityError::Absent(state_dir.to_owned()));
            }
            Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                return Err(IdentityError::Damaged { path, why: "it is not a text".to_owned() });
            }
            Err(why) => return Err(IdentityError::Read { path, why }),
        };
        let (guid, created) = parse_file(&text).map_err(|why| IdentityError::Damaged { path, why })?;
        let key_file = private_key_file.map_or_else(|| state_dir.join(KEY_FILE), Path::to_owned);
        let key = read_key(&key_file)?;
        Ok(Self { guid, created, key, key_file })
    }

    /// What others may know of it.
    pub fn card(&self, config: &QueueManagerConfig) -> Result<IdentityCard, KeyError> {
        Ok(IdentityCard {
            name: config.name.clone(),
            guid: self.guid.to_string(),
            created: self.created.to_string(),
            names: std::iter::once(&config.name).chain(&config.accept_as).cloned().collect(),
            public_keys: vec![PublicKeyCard::of(self.key.public())?],
        })
    }
}

/// What others may know of a queue manager: `mqbridge id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentityCard {
    /// The computer name.
    pub name: String,
    /// The identifier, lower case.
    pub guid: String,
    /// When it was made, RFC 3339.
    pub created: String,
    /// All names and addresses that it answers to, the computer name first.
    pub names: Vec<String>,
    /// The keys that senders encrypt for.
    pub public_keys: Vec<PublicKeyCard>,
}

/// A public key in both of its forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicKeyCard {
    /// Bits of the modulus.
    pub bits: usize,
    /// `SubjectPublicKeyInfo`.
    pub pem: String,
    /// PUBLICKEYBLOB (MS-MQQB 2.4.1), hexadecimal.
    pub publickeyblob: String,
}

impl PublicKeyCard {
    /// Of this key.
    pub fn of(key: &PublicKey) -> Result<Self, KeyError> {
        Ok(Self { bits: key.bits(), pem: key.to_pem()?, publickeyblob: hexadecimal(&key.to_blob()) })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// For people.
impl fmt::Display for IdentityCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "name   {}", self.name)?;
        writeln!(f, "guid   {}", self.guid)?;
        writeln!(f, "made   {}", self.created)?;
        writeln!(f, "names  {}", self.names.join(", "))?;
        for key in &self.public_keys {
            writeln!(f, "\npublic key, RSA with {} bits\n{}", key.bits, key.pem)?;
            writeln!(f, "the same as PUBLICKEYBLOB, hexadecimal\n{}", key.publickeyblob)?;
        }
        Ok(())
    }
}

fn make_state_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match path.parent() {
        Some(parent) if parent != Path::new("") => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

fn is_absent(path: &Path) -> Result<bool, IdentityError> {
    path.try_exists().map(|exists| !exists).map_err(|why| IdentityError::Read { path: path.to_owned(), why })
}

fn render_file(guid: Guid, now: Timestamp) -> String {
    format!(
        "# Who this queue manager is, made once. Keep a backup, and never copy it to another machine:\n\
         # two queue managers with one GUID take each other's acknowledgments.\n\
         format = {FORMAT}\n\
         guid = \"{guid}\"\n\
         created = \"{now:.0}\"\n"
    )
}

fn parse_file(text: &str) -> Result<(Guid, Timestamp), String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let file: IdentityFile = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if file.format > FORMAT {
        return Err(format!("it has format {} of a later version of mqbridge", file.format));
    }
    let guid: Guid = file.guid.parse().map_err(|error| format!("{error}"))?;
    if guid.is_null() {
        return Err("its GUID is null".to_owned());
    }
    let created = file.created.parse().map_err(|_| "created is not a time".to_owned())?;
    Ok((guid, created))
}

fn read_key(path: &Path) -> Result<PrivateKey, IdentityError> {
    owner_only(path).map_err(IdentityError::Exposed)?;
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|why| IdentityError::Read { path: path.to_owned(), why })?;
    let key = PrivateKey::from_pem(&text).map_err(|why| IdentityError::Key { path: path.to_owned(), why })?;
    let bits = key.public().bits();
    if bits < MIN_KEY_BITS {
        return Err(IdentityError::ShortKey { path: path.to_owned(), bits });
    }
    Ok(key)
}

/// Puts a file into its place, complete or not at all. `false` when there is one already, which stays as it is.
fn create_once<R: CryptoRng + ?Sized>(dir: &Path, name: &str, contents: &[u8], random: &mut R) -> io::Result<bool> {
    let place = dir.join(name);
    let beside = dir.join(format!(".{name}.{:016x}{LEFTOVER}", random.next_u64()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let linked = file.write_all(contents).and_then(|()| file.sync_all()).and_then(|()| {
        // Unlike a rename, a link never replaces what is there.
        fs::hard_link(&beside, &place)
    });
    let _ = fs::remove_file(&beside);
    match linked {
        Ok(()) => sync_directory(dir).map(|()| true),
        Err(_) if place.try_exists()? => Ok(false),
        Err(error) => Err(error),
    }
}

/// How the names of files end that are not in their place yet.
const LEFTOVER: &str = ".new";

/// Removes what a crash has left between writing and linking. Called only once everything is in its place, so that
/// another process whose file this takes away finds that it has come second.
fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        let is_leftover = [IDENTITY_FILE, KEY_FILE, CERTIFICATE_FILE]
            .iter()
            .any(|file| bytes.starts_with(format!(".{file}.").as_bytes()));
        if is_leftover && bytes.ends_with(LEFTOVER.as_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
