//! What the agent's links have carried, and what repair may move over them.
//!
//! Place: beside [slices flow]: measured by its driver, reported in heartbeats; a limit is the
//! driver's to keep to, and outlives sessions.

use crate::message::{LinkReport, RepairLimit};
use crate::throttle::STALLS_LIMITED;
use crate::time::Span;

/// What is to be reported, and what is kept to.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    measured: Option<Box<LinkReport>>,
    pub limit: RepairLimit,
    /// Whether its own configuration lets repair move so much and no more.
    is_capped: bool,
}

impl LinkState {
    /// The driver has measured again.
    pub fn measured(&mut self, mut report: Box<LinkReport>) {
        self.is_capped = report.cap.is_some();
        self.measured.take().into_iter().for_each(|before| report.absorb(*before));
        self.measured = Some(report);
    }

    /// What the next heartbeat reports.
    pub fn take(&mut self) -> Option<Box<LinkReport>> {
        let report = self.measured.take()?;
        Some(Box::new(LinkReport { limit: self.limit, ..*report }))
    }

    /// How long a task may stand still without a coordinator: where repair is limited, slices take
    /// their time.
    pub fn stall_timeout(&self, stall_after: Span) -> Span {
        let is_limited = self.is_capped || self.limit != RepairLimit::default();
        stall_after.times(if is_limited { STALLS_LIMITED } else { 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_stand_still_for_longer_under_a_cap_or_a_limit() {
        let stall_after = Span::from_secs(1);
        let longer = stall_after.times(STALLS_LIMITED);
        let mut links = LinkState::default();
        links.measured(Box::default());
        assert_eq!(links.stall_timeout(stall_after), stall_after);
        links.measured(Box::new(LinkReport { cap: Some(1), ..LinkReport::default() }));
        assert_eq!(links.stall_timeout(stall_after), longer);
        links.measured(Box::default());
        links.limit.up = Some(1);
        assert_eq!(links.stall_timeout(stall_after), longer);
    }
}
