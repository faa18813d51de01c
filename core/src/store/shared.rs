//! Memory that steps of several threads or processes work on, and a file that processes of one user share it by.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

pub(crate) use super::table::word::Word;

pub(crate) mod file;

mod new_file;

pub(crate) mod place;

pub(crate) mod process_id;

mod store;

pub use store::SharedStore;

/// What the processors of our servers have beside small pages.
const LARGE_PAGE: usize = 2 << 20;

/// Words in memory that are there for as long as this is.
///
/// All that others may change at the same time is atomic, and every access goes through a checked index; so whatever
/// stands in a shared file, nothing outside of it is read or written.
pub(crate) struct Region {
    start: NonNull<Word>,
    words: usize,
}

impl Region {
    /// Zeros of this process's own, which take memory page by page as they are first written.
    pub(crate) fn private(words: usize) -> io::Result<Self> {
        Self::anonymous(words, MapFlags::PRIVATE)
    }

    /// Asks for large pages for a part of it, which the system may give or not: fewer lookups of addresses.
    #[cfg(not(modelled))]
    #[allow(unsafe_code)]
    pub(crate) fn prefer_large_pages(&self, words: std::ops::Range<usize>) {
        let start = (words.start * 8).next_multiple_of(LARGE_PAGE);
        let length = (words.end.min(self.words) * 8).saturating_sub(start);
        if length >= LARGE_PAGE {
            // SAFETY: the range is within the map, and the advice changes nothing that can be read there.
            let _ = unsafe {
                rustix::mm::madvise(
                    self.start.as_ptr().byte_add(start).cast(),
                    length,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }

    #[cfg(modelled)]
    pub(crate) fn prefer_large_pages(&self, _: std::ops::Range<usize>) {}

    /// Zeros that a process shares with the children it forks.
    pub(crate) fn inherited(words: usize) -> io::Result<Self> {
        Self::anonymous(words, MapFlags::SHARED)
    }

    #[cfg(not(modelled))]
    #[allow(unsafe_code)]
    fn anonymous(words: usize, flags: MapFlags) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = flags | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the place, so no memory that is in use is replaced. What children do to shared memory
        // is no data race: all access is atomic.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), Self::bytes(words)?, protection, flags)? };
        Self::at(start.cast(), words)
    }

    /// The model checker's words, which are made one by one.
    #[cfg(modelled)]
    fn anonymous(words: usize, _: MapFlags) -> io::Result<Self> {
        let all: Box<[Word]> = (0..words).map(|_| Word::new(0)).collect();
        Self::at(Box::leak(all).as_mut_ptr(), words)
    }

    /// The first words of a file, which must be that long.
    #[allow(unsafe_code)]
    pub(crate) fn of_file(file: &File, words: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no memory that is in use is replaced. What other processes do to the
        // file is no data race: all access is atomic. The file is as long as the map, its blocks are allocated, and it
        // belongs to this user alone, whose processes do not shorten it.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), Self::bytes(words)?, protection, MapFlags::SHARED, file, 0)?
        };
        Self::at(start.cast(), words)
    }

    fn at(start: *mut Word, words: usize) -> io::Result<Self> {
        Ok(Self { start: NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?, words })
    }

    fn bytes(words: usize) -> io::Result<usize> {
        words.checked_mul(8).filter(|bytes| *bytes > 0).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Deref for Region {
    type Target = [Word];

    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[Word] {
        // SAFETY: the map is readable, writable, aligned to a page, as long as said, and stays until `self` is dropped.
        // Any bits are a valid word, which is an `AtomicU64` or one in a transparent wrapper.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

// The model checker's words are dropped one by one.
#[cfg(modelled)]
impl Drop for Region {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: they were leaked as a box of that length, and no slice of it outlives `self`.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.words)) });
    }
}

#[cfg(not(modelled))]
impl Drop for Region {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: what was mapped is unmapped, once; no slice of it outlives `self`. An error leaves it mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

// SAFETY: it owns its map like a boxed slice of atomics, which may be sent and shared.
#[allow(unsafe_code)]
unsafe impl Send for Region {}

// SAFETY: as for `Send`.
#[allow(unsafe_code)]
unsafe impl Sync for Region {}

/// Takes the lock on one byte of a file for this process, if nobody else has it.
///
/// A record lock of POSIX: the kernel releases it when the process ends, however it ends. A child does not have its
/// parent's. Closing any descriptor of the file drops all that the process has on it.
#[allow(unsafe_code)]
pub(crate) fn lock_byte(file: &File, at: i64) -> io::Result<bool> {
    let mut lock = byte_lock(at);
    // SAFETY: the descriptor is open, and the kernel reads the structure only during the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw mut lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN)) => Ok(false),
        error => Err(error),
    }
}

/// Whether another process has the lock on a byte of a file.
#[allow(unsafe_code)]
pub(crate) fn byte_is_locked(file: &File, at: i64) -> io::Result<bool> {
    let mut lock = byte_lock(at);
    // SAFETY: the descriptor is open, and the kernel uses the structure only during the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) } == 0 {
        return Ok(i32::from(lock.l_type) != libc::F_UNLCK);
    }
    Err(io::Error::last_os_error())
}

#[allow(unsafe_code, clippy::cast_possible_truncation)]
fn byte_lock(at: i64) -> libc::flock {
    // SAFETY: of this structure zeros are a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at;
    lock.l_len = 1;
    lock
}
