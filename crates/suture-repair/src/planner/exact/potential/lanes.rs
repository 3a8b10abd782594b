//! From the options of an item's ranges to the lanes of its plan.
//!
//! Place: `[plan]`, the last step of the potential planner. Ranges that are rebuilt alike become
//! one lane.

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Edge, Lane, Mode, Range};
use crate::planner::exact::join::tree;
use crate::planner::exact::potential::charge::one_and_others;
use crate::planner::exact::potential::option::{
    CandidateSchemes, Decoder, PricedPart, RepairOption, SHARES,
};
use crate::planner::exact::potential::ports::PricedPorts;
use crate::planner::exact::potential::{arborescence, rack};

/// The lanes of an item, so many parts of which are rebuilt by each of these options.
pub(super) fn lanes(
    item: &PricedPart<'_>,
    options: &[(&RepairOption, u32)],
    destinations: &[u32],
    candidate_sets: &[CandidateSchemes],
    ports: &PricedPorts<'_>,
) -> Vec<Lane> {
    // Alike means next to each other: the order of ranges does not matter.
    let mut groups: Vec<(Joined<'_>, u32)> = Vec::new();
    for (option, parts) in options {
        for (joined, shares) in joined(option) {
            let shares = parts * u32::from(shares);
            match groups.iter_mut().find(|(known, _)| *known == joined) {
                Some((_, count)) => *count += shares,
                None => groups.push((joined, shares)),
            }
        }
    }
    let parts: u32 = options.iter().map(|(_, parts)| parts).sum();
    let whole = parts * u32::from(SHARES);
    let mut lanes = Vec::with_capacity(groups.len());
    let mut at = 0;
    for (joined, count) in groups {
        let byte = |part: u32| item.request.byte_at(part, whole);
        let range = Range { from: byte(at), to: byte(at + count) };
        at += count;
        if range.bytes() == 0 {
            continue;
        }
        let build = Build { item, destinations, candidate_sets, ports, range };
        match joined {
            Joined::Whole(RepairOption::Apart { trees }) => {
                let parts = item.apart.iter().zip(destinations.chunks(1)).zip(trees);
                lanes.extend(parts.map(|((item, destinations), tree)| {
                    Build { item, destinations, ..build }.lane(Joined::Whole(tree))
                }));
            }
            Joined::Whole(RepairOption::Beside { alone, tree, gather }) => {
                let alone = usize::from(*alone);
                let (one, others) = one_and_others(destinations, alone);
                let tree = Build { item: &item.apart[alone], destinations: &[one], ..build }
                    .lane(Joined::Whole(tree));
                let gather =
                    Build { item: item.pair_without(alone), destinations: &others, ..build }
                        .lane(Joined::Whole(gather));
                lanes.extend([tree, gather]);
            }
            Joined::Whole(RepairOption::Around { detour, option }) => {
                let item = item.detour(*detour);
                lanes.push(Build { item, ..build }.lane(Joined::Whole(option)));
            }
            together => lanes.push(build.lane(together)),
        }
    }
    lanes
}

/// What makes ranges alike.
#[derive(Clone, Copy, PartialEq)]
enum Joined<'a> {
    Whole(&'a RepairOption),
    Traces(u8, Decoder),
}

/// An option by what makes lanes of it, with their shares.
fn joined(option: &RepairOption) -> Vec<(Joined<'_>, u8)> {
    match option {
        RepairOption::Traces { scheme, decoders } => {
            decoders.iter().map(|(at, shares)| (Joined::Traces(*scheme, *at), *shares)).collect()
        }
        other => vec![(Joined::Whole(other), SHARES)],
    }
}

/// One lane that is being built.
#[derive(Clone, Copy)]
struct Build<'a> {
    item: &'a PricedPart<'a>,
    destinations: &'a [u32],
    candidate_sets: &'a [CandidateSchemes],
    ports: &'a PricedPorts<'a>,
    range: Range,
}

impl Build<'_> {
    fn lane(&self, joined: Joined<'_>) -> Lane {
        let bytes = self.range.bytes();
        let root = NodeId(self.destinations[0]);
        let (decoder, scheme, edges) = match joined {
            Joined::Whole(RepairOption::Tree { helpers, sums }) => {
                let sums: Vec<u32> = sums.iter().map(|sums| u32::from(*sums)).collect();
                (None, None, tree(&self.helpers(helpers), &sums, root, bytes))
            }
            Joined::Whole(RepairOption::Racks { helpers, sums, .. }) => {
                let rack_of = |node: NodeId| self.ports.rack(node.0);
                (None, None, rack::edges(&self.helpers(helpers), sums, root, bytes, rack_of))
            }
            Joined::Whole(RepairOption::Arborescence { helpers, relays, parents }) => {
                let helpers = helpers.iter().map(|place| self.item.holders[usize::from(*place)]);
                let nodes: Vec<NodeId> =
                    helpers.chain(relays.iter().copied()).map(NodeId).collect();
                (None, None, arborescence::edges(&nodes, parents, root, bytes))
            }
            Joined::Whole(RepairOption::Gather { helpers, decoder }) => {
                let alpha = u64::from(self.item.request.job.code.sub_chunk_count());
                let sent = helpers.iter().map(|place| {
                    let place = usize::from(*place);
                    let forced = self.item.part.forced.get(place);
                    let rows = forced.map_or(self.item.part.free_sent, |sender| sender.sent);
                    (place, u64::from(rows) * bytes / alpha)
                });
                let (at, edges) = self.gathered(sent, *decoder, Carries::Combined);
                (Some(at), None, edges)
            }
            Joined::Traces(scheme, decoder) => {
                let candidates = &self.candidate_sets
                    [self.item.candidates.expect("traces come from candidates")];
                let candidate = &candidates.schemes[usize::from(scheme)];
                let groups = 8 * bytes.div_ceil(64);
                let sent = candidate.bits.iter().enumerate().filter(|(_, bits)| **bits > 0);
                let sent = sent.map(|(place, bits)| (place, u64::from(*bits) * groups));
                let (at, edges) = self.gathered(sent, decoder, Carries::Traces);
                (Some(at), Some(candidate.scheme), edges)
            }
            Joined::Whole(
                RepairOption::Traces { .. }
                | RepairOption::Apart { .. }
                | RepairOption::Beside { .. }
                | RepairOption::Around { .. },
            ) => {
                unreachable!("traces are joined by their decoders, others by their parts")
            }
        };
        Lane {
            range: self.range,
            lost: self.item.part.lost.clone(),
            mode: Mode::Streamed,
            decoder,
            scheme,
            edges,
        }
    }

    fn helpers(&self, places: &[u8]) -> Vec<(ChunkIndex, NodeId)> {
        let part = self.item.part;
        let forced = part.forced.iter().map(|sender| sender.chunk);
        let chunks: Vec<ChunkIndex> = forced.chain(part.free.iter().copied()).collect();
        let helper = |place: &u8| {
            let place = usize::from(*place);
            (chunks[place], NodeId(self.item.holders[place]))
        };
        places.iter().map(helper).collect()
    }

    /// Edges into the decoder, and from it to all destinations but itself.
    fn gathered(
        &self,
        sent: impl Iterator<Item = (usize, u64)>,
        decoder: Decoder,
        carries: Carries,
    ) -> (NodeId, Vec<Edge>) {
        let parent = NodeId(decoder.node(&self.item.holders, self.destinations));
        let senders = sent.map(|(place, bytes)| (NodeId(self.item.holders[place]), bytes));
        let into = senders.filter(|(child, _)| *child != parent);
        let into = into.map(|(child, bytes)| Edge { child, parent, bytes, carries });
        let out = self.destinations.iter().map(|node| NodeId(*node)).filter(|node| *node != parent);
        let finished = |node| Edge {
            child: parent,
            parent: node,
            bytes: self.range.bytes(),
            carries: Carries::Finished,
        };
        let edges = into.chain(out.map(finished)).collect();
        (parent, edges)
    }
}
