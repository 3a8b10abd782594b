//! Where chunks live: stripes and the map of them, with the generation that guards each.
//!
//! Place: `failure noticed -> [stripes affected] -> queue -> plan -> ... -> commit -> healthy`.
//! The map mirrors the durable truth (SQLite, or HDFS's NameNode): it changes only by what the
//! truth reported back, never by what we hope for.

use std::collections::{BTreeMap, BTreeSet};

use suture_code::Code;

use crate::id::{ChunkCopy, ChunkIndex, Generation, NodeId, Stamp, StripeId};

/// Where one chunk lies and what its bytes sum to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// The node that holds it; `None` when the put could not store it.
    pub node: Option<NodeId>,
    /// Which copy on that node.
    pub stamp: Stamp,
    /// CRC32C of the whole chunk, recorded when it was first written.
    pub crc: u32,
}

/// One stripe: k data and m parity chunks of equal length on distinct nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Its id.
    pub id: StripeId,
    /// Its code.
    pub code: Code,
    /// Length of each chunk; short stripes have short chunks rather than padding.
    pub chunk_bytes: u64,
    /// Grows by one with each change of a location.
    pub generation: Generation,
    /// One record for each chunk, in chunk order.
    pub chunks: Vec<ChunkRecord>,
}

impl Stripe {
    /// The copy that the truth points to, if the chunk has a home.
    pub fn copy(&self, chunk: ChunkIndex) -> Option<(NodeId, ChunkCopy)> {
        let record = &self.chunks[usize::from(chunk.0)];
        let copy = ChunkCopy { stripe: self.id, chunk, stamp: record.stamp };
        record.node.map(|node| (node, copy))
    }

    /// All chunk indices in order.
    pub fn indices(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        (0..self.chunks.len() as u8).map(ChunkIndex)
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
    on_node: BTreeMap<NodeId, BTreeSet<StripeId>>,
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
        for node in stripe.chunks.iter().filter_map(|c| c.node) {
            self.on_node.entry(node).or_default().insert(stripe.id);
        }
        self.stripes.insert(stripe.id, stripe);
    }

    /// Forgets a stripe.
    pub fn remove(&mut self, id: StripeId) -> Option<Stripe> {
        let stripe = self.stripes.remove(&id)?;
        for node in stripe.chunks.iter().filter_map(|c| c.node) {
            if let Some(ids) = self.on_node.get_mut(&node) {
                ids.remove(&id);
            }
        }
        Some(stripe)
    }

    /// The stripes with a chunk on `node`, in order.
    pub fn on_node(&self, node: NodeId) -> impl Iterator<Item = &Stripe> {
        self.on_node.get(&node).into_iter().flatten().map(|id| &self.stripes[id])
    }

    /// How many stripes have a chunk on `node`.
    pub fn count_on(&self, node: NodeId) -> usize {
        self.on_node.get(&node).map_or(0, BTreeSet::len)
    }

    /// All stripes in order.
    pub fn iter(&self) -> impl Iterator<Item = &Stripe> {
        self.stripes.values()
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
