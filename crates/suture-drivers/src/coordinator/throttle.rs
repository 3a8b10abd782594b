//! What repair may take: as configured, or as an operator wants it, and when.
//!
//! Place: beside [plan -> admit -> slices flow]. The core decides by the configuration that it is
//! handed here; the window's calendar stays at the edge.

use std::time::Duration;

use suture_repair::event::Input;
use suture_repair::time::Span;

use super::CoordinatorDriver;
use crate::window::{ThrottleIntent, Window};

/// What of the configuration can change while the coordinator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// What repair may take, unless an operator wants something else.
    pub throttle: ThrottleIntent,
    /// How often an agent is to keep a copy of the metadata.
    pub backup_every: Option<Duration>,
}

impl CoordinatorDriver {
    /// What is configured otherwise than before holds from now on.
    pub(super) fn configure(&mut self, Live { throttle, backup_every }: Live) {
        if backup_every != self.backups.every() {
            self.spread_backups(backup_every);
        }
        self.throttle.0 = throttle;
        let wanted = self.throttle.1.take();
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
        // A coordinator that never throttled anything says nothing of it.
        if self.core.status().throttle.config != config {
            self.handle(Input::Throttle(Box::new(config)));
        }
        self.watch_window();
    }

    /// Tells the core when the window has closed or opened, and again when it is to open otherwise.
    pub(super) fn watch_window(&mut self) {
        let closed_for = self.throttle().window.as_ref().and_then(Window::closed_for);
        let (was_closed, now) = (self.is_closed, self.now());
        self.is_closed = closed_for.is_some();
        if was_closed != self.is_closed {
            let until = |span: Duration| now + Span { ns: span.as_nanos() as u64 };
            self.handle(Input::WindowClosed(closed_for.map(until)));
        }
    }
}
