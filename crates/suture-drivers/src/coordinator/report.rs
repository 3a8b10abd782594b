//! The core's reports as log lines: the story of repairs, for people.
//!
//! Place: beside every step of failure -> ... -> stripe healthy.
//! What an operator must see is a warning, what one wants to see is information, what one looks
//! for afterwards is debug: one line for each stripe would bury the rest. Lines of rebuilt chunks
//! are in `rebuilt_lines`.

use suture_edge::units::{format_seconds, format_size};
use suture_repair::cluster::Cluster;
use suture_repair::event::{Health, Report};
use suture_repair::id::NodeId;
use tracing::{debug, error, info, warn};

/// Writes one report to the log.
pub fn log(report: &Report, cluster: &Cluster) {
    let name = |node: &NodeId| cluster.node(*node).name.as_str();
    match report {
        Report::Node { node, health: Health::Failed, chunks } => {
            warn!(node = name(node), chunks, "node failed: its chunks are lost");
        }
        Report::Node { node, health: Health::Suspect, .. } => {
            warn!(node = name(node), "node is silent: it is not used");
        }
        Report::Node { node, health, .. } => info!(node = name(node), %health, "node"),
        Report::Drained(node) => {
            info!(node = name(node), "node is drained: nothing is left to move");
        }
        Report::ChunkLost { node, copy, fault } => {
            warn!(node = name(node), %copy, %fault, "chunk is lost");
        }
        Report::Planned { repairs, max_load_seconds } => {
            let fullest_link = format_seconds(*max_load_seconds);
            info!(repairs, fullest_link, "planned");
        }
        Report::PlannerPanicked { message } => {
            error!(panic = %message, "the planner has a mistake and panicked; plans are made one \
                by one, and are slower; please report this with the lines above");
        }
        Report::Started { repair, plan } => {
            let destinations = plan.destinations.values().map(name).collect::<Vec<_>>().join(",");
            debug!(%repair, stripe = %plan.stripe, destinations, "repair began");
        }
        Report::Replaced { repair, by, without } => {
            let without = without.iter().map(name).collect::<Vec<_>>().join(",");
            debug!(%repair, %by, without, "repair goes on by another plan");
        }
        Report::Committed { repair, copy, node, bytes } => {
            let size = format_size(*bytes);
            debug!(%repair, %copy, node = name(node), size, "chunk has another location");
        }
        Report::Failed { repair, node, why } => {
            let node = node.as_ref().map_or("nobody", name);
            warn!(%repair, reported_by = node, %why, "repair failed; its stripe is planned anew");
        }
        Report::Blocked { stripe, why } => debug!(%stripe, %why, "stripe cannot be repaired yet"),
        Report::Healthy(stripe) => debug!(%stripe, "stripe is healthy"),
        Report::PassBegun => info!("scrub began: every copy is read"),
        Report::PassEnded { stripes, bytes } => {
            info!(stripes, read = format_size(*bytes), "scrub ended");
        }
        Report::Inconsistent { stripe, odd } => {
            let chunk = odd.map(|chunk| chunk.0);
            warn!(%stripe, chunk, "chunks do not fit each other, though each has its checksum");
        }
        Report::OtherBytes { node, copy } => {
            warn!(node = name(node), %copy, "a copy has other bytes than recorded; it is left alone");
        }
        Report::CutOff { node, is_cut_off: true } => warn!(
            node = name(node),
            "no other agent can reach it, though its heartbeats arrive: it counts as silent; check \
             that its data port is open"
        ),
        Report::CutOff { node, is_cut_off: false } => {
            info!(node = name(node), "other agents can reach it again");
        }
        Report::Excess { node, copy } => {
            debug!(node = name(node), %copy, "excess copy is deleted");
        }
    }
}
