//! The file: made whole before anybody sees it, and checked before anything in it is believed.
//!
//! It is readable and writable by its owner alone. Links are not followed, and a file of another user is refused, even
//! where the system would let us have it.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::process_id::{Process, identity, open};
use super::{Region, new_file, place};
use crate::error::{Error, Result};
use crate::process;
use crate::store::dsn::{DEFAULT_SHARED_BYTES, MAX_SHARED_BYTES, MIN_SHARED_BYTES};
use crate::store::table::Table;
use crate::store::table::layout::Layout;

/// What a file of ours begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"ratelim\0");

/// The version of the layout. A new layout gets a new number, and the default place a new name.
const VERSION: u64 = 1;

/// Words at the start: magic, version, bytes, boot (two), key of the fingerprints (two).
const HEADER: usize = 7;

/// What is tried in the default place where there is no room for the default size.
const SMALLER: [u64; 2] = [16 << 20, 4 << 20];

/// How often opening starts anew when others make and replace the file meanwhile.
const ATTEMPTS: u32 = 50;

const PAUSE: Duration = Duration::from_millis(10);

/// A table in a file.
pub(crate) type SharedTable = Table<Process>;

/// The files that this process has open, which it keeps until it ends: closing one would drop its locks.
static OPENED: Mutex<Vec<Arc<SharedTable>>> = Mutex::new(Vec::new());

/// What comes of a try to open or make a file.
type Outcome<T, E = Failure> = std::result::Result<T, E>;

/// What is wrong with a file.
enum Fault {
    /// It is of no use to anybody: from before the last start of the machine.
    Stale,
    /// It is not what it should be.
    Damaged(String),
}

/// Opens the file at a path, or makes it.
pub(crate) fn at(path: &Path, bytes: u64) -> Result<Arc<SharedTable>> {
    let _gate = process::gate(2);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    Opening { path, bytes, replaces: false }.open(&mut opened).map_err(|failure| failure.error)
}

/// Opens the file in the default place, or makes it.
pub(crate) fn in_default_place(bytes: u64) -> Result<Arc<SharedTable>> {
    let _gate = process::gate(2);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut failed = Vec::new();
    for path in place::defaults() {
        let smaller = SMALLER.into_iter().filter(|_| bytes == DEFAULT_SHARED_BYTES);
        for bytes in std::iter::once(bytes).chain(smaller) {
            match (Opening { path: &path, bytes, replaces: true }).open(&mut opened) {
                Ok(table) => return Ok(table),
                Err(Failure { error, place: Place::Refused }) => return Err(error),
                Err(Failure { error, place: Place::Full }) if bytes != SMALLER[1] => drop(error),
                Err(Failure { error, .. }) => {
                    failed.push(error.to_string());
                    break;
                }
            }
        }
    }
    let detail = format!(
        "there is no place for the shared store: {}; name a file with RATELIMIT_STORE=shared:/path, or another store",
        failed.join("; ")
    );
    Err(Error::invalid_store(detail))
}

/// Why a file could not be opened or made, and whether another place might do.
struct Failure {
    error: Error,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// There is something that should not be there.
    Refused,
    /// It cannot be written to.
    Unusable,
    /// It has no room.
    Full,
}

struct Opening<'a> {
    path: &'a Path,
    bytes: u64,
    /// Whether a damaged file is replaced by a fresh one.
    replaces: bool,
}

impl Opening<'_> {
    fn open(&self, opened: &mut Vec<Arc<SharedTable>>) -> Outcome<Arc<SharedTable>> {
        for _ in 0..ATTEMPTS {
            if let Some(table) = self.try_open(opened)? {
                return Ok(table);
            }
            thread::sleep(PAUSE);
        }
        Err(self.refused("is replaced by others all the time"))
    }

    /// `None` when somebody else was faster, and all is to be looked at again.
    fn try_open(&self, opened: &mut Vec<Arc<SharedTable>>) -> Outcome<Option<Arc<SharedTable>>> {
        let about = match fs::symlink_metadata(self.path) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.create(opened, None),
            Err(error) => return Err(self.system("cannot be looked at", &error)),
        };
        self.check_kind(&about)?;
        let known = |opened: &[Arc<SharedTable>], identity| {
            opened.iter().find(|table| table.owner().identity() == identity).cloned()
        };
        if let Some(table) = known(opened, (about.dev(), about.ino())) {
            self.check_size(about.len())?;
            return Ok(Some(table));
        }
        let file = match open(self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.system("cannot be opened", &error)),
        };
        let about = file.metadata().map_err(|error| self.system("cannot be looked at", &error))?;
        if known(opened, (about.dev(), about.ino())).is_some() {
            // Replaced since the first look, by one that is open here. Closing this would drop its locks.
            std::mem::forget(file);
            return Ok(None);
        }
        self.check_kind(&about)?;
        match check_content(&file, about.len()) {
            Ok(key) => {
                self.check_size(about.len())?;
                self.adopt(opened, file, about.len(), key).map(Some)
            }
            Err(Fault::Damaged(detail)) if !self.replaces => {
                Err(self.refused(&format!("{detail}; if no program needs it, remove it, and it will be made anew")))
            }
            Err(_) => self.create(opened, Some(&file)),
        }
    }

    fn check_kind(&self, about: &fs::Metadata) -> Outcome<()> {
        let kind = about.file_type();
        if kind.is_symlink() {
            return Err(self.refused("is a link, and links are not followed: name the file itself"));
        }
        if !kind.is_file() {
            let what = if kind.is_dir() {
                "a directory"
            } else if kind.is_fifo() || kind.is_socket() {
                "a pipe or socket"
            } else {
                "a device"
            };
            return Err(self.refused(&format!("is {what} and not a file: name a file in it or beside it")));
        }
        let (owner, me) = (about.uid(), rustix::process::geteuid().as_raw());
        if owner != me {
            return Err(self.refused(&format!(
                "belongs to user {owner} and this process runs as user {me}: name another file, as in shared:/path"
            )));
        }
        let mode = about.mode() & 0o777;
        if mode & 0o177 != 0 || mode & 0o600 != 0o600 {
            return Err(self.refused(&format!(
                "has mode {mode:04o} and must be readable and writable by its owner alone: chmod it to 0600, or remove it"
            )));
        }
        Ok(())
    }

    /// A size other than the default must be that of the file.
    fn check_size(&self, length: u64) -> Outcome<()> {
        if self.bytes == length || self.bytes == DEFAULT_SHARED_BYTES || SMALLER.contains(&self.bytes) && self.replaces
        {
            return Ok(());
        }
        let detail = format!(
            "has {length} bytes and {} are asked for: ask for as many, or remove it when no program has it open",
            self.bytes
        );
        Err(self.refused(&detail))
    }

    fn adopt(
        &self,
        opened: &mut Vec<Arc<SharedTable>>,
        file: File,
        length: u64,
        key: [u64; 2],
    ) -> Outcome<Arc<SharedTable>> {
        let failed = |error: io::Error| self.system("cannot be mapped into memory", &error);
        let layout = Layout::for_bytes(length).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let region = Region::of_file(&file, layout.words()).map_err(failed)?;
        region.prefer_large_pages(layout.later_sets());
        let identity = identity(&file).map_err(failed)?;
        let table = Arc::new(Table::new(region, layout, key, Process::new(file, self.path, identity)));
        opened.push(table.clone());
        Ok(table)
    }

    /// Makes the file and puts it in its place: where there is none, or in that of one that is of no use.
    fn create(&self, opened: &mut Vec<Arc<SharedTable>>, replaced: Option<&File>) -> Outcome<Option<Arc<SharedTable>>> {
        if let Some(old) = replaced {
            // Whoever has this lock may replace it, if it still is the one in this place.
            if rustix::fs::flock(old, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Ok(None);
            }
            let now = fs::symlink_metadata(self.path).map(|about| (about.dev(), about.ino()));
            if now.ok() != identity(old).ok() {
                return Ok(None);
            }
        }
        let key = [0, 1].map(|number: u64| RandomState::new().hash_one(number));
        let (file, name) = new_file::make(self.path).map_err(|error| self.system("cannot be made", &error))?;
        new_file::fill(&file, self.bytes, &header(self.bytes, key)).map_err(|error| self.cannot_fill(&error))?;
        let failed = |error: io::Error| self.system("cannot be put in its place", &error);
        if replaced.is_some() {
            name.replace(&file, self.path).map_err(failed)?;
        } else if !name.link(&file, self.path).map_err(failed)? {
            return Ok(None);
        }
        drop(name);
        self.adopt(opened, file, self.bytes, key).map(Some)
    }

    fn cannot_fill(&self, error: &io::Error) -> Failure {
        let full = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG));
        let hint = if full { "; make room, or ask for less, as in shared:/path?size=16MiB" } else { "" };
        let place = if full { Place::Full } else { Place::Unusable };
        Failure { error: self.error(&format!("cannot be made with {} bytes: {error}{hint}", self.bytes)), place }
    }

    fn error(&self, detail: &str) -> Error {
        Error::invalid_store(format!("the shared store {} {detail}", self.path.display()))
    }

    fn refused(&self, detail: &str) -> Failure {
        Failure { error: self.error(detail), place: Place::Refused }
    }

    fn system(&self, what: &str, error: &io::Error) -> Failure {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; make its folder first, or name another, as in shared:/path",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; name a file where this user may write, as in shared:/path"
            }
            _ => "",
        };
        Failure { error: self.error(&format!("{what}: {error}{hint}")), place: Place::Unusable }
    }
}

/// The key of the fingerprints in a file that is as it should be.
fn check_content(file: &File, length: u64) -> Outcome<[u64; 2], Fault> {
    let mut header = [0; HEADER * 8];
    let damaged = |detail: &str| Fault::Damaged(detail.to_owned());
    if file.read_exact_at(&mut header, 0).is_err() {
        return Err(damaged("is too short for a file of ratelimit's"));
    }
    let mut words = header.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or(0);
    let (magic, version, bytes, boot, key) = (next(), next(), next(), [next(), next()], [next(), next()]);
    if magic != MAGIC {
        return Err(damaged("is not a file of ratelimit's"));
    }
    if version != VERSION {
        return Err(Fault::Damaged(format!("has layout {version}, and this version reads layout {VERSION}")));
    }
    if bytes != length
        || !(MIN_SHARED_BYTES..=MAX_SHARED_BYTES).contains(&length)
        || Layout::for_bytes(length).is_none()
    {
        return Err(Fault::Damaged(format!("says that it has {bytes} bytes, and it has {length}")));
    }
    if boot != boot_id() {
        return Err(Fault::Stale);
    }
    Ok(key)
}

/// What a file begins with.
fn header(bytes: u64, key: [u64; 2]) -> Vec<u8> {
    let [boot, more_boot] = boot_id();
    [MAGIC, VERSION, bytes, boot, more_boot, key[0], key[1]].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What tells this start of the machine from the ones before; zeros where the system does not say.
fn boot_id() -> [u64; 2] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let half = |digits: Option<&str>| digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    [half(digits.get(..16)), half(digits.get(16..))]
}
