//! The ledger's cluster as its links change, and the schedule, which follows them.
//!
//! Place: beside [plan -> admit -> ...]: what planners and schedules take links for.

use std::collections::BTreeMap;

use super::Ledger;
use crate::cluster::{Core, Node};
use crate::id::{NodeId, RackId};
use crate::plan::load::Load;
use crate::time::Time;

impl Ledger {
    /// A node that is new, or has other rates, or is in another rack than before. A load is taken
    /// off as it was put on, so when a node moves all that is charged is charged again.
    pub fn set_node(&mut self, now: Time, id: NodeId, node: Node) {
        if self.replace_node(id, node) {
            self.schedule.links_changed(now, &self.cluster);
        }
    }

    /// What a node's links carry is better known than before.
    pub fn set_measured(&mut self, now: Time, id: NodeId, node: Node) {
        if self.replace_node(id, node) {
            self.schedule.links_measured(now, id, &self.cluster);
        }
    }

    /// What single racks' links carry is known, or another rate than before.
    pub fn set_racks(&mut self, now: Time, measured: BTreeMap<RackId, Core>) {
        self.cluster.measured_racks = measured;
        self.schedule.links_changed(now, &self.cluster);
    }

    /// Returns whether only its links may be other than they were.
    fn replace_node(&mut self, id: NodeId, node: Node) -> bool {
        let Some(known) = self.cluster.nodes.get_mut(id.index()) else {
            assert_eq!(id.index(), self.cluster.nodes.len(), "node ids are given in order");
            self.cluster.nodes.push(node);
            let load = std::mem::replace(&mut self.load, Load::new(&self.cluster));
            self.load.add_load(&load);
            return false;
        };
        let has_moved = known.rack != node.rack;
        *known = node;
        if has_moved {
            self.load = self.charged();
        }
        !has_moved
    }
}
