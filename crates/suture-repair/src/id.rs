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

/// Stripe ids that follow on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StripeRange {
    /// The first of them.
    pub from: StripeId,
    /// One past the last.
    pub below: StripeId,
}

impl StripeRange {
    /// Whether the id is one of them.
    pub fn contains(self, id: StripeId) -> bool {
        self.from <= id && id < self.below
    }
}

/// One attempt to rebuild a chunk. The upper 32 bits are the coordinator's epoch, so that ids
/// grow over restarts without a write to the journal for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// An edge of a repair's lane, as one of its two nodes names it: by the node at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeRef {
    /// The repair that it belongs to.
    pub repair: RepairId,
    /// The lane of its plan.
    pub lane: u16,
    /// The node at the other end.
    pub peer: NodeId,
}

/// How often a stripe's locations have changed; the compare-and-set key of a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The writer of a copy of a chunk: a repair, by its id, or a put, by random bits of its own (0 for
/// one of a build that had none). Two copies of one chunk never share a stamp, so deleting one can
/// never hit the other; not even where metadata of an old backup give out a stripe's id again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Set in the stamps of puts, and in no repair's id: epochs do not get that far. The bit above
    /// it stays free, so that a stamp is a number for databases as well.
    const PUT: u64 = 1 << 62;

    /// The stamp of a put with these random bits.
    pub fn of_put(random: u64) -> Stamp {
        Stamp(Stamp::PUT | random & (Stamp::PUT - 1))
    }
}

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
    /// The writer of this copy.
    pub stamp: Stamp,
}

impl ChunkCopy {
    /// This copy, as a node holds it.
    pub fn at(self, node: NodeId) -> CopyAt {
        CopyAt { node, copy: self }
    }
}

/// A copy and the node that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyAt {
    /// The node where it lies.
    pub node: NodeId,
    /// Which one it is.
    pub copy: ChunkCopy,
}

/// What distinguishes the bytes of a copy from others, as far as it was recorded: its name alone
/// says nothing of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest {
    /// Its length in bytes.
    pub bytes: Option<u64>,
    /// CRC32C of all of them.
    pub crc: Option<u32>,
}

impl Digest {
    /// Whether both can be of the same bytes: nothing that both know differs.
    pub fn fits(self, other: Digest) -> bool {
        fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        agree(self.bytes, other.bytes) && agree(self.crc, other.crc)
    }
}

/// A copy that a store holds, with what the store recorded when it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedCopy {
    /// Which copy it is called.
    pub copy: ChunkCopy,
    /// What distinguishes its bytes from others.
    pub digest: Digest,
}

impl From<ChunkCopy> for ListedCopy {
    /// A copy of which no more than the name is known.
    fn from(copy: ChunkCopy) -> ListedCopy {
        ListedCopy { copy, digest: Digest::default() }
    }
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
