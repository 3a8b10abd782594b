//! The fluid network by its definition, slowly: what `fluid.rs` must agree with.
//!
//! Place: beside [slices flow], in tests.
//! At every event all rates are computed from nothing: raise the rates of all flows together, each
//! in proportion to its share, until some port is full, freeze the flows of the full ports, go on
//! with the rest. Then wait for whatever comes first: an end, an arrival, another capacity.

use super::{Take, Transfer};

/// A flow and when it arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Time of arrival, in seconds.
    pub at: f64,
    /// What is to be moved.
    pub what: Transfer,
    /// The ports that it passes.
    pub takes: Vec<Take>,
}

/// Another capacity for a port.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Time of the change, in seconds.
    pub at: f64,
    /// By its number in the network.
    pub port: u32,
    /// Bytes per second from then on.
    pub capacity: f64,
}

/// The rates, max-min fair by share, of flows with these shares and ports.
pub fn fair_rates(capacities: &[f64], flows: &[(f64, &[Take])]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    while rates.iter().any(Option::is_none) {
        let level_of = |port: usize| {
            let (mut free, mut rising) = (capacities[port], 0.0);
            for ((share, takes), rate) in flows.iter().zip(&rates) {
                for take in takes.iter().filter(|take| take.port as usize == port) {
                    match rate {
                        Some(rate) => free -= take.weight * rate,
                        None => rising += take.weight * share,
                    }
                }
            }
            (rising > 0.0).then(|| free.max(0.0) / rising)
        };
        let levels: Vec<Option<f64>> = (0..capacities.len()).map(level_of).collect();
        let lowest = levels.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let is_full = |port: u32| levels[port as usize].is_some_and(|level| level <= lowest);
        for ((share, takes), rate) in flows.iter().zip(&mut rates) {
            if rate.is_none() && takes.iter().any(|take| is_full(take.port)) {
                *rate = Some(share * lowest);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// When each flow ends; infinite for those that never do. `changes` are ascending in time.
pub fn ends(capacities: &[f64], arrivals: &[Arrival], changes: &[Change]) -> Vec<f64> {
    let mut capacities = capacities.to_vec();
    let mut left: Vec<f64> = arrivals.iter().map(|flow| flow.what.bytes).collect();
    let mut ends = vec![f64::INFINITY; arrivals.len()];
    let mut changes = changes.iter().peekable();
    let mut now = 0.0;
    loop {
        while let Some(change) = changes.next_if(|change| change.at <= now) {
            capacities[change.port as usize] = change.capacity;
        }
        let is_here = |flow: &usize| arrivals[*flow].at <= now && ends[*flow].is_infinite();
        let here: Vec<usize> = (0..arrivals.len()).filter(is_here).collect();
        let flow = |&flow: &usize| (arrivals[flow].what.share, &arrivals[flow].takes[..]);
        let flows: Vec<(f64, &[Take])> = here.iter().map(flow).collect();
        let rates = fair_rates(&capacities, &flows);
        let end = here.iter().zip(&rates).map(|(&flow, rate)| now + left[flow] / rate);
        let arrival = arrivals.iter().map(|flow| flow.at).filter(|&at| at > now);
        let change = changes.peek().map(|change| change.at);
        let next = end.chain(arrival).chain(change).fold(f64::INFINITY, f64::min);
        if next.is_infinite() {
            return ends;
        }
        for (&flow, rate) in here.iter().zip(&rates) {
            if now + left[flow] / rate <= next {
                ends[flow] = next;
            }
            left[flow] = (left[flow] - rate * (next - now)).max(0.0);
        }
        now = next;
    }
}
