//! What a put asks the driver: nodes for chunks, and what became of them.
//!
//! Place: put -> [a node for each chunk] -> stored -> committed.

use suture_repair::id::{NodeId, StripeId};
use suture_repair::placement::Wanted;

use super::CoordinatorDriver;

/// For each stripe, the node of each chunk; fewer than asked for when there are no more.
pub type Placed = Vec<Vec<NodeId>>;

/// Chunks that need nodes: [`Wanted`], to be sent.
#[derive(Clone, Debug, Default)]
pub struct NewPlaces {
    /// The ids of the stripes to place.
    pub stripes: Vec<StripeId>,
    /// How many nodes each needs.
    pub width: usize,
    /// The longest that a chunk may be, in bytes.
    pub chunk_bytes: u64,
    /// Nodes that are chosen only where there are not enough others.
    pub avoid: Vec<NodeId>,
    /// Nodes that have chunks of these stripes already, or could not store one.
    pub beside: Vec<NodeId>,
}

/// The chunks of a stripe that a put has stored.
#[derive(Clone, Debug, Default)]
pub struct StoredChunks {
    /// The nodes that were to have one, with so many bytes reserved on each.
    pub placed: (Vec<NodeId>, u64),
    /// The nodes that have one, and its bytes.
    pub durable: (Vec<NodeId>, u64),
}

impl NewPlaces {
    pub(super) fn as_wanted(&self) -> Wanted<'_> {
        let NewPlaces { stripes, width, chunk_bytes, avoid, beside } = self;
        Wanted { stripes, width: *width, chunk_bytes: *chunk_bytes, avoid, beside }
    }
}

impl CoordinatorDriver {
    /// Chunks that puts under way have on this node, or are to have there.
    pub fn uncommitted_on(&self, node: NodeId) -> u64 {
        self.placer.uncommitted_on(node)
    }
}
