//! What is calibrated: codes, shapes, links and failures that differ in what could go wrong.
//!
//! Place: before failure; what a cluster is like, what it holds, and which nodes will fail.
//! Arithmetic: links of some 20 Mbit/s and fourteen lost chunks of 2 MiB make repairs of four to
//! twelve seconds, long against clocks and commits, while all agents together move 30 MB/s, which
//! two processor cores do with ease. So links are what limits, as in the model.

use crate::demo::processes::LinkRates;

/// The length of chunks.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// A repair to measure and to predict.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationScenario {
    /// What is special about it.
    pub name: &'static str,
    /// The code as it is written.
    pub code: &'static str,
    /// The policy as it is written.
    pub policy: &'static str,
    /// Agents in the cluster, one a node.
    pub agents: usize,
    /// How many stripes are stored.
    pub stripes: usize,
    /// The links of the agents.
    pub links: Links,
    /// How many nodes fail at once.
    pub failures: usize,
    /// Whether a quick calibration has it.
    pub is_quick: bool,
}

/// The links of a scenario's agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All of 20 Mbit/s each way.
    Equal,
    /// Between 12 and 32 Mbit/s, up and down apart.
    Unequal,
}

impl Links {
    /// Agent by agent, then from the first again.
    pub fn rates(self) -> Vec<LinkRates> {
        let mbit: &[(f64, f64)] = match self {
            Links::Equal => &[(20.0, 20.0)],
            // Some nodes send better than they receive, some the other way round.
            Links::Unequal => {
                &[(20.0, 20.0), (32.0, 16.0), (16.0, 28.0), (12.0, 24.0), (24.0, 32.0)]
            }
        };
        let bytes_per_sec = |mbit: f64| mbit * 1e6 / 8.0;
        mbit.iter()
            .map(|&(up, down)| LinkRates { up: bytes_per_sec(up), down: bytes_per_sec(down) })
            .collect()
    }

    /// The name that the table shows.
    pub fn name(self) -> &'static str {
        match self {
            Links::Equal => "equal",
            Links::Unequal => "unequal",
        }
    }
}

/// All scenarios, in the order in which they are run.
pub const ALL: [CalibrationScenario; 14] = [
    CalibrationScenario { is_quick: true, ..scenario("star", "rs(6,3)", "cr") },
    scenario("chain", "rs(6,3)", "rp"),
    scenario("tree", "rs(6,3)", "ppr"),
    CalibrationScenario { is_quick: true, ..scenario("many lanes", "rs(6,3)", "flow") },
    scenario("traces", "rs(6,3)", "suture"),
    CalibrationScenario {
        links: Links::Unequal,
        ..scenario("star, unequal links", "rs(6,3)", "cr")
    },
    CalibrationScenario {
        links: Links::Unequal,
        ..scenario("best tree, unequal links", "rs(6,3)", "pivot")
    },
    CalibrationScenario {
        links: Links::Unequal,
        is_quick: true,
        ..scenario("traces, unequal links", "rs(6,3)", "suture")
    },
    CalibrationScenario {
        failures: 2,
        is_quick: true,
        ..scenario("two nodes fail", "rs(6,3)", "suture")
    },
    CalibrationScenario { agents: 16, ..scenario("a wide code", "rs(10,4)", "suture") },
    CalibrationScenario {
        agents: 16,
        links: Links::Unequal,
        ..scenario("a long chain", "rs(10,4)", "rp")
    },
    scenario("local groups", "lrc(6,2,2)", "suture"),
    scenario("sub-chunks, half of each", "butterfly(4)", "suture"),
    scenario("sub-chunks, coupled", "clay(4,2,5)", "suture"),
];

const fn scenario(
    name: &'static str,
    code: &'static str,
    policy: &'static str,
) -> CalibrationScenario {
    CalibrationScenario {
        name,
        code,
        policy,
        agents: 12,
        stripes: 18,
        links: Links::Equal,
        failures: 1,
        is_quick: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use suture_code::Code;
    use suture_repair::policy::Policy;

    use super::*;
    use crate::executable;

    #[test]
    fn every_scenario_can_be_run_and_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), ALL.len());
        for scenario in &ALL {
            let code: Code = scenario.code.parse().unwrap();
            let policy: Policy = scenario.policy.parse().unwrap();
            assert_eq!(policy.runnable().map_err(|fault| fault.to_string()), Ok(()));
            assert_eq!(executable::refusal(policy, &code), None, "{}", scenario.name);
            assert!(scenario.agents > code.chunk_count() + scenario.failures - 1);
            assert!(scenario.failures <= code.loss_tolerance());
            assert!(CHUNK_BYTES.is_multiple_of(code.alignment() as u64));
        }
        assert!(ALL.iter().filter(|scenario| scenario.is_quick).count() >= 3);
    }
}
