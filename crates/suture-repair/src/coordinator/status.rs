//! What operators see: what is at risk, what runs, what waits and why.
//!
//! Place: beside the whole life of a repair; it only looks.

use super::{Coordinator, margin};
use crate::event::{Blocked, NodeStatus, Status};

impl Coordinator {
    /// What is at risk, what runs, what waits and why.
    pub fn status(&self) -> Status {
        let blocked = self.trouble.iter();
        let mut status = Status {
            paused: self.config.paused,
            queued: (self.queue.len() + self.ledger.waiting().len()) as u64,
            repaired_chunks: self.repaired_chunks,
            repaired_bytes: self.repaired_bytes,
            running: self.ledger.running().flat_map(|(id, attempt)| attempt.lines(id)).collect(),
            blocked: blocked.filter_map(|(s, t)| Some((*s, t.blocked.clone()?))).collect(),
            nodes: self.node_statuses(),
            ..Status::default()
        };
        for (stripe, lost) in &self.lost {
            let Some(stripe) = self.stripes.get(*stripe) else { continue };
            let margin = margin(stripe, lost.len()) as usize;
            status.at_risk.resize(status.at_risk.len().max(margin + 1), 0);
            status.at_risk[margin] += 1;
            let blocked = self.trouble.get(&stripe.id).and_then(|t| t.blocked.as_ref());
            if !blocked.is_some_and(Blocked::is_unrepairable) {
                status.lost_chunks += lost.len() as u64;
                let bytes = lost.iter().map(|chunk| stripe.record(*chunk).bytes);
                status.lost_bytes += bytes.sum::<u64>();
            }
        }
        status
    }

    fn node_statuses(&self) -> Vec<NodeStatus> {
        let status = |(node, known): (_, &crate::health::NodeHealth)| NodeStatus {
            node,
            health: known.health,
            free_bytes: known.free_bytes,
            chunks: self.stripes.count_on(node) as u64,
        };
        self.health.iter().map(status).collect()
    }
}
