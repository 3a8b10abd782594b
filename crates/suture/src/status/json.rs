//! What the coordinator reports of its cluster, as JSON for scripts.
//!
//! Place: beside every step of failure -> ... -> stripe healthy, for all commands that show it.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use suture_drivers::control::proto;
use suture_drivers::control::summary::{crowded_stripes, node_state, percent_of_bound, state};

use super::in_order;

/// The status for scripts.
pub fn describe(status: &proto::StatusReply) -> Value {
    let running = status.running.iter().map(|repair| {
        json!({
            "repair": repair.repair,
            "stripe": repair.stripe,
            "chunk": repair.chunk,
            "destination": repair.destination,
            "bytes_done": repair.bytes_done,
            "bytes": repair.bytes,
            "seconds": repair.seconds,
        })
    });
    json!({
        "state": state(status),
        "cluster": status.cluster,
        "epoch": status.epoch,
        "uptime_seconds": status.uptime_seconds,
        "age_seconds": status.age_seconds,
        "warnings": status.warnings,
        "fault": status.fault,
        "paused": status.paused,
        "nodes": describe_nodes(&status.nodes),
        "at_risk": status.at_risk,
        "queued_stripes": status.queued_stripes,
        "degraded_stripes": status.degraded_stripes,
        "unreadable_stripes": status.unreadable_stripes,
        "crowded_stripes": crowded_stripes(status),
        "crowded_racks": describe_crowded(&status.crowded),
        "lost_chunks": status.lost_chunks,
        "lost_bytes": status.lost_bytes,
        "leaving_chunks": status.leaving_chunks,
        "leaving_bytes": status.leaving_bytes,
        "beyond_stripes": status.beyond_stripes,
        "stuck_chunks": status.stuck_chunks,
        "stuck_bytes": status.stuck_bytes,
        "rebalancing_chunks": status.rebalancing_chunks,
        "rebalancing_bytes": status.rebalancing_bytes,
        "repaired_chunks": status.repaired_chunks,
        "repaired_bytes": status.repaired_bytes,
        "bytes_per_second": status.rate,
        "bound_seconds": status.bound_seconds,
        "bound_bytes_per_second": status.bound_rate,
        "percent_of_bound": percent_of_bound(status),
        "eta_seconds": status.eta_seconds,
        "eta_low_seconds": status.eta_low_seconds,
        "eta_high_seconds": status.eta_high_seconds,
        "running": running.collect::<Vec<_>>(),
        "blocked": describe_blocked(&status.blocked),
        "scrub": describe_scrub(&status.scrub.clone().unwrap_or_default()),
        "throttle": describe_throttle(&status.throttle.clone().unwrap_or_default()),
        "planned_repairs": status.planned_repairs,
        "planned_seconds": status.planned_seconds,
        "history": describe_history(&status.history),
        "refused_agents": describe_refused(&status.refused),
        "hdfs": status.hdfs.as_ref().map(describe_hdfs),
    })
}

/// Racks without which stripes could not be read, for scripts.
fn describe_crowded(racks: &[proto::CrowdedRack]) -> Vec<Value> {
    let rack = |rack: &proto::CrowdedRack| json!({ "rack": rack.rack, "stripes": rack.stripes });
    racks.iter().map(rack).collect()
}

/// How HDFS stands, for scripts.
fn describe_hdfs(hdfs: &proto::HdfsStatus) -> Value {
    json!({
        "mode": if hdfs.observes { "observe" } else { "repair" },
        "connected": hdfs.connected,
        "standing_seconds": hdfs.seconds,
        "namenodes": hdfs.namenodes,
        "pool": Some(&hdfs.pool).filter(|pool| !pool.is_empty()),
        "leased": hdfs.leased,
        "no_lease": hdfs.no_lease,
        "groups": hdfs.groups,
        "left_groups": hdfs.left_groups,
    })
}

/// Agents that were refused, for scripts.
pub fn describe_refused(agents: &[proto::RefusedAgent]) -> Vec<Value> {
    let agent = |agent: &proto::RefusedAgent| {
        let cluster = Some(&agent.cluster).filter(|cluster| !cluster.is_empty());
        json!({
            "name": agent.name,
            "cluster": cluster,
            "why": agent.why,
            "seconds_ago": agent.seconds_ago,
        })
    };
    agents.iter().map(agent).collect()
}

/// What was repaired, for scripts.
fn describe_history(history: &[proto::Episode]) -> Vec<Value> {
    let episode = |episode: &proto::Episode| {
        json!({
            "began": episode.began,
            "seconds": episode.seconds,
            "ended": episode.ended,
            "failed": episode.failed,
            "failed_nodes": episode.failed_nodes,
            "bad_copies": episode.bad_copies,
            "chunks": episode.chunks,
            "bytes": episode.bytes,
            "failed_attempts": episode.failed_attempts,
        })
    };
    history.iter().map(episode).collect()
}

/// How scrubbing stands, as JSON for scripts.
pub fn describe_scrub(scrub: &proto::ScrubStatus) -> Value {
    json!({
        "running": scrub.running,
        "stripes_done": scrub.stripes_done,
        "stripes": scrub.stripes,
        "bytes_done": scrub.bytes_done,
        "put_off_stripes": scrub.put_off_stripes,
        "found_copies": scrub.found_copies,
        "inconsistent": describe_inconsistent(scrub),
        "unread_copies": scrub.unread_copies,
        "unread": describe_unread(scrub),
        "last_begun": scrub.begun,
        "last_ended": scrub.ended,
        "next_seconds": scrub.next_seconds,
        "period_seconds": scrub.period_seconds,
        "least_seconds": scrub.least_seconds,
        "age_seconds": scrub.age_seconds,
        "left_out_copies": scrub.left_out_copies,
    })
}

/// Stripes whose chunks do not fit each other, for scripts.
pub fn describe_inconsistent(scrub: &proto::ScrubStatus) -> Vec<Value> {
    let entry = |entry: &proto::InconsistentStripe| json!({ "stripe": entry.stripe, "object": entry.object });
    scrub.inconsistent.iter().map(entry).collect()
}

/// The first of the copies that could not be read, for scripts.
pub fn describe_unread(scrub: &proto::ScrubStatus) -> Vec<Value> {
    let entry = |entry: &proto::UnreadCopy| {
        json!({
            "stripe": entry.stripe,
            "chunk": entry.chunk,
            "node": entry.node,
            "object": entry.object,
        })
    };
    scrub.unread.iter().map(entry).collect()
}

/// The nodes for scripts, in the order of their names.
pub fn describe_nodes(nodes: &[proto::NodeStatus]) -> Vec<Value> {
    let node = |node: &proto::NodeStatus| {
        json!({
            "node": node.node,
            "name": node.name,
            "rack": node.rack,
            "address": node.address,
            "health": node.health,
            "disk": if node.disk.is_empty() { "good" } else { &node.disk },
            "cut_off": node.cut_off,
            "free_bytes": node.free_bytes,
            "file_system": describe_file_system(node),
            "chunks": node.chunks,
            "put_chunks": node.put_chunks,
            "used_bytes": node.used_bytes,
            "failed_by_operator": node.failed_by_operator,
            "intent": Some(node_state(node)).filter(|state| !state.is_empty()),
            "chunks_before": (node.intent == "draining").then_some(node.chunks_before),
            "paused_seconds": (node.intent == "paused").then_some(node.paused_seconds),
            "uplink": node.uplink.as_ref().map(describe_link),
            "downlink": node.downlink.as_ref().map(describe_link),
            "rack_uplink": node.rack_uplink.as_ref().map(describe_link),
            "rack_downlink": node.rack_downlink.as_ref().map(describe_link),
        })
    };
    in_order(nodes).into_iter().map(node).collect()
}

/// The number of the file system that a node's chunks are on, for scripts: a name that only
/// distinguishes one from another.
pub fn describe_file_system(node: &proto::NodeStatus) -> Option<String> {
    node.file_system.map(|number| format!("{number:016x}"))
}

/// The throttle for scripts. Rates are bytes per second.
pub fn describe_throttle(throttle: &proto::ThrottleStatus) -> Value {
    use proto::throttle::Keep as Word;
    let wanted = throttle.wanted.clone().unwrap_or_default();
    let (keep_percent, keep_rate) = match wanted.keep {
        Some(Word::KeepPercent(part)) => (Some(part), None),
        Some(Word::KeepRate(rate)) => (None, Some(rate)),
        None => (None, None),
    };
    let sorted = |caps: HashMap<String, u64>| -> Value {
        let caps: BTreeMap<String, u64> = caps.into_iter().collect();
        json!(caps)
    };
    json!({
        "cap": wanted.node,
        "nodes": sorted(wanted.nodes),
        "racks": sorted(wanted.racks),
        "total": wanted.total,
        "keep_percent": keep_percent,
        "keep": keep_rate,
        "p99_seconds": wanted.p99_ns.map(|ns| ns as f64 / 1e9),
        "floor": wanted.floor,
        "window": wanted.window,
        "is_default": throttle.is_default,
        "window_closed_seconds": throttle.closed_seconds,
        "moved": throttle.moved,
        "why": throttle.effect,
    })
}

/// One direction of a node's links for scripts, in bytes per second.
fn describe_link(link: &proto::LinkStatus) -> Value {
    json!({
        "capacity": link.capacity,
        "uncertainty": link.uncertainty,
        "is_declared": link.is_declared,
        "applications": link.taken,
        "repair": link.repair,
        "limit": link.limit,
        "why": link.why,
    })
}

/// Blocked stripes for scripts.
pub fn describe_blocked(blocked: &[proto::BlockedStripe]) -> Vec<Value> {
    let entry = |entry: &proto::BlockedStripe| {
        json!({
            "stripe": entry.stripe,
            "object": entry.object,
            "why": entry.why,
            "unrepairable": entry.unrepairable,
            "away": entry.away,
            "node": Some(&entry.node).filter(|node| !node.is_empty()),
        })
    };
    blocked.iter().map(entry).collect()
}
