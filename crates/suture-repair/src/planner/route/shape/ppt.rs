//! PPT: the tree whose slowest link is fastest, found by trying them all. Parallel pipeline tree.
//!
//! Place: `[plan]`, a shape of a published planner: a tree that is grown from links. The yardstick
//! of pivot, which finds an equally fast tree at once. Source: Y. Bai, Z. Xu, H. Wang, D. Wang,
//! "Fast Recovery Techniques for Erasure-Coded Clusters in Non-uniform Traffic Network", ICPP'19,
//! as PivotRepair (ICDCS'22), sections II-C and III-B, describes it.
//!
//! Where we had to decide: there, links between pairs of nodes are measured; here a node has one
//! uplink, and its children share its downlink. Then a tree is as fast as the numbers of children
//! let it be, and we try all helper sets with all numbers that add up to k (462 for six helpers)
//! instead of all trees (16,807); the tree itself is then `tunable`'s. That is still exponential:
//! beyond [`TRIALS_MAX`] a stripe is refused. A partial choice that is no better than the best
//! complete one is given up.

use crate::id::NodeId;
use crate::planner::request::Holder;
use crate::planner::route::shape::pivot::Links;
use crate::planner::route::shape::tunable;
use crate::planner::{PlanError, View};

/// The most choices of helpers and their numbers of children that are tried for a stripe: some
/// tenths of a second. rs(10,4) has 26 million and passes; rs(12,4) has 615 million and does not.
pub(in crate::planner) const TRIALS_MAX: u64 = 30_000_000;

/// Whether the search can be afforded.
///
/// # Errors
/// When it cannot.
pub(in crate::planner) fn check(
    candidate_count: usize,
    helper_count: usize,
) -> Result<(), PlanError> {
    let trials = trial_count(candidate_count, helper_count);
    if trials <= TRIALS_MAX {
        return Ok(());
    }
    Err(PlanError::TooManyTrees { candidate_count, helper_count, trials })
}

/// How many choices there are with `helper_count` of `candidate_count`; saturates.
fn trial_count(candidate_count: usize, helper_count: usize) -> u64 {
    // k children for k helpers and the requestor, which has at least one: C(2k - 1, k).
    let (n, k) = (candidate_count as u64, helper_count as u64);
    choose(n, k).saturating_mul(choose(2 * k - 1, k))
}

/// The binomial coefficient n over k; saturates.
fn choose(n: u64, k: u64) -> u64 {
    let mut product = 1u64;
    for i in 0..k.min(n - k) {
        // Divides without a rest: i + 1 factors in a row have been multiplied.
        let Some(next) = product.checked_mul(n - i) else { return u64::MAX };
        product = next / (i + 1);
    }
    product
}

/// The tree for a request: which of the offered help, by place, and the parent of each.
pub(in crate::planner) fn join(
    offered: &[Holder],
    helper_count: usize,
    destination: NodeId,
    view: &View<'_>,
) -> (Vec<Holder>, Vec<usize>) {
    let links = |node: NodeId| Links { up: view.up(node), down: view.down(node) };
    let candidates: Vec<Links> = offered.iter().map(|(_, node)| links(*node)).collect();
    let mut search = TreeSearch::new(&candidates, helper_count);
    for at_requestor in 1..=helper_count {
        let rate = view.down(destination) / at_requestor as f64;
        search.choose(0, helper_count, helper_count - at_requestor, rate);
    }
    let helpers = search.best.iter().map(|&(candidate, _)| offered[candidate]).collect();
    let receives: Vec<u32> = search.best.iter().map(|&(_, child_count)| child_count).collect();
    (helpers, tunable::parents(&receives))
}

/// The choice under trial and the best one so far.
struct TreeSearch<'a> {
    candidates: &'a [Links],
    /// Candidates and how many children each of them has.
    chosen: Vec<(usize, u32)>,
    best: Vec<(usize, u32)>,
    best_rate: f64,
}

impl TreeSearch<'_> {
    fn new(candidates: &[Links], helper_count: usize) -> TreeSearch<'_> {
        let chosen = Vec::with_capacity(helper_count);
        TreeSearch { candidates, chosen, best: Vec::new(), best_rate: 0.0 }
    }

    /// Tries every way to take `helpers` more of the candidates from `from` on and to give them
    /// `children`; what was chosen so far runs at `rate`.
    fn choose(&mut self, from: usize, helpers: usize, children: usize, rate: f64) {
        if rate <= self.best_rate {
            return;
        }
        if helpers == 0 {
            if children == 0 {
                self.best_rate = rate;
                self.best.clone_from(&self.chosen);
            }
            return;
        }
        if self.candidates.len() - from > helpers {
            self.choose(from + 1, helpers, children, rate);
        }
        let Links { up, down } = self.candidates[from];
        for count in 0..=children {
            let share = if count == 0 { up } else { up.min(down / count as f64) };
            if share <= self.best_rate {
                break;
            }
            self.chosen.push((from, count as u32));
            self.choose(from + 1, helpers - 1, children - count, rate.min(share));
            self.chosen.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::route::shape::pivot::best_rate;
    use crate::random::Random;

    #[test]
    fn the_numbers_of_trials_are_those_of_the_file_head() {
        assert_eq!(choose(11, 6), 462);
        assert_eq!(trial_count(10, 8), 289_575);
        assert_eq!(trial_count(13, 10), 26_420_108);
        assert_eq!(trial_count(15, 12), 615_195_490);
        assert_eq!(trial_count(199, 100), u64::MAX);
    }

    #[test]
    fn what_is_found_is_as_fast_as_any_tree_can_be() {
        let mut random = Random::new(8);
        for _ in 0..300 {
            let count = random.between(1, 8) as usize;
            let helper_count = random.between(1, count as u64) as usize;
            let mut rate = || 1.0 + 9.0 * random.unit();
            let candidates: Vec<Links> =
                (0..count).map(|_| Links { up: rate(), down: rate() }).collect();
            let requestor_down = rate();
            let mut search = TreeSearch::new(&candidates, helper_count);
            for at_requestor in 1..=helper_count {
                let rate = requestor_down / at_requestor as f64;
                search.choose(0, helper_count, helper_count - at_requestor, rate);
            }
            assert_eq!(search.best_rate, best_rate(&candidates, requestor_down, helper_count));
            assert_eq!(search.best.len(), helper_count);
        }
    }
}
