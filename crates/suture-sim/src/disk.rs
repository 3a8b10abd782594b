//! One node's disk in memory: copies with checksums, unpublished chunks, and what goes wrong.
//!
//! Place: ... slices flow -> [chunk proven and durable, in memory] -> commit ...
//! It is a chunk store like the one of production and keeps the same promises
//! (`suture_repair::chunk_store`): a read is checked against the checksums of its blocks, a chunk
//! is proven before it gets its name, a crash loses what is unpublished and nothing else. Faults
//! are injected behind its back.
//!
//! Handles share the disk with the simulated host. The interface is for threads, so there is a
//! lock; here it has one user at a time.

mod failing;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published};
use suture_repair::id::{ChunkCopy, Digest, ListedCopy};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};
use suture_repair::random::Random;

use crate::fault::{Coverage, Kind};
use failing::Failing;

/// Which safeguards are in place; the mutation tests remove them one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safeguards {
    /// Reads and rebuilt chunks are compared with their checksums.
    pub checksums: bool,
    /// Commits compare the stripe's generation.
    pub compare_and_set: bool,
    /// A failed attempt is tried again.
    pub requeue: bool,
}

impl Safeguards {
    /// Nothing is left out.
    pub const ALL: Safeguards =
        Safeguards { checksums: true, compare_and_set: true, requeue: true };
}

/// Block of the checksums. Production uses 4 KiB; small blocks bring the edges closer.
const BLOCK_BYTES: usize = 512;

/// A copy as it lies on the disk.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What a read returns; faults change this.
    bytes: Vec<u8>,
    /// Checksum of each block, from when it was written.
    blocks: Vec<u32>,
    /// Whether each block that is there has its checksum; looked at whenever the bytes change,
    /// since reads and checkers ask far more often.
    is_as_written: Vec<bool>,
    /// The length when it was written.
    length: usize,
    /// Checksum of all of it, from when it was written.
    crc: u32,
    /// What the keeper wanted kept beside it.
    pub label: Label,
}

impl Stored {
    fn new(bytes: Vec<u8>) -> Stored {
        let blocks: Vec<u32> = bytes.chunks(BLOCK_BYTES).map(checksum).collect();
        let is_as_written = vec![true; blocks.len()];
        let (length, crc) = (bytes.len(), checksum(&bytes));
        Stored { length, crc, bytes, blocks, is_as_written, label: Label::default() }
    }

    /// What a read returns.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A fault: the bytes are others from now on, the checksums are not.
    fn damage(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes);
        let found = self.bytes.chunks(BLOCK_BYTES).map(checksum);
        self.is_as_written =
            found.zip(&self.blocks).map(|(found, block)| found == *block).collect();
    }

    /// Fills `into` from `offset` on, if the blocks that it touches are as they were written.
    fn read(&self, offset: u64, into: &mut [u8], is_checked: bool) -> Result<(), CopyFault> {
        let bytes = self.bytes.len() as u64;
        let to = offset.checked_add(into.len() as u64).filter(|to| *to <= bytes);
        let (from, to) = (offset as usize, to.ok_or(CopyFault::Corrupt)? as usize);
        let mut blocks = from / BLOCK_BYTES..to.div_ceil(BLOCK_BYTES);
        if is_checked && !blocks.all(|block| self.is_as_written[block]) {
            return Err(CopyFault::Corrupt);
        }
        into.copy_from_slice(&self.bytes[from..to]);
        Ok(())
    }

    /// Whether every byte is as it was written.
    pub fn is_good(&self) -> bool {
        self.length == self.bytes.len() && self.is_as_written.iter().all(|is_good| *is_good)
    }
}

/// A node's disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Lock>);

#[expect(clippy::disallowed_types, reason = "the interface is for threads")]
type Lock = std::sync::Mutex<Contents>;

#[derive(Debug)]
struct Contents {
    copies: BTreeMap<ChunkCopy, Stored>,
    drafts: BTreeMap<u64, Draft>,
    next_handle: u64,
    capacity: u64,
    is_checked: bool,
    failing: Failing,
}

/// A chunk that was begun.
#[derive(Debug)]
struct Draft {
    /// Those of a published chunk have become the copy's.
    bytes: Vec<u8>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Writing,
    Proven,
    Published(ChunkCopy),
}

/// What a repair writes a chunk through.
#[derive(Debug)]
struct DiskWriter {
    disk: Disk,
    handle: u64,
    bytes: u64,
}

/// A copy that is open for reading.
#[derive(Debug)]
struct DiskReader {
    disk: Disk,
    copy: ChunkCopy,
    bytes: u64,
    crc: u32,
}

impl Disk {
    /// An empty disk that holds `capacity` bytes in all.
    pub fn new(capacity: u64, safeguards: Safeguards) -> Disk {
        let contents = Contents {
            copies: BTreeMap::new(),
            drafts: BTreeMap::new(),
            next_handle: 0,
            capacity,
            is_checked: safeguards.checksums,
            failing: Failing::default(),
        };
        Disk(Arc::new(Lock::new(contents)))
    }

    /// All copies, whatever their state.
    pub fn copies(&self) -> Vec<ChunkCopy> {
        self.contents().copies.keys().copied().collect()
    }

    /// Bytes that are left.
    pub fn capacity_left(&self) -> u64 {
        self.contents().capacity_left()
    }

    /// What `query` makes of a copy, if it is there.
    pub fn query<T>(&self, copy: ChunkCopy, query: impl FnOnce(&Stored) -> T) -> Option<T> {
        self.contents().copies.get(&copy).map(query)
    }

    /// Whether there is a copy of this name, whatever its state.
    pub fn holds(&self, copy: ChunkCopy) -> bool {
        self.contents().copies.contains_key(&copy)
    }

    /// Writes a whole copy, as a put does.
    pub fn put(&self, copy: ChunkCopy, bytes: Vec<u8>) {
        self.contents().copies.insert(copy, Stored::new(bytes));
    }

    /// Removes a copy, if it is there.
    pub fn remove(&self, copy: ChunkCopy) {
        self.contents().copies.remove(&copy);
    }

    /// From now on it holds so much in all.
    pub fn set_capacity(&self, bytes: u64) {
        self.contents().capacity = bytes;
    }

    /// From now on reads fail, or do not.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.contents().failing.is_unreadable = is_unreadable;
    }

    /// From now on nothing can be opened, or all can.
    pub fn set_out_of_descriptors(&self, is_out: bool) {
        self.contents().failing.is_out_of_descriptors = is_out;
    }

    /// From now on some of the calls that change or list something fail, as drawn from this seed;
    /// without a seed none does.
    pub fn set_errors(&self, seed: Option<u64>) {
        self.contents().failing.set_errors(seed);
    }

    /// Writes to a file beside the chunks, which has to be opened first if it is `new`: only
    /// whether that fails.
    ///
    /// # Errors
    /// [`Failure::Disk`].
    pub fn write_beside(&self, is_new: bool) -> Result<(), Failure> {
        let failing = &mut self.contents().failing;
        if is_new {
            failing.open()?;
        }
        failing.call(Kind::FailedWrite)
    }

    /// Calls that have failed.
    pub fn coverage(&self) -> Coverage {
        self.contents().failing.coverage.clone()
    }

    /// Chunks that are not published.
    pub fn unfinished_count(&self) -> usize {
        let contents = self.contents();
        let is_unfinished = |draft: &&Draft| !matches!(draft.stage, Stage::Published(_));
        contents.drafts.values().filter(is_unfinished).count()
    }

    /// What a crash leaves: everything that was durable. Handles from before are of no use.
    pub fn crash(&self) {
        self.contents().drafts.clear();
    }

    /// A fault: one bit of a copy changes.
    pub fn flip(&self, copy: ChunkCopy, bit: u64) {
        if let Some(stored) = self.contents().copies.get_mut(&copy)
            && !stored.bytes.is_empty()
        {
            let bit = bit % (stored.bytes.len() as u64 * 8);
            stored.damage(|bytes| bytes[(bit / 8) as usize] ^= 1 << (bit % 8));
        }
    }

    /// A fault: the end of a copy is gone.
    pub fn tear(&self, copy: ChunkCopy, at: u64) {
        if let Some(stored) = self.contents().copies.get_mut(&copy) {
            let at = at % (stored.length as u64).max(1);
            stored.damage(|bytes| bytes.truncate(at as usize));
        }
    }

    /// A fault: other bytes lie under the copy's name, with checksums of their own.
    pub fn replace(&self, copy: ChunkCopy, seed: u64) {
        if let Some(stored) = self.contents().copies.get_mut(&copy) {
            let mut bytes = vec![0; stored.length];
            Random::new(seed).fill(&mut bytes);
            *stored = Stored::new(bytes);
        }
    }

    /// A fault: everything is gone.
    pub fn wipe(&self) {
        self.crash();
        self.contents().copies.clear();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn capacity_left(&self) -> u64 {
        let copies: usize = self.copies.values().map(|copy| copy.bytes.len()).sum();
        let drafts: usize = self.drafts.values().map(|draft| draft.bytes.len()).sum();
        self.capacity.saturating_sub((copies + drafts) as u64)
    }

    fn handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    fn publish(
        &mut self,
        handle: u64,
        copy: ChunkCopy,
        label: &Label,
    ) -> Result<Published, Failure> {
        let draft = self.draft(handle)?;
        match draft.stage {
            Stage::Published(name) if name == copy => return Ok(Published::Named),
            Stage::Proven => {}
            _ => {
                return Err(Failure::Disk(format!(
                    "{copy} cannot be published before it is proven"
                )));
            }
        }
        let bytes = std::mem::take(&mut draft.bytes);
        draft.stage = Stage::Published(copy);
        if self.copies.get(&copy).is_some_and(|stored| stored.bytes != bytes) {
            self.drafts.remove(&handle);
            return Ok(Published::Taken);
        }
        self.copies.insert(copy, Stored { label: label.clone(), ..Stored::new(bytes) });
        Ok(Published::Named)
    }

    fn draft(&mut self, handle: u64) -> Result<&mut Draft, Failure> {
        let gone = || Failure::Disk("the temporary is gone".into());
        self.drafts.get_mut(&handle).ok_or_else(gone)
    }
}

impl ChunkStore for Disk {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        let mut contents = self.contents();
        contents.failing.open()?;
        contents.failing.call(Kind::FailedList)?;
        let listed = contents.copies.iter().map(|(copy, stored)| {
            let digest = Digest { bytes: Some(stored.length as u64), crc: Some(stored.crc) };
            ListedCopy { copy: *copy, digest }
        });
        Ok(listed.collect())
    }

    fn free_bytes(&self) -> Result<u64, Failure> {
        let mut contents = self.contents();
        contents.failing.call(Kind::FailedList)?;
        Ok(contents.capacity_left())
    }

    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        self.contents().failing.open_and_read()?;
        let found = self.query(copy, |stored| (stored.length as u64, stored.crc));
        let (bytes, crc) = found.ok_or(CopyFault::Missing)?;
        Ok(Arc::new(DiskReader { disk: self.clone(), copy, bytes, crc }))
    }

    fn check(&self, copy: ChunkCopy) -> Result<(), CopyFault> {
        self.contents().failing.open_and_read()?;
        let is_good = self.query(copy, Stored::is_good).ok_or(CopyFault::Missing)?;
        if is_good { Ok(()) } else { Err(CopyFault::Corrupt) }
    }

    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        let mut contents = self.contents();
        contents.failing.open()?;
        contents.failing.call(Kind::FailedWrite)?;
        if contents.capacity_left() < bytes {
            return Err(Failure::NoSpace);
        }
        let handle = contents.handle();
        let draft = Draft { bytes: vec![0; bytes as usize], stage: Stage::Writing };
        contents.drafts.insert(handle, draft);
        Ok(Arc::new(DiskWriter { disk: self.clone(), handle, bytes }))
    }

    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        self.contents().failing.call(Kind::FailedDelete)?;
        self.remove(copy);
        Ok(())
    }
}

impl ChunkReader for DiskReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn crc(&self) -> Option<u32> {
        Some(self.crc)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        let contents = self.disk.contents();
        contents.failing.read()?;
        let stored = contents.copies.get(&self.copy).ok_or(CopyFault::Missing)?;
        stored.read(offset, into, contents.is_checked)
    }
}

impl ChunkWriter for DiskWriter {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let mut contents = self.disk.contents();
        contents.failing.call(Kind::FailedWrite)?;
        let draft = contents.draft(self.handle)?;
        let to = offset.checked_add(data.len() as u64).filter(|to| *to <= self.bytes);
        match (to, draft.stage) {
            (None, _) => Err(Failure::Disk("beyond the chunk".into())),
            (_, Stage::Published(_)) => Err(Failure::Disk("a published chunk is final".into())),
            (Some(to), _) => {
                draft.bytes[offset as usize..to as usize].copy_from_slice(data);
                draft.stage = Stage::Writing;
                Ok(())
            }
        }
    }

    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        let mut contents = self.disk.contents();
        contents.failing.call(Kind::FailedWrite)?;
        let is_checked = contents.is_checked;
        let draft = contents.draft(self.handle)?;
        let found = checksum(&draft.bytes);
        each(&draft.bytes);
        match recorded.filter(|expected| is_checked && *expected != found) {
            Some(expected) => {
                draft.stage = Stage::Writing;
                Err(Failure::ProofFailed { expected, found })
            }
            None => {
                draft.stage = Stage::Proven;
                Ok(found)
            }
        }
    }

    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure> {
        let mut contents = self.disk.contents();
        // The name can be there although the call fails, as after a folder that cannot be synced.
        let failure = contents.failing.call(Kind::FailedPublish);
        if failure.is_err() && !contents.failing.is_done_all_the_same() {
            failure.clone()?;
        }
        let published = contents.publish(self.handle, copy, label)?;
        failure.map(|()| published)
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        self.disk.contents().drafts.remove(&self.handle);
    }
}

/// CRC32C by tables, eight bytes at a time: apart from what production uses, and fast enough to
/// look at every copy again and again.
pub fn checksum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0, |crc, word| {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        let part = |(table, byte): (&[u32; 256], u8)| table[usize::from(byte)];
        TABLES.iter().rev().zip(word.to_le_bytes()).map(part).fold(0, |crc, part| crc ^ part)
    });
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    !rest.iter().fold(crc, step)
}

/// What a byte adds to the checksum when so many zeros follow it.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 8 * 256 {
        let (zeros, byte) = (i / 256, i % 256);
        tables[zeros][byte] = match zeros {
            0 => shift(byte as u32),
            _ => {
                let crc = tables[zeros - 1][byte];
                (crc >> 8) ^ tables[0][(crc & 0xff) as usize]
            }
        };
        i += 1;
    }
    tables
};

/// The definition: eight bits, one by one.
const fn shift(mut crc: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_repair::chunk_store::conformance::{self, Medium};
    use suture_repair::chunk_store::short;
    use suture_repair::id::{ChunkIndex, Stamp, StripeId};

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, appendix B.4: 32 zeros, 32 ones, and the check value of the catalogue.
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_checksum_is_that_of_its_definition_at_every_length() {
        let mut bytes = [0; 67];
        Random::new(1).fill(&mut bytes);
        for length in 0..bytes.len() {
            let defined =
                bytes[..length].iter().fold(!0, |crc: u32, byte| shift(crc ^ u32::from(*byte)));
            assert_eq!(checksum(&bytes[..length]), !defined, "{length} bytes");
        }
    }

    impl Medium for Disk {
        fn open(&mut self) -> Arc<dyn ChunkStore> {
            Arc::new(self.clone())
        }

        fn crash(&mut self) {
            Disk::crash(self);
        }

        fn damage(&mut self, copy: ChunkCopy, offset: u64) {
            self.flip(copy, offset * 8);
        }

        fn unfinished_count(&self) -> usize {
            Disk::unfinished_count(self)
        }
    }

    #[test]
    fn the_simulated_disk_keeps_every_promise_of_a_chunk_store() {
        conformance::check(|| Disk::new(1 << 20, Safeguards::ALL));
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn a_disk_without_checksums_does_not() {
        conformance::check(|| {
            Disk::new(1 << 20, Safeguards { checksums: false, ..Safeguards::ALL })
        });
    }

    #[test]
    fn past_its_end_a_short_chunk_reads_as_zeros_and_takes_nothing_else() {
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
        let disk = Disk::new(1 << 20, Safeguards::ALL);
        disk.put(copy, vec![7; 100]);
        for other in [99, 101] {
            let digest = Digest { bytes: Some(other), crc: None };
            let cut = short::open_matching(&disk, copy, digest);
            assert_eq!(cut.err(), Some(CopyFault::Corrupt), "it should have {other} bytes");
        }
        let digest = Digest { bytes: Some(100), crc: None };
        let reader =
            short::open_matching(&disk, copy, digest).expect("it has as many as it should");
        let mut into = [9; 50];
        for (offset, before_end) in [(80, 20), (100, 0), (1 << 40, 0)] {
            short::read(&*reader, offset, &mut into).expect("it is good");
            assert_eq!(into[..before_end], [7; 50][..before_end]);
            assert_eq!(into[before_end..], [0; 50][before_end..]);
        }
        let writer = disk.begin(100).expect("there is room");
        let mut data = [1; 50];
        assert_eq!(short::write(&*writer, 80, &data), Err(Failure::PastEnd { offset: 100 }));
        data[20..].fill(0);
        assert_eq!(short::write(&*writer, 80, &data), Ok(()));
        assert_eq!(short::write(&*writer, 100, &[0; 9]), Ok(()));
        data[49] = 1;
        assert_eq!(short::write(&*writer, 80, &data), Err(Failure::PastEnd { offset: 129 }));
    }

    #[test]
    fn a_torn_end_is_noticed() {
        let (stripe, chunk, stamp) = (StripeId(1), ChunkIndex(0), Stamp(0));
        let copy = ChunkCopy { stripe, chunk, stamp };
        let disk = Disk::new(1 << 20, Safeguards::ALL);
        disk.put(copy, vec![7; 2000]);
        disk.tear(copy, 650);
        let reader = disk.open(copy).expect("it is there");
        assert_eq!(reader.read(600, &mut [0; 100]), Err(CopyFault::Corrupt));
        assert_eq!(disk.check(copy), Err(CopyFault::Corrupt));
    }
}
