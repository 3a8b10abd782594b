//! What the coordinator reports of its cluster, asked for and put into words.
//!
//! Place: beside every step of failure -> ... -> stripe healthy, for all commands that show it.

mod json;

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::ColumnConstraint;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_edge::units::{
    format_estimate, format_link_rate, format_rate, format_seconds, format_size,
};

use crate::outcome::Outcome;
use crate::output::{counted, print_table, table};
use crate::timestamp::format_timestamp;

pub use json::{
    describe, describe_blocked, describe_file_system, describe_inconsistent, describe_nodes,
    describe_scrub, describe_throttle, describe_unread,
};

/// Rows of a list that a person reads; the rest is counted.
pub const ROWS_SHOWN: usize = 10;

/// Objects named as examples.
const OBJECTS_SHOWN: usize = 3;

/// Asks the coordinator for its status of now, however long that takes: for whoever acts by it, or
/// waits for something to happen. What [`ask_soon`] gives is of after the last command, but it may
/// be of before a node died or a repair ended, or older than the status before it: nobody decides
/// by it that something has come to its end.
///
/// # Errors
/// When the coordinator goes away.
pub async fn ask(client: &mut Client) -> Result<proto::StatusReply> {
    Ok(client.status(proto::StatusRequest::default()).await.map_err(refusal)?.into_inner())
}

/// The same, or how it was a moment ago where the coordinator is making plans: for commands that
/// show it and do nothing else, which say how old it is ([`age_line`], `age_seconds`).
///
/// # Errors
/// When the coordinator goes away.
pub async fn ask_soon(client: &mut Client) -> Result<proto::StatusReply> {
    let request = proto::StatusRequest { or_kept: true };
    Ok(client.status(request).await.map_err(refusal)?.into_inner())
}

/// How old a status is, in a line; nothing where it is of now.
pub fn age_line(status: &proto::StatusReply) -> Option<String> {
    let age = format_seconds(status.age_seconds?);
    Some(format!("as it was {age} ago: the coordinator is making plans"))
}

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

/// Whether this may be the wrong coordinator for its agents: they are of other clusters, and here
/// is nothing.
fn is_foreign(status: &proto::StatusReply) -> bool {
    status.is_empty && status.refused.iter().any(|agent| !agent.cluster.is_empty())
}

/// Whether no NameNode reports what is at risk in HDFS, so that it is not known.
fn is_blind(status: &proto::StatusReply) -> bool {
    status.hdfs.as_ref().is_some_and(|hdfs| !hdfs.connected)
}

/// Whether nothing is repaired here because HDFS does that.
pub fn observes(status: &proto::StatusReply) -> bool {
    status.hdfs.as_ref().is_some_and(|hdfs| hdfs.observes)
}

/// Whether chunks do not fit the others of their stripe, so that no repair can mend them.
fn is_inconsistent(status: &proto::StatusReply) -> bool {
    status.scrub.as_ref().is_some_and(|scrub| !scrub.inconsistent.is_empty())
}

/// The state in one word, for scripts: the first of these that applies.
pub fn state(status: &proto::StatusReply) -> &'static str {
    let at_risk = status.at_risk.iter().sum::<u64>() > 0;
    let unrepairable = status.blocked.iter().any(|entry| entry.unrepairable);
    match (at_risk, status.running.is_empty()) {
        (true, true) if unrepairable && !status.paused => "unrepairable",
        _ if status.unreadable_stripes > 0 => "unreadable",
        (false, _) if status.degraded_stripes > 0 => "degraded",
        (false, _) if status.leaving_chunks > 0 => "draining",
        (false, _) if is_inconsistent(status) => "inconsistent",
        (false, _) if is_foreign(status) => "foreign",
        _ if status.fault.is_some() => "unwritable",
        (false, _) if is_blind(status) => "unknown",
        (false, _) => "healthy",
        (true, false) => "repairing",
        (true, true) if observes(status) => "observing",
        (true, true) if status.paused => "paused",
        (true, true) if !status.blocked.is_empty() => "blocked",
        (true, true) => "waiting",
    }
}

/// What is lost and how its repair goes, in a line.
pub fn summary(status: &proto::StatusReply) -> String {
    let said = describe_state(status);
    match state(status) {
        "paused" | "observing" => said,
        _ if observes(status) => format!("{said}; this coordinator only observes"),
        _ if status.paused => format!("{said}; repairs are paused (suture repair resume)"),
        _ => said,
    }
}

fn describe_state(status: &proto::StatusReply) -> String {
    let lost = format!(
        "{} lost ({})",
        counted(status.lost_chunks, "chunk"),
        format_size(status.lost_bytes)
    );
    match state(status) {
        "unknown" => {
            "unknown: no active NameNode answers, so what is at risk in HDFS is not known".into()
        }
        "healthy" => describe_healthy(status),
        "inconsistent" => "inconsistent: every chunk is where it should be, some do not fit the \
                           others of their stripe"
            .into(),
        "unwritable" => {
            let known = if status.at_risk.iter().any(|stripes| *stripes > 0) {
                lost
            } else {
                "every chunk is where it should be".into()
            };
            format!("unwritable: {known}, and storing, removing and repairing fail, or soon will")
        }
        "foreign" => format!(
            "foreign: nothing is stored in this cluster, {}, and agents of another one are refused: \
             is the disk of this coordinator's data_dir mounted? If its metadata are lost, stop it, \
             and use `suture metadata restore` or `suture metadata rebuild`",
            status.cluster
        ),
        "draining" => format!(
            "draining: every chunk can be read, {} still to move ({})",
            counted(status.leaving_chunks, "chunk"),
            format_size(status.leaving_bytes)
        ),
        "unreadable" if status.at_risk.iter().any(|stripes| *stripes > 0) => {
            let repair = match (status.running.len() as u64, status.paused) {
                (0, true) => return format!("{}; {lost}", readability(status)),
                (0, false) => "nothing is being repaired".to_owned(),
                (running, _) => {
                    format!("{} running, {}", counted(running, "repair"), rate_and_eta(status))
                }
            };
            format!("{}; {lost}, {repair}", readability(status))
        }
        "unreadable" | "degraded" => match silent(&status.nodes) {
            nodes if nodes.is_empty() => {
                format!("{}; copies on nodes that are up could not be read", readability(status))
            }
            nodes => format!("{}; silent: {}", readability(status), nodes.join(", ")),
        },
        "repairing" => format!(
            "repairing: {lost}, {} running, {}",
            counted(status.running.len() as u64, "repair"),
            rate_and_eta(status)
        ),
        "paused" => format!("paused: {lost}; run `suture repair resume` to continue"),
        "observing" => format!("observing: {lost}, which HDFS rebuilds; nothing is repaired here"),
        "unrepairable" => match status.lost_chunks {
            0 => format!("{}; nothing else is lost", hopeless(&status.blocked)),
            _ => format!("{}; otherwise {lost}", hopeless(&status.blocked)),
        },
        "blocked" => format!("blocked: {lost}, none of which can be repaired yet"),
        _ => format!("waiting: {lost}"),
    }
}

/// How many stripes could not be read without a single rack, though nothing of them is lost.
fn crowded_stripes(status: &proto::StatusReply) -> u64 {
    status.crowded.iter().map(|rack| rack.stripes).sum()
}

fn describe_healthy(status: &proto::StatusReply) -> String {
    let silent = silent(&status.nodes);
    let left = status.hdfs.as_ref().map_or(0, |hdfs| hdfs.left_groups);
    let crowded = crowded_stripes(status);
    if left > 0 {
        format!("healthy, but for {} that HDFS may rebuild by itself", counted(left, "block group"))
    } else if crowded > 0 {
        let stripes = counted(crowded, "stripe");
        format!("healthy, but for {stripes} that could not be read without a single rack")
    } else if silent.is_empty() {
        "healthy: every chunk is where it should be".into()
    } else {
        format!("healthy; silent, without chunks: {}", silent.join(", "))
    }
}

/// How many stripes are beyond repair, and what can help: nodes that are away may come back with
/// their chunks; where all are up, the copies themselves are damaged or gone.
fn hopeless(blocked: &[proto::BlockedStripe]) -> String {
    let count = |is_counted: fn(&proto::BlockedStripe) -> bool| {
        blocked.iter().filter(|entry| entry.unrepairable && is_counted(entry)).count() as u64
    };
    let (away, here) = (count(|entry| entry.away), count(|entry| !entry.away));
    let copies = "unless copies return: restore them, or store the objects again";
    let all = counted(away + here, "stripe");
    match (away, here) {
        (_, 0) => format!("{all} cannot be repaired unless nodes return"),
        (0, _) => format!("{all} cannot be repaired {copies}"),
        (away, here) => {
            format!("{all} cannot be repaired: {away} unless nodes return, {here} {copies}")
        }
    }
}

/// How much of the data lacks chunks, and how much cannot be read.
fn readability(status: &proto::StatusReply) -> String {
    let lack = if status.degraded_stripes == 1 { "lacks" } else { "lack" };
    match (status.unreadable_stripes, status.degraded_stripes) {
        (0, degraded) => {
            format!("degraded: {} {lack} chunks now, all can be read", counted(degraded, "stripe"))
        }
        (unreadable, degraded) => format!(
            "unreadable: {} of the {degraded} that {lack} chunks cannot be read now",
            counted(unreadable, "stripe")
        ),
    }
}

/// Nodes that are neither used nor given up.
fn silent(nodes: &[proto::NodeStatus]) -> Vec<String> {
    let is_silent = |node: &&proto::NodeStatus| ["suspect", "unknown"].contains(&&*node.health);
    let mut silent: Vec<&proto::NodeStatus> = nodes.iter().filter(is_silent).collect();
    silent.sort_by_cached_key(|node| by_number(&node.name));
    let describe = |node: &proto::NodeStatus| match node_state(node) {
        "paused" => {
            format!("{} (paused for {})", node.name, format_seconds(node.paused_seconds))
        }
        _ if node.cut_off => format!("{} (unreachable by other agents)", node.name),
        _ if node.disk == "hanging" => format!("{} (its disk hangs)", node.name),
        _ => node.name.clone(),
    };
    silent.into_iter().map(describe).collect()
}

/// Rate and time left, as far as they are known.
pub fn rate_and_eta(status: &proto::StatusReply) -> String {
    let rate = || format_rate(status.rate);
    match (status.eta_seconds, status.eta_low_seconds.zip(status.eta_high_seconds)) {
        (Some(eta), Some((low, high))) => {
            let (low, high) = (format_estimate(low), format_estimate(high));
            format!("{}, about {} left ({low} to {high})", rate(), format_estimate(eta))
        }
        (Some(eta), None) => format!("{}, about {} left", rate(), format_estimate(eta)),
        (None, _) if status.running.is_empty() => "nothing runs".into(),
        (None, _) => format!("{}, time left unknown", rate()),
    }
}

/// The table of nodes.
pub fn print_nodes(nodes: &[proto::NodeStatus]) {
    if nodes.is_empty() {
        outln!("no node has joined yet: start agents (suture agent)");
        return;
    }
    let mut nodes: Vec<&proto::NodeStatus> = nodes.iter().collect();
    nodes.sort_by_cached_key(|node| by_number(&node.name));
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
            format!("{health}, draining: {} of {all} moved", all - node.chunks)
        }
        "paused" => format!("{health}, paused for {}", format_seconds(node.paused_seconds)),
        _ => health,
    }
}

/// What the operator wants of a node and how far that has come, in one word for scripts; empty
/// where that is nothing.
pub fn node_state(node: &proto::NodeStatus) -> &str {
    match node.intent.as_str() {
        "draining" if node.chunks == 0 => "drained",
        other => other,
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
        Some(limit) => format!("{known}, repair {}", format_link_rate(limit as f64)),
        None => known,
    }
}

/// Puts `n9` before `n10`.
pub fn by_number(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_string(), name[stem.len()..].parse().unwrap_or(0))
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
    fn what_is_beyond_repair_is_said_with_what_can_help() {
        let blocked =
            |away| proto::BlockedStripe { unrepairable: true, away, ..Default::default() };
        let said = |blocked: &[proto::BlockedStripe], lost_chunks| {
            let (at_risk, blocked) = (vec![1], blocked.to_vec());
            summary(&proto::StatusReply { at_risk, blocked, lost_chunks, ..Default::default() })
        };
        assert_eq!(
            said(&[blocked(true)], 2),
            "1 stripe cannot be repaired unless nodes return; otherwise 2 chunks lost (0 B)"
        );
        assert_eq!(
            said(&[blocked(false)], 0),
            "1 stripe cannot be repaired unless copies return: restore them, or store the objects \
             again; nothing else is lost"
        );
        let both = said(&[blocked(false), blocked(true), blocked(false)], 0);
        let each = "3 stripes cannot be repaired: 1 unless nodes return, 2 unless copies return";
        assert!(both.starts_with(each), "{both}");
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
    fn a_status_of_a_moment_before_says_how_old_it_is() {
        let of = |age_seconds| age_line(&proto::StatusReply { age_seconds, ..Default::default() });
        assert_eq!(of(None), None);
        let age = format_seconds(1.5);
        let said = format!("as it was {age} ago: the coordinator is making plans");
        assert_eq!(of(Some(1.5)), Some(said));
    }

    #[test]
    fn one_stripe_lacks_chunks_and_two_lack_them() {
        let of = |degraded_stripes| {
            summary(&proto::StatusReply { degraded_stripes, ..Default::default() })
        };
        assert!(of(1).starts_with("degraded: 1 stripe lacks chunks now"), "{}", of(1));
        assert!(of(2).starts_with("degraded: 2 stripes lack chunks now"), "{}", of(2));
    }

    #[test]
    fn what_cannot_be_read_is_said_first_and_pauses_once() {
        let mut status = proto::StatusReply {
            at_risk: vec![1],
            unreadable_stripes: 1,
            degraded_stripes: 1,
            lost_chunks: 2,
            ..Default::default()
        };
        for (paused, running) in [(false, false), (true, false), (false, true)] {
            status.paused = paused;
            status.running = vec![proto::Running::default(); usize::from(running)];
            assert_eq!(state(&status), "unreadable");
            let said = summary(&status);
            assert!(said.contains("cannot be read"), "{said}");
            assert_eq!(said.matches("paused").count(), usize::from(paused), "{said}");
            assert_eq!(said.contains("1 repair running"), running, "{said}");
        }
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

    #[test]
    fn time_left_is_a_range_or_unknown_but_never_nothing() {
        let eta = |eta_seconds: f64| proto::StatusReply {
            rate: 2_097_152.0,
            eta_seconds: Some(eta_seconds),
            eta_low_seconds: Some(eta_seconds / 2.0),
            eta_high_seconds: Some(eta_seconds * 2.0),
            ..Default::default()
        };
        for (seconds, said) in [
            (0.02, "2.00 MiB/s, about 1 s left (1 s to 1 s)"),
            (40.0, "2.00 MiB/s, about 40 s left (20 s to 80 s)"),
            (700.0, "2.00 MiB/s, about 12 min left (6 min to 23 min)"),
            (20_000.0, "2.00 MiB/s, about 6 h left (3 h to 11 h)"),
            (400_000.0, "2.00 MiB/s, about 5 days left (2 days to 9 days)"),
        ] {
            assert_eq!(rate_and_eta(&eta(seconds)), said);
        }
        let running = vec![proto::Running::default()];
        let unknown = proto::StatusReply { running, rate: 2_097_152.0, ..Default::default() };
        assert_eq!(rate_and_eta(&unknown), "2.00 MiB/s, time left unknown");
        assert_eq!(rate_and_eta(&proto::StatusReply::default()), "nothing runs");
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
