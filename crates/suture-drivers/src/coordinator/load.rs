//! The core as the metadata have it, when a coordinator starts.
//!
//! Place: metadata opened -> [stripes, nodes and what operators want] -> the driver runs.

use std::time::Duration;

use anyhow::{Context, Result};
use suture_repair::cluster::{Cluster, Node};
use suture_repair::coordinator::{self as core, Coordinator};
use suture_repair::event::{Input, Liveness};
use suture_repair::id::{NodeId, StripeId};
use suture_repair::stripe::StripeMap;
use suture_repair::time::{Span, Time};
use suture_repair::transcript;

use crate::config::CoordinatorConfig;
use crate::config::hdfs::HdfsMode;
use crate::metadata::{MetadataStore, NodeRecord, seconds_since_1970};
use crate::record::{RecordTo, RecordedCoordinator};

/// The longest pause: for a longer absence an operator drains the node.
pub const PAUSE_MAX: Duration = Duration::from_secs(30 * 86400);

/// Changes of the metadata that the driver may be behind; then commits wait for it.
pub const CHANGES_MAX: usize = 1024;

/// How long commands are gathered before plans are made: a status of some ten thousand repairs
/// takes less.
const COMMAND_GATHER: Span = Span::from_millis(100);

/// Ids of block groups are below this.
const STRIPES_MAX: u64 = 1 << 62;

/// For how much longer nodes may be silent: never longer than an operator can say, whatever the
/// machine's clock says now.
fn pauses_left(kept: &[(NodeId, u64)]) -> Vec<(NodeId, Span)> {
    let now = seconds_since_1970();
    let left = |until: u64| Span::from_secs(until.saturating_sub(now).min(PAUSE_MAX.as_secs()));
    let left = kept.iter().map(|(node, until)| (*node, left(*until)));
    left.filter(|(_, left)| *left > Span::ZERO).collect()
}

/// The core and the nodes, from the metadata.
///
/// # Errors
/// When the metadata cannot be read, or a recording cannot be begun.
pub fn load(
    config: &CoordinatorConfig,
    store: &mut MetadataStore,
    record: Option<RecordTo>,
) -> Result<(RecordedCoordinator, Vec<NodeRecord>)> {
    let (nodes, intent) = (store.nodes()?, store.intent()?);
    let is_hdfs = config.hdfs.mode != HdfsMode::Off;
    // What is at risk in HDFS its NameNode reports, later.
    let stripes = if is_hdfs { StripeMap::default() } else { StripeMap::new(store.stripes()?) };
    let mut cluster = Cluster::default();
    for NodeRecord { node, .. } in &nodes {
        let rack = node.rack.as_ref().map(|name| cluster.rack(name));
        cluster.nodes.push(Node { rack, ..node.as_planned() });
    }
    let core_config = core::Config {
        epoch: store.epoch(),
        timers: config.timers(),
        policy: config.repair.policy,
        seed: store.cluster().0,
        paused: intent.paused || config.hdfs.mode == HdfsMode::Observe,
        failed: intent.failed,
        draining: intent.draining,
        paused_nodes: pauses_left(&intent.paused_nodes),
        // Nothing else repairs what the native metadata keep: a claim is answered with the label.
        claims: true,
        // The native metadata know nothing of nodes, and what is in excess is ours to remove; a
        // NameNode does both.
        liveness: if is_hdfs { Liveness::Keeper } else { Liveness::Own },
        deletes: !is_hdfs && !store.sets_damaged_aside(),
        in_flight_max: core::IN_FLIGHT_MAX,
        scrub: if is_hdfs {
            // DataNodes scan their blocks themselves.
            core::ScrubConfig::OFF
        } else {
            config.scrub.core(seconds_since_1970(), store.pass()?)
        },
        // Chunks of objects that are to be made again stay, and HDFS has a balancer of its own.
        rebalance_after: if is_hdfs || store.sets_damaged_aside() {
            None
        } else {
            config.repair.rebalance_after.map(|after| Span { ns: after.as_nanos() as u64 })
        },
        gather: COMMAND_GATHER,
    };
    let header = || transcript::coordinator::header(Time::ZERO, &core_config, &cluster, &stripes);
    let recording = record.map(|to| to.begin(&header())).transpose().context("cannot record")?;
    let core = Coordinator::new(Time::ZERO, core_config, cluster, stripes);
    let mut core = RecordedCoordinator::new(core, recording);
    store.announce_reserved()?;
    store.announce_inconsistent()?;
    store.announce_faults()?;
    store.take_changes().into_iter().for_each(|change| core.handle(Time::ZERO, change));
    if is_hdfs {
        // Blocks that are not at risk are stripes of which nothing is known here.
        let (from, below) = (StripeId(0), StripeId(STRIPES_MAX));
        core.handle(Time::ZERO, Input::StripesReserved { below, writing: Vec::new() });
        core.handle(Time::ZERO, Input::StripesUnknown { from, below });
    }
    Ok((core, nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pause_lasts_longer_than_an_operator_can_say_whatever_the_clock_was() {
        let now = seconds_since_1970();
        let kept = [(NodeId(0), now - 1), (NodeId(1), now + 60), (NodeId(2), now + (56 << 25))];
        let left = pauses_left(&kept);
        assert_eq!(left.iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [1, 2]);
        assert!(left[0].1 <= Span::from_secs(60), "{left:?}");
        assert_eq!(left[1].1, Span::from_secs(PAUSE_MAX.as_secs()));
    }
}
