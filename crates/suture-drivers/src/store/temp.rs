//! Files in the making: chunks that are being rebuilt or put, and spooled slices.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...
//! Both vanish with their value, so whatever drops a repair drops its files too; what a crash
//! leaves is swept at the next start.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use suture_edge::checksum::{Crc32c, crc32c};
use suture_repair::message::Failure;

use super::failure;
use super::layout::{BLOCK_BYTES, Footer};

/// What a proof reads at a time.
const PROOF_BYTES: usize = 1 << 20;

/// Room for a chunk, not yet a copy of anything.
#[derive(Debug)]
pub struct TempChunk {
    file: TempFile,
    bytes: u64,
}

/// Slices of a lane that wait on disk for the rest of it.
#[derive(Debug)]
pub struct Spool {
    file: TempFile,
    /// Checksums of what was written, by offset: what comes back is checked like any other read.
    written: Mutex<HashMap<u64, u32>>,
}

/// A file that is removed with its value.
#[derive(Debug)]
struct TempFile {
    file: File,
    path: PathBuf,
}

impl TempChunk {
    /// Takes the room on disk at once: a full disk is noticed before the first slice moves.
    pub(super) fn create(path: PathBuf, bytes: u64) -> Result<TempChunk, Failure> {
        let file = TempFile::create(path).map_err(|error| failure(&error))?;
        let whole = bytes + bytes.div_ceil(BLOCK_BYTES) * 4 + super::layout::FOOTER_BYTES;
        match fallocate(&file.file, FallocateFlags::empty(), 0, whole) {
            // A file system without reservations: full disks show at the writes instead.
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            result => result.map_err(|errno| failure(&errno.into()))?,
        }
        Ok(TempChunk { file, bytes })
    }

    /// The length of the chunk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a part of the chunk, in any order.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > self.bytes) {
            let (bytes, len) = (self.bytes, data.len());
            return Err(Failure::Disk(format!("{len} bytes at {offset} of a chunk of {bytes}")));
        }
        self.file.file.write_all_at(data, offset).map_err(|error| failure(&error))
    }

    /// Reads the chunk back, compares its checksum with the footer's, and puts table and footer
    /// behind it, all of it durable.
    pub(super) fn prove(&self, footer: &Footer) -> Result<(), Failure> {
        let file = &self.file.file;
        let found = self.read_back(footer).map_err(|error| failure(&error))?;
        if found != footer.crc {
            return Err(Failure::ProofFailed { expected: footer.crc, found });
        }
        file.write_all_at(&footer.encode(), footer.footer_at())
            .and_then(|()| file.set_len(footer.file_bytes()))
            .and_then(|()| file.sync_all())
            .map_err(|error| failure(&error))
    }

    /// Writes the table of what is read; gives the checksum of the whole.
    fn read_back(&self, footer: &Footer) -> io::Result<u32> {
        let mut buffer = vec![0; PROOF_BYTES.min(self.bytes as usize)];
        let mut whole = Crc32c::new();
        let mut offset = 0;
        while offset < self.bytes {
            let data = (self.bytes - offset).min(PROOF_BYTES as u64) as usize;
            let data = &mut buffer[..data];
            self.file.file.read_exact_at(data, offset)?;
            whole.update(data);
            let blocks = data.chunks(BLOCK_BYTES as usize);
            let table: Vec<u8> = blocks.flat_map(|block| crc32c(block).to_le_bytes()).collect();
            self.file.file.write_all_at(&table, footer.table_at(offset / BLOCK_BYTES))?;
            offset += data.len() as u64;
        }
        Ok(whole.value())
    }

    /// Gives the file its name. A link, because unlike a rename it fails where the name exists.
    pub(super) fn name(&self, path: &Path) -> io::Result<()> {
        fs::hard_link(&self.file.path, path)
    }
}

impl Spool {
    pub(super) fn create(path: PathBuf) -> Result<Spool, Failure> {
        let file = TempFile::create(path).map_err(|error| failure(&error))?;
        Ok(Spool { file, written: Mutex::new(HashMap::new()) })
    }

    /// Keeps a slice.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.file.file.write_all_at(data, offset).map_err(|error| failure(&error))?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(offset, crc32c(data));
        Ok(())
    }

    /// Gives a slice back; false when it is not what was kept.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<bool> {
        self.file.file.read_exact_at(into, offset)?;
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(written.get(&offset) == Some(&crc32c(into)))
    }
}

impl TempFile {
    fn create(path: PathBuf) -> io::Result<TempFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(TempFile { file, path })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("{}: {error}", self.path.display());
        }
    }
}
