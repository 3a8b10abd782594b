//! What a scenario expects of its figures: ratios, so that they hold on any machine whose processor
//! is not the limit.
//!
//! Place: behind the testbed's repairs, before the report.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::format_size;
use suture_repair::policy::Policy;

use super::applications::Applications;
use super::figures::Medians;

/// The policies that are ours; all others are those of papers.
const OURS: [&str; 2] = ["suture", "flow"];

/// As it is written: the seconds of a policy are at most so many times those of something else.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectToml {
    policy: String,
    against: String,
    times: f64,
}

/// What the seconds of a policy are held against.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Against {
    /// The k-chunk bound at goodput.
    Bound,
    /// The fastest of the papers' policies in the same campaign.
    Papers,
    /// What another policy takes.
    Policy(Policy),
    /// What applications wait for 99 of 100 requests without a repair; what they wait beside one is
    /// held against it.
    Alone,
    /// The k-chunk bound on what applications leave of links.
    Left,
    /// So many bytes that an agent may have: the most memory of one is held against it.
    Memory(u64),
}

/// What is expected of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    policy: Policy,
    against: Against,
    times: f64,
}

/// What became of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// What was expected, in words.
    pub expected: String,
    /// What was measured, as many times; none where something of it was not.
    pub times: Option<f64>,
    /// Whether it is no more than was expected.
    pub holds: bool,
}

fn is_of_a_paper(policy: &Policy) -> bool {
    !OURS.contains(&&*policy.to_string())
}

impl ExpectToml {
    /// The expectation, if its policies are among those that are measured, and its load is there.
    ///
    /// # Errors
    /// Bad input when they are not.
    pub(super) fn read(
        &self,
        policies: &[Policy],
        load: Option<&Applications>,
        agent_memory: u64,
    ) -> Result<Expectation> {
        let find = |name: &str| {
            let wanted: Policy = name.parse().map_err(|why| bad_input(format!("expect: {why}")))?;
            policies.iter().find(|policy| **policy == wanted).copied().ok_or_else(|| {
                let known: Vec<String> = policies.iter().map(ToString::to_string).collect();
                let known = known.join(", ");
                bad_input(format!("expect: {} is not measured; {known} are", quoted(name)))
            })
        };
        if !(self.times > 0.0 && self.times.is_finite()) {
            return Err(bad_input(format!("expect: times = {} is not a ratio", self.times)));
        }
        let against = match self.against.as_str() {
            "bound" => Against::Bound,
            "papers" => Against::Papers,
            "alone" => Against::Alone,
            "left" => Against::Left,
            "memory" => Against::Memory(agent_memory),
            other => Against::Policy(find(other)?),
        };
        let expected = Expectation { policy: find(&self.policy)?, against, times: self.times };
        let why = match against {
            Against::Policy(other) if other == expected.policy => "that is the policy itself",
            Against::Papers if !expected.is_of(policies) => "no policy of a paper is measured",
            Against::Alone | Against::Left if load.is_none() => "there is no [load]",
            Against::Left if matches!(load, Some(Applications::Closed(_))) => {
                "clients in a closed loop take whatever they get, so that nothing is left of links"
            }
            _ => return Ok(expected),
        };
        Err(bad_input(format!("expect: against {}: {why}", quoted(&self.against))))
    }
}

impl Expectation {
    /// Whether what it is about is measured.
    pub fn is_of(&self, policies: &[Policy]) -> bool {
        let is_measured = |policy: &Policy| policies.contains(policy);
        let is_against = match &self.against {
            Against::Policy(other) => is_measured(other),
            Against::Papers => policies.iter().any(is_of_a_paper),
            Against::Bound | Against::Alone | Against::Left | Against::Memory(_) => true,
        };
        is_measured(&self.policy) && is_against
    }

    /// What became of it, where `policies` were measured and came to those medians.
    pub fn judge(
        &self,
        policies: &[Policy],
        medians: impl Fn(Policy) -> Option<Medians>,
    ) -> Expected {
        let Expectation { policy, against, times } = *self;
        let seconds = |policy: Policy| medians(policy).map(|medians| medians.seconds);
        let (what, measured) = match against {
            Against::Bound => {
                let percent = medians(policy).map(|medians| medians.percent_of_bound);
                ("of the bound".to_owned(), percent.map(|percent| 100.0 / percent))
            }
            Against::Papers => {
                let others = policies.iter().filter(|policy| is_of_a_paper(policy));
                let best = others.filter_map(|policy| seconds(*policy)).min_by(f64::total_cmp);
                let what = "of the fastest of the papers' policies".to_owned();
                (what, seconds(policy).zip(best).map(|(ours, best)| ours / best))
            }
            Against::Policy(other) => {
                let both = seconds(policy).zip(seconds(other));
                (format!("of {other}"), both.map(|(ours, other)| ours / other))
            }
            Against::Alone => {
                let felt = medians(policy).and_then(|medians| medians.felt);
                let felt = felt.filter(|felt| felt.beside.errors == 0);
                let measured = felt.map(|felt| felt.beside.p99_ms / felt.alone.p99_ms);
                ("of what applications wait alone (P99)".to_owned(), measured)
            }
            Against::Left => {
                let percent = medians(policy).and_then(|medians| medians.felt?.left_percent);
                let what = "of the bound on what applications leave of links".to_owned();
                (what, percent.map(|percent| 100.0 / percent))
            }
            Against::Memory(bytes) => {
                let most = medians(policy).and_then(|medians| medians.agent_peak_memory_bytes);
                let what = format!("of {} (the most memory of an agent)", format_size(bytes));
                (what, most.map(|most| most as f64 / bytes as f64))
            }
        };
        Expected {
            expected: format!("{policy}: at most {times} times that {what}"),
            times: measured,
            holds: measured.is_some_and(|measured| measured <= times),
        }
    }
}

impl Expected {
    /// The expectation in a line, with what came of it.
    pub fn describe(&self) -> String {
        match (self.times, self.holds) {
            (None, _) => format!("EXPECTED AND NOT MEASURED: {}", self.expected),
            (Some(times), true) => format!("as expected: {}; it is {times:.3}", self.expected),
            (Some(times), false) => format!("NOT AS EXPECTED: {}; it is {times:.3}", self.expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use suture_sim::workload::Workload;

    use super::*;
    use crate::testbed::requests::ClosedLoop;

    fn read(text: &str) -> Result<Expectation, String> {
        let toml: ExpectToml = toml::from_str(text).map_err(|why| why.to_string())?;
        let policies = ["suture", "flow", "cr"].map(|name| name.parse().unwrap());
        let (workload, alone) = (Workload::YcsbA, Duration::from_secs(1));
        let load = Applications::Closed(ClosedLoop { workload, clients: 1, alone });
        toml.read(&policies, Some(&load), 256 << 20).map_err(|why| why.to_string())
    }

    #[test]
    fn only_what_is_measured_can_be_expected() {
        for against in ["bound", "papers", "alone", "cr", "memory"] {
            let text = format!("policy = 'suture'\nagainst = '{against}'\ntimes = 0.8");
            read(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
        }
        for (bad, expected) in [
            (
                "policy = 'pivot'\nagainst = 'bound'\ntimes = 1.1",
                "'pivot' is not measured; suture,",
            ),
            ("policy = 'flow'\nagainst = 'pivot'\ntimes = 1.1", "'pivot' is not measured"),
            ("policy = 'flow'\nagainst = 'bound'\ntimes = 0", "is not a ratio"),
            ("policy = 'flow'\nagainst = 'bound'\ntimes = inf", "is not a ratio"),
            ("policy = 'flow'\nagainst = 'flow'\ntimes = 1", "the policy itself"),
            ("policy = 'flow'\nagainst = 'left'\ntimes = 1", "so that nothing is left of links"),
            ("policy = 'flow'\nagainst = 'nobody'\ntimes = 1", "there is no policy 'nobody'"),
        ] {
            let why = read(bad).expect_err(bad);
            assert!(why.contains(expected), "{bad}: {why}");
        }
    }
}
