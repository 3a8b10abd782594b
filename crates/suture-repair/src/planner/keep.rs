//! Which nodes may keep a rebuilt chunk: the one rule of all planners.
//!
//! Place: `[plan]`, inside of every choice of destinations. A node must have space for the chunk
//! and none of the stripe's others. Besides, as far as enough nodes allow it, no attempt
//! should have failed by it, and no rack should end with more chunks of the stripe than the code
//! can lose, or losing that rack loses the stripe. Where racks have places for some of a stripe's
//! chunks only, these are kept there, and the others in as few racks as can be. No rack ends with
//! more than the keeper of the stripes takes there.
//!
//! Space here is that for a single chunk; a whole batch is held to it by `free_space.rs`.

use std::cmp::Reverse;

use crate::cluster::Cluster;
use crate::id::{NodeId, RackId};
use crate::planner::free_space::ROUNDS_MAX;
use crate::planner::{Job, View};

impl Job {
    /// Whether `node` may become a destination of the job's chunks at all.
    pub(crate) fn may_be_kept_by(&self, node: NodeId, view: &View<'_>) -> bool {
        view.has_space(node, self.chunk_bytes)
            && !self.excluded.contains(&node)
            && view.cluster.rack_of(node).is_none_or(|rack| self.keeper_places_in(rack) > 0)
            && !self.survivors.iter().any(|(_, holder)| *holder == node)
    }
}

/// Whether a rack that holds so many chunks of a stripe may take the stripe with it: the code can
/// lose fewer, whichever they are.
fn is_fatal(held: usize, tolerance: usize) -> bool {
    held > tolerance
}

/// Racks that have more of these nodes, which hold the chunks of a stripe, than chunks may be lost:
/// no rule makes such racks while other nodes have places. The fullest comes first.
pub(crate) fn crowded_racks(
    cluster: &Cluster,
    holders: impl Iterator<Item = NodeId>,
    tolerance: usize,
) -> Vec<RackId> {
    let held = (0..).map(RackId).zip(cluster.count_by_rack(holders));
    let mut crowded: Vec<(RackId, usize)> =
        held.filter(|(_, held)| is_fatal(*held, tolerance)).collect();
    crowded.sort_by_key(|(rack, held)| (Reverse(*held), *rack));
    crowded.into_iter().map(|(rack, _)| rack).collect()
}

/// Racks of which no rule lets a node keep a chunk of the job: they hold as many as may be lost,
/// and there are other nodes, however its batch, which takes so many bytes, fills these.
pub(crate) fn full_racks(job: &Job, view: &View<'_>, batch_bytes: u64) -> Vec<RackId> {
    let places = Places::new(job, job.lost.len(), view);
    let mut held: Vec<RackId> = places.with_less_than(1).collect();
    if !held.is_empty() && !places.are_enough(job, view, batch_bytes) {
        held.clear();
    }
    held
}

/// How many chunks of a job each rack may keep, by any rule, however its batch, which takes so many
/// bytes, fills nodes; nothing where no rule says so.
pub(crate) fn rack_places(job: &Job, view: &View<'_>, batch_bytes: u64) -> Vec<usize> {
    let places = Places::new(job, job.lost.len(), view);
    if places.are_enough(job, view, batch_bytes) { places.left } else { Vec::new() }
}

/// How many of so many chunks each rack may keep; racks that are no choice have none.
pub(super) fn places(job: &Job, wanted: usize, view: &View<'_>) -> Vec<usize> {
    Places::new(job, wanted, view).left
}

/// Whether some node has space for a part only of a batch that takes so many bytes: then it may be
/// planned in rounds.
pub(super) fn is_scarce(view: &View<'_>, batch_bytes: u64) -> bool {
    view.free_bytes.iter().any(|free| (1..batch_bytes).contains(free))
}

/// Which nodes should keep the chunks of a job.
#[derive(Debug, Default)]
pub(super) struct DestinationRule {
    trusted: bool,
    /// Racks in which there is no place for all of them.
    full: Vec<RackId>,
    /// So many of each rack as there is place for; `None` when racks say it all.
    among: Option<Vec<NodeId>>,
    /// How many chunks each rack has places for, where these are enough for several at once.
    left: Option<Vec<usize>>,
}

impl DestinationRule {
    /// The strictest rule that `wanted` nodes pass.
    pub fn new(job: &Job, wanted: usize, view: &View<'_>) -> DestinationRule {
        let places = Places::new(job, wanted, view);
        let full: Vec<RackId> = places.with_less_than(wanted).collect();
        if full.is_empty() && job.avoid.is_empty() {
            return DestinationRule::default();
        }
        let shared = (wanted > 1 && !full.is_empty()).then(|| places.shared(job, view));
        let shared = shared.filter(|nodes| nodes.len() >= wanted);
        let left = shared.is_some().then(|| places.left.clone());
        let trusted = DestinationRule { trusted: true, left, ..DestinationRule::default() };
        let strict = DestinationRule { full: full.clone(), ..trusted };
        if strict.passed_by(wanted, job, view) {
            return strict;
        }
        if shared.is_some() {
            return DestinationRule { full: Vec::new(), among: shared, ..strict };
        }
        let lenient = [
            DestinationRule { full: Vec::new(), ..strict },
            DestinationRule { full, ..DestinationRule::default() },
        ];
        let mut rules = lenient.into_iter();
        rules.find(|rule| rule.passed_by(wanted, job, view)).unwrap_or_default()
    }

    fn passed_by(&self, wanted: usize, job: &Job, view: &View<'_>) -> bool {
        let nodes = view.cluster.ids().filter(|node| self.allows(*node, job, view));
        nodes.take(wanted).count() == wanted
    }

    /// Whether it allows `node` beside nodes that keep other lost chunks of the stripe: what it
    /// allows one by one leaves out some that may keep chunks together.
    pub fn allows_beside(
        &self,
        node: NodeId,
        others: impl Iterator<Item = NodeId>,
        job: &Job,
        view: &View<'_>,
    ) -> bool {
        let Some(left) = &self.left else { return self.allows(node, job, view) };
        let rack_of = |node: NodeId| view.cluster.node(node).rack;
        let has_place = |rack: RackId| {
            others.filter(|other| rack_of(*other) == Some(rack)).count() < left[rack.0 as usize]
        };
        job.may_be_kept_by(node, view)
            && !job.avoid.contains(&node)
            && rack_of(node).is_none_or(has_place)
    }

    /// Whether it allows `node`, whichever nodes keep the others.
    pub fn allows(&self, node: NodeId, job: &Job, view: &View<'_>) -> bool {
        let has_place = || {
            let rack = view.cluster.node(node).rack;
            rack.is_none_or(|rack| !self.full.contains(&rack))
                && self.among.as_ref().is_none_or(|among| among.contains(&node))
        };
        job.may_be_kept_by(node, view)
            && !(self.trusted && job.avoid.contains(&node))
            && (self.full.is_empty() && self.among.is_none() || has_place())
    }
}

/// How many more chunks of a stripe each rack may keep, so that the stripe survives its loss, and
/// the keeper of the stripes takes them. Where these are places for some of the chunks only, as few
/// racks as can be may keep the others too: first those of which the loss is fatal already, then
/// those with most nodes.
struct Places {
    /// Of each rack; empty where racks are no choice.
    left: Vec<usize>,
    /// The places of a rack that holds none.
    tolerance: usize,
}

impl Places {
    fn new(job: &Job, wanted: usize, view: &View<'_>) -> Places {
        let tolerance = job.code.loss_tolerance();
        let cluster = view.cluster;
        // A single rack is no choice.
        if cluster.racks.len() < 2 {
            return Places { left: Vec::new(), tolerance };
        }
        let holders = job.survivors.iter().map(|(_, node)| node).chain(&job.idle);
        let held = cluster.count_by_rack(holders.copied());
        let left = (0..).zip(&held).map(|(rack, held)| {
            tolerance.saturating_sub(*held).min(job.keeper_places_in(RackId(rack)))
        });
        let left = left.collect();
        let mut places = Places { left, tolerance };
        if wanted > 1 {
            places.raise(job, wanted, &held, view);
        }
        places
    }

    /// Makes places for so many chunks, if there are too few, and nodes for all: where there are
    /// some, or the keeper of the stripes takes only so many in each rack; never more than these.
    fn raise(&mut self, job: &Job, wanted: usize, held: &[usize], view: &View<'_>) {
        let (mut free, mut have) = (vec![0; held.len()], 0);
        for node in trusted(job, view) {
            match view.cluster.node(node).rack {
                Some(rack) => free[rack.0 as usize] += 1,
                None => have += 1,
            }
        }
        for (rack, free) in (0..).zip(&mut free) {
            *free = job.keeper_places_in(RackId(rack)).min(*free);
        }
        let unused = |left: &[usize], rack: usize| free[rack] - left[rack].min(free[rack]);
        have += (0..held.len()).map(|rack| self.left[rack].min(free[rack])).sum::<usize>();
        let more: usize = (0..held.len()).map(|rack| unused(&self.left, rack)).sum();
        let is_no_choice = have == 0 && job.keeper_places.is_empty();
        if is_no_choice || have >= wanted || have + more < wanted {
            return;
        }
        // Of equals another one for each stripe.
        let turn = |rack: usize| (rack + job.stripe.0 as usize) % held.len();
        let mut racks: Vec<usize> = (0..held.len()).collect();
        let outlives = |rack: usize| !is_fatal(held[rack], self.tolerance);
        racks.sort_by_key(|&rack| (outlives(rack), Reverse(free[rack]), turn(rack)));
        for rack in racks {
            let more = unused(&self.left, rack).min(wanted - have);
            if more > 0 {
                self.left[rack] += more;
                have += more;
            }
        }
    }

    /// Whether there are nodes in these places for all lost chunks in every round of planning a
    /// batch that takes so many bytes.
    fn are_enough(&self, job: &Job, view: &View<'_>, batch_bytes: u64) -> bool {
        if is_scarce(view, batch_bytes) {
            // What is enough without places that were made for want of others made none.
            let own = Places::new(job, 1, view);
            own.nodes_never_full(job, view, batch_bytes) >= job.lost.len()
        } else {
            self.shared(job, view).len() >= job.lost.len()
        }
    }

    /// Trusted nodes in these places that are left at least, whatever a batch that takes so many
    /// bytes puts on others. A round takes nodes from a job that it fills: no more in all than the
    /// batch, once in each round.
    fn nodes_never_full(&self, job: &Job, view: &View<'_>, batch_bytes: u64) -> usize {
        let free = |node: NodeId| view.free_bytes[node.index()];
        let mut nodes: Vec<(Option<RackId>, u64)> =
            trusted(job, view).map(|node| (view.cluster.node(node).rack, free(node))).collect();
        nodes.sort_unstable();
        let filling = batch_bytes.saturating_mul(ROUNDS_MAX as u64);
        let of_rack = |same: &[(Option<RackId>, u64)]| {
            let fills = same.iter().scan(0u64, |bytes, (_, free)| {
                *bytes = bytes.saturating_add(free - job.chunk_bytes);
                Some(*bytes)
            });
            let filled = fills.take_while(|bytes| *bytes < filling).count();
            (same.len() - filled).min(self.left_in(same[0].0, same.len()))
        };
        nodes.chunk_by(|a, b| a.0 == b.0).map(of_rack).sum()
    }

    /// How many chunks so many nodes of a rack may keep, or so many nodes without a rack.
    fn left_in(&self, rack: Option<RackId>, nodes: usize) -> usize {
        rack.map_or(nodes, |rack| self.left.get(rack.0 as usize).copied().unwrap_or(self.tolerance))
    }

    /// Racks that have places for fewer than so many more.
    fn with_less_than(&self, wanted: usize) -> impl Iterator<Item = RackId> {
        let left = (0..).map(RackId).zip(&self.left);
        left.filter(move |(_, left)| **left < wanted).map(|(rack, _)| rack)
    }

    /// Trusted nodes, of each rack no more than it has places: any of them together will do. Which
    /// of a rack's nodes these are goes round with the stripes.
    fn shared(&self, job: &Job, view: &View<'_>) -> Vec<NodeId> {
        let mut nodes: Vec<(Option<RackId>, NodeId)> =
            trusted(job, view).map(|node| (view.cluster.node(node).rack, node)).collect();
        nodes.sort_unstable();
        let mut shared = Vec::new();
        for same in nodes.chunk_by(|a, b| a.0 == b.0) {
            let left = self.left_in(same[0].0, same.len());
            let first = job.stripe.0 as usize % same.len();
            let round = same[first..].iter().chain(&same[..first]);
            shared.extend(round.take(left).map(|(_, node)| *node));
        }
        shared
    }
}

/// Nodes that may keep a chunk of the job and by which no attempt has failed.
fn trusted(job: &Job, view: &View<'_>) -> impl Iterator<Item = NodeId> {
    let nodes = view.cluster.ids();
    nodes.filter(|node| job.may_be_kept_by(*node, view) && !job.avoid.contains(node))
}

#[cfg(test)]
mod tests {
    use suture_code::{ChunkIndex, Code};

    use super::*;
    use crate::cluster::Rate;
    use crate::id::StripeId;
    use crate::plan::load::Load;
    use crate::planner::Abilities;

    const CHUNK: u64 = 100;

    /// The racks that keep nothing of a stripe of rs(2,1) with a chunk in each of two of three
    /// racks, where nodes have so many bytes free, of a batch of four chunks.
    fn full(free_bytes: [u64; 9]) -> Vec<RackId> {
        let mut cluster = Cluster::uniform(9, Rate(1.0));
        cluster.racks = (0..3).map(|rack| format!("r{rack}")).collect();
        let nodes = cluster.nodes.iter_mut().zip(0u32..);
        nodes.for_each(|(node, at)| node.rack = Some(RackId(at % 3)));
        let code: Code = "rs(2,1)".parse().unwrap();
        let job = Job {
            stripe: StripeId(0),
            code: code.into(),
            chunk_bytes: CHUNK,
            lost: vec![ChunkIndex(0)],
            survivors: vec![(ChunkIndex(1), NodeId(0)), (ChunkIndex(2), NodeId(1))],
            idle: Vec::new(),
            excluded: Vec::new(),
            keeper_places: Vec::new(),
            avoid: Vec::new(),
            source: None,
        };
        let load = Load::new(&cluster);
        let abilities = Abilities::ALL;
        let view = View { cluster: &cluster, free_bytes: &free_bytes, load: &load, abilities };
        full_racks(&job, &view, 4 * CHUNK)
    }

    #[test]
    fn racks_stay_full_as_long_as_a_batch_cannot_fill_the_others() {
        let both = vec![RackId(0), RackId(1)];
        assert_eq!(full([u64::MAX; 9]), both);
        assert_eq!(full([4 * CHUNK; 9]), both, "no node has space for a part only");
        assert_eq!(full([3 * CHUNK; 9]), [], "the third rack may be filled");
        let mut one_is_small = [u64::MAX; 9];
        (one_is_small[2], one_is_small[5]) = (CHUNK, 3 * CHUNK);
        assert_eq!(full(one_is_small), both, "node 8 is never full");
        one_is_small[8] = 3 * CHUNK;
        assert_eq!(full(one_is_small), []);
        // Four chunks in each of twelve rounds fill less than that.
        one_is_small[8] = 60 * CHUNK;
        assert_eq!(full(one_is_small), both);
    }
}
