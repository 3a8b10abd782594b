//! A chunk store of another kind: a map in memory behind the interface that agents use.
//!
//! It shows how little a store has to be, and the same conformance rules run against it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use suture_edge::checksum::crc32c;
use suture_repair::chunk_store::conformance::{self, Medium};
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published};
use suture_repair::id::{ChunkCopy, ListedCopy};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};

const CAPACITY: u64 = 1 << 20;

/// The bytes of a chunk, and their checksum since they were proven.
type Chunk = (Vec<u8>, Option<u32>);

#[derive(Clone, Debug, Default)]
struct MapStore(Arc<Mutex<BTreeMap<ChunkCopy, Chunk>>>);

#[derive(Debug)]
struct MapReader(Vec<u8>);

#[derive(Debug)]
struct MapWriter(Mutex<Chunk>, MapStore);

impl ChunkStore for MapStore {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        Ok(self.0.lock().unwrap().keys().map(|copy| ListedCopy::from(*copy)).collect())
    }
    fn free_bytes(&self) -> Result<u64, Failure> {
        Ok(CAPACITY)
    }
    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        let (bytes, crc) = self.0.lock().unwrap().get(&copy).cloned().ok_or(CopyFault::Missing)?;
        let is_good = crc == Some(crc32c(&bytes));
        if is_good { Ok(Arc::new(MapReader(bytes))) } else { Err(CopyFault::Corrupt) }
    }
    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        let zeros = (bytes <= CAPACITY).then(|| vec![0; bytes as usize]).ok_or(Failure::NoSpace)?;
        Ok(Arc::new(MapWriter(Mutex::new((zeros, None)), self.clone())))
    }
    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        self.0.lock().unwrap().remove(&copy).map_or(Ok(()), |_| Ok(()))
    }
}

impl ChunkReader for MapReader {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        let part = self.0.get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        part.map(|part| into.copy_from_slice(part)).ok_or(CopyFault::Corrupt)
    }
}

impl ChunkWriter for MapWriter {
    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().0.len() as u64
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let (bytes, proven) = &mut *self.0.lock().unwrap();
        *proven = None;
        let part = bytes.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..data.len()));
        part.map(|part| part.copy_from_slice(data)).ok_or(Failure::Disk("out of range".into()))
    }
    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        let (bytes, proven) = &mut *self.0.lock().unwrap();
        each(bytes);
        let found = crc32c(bytes);
        *proven = recorded.is_none_or(|recorded| recorded == found).then_some(found);
        proven.ok_or(Failure::ProofFailed { expected: recorded.unwrap_or(found), found })
    }
    fn publish(&self, copy: ChunkCopy, _: &Label) -> Result<Published, Failure> {
        let chunk = self.0.lock().unwrap().clone();
        chunk.1.ok_or(Failure::Disk("not proven".into()))?;
        let is_named = *self.1.0.lock().unwrap().entry(copy).or_insert(chunk.clone()) == chunk;
        Ok(if is_named { Published::Named } else { Published::Taken })
    }
}

impl Medium for MapStore {
    fn open(&mut self) -> Arc<dyn ChunkStore> {
        Arc::new(self.clone())
    }

    /// A map of the same copies, of which no chunk in the making knows.
    fn crash(&mut self) {
        let copies = self.0.lock().unwrap().clone();
        self.0 = Arc::new(Mutex::new(copies));
    }

    fn damage(&mut self, copy: ChunkCopy, offset: u64) {
        self.0.lock().unwrap().get_mut(&copy).unwrap().0[offset as usize] ^= 1;
    }

    /// All references to the map, but those of the medium and the store.
    fn unfinished_count(&self) -> usize {
        Arc::strong_count(&self.0) - 2
    }
}

#[test]
fn a_map_in_memory_keeps_every_promise_of_a_chunk_store() {
    conformance::check(MapStore::default);
}
