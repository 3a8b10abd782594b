//! What holds of the accounts after every event, asserted: of the repairs that changed, and of all.
//!
//! Place: beside ... plan -> wait -> admit -> ... -> stripe healthy; it only looks.
//! Each assertion names the account that is wrong and, where there is one, the repair.

use crate::coordinator::attempt::Attempt;
use crate::coordinator::ledger::Ledger;
use crate::id::RepairId;

impl Ledger {
    /// Looks at the repairs that changed since it was last called.
    pub fn assert_touched(&mut self) {
        for repair in std::mem::take(&mut self.touched) {
            self.assert_repair(repair);
        }
        let (running, repairing) = (self.running.len(), self.repairing.len());
        assert_eq!(running, repairing, "repairs: that run, and stripes under repair");
    }

    /// Looks at every account; for simulations and tests.
    pub fn assert_invariants(&self) {
        self.budget.assert_invariants();
        self.waiting.assert_invariants();
        self.edges.iter().for_each(|edges| edges.assert_invariants());
        self.running.keys().for_each(|repair| self.assert_repair(*repair));
        assert_eq!(self.running.len(), self.repairing.len(), "repairs: one of a stripe");
        let transferring =
            self.running.values().filter(|attempt| attempt.is_transferring()).count();
        assert_eq!(
            self.budget.held_count(),
            transferring,
            "budget: repairs that hold memory, and flow"
        );
        assert_eq!(self.active.len(), transferring, "schedule: repairs that are active, and flow");
        assert_eq!(self.load, self.charged(), "load: charged, and of what waits and runs");
    }

    /// One repair, whether it runs or has ended.
    fn assert_repair(&self, repair: RepairId) {
        let attempt = self.running.get(&repair);
        let is_transferring = attempt.is_some_and(Attempt::is_transferring);
        let holds = self.budget.held(repair).is_some();
        assert_eq!(holds, is_transferring, "budget: {repair} holds memory, and slices flow");
        let is_active = self.active.contains_key(&repair);
        assert_eq!(is_active, is_transferring, "schedule: {repair} is active, and slices flow");
        let Some(attempt) = attempt else { return };
        let current = self.repairing.get(&attempt.stripe());
        assert_eq!(current, Some(&repair), "repairs: one of {}", attempt.stripe());
        let others = attempt.commit().filter(|commit| commit.repair != repair);
        assert_eq!(others, None, "commits: {repair} has one of another repair");
        if let Some(rebuild) = attempt.rebuild() {
            rebuild.assert_invariants(repair);
            if let Some(held) = self.budget.held(repair) {
                assert_eq!(held, rebuild.memory(), "budget: {repair} holds other memory");
            }
        }
    }
}
