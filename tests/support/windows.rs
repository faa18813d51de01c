//! Grants per window, counted by processes that may be killed at any moment.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Windows that are counted.
const WINDOWS: u64 = 4_096;

/// One process's counts, in its part of a file.
#[derive(Debug)]
pub struct Windows {
    file: File,
    window_us: u64,
    first: u64,
    part: u64,
    counts: Vec<[u64; 2]>,
}

impl Windows {
    /// The counts of process `part`, of windows of so many microseconds from window `first` on.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(path: &Path, window_us: u64, first: u64, part: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Self { file, window_us, first, part, counts: vec![[0; 2]; usize::try_from(WINDOWS).unwrap_or(0)] })
    }

    /// The wall clock, which is that of a server on this machine.
    pub fn now_us() -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(0)
    }

    /// Counts a grant that was made between two instants. Across a window's edge it is not known whose it is, and so not
    /// counted.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn granted(&mut self, from_us: u64, to_us: u64) -> io::Result<()> {
        if from_us / self.window_us == to_us / self.window_us { self.count(from_us, 0) } else { Ok(()) }
    }

    /// Counts a refund that may have been made in the window that is on at an instant.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn refunded(&mut self, at_us: u64) -> io::Result<()> {
        self.count(at_us, 1)
    }

    fn count(&mut self, at_us: u64, kind: usize) -> io::Result<()> {
        let window = at_us / self.window_us - self.first;
        if let Some(counts) = usize::try_from(window).ok().and_then(|window| self.counts.get_mut(window)) {
            counts[kind] += 1;
            let place = ((self.part * WINDOWS + window) * 2 + kind as u64) * 8;
            self.file.write_all_at(&counts[kind].to_le_bytes(), place)?;
        }
        Ok(())
    }

    /// Grants and refunds of all processes, per window.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sums(path: &Path) -> io::Result<Vec<[u64; 2]>> {
        let mut sums = vec![[0; 2]; usize::try_from(WINDOWS).unwrap_or(0)];
        for (index, word) in fs::read(path)?.chunks_exact(8).enumerate() {
            let count = u64::from_le_bytes(word.try_into().unwrap_or_default());
            sums[index / 2 % usize::try_from(WINDOWS).unwrap_or(1)][index % 2] += count;
        }
        Ok(sums)
    }
}
