//! What waits to be sent to an agent, before it is encoded.
//!
//! Place: ... plan -> admit -> `[dispatch]` -> ...
//! Every participant of a repair gets the same task, so it is shared, and so is its encoding: the
//! first session that sends it encodes it for all.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use suture_repair::id::NodeId;
use suture_repair::message::{Task, ToAgent};
use tokio::sync::mpsc;

use crate::metadata::Mark;

/// Messages that may wait for one agent. A dispatch is the most frequent one, and a repair takes
/// seconds: an agent this far behind does not read.
pub const OUTBOX_MAX: usize = 4096;

/// Where messages for one agent go.
pub type Outbox = mpsc::Sender<Outgoing>;

/// A message for an agent.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Of the coordinator core, but for dispatches.
    Message(ToAgent),
    /// A task, shared with the others that take part.
    Dispatch(Arc<Dispatch>),
    /// Where every node is now.
    Peers(Arc<[PeerAddress]>),
    /// Fetch a backup of the metadata, and keep it.
    KeepBackup,
    /// So many puts are committed.
    Committed(u64),
    /// The last mark: what agents report of it shows a coordinator that it was set back.
    Marked(Mark),
}

/// A node and where its agent listens.
#[derive(Clone, Debug)]
pub struct PeerAddress {
    /// The node's id in this cluster.
    pub node: NodeId,
    /// The name that it joined under.
    pub name: String,
    /// None: it is out of reach.
    pub address: Option<String>,
}

/// A task, and what it is on the wire once that is known.
#[derive(Debug)]
pub struct Dispatch {
    task: Arc<Task>,
    encoded: OnceLock<Bytes>,
}

impl Dispatch {
    /// A task that is encoded when it is first sent.
    pub fn new(task: Arc<Task>) -> Dispatch {
        Dispatch { task, encoded: OnceLock::new() }
    }

    /// Whether it is this very task.
    pub fn is_of(&self, task: &Arc<Task>) -> bool {
        Arc::ptr_eq(&self.task, task)
    }

    /// The task as `encode` makes it, which is called at most once for all participants.
    pub fn encoded(&self, encode: impl FnOnce(&Task) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.task)).clone()
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{Generation, RepairId, StripeId};
    use suture_repair::plan::{Plan, Range, Start};
    use suture_repair::stripe::Stripe;

    use super::*;

    fn task() -> Arc<Task> {
        let (stripe, range) = (StripeId(1), Range { from: 0, to: 64 });
        let plan = Plan {
            stripe,
            lost: Vec::new(),
            destinations: Default::default(),
            start: Start::Now,
            range,
            period: None,
            lanes: Vec::new(),
        };
        let code = "rs(2,1)".parse().unwrap();
        let generation = Generation(0);
        let (chunk_bytes, unit_bytes, chunks) = (64, 64, Vec::new());
        let stripe = Stripe { id: stripe, code, chunk_bytes, unit_bytes, generation, chunks };
        let (slice_bytes, window, gated, continues, skips) = (64, 1, false, None, false);
        let label = suture_repair::label::Label::default();
        let repair = RepairId(1);
        Arc::new(Task { repair, stripe, plan, slice_bytes, window, gated, continues, skips, label })
    }

    #[test]
    fn a_task_is_encoded_once_for_all_participants() {
        let dispatch = Dispatch::new(task());
        let first = dispatch.encoded(|_| Bytes::from_static(b"once"));
        let second = dispatch.encoded(|_| panic!("encoded twice"));
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
