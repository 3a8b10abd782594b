//! One node's disk in memory: copies with checksums, temporaries, and what goes wrong with them.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...
//! It stands for the chunk store of production and keeps its promises: a read is checked against
//! the checksums of its blocks, a chunk is proven against its recorded checksum before it gets its
//! name, a crash loses temporaries and nothing else. Faults are injected behind its back.

use std::collections::BTreeMap;

use suture_repair::id::{ChunkCopy, RepairId};
use suture_repair::message::{CopyFault, Failure};
use suture_repair::plan::Window;

/// Which of the safety nets are in place; the mutation tests cut them one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nets {
    /// Reads and rebuilt chunks are compared with their checksums.
    pub checksums: bool,
    /// Commits compare the stripe's generation.
    pub compare_and_set: bool,
    /// A failed attempt is tried again.
    pub requeue: bool,
}

impl Nets {
    /// All in place.
    pub const ALL: Nets = Nets { checksums: true, compare_and_set: true, requeue: true };
}

/// Block of the checksums. Production uses 4 KiB; small blocks bring the edges closer.
const BLOCK_BYTES: usize = 512;

/// A copy as it lies on the disk.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What a read returns; faults change this.
    pub bytes: Vec<u8>,
    /// Checksum of each block, from when it was written.
    blocks: Vec<u32>,
    /// The length when it was written.
    length: usize,
}

impl Stored {
    fn new(bytes: Vec<u8>) -> Stored {
        let blocks = bytes.chunks(BLOCK_BYTES).map(checksum).collect();
        Stored { length: bytes.len(), bytes, blocks }
    }

    /// Whether every byte is as it was written.
    pub fn is_good(&self) -> bool {
        self.length == self.bytes.len()
            && self.bytes.chunks(BLOCK_BYTES).map(checksum).eq(self.blocks.iter().copied())
    }
}

/// A node's disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    copies: BTreeMap<ChunkCopy, Stored>,
    temporaries: BTreeMap<RepairId, Vec<u8>>,
    spools: BTreeMap<(RepairId, u16), BTreeMap<u64, Vec<u8>>>,
    /// How much it holds in all.
    pub capacity: u64,
}

impl Disk {
    /// An empty disk.
    pub fn new(capacity: u64) -> Disk {
        Disk { capacity, ..Disk::default() }
    }

    /// Room that is left.
    pub fn free_bytes(&self) -> u64 {
        let copies: usize = self.copies.values().map(|copy| copy.bytes.len()).sum();
        let temporaries: usize = self.temporaries.values().map(Vec::len).sum();
        self.capacity.saturating_sub((copies + temporaries) as u64)
    }

    /// All copies, whatever their state.
    pub fn list(&self) -> Vec<ChunkCopy> {
        self.copies.keys().copied().collect()
    }

    /// A copy, if it is there.
    pub fn get(&self, copy: ChunkCopy) -> Option<&Stored> {
        self.copies.get(&copy)
    }

    /// Writes a whole copy, as a put does.
    pub fn put(&mut self, copy: ChunkCopy, bytes: Vec<u8>) {
        self.copies.insert(copy, Stored::new(bytes));
    }

    /// Removes a copy.
    pub fn delete(&mut self, copy: ChunkCopy) {
        self.copies.remove(&copy);
    }

    /// A checked read of part of a copy.
    pub fn read(&self, copy: ChunkCopy, at: Window, nets: Nets) -> Result<Vec<u8>, CopyFault> {
        let stored = self.copies.get(&copy).ok_or(CopyFault::Missing)?;
        let (from, to) = (at.offset as usize, at.offset as usize + at.bytes as usize);
        if to > stored.bytes.len() {
            return Err(CopyFault::Corrupt);
        }
        let (first, last) = (from / BLOCK_BYTES, to.div_ceil(BLOCK_BYTES));
        let good = (first..last).all(|block| {
            let end = ((block + 1) * BLOCK_BYTES).min(stored.bytes.len());
            checksum(&stored.bytes[block * BLOCK_BYTES..end]) == stored.blocks[block]
        });
        if nets.checksums && !good {
            return Err(CopyFault::Corrupt);
        }
        Ok(stored.bytes[from..to].to_vec())
    }

    /// Reads a copy in full.
    pub fn check(&self, copy: ChunkCopy) -> Result<(), CopyFault> {
        let stored = self.copies.get(&copy).ok_or(CopyFault::Missing)?;
        if stored.is_good() { Ok(()) } else { Err(CopyFault::Corrupt) }
    }

    /// Makes room for a chunk.
    pub fn prepare(&mut self, repair: RepairId, bytes: u64) -> Result<(), Failure> {
        if self.free_bytes() < bytes {
            return Err(Failure::NoSpace);
        }
        self.temporaries.insert(repair, vec![0; bytes as usize]);
        Ok(())
    }

    /// The chunk that `from` was making becomes that of `repair`; the rest of `from` goes.
    pub fn take_over(&mut self, repair: RepairId, from: RepairId) -> Result<(), Failure> {
        let gone = || Failure::Disk("the temporary is gone".into());
        let temporary = self.temporaries.remove(&from).ok_or_else(gone)?;
        self.temporaries.insert(repair, temporary);
        self.discard(from);
        Ok(())
    }

    /// Writes a slice of the chunk.
    pub fn write(&mut self, repair: RepairId, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let gone = || Failure::Disk("the temporary is gone".into());
        let temporary = self.temporaries.get_mut(&repair).ok_or_else(gone)?;
        temporary[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Writes a slice of the spool.
    pub fn spool(&mut self, repair: RepairId, lane: u16, offset: u64, bytes: Vec<u8>) {
        self.spools.entry((repair, lane)).or_default().insert(offset, bytes);
    }

    /// Reads a slice of the spool.
    pub fn unspool(&self, repair: RepairId, lane: u16, offset: u64) -> Option<Vec<u8>> {
        self.spools.get(&(repair, lane))?.get(&offset).cloned()
    }

    /// Proves the chunk and gives it its name.
    pub fn publish(
        &mut self,
        repair: RepairId,
        copy: ChunkCopy,
        expected: u32,
        nets: Nets,
    ) -> Result<(), Failure> {
        let gone = || Failure::Disk("the temporary is gone".into());
        let bytes = self.temporaries.remove(&repair).ok_or_else(gone)?;
        let found = checksum(&bytes);
        if nets.checksums && found != expected {
            return Err(Failure::ProofFailed { expected, found });
        }
        self.put(copy, bytes);
        Ok(())
    }

    /// Drops the temporaries of a repair.
    pub fn discard(&mut self, repair: RepairId) {
        self.temporaries.remove(&repair);
        self.spools.retain(|(r, _), _| *r != repair);
    }

    /// Chunks and spools in the making.
    pub fn temporary_count(&self) -> usize {
        self.temporaries.len() + self.spools.len()
    }

    /// What a crash leaves: everything that was durable.
    pub fn crash(&mut self) {
        self.temporaries.clear();
        self.spools.clear();
    }

    /// A fault: one bit of a copy changes.
    pub fn flip(&mut self, copy: ChunkCopy, bit: u64) {
        if let Some(stored) = self.copies.get_mut(&copy)
            && !stored.bytes.is_empty()
        {
            let bit = bit % (stored.bytes.len() as u64 * 8);
            stored.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }

    /// A fault: the end of a copy is gone.
    pub fn tear(&mut self, copy: ChunkCopy, at: u64) {
        if let Some(stored) = self.copies.get_mut(&copy) {
            stored.bytes.truncate((at % (stored.length as u64).max(1)) as usize);
        }
    }

    /// A fault: everything is gone.
    pub fn wipe(&mut self) {
        self.crash();
        self.copies.clear();
    }
}

/// CRC32C, bit by bit: slow, obvious, and independent of what production uses.
pub fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use suture_repair::id::{ChunkIndex, Stamp, StripeId};

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, appendix B.4: 32 zeros, 32 ones, and the check value of the catalogue.
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_flipped_bit_and_a_torn_end_are_noticed() {
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
        let at = Window { offset: 600, bytes: 100 };
        let mut disk = Disk::new(1 << 20);
        disk.put(copy, vec![7; 2000]);
        assert!(disk.read(copy, at, Nets::ALL).is_ok());
        let mut flipped = disk.clone();
        flipped.flip(copy, 650 * 8);
        assert_eq!(flipped.read(copy, at, Nets::ALL), Err(CopyFault::Corrupt));
        let unhurt = Window { offset: 1200, bytes: 100 };
        assert!(flipped.read(copy, unhurt, Nets::ALL).is_ok());
        disk.tear(copy, 650);
        assert_eq!(disk.read(copy, at, Nets::ALL), Err(CopyFault::Corrupt));
        assert_eq!(disk.check(copy), Err(CopyFault::Corrupt));
    }
}
