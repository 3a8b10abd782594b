//! What an agent counts and measures: its disk, its links, its memory, what fails.
//!
//! Place: ... dispatch -> [slices flow -> chunk durable] -> ...

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use suture_repair::agent::AgentStatus;
use suture_repair::message::{CopyFault, Failure};
use tokio::time::Instant;

use super::{Exposition, FAILURES, Labels, Level, OfDaemon, TIMES, begin, fault_name, reason};
use crate::identity::credentials::Kept;
use crate::limit::Moved;

/// What is done on a disk, each with a histogram of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// A slice of a copy, or of a spool, is read for a repair.
    Read,
    /// A slice of a rebuilt chunk is written.
    Write,
    /// What waits for others is written to a spool.
    Spool,
    /// A file is made for a chunk.
    Prepare,
    /// A chunk is read back, made durable and named: a rebuilt one, or one that a client sent.
    Publish,
    /// A copy is read in full against its checksum.
    Check,
    /// A chunk is read in full for its fingerprint.
    Fingerprint,
    /// All copies are listed.
    List,
    /// A copy is removed.
    Delete,
    /// Free bytes are asked for.
    Free,
    /// A piece is read for a client.
    ClientRead,
    /// A piece that a client sent is written.
    ClientWrite,
}

impl DiskOperation {
    const ALL: [(DiskOperation, &'static str); 12] = [
        (DiskOperation::Read, "read"),
        (DiskOperation::Write, "write"),
        (DiskOperation::Spool, "spool"),
        (DiskOperation::Prepare, "prepare"),
        (DiskOperation::Publish, "publish"),
        (DiskOperation::Check, "check"),
        (DiskOperation::Fingerprint, "fingerprint"),
        (DiskOperation::List, "list"),
        (DiskOperation::Delete, "delete"),
        (DiskOperation::Free, "free"),
        (DiskOperation::ClientRead, "client_read"),
        (DiskOperation::ClientWrite, "client_write"),
    ];
}

/// The numbers of one agent's process, shared by all that change them.
#[derive(Debug)]
pub struct AgentMetrics {
    of_daemon: OfDaemon,
    disk: [Histogram; DiskOperation::ALL.len()],
    errors: Family<Labels, Counter>,
    sent: Moved,
    received: Moved,
    memory_limit: Level,
    memory_reserved: Level,
    tasks: Level,
    free_bytes: Level,
    is_connected: Level,
    joined: Counter,
    credentials: Option<Arc<Kept>>,
}

/// What passed both ports of an agent.
#[derive(Clone, Debug)]
pub struct MovedBytes {
    /// What the uplink carried.
    pub sent: Moved,
    /// What the downlink carried.
    pub received: Moved,
}

impl AgentMetrics {
    /// Nothing counted yet, of an agent with these credentials.
    pub fn new(credentials: Option<Arc<Kept>>) -> Arc<AgentMetrics> {
        let mut of = OfDaemon::new("agent");
        let times: Family<Labels, Histogram> =
            Family::new_with_constructor(|| Histogram::new(TIMES));
        let disk = DiskOperation::ALL
            .map(|(_, name)| times.get_or_create_owned(&vec![("operation", name.into())]));
        let times_help = "How long operations on the disk took";
        of.registry.register("suture_agent_disk_seconds", times_help, times);
        let bytes: Family<Labels, Counter> =
            of.new_one("suture_agent_moved_bytes", "Payload that crossed this node's link");
        let moved = |direction: &'static str| {
            let of = |purpose: &'static str| {
                let labels = vec![("direction", direction.into()), ("purpose", purpose.into())];
                bytes.get_or_create_owned(&labels)
            };
            Moved { repair: of("repair"), client: of("client"), probe: of("probe") }
        };
        let (sent, received) = (moved("sent"), moved("received"));
        let errors = of.new_one("suture_agent_errors", "What failed here, by kind");
        begin(&errors, "kind", &FAILURES);
        let metrics = AgentMetrics {
            disk,
            sent,
            received,
            errors,
            memory_limit: of
                .new_one("suture_agent_memory_limit_bytes", "Slice memory that there is"),
            memory_reserved: of
                .new_one("suture_agent_memory_reserved_bytes", "Slice memory that repairs have"),
            tasks: of.new_one("suture_agent_tasks", "Repairs in which this agent takes part now"),
            free_bytes: of
                .new_one("suture_agent_free_bytes", "What is free for chunks on its disk"),
            is_connected: of
                .new_one("suture_agent_connected", "Whether it has a session with its coordinator"),
            joined: of.new_one("suture_agent_sessions", "Sessions with a coordinator that began"),
            of_daemon: of,
            credentials,
        };
        Arc::new(metrics)
    }

    /// What is counted at each port.
    pub fn moved(&self) -> MovedBytes {
        MovedBytes { sent: self.sent.clone(), received: self.received.clone() }
    }

    /// Does `job`, and counts how long it took.
    pub fn timed<T>(&self, operation: DiskOperation, job: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = job();
        self.disk[operation as usize].observe(began.elapsed().as_secs_f64());
        result
    }

    /// Something failed here, for that reason.
    pub fn failed(&self, why: &Failure) {
        self.count_error(reason(why));
    }

    /// A repair failed here for that reason. What failed at a disk or a peer was counted then.
    pub fn gave_up(&self, why: &Failure) {
        match why {
            Failure::NoBuffers { .. }
            | Failure::Inconsistent
            | Failure::Stalled
            | Failure::Refused(_) => self.failed(why),
            Failure::Source { .. }
            | Failure::PeerLost(_)
            | Failure::NoSpace
            | Failure::ProofFailed { .. }
            | Failure::PastEnd { .. }
            | Failure::Disk(_) => {}
        }
    }

    /// A copy was found to be of no use.
    pub fn found(&self, fault: CopyFault) {
        self.count_error(fault_name(fault));
    }

    /// Something of that kind failed; there are few kinds.
    pub fn count_error(&self, kind: &'static str) {
        self.errors.get_or_create(&vec![("kind", kind.into())]).inc();
    }

    /// A session with a coordinator began, or ended.
    pub fn connected(&self, is_connected: bool) {
        self.is_connected.set(f64::from(u8::from(is_connected)));
        if is_connected {
            self.joined.inc();
        }
    }

    /// What runs, and what is free.
    pub fn observe(&self, status: &AgentStatus, memory: u64, free_bytes: u64) {
        self.memory_limit.set(memory as f64);
        self.memory_reserved.set(status.reserved_bytes as f64);
        self.tasks.set(status.running.len() as f64);
        self.free_bytes.set(free_bytes as f64);
    }

    /// All of it, as it is now.
    pub fn write(&self) -> Exposition {
        self.of_daemon.note_certificates(self.credentials.as_deref());
        self.of_daemon.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_the_histogram_of_its_name() {
        for (index, (operation, _)) in DiskOperation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
        let metrics = AgentMetrics::new(None);
        assert_eq!(metrics.timed(DiskOperation::Publish, || 7), 7);
        metrics.failed(&Failure::NoSpace);
        metrics.connected(true);
        let text = String::from_utf8(metrics.write().classic.to_vec()).unwrap();
        let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        has("suture_agent_disk_seconds_count{operation=\"publish\"} 1");
        has("suture_agent_disk_seconds_count{operation=\"client_write\"} 0");
        has("suture_agent_errors_total{kind=\"no_space\"} 1");
        has("suture_agent_connected 1.0");
        has("# TYPE suture_agent_moved_bytes_total counter");
    }
}
