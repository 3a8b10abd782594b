//! What an agent needs from the store of its chunks: the native store, a test, or a DataNode.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! A rebuilt chunk goes `begin -> write, in any order -> prove -> publish`; dropping the writer at
//! any point before `publish` aborts it. A helper goes `open -> read, in any order`. Nothing here
//! names a file, a path or a database, so that storage that is not ours can stand behind it.
//!
//! Calls may come from several threads at once and may block on the medium. Each answer is final:
//! a store does not retry, the coordinator does. `conformance` defines what every store must do, as
//! code, and runs against each of them.
//!
//! A chunk may be shorter than its stripe. A store knows only the chunk: it ends where it ends, and
//! reading zeros past its end is done by `short`, not by implementations.
//!
//! Deliberately absent: which copies are needed (the coordinator knows), chunks that are absent and
//! known to be zero (no caller asks for them), what a copy should sum to (the stripe's record says,
//! where anything does), and slices that wait for others (they are the agent's own, and no chunks).

pub mod conformance;
pub mod proof;
pub mod short;

use std::fmt::Debug;
use std::sync::Arc;

use crate::id::{ChunkCopy, ListedCopy};
use crate::label::Label;
use crate::message::{CopyFault, Failure};

/// What is read at a time of a copy that is read in full.
const CHECK_BYTES: usize = 256 << 10;

/// The chunks of one node.
///
/// After a crash of the process or of the machine a store holds every copy whose `publish`
/// answered, whole, and none whose `publish` was not called. A crash inside `publish` leaves
/// either of the two. Writers do not survive it, and what they took is free again when the store is
/// next opened.
pub trait ChunkStore: Debug + Send + Sync {
    /// Every published copy that looks whole without being read, in any order, with its length and
    /// checksum as far as these are known without reading it. A copy with damaged data may be
    /// listed, an unpublished chunk never is.
    ///
    /// # Errors
    /// [`Failure::Disk`] when the list cannot be had in full. A part of it is not an answer: what
    /// it lacks would count as lost.
    fn list(&self) -> Result<Vec<ListedCopy>, Failure>;

    /// Bytes of chunks that there is space for; a hint, since others may take them.
    ///
    /// # Errors
    /// [`Failure::Disk`] when the medium does not report them.
    fn free_bytes(&self) -> Result<u64, Failure>;

    /// Whether the store gives its chunks and takes none, whatever space is left.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Opens a copy for reading.
    ///
    /// # Errors
    /// [`CopyFault::Missing`] when there is no copy of that name, [`CopyFault::Corrupt`] when
    /// there is one that is damaged, [`CopyFault::Unreadable`] when the medium or the system fails.
    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault>;

    /// Reads a copy in full against every checksum that there is of it. A store that can do so in a
    /// better way than through a reader has one of its own.
    ///
    /// # Errors
    /// As [`ChunkStore::open`]; [`CopyFault::Corrupt`] when any byte is not as it was published.
    fn check(&self, copy: ChunkCopy) -> Result<(), CopyFault> {
        self.scan(copy, &mut |_| ())
    }

    /// As [`ChunkStore::check`], and shows `each` part of the copy from the first byte to the last.
    /// What was shown is the chunk only if there is no error in the end.
    ///
    /// # Errors
    /// As [`ChunkStore::check`].
    fn scan(&self, copy: ChunkCopy, each: &mut dyn FnMut(&[u8])) -> Result<(), CopyFault> {
        let reader = self.open(copy)?;
        let mut buffer = vec![0; CHECK_BYTES.min(reader.bytes() as usize)];
        (0..reader.bytes()).step_by(CHECK_BYTES).try_for_each(|offset| {
            let bytes = (reader.bytes() - offset).min(CHECK_BYTES as u64) as usize;
            reader.read(offset, &mut buffer[..bytes])?;
            each(&buffer[..bytes]);
            Ok(())
        })
    }

    /// What was published beside a copy. A store without a place for labels has empty ones.
    ///
    /// # Errors
    /// As [`ChunkStore::open`]; [`CopyFault::Corrupt`] when the label is not as it was published.
    fn label(&self, copy: ChunkCopy) -> Result<Label, CopyFault> {
        self.open(copy).map(|_| Label::default())
    }

    /// Makes space for a chunk of `bytes`. Durable: nothing, until `publish`.
    ///
    /// # Errors
    /// [`Failure::NoSpace`] when the space is known not to be there; [`Failure::Disk`] otherwise.
    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure>;

    /// As [`ChunkStore::begin`], for a chunk whose bytes come from a client or peer that may never
    /// send them: where space is taken before bytes are there, it is taken little by little as they
    /// come, from the first one to the last.
    ///
    /// # Errors
    /// As [`ChunkStore::begin`].
    fn begin_arriving(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        self.begin(bytes)
    }

    /// Removes a copy; one that is not there is removed already. A crash soon after may bring it
    /// back, and a listing will show it.
    ///
    /// # Errors
    /// [`Failure::Disk`] when the copy is still there.
    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure>;
}

/// An open copy: its checked bytes, as often as they are wanted.
pub trait ChunkReader: Debug + Send + Sync {
    /// The length of the chunk, which may be less than the stripe's.
    fn bytes(&self) -> u64;

    /// CRC32C of the chunk when it was published, where the store recorded it: by this a copy is
    /// distinguished from another of the same name. A store of stripes with recorded checksums has
    /// it.
    fn crc(&self) -> Option<u32> {
        None
    }

    /// Fills `into` with the chunk's bytes from `offset` on. Any offset and length will do; what
    /// the checksums need beyond the range is read beside it. Bytes that fail their checksum do
    /// not come out: on an error `into` holds nothing that may be used.
    ///
    /// # Errors
    /// [`CopyFault::Corrupt`] when a checksum that covers part of the range disagrees, or the range
    /// does not lie in the chunk; [`CopyFault::Unreadable`] when the medium fails there;
    /// [`CopyFault::Missing`] when the copy has gone and the handle could not keep it.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault>;
}

/// An unpublished chunk, which no reader sees. Dropping it before it is published aborts it and
/// gives its space back.
pub trait ChunkWriter: Debug + Send + Sync {
    /// The length that it was begun with.
    fn bytes(&self) -> u64;

    /// Writes a part of the chunk, in any order; parts may be written again. Afterwards the chunk
    /// has to be proven anew. A copy that was published from it does not change any more.
    ///
    /// # Errors
    /// [`Failure::NoSpace`]; [`Failure::Disk`] when the range does not lie in the chunk, or the
    /// medium fails.
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure>;

    /// Reads the whole chunk back from the medium, shows `each` part of it from the first byte to
    /// the last, and computes its CRC32C. With `recorded` it is compared; with `None` the caller
    /// has to judge the bytes in another way before it publishes. A published chunk is not read
    /// again.
    ///
    /// # Errors
    /// [`Failure::ProofFailed`] when the checksums differ, [`Failure::Disk`] when the chunk cannot
    /// be read back. The chunk is then not proven, and cannot be published.
    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure>;

    /// Gives the chunk its name, all at once, and keeps `label` beside it, where the store has a
    /// place for that. When this answers `Named`, data and name are durable and listings show the
    /// copy. Asking again, or publishing the same bytes under the same name from another writer,
    /// answers `Named` too.
    ///
    /// # Errors
    /// [`Failure::Disk`] when the chunk was not proven since it was last written, or the medium
    /// fails; [`Failure::NoSpace`]. Whether the copy exists then shows in the next listing.
    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure>;
}

/// What writers look at first: whether so many bytes from `offset` on lie in a chunk of `bytes`.
///
/// # Errors
/// [`Failure::Disk`] when they do not.
pub fn check_within(bytes: u64, offset: u64, length: usize) -> Result<(), Failure> {
    if offset.checked_add(length as u64).is_some_and(|end| end <= bytes) {
        Ok(())
    } else {
        Err(Failure::Disk(format!("{length} bytes at {offset} of a chunk of {bytes}")))
    }
}

/// What came of a chunk that was to get its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It has it, or an equal chunk had it before.
    Named,
    /// A chunk with other bytes has that name. It stays as it is.
    Taken,
}
