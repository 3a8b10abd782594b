//! What stripes take each by itself when every chunk is kept whole, whichever nodes keep them.
//!
//! Place: beside `[plan]`, a part of the bound by the lanes of a stripe (`../lanes.rs`).
//! A search over sets of destinations (branch and bound): some nodes keep a chunk in any case,
//! others may, and prices give a bound for all sets that agree with that. The least bound is
//! divided next, by whether the node to which most chunks go at its prices keeps one; where all
//! nodes are chosen, by which of them keeps which chunk. Nodes of one rack with equal links and
//! disks are the same to a stripe alone, so if one of them keeps none, nor do the others that are
//! left.
//!
//! The bound of the stripe is the least of those that are not divided, so it may end at any time.

use crate::bound::crossing::lanes::{DestinationChoice, LaneStripe};
use crate::bound::crossing::priced::Costs;
use crate::bound::crossing::tree::Workspace;
use crate::bound::search::{Search, SearchLimits};
use crate::planner::ports::Ports;

/// Prices that are compared for all stripes by themselves.
const COMPARISONS_MAX: usize = 2_000_000;

/// The most steps of the search for prices of one set of destinations.
const STEPS_MAX: usize = 60;

/// Steps that are worth beginning a search.
const STEPS_MIN: usize = 12;

/// The most that any stripe takes by itself, in seconds; `known` where that is no more.
pub(in crate::bound::crossing) fn seconds(
    stripes: &[LaneStripe],
    ports: &Ports,
    relays: &[u32],
    known: f64,
) -> f64 {
    let mut seconds = known;
    for stripe in stripes {
        let prices = COMPARISONS_MAX / stripes.len() / stripe.comparisons(ports);
        if prices >= STEPS_MIN {
            let alone = AloneSearch { stripe, ports, relays, known: seconds, prices };
            seconds = seconds.max(alone.seconds());
        }
    }
    seconds
}

/// What a stripe takes by itself if a chunk goes to each of its destinations, in seconds; `known`
/// where that is no more. Prices that are compared for each are at most `comparisons`.
pub(in crate::bound::crossing) fn of_destinations(
    stripe: &LaneStripe,
    ports: &Ports,
    relays: &[u32],
    known: f64,
    comparisons: usize,
) -> Vec<f64> {
    let prices = comparisons / stripe.comparisons(ports);
    if prices < STEPS_MIN {
        return vec![known; stripe.destinations.len()];
    }
    let mut alone = AloneSearch { stripe, ports, relays, known, prices };
    let mut seconds: Vec<f64> = Vec::new();
    for at in 0..stripe.destinations.len() {
        let alike = (0..at).find(|other| alone.are_alike(*other, at));
        alone.prices = prices;
        seconds.push(match alike {
            Some(other) => seconds[other],
            None => {
                let [with_it, _] = alone.divided_by(&stripe.any_destinations(), at);
                alone.bounded(with_it, known, f64::INFINITY).seconds
            }
        });
    }
    seconds
}

/// Sets of destinations that agree, and a bound for all of them.
struct OpenSets {
    seconds: f64,
    choice: DestinationChoice,
    /// How to divide them.
    next: Division,
}

/// What is not decided of sets of destinations.
enum Division {
    /// Whether this open destination, to which most chunks go, keeps one.
    Destination(usize),
    /// Which chunk each of those that are chosen keeps.
    Order,
    Nothing,
}

/// The search for one stripe.
struct AloneSearch<'a> {
    stripe: &'a LaneStripe,
    ports: &'a Ports,
    relays: &'a [u32],
    known: f64,
    /// How often prices may still be tried.
    prices: usize,
}

impl AloneSearch<'_> {
    fn seconds(mut self) -> f64 {
        let mut least = f64::INFINITY;
        let all = self.stripe.any_destinations();
        let mut open = vec![self.bounded(all, 0.0, f64::INFINITY)];
        while self.prices >= STEPS_MIN && least > self.known {
            let by_seconds = |a: &usize, b: &usize| open[*a].seconds.total_cmp(&open[*b].seconds);
            let Some(at) = (0..open.len()).min_by(by_seconds) else { break };
            let sets = open.swap_remove(at);
            if sets.seconds >= least {
                break;
            }
            let divided = self.divided(&sets);
            if divided.is_empty() {
                least = sets.seconds;
            }
            for choice in divided {
                let sets = self.bounded(choice, sets.seconds, least);
                if sets.seconds < least {
                    open.push(sets);
                }
            }
        }
        open.iter().map(|sets| sets.seconds).fold(least, f64::min)
    }

    /// A bound for these, not below that of all sets they are of; `enough` will do.
    fn bounded(&mut self, choice: DestinationChoice, least: f64, enough: f64) -> OpenSets {
        let stripe = self.stripe;
        if !stripe.is_possible(&choice, self.ports) {
            return OpenSets { seconds: f64::INFINITY, choice, next: Division::Nothing };
        }
        let mut workspace = Workspace::default();
        let mut kept = vec![0; stripe.destinations.len()];
        let steps = self.prices.min(STEPS_MAX);
        let limits = SearchLimits { known: self.known, enough, steps };
        let mut tried = 0;
        let search = Search::new(self.ports, limits, |prices, loads| {
            let mut costs = Costs::new(self.ports, prices, self.relays);
            let (cost, destinations) =
                stripe.take_cheapest(&choice, &mut costs, &mut workspace, loads);
            tried += 1;
            destinations.iter().for_each(|at| kept[*at] += 1);
            cost
        });
        let seconds = search.seconds_from_nothing().max(least);
        self.prices = self.prices.saturating_sub(tried);
        let open = choice.open.iter().copied();
        let next = if choice.chosen.len() < stripe.lost {
            open.max_by_key(|at| kept[*at]).map_or(Division::Nothing, Division::Destination)
        } else if stripe.lost > 1 && choice.order.is_empty() {
            Division::Order
        } else {
            Division::Nothing
        };
        OpenSets { seconds, choice, next }
    }

    /// Sets that agree in more, which are all of these together; none where nothing is left to
    /// decide.
    fn divided(&self, sets: &OpenSets) -> Vec<DestinationChoice> {
        let choice = &sets.choice;
        match sets.next {
            Division::Destination(next) => self.divided_by(choice, next).into(),
            Division::Order => orders(self.stripe.lost)
                .into_iter()
                .map(|order| DestinationChoice { order, ..choice.clone() })
                .collect(),
            Division::Nothing => Vec::new(),
        }
    }

    /// The sets of which a node keeps a chunk, and those of which none of its like does.
    fn divided_by(&self, sets: &DestinationChoice, next: usize) -> [DestinationChoice; 2] {
        let with_next = sets.chosen.iter().copied().chain([next]).collect::<Vec<usize>>();
        let is_decided = with_next.len() == self.stripe.lost;
        let others = sets.open.iter().copied().filter(|at| !is_decided && *at != next).collect();
        let unlike = sets.open.iter().copied().filter(|at| !self.are_alike(*at, next)).collect();
        [
            DestinationChoice { chosen: with_next, open: others, order: Vec::new() },
            DestinationChoice { chosen: sets.chosen.clone(), open: unlike, order: Vec::new() },
        ]
    }

    fn are_alike(&self, a: usize, b: usize) -> bool {
        let ports = self.ports;
        let [a, b] = [a, b].map(|at| self.stripe.destinations[at]);
        ports.rack(a) == ports.rack(b) && ports.keeping_rates(a) == ports.keeping_rates(b)
    }
}

/// All orders of so many.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for next in 0..count {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            (0..=order.len()).map(|at| {
                let mut longer = order.clone();
                longer.insert(at, next);
                longer
            })
        });
        orders = longer.collect();
    }
    orders
}
