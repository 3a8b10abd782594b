//! What is looked at now and then: how far repairs have come, for monitoring and for the log.
//!
//! Place: beside all of failure -> ... -> stripe healthy; it decides nothing.

use std::time::{Duration, SystemTime};

use suture_edge::units::format_size;
use suture_repair::event::NodeStatus;
use tokio::time::Instant;
use tracing::{info, warn};

use super::CoordinatorDriver;
use super::beat_watch::BeatWatch;
use super::scrub_watch::{ScrubTimes, ScrubWatch};
use crate::hdfs::lease::Condition;
use crate::metadata::{PassRecord, seconds_since_1970};
use crate::metrics::calls::PutMemory;
use crate::metrics::coordinator::Seen;

impl CoordinatorDriver {
    /// What monitoring sees now.
    pub fn seen(&self) -> Seen {
        let (core, status) = (&self.core, self.core.status());
        let cluster = core.cluster();
        let named = |node: &NodeStatus| {
            let node = cluster.node(node.node);
            let rack = node.rack.map(|rack| cluster.racks[rack.0 as usize].clone());
            (node.name.clone(), rack.unwrap_or_default())
        };
        let times = self.scrub_times();
        Seen {
            nodes: status.nodes.iter().map(named).collect(),
            stripes: core.stripes().len() as u64,
            eta: self.meter.eta(self.now(), &status),
            rate: self.meter.rate(),
            bound: self.repair_bound(),
            unknown_copies: core.unknown_copies(),
            refused_agents: self.refused_agents().len(),
            is_unwritable: self.metadata.is_faulty(),
            // Set by the service, which has the audit log.
            is_audit_unwritable: false,
            backup_age: self.backups.age(Instant::now()),
            scrub_period: times.map(|times| times.period),
            scrub_least: times.and_then(|times| times.least),
            scrub_age: times.map(|times| times.age),
            hdfs: self.hdfs_seen(),
            // Set by the service, which counts puts.
            puts: PutMemory::default(),
            status,
        }
    }

    /// What is wrong with this machine's clock of the day, or was lately.
    pub fn clock_warning(&self) -> Option<String> {
        self.clock.warning(std::time::Instant::now())
    }

    /// Has passes watched that begin so often and read so many bytes per second of each disk, where
    /// the last ones left this.
    pub fn watch_scrubs(&mut self, how: (Option<Duration>, Option<f64>), pass: PassRecord) {
        let (period, rate) = how;
        self.scrubs = ScrubWatch::new(seconds_since_1970(), period, rate, pass);
    }

    /// How passes keep to their period; none where no pass begins unasked.
    pub fn scrub_times(&self) -> Option<ScrubTimes> {
        let stripes = self.core.stripes();
        let fullest = self.nodes.keys().map(|node| stripes.bytes_on(*node)).max();
        self.scrubs.times(seconds_since_1970(), fullest.unwrap_or(0))
    }

    /// What an operator should know of that, in sentences.
    pub fn scrub_warnings(&self) -> Vec<String> {
        self.scrub_times().iter().flat_map(ScrubTimes::warnings).collect()
    }

    /// Has agents watched for whether they report often enough, where a silent node is not used
    /// after so long.
    pub fn watch_beats(&mut self, suspect: Duration) {
        self.beats = BeatWatch::new(suspect);
    }

    /// What an operator should know of agents that are there and do not, in sentences.
    pub fn beat_warnings(&self) -> Vec<String> {
        let cluster = self.core.cluster();
        let present = |node| self.is_connected(node).then(|| cluster.node(node).name.as_str());
        self.beats.warnings(present)
    }

    /// Looks how far repairs have come, and logs it when they have come to their end.
    pub(super) fn measure(&mut self) {
        self.send_news();
        self.watch_window();
        if let Some(why) = self.clock.read(std::time::Instant::now(), SystemTime::now()) {
            warn!("{why}");
        }
        if let Some(times) = self.scrub_times() {
            self.scrubs.news(&times).into_iter().for_each(|why| warn!("{why}"));
        }
        self.log_rest();
        let status = self.core.status();
        self.meter.measure(self.now(), &status);
        self.bounds.follow(Instant::now(), &self.core);
        self.metrics.measure(self.now(), &status);
        self.note_condition(Condition::of(&status));
        let at_risk: u64 = status.at_risk.iter().sum();
        if at_risk == 0 && self.at_risk > 0 {
            let (chunks, size) = (status.repaired_chunks, format_size(status.repaired_bytes));
            info!(repaired_chunks = chunks, repaired = size, "all stripes are healthy");
        }
        self.at_risk = at_risk;
        if status.blocked.len() != self.blocked
            && let Some((_, why)) = status.blocked.first()
        {
            let stripes = status.blocked.len();
            let hopeless = status.blocked.iter().filter(|(_, why)| why.is_unrepairable()).count();
            warn!(stripes, unrepairable = hopeless, first = %why, "stripes cannot be repaired yet");
        }
        self.blocked = status.blocked.len();
    }
}
