//! Star: every helper sends straight to the destination. Conventional repair, CR.
//!
//! Place: `[plan]`, a shape of a published planner: a tree of numbers alone. k helpers load k
//! uplinks once and one downlink k times, so a single chunk takes k times as long as its transfer;
//! over many chunks only the lumps hurt. The shallowest tree, with no relay that could be slow.
//! Source: what HDFS and Ceph do; figure 2(a) of RepairBoost (ATC'21).

/// The parent of any place of `helper_count` helpers: `helper_count`, which is the destination.
pub(in crate::planner) fn parent(_place: usize, helper_count: usize) -> usize {
    helper_count
}
