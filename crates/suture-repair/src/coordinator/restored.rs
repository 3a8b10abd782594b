//! What metadata that are older than the chunks must not destroy.
//!
//! Place: failure detected -> [stripes affected] -> ...; it decides which copies are left alone.
//! A map that was restored from a backup lacks what was stored since. Two things show it: agents
//! that have followed a later epoch, and copies of stripes whose ids this map has never given out.
//! Those copies are no orphans, whatever is given out later: the keeper is asked to give out higher
//! ids only, and to remember which ones are not its own.
//! Invariant: no copy is deleted as an orphan whose stripe's id was given out by others.

use super::Coordinator;
use crate::event::Output;
use crate::id::{ChunkCopy, NodeId, StripeId};
use crate::mutant::Mutant;

/// Ids from here on are no keeper's: a file of such a name got there otherwise, and must not use up
/// all ids that there are.
const STRIPES_MAX: u64 = 1 << 62;

impl Coordinator {
    /// Agents have followed an epoch that was another coordinator's: what is begun from now on is
    /// of a later one.
    pub(super) fn raise_epoch(&mut self, epoch: u32) {
        if self.ledger.mistake.is(Mutant::KeepEpoch) {
            return;
        }
        self.ledger.raise_epoch(self.ledger.epoch().max(epoch));
    }

    /// Asks the keeper to give out none of the ids of listed copies, where it has not given them
    /// out yet.
    pub(super) fn protect<'a>(&mut self, listed: impl Iterator<Item = &'a ChunkCopy>) {
        let ids = listed.map(|copy| copy.stripe);
        let highest = ids.filter(|id| id.0 < STRIPES_MAX).max();
        if let Some(id) = highest.filter(|id| *id >= self.reserved_below) {
            self.outputs.push_back(Output::Protect(StripeId(id.0 + 1)));
        }
    }

    /// Notes how many copies of a listing are of stripes that others gave out.
    pub(super) fn count_unknown<'a>(
        &mut self,
        node: NodeId,
        listed: impl Iterator<Item = &'a ChunkCopy>,
    ) {
        let is_unknown = |id: StripeId| {
            self.stripes.get(id).is_none() && !self.is_gone(id) && !self.writing.contains(&id)
        };
        let copies = listed.filter(|copy| is_unknown(copy.stripe)).count() as u64;
        self.unknown_copies.insert(node, copies);
    }

    /// Copies, as last listed, of stripes of which the keeper knows nothing and whose ids it never
    /// gave out.
    pub fn unknown_copies(&self) -> u64 {
        self.unknown_copies.values().sum()
    }

    /// Whether agents hold such copies, or may: some node that is up has not listed what it holds.
    pub fn may_lack_stripes(&self) -> bool {
        let nodes = (0..self.health.len() as u32).map(NodeId);
        let mut up = nodes.filter(|node| self.health.is_up(*node));
        self.unknown_copies() > 0 || up.any(|node| !self.unknown_copies.contains_key(&node))
    }

    /// Whether the stripe, of which nothing is known, was this keeper's, and is gone.
    pub(super) fn is_gone(&self, id: StripeId) -> bool {
        if self.ledger.mistake.is(Mutant::DeleteUnknown) {
            return !self.writing.contains(&id);
        }
        let is_ours = id < self.reserved_below && !self.unknown.contains(id);
        is_ours && !self.writing.contains(&id)
    }
}
