//! Pivot: the tree whose slowest link is fastest. PivotRepair.
//!
//! Place: `[plan]`, a shape of a published planner: a tree that is grown from links. When some
//! nodes are congested and others are not, the latter become pivots: they relay for the congested,
//! which only send. A node with c children gives each of them a c-th of its downlink, so a tree
//! runs at the least of up(i) over its helpers and down(i)/c(i) over its relays and the requestor.
//! Source: PivotRepair (ICDCS'22), section IV-B, Algorithm 1:
//!
//! 1. The k survivors with the largest min(up, down) are inserted in that order, each as a child of
//!    the node that offers most to one more child.
//! 2. Leaves give way to survivors that were not inserted and have larger uplinks: of a leaf's
//!    links only the uplink matters.
//!
//! Where we had to decide: the text ranks parents by their rate with the children that they *have*,
//! while its proof of optimality uses the rate *after* one more is attached. Only the latter is
//! optimal; the former puts too many children under the requestor, which looks free as long as it
//! has one. The requestor's uplink plays no part; which node it is, the balance decides
//! (`balance/requestor.rs`). Links are those that are free now; a batch is
//! planned as if each stripe were alone, which is what the paper's adaptive schedule then corrects.
//!
//! Cost: O(n log n). A workspace keeps its buffers, so that a tree takes no allocation.
//! Oracle: [`best_rate`], which knows no trees and only decides whether a rate can be reached.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::NodeId;
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::request::RouteRequest;

/// What is free of a node's links, in any unit of rate; neither negative nor NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Links {
    /// What it can send.
    pub up: f64,
    /// What it can receive.
    pub down: f64,
}

/// Buffers for growing trees, one after the other.
#[derive(Debug, Default)]
pub struct Pivot {
    ranked: Vec<Ranked>,
    offers: BinaryHeap<ChildRate>,
    child_counts: Vec<u32>,
    leaves: Vec<Ranked>,
    uplinks: Vec<u64>,
    helpers: Vec<u32>,
    parents: Vec<u32>,
}

/// A tree over k of the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree<'a> {
    /// The candidate in each place.
    pub helpers: &'a [u32],
    /// The place of each helper's parent, which is lower than its own; `helpers.len()` is the
    /// requestor.
    pub parents: &'a [u32],
}

/// Something with a rate: the fastest first, of equals the one with the lowest index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    slowness: u64,
    index: u32,
}

/// What a node with children has for one more; 0 is the requestor and p + 1 the helper in place p.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChildRate {
    rate: u64,
    node: Reverse<u32>,
}

/// Rates as integers in the same order: they compare faster, and never refuse to.
fn ordered(rate: f64) -> u64 {
    debug_assert!(rate >= 0.0, "a rate is a number and not negative");
    // Zero may come with a sign.
    (rate + 0.0).to_bits()
}

impl Pivot {
    /// The best tree of `helper_count` of the `candidates` into a requestor that can receive
    /// `requestor_down`.
    ///
    /// # Panics
    /// When there are fewer candidates than helpers, or no helpers.
    pub fn grow(
        &mut self,
        candidates: &[Links],
        requestor_down: f64,
        helper_count: usize,
    ) -> Tree<'_> {
        assert!((1..=candidates.len()).contains(&helper_count), "k of the candidates help");
        self.rank(candidates);
        self.insert(candidates, requestor_down, helper_count);
        if helper_count < candidates.len() {
            self.replace(candidates);
        }
        Tree { helpers: &self.helpers, parents: &self.parents }
    }

    /// Candidates by falling min(up, down).
    fn rank(&mut self, candidates: &[Links]) {
        self.ranked.clear();
        self.ranked.extend(
            candidates.iter().zip(0..).map(|(links, index)| Ranked {
                slowness: !ordered(links.up.min(links.down)),
                index,
            }),
        );
        self.ranked.sort_unstable();
    }

    /// Step 1. A node without children offers its min(up, down), and these were inserted in falling
    /// order: the best of them is always the first, so only nodes with children need a heap.
    fn insert(&mut self, candidates: &[Links], requestor_down: f64, helper_count: usize) {
        self.helpers.clear();
        self.helpers.extend(self.ranked[..helper_count].iter().map(|ranked| ranked.index));
        self.parents.clear();
        self.child_counts.clear();
        self.child_counts.resize(helper_count, 0);
        self.offers.clear();
        self.offers.push(ChildRate { rate: ordered(requestor_down), node: Reverse(0) });
        let mut requestor_children = 0;
        let mut childless = 0;
        for place in 0..helper_count {
            let links = |place: usize| candidates[self.helpers[place] as usize];
            let mut best = self.offers.peek_mut().expect("the requestor always offers something");
            if childless < place && !self.ranked[childless].slowness > best.rate {
                drop(best);
                let rate = links(childless).up.min(links(childless).down / 2.0);
                self.offers
                    .push(ChildRate { rate: ordered(rate), node: Reverse(childless as u32 + 1) });
                self.child_counts[childless] = 1;
                self.parents.push(childless as u32);
                childless += 1;
            } else if best.node.0 == 0 {
                requestor_children += 1;
                best.rate = ordered(requestor_down / f64::from(requestor_children + 1));
                self.parents.push(helper_count as u32);
            } else {
                let parent = best.node.0 as usize - 1;
                self.child_counts[parent] += 1;
                let share = links(parent).down / f64::from(self.child_counts[parent] + 1);
                best.rate = ordered(links(parent).up.min(share));
                self.parents.push(parent as u32);
            }
        }
    }

    /// Step 2. Leaves whose uplinks are not among the largest of leaves and others together give
    /// way to others whose are. Which of these takes whose place changes no rate.
    fn replace(&mut self, candidates: &[Links]) {
        let slowness = |candidate: u32| !ordered(candidates[candidate as usize].up);
        let others = &self.ranked[self.helpers.len()..];
        self.leaves.clear();
        for (place, &child_count) in (0..).zip(&self.child_counts) {
            if child_count == 0 {
                let slowness = slowness(self.helpers[place as usize]);
                self.leaves.push(Ranked { slowness, index: place });
            }
        }
        self.uplinks.clear();
        self.uplinks.extend(self.leaves.iter().map(|leaf| leaf.slowness));
        self.uplinks.extend(others.iter().map(|other| slowness(other.index)));
        let (_, &mut limit, _) = self.uplinks.select_nth_unstable(self.leaves.len() - 1);
        let weak = self.leaves.iter().filter(|leaf| leaf.slowness > limit);
        let strong = others.iter().filter(|other| slowness(other.index) <= limit);
        for (leaf, newcomer) in weak.zip(strong) {
            self.helpers[leaf.index as usize] = newcomer.index;
        }
    }

    /// The tree for a request: which of the offered help, by place, and the parent of each.
    pub(in crate::planner) fn join(
        &mut self,
        offered: &[Holder],
        helper_count: usize,
        destination: NodeId,
        view: &View<'_>,
    ) -> (Vec<Holder>, Vec<usize>) {
        let links = |node: NodeId| Links { up: view.up(node), down: view.down(node) };
        let candidates: Vec<Links> = offered.iter().map(|(_, node)| links(*node)).collect();
        let tree = self.grow(&candidates, view.down(destination), helper_count);
        let helpers = tree.helpers.iter().map(|&candidate| offered[candidate as usize]);
        (helpers.collect(), tree.parents.iter().map(|&parent| parent as usize).collect())
    }
}

/// The helpers that may be chosen from: all, or for a code that chooses its helpers itself those
/// that it takes when the fastest come first.
pub(in crate::planner) fn narrow(
    request: &RouteRequest<'_>,
    mut offered: Vec<Holder>,
    view: &View<'_>,
) -> Vec<Holder> {
    if request.takes_any() {
        return offered;
    }
    let rate = |(_, node): &Holder| view.up(*node).min(view.down(*node));
    offered.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    request.choose_helpers(offered)
}

impl Tree<'_> {
    /// The rate of its slowest link.
    pub fn rate(&self, candidates: &[Links], requestor_down: f64) -> f64 {
        let mut child_counts = vec![0u32; self.helpers.len() + 1];
        self.parents.iter().for_each(|&parent| child_counts[parent as usize] += 1);
        let at_requestor = requestor_down / f64::from(child_counts[self.helpers.len()]);
        let places = self.helpers.iter().zip(child_counts);
        let at_helpers = places.map(|(&helper, child_count)| {
            let links = &candidates[helper as usize];
            if child_count == 0 {
                links.up
            } else {
                links.up.min(links.down / f64::from(child_count))
            }
        });
        at_helpers.fold(at_requestor, f64::min)
    }
}

/// The rate of the best tree, by trying: at rate t a node takes as many children as t fits into its
/// downlink, and any k nodes that can send at t and take k children together with the requestor,
/// which takes at least one, are a tree. Only an up(i) or a c-th of a downlink can be the answer.
pub fn best_rate(candidates: &[Links], requestor_down: f64, helper_count: usize) -> f64 {
    let shares = |down: f64| (1..=helper_count).map(move |count| down / count as f64);
    let children_max =
        |down: f64, rate: f64| shares(down).take_while(|&share| share >= rate).count();
    let is_feasible = |rate: f64| {
        let senders = candidates.iter().filter(|links| links.up >= rate);
        let mut most: Vec<usize> = senders.map(|links| children_max(links.down, rate)).collect();
        most.sort_unstable_by_key(|&most| Reverse(most));
        let enough = most.len() >= helper_count && requestor_down >= rate;
        enough
            && children_max(requestor_down, rate) + most[..helper_count].iter().sum::<usize>()
                >= helper_count
    };
    let downs = candidates.iter().map(|links| links.down).chain([requestor_down]);
    let rates = candidates.iter().map(|links| links.up).chain(downs.flat_map(shares));
    rates.filter(|&rate| is_feasible(rate)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn check(candidates: &[Links], requestor_down: f64, helper_count: usize) {
        let mut pivot = Pivot::default();
        let tree = pivot.grow(candidates, requestor_down, helper_count);
        let mut helpers = tree.helpers.to_vec();
        helpers.sort_unstable();
        helpers.dedup();
        assert_eq!((helpers.len(), tree.parents.len()), (helper_count, helper_count));
        let requestor = helper_count as u32;
        let mut places = (0..).zip(tree.parents);
        assert!(places.all(|(place, &parent)| parent < place || parent == requestor));
        let rate = tree.rate(candidates, requestor_down);
        let best = best_rate(candidates, requestor_down, helper_count);
        assert_eq!(rate, best, "{helper_count} of {candidates:?} into {requestor_down}");
    }

    /// Equal, continuous, few values, or a few congested links.
    fn arbitrary_rate(random: &mut Random, kind: u64) -> f64 {
        match kind {
            0 => 1.0,
            1 => 1.0 + 9.0 * random.unit(),
            2 => random.between(1, 4) as f64,
            _ if random.per_mille(300) => 1.0 + random.unit(),
            _ => 20.0,
        }
    }

    #[test]
    fn no_tree_is_faster() {
        let mut random = Random::new(1);
        for case in 0..20_000 {
            let count = random.between(1, if case % 100 == 0 { 40 } else { 14 });
            let helper_count = random.between(1, count) as usize;
            let (ups, downs) = (random.below(4), random.below(4));
            let mut links = || Links {
                up: arbitrary_rate(&mut random, ups),
                down: arbitrary_rate(&mut random, downs),
            };
            let candidates: Vec<Links> = (0..count).map(|_| links()).collect();
            let requestor_down = links().down;
            check(&candidates, requestor_down, helper_count);
        }
    }

    #[test]
    fn equal_links_give_a_chain() {
        let candidates = [Links { up: 1.0, down: 1.0 }; 6];
        assert_eq!(Pivot::default().grow(&candidates, 1.0, 4).parents, [4, 0, 1, 2]);
    }

    #[test]
    fn counting_the_children_that_there_are_would_have_lost_here() {
        // Both helpers under the requestor run at 5, one behind the other at 8.
        let candidates = [Links { up: 9.0, down: 9.0 }, Links { up: 8.0, down: 8.0 }];
        let mut pivot = Pivot::default();
        assert_eq!(pivot.grow(&candidates, 10.0, 2).rate(&candidates, 10.0), 8.0);
    }
}
