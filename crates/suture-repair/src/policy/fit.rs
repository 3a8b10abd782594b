//! Which parts of a policy fit together, and what a policy asks of the cluster.
//!
//! Place: before `[plan]`, when a policy is chosen. Which codes it serves is decided by the
//! planners, job by job.

use std::fmt;

use super::name::{SHAPES, entry};
use super::{Balance, Policy, Shape};

/// Why a policy cannot be used, although its name is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum PolicyFault {
    /// The policy looks at something of nodes that agents do not report yet.
    NotReported { name: &'static str, what: &'static str },
    /// The balance does not decide what the shape has to know.
    Apart { shape: Shape, balance: Balance },
}

impl Policy {
    /// Whether this version can plan with it, whatever the schedule.
    ///
    /// # Errors
    /// What is missing.
    pub fn plannable(self) -> Result<(), PolicyFault> {
        if self.shape.fits(self.balance) {
            Ok(())
        } else {
            Err(PolicyFault::Apart { shape: self.shape, balance: self.balance })
        }
    }

    /// Whether this version can plan with what it knows of its agents.
    ///
    /// # Errors
    /// What is missing.
    pub fn runnable(self) -> Result<(), PolicyFault> {
        self.plannable()?;
        match self.needs_disks() {
            Some(name) => Err(PolicyFault::NotReported { name, what: "rates of disks" }),
            None => Ok(()),
        }
    }

    /// The name of the part for which every node has to be in a rack, if there is one.
    pub fn needs_racks(self) -> Option<&'static str> {
        match (self.shape, self.balance) {
            (Shape::Rack, _) => Some(entry(SHAPES, self.shape)),
            (_, Balance::Car(_) | Balance::CarRandom) => Some(self.balance.name()),
            _ => None,
        }
    }

    /// The name of the part for which every disk's rates have to be known, if there is one.
    pub fn needs_disks(self) -> Option<&'static str> {
        (self.balance == Balance::ChameleonIo).then(|| self.balance.name())
    }
}

impl Shape {
    /// Whether the balance decides what the shape has to know, and no more than it can follow.
    fn fits(self, balance: Balance) -> bool {
        use Balance::{Chameleon, ChameleonArtifact, ChameleonIo, Flow, RepairBoost};
        match (self, balance) {
            (Shape::Split | Shape::Trace | Shape::Mix, Flow) => true,
            (Shape::Split | Shape::Trace, _) | (_, Flow) => false,
            (Shape::Tunable, Chameleon | ChameleonArtifact | ChameleonIo) => true,
            (Shape::Tunable, _) | (_, Chameleon | ChameleonArtifact | ChameleonIo) => false,
            (Shape::Ppt | Shape::Pivot | Shape::Rack, RepairBoost) => false,
            _ => true,
        }
    }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyFault::NotReported { name, what } => {
                write!(f, "'{name}' needs {what}, which agents do not report yet in this version")
            }
            PolicyFault::Apart { shape: Shape::Tunable, balance } => write!(
                f,
                "the shape 'tunable' needs the number of receives per node, which the balance \
                 '{balance}' does not decide; use chameleon"
            ),
            PolicyFault::Apart { shape, balance: Balance::Flow } => write!(
                f,
                "the balance 'flow' decides about ranges of chunks, which the shape '{shape}' \
                 cannot follow; use split"
            ),
            PolicyFault::Apart { shape: Shape::Trace, balance } => write!(
                f,
                "the shape 'trace' needs a decoder for each range of a chunk, which the balance \
                 '{balance}' does not decide; use flow"
            ),
            PolicyFault::Apart { shape: Shape::Split, balance } => write!(
                f,
                "the shape 'split' needs helpers for each range of a chunk, which the balance \
                 '{balance}' does not decide; use flow"
            ),
            PolicyFault::Apart { shape, balance: Balance::RepairBoost } => write!(
                f,
                "the balance 'repairboost' needs a graph that is known before its nodes, and the \
                 shape '{shape}' has none; use star, ppr or chain"
            ),
            PolicyFault::Apart { shape, balance } => write!(
                f,
                "the balance '{balance}' decides who receives how often, which the shape '{shape}' \
                 cannot follow; use tunable"
            ),
        }
    }
}

impl std::error::Error for PolicyFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_planned() {
        for (name, preset) in Policy::presets() {
            assert_eq!(preset.plannable(), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_shape_and_a_balance_that_do_not_fit_are_told_why() {
        for (text, reason) in [
            ("tunable/random/all", "which the balance 'random' does not decide; use chameleon"),
            ("trace/random/all", "which the balance 'random' does not decide; use flow"),
            ("star/chameleon/all", "which the shape 'star' cannot follow; use tunable"),
            ("pivot/repairboost/all", "the shape 'pivot' has none; use star, ppr or chain"),
        ] {
            let fault = text.parse::<Policy>().unwrap().plannable().unwrap_err().to_string();
            assert!(fault.ends_with(reason), "{text}: {fault}");
        }
    }
}
