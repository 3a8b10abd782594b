//! A DataNode as a chunk store: its internal blocks are the chunks.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! Blocks are read through the plugin, which checks every byte against HDFS's own checksums and
//! reports a block that fails them to the NameNode. A rebuilt chunk is made in a file without a
//! name of the agent's own and proven there; only then the DataNode gets it, from the first byte to
//! the last, reads it back, and has it finalized. So nothing unproven is ever HDFS's, and what an
//! agent leaves that is killed is gone with it.
//!
//! A block has one copy on a node, whatever it is called: a copy that a client wrote is called by
//! its generation stamp, one that a repair made by the repair. Nothing is ever deleted here: what
//! is in excess HDFS finds and removes itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate};
use suture_edge::checksum::Crc32c;
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published, check_within};
use suture_repair::id::{ChunkCopy, Digest, ListedCopy, RepairId, Stamp};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};

use super::datanode::{
    BlockConnection, BlockQuestion, DataNodeClient, DataNodeError, Finished, FreeBytes, ListPart,
    LocatedBlock, NewBlock, finish, receive,
};
use super::frame::PAYLOAD_BYTES_MAX;
use super::group::{block_id, chunk_of, generation_stamp, stamp_of};
use super::keeper::BlockLabel;
use crate::store::failure;

/// A block, its generation stamp and its length, 8 bytes each.
const ENTRY_BYTES: usize = 24;

/// Blocks whose names are remembered: those that this process published last.
const NAMES_MAX: usize = 1 << 16;

/// The chunks of the DataNode of this machine.
#[derive(Debug)]
pub struct HdfsStore {
    datanode: Arc<DataNodeClient>,
    pool: Arc<str>,
    spool_dir: PathBuf,
    names: Arc<Mutex<BTreeMap<i64, Stamp>>>,
    unfinished: Arc<AtomicUsize>,
}

impl HdfsStore {
    /// The blocks of `pool`; chunks in the making lie in `spool_dir`, in files without names.
    pub fn new(datanode: DataNodeClient, pool: &str, spool_dir: &Path) -> HdfsStore {
        HdfsStore {
            datanode: Arc::new(datanode),
            pool: pool.into(),
            spool_dir: spool_dir.to_owned(),
            names: Arc::default(),
            unfinished: Arc::default(),
        }
    }

    /// Chunks in the making that take space.
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.load(Ordering::Relaxed)
    }

    fn pool(&self) -> String {
        self.pool.to_string()
    }

    fn list_over(
        &self,
        connection: &mut BlockConnection,
    ) -> Result<Vec<ListedCopy>, DataNodeError> {
        let question = BlockQuestion::List { pool: self.pool() };
        connection.send(&question).map_err(DataNodeError::Unreachable)?;
        let (mut copies, names) = (Vec::new(), lock(&self.names).clone());
        loop {
            let ListPart { more } = receive(connection)?;
            let entries = connection.payload().chunks_exact(ENTRY_BYTES);
            copies.extend(entries.map(|entry| {
                let field = |at: usize| {
                    let field = entry[at..at + 8].try_into().expect("eight bytes");
                    u64::from_be_bytes(field)
                };
                let (block, stamp, bytes) = (field(0).cast_signed(), field(8), field(16));
                let (stripe, chunk) = chunk_of(block);
                let stamp = names.get(&block).copied().unwrap_or(stamp_of(stamp));
                let copy = ChunkCopy { stripe, chunk, stamp };
                ListedCopy { copy, digest: Digest { bytes: Some(bytes), crc: None } }
            }));
            if !more {
                return Ok(copies);
            }
        }
    }
}

impl ChunkStore for HdfsStore {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        self.datanode.with(|connection| self.list_over(connection)).map_err(failed)
    }

    fn free_bytes(&self) -> Result<u64, Failure> {
        let free: FreeBytes = self.datanode.ask(&BlockQuestion::Free).map_err(failed)?;
        Ok(free.bytes)
    }

    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        let block = block_id(copy.stripe, copy.chunk);
        let question = BlockQuestion::Locate { pool: self.pool(), block };
        let found: LocatedBlock = self.datanode.ask(&question).map_err(|why| fault(copy, &why))?;
        let is_meant = match generation_stamp(copy.stamp) {
            Some(stamp) => stamp == found.stamp,
            // A repair's, of which a node has no other.
            None => RepairId(copy.stamp.0).epoch() > 0,
        };
        if !is_meant {
            return Err(CopyFault::Missing);
        }
        let (datanode, pool) = (self.datanode.clone(), self.pool.clone());
        Ok(Arc::new(BlockReader { datanode, pool, copy, block, bytes: found.bytes }))
    }

    /// In as few questions as there can be.
    fn scan(&self, copy: ChunkCopy, each: &mut dyn FnMut(&[u8])) -> Result<(), CopyFault> {
        let reader = self.open(copy)?;
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX.min(reader.bytes() as usize)];
        (0..reader.bytes()).step_by(PAYLOAD_BYTES_MAX).try_for_each(|offset| {
            let bytes = (reader.bytes() - offset).min(PAYLOAD_BYTES_MAX as u64) as usize;
            reader.read(offset, &mut buffer[..bytes])?;
            each(&buffer[..bytes]);
            Ok(())
        })
    }

    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        if bytes > self.free_bytes()? {
            return Err(Failure::NoSpace);
        }
        let file = tempfile::tempfile_in(&self.spool_dir).map_err(|error| failure(&error))?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes.max(1)) {
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            result => result.map_err(|errno| failure(&errno.into()))?,
        }
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(NewChunk {
            datanode: self.datanode.clone(),
            pool: self.pool.clone(),
            file,
            bytes,
            progress: Mutex::new(Progress::Writing),
            names: self.names.clone(),
            unfinished: self.unfinished.clone(),
        }))
    }

    fn delete(&self, _: ChunkCopy) -> Result<(), Failure> {
        Ok(())
    }
}

/// An internal block that is being read.
#[derive(Debug)]
struct BlockReader {
    datanode: Arc<DataNodeClient>,
    pool: Arc<str>,
    copy: ChunkCopy,
    block: i64,
    bytes: u64,
}

impl ChunkReader for BlockReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(CopyFault::Corrupt);
        }
        let mut from = offset;
        for part in into.chunks_mut(PAYLOAD_BYTES_MAX) {
            let (pool, block, count) = (self.pool.to_string(), self.block, part.len() as u64);
            let question = BlockQuestion::Read { pool, block, from, count };
            let read = self.datanode.with(|connection| {
                connection.send(&question).map_err(DataNodeError::Unreachable)?;
                let _: super::namenode::DoneAnswer = receive(connection)?;
                if connection.payload().len() != part.len() {
                    let what = io::Error::other("other bytes came than were asked for");
                    return Err(DataNodeError::Unreachable(what));
                }
                part.copy_from_slice(connection.payload());
                Ok(())
            });
            read.map_err(|why| fault(self.copy, &why))?;
            from += count;
        }
        Ok(())
    }
}

/// How far a chunk in the making has come: `Writing <-> Proven -> Named`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Something was written since it was last proven.
    Writing,
    /// It was read back whole and has this checksum.
    Proven(u32),
    /// The DataNode has it, under this name, and it has this checksum.
    Named(ChunkCopy, u32),
}

/// A chunk that no DataNode has yet.
#[derive(Debug)]
struct NewChunk {
    datanode: Arc<DataNodeClient>,
    pool: Arc<str>,
    file: File,
    bytes: u64,
    progress: Mutex<Progress>,
    names: Arc<Mutex<BTreeMap<i64, Stamp>>>,
    unfinished: Arc<AtomicUsize>,
}

impl NewChunk {
    /// Shows the chunk from the first byte to the last, as it is read from the disk.
    fn read_back(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), DataNodeError>,
    ) -> Result<(), DataNodeError> {
        let mut buffer = vec![0; PAYLOAD_BYTES_MAX.min(self.bytes as usize)];
        for offset in (0..self.bytes).step_by(PAYLOAD_BYTES_MAX) {
            let part = (self.bytes - offset).min(PAYLOAD_BYTES_MAX as u64) as usize;
            let read = self.file.read_exact_at(&mut buffer[..part], offset);
            read.map_err(DataNodeError::Unreachable)?;
            each(&buffer[..part])?;
        }
        Ok(())
    }

    fn send(&self, new: &NewBlock, crc: u32) -> Result<Finished, DataNodeError> {
        self.datanode.with(|connection| {
            let broken = DataNodeError::Unreachable;
            connection.send(&BlockQuestion::Begin(new.clone())).map_err(broken)?;
            let _: super::namenode::DoneAnswer = receive(connection)?;
            self.read_back(|part| {
                connection.send_with(&BlockQuestion::Data, part).map_err(broken)
            })?;
            finish(connection, self.bytes, crc)
        })
    }

    /// What is announced of the block to the DataNode, from its name and label.
    fn announced(&self, copy: ChunkCopy, label: &Label) -> Result<NewBlock, Failure> {
        let label: BlockLabel = if label.is_empty() {
            BlockLabel::default()
        } else {
            serde_json::from_slice(label.bytes())
                .map_err(|error| Failure::Disk(format!("{copy}: a label that is none: {error}")))?
        };
        if let Some(of) = label.pool.filter(|of| *of != *self.pool) {
            return Err(Failure::Disk(format!(
                "{copy} is of block pool {of}, and this agent serves {}: correct [hdfs] pool",
                self.pool
            )));
        }
        let labelled = (label.stamp > 0).then_some(label.stamp);
        let stamp = generation_stamp(copy.stamp).or(labelled);
        let stamp = stamp.ok_or_else(|| {
            Failure::Disk(format!("{copy}: nobody has said which generation stamp it gets"))
        })?;
        let storage = label.targets.into_iter().find(|target| target.index == copy.chunk.0);
        let (storage, kind) = storage.map(|target| (target.storage, target.kind)).unzip();
        let block = block_id(copy.stripe, copy.chunk);
        Ok(NewBlock { pool: self.pool.to_string(), block, stamp, bytes: self.bytes, storage, kind })
    }
}

impl ChunkWriter for NewChunk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        check_within(self.bytes, offset, data.len())?;
        match &mut *lock(&self.progress) {
            Progress::Named(..) => return Err(Failure::Disk("a published chunk is final".into())),
            progress => *progress = Progress::Writing,
        }
        self.file.write_all_at(data, offset).map_err(|error| failure(&error))
    }

    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        let mut progress = lock(&self.progress);
        if let Progress::Named(_, crc) = *progress {
            return Ok(crc);
        }
        *progress = Progress::Writing;
        let mut whole = Crc32c::new();
        let read = self.read_back(|part| {
            whole.update(part);
            each(part);
            Ok(())
        });
        read.map_err(failed)?;
        let found = whole.value();
        if let Some(expected) = recorded.filter(|expected| *expected != found) {
            return Err(Failure::ProofFailed { expected, found });
        }
        *progress = Progress::Proven(found);
        Ok(found)
    }

    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure> {
        let mut progress = lock(&self.progress);
        let crc = match *progress {
            Progress::Named(named, _) if named == copy => return Ok(Published::Named),
            Progress::Proven(crc) => crc,
            Progress::Named(..) | Progress::Writing => {
                let what = format!("{copy} cannot be published before it is proven");
                return Err(Failure::Disk(what));
            }
        };
        let new = self.announced(copy, label)?;
        let finished = self.send(&new, crc).map_err(failed)?;
        if finished.published != "named" {
            return Ok(Published::Taken);
        }
        *progress = Progress::Named(copy, crc);
        self.unfinished.fetch_sub(1, Ordering::Relaxed);
        let mut names = lock(&self.names);
        names.insert(new.block, copy.stamp);
        if names.len() > NAMES_MAX {
            names.pop_first();
        }
        Ok(Published::Named)
    }
}

impl Drop for NewChunk {
    fn drop(&mut self) {
        if !matches!(*lock(&self.progress), Progress::Named(..)) {
            self.unfinished.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a refusal or a broken connection means to a repair.
fn failed(why: DataNodeError) -> Failure {
    match &why {
        DataNodeError::Refused(refusal) if refusal.error == "no-space" => Failure::NoSpace,
        _ => Failure::Disk(why.to_string()),
    }
}

/// The fault of a copy as its reader is answered.
fn fault(copy: ChunkCopy, why: &DataNodeError) -> CopyFault {
    let fault = match why {
        DataNodeError::Refused(refusal) if refusal.error == "missing" => CopyFault::Missing,
        DataNodeError::Refused(refusal) if refusal.error == "corrupt" => CopyFault::Corrupt,
        _ => CopyFault::Unreadable,
    };
    tracing::warn!(%copy, %fault, "a block cannot be read: {why}");
    fault
}
