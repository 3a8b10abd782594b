//! The bound when each chunk is kept by one node.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`../crossing.rs`). If no port
//! takes longer than some time, no chunk goes where its stripe takes longer by itself: without such
//! destinations prices say more. Times at which another destination is left out are tried.

use crate::bound::crossing::lanes::{DestinationChoice, alone};
use crate::bound::crossing::stripe::{RackedStripe, Target};
use crate::bound::crossing::{COMPARISONS_MAX, CrossingSearch};
use crate::bound::search::SearchLimits;

/// Prices that are compared for all chunks by themselves, at all of their destinations.
const ALONE_COMPARISONS_MAX: usize = 400_000;

/// With stripes by lanes only such a part of all prices is compared for each time that is tried.
const LANE_DIVISOR: usize = 4;

/// What stripes take each by itself, in seconds.
#[derive(Clone, Copy)]
struct AloneSeconds<'a> {
    stripes: &'a [RackedStripe],
    /// Of each of these, at each node of each target.
    alone: &'a [Vec<Vec<f64>>],
    /// Of each stripe by lanes, at each of its destinations.
    kept: &'a [Vec<f64>],
}

impl CrossingSearch<'_> {
    /// What each stripe takes by itself at each node of each target; `known` where that is no more.
    fn alone(&self, stripes: &[RackedStripe], known: f64, pairs: usize) -> Vec<Vec<Vec<f64>>> {
        let at = |stripe: &RackedStripe, target: &Target, node: u32| {
            let is_it = |at: usize, place: usize| {
                let Target { rack, nodes, .. } = &stripe.targets[at];
                *rack == target.rack && nodes[place] == node
            };
            let only = [stripe.within(&is_it)];
            let alone = CrossingSearch { several: &[], lanes: &[], ..*self };
            let steps = alone.steps(&only, ALONE_COMPARISONS_MAX / pairs);
            alone.seconds(&only, &[], SearchLimits { known, enough: f64::INFINITY, steps })
        };
        let ports = self.ports;
        let nodes = |stripe: &RackedStripe, target: &Target| {
            // Nodes that are equally fast are equally good.
            let mut tried: Vec<([f64; 7], f64)> = Vec::new();
            let seconds = target.nodes.iter().map(|&node| {
                let rates = ports.keeping_rates(node);
                if let Some((_, seconds)) = tried.iter().find(|(known, _)| *known == rates) {
                    return *seconds;
                }
                tried.push((rates, at(stripe, target, node)));
                tried[tried.len() - 1].1
            });
            seconds.collect()
        };
        let all = stripes.iter().map(|stripe| {
            stripe.targets.iter().map(|target| nodes(stripe, target)).collect::<Vec<Vec<f64>>>()
        });
        all.collect()
    }

    /// The bound without destinations at which a stripe by itself takes longer.
    pub fn with_whole_chunks(&self, known: f64, stripes: &[RackedStripe]) -> f64 {
        let targets = stripes.iter().map(RackedStripe::target_count).sum::<usize>();
        let pairs =
            targets + self.any_destinations().iter().map(|any| any.open.len()).sum::<usize>();
        if pairs == 0 {
            return known;
        }
        let comparisons = ALONE_COMPARISONS_MAX / pairs;
        let alone = CrossingSearch { several: &[], lanes: &[], ..*self };
        if stripes
            .first()
            .is_some_and(|first| alone.steps(std::slice::from_ref(first), comparisons) == 0)
        {
            return known;
        }
        let alone = self.alone(stripes, known, pairs);
        let least =
            |stripe: &Vec<Vec<f64>>| stripe.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let known = alone.iter().map(least).fold(known, f64::max);
        let kept = self.lanes.iter();
        let kept = kept.map(|stripe| {
            alone::of_destinations(stripe, self.ports, self.relays, known, comparisons)
        });
        let kept: Vec<Vec<f64>> = kept.collect();
        let all = alone.iter().flatten().chain(&kept).flatten();
        let mut levels: Vec<f64> =
            all.copied().filter(|level| *level > known && level.is_finite()).collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let all = AloneSeconds { stripes, alone: &alone, kept: &kept };
        let (mut low, mut high) = (known, levels.len());
        let mut first = 0;
        while first < high {
            let middle = (first + high) / 2;
            let seconds = self.within(all, levels[middle], low);
            if seconds >= levels[middle] {
                low = levels[middle];
                first = middle + 1;
            } else {
                low = low.max(seconds);
                high = middle;
            }
        }
        low
    }

    /// A bound if no destination is one at which a stripe takes as long as the level, or longer;
    /// no batch that ends below the level needs less.
    fn within(&self, all: AloneSeconds<'_>, level: f64, known: f64) -> f64 {
        let AloneSeconds { stripes, alone, kept } = all;
        let stripes = stripes
            .iter()
            .zip(alone)
            .map(|(stripe, alone)| stripe.within(&|target, node| alone[target][node] < level));
        let stripes: Vec<RackedStripe> = stripes.collect();
        let choices = kept.iter().map(|kept| {
            DestinationChoice::any_of((0..kept.len()).filter(|at| kept[*at] < level).collect())
        });
        let choices: Vec<DestinationChoice> = choices.collect();
        let mut laned = self.lanes.iter().zip(&choices);
        if laned.any(|(stripe, choice)| !stripe.is_possible(choice, self.ports)) {
            return level;
        }
        let divisor = if self.lanes.is_empty() { 1 } else { LANE_DIVISOR };
        let steps = self.steps(&stripes, COMPARISONS_MAX / divisor);
        let limits = SearchLimits { known, enough: level, steps };
        let seconds = self.seconds(&stripes, &choices, limits);
        self.whole_seconds(&stripes, &choices, seconds)
    }
}
