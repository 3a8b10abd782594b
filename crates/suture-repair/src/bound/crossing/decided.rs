//! The bound when each chunk is kept in one rack.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`../crossing.rs`). Prices do not
//! see that a chunk is kept whole: spread over several racks it asks less of each link, and of few
//! stripes that is a large part (two of rs(2,2) in four racks may take 4/3 of what prices show).
//! So racks are decided one stripe after the other: of the stripe of which two racks are most
//! nearly equally cheap every rack is tried, and of all batches that are open by then the one with
//! the least bound comes next (branch and bound). The least bound of all open batches holds
//! whenever that ends.

use crate::bound::crossing::lanes::DestinationChoice;
use crate::bound::crossing::priced::Costs;
use crate::bound::crossing::stripe::RackedStripe;
use crate::bound::crossing::tree::Workspace;
use crate::bound::crossing::{COMPARISONS_MAX, CrossingSearch, STEPS_MIN};
use crate::bound::search::{PricedBound, SearchLimits};

/// Stripes whose racks are decided at most: of more, those of each matter little.
pub(super) const STRIPES_MAX: usize = 8;

/// Searches for prices in all.
const SEARCHES_MAX: usize = 32;

/// In each of them such a part of the usual prices is compared.
const COMPARISONS_DIVISOR: usize = 8;

/// Stripes of which some have one rack left, with the best bound and its prices.
struct OpenBatch {
    stripes: Vec<RackedStripe>,
    bound: PricedBound,
}

impl CrossingSearch<'_> {
    /// The bound with racks decided for as many stripes as searches allow; not below what is
    /// `known`.
    pub fn with_decided_racks(&self, known: f64, stripes: &[RackedStripe]) -> f64 {
        if !(2..=STRIPES_MAX).contains(&stripes.len()) {
            return known;
        }
        let steps = self.steps(stripes, COMPARISONS_MAX / COMPARISONS_DIVISOR);
        if steps < STEPS_MIN {
            return known;
        }
        let choices = self.any_destinations();
        let limits = |known: f64| SearchLimits { known, enough: f64::INFINITY, steps };
        let mut open = vec![self.open_batch(stripes.to_vec(), &choices, limits(known))];
        let mut searches = 1;
        loop {
            let by_bound =
                |a: &usize, b: &usize| open[*a].bound.seconds.total_cmp(&open[*b].bound.seconds);
            let least = (0..open.len()).min_by(by_bound).expect("some batch is open");
            let batch = open.swap_remove(least);
            let seconds = batch.bound.seconds;
            let Some(at) = self.most_open(&batch) else { return seconds };
            let racks = batch.stripes[at].targets.len();
            searches += racks;
            if searches > SEARCHES_MAX {
                return seconds;
            }
            for rack in 0..racks {
                let mut stripes = batch.stripes.clone();
                stripes[at] = stripes[at].within(&|target, _| target == rack);
                open.push(self.open_batch(stripes, &choices, limits(seconds)));
            }
        }
    }

    fn open_batch(
        &self,
        stripes: Vec<RackedStripe>,
        choices: &[DestinationChoice],
        limits: SearchLimits,
    ) -> OpenBatch {
        let found = self.priced(&stripes, choices, limits);
        let seconds = found.seconds.max(limits.known);
        let seconds = self.whole_seconds(&stripes, choices, seconds);
        OpenBatch { stripes, bound: PricedBound { seconds, ..found } }
    }

    /// The stripe of which the two cheapest racks cost most nearly the same; none where every
    /// stripe has one rack left.
    fn most_open(&self, batch: &OpenBatch) -> Option<usize> {
        let mut costs = Costs::new(self.ports, &batch.bound.prices, self.relays);
        let mut workspace = Workspace::default();
        let mut difference = |stripe: &RackedStripe| {
            let racks = 0..stripe.targets.len();
            let mut of_racks: Vec<f64> =
                racks.map(|rack| stripe.least_cost(rack, &mut costs, &mut workspace)).collect();
            of_racks.sort_by(f64::total_cmp);
            (of_racks[1] - of_racks[0]) * stripe.bytes
        };
        let open = batch.stripes.iter().enumerate().filter(|(_, s)| s.targets.len() > 1);
        let differences = open.map(|(at, stripe)| (at, difference(stripe)));
        differences.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }
}
