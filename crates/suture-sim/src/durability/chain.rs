//! The closed Markov chain: failed nodes as a birth-death chain with one way out, data loss.
//!
//! Place: beside [failure detected -> ... -> stripe healthy], as arithmetic.
//! State i: i nodes are failed. Each of the others fails at the rate 1/mttf; the next failure is
//! fatal with the chance that a random set of i + 1 nodes is fatal given that one of i was not;
//! nodes come back, whole, at the rate i/T(i), T being the time to repair i nodes. T(i) = i T(1) is
//! the textbooks' serial repair, T(i) = T(1) their parallel one. For one stripe on exactly its own
//! nodes this is the textbooks' chain of a redundancy group, and exact. On many nodes it lumps sets
//! of failed nodes by their size. That is exact where all sets of a size are alike, and else off by
//! about the square of the chance that a set is fatal: a node that comes back leaves a set that is
//! a little less dangerous than a random one. Invariant: nothing is subtracted from anything near
//! it, so tiny chances keep their digits.

use super::{Model, fatal};

/// Terms of the exponential's series: with one step expected, what is left out is below 1e-23.
const SERIES_TERMS: usize = 24;

/// Beyond so many failures more than the code survives, any further failure counts as fatal: they
/// have happened at most once in a billion losses, unless nodes fail faster than they are repaired.
const EXTRA_STATES: usize = 4;

/// One number of failed nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Failures of nodes a second.
    pub fail_rate: f64,
    /// The part of them that loses data.
    pub fatal_share: f64,
    /// Nodes that come back a second; 0 in state 0.
    pub repair_rate: f64,
}

/// The chain, from no failed node upwards; the last state's failures are all fatal.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    states: Vec<State>,
}

impl Chain {
    /// From its states.
    ///
    /// # Panics
    /// Without states, or when the last one's failures are not all fatal.
    pub fn new(states: Vec<State>) -> Chain {
        assert!(states.last().is_some_and(|last| last.fatal_share == 1.0), "data is lost at last");
        Chain { states }
    }

    /// The chain of a model, with exponential lifetimes and repairs whatever the model's are.
    /// Racks are ignored. `seed` draws the sets by which fatal ones are counted.
    pub fn of(model: &Model, seed: u64) -> Chain {
        let nodes = model.placement.node_count();
        let tolerance = model.placement.code().loss_tolerance();
        let last = (tolerance + EXTRA_STATES).min(nodes - 1);
        let fatal = fatal::shares(&model.placement, tolerance + 1..=last + 1, seed);
        let share = |failed: usize| match failed.checked_sub(tolerance + 1) {
            None => 0.0,
            Some(index) => fatal[index],
        };
        let state = |failed: usize| {
            let (now, next) = (share(failed), share(failed + 1));
            // Sets only grow more dangerous; estimates may disagree in their last digits.
            let fatal_share = if now < 1.0 { ((next - now) / (1.0 - now)).max(0.0) } else { 1.0 };
            State {
                fail_rate: (nodes - failed) as f64 / model.lifetime.mean(),
                fatal_share: if failed == last { 1.0 } else { fatal_share },
                repair_rate: if failed == 0 { 0.0 } else { model.repair_rate(failed) },
            }
        };
        Chain::new((0..=last).map(state).collect())
    }

    /// Mean time to data loss from the state without failures, in seconds.
    ///
    /// Upwards, state by state: how long until the next higher state or the loss, and the chance of
    /// the loss; the way down and up again adds what it takes from below.
    pub fn mttdl(&self) -> f64 {
        let (mut total, mut reached) = (0.0, 1.0);
        let (mut below_seconds, mut below_lost) = (0.0, 0.0);
        for state in &self.states {
            let fatal = state.fail_rate * state.fatal_share;
            let up = state.fail_rate - fatal;
            let leaving = state.fail_rate + state.repair_rate * below_lost;
            let seconds = (1.0 + state.repair_rate * below_seconds) / leaving;
            total += reached * seconds;
            reached *= up / leaving;
            below_lost = (fatal + state.repair_rate * below_lost) / leaving;
            below_seconds = seconds;
        }
        total
    }

    /// The chance of data loss within `seconds`, from the state without failures.
    ///
    /// The matrix exponential by uniformisation over a span in which about one thing happens, and
    /// squaring: all entries stay positive, so every digit counts but for about 1e-16 a squaring,
    /// doubled each time.
    pub fn loss_probability(&self, seconds: f64) -> f64 {
        let size = self.states.len() + 1;
        let rate = self.states.iter().map(|state| state.fail_rate + state.repair_rate);
        let rate = rate.fold(0.0, f64::max);
        let squarings = (rate * seconds).log2().ceil().max(0.0) as i32;
        let steps = rate * seconds / f64::from(squarings).exp2();
        let mut power = poisson_mixture(&self.step(rate), steps);
        (0..squarings).for_each(|_| power = product(&power, &power));
        power[0][size - 1].min(1.0)
    }

    /// One step of the uniformised chain; the last state is the loss.
    fn step(&self, rate: f64) -> Matrix {
        let lost = self.states.len();
        let mut matrix = vec![vec![0.0; lost + 1]; lost + 1];
        matrix[lost][lost] = 1.0;
        for (i, state) in self.states.iter().enumerate() {
            let fatal = state.fail_rate * state.fatal_share;
            matrix[i][lost] += fatal / rate;
            matrix[i][i + 1] += (state.fail_rate - fatal) / rate;
            if i > 0 {
                matrix[i][i - 1] += state.repair_rate / rate;
            }
            matrix[i][i] += 1.0 - (state.fail_rate + state.repair_rate) / rate;
        }
        matrix
    }
}

type Matrix = Vec<Vec<f64>>;

/// The average of the powers of `step`, Poisson with mean `steps`, at most 1.
fn poisson_mixture(step: &Matrix, steps: f64) -> Matrix {
    let size = step.len();
    let mut weight = (-steps).exp();
    let mut power: Matrix = (0..size).map(|i| unit_row(size, i)).collect();
    let mut sum = vec![vec![0.0; size]; size];
    for term in 1..=SERIES_TERMS {
        for (row, add) in sum.iter_mut().zip(&power) {
            row.iter_mut().zip(add).for_each(|(entry, add)| *entry += weight * add);
        }
        power = product(&power, step);
        weight *= steps / term as f64;
    }
    sum
}

fn unit_row(size: usize, at: usize) -> Vec<f64> {
    let mut row = vec![0.0; size];
    row[at] = 1.0;
    row
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let size = a.len();
    let entry = |row: &Vec<f64>, column: usize| (0..size).map(|i| row[i] * b[i][column]).sum();
    a.iter().map(|row| (0..size).map(|column| entry(row, column)).collect()).collect()
}
