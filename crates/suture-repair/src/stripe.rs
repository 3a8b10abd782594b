//! Where chunks live: stripes and the map of them, with the generation that guards each.
//!
//! Place: `failure detected -> [stripes affected] -> queue -> plan -> ... -> commit -> healthy`.
//! The map mirrors the keeper's, which is durable (SQLite, or HDFS's NameNode): it changes only
//! by what the keeper reported back.
//!
//! A chunk may be shorter than its stripe: past its end it reads as zeros. A chunk of no bytes is
//! absent and known to be zero: it has no copy, so it is never lost, read, rebuilt or placed, and
//! it helps every repair for nothing. [`Stripe::check`] defines which lengths a stripe can have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use suture_code::layout::{Layout, SizeError, check_unit};
use suture_code::{ChunkSet, Code, CodeError, Shortened};

use crate::id::{ChunkCopy, ChunkIndex, CopyAt, Digest, Generation, NodeId, Stamp, StripeId};

/// The longest chunk, in bytes.
pub const CHUNK_BYTES_MAX: u64 = 1 << 40;

/// Where one chunk lies and what its bytes sum to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// The node that holds it; `None` when the put could not store it, or it is known to be zero.
    pub node: Option<NodeId>,
    /// Which copy on that node.
    pub stamp: Stamp,
    /// Its length, at most the stripe's `chunk_bytes`; past it the chunk is zeros. None at all: it
    /// is absent and known to be zero.
    pub bytes: u64,
    /// CRC32C of the whole chunk, recorded when it was first written; `None` where it was not.
    pub crc: Option<u32>,
}

impl ChunkRecord {
    /// What a copy of the chunk must be.
    pub fn digest(&self) -> Digest {
        Digest { bytes: Some(self.bytes), crc: self.crc }
    }

    /// Whether there is no copy because the chunk is known to be zero.
    pub fn is_known_zero(&self) -> bool {
        self.bytes == 0
    }
}

/// One stripe: k data and m parity chunks on distinct nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The id of the stripe.
    pub id: StripeId,
    /// The code of its chunks.
    pub code: Code,
    /// Length of the longest chunk.
    pub chunk_bytes: u64,
    /// The codeword's piece of a chunk; by default `chunk_bytes`. The last of a chunk may be
    /// shorter.
    pub unit_bytes: u64,
    /// Grows by one with each change of a location.
    pub generation: Generation,
    /// One record for each chunk, in chunk order.
    pub chunks: Vec<ChunkRecord>,
}

impl Stripe {
    /// The copy that the keeper points to, if there is such a chunk and it has a location.
    pub fn copy(&self, chunk: ChunkIndex) -> Option<CopyAt> {
        let record = self.chunks.get(usize::from(chunk.0))?;
        let copy = ChunkCopy { stripe: self.id, chunk, stamp: record.stamp };
        record.node.map(|node| copy.at(node))
    }

    /// The nodes that its chunks are on.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.chunks.iter().filter_map(|record| record.node)
    }

    /// All chunk indices in order.
    pub fn indices(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        (0..self.chunks.len() as u8).map(ChunkIndex)
    }

    /// The record of a chunk.
    pub fn record(&self, chunk: ChunkIndex) -> &ChunkRecord {
        &self.chunks[usize::from(chunk.0)]
    }

    /// How far these chunks reach: to the end of the longest, or of the unit in which that ends,
    /// since a unit with sub-chunks is rebuilt as a whole.
    pub fn reach(&self, chunks: &[ChunkIndex]) -> u64 {
        let end = chunks.iter().map(|chunk| self.record(*chunk).bytes).max().unwrap_or(0);
        match self.code.sub_chunk_count() {
            1 => end,
            _ => end.next_multiple_of(self.unit_bytes.max(1)).min(self.chunk_bytes),
        }
    }

    /// Its code, shortened by the chunks that are known to be zero.
    pub fn shortened(&self) -> Shortened {
        let zeros = self.indices().filter(|chunk| self.record(*chunk).is_known_zero());
        Shortened::new(self.code, zeros.collect())
    }

    /// How its chunks are cut.
    ///
    /// # Panics
    /// When [`Stripe::check`] would refuse it.
    pub fn layout(&self) -> Layout {
        let layout = Layout::of(&self.code, self.chunk_bytes);
        if self.unit_bytes < self.chunk_bytes && self.code.sub_chunk_count() > 1 {
            layout.in_units(self.unit_bytes)
        } else {
            layout
        }
    }

    /// Whether its chunks can have these lengths, places and units; for callers that bring stripes
    /// from outside.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), StripeFault> {
        let (found, expected) = (self.chunks.len(), self.code.chunk_count());
        if found != expected {
            return Err(StripeFault::ChunkCount { found, expected });
        }
        if self.chunk_bytes == 0 {
            return Err(StripeFault::Empty);
        }
        if self.chunk_bytes > CHUNK_BYTES_MAX {
            return Err(StripeFault::TooLarge { bytes: self.chunk_bytes });
        }
        for (chunk, record) in self.indices().zip(&self.chunks) {
            let (bytes, chunk_bytes) = (record.bytes, self.chunk_bytes);
            if bytes > chunk_bytes {
                return Err(StripeFault::TooLong { chunk, bytes, chunk_bytes });
            }
            if record.is_known_zero() && record.node.is_some() {
                return Err(StripeFault::ZeroWithCopy { chunk });
            }
        }
        self.check_units()?;
        self.check_ends()
    }

    /// Chunks of codes with sub-chunks are cut into units that the code can work with.
    fn check_units(&self) -> Result<(), StripeFault> {
        let (bytes, step) = (self.chunk_bytes, u64::from(self.code.sub_chunk_count()));
        if step == 1 {
            return Ok(());
        }
        if !bytes.is_multiple_of(step) {
            return Err(StripeFault::Unit(SizeError { bytes, step }));
        }
        let unit_bytes = self.unit_bytes.min(bytes);
        if unit_bytes < bytes {
            check_unit(&self.code, unit_bytes).map_err(StripeFault::Unit)?;
        }
        // What a data chunk lacks of its last unit is zeros; a parity chunk lacks more than zeros.
        let parity = self.indices().skip(self.code.data_chunks());
        let is_cut = |bytes: u64| bytes != self.chunk_bytes && !bytes.is_multiple_of(unit_bytes);
        match parity.into_iter().find(|chunk| is_cut(self.record(*chunk).bytes)) {
            Some(chunk) => Err(StripeFault::CutsUnit { chunk, unit_bytes }),
            None => Ok(()),
        }
    }

    /// Wherever short chunks have ended, the others must still be free to be anything.
    fn check_ends(&self) -> Result<(), StripeFault> {
        let ends: BTreeSet<u64> = self.chunks.iter().map(|record| record.bytes).collect();
        let is_plain = self.code.sub_chunk_count() == 1;
        for end in ends.into_iter().filter(|end| *end < self.chunk_bytes && (*end == 0 || is_plain))
        {
            let is_over = |chunk: &ChunkIndex| self.record(*chunk).bytes <= end;
            let ended: ChunkSet = self.indices().filter(is_over).collect();
            let code = Shortened::new(self.code, ended);
            code.check().map_err(|why| StripeFault::Impossible { end, why })?;
        }
        Ok(())
    }

    /// The chunk that `node` should hold. At most one: a stripe uses each node once.
    pub fn chunk_on(&self, node: NodeId) -> Option<ChunkIndex> {
        self.indices().find(|c| self.chunks[usize::from(c.0)].node == Some(node))
    }
}

/// All stripes, and for each node those that touch it.
#[derive(Clone, Debug, Default)]
pub struct StripeMap {
    stripes: BTreeMap<StripeId, Stripe>,
    on_node: BTreeMap<NodeId, OnNode>,
    /// The longest chunk of any stripe so far, in bytes.
    longest_chunk: u64,
}

/// What a node has of the stripes.
#[derive(Clone, Debug, Default)]
struct OnNode {
    stripes: BTreeSet<StripeId>,
    /// How many bytes its chunks have.
    bytes: u64,
}

/// The nodes of a stripe's chunks, each with what it has of them in bytes.
fn located(stripe: &Stripe) -> impl Iterator<Item = (NodeId, u64)> {
    stripe.chunks.iter().filter_map(|chunk| Some((chunk.node?, chunk.bytes)))
}

impl StripeMap {
    /// The map of `stripes`.
    pub fn new(stripes: impl IntoIterator<Item = Stripe>) -> StripeMap {
        let mut map = StripeMap::default();
        stripes.into_iter().for_each(|stripe| map.put(stripe));
        map
    }

    /// The stripe, if it exists.
    pub fn get(&self, id: StripeId) -> Option<&Stripe> {
        self.stripes.get(&id)
    }

    /// Adds a stripe or replaces what was known of it.
    pub fn put(&mut self, stripe: Stripe) {
        self.remove(stripe.id);
        for (node, bytes) in located(&stripe) {
            let on_node = self.on_node.entry(node).or_default();
            on_node.stripes.insert(stripe.id);
            on_node.bytes += bytes;
        }
        self.longest_chunk = self.longest_chunk.max(stripe.chunk_bytes);
        self.stripes.insert(stripe.id, stripe);
    }

    /// Forgets a stripe; gives what was known of it.
    pub fn remove(&mut self, id: StripeId) -> Option<Stripe> {
        let stripe = self.stripes.remove(&id)?;
        for (node, bytes) in located(&stripe) {
            if let Some(on_node) = self.on_node.get_mut(&node) {
                on_node.stripes.remove(&id);
                on_node.bytes -= bytes;
            }
        }
        Some(stripe)
    }

    /// The stripes with a chunk on `node`, in order.
    pub fn on_node(&self, node: NodeId) -> impl Iterator<Item = &Stripe> {
        let ids = self.on_node.get(&node).into_iter().flat_map(|on_node| &on_node.stripes);
        ids.map(|id| &self.stripes[id])
    }

    /// How many stripes have a chunk on `node`.
    pub fn count_on(&self, node: NodeId) -> usize {
        self.on_node.get(&node).map_or(0, |on_node| on_node.stripes.len())
    }

    /// Bytes of the chunks that are located on `node`.
    pub fn bytes_on(&self, node: NodeId) -> u64 {
        self.on_node.get(&node).map_or(0, |on_node| on_node.bytes)
    }

    /// No chunk of these stripes has more bytes; one that was removed may have had as many.
    pub fn longest_chunk(&self) -> u64 {
        self.longest_chunk
    }

    /// All stripes in order.
    pub fn iter(&self) -> impl Iterator<Item = &Stripe> {
        self.stripes.values()
    }

    /// The stripes from this id on, in order.
    pub fn from(&self, id: StripeId) -> impl Iterator<Item = &Stripe> {
        self.stripes.range(id..).map(|(_, stripe)| stripe)
    }

    /// How many stripes there are.
    pub fn len(&self) -> usize {
        self.stripes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.stripes.is_empty()
    }
}

/// Why no stripe is like this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeFault {
    /// It has more or fewer chunks than its code.
    ChunkCount {
        /// How many it has.
        found: usize,
        /// What its code has.
        expected: usize,
    },
    /// Not even its longest chunk has a byte.
    Empty,
    /// No chunk is as long as its longest.
    TooLarge {
        /// The length that is recorded as its longest.
        bytes: u64,
    },
    /// A chunk is longer than the longest.
    TooLong {
        /// The chunk that is too long.
        chunk: ChunkIndex,
        /// What is recorded of it.
        bytes: u64,
        /// That of the longest.
        chunk_bytes: u64,
    },
    /// A chunk that is known to be zero lies on a node.
    ZeroWithCopy {
        /// The chunk that has both.
        chunk: ChunkIndex,
    },
    /// The code cannot work with such units or chunks.
    Unit(SizeError),
    /// A short parity chunk of a code with sub-chunks ends within a unit.
    CutsUnit {
        /// The chunk that ends there.
        chunk: ChunkIndex,
        /// How long the stripe's units are.
        unit_bytes: u64,
    },
    /// Past the end of short chunks, which read as zeros there, others cannot be anything.
    Impossible {
        /// How long they are.
        end: u64,
        /// What the code says of that.
        why: CodeError,
    },
}

impl fmt::Display for StripeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StripeFault::ChunkCount { found, expected } => {
                write!(f, "it has {found} chunks, its code has {expected}")
            }
            StripeFault::Empty => write!(f, "none of its chunks has any bytes"),
            StripeFault::TooLarge { bytes } => {
                write!(f, "chunks have at most {CHUNK_BYTES_MAX} bytes, not {bytes}")
            }
            StripeFault::TooLong { chunk, bytes, chunk_bytes } => {
                write!(f, "chunk {chunk} has {bytes} bytes, the longest is to have {chunk_bytes}")
            }
            StripeFault::ZeroWithCopy { chunk } => {
                write!(f, "chunk {chunk} has no bytes, and yet a node that holds it")
            }
            StripeFault::Unit(error) => write!(f, "units: {error}"),
            StripeFault::CutsUnit { chunk, unit_bytes } => {
                write!(f, "chunk {chunk} ends within a unit of {unit_bytes} bytes")
            }
            StripeFault::Impossible { end, why } => {
                write!(f, "where chunks of {end} bytes have ended: {why}")
            }
        }
    }
}

impl std::error::Error for StripeFault {}
