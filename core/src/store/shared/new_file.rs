//! A file that is made whole before it has its name.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::hash::BuildHasher as _;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags};

/// A new file in the folder of `path`.
pub(super) fn make(path: &Path) -> io::Result<(File, WorkingName)> {
    unnamed(path).or_else(|_| named(path))
}

/// Makes a file as long as it is to be, its owner's alone, with zeros behind what it begins with.
pub(super) fn fill(file: &File, bytes: u64, header: &[u8]) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))?;
    // All of it now: a page that is missing later would end the process.
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, bytes)?,
        done => done?,
    }
    file.write_all_at(header, 0)
}

/// Without a name nothing is left of it if this process ends too early.
fn unnamed(path: &Path) -> io::Result<(File, WorkingName)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = libc::O_TMPFILE | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(folder)?;
    Ok((file, WorkingName(None)))
}

fn named(path: &Path) -> io::Result<(File, WorkingName)> {
    let name = beside(path);
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(&name)?;
    Ok((file, WorkingName(Some(name))))
}

/// The name that a file has until it is in its place, where the file system knows no files without one.
pub(super) struct WorkingName(Option<PathBuf>);

impl WorkingName {
    /// Gives the file its name; false where that is taken.
    pub(super) fn link(&self, file: &File, path: &Path) -> io::Result<bool> {
        let linked = if let Some(name) = &self.0 {
            fs::hard_link(name, path)
        } else {
            let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
        };
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the file in the place of another.
    pub(super) fn replace(&self, file: &File, path: &Path) -> io::Result<()> {
        if let Some(name) = &self.0 {
            return fs::rename(name, path);
        }
        let name = beside(path);
        if !self.link(file, &name)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(&name, path).inspect_err(|_| drop(fs::remove_file(&name)))
    }
}

impl Drop for WorkingName {
    fn drop(&mut self) {
        if let Some(name) = self.0.take() {
            // After a rename there is none.
            let _ = fs::remove_file(name);
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(format!(".{:016x}", RandomState::new().hash_one(0)));
    path.with_file_name(name)
}

fn write_zeros(mut file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let count = left.min(zeros.len() as u64);
        file.write_all(&zeros[..usize::try_from(count).unwrap_or(0)])?;
        left -= count;
    }
    Ok(())
}
