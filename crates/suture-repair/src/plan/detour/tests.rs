//! Plans that go on without a node: what stands in its place, and that nothing else changes.
//!
//! Place: beside `plan/detour.rs`; plans of every kind come from `plan/arbitrary.rs`.

use suture_code::{Code, Shortened};

use super::*;
use crate::id::StripeId;
use crate::plan::arbitrary::arbitrary_plan;
use crate::plan::{Range, Start};
use crate::random::Random;

/// Chunk `n` is on node `n`, and chunk 0 is lost.
fn survivors(code: Shortened) -> Vec<(ChunkIndex, NodeId)> {
    code.chunks().skip(1).map(|chunk| (chunk, NodeId(chunk.0.into()))).collect()
}

fn facts(code: Shortened, survivors: &[(ChunkIndex, NodeId)]) -> StripeFacts<'_> {
    let (stripe, chunk_bytes) = (StripeId(0), 16 * code.alignment() as u64);
    StripeFacts { stripe, code, chunk_bytes, survivors, source: None }
}

fn code(name: &str) -> Shortened {
    name.parse::<Code>().expect("a code").into()
}

/// Chunk 0 of rs(3,3) is summed on the way to node 9, for half of the chunk by each tree.
fn sums(trees: [&[(u32, u32)]; 2]) -> Plan {
    let bytes = 16 * 64;
    let half = |index: u64| Range { from: index * bytes / 2, to: (index + 1) * bytes / 2 };
    let lane = |(index, edges): (u64, &[(u32, u32)])| Lane {
        range: half(index),
        lost: vec![ChunkIndex(0)],
        mode: Mode::Streamed,
        decoder: None,
        scheme: None,
        edges: edges
            .iter()
            .map(|&(child, parent)| Edge {
                child: NodeId(child),
                parent: NodeId(parent),
                bytes: bytes / 2,
                carries: Carries::Partial,
            })
            .collect(),
    };
    Plan {
        stripe: StripeId(0),
        lost: vec![ChunkIndex(0)],
        destinations: [(ChunkIndex(0), NodeId(9))].into(),
        start: Start::Now,
        range: Range { from: 0, to: bytes },
        period: None,
        lanes: (0..).zip(trees).map(lane).collect(),
    }
}

fn edges(plan: &Plan) -> Vec<Vec<(u32, u32)>> {
    let of_lane = |lane: &Lane| lane.edges.iter().map(|e| (e.child.0, e.parent.0)).collect();
    plan.lanes.iter().map(of_lane).collect()
}

/// The edges without these nodes, where these others may help.
fn around(plan: &Plan, gone: &[u32], helpers: &[u32]) -> Option<Vec<Vec<(u32, u32)>>> {
    let survivors = survivors(code("rs(3,3)"));
    let nodes = |of: &[u32]| of.iter().copied().map(NodeId).collect::<Vec<_>>();
    let (gone, helpers) = (nodes(gone), nodes(helpers));
    let detour = Detour { plan, facts: facts(code("rs(3,3)"), &survivors), helpers: &helpers };
    detour.around(&gone, StandIn::Sends).as_ref().map(edges)
}

fn relieving(plan: &Plan, straggler: u32) -> Option<Vec<Vec<(u32, u32)>>> {
    let survivors = survivors(code("rs(3,3)"));
    let detour = Detour { plan, facts: facts(code("rs(3,3)"), &survivors), helpers: &[] };
    detour.relieving(NodeId(straggler)).as_ref().map(edges)
}

const CHAIN: &[(u32, u32)] = &[(1, 2), (2, 3), (3, 9)];
const STAR: &[(u32, u32)] = &[(3, 9), (4, 9), (5, 9)];

#[test]
fn in_every_lane_the_best_that_it_does_without_takes_the_place_of_who_is_gone() {
    let plan = sums([CHAIN, STAR]);
    let without_2 = [vec![(1, 3), (5, 3), (3, 9)], STAR.to_vec()];
    assert_eq!(around(&plan, &[2], &[5, 4, 1]), Some(without_2.to_vec()), "it only sends");
    let without_3 = [vec![(1, 2), (2, 9), (4, 9)], vec![(2, 9), (4, 9), (5, 9)]];
    assert_eq!(around(&plan, &[3], &[2, 4, 5]), Some(without_3.to_vec()), "in both lanes");
    let without_both = [vec![(5, 3), (4, 3), (3, 9)], vec![(3, 9), (4, 9), (5, 9)]];
    assert_eq!(around(&plan, &[1, 2], &[5, 4]), Some(without_both.to_vec()));
}

#[test]
fn who_takes_over_a_place_receives_what_came_there() {
    let plan = sums([CHAIN, &[(1, 3), (2, 3), (3, 9)]]);
    let survivors = survivors(code("rs(3,3)"));
    let helpers = [5, 4].map(NodeId);
    let detour =
        Detour { plan: &plan, facts: facts(code("rs(3,3)"), &survivors), helpers: &helpers };
    let taken = |gone: &[u32]| {
        let gone: Vec<NodeId> = gone.iter().copied().map(NodeId).collect();
        detour.around(&gone, StandIn::TakesOver).as_ref().map(edges)
    };
    let without_3 = [vec![(1, 2), (2, 5), (5, 9)], vec![(1, 5), (2, 5), (5, 9)]];
    assert_eq!(taken(&[3]), Some(without_3.to_vec()));
    let without_both = [vec![(1, 5), (5, 4), (4, 9)], vec![(1, 4), (5, 4), (4, 9)]];
    assert_eq!(taken(&[2, 3]), Some(without_both.to_vec()), "one receives from another");
}

#[test]
fn nobody_goes_on_without_a_destination_or_enough_helpers_or_for_no_reason() {
    let plan = sums([CHAIN, STAR]);
    assert_eq!(around(&plan, &[9], &[1, 2, 3, 4, 5]), None, "it keeps the chunk");
    assert_eq!(around(&plan, &[1], &[2, 3]), None, "two are left that may be read");
    assert_eq!(around(&plan, &[7], &[1, 2, 3, 4, 5]), None, "it takes no part");
}

#[test]
fn who_only_relays_needs_nobody_in_its_place() {
    let plan = sums([&[(1, 7), (2, 7), (7, 9), (3, 9)], STAR]);
    let without = [vec![(1, 9), (2, 9), (3, 9)], STAR.to_vec()];
    assert_eq!(around(&plan, &[7], &[]), Some(without.to_vec()));
    assert_eq!(relieving(&plan, 7), Some(without.to_vec()));
}

#[test]
fn what_a_straggler_would_have_received_goes_to_the_destination() {
    let plan = sums([CHAIN, STAR]);
    let relieved = [vec![(1, 2), (2, 9), (3, 9)], STAR.to_vec()];
    assert_eq!(relieving(&plan, 3), Some(relieved.to_vec()));
    assert_eq!(relieving(&plan, 1), None, "it receives nothing");
    assert_eq!(relieving(&plan, 9), None, "it keeps the chunk");
}

#[test]
fn a_decoder_that_lags_leaves_decoding_to_a_destination() {
    let survivors = survivors(code("butterfly(4)"));
    let facts = facts(code("butterfly(4)"), &survivors);
    let mut random = Random::new(3);
    let mut relieved = 0;
    for _ in 0..200 {
        let plan = arbitrary_plan(&mut random, &facts, 9);
        let destination = plan.destinations[&ChunkIndex(0)];
        let Some(decoder) = plan.lanes[0].decoder.filter(|node| *node != destination) else {
            continue;
        };
        let detour = Detour { plan: &plan, facts, helpers: &[] };
        let other = detour.relieving(decoder).expect("the destination decodes");
        assert_eq!(other.lanes[0].decoder, Some(destination));
        assert!(other.lanes.iter().flat_map(|lane| &lane.edges).all(|e| e.parent != decoder));
        relieved += 1;
    }
    assert!(relieved > 20, "{relieved}");
}

#[test]
fn plans_of_every_kind_go_on_without_a_helper_and_keep_the_ranges_of_their_lanes() {
    let mut random = Random::new(7);
    for name in ["rs(4,3)", "rs(6,3)", "lrc(4,2,2)", "butterfly(4)", "clay(4,2,5)"] {
        let survivors = survivors(code(name));
        let facts = facts(code(name), &survivors);
        let mut refused = 0;
        for _ in 0..200 {
            let plan = arbitrary_plan(&mut random, &facts, survivors.len() + 4);
            let keeps = |node: &NodeId| plan.destinations.values().any(|to| to == node);
            let others = plan.participants().into_iter().filter(|node| !keeps(node));
            let gone = *random.choose(&others.collect::<Vec<_>>());
            let helpers: Vec<NodeId> = survivors.iter().map(|(_, node)| *node).collect();
            let helpers: Vec<NodeId> = helpers.into_iter().filter(|n| *n != gone).collect();
            let detour = Detour { plan: &plan, facts, helpers: &helpers };
            let stand_in = *random.choose(&[StandIn::Sends, StandIn::TakesOver]);
            let Some(other) = detour.around(&[gone], stand_in) else {
                refused += 1;
                continue;
            };
            assert_eq!(validate(&other, &facts, usize::MAX), Ok(()), "{name}: {other:?}");
            assert!(!other.participants().contains(&gone), "{name}: {other:?}");
            let parts = |plan: &Plan| {
                let parts = plan.lanes.iter().map(|lane| (lane.range, lane.lost.clone()));
                parts.collect::<Vec<_>>()
            };
            assert_eq!(parts(&other), parts(&plan), "{name}");
            assert_eq!((&other.destinations, other.range), (&plan.destinations, plan.range));
        }
        assert_eq!(refused, 0, "{name} takes no more helpers than are left");
    }
}
