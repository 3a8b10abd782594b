//! Chunks in the making: being rebuilt, or put.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...
//! One vanishes with its value, so whatever drops a repair drops its file too; what a crash leaves
//! is swept at the next start.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use suture_edge::checksum::{BLOCK_BYTES, Crc32c, crc32c};
use suture_repair::chunk_store::{ChunkWriter, Published, check_within};
use suture_repair::id::ChunkCopy;
use suture_repair::label::Label;
use suture_repair::message::Failure;

use super::chunk::ChunkFile;
use super::layout::{FOOTER_BYTES, Footer, LabelDigest, table_at};
use super::{Chunks, failure, sync_dir};
use crate::data_dir;

/// What a proof reads at a time.
const PROOF_BYTES: usize = 1 << 20;

/// What is reserved at a time for a chunk that may never come in full: much against the cost of a
/// reservation, little against a disk.
const RESERVE_BYTES: u64 = 8 << 20;

/// Space for a chunk, not yet a copy of anything.
#[derive(Debug)]
pub struct TempChunk {
    file: TempFile,
    bytes: u64,
    /// So much of the file has its place on disk.
    reserved: AtomicU64,
    stage: Mutex<Stage>,
    chunks: Arc<Chunks>,
}

/// How far a chunk in the making has come: `Writing <-> Proven -> Published`.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Something was written since it was last proven.
    Writing,
    /// It was read back whole and has this checksum.
    Proven(u32),
    /// It has its name: nothing may change any more.
    Published(Footer),
}

/// A file that is removed with its value; or later, where the disk refuses.
#[derive(Debug)]
struct TempFile {
    file: File,
    path: PathBuf,
    chunks: Arc<Chunks>,
}

impl TempChunk {
    /// Takes the space on disk at once: a full disk is noticed before the first slice moves.
    pub(super) fn create(
        path: PathBuf,
        bytes: u64,
        chunks: Arc<Chunks>,
    ) -> Result<TempChunk, Failure> {
        let chunk = TempChunk::create_empty(path, bytes, chunks)?;
        chunk.reserve(chunk.whole())?;
        Ok(chunk)
    }

    /// Takes space as bytes come, a step ahead of them.
    pub(super) fn create_empty(
        path: PathBuf,
        bytes: u64,
        chunks: Arc<Chunks>,
    ) -> Result<TempChunk, Failure> {
        let file = TempFile::create(path, chunks.clone()).map_err(|error| failure(&error))?;
        let (reserved, stage) = (AtomicU64::new(0), Mutex::new(Stage::Writing));
        Ok(TempChunk { file, bytes, reserved, stage, chunks })
    }

    /// What the file will have with its table and footer.
    fn whole(&self) -> u64 {
        table_at(self.bytes, self.bytes.div_ceil(BLOCK_BYTES)) + FOOTER_BYTES
    }

    /// Makes sure that the file has its place on disk up to there.
    fn reserve(&self, below: u64) -> Result<(), Failure> {
        let reserved = self.reserved.load(Ordering::Relaxed);
        if below <= reserved {
            return Ok(());
        }
        let below = below.saturating_add(RESERVE_BYTES).min(self.whole());
        match fallocate(&self.file.file, FallocateFlags::empty(), reserved, below - reserved) {
            // A file system without reservations: full disks show at the writes instead.
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            result => result.map_err(|errno| failure(&errno.into()))?,
        }
        self.reserved.fetch_max(below, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the table of what is read; gives the checksum of the whole.
    fn read_back(&self, each: &mut dyn FnMut(&[u8])) -> io::Result<u32> {
        let mut buffer = vec![0; PROOF_BYTES.min(self.bytes as usize)];
        let mut whole = Crc32c::new();
        let mut offset = 0;
        while offset < self.bytes {
            let data = (self.bytes - offset).min(PROOF_BYTES as u64) as usize;
            let data = &mut buffer[..data];
            self.file.file.read_exact_at(data, offset)?;
            whole.update(data);
            each(data);
            let blocks = data.chunks(BLOCK_BYTES as usize);
            let table: Vec<u8> = blocks.flat_map(|block| crc32c(block).to_le_bytes()).collect();
            self.file.file.write_all_at(&table, table_at(self.bytes, offset / BLOCK_BYTES))?;
            offset += data.len() as u64;
        }
        Ok(whole.value())
    }

    /// Puts label and footer behind data and table, all of it durable, then links the file to its
    /// name: unlike a rename that fails where the name exists.
    fn name(&self, footer: &Footer, label: &Label) -> io::Result<Published> {
        let file = &self.file.file;
        let end = [label.bytes(), &footer.encode()].concat();
        file.write_all_at(&end, footer.label_at())?;
        file.set_len(footer.file_bytes())?;
        file.sync_all()?;
        let path = self.chunks.path(footer.copy);
        match fs::hard_link(&self.file.path, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let is_equal = |chunk: ChunkFile| chunk.footer().listed() == footer.listed();
                if !self.chunks.open(footer.copy).is_ok_and(is_equal) {
                    return Ok(Published::Taken);
                }
            }
            result => result?,
        }
        sync_dir(path.parent().expect("chunks lie in folders"))?;
        Ok(Published::Named)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChunkWriter for TempChunk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        check_within(self.bytes, offset, data.len())?;
        match &mut *self.stage() {
            Stage::Published(_) => return Err(Failure::Disk("a published chunk is final".into())),
            stage => *stage = Stage::Writing,
        }
        self.reserve(offset + data.len() as u64)?;
        self.file.file.write_all_at(data, offset).map_err(|error| failure(&error))
    }

    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        let mut stage = self.stage();
        if let Stage::Published(footer) = *stage {
            return Ok(footer.crc);
        }
        *stage = Stage::Writing;
        let found = self.read_back(each).map_err(|error| failure(&error))?;
        if let Some(expected) = recorded.filter(|expected| *expected != found) {
            return Err(Failure::ProofFailed { expected, found });
        }
        *stage = Stage::Proven(found);
        Ok(found)
    }

    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure> {
        let mut stage = self.stage();
        let footer = match *stage {
            Stage::Published(footer) if footer.copy == copy => return Ok(Published::Named),
            Stage::Proven(crc) => {
                Footer { copy, bytes: self.bytes, crc, label: LabelDigest::of(label.bytes()) }
            }
            _ => {
                return Err(Failure::Disk(format!(
                    "{copy} cannot be published before it is proven"
                )));
            }
        };
        let published = self.name(&footer, label).map_err(|error| failure(&error))?;
        if published == Published::Named {
            *stage = Stage::Published(footer);
        }
        Ok(published)
    }
}

impl TempFile {
    fn create(path: PathBuf, chunks: Arc<Chunks>) -> io::Result<TempFile> {
        let create = || data_dir::new_file().create_new(true).open(&path);
        let file = match (create(), path.parent()) {
            // A user or tool has removed the folder, which was empty, as unused.
            (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
                data_dir::create_folder(folder)?;
                create()?
            }
            (created, _) => created?,
        };
        Ok(TempFile { file, path, chunks })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("{} cannot be removed yet: {error}", self.path.display());
            self.chunks.left().push(std::mem::take(&mut self.path));
        }
    }
}
