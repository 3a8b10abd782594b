//! What repair may take, as messages: what operators want, and what that comes to.
//!
//! Place: beside [slices flow]: between `suture repair throttle` and the machine.

use suture_edge::error::quoted;
use suture_edge::units::{format_link_rate, format_seconds};
use suture_repair::cluster::Cluster;
use suture_repair::event::{LinkStatus, NodeStatus, Status as CoreStatus, TightestLink};
use suture_repair::throttle::{Direction, Keep, Limited, Reason, ThrottleConfig};
use suture_repair::time::Span;
use tonic::Status;

use super::proto;
use crate::maintenance_window::ThrottleIntent;

/// Names that an operator may give caps to: more than a cluster has nodes.
const NAMES_MAX: usize = 8192;

/// What is wanted, as a message.
pub fn encode(intent: &ThrottleIntent) -> proto::Throttle {
    use proto::throttle::Keep as Word;
    let ThrottleConfig { node, nodes, racks, total, keep, p99, floor } = intent.config.clone();
    proto::Throttle {
        node,
        nodes: nodes.into_iter().collect(),
        racks: racks.into_iter().collect(),
        total,
        keep: keep.map(|keep| match keep {
            Keep::Percent(part) => Word::KeepPercent(part.into()),
            Keep::Rate(rate) => Word::KeepRate(rate),
        }),
        p99_ns: p99.map(|wait| wait.ns),
        floor,
        window: intent.window.as_ref().map(ToString::to_string),
    }
}

/// What an operator wants, if that can be.
///
/// # Errors
/// What cannot be.
pub fn decode(wanted: proto::Throttle) -> Result<ThrottleIntent, Status> {
    use proto::throttle::Keep as Word;
    let refused = |why: String| Status::invalid_argument(why);
    let rates = [wanted.node, wanted.total, wanted.floor];
    let caps = wanted.nodes.values().chain(wanted.racks.values()).copied();
    if rates.into_iter().flatten().chain(caps).any(|rate| rate == 0) {
        return Err(refused("a limit of nothing would stop repairs: suture repair pause".into()));
    }
    if wanted.nodes.len() + wanted.racks.len() > NAMES_MAX {
        return Err(refused(format!("at most {NAMES_MAX} nodes and racks have caps of their own")));
    }
    let keep = match wanted.keep {
        None => None,
        Some(Word::KeepRate(rate)) => Some(Keep::Rate(rate)),
        Some(Word::KeepPercent(part)) => {
            let part = u8::try_from(part).ok().filter(|part| (1..100).contains(part));
            let part = part.ok_or_else(|| refused("keep: a part is 1% to 99%".into()))?;
            Some(Keep::Percent(part))
        }
    };
    let window = wanted.window.map(|text| text.parse()).transpose().map_err(refused)?;
    let config = ThrottleConfig {
        node: wanted.node,
        nodes: wanted.nodes.into_iter().collect(),
        racks: wanted.racks.into_iter().collect(),
        total: wanted.total,
        keep,
        p99: wanted.p99_ns.map(|ns| Span { ns }),
        floor: wanted.floor,
    };
    Ok(ThrottleIntent { config, window })
}

/// The nodes and racks that limits name and the cluster has not: those limits limit nothing.
fn unknown_names(config: &ThrottleConfig, cluster: &Cluster) -> Vec<String> {
    let nodes = config.nodes.keys().filter(|name| cluster.find(name).is_none());
    let racks = config.racks.keys().filter(|name| !cluster.racks.contains(name));
    let of = |kind: &'static str| move |name: &String| format!("{kind} {}", quoted(name));
    nodes.map(of("node")).chain(racks.map(of("rack"))).collect()
}

/// Refuses names that no node has: such a cap would silently have no effect. Those that limits have
/// `before` are left as they are.
///
/// # Errors
/// The first such name.
pub fn check_names(
    config: &ThrottleConfig,
    before: &ThrottleConfig,
    cluster: &Cluster,
) -> Result<(), Status> {
    let known = unknown_names(before, cluster);
    let new = unknown_names(config, cluster).into_iter().find(|name| !known.contains(name));
    new.map_or(Ok(()), |name| {
        Err(Status::not_found(format!("there is no {name} (see suture node list)")))
    })
}

/// That limits name what the cluster has not, a sentence for each.
pub fn name_warnings(config: &ThrottleConfig, cluster: &Cluster) -> Vec<String> {
    let warning = |name: String| {
        let option = if name.starts_with("rack") { "--rack" } else { "--node" };
        format!(
            "a limit of repair is for {name}, which this cluster has not, and limits nothing: \
             correct [throttle], or suture repair throttle {option} NAME=off"
        )
    };
    unknown_names(config, cluster).into_iter().map(warning).collect()
}

/// What it comes to now.
pub fn describe(
    intent: &ThrottleIntent,
    is_default: bool,
    status: &CoreStatus,
    cluster: &Cluster,
) -> proto::ThrottleStatus {
    let throttle = &status.throttle;
    let closed = throttle.closed_for.map(Span::as_secs_f64);
    proto::ThrottleStatus {
        wanted: Some(encode(intent)),
        is_default,
        closed_seconds: closed,
        moved: throttle.moved,
        effect: effect(status, cluster),
    }
}

/// The tightest limit and why it is that, in a sentence; nothing where nothing is limited.
fn effect(status: &CoreStatus, cluster: &Cluster) -> String {
    let Some(tightest) = status.throttle.tightest else { return String::new() };
    let TightestLink { node: id, direction, limited } = tightest;
    let node = status.nodes.iter().find(|node| node.node == id);
    let link = node.map(|node| node.links[direction as usize]).unwrap_or_default();
    let verb = match direction {
        Direction::Up => "send",
        Direction::Down => "receive",
    };
    let (name, why) = (&cluster.node(id).name, reason(limited, cluster));
    let part = part_of_link(limited.limit, link.capacity);
    format!("{name} may {verb} {part}: {why}")
}

/// What repair may have of a link, beside what the link carries; both in bytes per second.
fn part_of_link(limit: u64, capacity: u64) -> String {
    let [may, carries] = [limit, capacity].map(|rate| format_link_rate(rate as f64));
    if limit < capacity {
        format!("{may} of its {carries} for repairs")
    } else {
        format!("{may} for repairs, which is all that its link carries ({carries})")
    }
}

/// Why a limit is what it is, in words.
fn reason(limited: Limited, cluster: &Cluster) -> String {
    match limited.reason {
        Reason::Node => "the cap of each node, or its own".into(),
        Reason::Rack(rack) => format!("its part of the cap of {}", cluster.racks[rack.0 as usize]),
        Reason::Total => "its part of the cap of the cluster".into(),
        Reason::Agent => "its agent's repair_cap".into(),
        Reason::Applications(0) => "the rest is kept free for applications".into(),
        Reason::Applications(taken) => {
            format!("applications take {}", format_link_rate(taken as f64))
        }
        Reason::Latency(seen) => format!("probes wait {}", format_seconds(seen.as_secs_f64())),
        Reason::Window => "the window is closed".into(),
        Reason::Floor => "the floor, since a stripe has no margin left".into(),
    }
}

/// A direction of a node's links, and what repair may have of it.
pub fn describe_link(node: &NodeStatus, is_up: bool, cluster: &Cluster) -> proto::LinkStatus {
    let LinkStatus { capacity, uncertainty, is_declared, taken, repair } =
        node.links[usize::from(!is_up)];
    let limited = if is_up { node.limits.up } else { node.limits.down };
    proto::LinkStatus {
        capacity,
        uncertainty,
        is_declared,
        taken,
        repair,
        limit: limited.map(|limited| limited.limit),
        why: limited.map(|limited| reason(limited, cluster)).unwrap_or_default(),
    }
}

/// A direction of a rack's links to all others, as far as it is known, and the cap of the rack. Of
/// links that never were the limit a cap is all that plans count with.
pub fn describe_rack_link(link: Option<LinkStatus>, cap: Option<u64>) -> Option<proto::LinkStatus> {
    let capped = |capacity| LinkStatus { capacity, is_declared: true, ..LinkStatus::default() };
    let LinkStatus { capacity, uncertainty, is_declared, taken, repair } =
        link.or_else(|| cap.map(capped))?;
    let why = cap.map(|_| "the cap of the rack".to_owned()).unwrap_or_default();
    Some(proto::LinkStatus { capacity, uncertainty, is_declared, taken, repair, limit: cap, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_cluster_has_not_is_refused_when_it_is_new_and_warned_of_when_it_is_not() {
        let config = |names: &[&str]| ThrottleConfig {
            nodes: names.iter().map(|name| (name.to_string(), 1)).collect(),
            racks: [("r7".to_string(), 1)].into(),
            ..ThrottleConfig::default()
        };
        let cluster = Cluster::uniform(2, suture_repair::cluster::Rate(1.0));
        let named = cluster.nodes[1].name.clone();
        let (before, after) = (config(&["n99"]), config(&["n99", &named]));
        assert!(check_names(&after, &before, &cluster).is_ok(), "nobody has asked for n99 now");
        let refused = check_names(&config(&["n98"]), &before, &cluster).unwrap_err();
        assert!(refused.message().contains("there is no node 'n98'"), "{refused}");
        let warnings = name_warnings(&after, &cluster);
        assert!(warnings[0].contains("for node 'n99'") && warnings[1].contains("for rack 'r7'"));
        assert!(warnings.len() == 2 && warnings[1].contains("--rack NAME=off"), "{warnings:?}");
    }

    #[test]
    fn a_rack_shows_its_cap_whether_its_links_are_known_or_not() {
        let known = LinkStatus { capacity: 9_000, uncertainty: Some(1), ..LinkStatus::default() };
        let shown = |link, cap| {
            let link = describe_rack_link(link, cap)?;
            Some((link.capacity, link.uncertainty, link.limit, link.why))
        };
        let why = "the cap of the rack";
        assert_eq!(shown(None, None), None);
        assert_eq!(shown(Some(known), None), Some((9_000, Some(1), None, String::new())));
        assert_eq!(shown(Some(known), Some(500)), Some((9_000, Some(1), Some(500), why.into())));
        assert_eq!(shown(None, Some(500)), Some((500, None, Some(500), why.into())));
    }

    #[test]
    fn a_limit_above_what_the_link_carries_is_not_called_a_part_of_it() {
        assert_eq!(part_of_link(125_000, 1_250_000), "1.00 Mbit/s of its 10.0 Mbit/s for repairs");
        let all = "3.00 Mbit/s for repairs, which is all that its link carries (1.00 Mbit/s)";
        assert_eq!(part_of_link(375_000, 125_000), all);
    }
}
