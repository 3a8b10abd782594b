//! What repair may take: as configured, or as an operator wants it, and when.
//!
//! Place: beside [plan -> admit -> slices flow]. The core decides by the configuration that it is
//! handed here; the window's calendar stays at the edge.

use std::time::Duration;

use suture_repair::event::Input;
use suture_repair::time::{Span, Time};

use tracing::warn;

use super::CoordinatorDriver;
use crate::maintenance_window::{MaintenanceWindow, ThrottleIntent};

/// The calendar's seconds are whole ones.
const SAME_MOMENT: Span = Span::from_secs(1);

/// What of the configuration can change while the coordinator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// What repair may take, unless an operator wants something else.
    pub throttle: ThrottleIntent,
    /// How often an agent is to keep a backup of the metadata.
    pub backup_every: Option<Duration>,
}

impl CoordinatorDriver {
    /// What is configured otherwise than before holds from now on.
    pub(super) fn configure(&mut self, Live { throttle, backup_every }: Live) {
        if backup_every != self.backups.every() {
            self.spread_backups(backup_every);
        }
        let is_other = std::mem::replace(&mut self.throttle.0, throttle.clone()) != throttle;
        let wanted = self.throttle.1.take();
        if is_other && wanted.is_some() {
            warn!("[throttle] holds once an operator's limits end: suture repair throttle --reset");
        }
        self.throttle_by(wanted);
    }

    /// What repair may take by configuration, and what an operator wants instead.
    pub fn throttle_at_first(
        &mut self,
        configured: ThrottleIntent,
        wanted: Option<ThrottleIntent>,
    ) {
        self.throttle.0 = configured;
        self.throttle_by(wanted);
    }

    /// What repair may take.
    pub fn throttle(&self) -> &ThrottleIntent {
        self.throttle.1.as_ref().unwrap_or(&self.throttle.0)
    }

    /// Whether that is what is configured.
    pub fn is_throttle_default(&self) -> bool {
        self.throttle.1.is_none()
    }

    pub(super) fn throttle_by(&mut self, wanted: Option<ThrottleIntent>) {
        self.throttle.1 = wanted;
        let config = self.throttle().config.clone();
        // Where nothing was ever throttled the core gets no input for it.
        if self.core.status().throttle.config != config {
            self.handle(Input::Throttle(Box::new(config)));
        }
        self.watch_window();
    }

    /// Reports to the core when the window has closed or opened, and again when it is to open at
    /// another time.
    pub(super) fn watch_window(&mut self) {
        let closed_for = self.throttle().window.as_ref().and_then(MaintenanceWindow::closed_for);
        let now = self.now();
        let until = closed_for.map(|span| now + Span { ns: span.as_nanos() as u64 });
        if is_other(self.closed_until, until) {
            self.closed_until = until;
            self.handle(Input::WindowClosed(until));
        }
    }
}

/// Whether the window opens at another time than was thought: it, or the clock, was set anew.
fn is_other(before: Option<Time>, until: Option<Time>) -> bool {
    match (before, until) {
        (None, None) => false,
        (Some(before), Some(until)) => until.since(before).max(before.since(until)) > SAME_MOMENT,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_opens_at_another_time_is_another() {
        let at = |seconds| Some(Time::ZERO + Span::from_secs(seconds));
        for (before, until, expected) in [
            (None, None, false),
            (None, at(90), true),
            (at(90), None, true),
            (at(90), at(90), false),
            (at(90), at(91), false),
            (at(90), at(80), true),
            (at(90), at(60_000), true),
        ] {
            assert_eq!(is_other(before, until), expected, "{before:?} {until:?}");
        }
    }
}
