//! A node comes back with hundreds of unneeded copies.
//!
//! Place: [an agent joins and lists what it holds] -> ... -> old copies deleted.
//! Puts that were given up, stripes that were removed and chunks that were rebuilt elsewhere leave
//! copies behind. A listing names all of them at once, and the next one again; each is to be looked
//! at, few at a time, and all of them are to be gone in the end.

use suture_repair::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, Stamp, StripeId};
use suture_repair::time::Span;

use crate::fault::Kind;
use crate::world::World;

/// Each takes some messages, and is looked at by the invariants until it is gone.
const COPIES_MIN: u64 = 100;
const COPIES_MAX: u64 = 300;

/// What is in excess has the bytes of its chunk: in all no more than this.
const EXCESS_BYTES_MAX: u64 = 256 << 10;

/// Orphans may have any bytes.
const ORPHAN_BYTES: usize = 16;

/// Puts that were given up, so that there are orphans where nothing was removed.
const GIVEN_UP: usize = 3;

/// Set in the stamps of what is left over, and of nothing that is written in a run.
const LEFT_OVER: u64 = 1 << 60;

impl World {
    /// A node's agent crashes, and comes back with copies in excess and orphans.
    pub(super) fn burst(&mut self, back_after: Span) {
        let node = self.any_node();
        // Only a coordinator gives out ids.
        if self.host(node).agent.is_none() || self.coordinator.is_none() {
            return;
        }
        self.coverage.count(Kind::Burst);
        self.crash_for(node, back_after);
        let copies = self.random.between(COPIES_MIN, COPIES_MAX);
        let orphans = self.random.below(copies + 1);
        self.leave_excess(node, copies - orphans);
        self.leave_orphans(node, orphans);
    }

    /// Good copies of the chunks of a stripe, which are elsewhere or under another name.
    fn leave_excess(&mut self, node: NodeId, copies: u64) {
        let stripes = self.metadata.stripes.values();
        let Some(stripe) = stripes.min_by_key(|stripe| stripe.chunk_bytes) else { return };
        let (id, most) = (stripe.id, EXCESS_BYTES_MAX / stripe.chunk_bytes);
        let is_stored = |chunk: &ChunkIndex| !stripe.record(*chunk).is_known_zero();
        let chunks: Vec<ChunkIndex> = stripe.indices().filter(is_stored).collect();
        if chunks.is_empty() {
            return;
        }
        for _ in 0..copies.min(most) {
            let chunk = *self.random.choose(&chunks);
            let copy = self.left_over_name(id, chunk);
            let bytes = self.metadata.original(id, chunk).to_vec();
            let version = self.metadata.version_with(id, chunk, &bytes).expect("it is of one");
            self.left_over.insert(CopyAt { node, copy }, version);
            self.host(node).disk.put(copy, bytes);
        }
    }

    /// Copies of stripes that are gone, or never were.
    fn leave_orphans(&mut self, node: NodeId, copies: u64) {
        let (gone, width) = (self.gone_stripes(), self.options.code.chunk_count());
        for _ in 0..copies {
            let stripe = *self.random.choose(&gone);
            let chunk = ChunkIndex(self.random.index(width) as u8);
            let copy = self.left_over_name(stripe, chunk);
            let mut bytes = vec![0; ORPHAN_BYTES];
            self.random.fill(&mut bytes);
            self.host(node).disk.put(copy, bytes);
        }
    }

    /// Ids that were given out and stand for nothing, among them those of puts that are given up
    /// just now.
    fn gone_stripes(&mut self) -> Vec<StripeId> {
        let code = self.options.code;
        let on: Vec<NodeId> = self.nodes().take(code.chunk_count()).collect();
        let bytes = 64u64.next_multiple_of(code.alignment() as u64);
        for _ in 0..GIVEN_UP {
            self.metadata.write(&mut self.random, code, bytes, &on);
        }
        self.announce_reserved();
        let is_written = |id: &StripeId| self.writing.contains(id);
        self.metadata.gone().into_iter().filter(|id| !is_written(id)).collect()
    }

    /// A name that no other copy has.
    fn left_over_name(&mut self, stripe: StripeId, chunk: ChunkIndex) -> ChunkCopy {
        let stamp = Stamp::of_put(self.random.next_u64() | LEFT_OVER);
        ChunkCopy { stripe, chunk, stamp }
    }
}
