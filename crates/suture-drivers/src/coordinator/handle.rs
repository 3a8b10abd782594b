//! The way to the driver: what sessions, puts, operators and pages want of it.
//!
//! Place: around all of failure -> ... -> stripe healthy; every word here becomes a request that
//! the driver's own task serves.

use std::collections::BTreeSet;

use suture_repair::event::Command;
use suture_repair::id::{ChunkCopy, NodeId};
use suture_repair::message::FromAgent;
use tokio::sync::{mpsc, oneshot};

use super::refused::RefusedAgent;
use super::throttle::Live;
use super::{CoordinatorDriver, NewPlaces, NewSession, Placed, Request, StoredChunks};
use crate::maintenance_window::ThrottleIntent;
use crate::metadata::NodeRecord;

/// The way to the driver.
#[derive(Clone)]
pub struct Handle {
    pub(super) requests: mpsc::Sender<Request>,
}

impl Handle {
    /// An agent has joined.
    pub async fn joined(&self, node: NodeRecord, session: NewSession) {
        self.request(Request::Joined { node, session }).await;
    }

    /// An agent was not let in.
    pub async fn refused(&self, agent: RefusedAgent) {
        self.request(Request::Refused(agent)).await;
    }

    /// An agent has a durable backup of the metadata.
    pub async fn backup_kept(&self) {
        self.request(Request::BackupKept).await;
    }

    /// A session has ended.
    pub async fn left(&self, node: NodeId, session: u64) {
        self.request(Request::Left { node, session }).await;
    }

    /// A message of an agent.
    pub async fn received(&self, node: NodeId, session: u64, message: FromAgent) {
        self.request(Request::Received { node, session, message }).await;
    }

    /// A reader found a copy to be of no use.
    pub async fn suspect(&self, node: NodeId, copy: ChunkCopy) {
        self.request(Request::Suspect { node, copy }).await;
    }

    /// Applies an operator's command.
    pub async fn apply(&self, command: Command) {
        self.request(Request::Apply(command)).await;
    }

    /// What repair may take from now on; none: as configured.
    pub async fn throttle(&self, wanted: Option<ThrottleIntent>) {
        self.request(Request::Throttle(wanted.map(Box::new))).await;
    }

    /// What is configured of what can change while it runs.
    pub async fn configure(&self, live: Live) {
        self.request(Request::Configure(Box::new(live))).await;
    }

    /// Chooses nodes for each stripe. They count as taken until they are unplaced.
    pub async fn place(&self, wanted: NewPlaces) -> Placed {
        let (reply, answer) = oneshot::channel();
        self.request(Request::Place(wanted, reply)).await;
        answer.await.unwrap_or_default()
    }

    /// Takes back what was placed: it is counted by what is stored now, or not at all.
    /// Its chunks could have had so many bytes each, or are stored and so need none.
    pub async fn unplace(&self, nodes: Vec<NodeId>, chunk_bytes: u64) {
        self.request(Request::Unplace(nodes, chunk_bytes)).await;
    }

    /// The chunks of a stripe are stored, and not committed.
    pub async fn stored(&self, chunks: StoredChunks) {
        self.request(Request::Stored(chunks)).await;
    }

    /// A put that had places on these nodes has ended, and the chunks that it wrote are orphans.
    pub async fn search_orphans(&self, nodes: BTreeSet<NodeId>) {
        self.request(Request::SearchOrphans(nodes)).await;
    }

    /// What `query` makes of the driver; nothing while it shuts down. `query` is not run when its
    /// caller waits no more.
    pub async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&CoordinatorDriver) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let query = move |driver: &CoordinatorDriver| {
            if !reply.is_closed() {
                drop(reply.send(query(driver)));
            }
        };
        self.request(Request::Query(Box::new(query))).await;
        answer.await.ok()
    }

    async fn request(&self, request: Request) {
        // It fails only while the process ends.
        let _ = self.requests.send(request).await;
    }
}
