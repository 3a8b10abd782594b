//! The lower bound of what a policy itself can do, where it can do less than any k-chunk plan must,
//! or more.
//!
//! Place: beside `[plan]`, printed next to the k-chunk bound. That one says how far a result is
//! from the best plans of whole chunks; this one how far the planner is from the best of its own
//! kind:
//! * stars bring all of a stripe to one downlink, in lumps that cannot be shared out;
//! * CAR keeps destinations in the failed rack, so all that crosses ends at its downlink;
//! * flow, and a mix where no code has traces, is held to the k-chunk bound, and to that by prices
//!   (`bound/price.rs`) where chunks may be rebuilt around their helpers;
//! * traces, alone or mixed with whole chunks, go below the k-chunk bound, to that by prices, but
//!   not below what the downlinks of those need that keep the rebuilt chunks.
//!
//! All others pay for something that no sum says, and have none.
//! Invariant: never more than what the busiest port of the policy's own plans needs.

use crate::bound::price::{self, PricedKinds};
use crate::bound::{BatchDemands, CHUNK_UNITS, Demand, ratio, with_batch};
use crate::id::{NodeId, RackId};
use crate::max_flow::{Supply, seconds_in_grains};
use crate::need::{Part, is_mds};
use crate::plan::load::Load;
use crate::planner::{Job, View};
use crate::policy::{Balance, Policy, Shape};

/// The lower bound of the policy's own traffic, in seconds, where there is one. `load` is that of
/// its plans, or any: a better one only makes the bound by prices better. `k_chunk_seconds` is the
/// k-chunk bound of the same jobs ([`bound_seconds`](super::bound_seconds)).
pub fn own_bound_seconds(
    policy: Policy,
    jobs: &[Job],
    view: &View<'_>,
    load: &Load,
    k_chunk_seconds: f64,
) -> Option<f64> {
    let is_any_k = jobs.iter().all(|job| is_mds(job.code) && job.code.sub_chunk_count() == 1);
    let has_traces = jobs.iter().any(|job| !job.code.schemes().is_empty());
    match (policy.shape, policy.balance) {
        (Shape::Rack | Shape::Star, Balance::Car(_) | Balance::CarRandom) => {
            let crossing = with_batch(jobs, view, car_seconds);
            Some(k_chunk_seconds.max(crossing?))
        }
        (Shape::Star, _) => Some(k_chunk_seconds.max(with_batch(jobs, view, star_seconds))),
        (Shape::Split, _) if is_any_k => Some(k_chunk_seconds),
        (Shape::Split | Shape::Mix | Shape::Trace, Balance::Flow) if !has_traces => {
            let priced = || price::seconds(jobs, view, load, PricedKinds::Chunks);
            let priced = if is_any_k { None } else { priced() };
            Some(k_chunk_seconds.max(priced.unwrap_or(0.0)))
        }
        (Shape::Split | Shape::Mix | Shape::Trace, Balance::Flow) => {
            let kinds = match policy.shape {
                Shape::Split => PricedKinds::Chunks,
                Shape::Trace => PricedKinds::TracesFirst,
                _ => PricedKinds::All,
            };
            let priced = price::seconds(jobs, view, load, kinds)?;
            let received =
                |batch: BatchDemands<'_>| batch.destination_seconds().max(kept_seconds(batch));
            Some(priced.max(with_batch(jobs, view, received)))
        }
        _ => None,
    }
}

/// A rebuilt chunk comes to one downlink, in as many bytes as it has.
fn kept_seconds(batch: BatchDemands<'_>) -> f64 {
    lump_seconds(batch, |demand| demand.job.chunk_bytes as f64)
}

/// One node decodes, and receives everything that the helpers send.
fn star_seconds(batch: BatchDemands<'_>) -> f64 {
    lump_seconds(batch, |demand| {
        let sent: u64 = demand.parts().map(Part::sent).sum();
        demand.bytes(sent)
    })
}

/// What downlinks need where each repair brings so many bytes to one of them.
fn lump_seconds(batch: BatchDemands<'_>, lump: impl Fn(&Demand<'_>) -> f64) -> f64 {
    let BatchDemands { demands, view, ports, .. } = batch;
    let down = |NodeId(node): NodeId| ports.rate(ports.down(node));
    let fastest = batch.fastest(down);
    let alone = |demand: &Demand<'_>| {
        let node = fastest.iter().find(|node| demand.may_keep(**node, view));
        node.map_or(0.0, |node| ratio(lump(demand), down(*node)))
    };
    let alone = demands.iter().map(alone).fold(0.0, f64::max);
    let Some(first) = demands.first().map(&lump) else { return 0.0 };
    if demands.iter().any(|demand| lump(demand) != first) {
        return alone;
    }
    // A grain is what one repair brings.
    let grain = CHUNK_UNITS as u32;
    let supply = |node: &NodeId| Supply::of_rate(down(*node) / first * f64::from(grain));
    let supplies: Vec<Supply> = fastest.iter().map(supply).collect();
    alone.max(seconds_in_grains(&supplies, demands.len() as u64 * CHUNK_UNITS, grain))
}

/// Theorem 1's racks send one chunk each to the rack that keeps the lost one: the failed one, if it
/// has nodes left that may keep all. `None` where that is not so, or racks have no links.
fn car_seconds(BatchDemands { demands, view, ports, .. }: BatchDemands<'_>) -> Option<f64> {
    if !ports.have_racks() {
        return None;
    }
    let mut arriving = vec![0.0; view.cluster.racks.len()];
    for demand in demands {
        let lost_rack = failed_rack(demand, view)?;
        let chunks = racks_needed(demand, lost_rack, view);
        arriving[lost_rack.0 as usize] += chunks as f64 * demand.job.chunk_bytes as f64;
    }
    let links = arriving.into_iter().zip((0..).map_while(|rack| ports.rack_down(rack)));
    Some(links.map(|(bytes, down)| ratio(bytes, ports.rate(down))).fold(0.0, f64::max))
}

/// The rack of the only lost chunk, if it is sure that one of its nodes keeps it.
fn failed_rack(demand: &Demand<'_>, view: &View<'_>) -> Option<RackId> {
    let job = demand.job;
    if job.lost.len() > 1 || job.code.sub_chunk_count() > 1 || !job.avoid.is_empty() {
        return None;
    }
    let holds = |node: &NodeId| {
        job.survivors.iter().any(|(_, holder)| holder == node) || job.idle.contains(node)
    };
    let failed = job.excluded.iter().find(|node| !holds(node))?;
    let rack = view.cluster.node(*failed).rack?;
    let nodes = || view.cluster.ids().filter(|node| view.cluster.node(*node).rack == Some(rack));
    let is_limited = |node: NodeId| (1..u64::MAX).contains(&view.free_bytes[node.index()]);
    let found = nodes().any(|node| demand.may_keep(node, view)) && !nodes().any(is_limited);
    found.then_some(rack)
}

/// How many racks beside `lost_rack` have to help: Theorem 1, the largest first.
fn racks_needed(demand: &Demand<'_>, lost_rack: RackId, view: &View<'_>) -> usize {
    let mut held = vec![0usize; view.cluster.racks.len()];
    let helpers: usize = demand.parts().map(|part| part.forced.len() + part.count).sum();
    for (_, node) in &demand.job.survivors {
        if let Some(rack) = view.cluster.node(*node).rack {
            held[rack.0 as usize] += 1;
        }
    }
    let mut missing = helpers.saturating_sub(std::mem::take(&mut held[lost_rack.0 as usize]));
    held.sort_unstable_by(|a, b| b.cmp(a));
    let mut needed = 0;
    while missing > 0 && held.get(needed).is_some_and(|chunks| *chunks > 0) {
        missing = missing.saturating_sub(held[needed]);
        needed += 1;
    }
    needed
}
