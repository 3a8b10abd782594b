//! `suture df`: how full the cluster is, node by node and rack by rack.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use suture_drivers::control::proto;
use suture_edge::units::format_size;
use suture_terminal::output::{Format, print_json, print_table, table};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::status::{age_line, ask_soon, by_number, describe_file_system};

/// Show how full the cluster is: used, free and size of each node, each rack and all.
///
/// Used is what chunks have, free what more chunks could have, size both together: what else is on
/// a disk, and what is kept free there, counts as neither. In the sums of racks and of all, nodes
/// that are not up count for nothing, and what is free on a file system that several agents share
/// counts once; a line names these.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is there of a node, of a rack, or of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    used: u64,
    free: u64,
}

impl Usage {
    fn of(node: &proto::NodeStatus) -> Usage {
        Usage { used: node.used_bytes, free: node.free_bytes }
    }

    /// What nodes have together. What is free on a file system that several of them share is there
    /// once: as much as the one that may take most of it could have.
    fn of_all<'a>(nodes: impl IntoIterator<Item = &'a proto::NodeStatus>) -> Usage {
        let (mut all, mut shared) = (Usage::default(), BTreeMap::<u64, u64>::new());
        for node in nodes {
            let mut usage = Usage::of(node);
            if let Some(file_system) = node.file_system {
                let counted = shared.entry(file_system).or_default();
                usage.free = usage.free.saturating_sub(*counted);
                *counted += usage.free;
            }
            all.add(usage);
        }
        all
    }

    fn add(&mut self, other: Usage) {
        self.used = self.used.saturating_add(other.used);
        self.free = self.free.saturating_add(other.free);
    }

    fn size(self) -> u64 {
        self.used.saturating_add(self.free)
    }

    /// Part of the size that is used, in hundredths; nothing of nothing.
    fn percent(self) -> f64 {
        self.used as f64 * 100.0 / self.size().max(1) as f64
    }

    fn describe(self) -> Value {
        json!({ "used_bytes": self.used, "free_bytes": self.free, "size_bytes": self.size() })
    }

    fn cells(self) -> [String; 4] {
        let size = |bytes| format_size(bytes);
        [size(self.size()), size(self.used), size(self.free), format!("{:.0} %", self.percent())]
    }
}

/// Shows how full it is.
///
/// # Errors
/// When no coordinator answers, or it goes away.
pub fn run(args: Args) -> Result<Outcome> {
    let mut status =
        daemon::block_on(async { ask_soon(&mut args.coordinator.connect().await?).await })?;
    status.nodes.sort_by_cached_key(|node| by_number(&node.name));
    let nodes = &status.nodes;
    let up = || nodes.iter().filter(|node| is_up(node));
    let mut in_racks = BTreeMap::<String, Vec<&proto::NodeStatus>>::new();
    for (rack, node) in up().filter_map(|node| Some((node.rack.clone()?, node))) {
        in_racks.entry(rack).or_default().push(node);
    }
    let in_racks = in_racks.into_iter();
    let racks: BTreeMap<String, Usage> =
        in_racks.map(|(rack, nodes)| (rack, Usage::of_all(nodes))).collect();
    let all = Usage::of_all(up());
    match args.format {
        Format::Json => print_json(&describe(&status, &racks, all))?,
        Format::Text => print(&status, &racks, all),
    }
    Ok(Outcome::Done)
}

/// Whether what is on it can be used, and more can be put there.
fn is_up(node: &proto::NodeStatus) -> bool {
    node.health == "up"
}

fn describe(status: &proto::StatusReply, racks: &BTreeMap<String, Usage>, all: Usage) -> Value {
    let named = |name: &str, usage: Usage| {
        let mut value = usage.describe();
        value["name"] = name.into();
        value
    };
    let of_node = |node: &proto::NodeStatus| {
        let mut value = named(&node.name, Usage::of(node));
        value["rack"] = json!(node.rack);
        value["health"] = json!(node.health);
        value["chunks"] = json!(node.chunks);
        value["file_system"] = json!(describe_file_system(node));
        value
    };
    json!({
        "total": all.describe(),
        "racks": racks.iter().map(|(name, usage)| named(name, *usage)).collect::<Vec<_>>(),
        "nodes": status.nodes.iter().map(of_node).collect::<Vec<_>>(),
        "age_seconds": status.age_seconds,
    })
}

fn print(status: &proto::StatusReply, racks: &BTreeMap<String, Usage>, all: Usage) {
    let row = |name: String, cells: [String; 4]| [vec![name], cells.to_vec()].concat();
    let mut rows = table(["node", "size", "used", "free", "use"], &[1, 2, 3, 4]);
    for node in &status.nodes {
        let cells = if is_up(node) {
            Usage::of(node).cells()
        } else {
            ["-".into(), format_size(node.used_bytes), "-".into(), node.health.clone()]
        };
        rows.add_row(row(node.name.clone(), cells));
    }
    for (rack, usage) in racks {
        rows.add_row(row(format!("rack {rack}"), usage.cells()));
    }
    rows.add_row(row("total".into(), all.cells()));
    print_table(&rows);
    age_line(status).into_iter().for_each(|line| outln!("{line}"));
    for names in sharing(&status.nodes) {
        outln!("{} share a file system: what is free there counts once", names.join(", "));
    }
}

/// The names of the nodes that share a file system, for each that several have.
fn sharing(nodes: &[proto::NodeStatus]) -> Vec<Vec<&str>> {
    let mut names = BTreeMap::<u64, Vec<&str>>::new();
    for node in nodes.iter().filter(|node| is_up(node)) {
        if let Some(number) = node.file_system {
            names.entry(number).or_default().push(&node.name);
        }
    }
    let mut shared: Vec<Vec<&str>> = names.into_values().filter(|names| names.len() > 1).collect();
    shared.sort_by_key(|names| by_number(names[0]));
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_is_used_and_free_together() {
        let mut all = Usage::default();
        assert_eq!(all.percent(), 0.0, "nothing of nothing");
        all.add(Usage { used: 1 << 20, free: 3 << 20 });
        assert_eq!(all.cells(), ["4.00 MiB", "1.00 MiB", "3.00 MiB", "25 %"]);
        all.add(Usage { used: u64::MAX, free: 1 });
        assert_eq!(all.size(), u64::MAX, "what cannot be is not more than can be said");
    }

    #[test]
    fn a_file_system_counts_once_however_many_nodes_are_on_it() {
        let node = |name: &str, used_bytes, free_bytes, file_system| proto::NodeStatus {
            name: name.into(),
            health: "up".into(),
            used_bytes,
            free_bytes,
            file_system,
            ..Default::default()
        };
        let nodes = [
            node("n2", 1, 90, Some(7)),
            // It keeps nothing free for others, and reports that a moment later.
            node("n10", 2, 100, Some(7)),
            node("n1", 4, 80, Some(7)),
            node("n3", 8, 1000, Some(9)),
            // Of an older release, which does not announce it.
            node("n4", 16, 10_000, None),
            node("n5", 32, 10_000, None),
        ];
        assert_eq!(Usage::of_all(&nodes), Usage { used: 63, free: 21_100 });
        assert_eq!(Usage::of_all(&nodes[..1]), Usage { used: 1, free: 90 });
        assert_eq!(Usage::of_all([]), Usage::default());
        assert_eq!(sharing(&nodes), [["n2", "n10", "n1"]], "in the order of the table");
        assert_eq!(sharing(&nodes[2..]), [[""; 0]; 0]);
    }
}
