//! What one repair has in memory and on disk here.
//!
//! Place: ... slice received or read -> [waits for its other sources] -> its result computed ...
//! The agent's task owns the slices; the disk threads share the files. Files are opened by the
//! first slice that needs them and stay open until the repair is over, so that every other slice
//! is one system call. Dropping it frees its memory and removes its temporary files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, short};
use suture_repair::message::{CopyFault, Failure};
use suture_repair::role::Own;
use suture_repair::slice::SliceId;

use super::spool::Spool;
use crate::buffer::Buffer;
use crate::combination::Source;

/// One repair's share of memory and disk.
#[derive(Debug, Default)]
pub struct TaskData {
    /// Shared with the disk threads that read and write them.
    pub files: Arc<Files>,
    slices: HashMap<(u16, u32), Vec<(Source, Buffer)>>,
}

/// The files of one repair.
#[derive(Debug, Default)]
pub struct Files {
    /// An attempt that goes on with it shares it with jobs of the one before that still run.
    target: OnceLock<Arc<dyn ChunkWriter>>,
    own: Mutex<HashMap<u16, Arc<dyn ChunkReader>>>,
    spools: Mutex<HashMap<u16, Arc<Spool>>>,
    /// The repair is over: jobs that still wait for a thread have become pointless.
    over: AtomicBool,
}

impl TaskData {
    /// Keeps one source of a slice until all are there.
    pub fn keep(&mut self, id: SliceId, source: Source, bytes: Buffer) {
        self.slices.entry((id.lane, id.slice)).or_default().push((source, bytes));
    }

    /// All sources of a slice.
    pub fn take(&mut self, id: SliceId) -> Vec<(Source, Buffer)> {
        self.slices.remove(&(id.lane, id.slice)).unwrap_or_default()
    }

    /// One source of a slice, if it is there.
    pub fn take_one(&mut self, id: SliceId, wanted: Source) -> Option<Buffer> {
        let Entry::Occupied(mut entry) = self.slices.entry((id.lane, id.slice)) else {
            return None;
        };
        let sources = entry.get_mut();
        let at = sources.iter().position(|(source, _)| *source == wanted)?;
        let (_, bytes) = sources.swap_remove(at);
        if sources.is_empty() {
            entry.remove();
        }
        Some(bytes)
    }
}

impl Files {
    /// The chunk in the making is this file.
    pub fn set_target(&self, target: Arc<dyn ChunkWriter>) {
        // A second one would be dropped, and its file with it.
        let _ = self.target.set(target);
    }

    /// The chunk in the making.
    pub fn target(&self) -> Option<&Arc<dyn ChunkWriter>> {
        self.target.get()
    }

    /// The open copy that a lane reads. Each lane has its own handle, because each is somewhere
    /// else in the chunk and the handle keeps the checksums of where it is.
    ///
    /// # Errors
    /// When the copy is missing or damaged, or is not as recorded.
    pub fn own(
        &self,
        store: &dyn ChunkStore,
        lane: u16,
        own: &Own,
    ) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        match lock(&self.own).entry(lane) {
            Entry::Occupied(open) => Ok(open.get().clone()),
            Entry::Vacant(entry) => {
                Ok(entry.insert(short::open_matching(store, own.copy, own.digest)?).clone())
            }
        }
    }

    /// The spool of a lane, in `dir`.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn spool(&self, dir: &Path, lane: u16) -> Result<Arc<Spool>, Failure> {
        match lock(&self.spools).entry(lane) {
            Entry::Occupied(open) => Ok(open.get().clone()),
            Entry::Vacant(entry) => Ok(entry.insert(Arc::new(Spool::create(dir)?)).clone()),
        }
    }

    /// Marks the repair as over.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether the repair is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
