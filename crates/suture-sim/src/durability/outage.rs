//! From the first failed node until the last is back: what both kinds of repair answer.
//!
//! Place: [failure detected -> ... -> stripe healthy].
//! Which node fails when is decided outside, by chance (`mission.rs`) or by design (`branch.rs`).

use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::backlog::Backlog;
use super::nodes::Nodes;
use super::{Model, Repairs};

/// Failed nodes and their repair.
pub(super) enum Outage<'a> {
    Backlog(Box<Backlog<'a>>),
    Nodes(Nodes<'a>),
}

impl<'a> Outage<'a> {
    pub fn new(model: &'a Model) -> Outage<'a> {
        match model.repairs {
            Repairs::ByStripe => Outage::Backlog(Box::new(Backlog::new(model))),
            Repairs::ByNode => Outage::Nodes(Nodes::new(model)),
        }
    }

    /// Forgets all failures; it is `now`.
    pub fn begin(&mut self, now: f64) {
        match self {
            Outage::Backlog(backlog) => backlog.begin(now),
            Outage::Nodes(nodes) => nodes.begin(now),
        }
    }

    /// A node that is up fails now. Whether data is lost with it.
    pub fn fail(&mut self, node: NodeId, random: &mut Random) -> bool {
        match self {
            Outage::Backlog(backlog) => backlog.fail(node),
            Outage::Nodes(nodes) => nodes.fail(node, random),
        }
    }

    /// Lets time pass, at most until `to`; ends early where something changed: nodes are back,
    /// which are in `recovered` then, or no stripe is at the greatest risk any more. The time it is
    /// then.
    pub fn advance(&mut self, to: f64, recovered: &mut Vec<NodeId>, random: &mut Random) -> f64 {
        match self {
            Outage::Backlog(backlog) => backlog.advance(to, recovered),
            Outage::Nodes(nodes) => nodes.advance(to, recovered, random),
        }
    }

    /// For about how long the stripes at the greatest risk stay so.
    pub fn critical_seconds(&self) -> f64 {
        match self {
            Outage::Backlog(backlog) => backlog.critical_seconds(),
            Outage::Nodes(nodes) => nodes.critical_seconds(),
        }
    }

    /// These stripes, ascending; none if they are more than `few`.
    pub fn critical_stripes(&self, few: usize) -> Vec<u32> {
        match self {
            Outage::Backlog(backlog) => backlog.critical_stripes(few),
            Outage::Nodes(nodes) => nodes.critical_stripes(few),
        }
    }

    /// Whether all nodes are up.
    pub fn is_over(&self) -> bool {
        match self {
            Outage::Backlog(backlog) => backlog.is_over(),
            Outage::Nodes(nodes) => nodes.is_over(),
        }
    }
}
