//! CAR balance: as few racks as possible help each stripe, and all racks help equally often.
//!
//! Place: `[plan]`, a balance of a published planner: helpers by racks, destinations in the failed
//! one. The shape `rack` makes each helping rack send one chunk to the others, so a stripe costs
//! the core as many chunks as intact racks help it. Source: Z. Shen, P. P. C. Lee, J. Shu, W. Guo,
//! "Cross-Rack-Aware Single Failure Recovery for Clustered File Systems", TDSC: section 4.1
//! (Theorem 1, how many racks), section 4.3 (Algorithm 2, which of them), section 4.4 (Theorem 2,
//! how to place stripes so that racks may be lost).
//!
//! Algorithm 2: begin with the racks that hold most of each stripe. Then, as long as there is one,
//! find a stripe that can do without the rack that sends most, and with one instead that sends at
//! least two fewer.
//!
//! Where we had to decide:
//! * The paper rebuilds on a replacement node in the failed node's rack. A cluster without a spare
//!   spreads the chunks over that rack's nodes that hold nothing of the stripe, least chosen first.
//!   If there are none, or it is not known where the chunk was, the chunk goes to the rack that
//!   holds most of the stripe and stays within the loss tolerance, which then counts as the failed
//!   one.
//! * Chunks beyond k are left out at random, in the rack that is taken last.
//! * Iterations end when no stripe can be changed, which the paper's fifty do for its hundred
//!   stripes; each of them lowers the sum of the squares, so they do end. `car:N` has at most N of
//!   them, the paper's e; `car:0` is Theorem 1 alone.
//! * Where the code chooses its helpers (LRC), racks are preferred by what they hold and then
//!   fixed.
//!
//! `car:random` is the paper's baseline, random recovery: the same destinations, but any k helpers.

use std::cmp::Reverse;

use crate::id::{NodeId, RackId};
use crate::planner::View;
use crate::planner::keep::places;
use crate::planner::request::Holder;
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::shape::rack;
use crate::planner::route::{Choice, Joiner, Route};
use crate::random::Random;

/// How helpers are chosen, of which racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::planner) enum Recovery {
    /// Few racks, equally often.
    Aware {
        /// How many iterations Algorithm 2 has at most; none: as many as change something.
        iterations: Option<u32>,
    },
    /// Any k of the survivors.
    Random,
}

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    recovery: Recovery,
    view: &View<'_>,
    seed: u64,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let mut random = Random::new(seed);
    let mut chooser = RackDestinations::new(view);
    let destinations: Vec<Vec<NodeId>> =
        requests.iter().map(|request| chooser.choose(request, &mut random)).collect();
    let mut offers: Vec<Vec<Holder>> =
        requests.iter().map(|request| request.candidates.to_vec()).collect();
    offers.iter_mut().for_each(|offer| random.shuffle(offer));
    if let Recovery::Aware { iterations } = recovery {
        let solutions = requests.iter().zip(&offers).zip(&destinations);
        let solutions =
            solutions.map(|((request, offer), to)| Solution::new(request, offer, to[0], view));
        let mut solutions: Vec<Solution> = solutions.collect();
        balance(&mut solutions, rack_count(view), iterations);
        for (solution, offer) in solutions.iter().zip(&mut offers) {
            solution.arrange(offer, view);
        }
    }
    let requests = requests.iter().zip(offers).zip(destinations);
    requests
        .map(|((request, offer), to)| joiner.join(request, Choice::Offered(offer), to))
        .collect()
}

/// How many chunks of a stripe to put into each rack, most first, so that any `racks_lost` racks
/// may be lost, in as few racks as that takes: Theorem 2 and its proof. `None` when it cannot be
/// done: with more racks than `parity_chunks` to lose, or with none.
pub fn rack_counts(
    data_chunks: usize,
    parity_chunks: usize,
    racks_lost: usize,
) -> Option<Vec<usize>> {
    if racks_lost == 0 || racks_lost > parity_chunks || data_chunks == 0 {
        return None;
    }
    let most = parity_chunks / racks_lost;
    let rack_count = racks_lost + data_chunks.div_ceil(most);
    let mut counts = vec![most; rack_count];
    counts[0] = parity_chunks - most * (racks_lost - 1);
    counts[rack_count - 1] = data_chunks - most * (rack_count - 1 - racks_lost);
    Some(counts)
}

/// Chooses destinations, in the failed rack where that is known.
struct RackDestinations<'a> {
    view: &'a View<'a>,
    nodes: Vec<Vec<NodeId>>,
    chosen_counts: Vec<u32>,
}

impl RackDestinations<'_> {
    fn new<'a>(view: &'a View<'a>) -> RackDestinations<'a> {
        let mut nodes = vec![Vec::new(); rack_count(view)];
        for node in view.cluster.ids() {
            nodes[rack_of(node, view).0 as usize].push(node);
        }
        RackDestinations { view, nodes, chosen_counts: vec![0; view.cluster.nodes.len()] }
    }

    fn choose(&mut self, request: &RouteRequest<'_>, random: &mut Random) -> Vec<NodeId> {
        let racks = self.racks(request);
        let mut chosen: Vec<NodeId> = Vec::with_capacity(request.lost.len());
        // What racks have places for first, then beyond, then on nodes where attempts have failed.
        for (avoided, is_bounded) in [(false, true), (false, false), (true, false)] {
            for &(rack, places) in &racks {
                let missing = request.lost.len() - chosen.len();
                let most = if is_bounded { missing.min(places) } else { missing };
                if most == 0 {
                    continue;
                }
                let mut nodes = self.nodes[rack].clone();
                nodes.retain(|&node| {
                    request.job.may_be_kept_by(node, self.view)
                        && request.job.avoid.contains(&node) == avoided
                        && !chosen.contains(&node)
                });
                random.shuffle(&mut nodes);
                let count = |node: &NodeId| self.chosen_counts[node.index()];
                match most {
                    // Of equals the first, as by sorting.
                    1 => chosen.extend(nodes.into_iter().min_by_key(count)),
                    _ => {
                        nodes.sort_by_key(count);
                        chosen.extend(nodes.into_iter().take(most));
                    }
                }
            }
        }
        chosen.iter().for_each(|node| self.chosen_counts[node.index()] += 1);
        chosen
    }

    /// Racks in the order in which they may take the chunks, each with how many more chunks of the
    /// stripe it may keep and be lost.
    fn racks(&self, request: &RouteRequest<'_>) -> Vec<(usize, usize)> {
        let job = request.job;
        let rack = |node: NodeId| rack_of(node, self.view).0 as usize;
        let mut held = vec![0usize; self.nodes.len()];
        let mut failed = vec![false; self.nodes.len()];
        let holders = job.survivors.iter().map(|(_, node)| node).chain(&job.idle);
        holders.for_each(|node| held[rack(*node)] += 1);
        let is_survivor = |node: &NodeId| job.survivors.iter().any(|(_, holder)| holder == node);
        let is_there = |node: &NodeId| is_survivor(node) || job.idle.contains(node);
        let failed_nodes = job.excluded.iter().filter(|node| !is_there(node));
        failed_nodes.for_each(|node| failed[rack(*node)] = true);
        let places = places(job, request.lost.len(), self.view);
        let places = |rack: usize| places.get(rack).copied().unwrap_or(usize::MAX);
        let mut racks: Vec<usize> = (0..self.nodes.len()).collect();
        racks.sort_by_key(|&rack| (!failed[rack], places(rack) == 0, Reverse(held[rack])));
        racks.into_iter().map(|rack| (rack, places(rack))).collect()
    }
}

/// Which racks help a stripe.
#[derive(Debug)]
struct Solution {
    /// Chunks that have to come from other racks than the destination's.
    needed: usize,
    /// Intact racks and how many chunks of the stripe they offer.
    counts: Vec<(RackId, usize)>,
    /// Those of them that help.
    chosen: Vec<RackId>,
    /// Where the code lets us choose: whether others may.
    is_free: bool,
}

impl Solution {
    /// The racks with the most chunks, as few as it takes.
    fn new(
        request: &RouteRequest<'_>,
        offer: &[Holder],
        destination: NodeId,
        view: &View<'_>,
    ) -> Solution {
        let destination_rack = rack_of(destination, view);
        let ranked = rack::by_rack(offer, Some(destination_rack), view);
        let is_free = request.takes_any() && !matches!(request.topology, Topology::Gather);
        let offered = if is_free { ranked } else { request.choose_helpers(ranked) };
        let helper_count = if is_free { request.usual_count } else { offered.len() };
        let mut counts: Vec<(RackId, usize)> = Vec::new();
        let mut at_destination = 0;
        for (_, node) in offered {
            let rack = rack_of(node, view);
            match counts.iter_mut().find(|(known, _)| *known == rack) {
                _ if rack == destination_rack => at_destination += 1,
                Some((_, count)) => *count += 1,
                None => counts.push((rack, 1)),
            }
        }
        let needed = helper_count.saturating_sub(at_destination);
        let mut sum = 0;
        let first = counts.iter().take_while(|(_, count)| {
            let is_short = sum < needed;
            sum += count;
            is_short
        });
        let chosen = first.map(|(rack, _)| *rack).collect();
        Solution { needed, counts, chosen, is_free }
    }

    /// Lets `enter` help instead of `leave`, if that gives a solution.
    fn substitute(&mut self, leave: RackId, enter: RackId) -> bool {
        let offers = |rack: RackId| {
            self.counts.iter().find(|(known, _)| *known == rack).map_or(0, |(_, count)| *count)
        };
        if !self.is_free || self.chosen.contains(&enter) || offers(enter) == 0 {
            return false;
        }
        let chosen: usize = self.chosen.iter().map(|&rack| offers(rack)).sum();
        if chosen - offers(leave) + offers(enter) < self.needed {
            return false;
        }
        let place = self.chosen.iter().position(|&rack| rack == leave);
        self.chosen[place.expect("it helps so far")] = enter;
        true
    }

    /// Keeps the helpers that are in the destination's rack and in racks that help.
    fn arrange(&self, offer: &mut Vec<Holder>, view: &View<'_>) {
        if self.is_free {
            let intact = |rack: RackId| self.counts.iter().any(|(known, _)| *known == rack);
            let helps = |rack: RackId| !intact(rack) || self.chosen.contains(&rack);
            offer.retain(|(_, node)| helps(rack_of(*node, view)));
        }
    }
}

/// Algorithm 2 of the paper, with so many iterations, or as many as change something.
fn balance(solutions: &mut [Solution], rack_count: usize, iterations: Option<u32>) {
    let mut sent = vec![0usize; rack_count];
    let mut helping: Vec<Vec<usize>> = vec![Vec::new(); rack_count];
    for (index, solution) in solutions.iter().enumerate() {
        for rack in &solution.chosen {
            sent[rack.0 as usize] += 1;
            helping[rack.0 as usize].push(index);
        }
    }
    let mut made = 0;
    while iterations.is_none_or(|most| made < most)
        && substitute_once(solutions, &mut sent, &mut helping)
    {
        made += 1;
    }
}

/// One iteration: moves one stripe away from the rack that sends most, to the rack that sends least
/// and can take it over.
fn substitute_once(
    solutions: &mut [Solution],
    sent: &mut [usize],
    helping: &mut [Vec<usize>],
) -> bool {
    let Some(most) = (0..sent.len()).max_by_key(|&rack| (sent[rack], Reverse(rack))) else {
        return false;
    };
    let mut others: Vec<usize> =
        (0..sent.len()).filter(|&rack| sent[rack] + 2 <= sent[most]).collect();
    others.sort_by_key(|&rack| sent[rack]);
    let rack = |index: usize| RackId(index as u32);
    for other in others {
        let stripes = helping[most].iter();
        let found = stripes
            .clone()
            .position(|&stripe| solutions[stripe].substitute(rack(most), rack(other)));
        if let Some(place) = found {
            let stripe = helping[most].swap_remove(place);
            helping[other].push(stripe);
            sent[most] -= 1;
            sent[other] += 1;
            return true;
        }
    }
    false
}

/// The rack of a node; nodes without a name for theirs make up one more. None of these takes part,
/// or planning was refused, but a failed node may have been among them.
fn rack_of(node: NodeId, view: &View<'_>) -> RackId {
    view.cluster.node(node).rack.unwrap_or(RackId(view.cluster.racks.len() as u32))
}

/// How many racks there are, with that of nodes without one.
fn rack_count(view: &View<'_>) -> usize {
    view.cluster.racks.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_placed_as_in_the_papers_example() {
        assert_eq!(rack_counts(7, 5, 2), Some(vec![3, 2, 2, 2, 2, 1]));
        assert_eq!(rack_counts(6, 3, 1), Some(vec![3, 3, 3]));
        assert_eq!(rack_counts(10, 4, 4), Some(vec![1; 14]));
        assert_eq!(rack_counts(6, 3, 4), None);
    }

    #[test]
    fn any_racks_that_may_be_lost_hold_no_more_than_the_parity() {
        for data in 1..20 {
            for parity in 1..8 {
                for lost in 1..=parity {
                    let counts = rack_counts(data, parity, lost).unwrap();
                    assert_eq!(counts.iter().sum::<usize>(), data + parity);
                    assert!(counts.is_sorted_by(|a, b| a >= b) && !counts.contains(&0));
                    assert!(counts[..lost].iter().sum::<usize>() <= parity);
                }
            }
        }
    }

    #[test]
    fn a_stripe_can_do_with_either_of_two_racks_as_in_the_papers_figure() {
        // rs(8,6) over racks A1..A5 with 3 (after the failure), 1, 3, 2 and 4 chunks: two intact
        // racks are enough; A5 and A3, or A3 and A4, but not A2 and A5.
        let rack = RackId;
        let counts = vec![(rack(4), 4), (rack(2), 3), (rack(3), 2), (rack(1), 1)];
        let mut solution =
            Solution { needed: 5, counts, chosen: vec![rack(4), rack(2)], is_free: true };
        assert!(!solution.substitute(rack(2), rack(4)));
        assert!(solution.substitute(rack(4), rack(3)));
        assert_eq!(solution.chosen, [rack(3), rack(2)]);
        assert!(!solution.substitute(rack(2), rack(1)));
    }
}
