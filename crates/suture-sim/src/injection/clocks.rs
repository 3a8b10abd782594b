//! Clocks that leap, and a clock of the day that is set.
//!
//! Place: beside the whole life of a repair, as machines are that freeze and people who set clocks.
//! Every machine counts time by a clock of its own, which begins anywhere; none sends another one
//! what it reads. A machine that was frozen finds that much time has gone by: no node was silent
//! for that time. The clock of the day, by which the metadata keep ends of pauses and beginnings of
//! passes, goes back as well.

use suture_repair::event::Input;
use suture_repair::time::{Span, Time};

use crate::fault::Kind;
use crate::violation::Violation;
use crate::world::World;

impl World {
    /// The clock of the coordinator, or of an agent, leaps by the span.
    pub(super) fn leap(&mut self, span: Span) {
        if self.random.per_mille(500) {
            return self.leap_coordinator(span);
        }
        let node = self.any_node();
        let host = &mut self.hosts[node.index()];
        if host.agent.is_some() {
            host.leap(span);
            self.coverage.count(Kind::ClockLeap);
            self.disturb(node, Span::ZERO);
        }
    }

    fn leap_coordinator(&mut self, span: Span) {
        if self.coordinator.is_none() || self.asleep.is_some() {
            return;
        }
        self.coverage.count(Kind::ClockLeap);
        self.disturb_all(Span::ZERO);
        self.ahead.ns += span.ns;
        self.forget_alarm();
        // It ends pauses by its clock.
        for pause in self.paused_nodes.values_mut() {
            pause.until = Time { ns: pause.until.ns.saturating_sub(span.ns) };
        }
        let before = self.failed_nodes();
        self.coordinator_input(Input::Tick);
        let newly = self.failed_nodes().into_iter().find(|node| !before.contains(node));
        newly.into_iter().for_each(|node| self.fail(Violation::Unheard(node)));
    }

    /// The clock of the day is set, by the span, forward or back.
    pub(super) fn set_day(&mut self, span: Span, is_back: bool) {
        self.coverage.count(Kind::ClockSet);
        let ns = if is_back { self.day.ns.saturating_sub(span.ns) } else { self.day.ns + span.ns };
        self.day = Span { ns };
    }
}
