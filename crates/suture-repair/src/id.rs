//! Names for the things of a repair, as numbers that cannot be mixed up.
//!
//! Place: everywhere. An id says *which*; what it stands for lives in `cluster.rs` (nodes),
//! `stripe.rs` (stripes) and `coordinator.rs` (repairs).

use std::fmt;

pub use suture_code::ChunkIndex;

/// A node, as an index into the cluster's list of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The position in `Cluster::nodes`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A rack, as an index into the cluster's list of racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RackId(pub u32);

/// A stripe. In a placement file it is the 0-based line; in the native store it is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeId(pub u64);

/// One attempt to rebuild a chunk. The upper 32 bits are the coordinator's epoch, so that ids
/// grow over restarts without a write to the journal for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepairId(pub u64);

impl RepairId {
    /// The `sequence`-th repair of a coordinator's `epoch`.
    pub fn new(epoch: u32, sequence: u32) -> RepairId {
        RepairId(u64::from(epoch) << 32 | u64::from(sequence))
    }

    /// The epoch of the coordinator that began the repair.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// How often a stripe's locations have changed; the compare-and-set key of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Who wrote a copy of a chunk: 0 for the original put, otherwise the repair's id. Two copies of
/// one chunk never share a stamp, so deleting one can never hit the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl From<RepairId> for Stamp {
    fn from(repair: RepairId) -> Stamp {
        Stamp(repair.0)
    }
}

/// One copy of one chunk, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkCopy {
    /// The stripe that it belongs to.
    pub stripe: StripeId,
    /// The chunk within the stripe.
    pub chunk: ChunkIndex,
    /// Who wrote this copy.
    pub stamp: Stamp,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for StripeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stripe {}", self.0)
    }
}

impl fmt::Display for RepairId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "repair {}.{}", self.epoch(), self.0 & 0xffff_ffff)
    }
}

impl fmt::Display for ChunkCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} chunk {} (stamp {:x})", self.stripe, self.chunk.0, self.stamp.0)
    }
}
