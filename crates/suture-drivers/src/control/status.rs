//! What `status` says of the cluster, in the protocol's words.
//!
//! Place: beside every step of failure -> ... -> stripe healthy. The core and the driver know the
//! state; this encodes it for the caller.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use suture_edge::units::{format_seconds, format_size};
use suture_repair::cluster::{Cluster, NodeIntent};
use suture_repair::coordinator::Coordinator as Core;
use suture_repair::event::{Blocked, Health, NodeStatus, Status};
use suture_repair::id::{NodeId, RackId, StripeId};
use suture_repair::message::DiskState;
use suture_repair::stripe::Stripe;
use suture_repair::time::Time;

use super::{proto, scrub, throttle};
use crate::coordinator::CoordinatorDriver;
use crate::coordinator::history::Episode;
use crate::coordinator::refused::RefusedAgent;
use crate::hdfs::view::HdfsSeen;

/// Agents that are named of those that were refused.
const REFUSED_SHOWN: usize = 8;

/// Nodes that are named of those without a rack.
const RACKLESS_SHOWN: usize = 3;

pub(super) fn fault_warning(fault: &str) -> String {
    // A full disk takes what there is space for in the log, and nothing after that.
    format!("storing, removing, repairing and commands fail, or soon will: {fault}")
}

pub(super) fn audit_warning(fault: &str) -> String {
    format!("changes are refused, since the audit log cannot be written: {fault}")
}

pub(super) fn damage_warning(what: &str) -> String {
    format!("the metadata are damaged: {what}")
}

pub(super) fn unknown_warning(copies: u64) -> String {
    format!(
        "the metadata are older than the chunks (restored from a backup?): agents hold {copies} \
         chunks of stripes of which nothing is known; they are kept, and `suture metadata rebuild` \
         finds their objects; with --agents N --forget-rest it lets those go that belong to none"
    )
}

pub(super) fn set_back_warning() -> String {
    "the metadata are older than what agents know of (restored from a backup or a snapshot?): what \
     was put without bytes, removed or declared since is not known. The metadata-backup.db of agents \
     are from before: use the newest (suture metadata restore). Or complete these from the chunks \
     (suture metadata rebuild); until then backups of these are kept as metadata-backup-older.db"
        .into()
}

/// What to know of agents that were refused: in a sentence where they are of one other cluster.
pub(super) fn refused_warnings(agents: &[proto::RefusedAgent]) -> Vec<String> {
    let mut of_cluster: BTreeMap<&str, Vec<&proto::RefusedAgent>> = BTreeMap::new();
    agents.iter().for_each(|agent| of_cluster.entry(&agent.cluster).or_default().push(agent));
    let own = of_cluster.remove("").unwrap_or_default();
    let of_others = of_cluster.into_iter().map(|(cluster, agents)| {
        let others = agents.len().saturating_sub(REFUSED_SHOWN);
        let more = (others > 0).then(|| format!("{others} more"));
        let names = agents.iter().take(REFUSED_SHOWN).map(|agent| agent.name.clone());
        let names: Vec<String> = names.chain(more).collect();
        format!("agents of another cluster, {cluster}, are refused: {}", names.join(", "))
    });
    let others = own.len().saturating_sub(REFUSED_SHOWN);
    let more = (others > 0).then(|| format!("{others} more agents are refused"));
    let own = own.iter().take(REFUSED_SHOWN);
    let own = own.map(|agent| {
        let ago = format_seconds(agent.seconds_ago);
        format!("agent '{}' was refused {ago} ago: {}", agent.name, agent.why)
    });
    of_others.chain(own).chain(more).collect()
}

pub(super) fn backup_warning(age: Duration) -> String {
    format!(
        "no agent has kept a backup of the metadata for {}: their logs say why; until then only this coordinator's disk has them",
        format_seconds(age.as_secs_f64())
    )
}

pub(super) fn replaced_warning(name: &str) -> String {
    format!(
        "'{name}' is to be replaced: the next store that joins under this name has it, and what the old one held is rebuilt"
    )
}

/// What to know where some nodes have a rack and others none.
pub(super) fn rack_warning(nodes: &[proto::NodeStatus]) -> Option<String> {
    let standing = nodes.iter().filter(|node| node.health != "failed");
    let (with, without): (Vec<_>, Vec<_>) = standing.partition(|node| node.rack.is_some());
    if with.is_empty() || without.is_empty() {
        return None;
    }
    let names = without.iter().take(RACKLESS_SHOWN).map(|node| node.name.as_str());
    let more = if without.len() > RACKLESS_SHOWN { ", ..." } else { "" };
    Some(format!(
        "of {} nodes {} have no rack ({}{more}), and the others have one: each without counts as a \
         rack of its own, whatever fails together with it; set rack in agent.toml on all nodes or \
         on none",
        with.len() + without.len(),
        without.len(),
        names.collect::<Vec<_>>().join(", ")
    ))
}

/// What to know of racks that have more chunks of a stripe than may be lost together.
pub(super) fn crowded_warning(crowded: &[proto::CrowdedRack]) -> Option<String> {
    if crowded.is_empty() {
        return None;
    }
    let stripes = match crowded.iter().map(|rack| rack.stripes).sum::<u64>() {
        1 => "1 stripe".to_owned(),
        stripes => format!("{stripes} stripes"),
    };
    let racks = crowded.iter().map(|rack| format!("'{}' ({})", rack.rack, rack.stripes));
    Some(format!(
        "{stripes} could not be read without a single rack, {}: more of their chunks are in it \
         than may be lost together. Empty its nodes one after the other (suture node drain, and \
         suture node return once it is drained): their chunks go to other racks. Where racks are \
         too few for the code, add one, or store the objects again with a code that can lose more",
        racks.collect::<Vec<_>>().join(", ")
    ))
}

fn describe_crowded(status: &Status, cluster: &Cluster) -> Vec<proto::CrowdedRack> {
    let rack = |(rack, stripes): &(RackId, u64)| proto::CrowdedRack {
        rack: cluster.racks[rack.0 as usize].clone(),
        stripes: *stripes,
    };
    status.crowded.iter().map(rack).collect()
}

fn describe_node(driver: &CoordinatorDriver, status: &NodeStatus) -> proto::NodeStatus {
    let core = driver.core();
    let cluster = core.cluster();
    let node = cluster.node(status.node);
    let address = driver.last_address(status.node).map(str::to_owned);
    let [rack_uplink, rack_downlink] =
        node.rack.map(|rack| core.rack_links(rack)).unwrap_or_default();
    let rack_cap = node.rack.and_then(|rack| core.rack_cap(rack));
    proto::NodeStatus {
        node: status.node.0,
        name: node.name.clone(),
        address: address.unwrap_or_default(),
        health: status.health.to_string(),
        free_bytes: driver.unreported().free_beside(status.node, status.free_bytes),
        disk: match status.disk {
            DiskState::Good => String::new(),
            other => other.to_string(),
        },
        cut_off: status.is_cut_off,
        file_system: driver.file_system(status.node),
        chunks: status.chunks,
        put_chunks: driver.uncommitted_on(status.node),
        used_bytes: core.stripes().bytes_on(status.node),
        failed_by_operator: status.intent == NodeIntent::Failed,
        rack: node.rack.map(|rack| cluster.racks[rack.0 as usize].clone()),
        intent: intent_word(status.intent).to_owned(),
        chunks_before: match status.intent {
            NodeIntent::Draining { chunks } => chunks,
            _ => 0,
        },
        paused_seconds: match status.intent {
            NodeIntent::Paused { until } => until.since(driver.now()).as_secs_f64(),
            _ => 0.0,
        },
        uplink: Some(throttle::describe_link(status, true, cluster)),
        downlink: Some(throttle::describe_link(status, false, cluster)),
        rack_uplink: throttle::describe_rack_link(rack_uplink, rack_cap),
        rack_downlink: throttle::describe_rack_link(rack_downlink, rack_cap),
    }
}

pub(super) fn describe(
    driver: &CoordinatorDriver,
) -> (proto::StatusReply, Vec<proto::BlockedStripe>) {
    let (core, now) = (driver.core(), driver.now());
    let status = core.status();
    let name = |node: NodeId| core.cluster().node(node).name.clone();
    let running = status.running.iter().map(|repair| proto::Running {
        repair: repair.repair.to_string(),
        stripe: repair.stripe.0,
        chunk: repair.chunk.0.into(),
        destination: name(repair.destination),
        bytes_done: repair.bytes_done,
        bytes: repair.bytes,
        seconds: now.since(repair.since).as_secs_f64(),
    });
    let eta = driver.meter().eta(now, &status);
    let bound = driver.repair_bound();
    let (milestones, episodes) = (driver.meter().milestones(), driver.meter().history().episodes());
    let seconds = |at: Time| at.since(Time::ZERO).as_secs_f64();
    let reply = proto::StatusReply {
        paused: status.paused,
        nodes: status.nodes.iter().map(|node| describe_node(driver, node)).collect(),
        at_risk: status.at_risk.clone(),
        queued_stripes: status.queued,
        degraded_stripes: status.degraded,
        unreadable_stripes: status.unreadable,
        lost_chunks: status.lost_chunks,
        lost_bytes: status.lost_bytes,
        leaving_chunks: status.leaving_chunks,
        leaving_bytes: status.leaving_bytes,
        beyond_stripes: status.beyond,
        stuck_chunks: status.stuck_chunks,
        stuck_bytes: status.stuck_bytes,
        rebalancing_chunks: status.rebalance.chunks,
        rebalancing_bytes: status.rebalance.bytes_left,
        repaired_chunks: status.repaired_chunks,
        repaired_bytes: status.repaired_bytes,
        running: running.collect(),
        rate: driver.meter().rate(),
        eta_seconds: eta.map(|eta| eta.seconds),
        eta_low_seconds: eta.map(|eta| eta.low),
        eta_high_seconds: eta.map(|eta| eta.high),
        bound_seconds: bound.map(|bound| bound.seconds),
        bound_rate: bound.map(|bound| bound.bytes_per_second()),
        uptime_seconds: seconds(now),
        declared_seconds: milestones.declared_at.map(seconds),
        started_seconds: milestones.started_at.map(seconds),
        committed_seconds: milestones.committed_at.map(seconds),
        planned_repairs: milestones.planned_repairs,
        planned_seconds: milestones.planned_seconds,
        scrub: Some(scrub::describe(&status.scrub, driver.scrub_times(), name)),
        throttle: Some(throttle::describe(
            driver.throttle(),
            driver.is_throttle_default(),
            &status,
            core.cluster(),
        )),
        history: episodes.map(|of| describe_episode(driver, of)).collect(),
        refused: driver.refused_agents().into_iter().map(describe_refused).collect(),
        is_empty: core.stripes().is_empty(),
        hdfs: driver.hdfs_seen().map(describe_hdfs),
        crowded: describe_crowded(&status, core.cluster()),
        ..Default::default()
    };
    let blocked = status.blocked.iter();
    let refusal = |stripe: StripeId| driver.hdfs_refusal(stripe);
    let blocked = blocked.map(|(stripe, why)| blocked_stripe(core, *stripe, why, refusal));
    (reply, blocked.collect())
}

fn describe_hdfs(seen: HdfsSeen) -> proto::HdfsStatus {
    let now = Instant::now();
    proto::HdfsStatus {
        observes: seen.observes,
        connected: seen.is_connected(now),
        seconds: seen.standing_for(now).as_secs_f64(),
        namenodes: seen.namenodes as u32,
        leased: seen.is_leased(now),
        no_lease: seen.no_lease(now),
        groups: seen.groups as u64,
        left_groups: seen.left as u64,
        pool: seen.pool.unwrap_or_default(),
    }
}

fn describe_refused(agent: RefusedAgent) -> proto::RefusedAgent {
    let cluster = agent.cluster.map(|cluster| cluster.to_string()).unwrap_or_default();
    let seconds_ago = agent.ago.as_secs_f64();
    proto::RefusedAgent { name: agent.name, cluster, why: agent.why, seconds_ago }
}

fn describe_episode(driver: &CoordinatorDriver, episode: &Episode) -> proto::Episode {
    let until = if episode.has_ended {
        episode.rebuilt_at.unwrap_or(episode.began_at)
    } else {
        driver.now()
    };
    let name = |node: &NodeId| driver.core().cluster().node(*node).name.clone();
    proto::Episode {
        began: episode.began,
        seconds: until.since(episode.began_at).as_secs_f64(),
        ended: episode.has_ended,
        failed: episode.failed.iter().map(name).collect(),
        failed_nodes: episode.failed_nodes,
        bad_copies: episode.bad_copies,
        chunks: episode.chunks,
        bytes: episode.bytes,
        failed_attempts: episode.failed_attempts,
    }
}

/// What the operator wants of a node, in the protocol's word.
fn intent_word(intent: NodeIntent) -> &'static str {
    match intent {
        NodeIntent::Serving => "",
        NodeIntent::Failed => "failed",
        NodeIntent::Draining { .. } => "draining",
        NodeIntent::Paused { .. } => "paused",
    }
}

/// A stripe that waits, and why; a claim may have been refused for a reason that `refusal` knows.
fn blocked_stripe(
    core: &Core,
    stripe: StripeId,
    why: &Blocked,
    refusal: impl Fn(StripeId) -> Option<String>,
) -> proto::BlockedStripe {
    // The core knows nodes by number only.
    let name = |node: &NodeId| core.cluster().node(*node).name.clone();
    let mut failed = String::new();
    let text = match why {
        Blocked::Pool { node, needed, pool } => format!(
            "{} has {} of slice memory, one repair needs {}: raise its memory",
            name(node),
            format_size(*pool),
            format_size(*needed)
        ),
        Blocked::Failing { attempts, node: Some(node), why } => {
            failed = name(node);
            format!("{attempts} attempts failed; last at {failed}: {why}")
        }
        Blocked::Disputed { node } => {
            failed = name(node);
            format!("its block at {failed} is of no use, and HDFS counts it as good")
        }
        Blocked::Claimed => match refusal(stripe) {
            Some(reason) => format!("its claim is refused: {reason}"),
            None => why.to_string(),
        },
        why => why.to_string(),
    };
    let mut nodes = core.stripes().get(stripe).into_iter().flat_map(Stripe::nodes);
    let away = nodes.any(|node| core.health(node) != Health::Up);
    let unrepairable = why.is_unrepairable();
    proto::BlockedStripe {
        stripe: stripe.0,
        object: String::new(),
        why: text,
        unrepairable,
        away,
        node: failed,
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::Rate;
    use suture_repair::message::Failure;
    use suture_repair::stripe::StripeMap;

    use super::*;
    use crate::config::CoordinatorConfig;
    use crate::hdfs::view::HdfsView;

    /// A coordinator of nodes `n0` to `n3` and of no stripes.
    fn coordinator() -> Core {
        let config = CoordinatorConfig::default().core();
        Core::new(Time::ZERO, config, Cluster::uniform(4, Rate(1e9)), StripeMap::default())
    }

    #[test]
    fn the_node_of_the_last_failure_is_called_by_its_name() {
        let core = coordinator();
        for (node, name, text) in [
            (Some(NodeId(3)), "n3", "3 attempts failed; last at n3: the disk is full"),
            (None, "", "3 attempts failed; last: the disk is full"),
        ] {
            let why = Blocked::Failing { attempts: 3, node, why: Failure::NoSpace };
            let described = blocked_stripe(&core, StripeId(7), &why, |_| None);
            assert_eq!((described.stripe, &*described.node, &*described.why), (7, name, text));
            assert!(!described.unrepairable && !described.away);
        }
        let pool = Blocked::Pool { node: NodeId(2), needed: 9, pool: 5 };
        let described = blocked_stripe(&core, StripeId(7), &pool, |_| None);
        assert!(
            described.why.starts_with("n2 has 5 B of slice memory") && described.node.is_empty(),
            "{}",
            described.why
        );
    }

    #[test]
    fn racks_of_some_nodes_are_warned_of_and_of_all_or_none_are_not() {
        let node = |name: &str, rack: Option<&str>| proto::NodeStatus {
            name: name.into(),
            health: "up".into(),
            rack: rack.map(str::to_owned),
            ..Default::default()
        };
        let [racked, bare] = [node("n1", Some("r1")), node("n2", None)];
        assert_eq!(rack_warning(&[]), None);
        assert_eq!(rack_warning(&[racked.clone(), racked.clone()]), None);
        assert_eq!(rack_warning(&[bare.clone(), bare.clone()]), None);
        let gone = proto::NodeStatus { health: "failed".into(), ..bare.clone() };
        assert_eq!(rack_warning(&[racked.clone(), gone]), None);
        let warning = rack_warning(&[racked, bare]).unwrap();
        assert!(warning.starts_with("of 2 nodes 1 have no rack (n2), and"), "{warning}");
    }

    #[test]
    fn a_rack_that_could_take_stripes_with_it_is_named_with_what_to_do() {
        assert_eq!(crowded_warning(&[]), None);
        let status = Status { crowded: vec![(RackId(1), 9), (RackId(2), 3)], ..Status::default() };
        let mut cluster = Cluster::uniform(1, Rate(1e9));
        for name in ["r1", "r2", "r3"] {
            cluster.rack(name);
        }
        let crowded = describe_crowded(&status, &cluster);
        let said = crowded_warning(&crowded).unwrap();
        let begins = "12 stripes could not be read without a single rack, 'r2' (9), 'r3' (3): more";
        assert!(said.starts_with(begins) && said.contains("suture node drain"), "{said}");
        let one = [proto::CrowdedRack { rack: "r1".into(), stripes: 1 }];
        assert!(crowded_warning(&one).unwrap().starts_with("1 stripe could"));
    }

    #[test]
    fn of_an_agent_that_was_refused_it_is_said_when() {
        let why = "'n2' is the name of another store".to_owned();
        let agent =
            RefusedAgent { name: "n2".into(), cluster: None, why, ago: Duration::from_secs(40) };
        let warnings = refused_warnings(&[describe_refused(agent)]);
        let ago = format_seconds(40.0);
        let expected =
            format!("agent 'n2' was refused {ago} ago: 'n2' is the name of another store");
        assert_eq!(warnings, [expected]);
    }

    #[test]
    fn a_claim_that_hdfs_refused_waits_for_what_it_said() {
        let core = coordinator();
        let text = |refusal: Option<&str>| {
            let known =
                |stripe: StripeId| refusal.filter(|_| stripe == StripeId(7)).map(str::to_owned);
            blocked_stripe(&core, StripeId(7), &Blocked::Claimed, known).why
        };
        assert_eq!(text(None), "another repair has claimed it");
        let said = text(Some("the NameNode is repairing it"));
        assert_eq!(said, "its claim is refused: the NameNode is repairing it");
    }

    #[test]
    fn what_is_said_of_hdfs_is_what_was_seen() {
        let mut seen = HdfsView::new(false).seen();
        (seen.namenodes, seen.groups, seen.left) = (2, 9, 3);
        seen.pool = Some("BP-1".into());
        let described = describe_hdfs(seen);
        assert!(
            !described.connected
                && !described.leased
                && !described.observes
                && described.seconds >= 0.0
        );
        assert_eq!((described.namenodes, described.groups, described.left_groups), (2, 9, 3));
        assert_eq!(described.pool, "BP-1");
        assert_eq!(described.no_lease.as_deref(), Some("no active NameNode answers"));
    }
}
