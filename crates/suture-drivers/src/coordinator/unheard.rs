//! Bytes stored on a node that its reported free space does not reflect yet; a heartbeat reports
//! the free space of about one heartbeat earlier.
//!
//! Place: put -> stripes durable -> [what is free] -> shown beside what is used.
//! What is used changes with the commit of a put. Shown beside what was free before, the same bytes
//! would count twice, and a node would seem larger for a second.
//!
//! A heartbeat reports the free bytes as of about the previous beat: bytes stored before the
//! second-to-last heartbeat are already subtracted. Of the bytes stored since, those are subtracted
//! by which the reported free space fell. Chunks that are stored while it is looked up may count as
//! used and not as free for a heartbeat: then a node seems smaller, which promises nothing. Chunks
//! that repairs made are not counted here.

use std::collections::BTreeMap;

use suture_repair::id::NodeId;

/// What nodes have stored and not told of.
#[derive(Debug, Default)]
pub struct Unheard(BTreeMap<NodeId, Told>);

/// What a node said, and what was stored there meanwhile, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    free: u64,
    /// Stored between its last two heartbeats, and not in what it said.
    before: u64,
    /// Stored since the last one.
    since: u64,
}

impl Unheard {
    /// A chunk of so many bytes is stored on each of these nodes.
    pub fn stored(&mut self, nodes: &[NodeId], chunk_bytes: u64) {
        for node in nodes {
            let since = &mut self.0.entry(*node).or_default().since;
            *since = since.saturating_add(chunk_bytes);
        }
    }

    /// A heartbeat of the node says that so much is free.
    pub fn told(&mut self, node: NodeId, free: u64) {
        let told = self.0.entry(node).or_default();
        let less = told.free.saturating_sub(free);
        let before = told.since.saturating_sub(less.saturating_sub(told.before));
        *told = Told { free, before, since: 0 };
    }

    /// What is free on a node, when it said that so much is.
    pub fn free_beside(&self, node: NodeId, free: u64) -> u64 {
        let Told { before, since, .. } = self.0.get(&node).copied().unwrap_or_default();
        free.saturating_sub(before.saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);

    #[test]
    fn what_was_stored_is_taken_from_what_is_free_until_the_node_tells_of_it() {
        let mut unheard = Unheard::default();
        unheard.told(NODE, 1000);
        assert_eq!(unheard.free_beside(NODE, 1000), 1000);
        unheard.stored(&[NODE, NodeId(4)], 100);
        assert_eq!(unheard.free_beside(NODE, 1000), 900);
        // This is what was free at the heartbeat before.
        unheard.told(NODE, 1000);
        assert_eq!(unheard.free_beside(NODE, 1000), 900);
        unheard.told(NODE, 900);
        assert_eq!(unheard.free_beside(NODE, 900), 900);
        assert_eq!(unheard.free_beside(NodeId(4), 50), 0, "no less than nothing");
    }

    #[test]
    fn a_node_that_tells_at_once_is_believed_at_once() {
        let mut unheard = Unheard::default();
        unheard.told(NODE, 1000);
        unheard.stored(&[NODE], 100);
        unheard.stored(&[NODE], 100);
        // One of the two is in it.
        unheard.told(NODE, 900);
        assert_eq!(unheard.free_beside(NODE, 900), 800);
        unheard.stored(&[NODE], 100);
        unheard.told(NODE, 700);
        assert_eq!(unheard.free_beside(NODE, 700), 700);
    }

    #[test]
    fn a_node_that_never_tells_of_it_is_believed_after_two_heartbeats() {
        let mut unheard = Unheard::default();
        unheard.stored(&[NODE], 100);
        unheard.told(NODE, 1000);
        unheard.told(NODE, 1000);
        assert_eq!(unheard.free_beside(NODE, 1000), 1000);
    }
}
