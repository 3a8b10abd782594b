//! The status of the cluster, asked for and put into one line.
//!
//! Place: beside every step of failure -> ... -> stripe healthy, for all that show how it goes: the
//! commands, and what waits for repairs to end.

use anyhow::Result;
use suture_edge::units::{
    counted, format_estimate, format_percent, format_rate, format_seconds, format_size,
};

use super::client::{Client, refusal};
use super::proto;

/// Asks the coordinator for its status of now, however long that takes: for what acts by it, or
/// waits for something to happen. What [`ask_soon`] gives is of after the last command, but it may
/// be of before a node died or a repair ended, or older than the status before it: it does not show
/// that something has come to its end.
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

/// Whether this may be the wrong coordinator for its agents: they are of other clusters, and here
/// is nothing.
pub fn is_foreign(status: &proto::StatusReply) -> bool {
    status.is_empty && status.refused.iter().any(|agent| !agent.cluster.is_empty())
}

/// Whether no NameNode reports what is at risk in HDFS, so that it is not known.
pub fn is_blind(status: &proto::StatusReply) -> bool {
    status.hdfs.as_ref().is_some_and(|hdfs| !hdfs.connected)
}

/// Whether nothing is repaired here because HDFS does that.
pub fn observes(status: &proto::StatusReply) -> bool {
    status.hdfs.as_ref().is_some_and(|hdfs| hdfs.observes)
}

/// Whether chunks do not fit the others of their stripe, so that no repair can mend them.
pub fn is_inconsistent(status: &proto::StatusReply) -> bool {
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
pub fn crowded_stripes(status: &proto::StatusReply) -> u64 {
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
    let rate = || match percent_of_bound(status) {
        Some(percent) => {
            format!("{}, {} of the bound", format_rate(status.rate), format_percent(percent))
        }
        None => format_rate(status.rate),
    };
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

/// How fast repairs are, in percent of how fast they could be at best; `None` where that is not
/// known.
pub fn percent_of_bound(status: &proto::StatusReply) -> Option<f64> {
    let bound = status.bound_rate.filter(|rate| *rate > 0.0)?;
    Some(100.0 * status.rate / bound)
}

/// What the operator wants of a node and how far that has come, in one word for scripts; empty
/// where that is nothing.
pub fn node_state(node: &proto::NodeStatus) -> &str {
    match node.intent.as_str() {
        // What a put stores there is its node's until the put has ended.
        "draining" if node.chunks == 0 && node.put_chunks == 0 => "drained",
        other => other,
    }
}

/// Puts `n9` before `n10`.
pub fn by_number(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_string(), name[stem.len()..].parse().unwrap_or(0))
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

    #[test]
    fn a_status_of_a_moment_before_says_how_old_it_is() {
        let of = |age_seconds| age_line(&proto::StatusReply { age_seconds, ..Default::default() });
        assert_eq!(of(None), None);
        let age = format_seconds(1.5);
        let said = format!("as it was {age} ago: the coordinator is making plans");
        assert_eq!(of(Some(1.5)), Some(said));
    }

    #[test]
    fn a_rate_is_compared_with_that_at_the_bound_where_it_is_known() {
        let running = vec![proto::Running::default()];
        let (rate, bound_rate) = (2_097_152.0, Some(4_194_304.0));
        let known = proto::StatusReply { running, rate, bound_rate, ..Default::default() };
        let said = "2.00 MiB/s, 50.0 % of the bound, time left unknown";
        assert_eq!(rate_and_eta(&known), said);
        assert_eq!(percent_of_bound(&known), Some(50.0));
        let nothing = proto::StatusReply { bound_rate: Some(0.0), ..known };
        assert_eq!(rate_and_eta(&nothing), "2.00 MiB/s, time left unknown");
        assert_eq!(percent_of_bound(&nothing), None);
    }
}
