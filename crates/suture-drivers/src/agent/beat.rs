//! What an agent does at each beat: it looks at its disk, its links and what it could not send.
//!
//! Place: [failure detected] -> ...; beside the life of a repair, so often as heartbeats go out.

use suture_repair::agent::AgentInput;
use suture_repair::message::{FromAgent, ToAgent};
use tokio::sync::mpsc;
use tracing::warn;

use super::AgentDriver;
use super::disk_watch::DiskWatch;
use super::session::SESSION_QUEUE;

impl AgentDriver {
    pub(super) fn beat(&mut self) {
        self.metrics.observe(&self.core.status(), self.pool_bytes, self.free_bytes);
        self.disk.ask_free_bytes();
        self.note_disk();
        self.measure();
        self.list_again();
    }

    /// Reports to the core how the disk is, and logs what is wrong with it.
    fn note_disk(&mut self) {
        let state = self.watch.state(std::time::Instant::now());
        if state == self.disk_state {
            return;
        }
        DiskWatch::log_change(self.disk_state, state);
        self.disk_state = state;
        self.handle(AgentInput::Disk(state));
    }

    /// Reports to the core what links have carried.
    fn measure(&mut self) {
        let repairs = !self.core.status().running.is_empty();
        let report = self.meter.report(repairs);
        self.handle(AgentInput::Measured(Box::new(report)));
    }

    /// Never waits for a coordinator that does not listen; the core repeats what matters, but for
    /// listings, which it takes for sent.
    pub(super) fn notify(&mut self, message: FromAgent) {
        if let FromAgent::Failed { why, .. } = &message {
            self.metrics.gave_up(why);
        }
        if let Err(mpsc::error::TrySendError::Full(message)) = self.outbox.try_send(message) {
            warn!("the queue to the coordinator is full; dropped {}", message.kind());
            let is_listing = matches!(message, FromAgent::Inventory(_) | FromAgent::NotListed);
            self.lost_listing |= is_listing;
        }
    }

    /// Lists anew where a listing was dropped, once the coordinator takes messages again. The
    /// former list would have copies that have gone since.
    fn list_again(&mut self) {
        if self.lost_listing && self.outbox.capacity() > SESSION_QUEUE / 2 {
            self.lost_listing = false;
            self.handle(AgentInput::Message(Box::new(ToAgent::List)));
        }
    }
}
