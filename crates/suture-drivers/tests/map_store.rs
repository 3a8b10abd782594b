//! A chunk store of somebody else's: a map in memory behind the interface that agents use.
//!
//! It is about as short as a store can be, and the same conformance rules run against it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use suture_edge::checksum::crc32c;
use suture_repair::chunk_store::conformance::{self, Medium};
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published, Spool};
use suture_repair::id::ChunkCopy;
use suture_repair::message::{CopyFault, Failure};

const CAPACITY: u64 = 1 << 20;

type Summed = (Vec<u8>, u32);

/// Copies with their checksums. A share of `open` is held by the store and by all that is begun.
#[derive(Clone, Debug, Default)]
struct MapStore {
    copies: Arc<Mutex<BTreeMap<ChunkCopy, Summed>>>,
    open: Arc<()>,
}
#[derive(Debug)]
struct MapReader(Vec<u8>);
#[derive(Debug)]
struct MapWriter(MapStore, Mutex<(Vec<u8>, Option<u32>)>);
#[derive(Debug)]
#[expect(dead_code, reason = "its share says that it exists")]
struct MapSpool(Mutex<BTreeMap<u64, Vec<u8>>>, Arc<()>);

fn no(why: &str) -> Failure {
    Failure::Disk(why.to_owned())
}
fn range(offset: u64, bytes: usize, of: usize) -> Option<Range<usize>> {
    let to = (offset as usize).checked_add(bytes).filter(|to| *to <= of)?;
    Some(to - bytes..to)
}

impl ChunkStore for MapStore {
    fn list(&self) -> Result<Vec<ChunkCopy>, Failure> {
        Ok(self.copies.lock().unwrap().keys().copied().collect())
    }
    fn free_bytes(&self) -> Result<u64, Failure> {
        Ok(CAPACITY)
    }
    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        let (bytes, crc) =
            self.copies.lock().unwrap().get(&copy).cloned().ok_or(CopyFault::Missing)?;
        if crc32c(&bytes) == crc { Ok(Arc::new(MapReader(bytes))) } else { Err(CopyFault::Corrupt) }
    }
    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        let zeros = (bytes <= CAPACITY).then(|| vec![0; bytes as usize]).ok_or(Failure::NoSpace)?;
        Ok(Arc::new(MapWriter(self.clone(), Mutex::new((zeros, None)))))
    }
    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        self.copies.lock().unwrap().remove(&copy);
        Ok(())
    }
    fn spool(&self) -> Result<Arc<dyn Spool>, Failure> {
        Ok(Arc::new(MapSpool(Mutex::default(), self.open.clone())))
    }
}

impl ChunkReader for MapReader {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        let range = range(offset, into.len(), self.0.len()).ok_or(CopyFault::Corrupt)?;
        into.copy_from_slice(&self.0[range]);
        Ok(())
    }
}

impl ChunkWriter for MapWriter {
    fn bytes(&self) -> u64 {
        self.1.lock().unwrap().0.len() as u64
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let (bytes, proven) = &mut *self.1.lock().unwrap();
        let range = range(offset, data.len(), bytes.len()).ok_or_else(|| no("out of range"))?;
        bytes[range].copy_from_slice(data);
        *proven = None;
        Ok(())
    }
    fn prove(&self, recorded: Option<u32>) -> Result<u32, Failure> {
        let (bytes, proven) = &mut *self.1.lock().unwrap();
        let found = crc32c(bytes);
        let expected = recorded.unwrap_or(found);
        *proven = (expected == found).then_some(found);
        proven.ok_or(Failure::ProofFailed { expected, found })
    }
    fn publish(&self, copy: ChunkCopy) -> Result<Published, Failure> {
        let (bytes, proven) = &*self.1.lock().unwrap();
        let chunk = (bytes.clone(), proven.ok_or_else(|| no("not proven"))?);
        let mut copies = self.0.copies.lock().unwrap();
        let is_ours = *copies.entry(copy).or_insert_with(|| chunk.clone()) == chunk;
        Ok(if is_ours { Published::Named } else { Published::Taken })
    }
}

impl Spool for MapSpool {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.0.lock().unwrap().insert(offset, data.to_vec());
        Ok(())
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let kept = self.0.lock().unwrap().get(&offset).filter(|k| k.len() == into.len()).cloned();
        into.copy_from_slice(&kept.ok_or_else(|| no("not kept"))?);
        Ok(())
    }
}

impl Medium for MapStore {
    fn open(&mut self) -> Arc<dyn ChunkStore> {
        Arc::new(self.clone())
    }

    fn crash(&mut self) {
        self.open = Arc::default();
    }

    fn damage(&mut self, copy: ChunkCopy, offset: u64) {
        self.copies.lock().unwrap().get_mut(&copy).unwrap().0[offset as usize] ^= 1;
    }

    /// All shares but the medium's and the store's.
    fn unfinished_count(&self) -> usize {
        Arc::strong_count(&self.open) - 2
    }
}

#[test]
fn a_map_in_memory_keeps_every_promise_of_a_chunk_store() {
    conformance::check(MapStore::default);
}
