//! Slices: what names one, how long they are, and the memory that they take.
//!
//! Place: ... plan -> [admit -> dispatch -> slices flow] -> chunk proven and durable ...
//! The coordinator chooses one slice length for a plan and reserves memory by it (`budget.rs`);
//! every agent derives from the same numbers the slices of each lane (`role.rs`) and what they take
//! (`agent.rs`). All of that arithmetic is here, so that what one side admits the other has memory
//! for.
//!
//! Invariants: a slice is a multiple of the code's alignment, fits a frame ([`PAYLOAD_BYTES_MAX`]),
//! and is the same at every node that has the plan. Where a slice lies in a chunk is the affair of
//! `plan.rs` ([`SliceRanges`](crate::plan::SliceRanges)) and of [`suture_code::layout`].

use std::collections::BTreeMap;

use suture_code::chunk::SUB_CHUNK_ALIGNMENT;

use crate::id::{NodeId, RepairId};
use crate::plan::{Edge, Lane, Plan};

/// Below this a slice costs more in handling than in bytes; also the block of the checksums.
pub const SLICE_BYTES_MIN: u32 = 4 << 10;

/// What slices shrink to before a repair is refused for want of memory: where a plan has many
/// lanes, each needs one.
pub const SLICE_BYTES_LEAST: u32 = 512;

/// Above this a slice no longer saves anything.
pub const SLICE_BYTES_MAX: u32 = 256 << 10;

/// The longest payload of a frame, and so the longest slice of all: where every lane is much
/// shorter than the range, that of a lane over the whole range passes [`SLICE_BYTES_MAX`].
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

/// The pipeline fills in (depth x slice) and drains in the chunk's length: with this many slices a
/// chunk the filling of a tree of depth 4 costs about 6 %.
const SLICES_A_CHUNK: u64 = 64;

/// Names one slice, in memory or on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// The repair that moves it.
    pub repair: RepairId,
    /// The lane's index in the plan.
    pub lane: u16,
    /// The slice's index in the lane.
    pub slice: u32,
}

/// A power of two, about a `SLICES_A_CHUNK`-th of the chunk, with which no lane's slices leave the
/// limits: where all lanes are short, that of a lane over the whole range may be longer.
pub fn preferred_slice(plan: &Plan, alignment: u32) -> u32 {
    let range = plan.range.bytes();
    let longest = plan.lanes.iter().map(|lane| plan.lane_bytes(lane)).max().unwrap_or(range);
    let most = u128::from(SLICE_BYTES_MAX) * u128::from(range) / u128::from(longest.max(1));
    let most = most.clamp(SLICE_BYTES_MAX.into(), PAYLOAD_BYTES_MAX.into()) as u64;
    let wanted = (range / SLICES_A_CHUNK).max(1).next_power_of_two();
    let wanted = wanted.clamp(u64::from(SLICE_BYTES_MIN), most) as u32;
    align(wanted.max(smallest_slice(alignment)).min(PAYLOAD_BYTES_MAX), alignment)
}

/// What a slice has at least unless memory wants: a whole block of the checksums for each
/// sub-chunk, since below that every read would check the same block again.
pub fn smallest_slice(alignment: u32) -> u32 {
    let blocks = SLICE_BYTES_MIN * (alignment / SUB_CHUNK_ALIGNMENT as u32);
    align(blocks.min(SLICE_BYTES_MAX), alignment)
}

/// The largest multiple of `alignment` up to `slice`, but at least one.
pub(crate) fn align(slice: u32, alignment: u32) -> u32 {
    (slice / alignment).max(1) * alignment
}

/// The slice of `lane`, where that of a lane over the whole range has `slice_bytes`: shorter in
/// proportion, so that all lanes of a plan move in about as many slices. A node that serves lanes
/// in turn, slice by slice, then serves them in proportion to what they have to move, and all end
/// together; with slices of one length a short lane would end early and leave its ports to idle at
/// the end. Very short lanes keep the smallest slice that is worth its handling.
pub fn lane_slice(plan: &Plan, lane: &Lane, slice_bytes: u32, alignment: u32) -> u32 {
    let part = u128::from(slice_bytes) * u128::from(plan.lane_bytes(lane));
    let part = part.div_ceil(plan.range.bytes().max(1).into()) as u64;
    let part = part.next_multiple_of(alignment.into()) as u32;
    part.clamp(smallest_slice(alignment).min(slice_bytes), slice_bytes)
}

/// Memory that a slice takes at each participant, all lanes together: what flows in, and the
/// results of decoding, which are formed beside it. Sums are formed in place. A gated task takes no
/// more: what its children send is spilled first, and comes back as it would have flowed in.
///
/// Coordinator and agents both count by this, so that what the one admits the others have room
/// for.
pub fn memory(plan: &Plan, slice_bytes: u32, alignment: u32) -> Vec<(NodeId, u64)> {
    let mut needs: BTreeMap<NodeId, u64> = BTreeMap::new();
    for lane in &plan.lanes {
        let lane_bytes = plan.lane_bytes(lane);
        let slice = lane_slice(plan, lane, slice_bytes, alignment);
        let slice = u64::from(slice).min(lane_bytes);
        let content = |edge: &Edge| {
            if edge.bytes == lane_bytes {
                slice
            } else {
                (u128::from(edge.bytes) * u128::from(slice)).div_ceil(lane_bytes.into()) as u64
            }
        };
        for edge in &lane.edges {
            *needs.entry(edge.parent).or_default() += content(edge);
            *needs.entry(edge.child).or_default() += match Some(edge.child) == lane.decoder {
                true => 0,
                // What is read, and what is made of it where that is something else.
                false if lane.decoder.is_some() => slice + content(edge),
                false => slice,
            };
        }
        if let Some(decoder) = lane.decoder {
            // The own chunk, where it has one, and a result for each lost chunk.
            *needs.entry(decoder).or_default() += (1 + lane.lost.len() as u64) * slice;
        }
    }
    needs.into_iter().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::id::{ChunkIndex, StripeId};
    use crate::plan::{Carries, Mode, Range, Start};

    /// Helpers that all send a whole chunk to the node after the last of them.
    pub(crate) fn star(helpers: u32, bytes: u64) -> Plan {
        let destination = NodeId(helpers);
        let edge =
            |n| Edge { child: NodeId(n), parent: destination, bytes, carries: Carries::Partial };
        let range = Range { from: 0, to: bytes };
        let lane = Lane {
            range,
            lost: vec![ChunkIndex(0)],
            mode: Mode::Streamed,
            decoder: None,
            scheme: None,
            edges: (0..helpers).map(edge).collect(),
        };
        Plan {
            stripe: StripeId(0),
            lost: vec![ChunkIndex(0)],
            destinations: [(ChunkIndex(0), destination)].into(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![lane],
        }
    }

    #[test]
    fn all_lanes_move_in_as_many_slices_and_none_is_too_long_or_too_short() {
        const KIB: u64 = 1 << 10;
        let mut plan = star(6, 64 << 20);
        let lane = plan.lanes.remove(0);
        let mut from = 0;
        for kib in [24 << 10, 8 << 10, 16 << 10, (16 << 10) - 64, 64] {
            let range = Range { from, to: from + kib * KIB };
            let edges = lane.edges.iter().map(|e| Edge { bytes: range.bytes(), ..e.clone() });
            plan.lanes.push(Lane { range, edges: edges.collect(), ..lane.clone() });
            from = range.to;
        }
        let slice = preferred_slice(&plan, 64);
        let slices = plan.lanes.iter().map(|lane| lane_slice(&plan, lane, slice, 64));
        let slices: Vec<u32> = slices.collect();
        assert_eq!((slices[0], slices[4]), (SLICE_BYTES_MAX, SLICE_BYTES_MIN));
        let counts = plan.lanes[..4].iter().zip(&slices);
        let counts: Vec<u32> =
            counts.map(|(lane, &s)| plan.slice_ranges(lane, s).count()).collect();
        assert!(counts.iter().all(|count| count.abs_diff(96) <= 1), "{counts:?}");

        let needs = memory(&plan, slice, 64);
        let sum: u64 = slices.iter().map(|&slice| u64::from(slice)).sum();
        assert_eq!(needs[6], (NodeId(6), 6 * sum), "the destination receives six slices a lane");
        assert_eq!(memory(&plan, 64, 64)[6].1, 6 * 5 * 64, "in an emergency all are the same");
    }

    #[test]
    fn slices_follow_the_chunk() {
        let preferred = |bytes| preferred_slice(&star(6, bytes), 64);
        assert_eq!(preferred(2 << 20), 32 << 10);
        assert_eq!(preferred(1 << 30), SLICE_BYTES_MAX);
        assert_eq!(preferred(64), SLICE_BYTES_MIN);
    }
}
