//! Attempts that stand still, as an onlooker sees them: none does so without a cause.
//!
//! Place: ... dispatch -> [slices flow, or none does] -> chunk proven and durable -> ...
//! An attempt of which nothing moves is given up after a while, and its stripe is repaired anew. So
//! a node that waits for what no peer will send breaks nothing, and costs that while each time.
//! Where a fault has hit a participant, or the coordinator, or messages, standing still is as it
//! should be; where none has, it is a mistake.
//!
//! Faults are noted where they strike, each with when it ends. They excuse too many stalls rather
//! than too little: a node that two others cannot reach is disturbed for all of them.

use std::collections::BTreeMap;

use suture_repair::agent::AgentStatus;
use suture_repair::event::{Output, Report};
use suture_repair::id::{NodeId, RepairId};
use suture_repair::message::{Failure, FromAgent, Task, ToAgent};
use suture_repair::time::{Span, Time};

use super::{TIMERS, World};
use crate::fault::NetworkFaults;
use crate::violation::Violation;

/// For so long after its end a fault may still be felt: what it has left behind stalls by then.
const AFTERMATH: Span = TIMERS.stall_after;

/// The attempts that agents were notified of, and what was disturbed.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    attempts: BTreeMap<RepairId, Begun>,
    /// By node: until when faults that hit it last.
    nodes: BTreeMap<NodeId, Time>,
    /// Until when those last that concern all nodes.
    everyone: Option<Time>,
}

/// An attempt as agents were notified of it.
#[derive(Debug)]
struct Begun {
    at: Time,
    participants: Vec<NodeId>,
    destinations: Vec<NodeId>,
}

impl Stalls {
    fn begin(&mut self, now: Time, task: &Task) {
        let begun = || Begun {
            at: now,
            participants: task.plan.participants(),
            destinations: task.plan.destinations.values().copied().collect(),
        };
        self.attempts.entry(task.repair).or_insert_with(begun);
    }
}

impl World {
    /// A fault hits a node now, and lasts for the span.
    pub(crate) fn disturb(&mut self, node: NodeId, lasts: Span) {
        let until = self.now + lasts;
        let known = self.stalls.nodes.entry(node).or_insert(until);
        *known = until.max(*known);
    }

    /// A fault begins that concerns all nodes, and lasts for the span.
    pub(crate) fn disturb_all(&mut self, lasts: Span) {
        let until = self.now + lasts;
        self.stalls.everyone = self.stalls.everyone.max(Some(until));
    }

    /// All faults of nodes and of messages end now.
    pub(crate) fn end_disturbances(&mut self) {
        let now = self.now;
        self.stalls.nodes.values_mut().for_each(|until| *until = now.min(*until));
        self.disturb_all(Span::ZERO);
    }

    /// Looks at what the coordinator sends about attempts.
    pub(crate) fn watch_attempts(&mut self, output: &Output) {
        match output {
            Output::Send { message: ToAgent::Dispatch(task), .. } => {
                self.stalls.begin(self.now, task);
            }
            // Messages overtake each other here, and not in production: the message to rest may
            // come after the one to go on.
            Output::Send { message: ToAgent::Hold { repair, .. }, .. } => {
                self.stalls.attempts.remove(repair);
            }
            Output::Report(Report::Failed { repair, why: Failure::Stalled, .. }) => {
                self.check_stalled(*repair);
            }
            _ => {}
        }
    }

    /// Looks at what an agent reports of its tasks.
    pub(crate) fn watch_outcome(&mut self, message: &FromAgent) {
        if let FromAgent::Failed { repair, why: Failure::Stalled } = message {
            self.check_stalled(*repair);
        }
    }

    /// An attempt has stood still for too long. It is judged once, though agents repeat it.
    fn check_stalled(&mut self, repair: RepairId) {
        let Some(attempt) = self.stalls.attempts.remove(&repair) else { return };
        if !self.is_disturbed(&attempt) && !self.awaits_proof(repair, &attempt.destinations) {
            self.fail(Violation::StoodStill(repair));
        }
    }

    /// Whether a fault has hit those that take part since it began, or shortly before.
    fn is_disturbed(&self, attempt: &Begun) -> bool {
        let is_felt = |until: Time| until + AFTERMATH >= attempt.at;
        let is_hit = |node: &NodeId| {
            let until = self.stalls.nodes.get(node).copied();
            self.host(*node).agent.is_none() || until.is_some_and(is_felt)
        };
        let is_nobody_there = self.coordinator.is_none() || self.asleep.is_some();
        is_nobody_there
            || self.loses_messages()
            || self.stalls.everyone.is_some_and(is_felt)
            || attempt.participants.iter().any(is_hit)
    }

    /// Whether messages do not come, come twice, or come much later, now and then. A grant is sent
    /// once, and of a slice that comes twice the second takes another one's place.
    fn loses_messages(&self) -> bool {
        let NetworkFaults { drop, duplicate, delay, delay_max: _ } = self.network_faults;
        drop + duplicate + delay > 0
    }

    /// Whether all has come, and what it would be compared with is what is missing: other copies of
    /// the stripe, which may be of no use.
    fn awaits_proof(&self, repair: RepairId, destinations: &[NodeId]) -> bool {
        let awaits = |status: &AgentStatus| status.written.contains(&repair);
        let runs = |status: &AgentStatus| status.running.iter().any(|(id, _)| *id == repair);
        let statuses: Vec<AgentStatus> = destinations.iter().map(|at| self.status(*at)).collect();
        statuses.iter().any(awaits) && statuses.iter().all(|at| awaits(at) || !runs(at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use suture_repair::id::{ChunkIndex, Generation, Stamp, StripeId};
    use suture_repair::label::Label;
    use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
    use suture_repair::stripe::{ChunkRecord, Stripe};

    use super::*;
    use crate::lone;

    const REPAIR: RepairId = RepairId(7);
    const HELPER: NodeId = NodeId(0);
    const DESTINATION: NodeId = NodeId(1);
    const BYSTANDER: NodeId = NodeId(2);
    const BYTES: u64 = 4096;

    /// The copy of a chunk from one node to another.
    fn task() -> Task {
        let (range, id, chunk) = (Range { from: 0, to: BYTES }, StripeId(0), ChunkIndex(1));
        let edge =
            Edge { child: HELPER, parent: DESTINATION, bytes: BYTES, carries: Carries::Partial };
        let lane = Lane {
            range,
            lost: vec![chunk],
            mode: Mode::Streamed,
            decoder: None,
            scheme: None,
            edges: vec![edge],
        };
        let plan = Plan {
            stripe: id,
            lost: vec![chunk],
            destinations: [(chunk, DESTINATION)].into(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![lane],
        };
        let record = |node| ChunkRecord { node, stamp: Stamp(0), bytes: BYTES, crc: Some(0) };
        let stripe = Stripe {
            id,
            code: "rs(1,1)".parse().expect("a code"),
            chunk_bytes: BYTES,
            unit_bytes: BYTES,
            generation: Generation(1),
            chunks: vec![record(Some(HELPER)), record(None)],
        };
        Task {
            repair: REPAIR,
            stripe,
            plan,
            slice_bytes: BYTES as u32,
            window: 4,
            gated: false,
            continues: None,
            skips: false,
            label: Label::default(),
        }
    }

    fn begin(world: &mut World) {
        let message = ToAgent::Dispatch(Arc::new(task()));
        world.watch_attempts(&Output::Send { to: HELPER, message });
    }

    /// A cluster in which nothing has happened for long enough.
    fn calm() -> World {
        let mut world = lone::cluster(0);
        world.start_coordinator();
        world.run(Time::ZERO + AFTERMATH.times(2));
        world
    }

    /// Whether it breaks the rule that an attempt has stood still that ends now.
    fn is_noticed(world: &mut World) -> bool {
        let failed = Report::Failed { repair: REPAIR, node: None, why: Failure::Stalled };
        world.watch_attempts(&Output::Report(failed));
        world.violation == Some(Violation::StoodStill(REPAIR))
    }

    /// Likewise where something happens while it runs.
    fn is_noticed_where(happens: fn(&mut World)) -> bool {
        let mut world = calm();
        begin(&mut world);
        world.run(world.now + AFTERMATH);
        happens(&mut world);
        world.run(world.now + AFTERMATH);
        is_noticed(&mut world)
    }

    #[test]
    fn an_attempt_that_stands_still_without_a_cause_breaks_the_rule() {
        assert!(is_noticed_where(|_| {}));
        assert!(is_noticed_where(|world| world.vanish_for(BYSTANDER, Span::from_secs(60))));
        assert!(is_noticed_where(|world| world.kill_link_of(BYSTANDER, Span::from_secs(60))));
    }

    #[test]
    fn what_hits_who_takes_part_or_everyone_is_a_cause() {
        let causes: [fn(&mut World); 9] = [
            |world| world.vanish_for(HELPER, Span::from_secs(60)),
            |world| world.vanish_for(DESTINATION, Span::from_millis(10)),
            |world| world.crash_for(HELPER, Span::from_millis(10)),
            |world| world.kill_link_of(DESTINATION, Span::from_millis(10)),
            |world| world.disturb(HELPER, Span::ZERO),
            |world| world.put_to_sleep(Span::from_millis(10)),
            |world| world.start_coordinator(),
            |world| world.coordinator = None,
            |world| world.network_faults.drop = 1,
        ];
        for (at, cause) in causes.into_iter().enumerate() {
            assert!(!is_noticed_where(cause), "cause {at}");
        }
    }

    #[test]
    fn a_fault_is_a_cause_for_a_while_after_its_end() {
        for (rest, is_cause) in [(AFTERMATH, true), (AFTERMATH.times(2), false)] {
            let mut world = calm();
            world.kill_link_of(HELPER, Span::from_millis(10));
            world.run(world.now + rest);
            begin(&mut world);
            assert_eq!(is_noticed(&mut world), !is_cause, "{rest:?}");
        }
    }

    #[test]
    fn who_is_told_to_rest_and_what_nobody_was_told_of_is_not_judged() {
        let mut world = calm();
        assert!(!is_noticed(&mut world));
        begin(&mut world);
        let message = ToAgent::Hold { repair: REPAIR, held: true };
        world.watch_attempts(&Output::Send { to: DESTINATION, message });
        assert!(!is_noticed(&mut world));
    }

    #[test]
    fn an_agents_word_is_judged_like_the_coordinators() {
        let mut world = calm();
        begin(&mut world);
        let failed = FromAgent::Failed { repair: REPAIR, why: Failure::Stalled };
        world.watch_outcome(&failed);
        assert_eq!(world.violation, Some(Violation::StoodStill(REPAIR)));
    }
}
