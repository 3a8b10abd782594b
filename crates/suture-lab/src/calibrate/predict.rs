//! The same scenario on the fluid network.
//!
//! Place: the whole life of a repair; the coordinator decides, and links are a model.

use anyhow::{Result, ensure};
use suture_repair::cluster::{Cluster, Node, Rate};
use suture_repair::policy::Policy;
use suture_repair::stripe::Stripe;
use suture_sim::capacity::Capacities;
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Overheads, Scenario};
use suture_sim::simulate::simulate;
use suture_terminal::output::counted;

use super::measure::MeasuredRepair;

/// Seconds from the first dispatch to the last chunk of what was measured: the same nodes, stripes,
/// failures and choices.
///
/// # Errors
/// When the simulated coordinator rebuilt something else, or planned other loads.
pub fn predict(measured: &MeasuredRepair, policy: Policy, overheads: Overheads) -> Result<f64> {
    let node = |(name, link): &(String, crate::demo::processes::LinkRates)| Node {
        downlink: Rate(link.down),
        ..Node::new(name.clone(), Rate(link.up))
    };
    let nodes = measured.nodes.iter().map(node).collect();
    let cluster = Cluster { nodes, ..Cluster::default() };
    let is_hit = |stripe: &&Stripe| {
        stripe.chunks.iter().any(|c| c.node.is_some_and(|node| measured.failed.contains(&node)))
    };
    let scenario = Scenario {
        capacities: Capacities::new(cluster, None, None, Vec::new()),
        stripes: measured.stripes.iter().filter(is_hit).cloned().collect(),
        failed: measured.failed.clone(),
        silent: Vec::new(),
        free_bytes: Vec::new(),
        policy,
        seed: measured.seed,
        overheads,
        throttle: None,
        foreground: None,
        timeline_buckets: None,
        exact_entries: EXACT_ENTRIES,
    };
    let outcome = simulate(&scenario, &mut || 0);
    ensure!(
        outcome.rebuilt.len() as u64 == measured.chunks && outcome.unrepaired.is_empty(),
        "the agents rebuilt {}, the simulated ones {}",
        counted(measured.chunks, "chunk"),
        outcome.rebuilt.len(),
    );
    Ok(outcome.seconds)
}
