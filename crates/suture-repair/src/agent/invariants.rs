//! What holds after every event, asserted: cheaply for what the event touched, and for everything.
//!
//! Place: beside the whole life of a task; it only looks.
//! A broken invariant is a mistake in this crate, so it panics, with the ids.

use super::{Agent, AgentOutput, ENDED_MAX};
use crate::id::RepairId;
use crate::message::FromAgent;

impl Agent {
    /// What an event can have broken that may begin, change or end a task: the one that it was
    /// about, if any. What moves only slices is checked by the pump that it was about.
    pub(super) fn assert_invariants(&self, subject: Option<RepairId>) {
        let (reserved, pool) = (self.reserved, self.config.pool_bytes);
        assert!(reserved <= pool, "memory: {reserved} bytes are reserved of {pool}");
        if let Some(repair) = subject {
            self.assert_task(repair);
        }
    }

    /// A beat, whose first output is given, sends every outcome that is not forgotten, or as many
    /// as may be under way.
    pub(super) fn assert_sent(&self, first: usize) {
        let is_outcome = |message: &FromAgent| {
            matches!(message, FromAgent::Stored { .. } | FromAgent::Failed { .. })
        };
        let is_sent = |output: &&AgentOutput| match output {
            AgentOutput::Send(message) => is_outcome(message),
            _ => false,
        };
        let (sent, all) = (self.outputs.range(first..), self.outcomes.sent_each_beat());
        let sent = sent.filter(is_sent).count();
        assert!(sent >= all, "outcomes: {sent} were sent of {all} that are not forgotten");
    }

    fn assert_task(&self, repair: RepairId) {
        let Some(task) = self.tasks.get(&repair) else { return };
        task.assert_invariants(repair);
        assert!(!self.ended.contains(&repair), "ended: {repair} runs");
        assert!(!self.outcomes.contains(repair), "outcomes: {repair} runs");
    }

    /// Looks at everything; for simulations and tests.
    ///
    /// # Panics
    /// An invariant is broken; the message names it.
    pub fn assert_all_invariants(&self) {
        self.assert_invariants(None);
        for (repair, task) in &self.tasks {
            self.assert_task(*repair);
            let needed = self.memory(&task.task);
            assert_eq!(task.reserved, needed, "memory: reserved for {repair}, and needed");
        }
        let reserved: u64 = self.tasks.values().map(|task| task.reserved).sum();
        assert_eq!(self.reserved, reserved, "memory: reserved, and the sum of all tasks");
        let is_ended = |repair: &RepairId| self.is_ended(*repair);
        self.outcomes.assert_invariants();
        let open = self.outcomes.repairs().find(|repair| !is_ended(repair));
        assert_eq!(open, None, "outcomes: of a repair that has not ended");
        assert!(self.ended.len() <= ENDED_MAX, "ended: {} are remembered", self.ended.len());
        assert!(self.next_beat > self.now, "time: the deadline {} has passed", self.next_beat);
    }
}
