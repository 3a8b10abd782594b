//! What must cross between racks, however well each rack adds up what it sends.
//!
//! Place: beside `[plan]`, a part of the lower bound. The destination's rack helps for free; each
//! other rack that is needed sends at least one sum for each lost chunk, or as many chunks as it
//! reads, if these are fewer. So a stripe crosses least when its largest racks help, and the
//! destination is in the largest of those that have a node to keep it. Codes with sub-chunks have
//! no sums to form on the way: all that is sent outside of the decoder's rack crosses, and so does
//! what is rebuilt there, if no node of that rack may keep it.
//!
//! Source: CAR (DSN'16), Theorem 1, for one loss and a fixed destination.

use crate::bound::{BatchDemands, Demand, ratio};
use crate::id::{NodeId, RackId};
use crate::need::Part;
use crate::planner::View;

/// The least that crosses, over all rack links; nothing where these are not modelled.
pub(super) fn seconds(BatchDemands { demands, view, ports, .. }: BatchDemands<'_>) -> f64 {
    if !ports.have_racks() {
        return 0.0;
    }
    let links = (0..).map_while(|rack| Some((ports.rack_up(rack)?, ports.rack_down(rack)?)));
    let rate = links.map(|(up, down)| ports.rate(up).min(ports.rate(down))).sum();
    let rack_count = view.cluster.racks.len();
    let mut accepting = vec![0usize; rack_count];
    for node in view.cluster.ids().filter(|node| view.accepts(*node)) {
        match view.cluster.node(node).rack {
            Some(RackId(rack)) => accepting[rack as usize] += 1,
            // What a node without a rack receives crosses no rack's link.
            None => return 0.0,
        }
    }
    let crossing =
        demands.iter().map(|demand| least_crossing_bytes(demand, view, &accepting)).sum();
    ratio(crossing, rate)
}

/// The least that crosses for one job, over all racks that may keep its chunks.
fn least_crossing_bytes(demand: &Demand<'_>, view: &View<'_>, accepting: &[usize]) -> f64 {
    let crossing = |part: &Part| demand.bytes(least_crossing(demand, part, view, accepting));
    let parts = demand.needs.parts();
    parts.map(|(part, around)| around.map_or(f64::INFINITY, crossing).min(crossing(part))).sum()
}

/// The same of one part, in sub-chunks.
fn least_crossing(demand: &Demand<'_>, part: &Part, view: &View<'_>, accepting: &[usize]) -> u64 {
    let rack_of = |chunk| view.cluster.node(demand.holder(chunk)).rack;
    let candidates = part.forced.iter().map(|sender| sender.chunk).chain(part.free.iter().copied());
    let mut racks: Vec<(usize, RackId)> = Vec::new();
    // Helpers in the same rack, or without a rack's link.
    let mut near = 0;
    for rack in candidates.map(rack_of) {
        let Some(rack) = rack else {
            near += 1;
            continue;
        };
        match racks.iter_mut().find(|(_, known)| *known == rack) {
            Some((chunks, _)) => *chunks += 1,
            None => racks.push((1, rack)),
        }
    }
    racks.sort_by_key(|(chunks, _)| std::cmp::Reverse(*chunks));
    let own = racks.iter().position(|(_, rack)| may_keep(demand, *rack, view, accepting));
    let alpha = u64::from(demand.job.code.sub_chunk_count());
    if alpha > 1 {
        let forced = part.forced.iter().map(|sender| sender.sent);
        let most = u64::from(forced.chain([part.free_sent]).max().unwrap_or(0));
        let gathered = |at: Option<usize>| {
            let beside = near + at.map_or(0, |at| racks[at].0);
            part.sent().saturating_sub(beside as u64 * most)
        };
        let finished = part.lost.len() as u64 * alpha;
        return gathered(own).min(gathered((!racks.is_empty()).then_some(0)) + finished);
    }
    near += own.map_or(0, |at| racks.remove(at).0);

    let mut missing = (part.forced.len() + part.count).saturating_sub(near);
    let mut crossing = 0;
    for (chunks, _) in racks {
        let helping = chunks.min(missing);
        crossing += helping.min(part.lost.len());
        missing -= helping;
    }
    crossing as u64
}

/// Whether the rack has a node that may keep a chunk of the job.
fn may_keep(demand: &Demand<'_>, rack: RackId, view: &View<'_>, accepting: &[usize]) -> bool {
    let job = demand.job;
    let mut blocked: Vec<_> = job.survivors.iter().map(|(_, node)| *node).collect();
    blocked.extend(&job.excluded);
    blocked.sort_unstable();
    blocked.dedup();
    let counts =
        |node: &&NodeId| view.accepts(**node) && view.cluster.node(**node).rack == Some(rack);
    blocked.iter().filter(counts).count() < accepting[rack.0 as usize]
}
