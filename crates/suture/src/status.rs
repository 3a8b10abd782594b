//! What the coordinator reports of its cluster, put into words.
//!
//! Place: beside every step of failure -> ... -> stripe healthy, for all commands that show it.

mod json;

use std::collections::BTreeMap;

use comfy_table::ColumnConstraint;
use suture_drivers::control::proto;
use suture_drivers::control::summary::{is_blind, is_foreign, is_inconsistent};
use suture_edge::units::{format_link_rate, format_seconds, format_size};
use suture_terminal::output::{counted, print_table, table};

use crate::outcome::Outcome;
use crate::timestamp::format_timestamp;

pub use json::{
    describe, describe_blocked, describe_file_system, describe_inconsistent, describe_nodes,
    describe_scrub, describe_throttle, describe_unread,
};
pub use suture_drivers::control::summary::{
    age_line, ask, ask_soon, by_number, node_state, observes, rate_and_eta, state, summary,
};

/// Rows of a list that a person reads; the rest is counted.
pub const ROWS_SHOWN: usize = 10;

/// Objects named as examples.
const OBJECTS_SHOWN: usize = 3;

/// The exit status of a command that shows this: whether anything cannot be read, or cannot be
/// repaired before something changes. What waits for a window, or because an operator paused
/// repairs, can be.
pub fn outcome(status: &proto::StatusReply) -> Outcome {
    let unrepairable = status.blocked.iter().any(|entry| entry.unrepairable);
    let is_unwell = is_inconsistent(status) || is_foreign(status) || status.fault.is_some();
    let is_unwell = is_unwell || is_blind(status);
    if unrepairable || status.unreadable_stripes > 0 || is_unwell || is_stuck(status) {
        Outcome::Unrepairable
    } else {
        Outcome::Done
    }
}

/// Whether lost chunks have nowhere to go, or wait for something else that no repair brings. While
/// repairs are paused none is tried, so it is unknown.
fn is_stuck(status: &proto::StatusReply) -> bool {
    status.stuck_chunks > 0 && !status.paused
}

/// The nodes by name, `n9` before `n10`, whichever registered first.
fn in_order(nodes: &[proto::NodeStatus]) -> Vec<&proto::NodeStatus> {
    let mut nodes: Vec<&proto::NodeStatus> = nodes.iter().collect();
    nodes.sort_by_cached_key(|node| by_number(&node.name));
    nodes
}

/// The table of nodes.
pub fn print_nodes(nodes: &[proto::NodeStatus]) {
    if nodes.is_empty() {
        outln!("no node has joined yet: start agents (suture agent)");
        return;
    }
    let nodes = in_order(nodes);
    let has_racks = nodes.iter().any(|node| node.rack.is_some());
    let headings = ["node", "health", "chunks", "free", "address", "rack", "uplink", "downlink"];
    let mut rows = table(headings, &[2, 3, 6, 7]);
    for node in nodes.iter().copied() {
        rows.add_row([
            node.name.clone(),
            describe_health(node),
            node.chunks.to_string(),
            format_size(node.free_bytes),
            node.address.clone(),
            node.rack.clone().unwrap_or_else(|| "-".into()),
            link_cell(node.uplink.as_ref()),
            link_cell(node.downlink.as_ref()),
        ]);
    }
    if let Some(column) = rows.column_mut(5).filter(|_| !has_racks) {
        column.set_constraint(ColumnConstraint::Hidden);
    }
    print_table(&rows);
    rack_lines(&nodes).into_iter().for_each(|line| outln!("{line}"));
}

/// What racks send to all others and receive from them, of those of which that is known.
fn rack_lines(nodes: &[&proto::NodeStatus]) -> Vec<String> {
    let mut racks = BTreeMap::new();
    for node in nodes {
        let links = [&node.rack_uplink, &node.rack_downlink].map(Option::as_ref);
        if let Some(rack) = &node.rack
            && links.iter().any(Option::is_some)
        {
            racks.insert(rack, links.map(link_cell));
        }
    }
    let line = |(rack, [up, down]): (&String, [String; 2])| {
        format!("rack {rack} sends {up} to all others, and receives {down}")
    };
    racks.into_iter().map(line).collect()
}

/// How a node is with its disk, and what the operator wants of it.
fn describe_health(node: &proto::NodeStatus) -> String {
    let health = match node.disk.as_str() {
        _ if node.cut_off => format!("{}, unreachable by other agents", node.health),
        "" => node.health.clone(),
        disk => format!("{}, disk {disk}", node.health),
    };
    match node_state(node) {
        "failed" => format!("{health} (by operator)"),
        "drained" => format!("{health}, drained"),
        "draining" => {
            let all = node.chunks_before.max(node.chunks);
            let puts = match node.put_chunks {
                0 => String::new(),
                count => format!(", and {} of puts under way", counted(count, "chunk")),
            };
            format!("{health}, draining: {} of {all} moved{puts}", all - node.chunks)
        }
        "paused" => format!("{health}, paused for {}", format_seconds(node.paused_seconds)),
        _ => health,
    }
}

/// What a direction carries and how sure that is, and what repair may have of it.
fn link_cell(link: Option<&proto::LinkStatus>) -> String {
    let Some(link) = link else { return "-".into() };
    let known = format_link_rate(link.capacity as f64);
    let known = match link.uncertainty {
        Some(off) => {
            let percent = 100 * off / link.capacity.max(1);
            format!("{known} +-{percent} %")
        }
        None if link.is_declared => known,
        None => format!("{known} ?"),
    };
    match link.limit {
        Some(limit) => {
            format!("{known}, repair {} ({})", format_link_rate(limit as f64), link.why)
        }
        None => known,
    }
}

/// The stripes that wait for something to change, by what they wait for.
pub fn print_blocked(blocked: &[proto::BlockedStripe]) {
    if blocked.is_empty() {
        return;
    }
    // What is beyond repair comes first.
    let mut groups: BTreeMap<(bool, &str), Vec<&proto::BlockedStripe>> = BTreeMap::new();
    for entry in blocked {
        groups.entry((!entry.unrepairable, &entry.why)).or_default().push(entry);
    }
    outln!();
    for ((_, why), entries) in groups.iter().take(ROWS_SHOWN) {
        let mut objects: Vec<&str> = entries.iter().map(|entry| entry.object.as_str()).collect();
        objects.dedup();
        let more = if objects.len() > OBJECTS_SHOWN { ", ..." } else { "" };
        objects.truncate(OBJECTS_SHOWN);
        let stripes = counted(entries.len() as u64, "stripe");
        outln!("blocked: {stripes} of {}{more}: {why}", objects.join(", "));
    }
    print_rest(groups.len());
}

/// That a list of so many was cut short, if it was.
pub fn print_rest(count: usize) {
    if count > ROWS_SHOWN {
        outln!("... and {} more", count - ROWS_SHOWN);
    }
}

/// What repair may take and why it is that, in a line; nothing where nothing is limited.
pub fn throttle_line(status: &proto::StatusReply) -> Option<String> {
    let throttle = status.throttle.as_ref()?;
    let closed = throttle.closed_seconds.map(|seconds| {
        let opens = format_seconds(seconds);
        format!("the window opens in {opens}; until then only what has no margin is repaired")
    });
    let effect = Some(throttle.effect.clone()).filter(|effect| !effect.is_empty());
    let parts: Vec<String> = closed.into_iter().chain(effect).collect();
    if parts.is_empty() {
        return None;
    }
    let moved = if status.running.is_empty() {
        String::new()
    } else {
        format!("repairs move {}; ", format_link_rate(throttle.moved as f64))
    };
    Some(format!("throttle: {moved}{}", parts.join("; ")))
}

/// How HDFS stands, in a line; nothing where it keeps no stripes.
pub fn hdfs_line(status: &proto::StatusReply) -> Option<String> {
    let hdfs = status.hdfs.as_ref()?;
    let standing = match (hdfs.connected, hdfs.pool.as_str()) {
        (true, pool) => format!("the NameNode of {pool} answers"),
        (false, _) => format!("no active NameNode answers, for {}", format_seconds(hdfs.seconds)),
    };
    let left = match hdfs.left_groups {
        0 => String::new(),
        left => format!(", {left} of which it may rebuild"),
    };
    let groups = counted(hdfs.groups, "group");
    let repairs = match &hdfs.no_lease {
        None => "its lost blocks are left to Suture".to_owned(),
        Some(_) if !hdfs.connected => "it repairs by itself".to_owned(),
        Some(why) => format!("it repairs by itself: {why}"),
    };
    Some(format!("HDFS: {standing}; {groups} at risk{left}; {repairs}"))
}

/// What moves so that no node holds much less than others, in a line; nothing where nothing does.
pub fn rebalance_line(status: &proto::StatusReply) -> Option<String> {
    let (chunks, left) = (status.rebalancing_chunks, status.rebalancing_bytes);
    if chunks == 0 {
        return None;
    }
    let chunks = counted(chunks, "chunk");
    Some(match left {
        0 => format!("rebalance: {chunks} moving to emptier nodes"),
        left => format!("rebalance: {chunks} moving to emptier nodes, {} to go", format_size(left)),
    })
}

/// The last repair that came to its end, in a line; nothing where there was none.
pub fn last_repair_line(history: &[proto::Episode]) -> Option<String> {
    let last = history.iter().find(|episode| episode.ended)?;
    let more = last.failed_nodes - last.failed.len() as u64;
    let why = match (last.failed_nodes, last.bad_copies) {
        (0, 0) => String::new(),
        // A disk that was replaced lacks them, whatever became of the other.
        (0, bad) => format!(", {} found bad or gone", counted(bad, "chunk")),
        _ if more > 0 => format!(", {} and {more} more failed", last.failed.join(", ")),
        _ => format!(", {} failed", last.failed.join(", ")),
    };
    Some(format!(
        "last repair: {} UTC{why}: {} ({}) in {}",
        format_timestamp(last.began),
        counted(last.chunks, "chunk"),
        format_size(last.bytes),
        format_seconds(last.seconds),
    ))
}

/// What a pass has not read, since it waits for no node that is paused or dead; nothing where it
/// has read everything.
pub fn left_out(scrub: &proto::ScrubStatus) -> Option<String> {
    match scrub.left_out_copies {
        0 => None,
        1 => Some("1 chunk was not read, since its node is paused or down".into()),
        chunks => {
            Some(format!("{chunks} chunks were not read, since their nodes are paused or down"))
        }
    }
}

/// How copies are searched for damage, in a line; nothing where no scrub has begun.
pub fn scrub_line(scrub: &proto::ScrubStatus) -> Option<String> {
    let found = match scrub.found_copies {
        0 => String::new(),
        found => format!("; {} found since the coordinator's start", counted(found, "bad chunk")),
    };
    let unread = match scrub.unread_copies {
        0 => String::new(),
        unread => format!("; {} cannot be read", counted(unread, "chunk")),
    };
    let left_out = left_out(scrub).map_or_else(String::new, |words| format!("; {words}"));
    let ended = match scrub.ended {
        Some(ended) => format!("last ended {} UTC", format_timestamp(ended)),
        None => "no pass has ended yet".into(),
    };
    if scrub.running {
        let (done, all) = (scrub.stripes_done, scrub.stripes);
        let put_off = match scrub.put_off_stripes {
            0 => String::new(),
            stripes => format!(", {} wait for silent nodes", counted(stripes, "stripe")),
        };
        return Some(format!(
            "scrub: {done} of {}{put_off}; {ended}{found}{unread}{left_out}",
            counted(all, "stripe")
        ));
    }
    scrub.begun?;
    let next = match scrub.next_seconds {
        Some(seconds) => format!(", the next begins in {}", format_seconds(seconds)),
        None => String::new(),
    };
    Some(format!("scrub: {ended}{next}{found}{unread}{left_out}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_the_order_of_their_names_whichever_registered_first() {
        let node = |name: &str| proto::NodeStatus { name: name.into(), ..Default::default() };
        let status = proto::StatusReply {
            nodes: ["n10", "n0", "n9"].map(node).into(),
            ..Default::default()
        };
        let described = describe(&status);
        let names = described["nodes"].as_array().unwrap().iter().map(|node| &node["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["n0", "n9", "n10"]);
    }

    #[test]
    fn what_one_rack_could_take_with_it_is_said_of_what_is_healthy() {
        let rack = |stripes| proto::CrowdedRack { rack: "r1".into(), stripes };
        let crowded = vec![rack(1), rack(2)];
        let status = proto::StatusReply { crowded, ..Default::default() };
        assert_eq!((state(&status), outcome(&status)), ("healthy", Outcome::Done));
        let said = "healthy, but for 3 stripes that could not be read without a single rack";
        assert_eq!(summary(&status), said);
        let described = describe(&status);
        assert_eq!(described["crowded_stripes"], 3);
        assert_eq!(described["crowded_racks"][1]["stripes"], 2);
    }

    #[test]
    fn what_only_waits_is_no_alarm_and_what_has_nowhere_to_go_is_one() {
        let lost = proto::StatusReply { at_risk: vec![0, 1], lost_chunks: 1, ..Default::default() };
        assert_eq!(outcome(&lost), Outcome::Done);
        let closed =
            Some(proto::ThrottleStatus { closed_seconds: Some(9.0), ..Default::default() });
        let waiting = proto::StatusReply { throttle: closed, ..lost.clone() };
        assert_eq!((state(&waiting), outcome(&waiting)), ("waiting", Outcome::Done));
        let blocked = vec![proto::BlockedStripe::default()];
        let stuck = proto::StatusReply { stuck_chunks: 1, blocked, ..lost };
        assert_eq!((state(&stuck), outcome(&stuck)), ("blocked", Outcome::Unrepairable));
        let paused = proto::StatusReply { paused: true, ..stuck };
        assert_eq!((state(&paused), outcome(&paused)), ("paused", Outcome::Done));
        let full = proto::StatusReply { fault: Some("the disk is full".into()), ..paused.clone() };
        assert_eq!((state(&full), outcome(&full)), ("unwritable", Outcome::Unrepairable));
        assert_eq!(
            summary(&full),
            "unwritable: 1 chunk lost (0 B), and storing, removing and repairing fail, or soon \
             will; repairs are paused (suture repair resume)"
        );
        let unreadable = proto::StatusReply { unreadable_stripes: 1, ..paused };
        assert_eq!(outcome(&unreadable), Outcome::Unrepairable);
    }

    #[test]
    fn the_last_repair_is_said_with_what_it_was_for() {
        let mut last =
            proto::Episode { chunks: 2, bytes: 2048, seconds: 1.5, ..Default::default() };
        assert_eq!(last_repair_line(&[last.clone()]), None, "it runs still");
        last.ended = true;
        let said = |of: &proto::Episode| last_repair_line(&[proto::Episode::default(), of.clone()]);
        let took = "2 chunks (2.00 KiB) in 1.50 s";
        assert_eq!(said(&last).unwrap(), format!("last repair: 1970-01-01 00:00:00 UTC: {took}"));
        last.bad_copies = 1;
        assert!(
            said(&last).unwrap().ends_with(&format!(" UTC, 1 chunk found bad or gone: {took}"))
        );
        (last.failed, last.failed_nodes) = (vec!["n3".into()], 1);
        assert!(said(&last).unwrap().ends_with(&format!(" UTC, n3 failed: {took}")));
        last.failed_nodes = 3;
        assert!(said(&last).unwrap().ends_with(&format!(" UTC, n3 and 2 more failed: {took}")));
    }

    /// A coordinator of HDFS whose NameNode answers, or does not.
    fn of_hdfs(connected: bool) -> proto::StatusReply {
        let pool = String::from("BP-1");
        let hdfs = proto::HdfsStatus { connected, pool, seconds: 180.0, ..Default::default() };
        proto::StatusReply { hdfs: Some(hdfs), ..Default::default() }
    }

    #[test]
    fn what_no_namenode_says_is_not_known_and_an_alarm() {
        let blind = of_hdfs(false);
        assert_eq!((state(&blind), outcome(&blind)), ("unknown", Outcome::Unrepairable));
        assert!(summary(&blind).starts_with("unknown: no active NameNode answers"));
        let line = hdfs_line(&blind).unwrap();
        assert!(line.starts_with("HDFS: no active NameNode answers, for 3 min 00 s; 0 groups"));
        // What was known of before is said, and that it may be more.
        let lost = proto::StatusReply { at_risk: vec![0, 1], lost_chunks: 1, ..blind };
        assert_eq!((state(&lost), outcome(&lost)), ("waiting", Outcome::Unrepairable));
        let well = of_hdfs(true);
        assert_eq!((state(&well), outcome(&well)), ("healthy", Outcome::Done));
        assert_eq!(hdfs_line(&proto::StatusReply::default()), None);
    }

    #[test]
    fn what_hdfs_does_by_itself_is_said_with_the_reason() {
        let mut status = of_hdfs(true);
        let line = |status: &proto::StatusReply| hdfs_line(status).unwrap();
        let well = "HDFS: the NameNode of BP-1 answers; 0 groups at risk; \
                    its lost blocks are left to Suture";
        assert_eq!(line(&status), well);
        let hdfs = status.hdfs.as_mut().unwrap();
        (hdfs.groups, hdfs.left_groups) = (5, 1);
        hdfs.no_lease = Some("agents of 5 of 12 DataNodes speak".into());
        let few = "5 groups at risk, 1 of which it may rebuild; it repairs by itself: \
                   agents of 5 of 12 DataNodes speak";
        assert!(line(&status).ends_with(few), "{}", line(&status));
        let said = "healthy, but for 1 block group that HDFS may rebuild by itself";
        assert_eq!(summary(&status), said);
    }

    #[test]
    fn whoever_only_observes_says_so_and_nothing_of_a_pause() {
        let mut status = of_hdfs(true);
        status.hdfs.as_mut().unwrap().observes = true;
        status.paused = true;
        assert!(summary(&status).ends_with("; this coordinator only observes"));
        (status.at_risk, status.lost_chunks) = (vec![0, 2], 2);
        assert_eq!((state(&status), outcome(&status)), ("observing", Outcome::Done));
        assert!(summary(&status).starts_with("observing: 2 chunks lost"), "{}", summary(&status));
        (status.unreadable_stripes, status.degraded_stripes) = (1, 1);
        let said = summary(&status);
        assert!(said.starts_with("unreadable") && !said.contains("paused"), "{said}");
    }
    #[test]
    fn a_rack_has_a_line_once_its_links_are_known() {
        let link = proto::LinkStatus {
            capacity: 12_500_000,
            uncertainty: Some(1_250_000),
            ..Default::default()
        };
        let node = |rack: &str, rack_uplink: Option<proto::LinkStatus>| proto::NodeStatus {
            rack: Some(rack.into()),
            rack_uplink,
            ..Default::default()
        };
        let nodes = [node("r2", None), node("r1", Some(link.clone())), node("r1", Some(link))];
        let lines = rack_lines(&nodes.iter().collect::<Vec<_>>());
        assert_eq!(lines, ["rack r1 sends 100 Mbit/s +-10 % to all others, and receives -"]);
    }
}
