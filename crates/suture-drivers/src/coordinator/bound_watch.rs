//! How fast the repairs that run could be at best, computed beside the coordinator's task.
//!
//! Place: ... dispatch -> [slices flow] -> ...: what `suture status` shows beside the rate.
//! A bound may take seconds to compute, and a small machine has other work: so it is computed on a
//! thread of its own, one at a time, again and again while repairs run, since plans and links
//! change, and at most for a small part of the time.

use std::time::Duration;

use suture_repair::coordinator::{Coordinator, RepairBound};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::Instant;

/// How often it is computed while repairs run.
const EVERY: Duration = Duration::from_secs(5);

/// The pause between two bounds is so many times what the last one took.
const REST: u32 = 20;

/// What is known of the bound of the repairs that run.
#[derive(Debug, Default)]
pub struct BoundWatch {
    found: Option<RepairBound>,
    computing: Option<Computation>,
    /// When it is to be computed again; none: at once.
    due: Option<Instant>,
}

/// A bound that is being computed.
#[derive(Debug)]
struct Computation {
    /// The bound, and what it took.
    answer: Receiver<(Option<RepairBound>, Duration)>,
    /// All that it is of has ended.
    is_void: bool,
}

impl BoundWatch {
    /// Takes what was computed, and has it computed again when that is due. Called now and then,
    /// by a task of the runtime.
    pub fn follow(&mut self, now: Instant, core: &Coordinator) {
        if !core.has_bound() {
            self.found = None;
            self.computing.iter_mut().for_each(|computing| computing.is_void = true);
            if core.running().next().is_none() {
                self.due = None;
            }
            return self.take_answer(now);
        }
        self.take_answer(now);
        if self.computing.is_none() && self.due.is_none_or(|due| due <= now) {
            self.begin(now, core);
        }
    }

    /// The bound of the repairs that run, as last computed; none where none runs.
    pub fn found(&self, core: &Coordinator) -> Option<RepairBound> {
        self.found.filter(|_| core.has_bound())
    }

    /// Takes what was computed, if it was.
    fn take_answer(&mut self, now: Instant) {
        let Some(computing) = &mut self.computing else { return };
        let (found, took) = match computing.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) => return,
            // It panicked, which the runtime has reported.
            Err(TryRecvError::Closed) => (None, Duration::ZERO),
        };
        (self.found, self.due) = if computing.is_void {
            (None, Some(now + took * REST))
        } else {
            (found, Some(now + EVERY.max(took * REST)))
        };
        self.computing = None;
    }

    /// Has the bound computed of what runs now, if anything does.
    fn begin(&mut self, now: Instant, core: &Coordinator) {
        let Some(jobs) = core.planned_jobs() else {
            (self.found, self.due) = (None, Some(now + EVERY));
            return;
        };
        let (sender, answer) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let begun = std::time::Instant::now();
            let found = jobs.bound();
            // No receiver is left where the coordinator has ended.
            let _ = sender.send((found, begun.elapsed()));
        });
        self.computing = Some(Computation { answer, is_void: false });
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::{Cluster, Rate};
    use suture_repair::event::{Command, Input};
    use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
    use suture_repair::message::{FromAgent, Hello};
    use suture_repair::planner::Abilities;
    use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
    use suture_repair::time::Time;

    use super::*;
    use crate::config::CoordinatorConfig;

    fn give(core: &mut Coordinator, input: Input) {
        core.handle(Time::ZERO, input);
        while core.poll().is_some() {}
    }

    /// Six nodes with four stripes, of which one has failed.
    fn repairing() -> Coordinator {
        after(Command::FailNode(NodeId(0)))
    }

    /// Six nodes with four stripes, after a command.
    fn after(command: Command) -> Coordinator {
        let config = CoordinatorConfig::default().core();
        let record = |node| ChunkRecord {
            node: Some(NodeId(node)),
            stamp: Stamp(0),
            bytes: 4096,
            crc: Some(7),
        };
        let stripe = |id| Stripe {
            id: StripeId(id),
            code: "rs(2,2)".parse().unwrap(),
            chunk_bytes: 4096,
            unit_bytes: 4096,
            generation: Generation(1),
            chunks: (0..4).map(record).collect(),
        };
        let stripes = StripeMap::new((0..4).map(stripe));
        let cluster = Cluster::uniform(6, Rate(1e6));
        let mut core = Coordinator::new(Time::ZERO, config, cluster, stripes);
        for node in (0..6).map(NodeId) {
            let hello = Hello {
                incarnation: 1,
                session: u64::from(node.0) + 1,
                abilities: Abilities::PARTIAL,
                pool_bytes: 64 << 20,
                free_bytes: 1 << 30,
            };
            give(&mut core, Input::Agent { node, message: FromAgent::Hello(hello) });
            let held = core.stripes().on_node(node);
            let held = held.filter_map(|s| Some(s.copy(s.chunk_on(node)?)?.copy.into())).collect();
            give(&mut core, Input::Agent { node, message: FromAgent::Inventory(held) });
        }
        give(&mut core, Input::Operator(command));
        core
    }

    #[tokio::test]
    async fn a_bound_is_computed_while_repairs_run_and_gone_with_the_last_of_them() {
        let (mut core, mut watch, now) = (repairing(), BoundWatch::default(), Instant::now());
        assert!(core.has_bound());
        watch.follow(now, &core);
        assert_eq!(watch.found(&core), None, "it is being computed");
        while watch.computing.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            watch.follow(now, &core);
        }
        let found = watch.found(&core);
        assert!(found.is_some_and(|found| found.bytes == 4 * 4096), "{found:?}");
        assert_eq!(found, core.planned_jobs().and_then(|jobs| jobs.bound()));
        watch.follow(now + EVERY, &core);
        assert!(watch.computing.is_some(), "plans and links may be others by now");
        assert_eq!(watch.found(&core), found, "the last one until then");
        give(&mut core, Input::Operator(Command::Cancel));
        assert_eq!(watch.found(&core), None, "nothing runs");
    }

    #[tokio::test]
    async fn a_bound_that_comes_after_the_end_of_its_repairs_is_not_taken_for_the_next() {
        let (mut core, mut watch, now) = (repairing(), BoundWatch::default(), Instant::now());
        let (sender, answer) = oneshot::channel();
        watch.computing = Some(Computation { answer, is_void: false });
        give(&mut core, Input::Operator(Command::Cancel));
        watch.follow(now, &core);
        give(&mut core, Input::Operator(Command::Resume));
        assert!(core.has_bound());
        watch.follow(now, &core);
        assert!(watch.computing.as_ref().is_some_and(|old| old.is_void), "one at a time");
        sender.send((Some(RepairBound { seconds: 1.0, bytes: 1 }), Duration::ZERO)).unwrap();
        watch.follow(now, &core);
        assert_eq!(watch.found, None);
        assert!(watch.computing.is_some_and(|new| !new.is_void), "it is asked anew");
    }

    #[tokio::test]
    async fn there_is_none_while_chunks_only_move_even_if_one_was_found_before() {
        let core = after(Command::DrainNode(NodeId(0)));
        assert!(core.running().next().is_some() && !core.has_bound(), "they move");
        let found = Some(RepairBound { seconds: 1.0, bytes: 1 });
        let mut watch = BoundWatch { found, ..BoundWatch::default() };
        assert_eq!(watch.found(&core), None);
        watch.follow(Instant::now(), &core);
        assert!(watch.found.is_none() && watch.computing.is_none());
    }
}
