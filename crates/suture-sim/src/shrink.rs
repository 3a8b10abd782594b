//! Makes a failing trial smaller while it still breaks the same rule.
//!
//! Place: beside the whole life of a repair, after `swarm.rs` has found a failing seed.
//! Greedy: whatever can be left out is left out, largest parts first, until nothing more can be or
//! the runs are used up. Leaving something out moves every later draw from the seed, so that faults
//! hit others; each candidate is therefore tried under a few seeds.

use suture_code::Code;
use suture_repair::policy::Policy;
use suture_repair::time::{Span, Time};

use crate::fault::NetworkFaults;
use crate::swarm::{self, Verdict};
use crate::trial::Trial;
use crate::violation::Violation;

/// Runs that shrinking may take; each is a fraction of a second.
const RUNS_MAX: usize = 600;

/// Seeds under which a candidate is tried: its own, and some that follow it.
const SEEDS: u64 = 4;

/// Codes with few chunks, the smallest first.
const SMALL_CODES: [&str; 3] = ["rs(2,1)", "rs(2,2)", "rs(3,2)"];

/// The plainest way to repair.
const PLAIN_POLICY: &str = "star/lru/all";

/// Slice memory in which everything fits.
const AMPLE_POOL: u64 = 4 << 20;

/// What was left of a trial.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// It still breaks the rule.
    pub trial: Trial,
    /// The rule that it breaks.
    pub broken: Violation,
    /// How many runs it took.
    pub runs: usize,
}

/// The smallest trial found that breaks the same rule as `trial`, which broke `broken`.
pub fn shrink(trial: Trial, broken: Violation) -> Shrunk {
    let mut smallest = Shrunk { trial, broken, runs: 0 };
    while smallest.pass() && smallest.runs < RUNS_MAX {}
    smallest
}

impl Shrunk {
    /// Tries to leave out a bit of everything; whether anything could be.
    fn pass(&mut self) -> bool {
        let mut is_smaller = self.without_faults();
        for simpler in SIMPLER {
            // Again and again: half of the stripes may go, and then half of the rest.
            while self.runs < RUNS_MAX && self.try_all(simpler(&self.trial)) {
                is_smaller = true;
            }
        }
        is_smaller
    }

    /// Leaves out runs of faults: all, halves, quarters, at last single ones.
    fn without_faults(&mut self) -> bool {
        let mut is_smaller = false;
        let mut step = self.trial.faults.len();
        while step > 0 {
            let mut at = 0;
            while at < self.trial.faults.len() && self.runs < RUNS_MAX {
                let mut fewer = self.trial.clone();
                fewer.faults.drain(at..(at + step).min(fewer.faults.len()));
                if self.try_one(&fewer) { is_smaller = true } else { at += step }
            }
            step /= 2;
        }
        is_smaller
    }

    fn try_all(&mut self, candidates: Vec<Trial>) -> bool {
        candidates.iter().any(|candidate| self.try_one(candidate))
    }

    /// Takes the candidate if it breaks the same rule under one of a few seeds.
    fn try_one(&mut self, candidate: &Trial) -> bool {
        for more in 0..SEEDS {
            let mut trial = candidate.clone();
            trial.options.seed = trial.options.seed.wrapping_add(more);
            self.runs += 1;
            let Verdict { violation, .. } = swarm::run_trial(&trial, swarm::Watch::Rules);
            if let Some(broken) = violation.filter(|broken| broken.is_same_rule(&self.broken)) {
                (self.trial, self.broken) = (trial, broken);
                return true;
            }
        }
        false
    }
}

/// Each gives trials that are simpler in one respect, the simplest first.
const SIMPLER: [fn(&Trial) -> Vec<Trial>; 7] =
    [smaller_code, fewer_nodes, fewer_stripes, calmer, plainer, shorter, shorter_faults];

fn with(trial: &Trial, change: impl FnOnce(&mut Trial)) -> Trial {
    let mut changed = trial.clone();
    change(&mut changed);
    changed
}

fn smaller_code(trial: &Trial) -> Vec<Trial> {
    let (now, spare) = (trial.options.code, trial.options.nodes - trial.options.code.chunk_count());
    let codes = SMALL_CODES.iter().map(|name| name.parse::<Code>().expect("a known code"));
    let smaller = codes.filter(|code| code.chunk_count() < now.chunk_count());
    let change = |code: Code| {
        with(trial, |s| (s.options.code, s.options.nodes) = (code, code.chunk_count() + spare))
    };
    smaller.map(change).collect()
}

fn fewer_nodes(trial: &Trial) -> Vec<Trial> {
    let (least, now) = (trial.options.code.chunk_count(), trial.options.nodes);
    let counts = [least, now - 1].into_iter().filter(|count| (least..now).contains(count));
    counts.map(|count| with(trial, |s| s.options.nodes = count)).collect()
}

fn fewer_stripes(trial: &Trial) -> Vec<Trial> {
    let now = trial.stripes;
    let counts = [1, now / 2, now.saturating_sub(1)];
    let fewer = counts.into_iter().filter(|count| (1..now).contains(count));
    fewer.map(|count| with(trial, |s| s.stripes = count)).collect()
}

fn calmer(trial: &Trial) -> Vec<Trial> {
    let now = trial.network_faults;
    let calmer = [
        NetworkFaults::NONE,
        NetworkFaults { drop: 0, ..now },
        NetworkFaults { duplicate: 0, ..now },
        NetworkFaults { delay: 0, delay_max: Span::ZERO, ..now },
    ];
    let calmer = calmer.into_iter().filter(|network_faults| *network_faults != now);
    calmer.map(|network_faults| with(trial, |s| s.network_faults = network_faults)).collect()
}

fn plainer(trial: &Trial) -> Vec<Trial> {
    let policy: Policy = PLAIN_POLICY.parse().expect("a known policy");
    let options = &trial.options;
    let mut plainer = Vec::new();
    if options.policy != policy {
        plainer.push(with(trial, |s| s.options.policy = policy));
    }
    if options.pool_bytes != AMPLE_POOL {
        plainer.push(with(trial, |s| s.options.pool_bytes = AMPLE_POOL));
    }
    if options.racks > 0 {
        plainer.push(with(trial, |s| s.options.racks = 0));
    }
    if options.losses {
        plainer.push(with(trial, |s| s.options.losses = false));
    }
    plainer
}

/// All faults end soon after the last fault.
fn shorter(trial: &Trial) -> Vec<Trial> {
    let last = trial.faults.last().map_or(Time::ZERO, |(at, _)| *at);
    let ends = last.since(Time::ZERO).ns + Span::from_millis(100).ns;
    let shorter = |ns: u64| with(trial, |s| s.lasts = Span { ns });
    [ends].into_iter().filter(|ns| *ns < trial.lasts.ns).map(shorter).collect()
}

/// Faults follow each other sooner.
fn shorter_faults(trial: &Trial) -> Vec<Trial> {
    let first = trial.faults.first().map_or(0, |(at, _)| at.ns);
    let least = Span::from_millis(500).ns;
    if first <= least {
        return Vec::new();
    }
    let sooner = |s: &mut Trial| {
        s.faults.iter_mut().for_each(|(at, _)| at.ns -= first - least);
        s.lasts.ns -= first - least;
    };
    vec![with(trial, sooner)]
}
