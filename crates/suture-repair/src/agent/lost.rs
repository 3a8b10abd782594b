//! What becomes of tasks when a peer is out of reach: they fail, or keep what they have.
//!
//! Place: ... dispatch -> [slices flow -> a peer is lost] -> the rest flows another way -> ...
//! What a helper or a relay has is of no use to another attempt. What a destination has is: where
//! its task skips, it reports what it has lost and keeps its file, until another task takes that
//! over or the coordinator cancels it, which knows what has stalled. Where neither comes, because
//! there is no coordinator, it stalls in the end, as if nothing had been reported.

use super::Agent;
use super::running::Running;
use crate::id::{NodeId, RepairId};
use crate::message::{Failure, FromAgent};

impl Agent {
    /// A peer is out of reach.
    pub(super) fn peer_lost(&mut self, peer: NodeId) {
        let hit = |task: &Running| {
            task.lanes.iter().any(|(_, pump)| pump.awaits(peer) || pump.feeds(peer))
        };
        let lost: Vec<RepairId> =
            self.tasks.iter().filter(|(_, t)| hit(t)).map(|(id, _)| *id).collect();
        for repair in lost {
            let why = Failure::PeerLost(peer);
            match self.tasks.get_mut(&repair).filter(|task| task.may_go_on()) {
                Some(task) => {
                    task.lost = Some(peer);
                    self.send(FromAgent::Failed { repair, why });
                }
                None => self.fail(repair, why),
            }
        }
    }

    /// Reports again each task that has lost a peer and keeps what has come: the report may have
    /// been lost.
    pub(super) fn repeat_lost(&mut self) {
        let lost = self.tasks.iter().filter(|(_, task)| task.may_go_on());
        let lost = lost.filter_map(|(repair, task)| Some((*repair, task.lost?)));
        for (repair, peer) in lost.collect::<Vec<_>>() {
            self.send(FromAgent::Failed { repair, why: Failure::PeerLost(peer) });
        }
    }
}
