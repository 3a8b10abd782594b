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

/// What nodes have stored and not reported.
#[derive(Debug, Default)]
pub struct Unreported(BTreeMap<NodeId, ReportedSpace>);

/// What a node reported, and what was stored there meanwhile, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedSpace {
    free: u64,
    /// Stored between its last two heartbeats, and not in what it reported.
    before: u64,
    /// Stored since the last one.
    since: u64,
}

impl Unreported {
    /// A chunk of so many bytes is stored on each of these nodes.
    pub fn stored(&mut self, nodes: &[NodeId], chunk_bytes: u64) {
        for node in nodes {
            let since = &mut self.0.entry(*node).or_default().since;
            *since = since.saturating_add(chunk_bytes);
        }
    }

    /// A heartbeat of the node reports so many free bytes.
    pub fn report(&mut self, node: NodeId, free: u64) {
        let reported = self.0.entry(node).or_default();
        let less = reported.free.saturating_sub(free);
        let before = reported.since.saturating_sub(less.saturating_sub(reported.before));
        *reported = ReportedSpace { free, before, since: 0 };
    }

    /// What is free on a node that reported so many free bytes.
    pub fn free_beside(&self, node: NodeId, free: u64) -> u64 {
        let ReportedSpace { before, since, .. } = self.0.get(&node).copied().unwrap_or_default();
        free.saturating_sub(before.saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(3);

    #[test]
    fn what_was_stored_is_taken_from_what_is_free_until_the_node_reports_it() {
        let mut unreported = Unreported::default();
        unreported.report(NODE, 1000);
        assert_eq!(unreported.free_beside(NODE, 1000), 1000);
        unreported.stored(&[NODE, NodeId(4)], 100);
        assert_eq!(unreported.free_beside(NODE, 1000), 900);
        // This is what was free at the heartbeat before.
        unreported.report(NODE, 1000);
        assert_eq!(unreported.free_beside(NODE, 1000), 900);
        unreported.report(NODE, 900);
        assert_eq!(unreported.free_beside(NODE, 900), 900);
        assert_eq!(unreported.free_beside(NodeId(4), 50), 0, "no less than nothing");
    }

    #[test]
    fn a_node_that_reports_at_once_counts_at_once() {
        let mut unreported = Unreported::default();
        unreported.report(NODE, 1000);
        unreported.stored(&[NODE], 100);
        unreported.stored(&[NODE], 100);
        // One of the two is in it.
        unreported.report(NODE, 900);
        assert_eq!(unreported.free_beside(NODE, 900), 800);
        unreported.stored(&[NODE], 100);
        unreported.report(NODE, 700);
        assert_eq!(unreported.free_beside(NODE, 700), 700);
    }

    #[test]
    fn a_node_that_never_reports_it_counts_after_two_heartbeats() {
        let mut unreported = Unreported::default();
        unreported.stored(&[NODE], 100);
        unreported.report(NODE, 1000);
        unreported.report(NODE, 1000);
        assert_eq!(unreported.free_beside(NODE, 1000), 1000);
    }
}
