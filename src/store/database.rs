//! Where the database is, and what its errors mean.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};

use super::StoreError;
use super::batch::Volume;

/// The engine's cache: half of it may hold what a transaction has written.
const CACHE_BYTES: usize = 64 << 20;

/// What a store is kept on in place of a file: memory, or a disk that fails or loses what was not synced.
///
/// Offsets and lengths are in bytes. What is written is safe once [`Medium::sync`] has returned.
pub trait Medium: fmt::Debug + Send + Sync + 'static {
    /// Its length.
    fn length(&self) -> io::Result<u64>;
    /// Fills `out` from `offset`; an error when that is beyond the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Cuts it or extends it with zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Writes within the length.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Makes durable what was written.
    fn sync(&self) -> io::Result<()>;
}

#[derive(Debug)]
struct Mounted(Arc<dyn Medium>);

impl StorageBackend for Mounted {
    fn len(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

/// An open database. Closing a damaged one may make the engine give up, which is no error any more.
#[derive(Debug)]
pub(super) struct Engine(Option<Database>);

impl Engine {
    /// The database; absent only while it is being closed.
    pub(super) fn get(&self) -> Result<&Database, Fault> {
        self.0.as_ref().ok_or_else(|| Fault::new("the database is not open"))
    }

    pub(super) fn close(mut self) -> Result<(), Fault> {
        let database = self.0.take().ok_or_else(|| Fault::new("the database is not open"))?;
        guarded(|| Ok(database.close()?))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let database = self.0.take();
        let _ = guarded(|| {
            drop(database);
            Ok(())
        });
    }
}

/// Where the database is. It can be opened again and again.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File(PathBuf),
    Medium(Arc<dyn Medium>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Medium(_) => f.write_str("the medium"),
        }
    }
}

/// Which file it is on the machine, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileNumber {
    device: u64,
    inode: u64,
}

impl Place {
    /// The file that is there.
    pub(super) fn file(&self) -> Option<FileNumber> {
        let Self::File(path) = self else { return None };
        fs::metadata(path).ok().map(|file| FileNumber { device: file.dev(), inode: file.ino() })
    }

    /// Whether this file is certainly not there any more.
    pub(super) fn has_lost(&self, opened: FileNumber) -> bool {
        let Self::File(path) = self else { return false };
        match fs::metadata(path) {
            Ok(file) => opened != FileNumber { device: file.dev(), inode: file.ino() },
            // Another error leaves open where it is.
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// What the volume has left, and what of it is kept for removals: a twentieth of it, 256 MiB at the most. `None`
    /// where that can't be known.
    pub(super) fn volume(&self) -> Option<Volume> {
        const MOST_RESERVED: u64 = 256 << 20;
        let Self::File(path) = self else { return None };
        let volume = rustix::fs::statvfs(path).ok()?;
        let size = volume.f_blocks.saturating_mul(volume.f_frsize);
        let free = volume.f_bavail.saturating_mul(volume.f_frsize);
        Some(Volume { free, reserve: (size / 20).min(MOST_RESERVED) })
    }

    /// Bytes of the volume that the file takes.
    pub(super) fn allocated(&self) -> u64 {
        /// What `st_blocks` counts.
        const BLOCK: u64 = 512;
        let Self::File(path) = self else { return 0 };
        fs::metadata(path).map_or(0, |file| file.blocks().saturating_mul(BLOCK))
    }

    /// Opens the database, making it when absent; whether it was made. Then [`Place::settle`] is to be called, once it
    /// has its tables.
    pub(super) fn open(&self) -> Result<(Engine, bool), StoreError> {
        let path = match self {
            Self::Medium(medium) => return Ok((self.build(Mounted(medium.clone()))?, false)),
            Self::File(path) => path,
        };
        let failed = |error: io::Error| self.failed(&error);
        let open = |path: &Path, create: bool| {
            OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(path)
        };
        if !path.try_exists().map_err(failed)? {
            // A file that is half made can't be opened: it gets its name when it is whole. Whoever holds the lock
            // makes it; it is kept, for the lock is the engine's too.
            let unfinished = unfinished(path);
            let file = open(&unfinished, true).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(self.in_use()),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if !path.try_exists().map_err(failed)? {
                file.set_len(0).map_err(failed)?;
                return Ok((self.open_file(file)?, true));
            }
            fs::remove_file(unfinished).map_err(failed)?;
        }
        Ok((self.open_file(open(path, false).map_err(failed)?)?, false))
    }

    /// Notes which process has the file, for whoever comes second. The lock keeps others out; this only tells them who.
    pub(super) fn note_owner(&self) {
        if let Self::File(path) = self {
            let _ = fs::write(owner(path), format!("{}\n", std::process::id()));
        }
    }

    fn in_use(&self) -> StoreError {
        let noted = match self {
            Self::File(path) => fs::read_to_string(owner(path)).ok(),
            Self::Medium(_) => None,
        };
        StoreError::InUse { place: self.to_string(), pid: noted.and_then(|text| text.trim().parse().ok()) }
    }

    /// Gives a database that was made its name.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let Self::File(path) = self else { return Ok(()) };
        let settled = fs::rename(unfinished(path), path).and_then(|()| sync_directory(path));
        settled.map_err(|error| self.failed(&error))
    }

    /// Opens the database, which was here before: an empty one in its place would be a loss that nobody notices.
    pub(super) fn reopen(&self) -> Result<Engine, StoreError> {
        match self {
            Self::File(path) => {
                let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| self.failed(&error))?;
                let length = file.metadata().map_err(|error| self.failed(&error))?.len();
                if length == 0 {
                    return Err(self.failed(&"the file has been emptied"));
                }
                self.open_file(file)
            }
            Self::Medium(medium) => self.build(Mounted(medium.clone())),
        }
    }

    fn open_file(&self, file: File) -> Result<Engine, StoreError> {
        self.build(FileBackend::new(file).map_err(|error| self.refused(error))?)
    }

    fn build(&self, backend: impl StorageBackend) -> Result<Engine, StoreError> {
        let opened = guarded(|| Ok(Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend)));
        let opened = opened.map_err(|fault| self.failed(&fault.why))?;
        opened.map(|database| Engine(Some(database))).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: DatabaseError) -> StoreError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => self.in_use(),
            DatabaseError::UpgradeRequired(version) => {
                self.failed(&format_args!("its file format {version} is not one of this version"))
            }
            error => self.failed(&describe(error)),
        }
    }

    /// An error that names the place.
    pub(super) fn failed(&self, why: &dyn fmt::Display) -> StoreError {
        StoreError::Disk(format!("{self}: {why}"))
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

/// `store.pid` beside `store.redb`.
fn owner(path: &Path) -> PathBuf {
    path.with_extension("pid")
}

/// A new file is safe when its directory's entry is.
fn sync_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// What somebody can do whose database is damaged.
const AFTER_DAMAGE: &str = "Stop mqbridge, look at the disk, and keep a copy of the file. Then restore the state \
                            directory from a backup, or move this file alone aside: an empty one is made at the next \
                            start, the identity stays, and senders send again what was not acknowledged; what was \
                            acknowledged and not forwarded is in the copy only";

/// Why the engine could not do something.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) why: String,
}

impl Fault {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self { why: describe(error) }
    }
}

/// Runs what uses the engine. It may panic on a damaged file; that is an error like others here.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("it did not say why");
        Err(Fault::new(format!(
            "the database engine gave up, so that the file is probably damaged: {text}. {AFTER_DAMAGE}"
        )))
    })
}

/// The engine's error, in words of ours where its own say too little.
fn describe(error: impl Into<redb::Error>) -> String {
    match error.into() {
        redb::Error::Io(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            format!("the file is damaged, or no store at all: {error}. {AFTER_DAMAGE}")
        }
        redb::Error::Io(error) => error.to_string(),
        redb::Error::PreviousIo => "an earlier error of the disk has not been overcome yet".to_owned(),
        redb::Error::Corrupted(what) => format!("the file is damaged: {what}. {AFTER_DAMAGE}"),
        error => error.to_string(),
    }
}
