//! Numbers of HDFS: whether its NameNode answers, whether it leaves its lost blocks to this
//! coordinator, and how many groups it reports.
//!
//! Place: beside [stripes affected] ..., where a NameNode keeps the stripes. While none answers all
//! that the other numbers say of what is at risk is old, or nothing.

use std::time::Instant;

use prometheus_client::metrics::family::Family;

use super::{Labels, Level, OfDaemon};
use crate::hdfs::view::HdfsSeen;

/// What of HDFS goes up and down. Where it keeps no stripes there are no series.
#[derive(Debug)]
pub(super) struct HdfsLevels {
    connected: Family<Labels, Level>,
    lease: Family<Labels, Level>,
    observes: Family<Labels, Level>,
    namenodes: Family<Labels, Level>,
    groups: Family<Labels, Level>,
    left: Family<Labels, Level>,
}

impl HdfsLevels {
    pub(super) fn new(of: &mut OfDaemon) -> HdfsLevels {
        HdfsLevels {
            connected: of.new_one(
                "suture_hdfs_connected",
                "Whether an active NameNode answers; absent where HDFS keeps no stripes, as all of these",
            ),
            lease: of.new_one(
                "suture_hdfs_lease",
                "Whether HDFS leaves its lost blocks to this coordinator, and does not rebuild them",
            ),
            observes: of.new_one(
                "suture_hdfs_observes",
                "Whether HDFS rebuilds everything, and this coordinator only looks",
            ),
            namenodes: of.new_one("suture_hdfs_namenodes", "NameNodes whose plugins are connected"),
            groups: of
                .new_one("suture_hdfs_groups", "Block groups at risk that the NameNode reports"),
            left: of.new_one(
                "suture_hdfs_left_groups",
                "Block groups that HDFS may rebuild by itself: they wait, or are not served",
            ),
        }
    }

    pub(super) fn set(&self, seen: Option<&HdfsSeen>) {
        let states = [&self.connected, &self.lease, &self.observes];
        let counted = [&self.namenodes, &self.groups, &self.left];
        states.iter().chain(&counted).for_each(|level| level.clear());
        let Some(seen) = seen else { return };
        let now = Instant::now();
        let are_so = [seen.is_connected(now), seen.is_leased(now), seen.observes];
        let states = states.into_iter().zip(are_so.map(|is_so| f64::from(u8::from(is_so))));
        let counts = [seen.namenodes, seen.groups, seen.left].map(|count| count as f64);
        for (level, value) in states.chain(counted.into_iter().zip(counts)) {
            level.get_or_create(&Labels::new()).set(value);
        }
    }
}
