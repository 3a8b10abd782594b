//! How fast a batch of repairs could be at best, whatever plans are made: the k-chunk lower bound.
//!
//! Place: beside `[plan]`; printed next to every result, so that a figure says how much is left.
//! Counting argument (theory of balancing, "Lower bound"): for each stripe at least
//! `demand` bytes leave surviving nodes, at most one chunk from each; and everything that leaves
//! somewhere arrives somewhere. For RS the demand is k chunks; for codes with a cheaper repair it
//! is the least that their helpers must send. Losses of one stripe are read once: l of them cost
//! one demand and l - 1 forwards of finished chunks.
//!
//! For any set A of nodes, the nodes outside of A can supply at most a chunk each of a stripe, so
//! the rest of its demand leaves A, at A's combined rate. On equal nodes the best A is all nodes,
//! giving k f / N. On unequal ones the fast nodes run out of chunks before they run out of rate,
//! and A is what remains without them: we try every A that holds the nodes with the least rate per
//! byte of interest, up to some node. That is a valid bound but not always the greatest; the exact
//! one is a maximum flow over all sets.
//!
//! Invariant: never more than what the busiest port of any valid plans of the same jobs needs, as
//! long as these use only nodes that hold a survivor of some job or accept chunks. Foreground
//! traffic is taken off capacities; running repairs, disks and racks are not considered. Traces
//! may go below it: they send parts of symbols.

use suture_code::ChunkIndex;

use crate::id::NodeId;
use crate::planner::{Job, View};

/// The k-chunk lower bound of the jobs that can be repaired, in seconds.
pub fn bound_seconds(jobs: &[Job], view: &View<'_>) -> f64 {
    let demands: Vec<Demand<'_>> = jobs.iter().filter_map(Demand::of).collect();
    let mut fastest: Vec<NodeId> =
        view.cluster.ids().filter(|node| view.accepts[node.index()]).collect();
    fastest.sort_by(|a, b| down(view, *b).total_cmp(&down(view, *a)));
    let alone = demands.iter().map(|demand| {
        demand.helpers_alone_seconds(view).max(demand.destinations_alone_seconds(&fastest, view))
    });
    let alone = alone.fold(0.0, f64::max);
    alone.max(upload_seconds(&demands, view)).max(total_seconds(&demands, view))
}

/// What one job needs at least.
struct Demand<'a> {
    job: &'a Job,
    /// What survivors must send, at most a chunk each.
    helper_bytes: u64,
    /// What must then be sent on, by whomever.
    forward_bytes: u64,
}

impl Demand<'_> {
    fn of(job: &Job) -> Option<Demand<'_>> {
        let helper_bytes = least_bytes(job, &job.lost)?;
        let one_by_one = job.lost.iter().filter_map(|&lost| least_bytes(job, &[lost]));
        let separately: u64 = one_by_one.sum();
        let forward_bytes = (job.lost.len() as u64 - 1) * job.chunk_bytes;
        // Losses in different local groups are rebuilt apart, and then nothing is sent on.
        let is_joint = separately >= helper_bytes + forward_bytes;
        Some(Demand { job, helper_bytes, forward_bytes: if is_joint { forward_bytes } else { 0 } })
    }

    fn bytes(&self) -> f64 {
        (self.helper_bytes + self.forward_bytes) as f64
    }

    /// What must leave the other nodes when `outside` survivors send a whole chunk each.
    fn bytes_without(&self, outside: usize) -> f64 {
        self.helper_bytes.saturating_sub(outside as u64 * self.job.chunk_bytes) as f64
    }

    /// The bound of this job if it had the survivors' uplinks to itself.
    fn helpers_alone_seconds(&self, view: &View<'_>) -> f64 {
        let survivors = self.job.survivors.iter();
        let mut uplinks: Vec<f64> = survivors.map(|(_, node)| up(view, *node)).collect();
        uplinks.sort_by(f64::total_cmp);
        let (mut rate, mut seconds) = (0.0, 0.0f64);
        for (index, uplink) in uplinks.iter().enumerate() {
            rate += uplink;
            seconds = seconds.max(ratio(self.bytes_without(uplinks.len() - index - 1), rate));
        }
        seconds
    }

    /// The time that the slowest of its destinations needs for one chunk, if they are the fastest
    /// that may keep it. `fastest` lists the nodes that accept chunks by falling downlink.
    fn destinations_alone_seconds(&self, fastest: &[NodeId], view: &View<'_>) -> f64 {
        let job = self.job;
        let holds = |node: &NodeId| job.survivors.iter().any(|(_, holder)| holder == node);
        let mut free = fastest.iter().filter(|node| !job.excluded.contains(node) && !holds(node));
        let slowest = free.nth(job.lost.len() - 1);
        slowest.map_or(0.0, |node| ratio(job.chunk_bytes as f64, down(view, *node)))
    }
}

/// The least that survivors send for `lost`, or `None` when they are not enough.
fn least_bytes(job: &Job, lost: &[ChunkIndex]) -> Option<u64> {
    let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
    let helpers = job.code.helpers_for(lost, &available).ok()?;
    let alpha = u64::from(job.code.sub_chunk_count());
    if alpha == 1 {
        return Some(helpers.len() as u64 * job.chunk_bytes);
    }
    // Together they need at least what the most demanding of them needs alone.
    let least = lost.iter().map(|&lost| u64::from(job.code.least_helper_sub_chunks(lost))).max();
    least.map(|sub_chunks| sub_chunks * job.chunk_bytes / alpha)
}

/// The greatest bound over the sets of survivors described in the file head.
fn upload_seconds(demands: &[Demand<'_>], view: &View<'_>) -> f64 {
    let mut jobs_on: Vec<Vec<u32>> = vec![Vec::new(); view.cluster.nodes.len()];
    for (index, demand) in demands.iter().enumerate() {
        for (_, node) in &demand.job.survivors {
            jobs_on[node.index()].push(index as u32);
        }
    }
    let interest = |node: NodeId| -> f64 {
        let jobs = jobs_on[node.index()].iter();
        jobs.map(|&index| demands[index as usize].job.chunk_bytes as f64).sum()
    };
    let mut nodes: Vec<(f64, NodeId)> = view
        .cluster
        .ids()
        .filter(|node| !jobs_on[node.index()].is_empty())
        .map(|node| (up(view, node) / interest(node), node))
        .collect();
    nodes.sort_by(|a, b| a.0.total_cmp(&b.0));

    let mut outside: Vec<usize> = demands.iter().map(|demand| demand.job.survivors.len()).collect();
    let (mut bytes, mut rate, mut seconds) = (0.0, 0.0, 0.0f64);
    for (_, node) in nodes {
        for &index in &jobs_on[node.index()] {
            let (demand, outside) = (&demands[index as usize], &mut outside[index as usize]);
            bytes += demand.bytes_without(*outside - 1) - demand.bytes_without(*outside);
            *outside -= 1;
        }
        rate += up(view, node);
        seconds = seconds.max(ratio(bytes, rate));
    }
    seconds
}

/// Everything that is sent, over all links that can send or receive it; and every rebuilt chunk,
/// over the links of the nodes that may keep it.
fn total_seconds(demands: &[Demand<'_>], view: &View<'_>) -> f64 {
    let mut takes_part: Vec<bool> = view.accepts.to_vec();
    for (_, node) in demands.iter().flat_map(|demand| &demand.job.survivors) {
        takes_part[node.index()] = true;
    }
    let rates = |is_in: &[bool], rate: fn(&View<'_>, NodeId) -> f64| -> f64 {
        view.cluster.ids().filter(|node| is_in[node.index()]).map(|node| rate(view, node)).sum()
    };
    let sent: f64 = demands.iter().map(Demand::bytes).sum();
    let kept = demands.iter().map(|d| d.job.lost.len() as f64 * d.job.chunk_bytes as f64).sum();
    ratio(sent, rates(&takes_part, up))
        .max(ratio(sent, rates(&takes_part, down)))
        .max(ratio(kept, rates(view.accepts, down)))
}

fn up(view: &View<'_>, node: NodeId) -> f64 {
    view.cluster.node(node).uplink_free().0.max(0.0)
}

fn down(view: &View<'_>, node: NodeId) -> f64 {
    view.cluster.node(node).downlink_free().0.max(0.0)
}

/// No bytes need no time, even over no link.
fn ratio(bytes: f64, rate: f64) -> f64 {
    if bytes > 0.0 { bytes / rate } else { 0.0 }
}
