//! Slices of a lane that wait on disk for the rest of it.
//!
//! Place: ... dispatch -> [slices flow] -> chunk proven and durable ...
//! A spool is the agent's own: it is no chunk, no message names it, and it need not outlive the
//! process. So it is a file without a name in a directory of the agent's choice, which goes with
//! its value or with the process, and no store of chunks knows of it.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use suture_edge::checksum::crc32c;
use suture_repair::message::Failure;

use crate::store::failure;

/// The spool of one lane. Dropping it frees the space.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// Checksums of what was written, by offset: what comes back is checked like any other read.
    written: Mutex<HashMap<u64, u32>>,
}

impl Spool {
    /// An empty one, on the disk of `dir`.
    ///
    /// # Errors
    /// [`Failure::NoSpace`] or [`Failure::Disk`].
    pub fn create(dir: &Path) -> Result<Spool, Failure> {
        let file = tempfile::tempfile_in(dir).map_err(|error| failure(&error))?;
        Ok(Spool { file, written: Mutex::default() })
    }

    /// Keeps a slice at `offset`. Slices do not overlap.
    ///
    /// # Errors
    /// [`Failure::NoSpace`] or [`Failure::Disk`].
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all_at(data, offset).map_err(|error| failure(&error))?;
        self.written().insert(offset, crc32c(data));
        Ok(())
    }

    /// Gives back the slice that was spilled at `offset`, of which `into` has the length.
    ///
    /// # Errors
    /// [`Failure::Disk`] when it is not exactly what was spilled, or nothing was.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let unreadable = |error| Failure::Disk(format!("the spool cannot be read back: {error}"));
        self.file.read_exact_at(into, offset).map_err(unreadable)?;
        if self.written().get(&offset) == Some(&crc32c(into)) {
            Ok(())
        } else {
            Err(Failure::Disk("the spool has other bytes than were written".into()))
        }
    }

    fn written(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_gives_back_what_it_was_given_and_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (Spool::create(dir.path()).unwrap(), Spool::create(dir.path()).unwrap());
        one.write(1 << 20, &[7; 700]).unwrap();
        one.write(0, &[8; 1000]).unwrap();
        let (mut early, mut late) = ([0; 1000], [0; 700]);
        assert_eq!((one.read(0, &mut early), one.read(1 << 20, &mut late)), (Ok(()), Ok(())));
        assert_eq!((early, late), ([8; 1000], [7; 700]));
        let is_refused = |spool: &Spool, offset, bytes: usize| {
            matches!(spool.read(offset, &mut vec![0; bytes]), Err(Failure::Disk(_)))
        };
        assert!(is_refused(&one, 4096, 1000), "never kept");
        assert!(is_refused(&one, 0, 999), "another length");
        assert!(is_refused(&other, 0, 1000), "another one's");
        one.file.write_all_at(&[9], 500).unwrap();
        assert!(is_refused(&one, 0, 1000), "changed on disk");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
