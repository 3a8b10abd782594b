//! Tasks that stand still: who gives them up, and what is no standstill of theirs.
//!
//! Place: beside [slices flow]. While a coordinator is connected, it decides what has stalled
//! (`Ledger::overdue`): it knows what the links of all participants are limited to. Without one,
//! this agent does, so that no task holds memory for ever.

use super::Agent;
use super::running::Running;
use crate::id::RepairId;
use crate::message::Failure;
use crate::time::Time;

impl Agent {
    /// What stands still is the agent's own affair from now on.
    pub(super) fn disconnected(&mut self, now: Time) {
        self.connected = false;
        self.tasks.values_mut().for_each(|task| task.progressed_at = now);
    }

    /// Time in which this agent did not run, though its beat was due, is not the standstill of its
    /// tasks: what came meanwhile waits to be taken. A beat that is a little late changes nothing.
    pub(super) fn excuse_sleep(&mut self, now: Time) {
        let late = now.since(self.next_beat);
        if late.ns <= self.config.stall_after.ns / 4 {
            return;
        }
        for task in self.tasks.values_mut() {
            task.progressed_at = now.min(task.progressed_at + late);
        }
    }

    /// Gives up what stands still while no coordinator is connected.
    pub(super) fn give_up_stalled(&mut self, now: Time) {
        let limit = self.links.stall_timeout(self.config.stall_after);
        let is_stalled =
            |t: &Running| !t.state.has_received_all() && now.since(t.progressed_at) > limit;
        let stalled: Vec<RepairId> =
            self.tasks.iter().filter(|(_, t)| is_stalled(t)).map(|(id, _)| *id).collect();
        stalled.into_iter().for_each(|repair| self.fail(repair, Failure::Stalled));
    }
}
