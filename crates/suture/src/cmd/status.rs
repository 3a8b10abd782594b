//! `suture status`: how the cluster is, what is at risk, what runs, what waits and why.

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::ColumnConstraint;
use serde_json::{Value, json};
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_edge::units::{format_rate, format_seconds, format_size};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json, print_table, table};

/// Rows of a list that a person reads; the rest is counted.
const ROWS_SHOWN: usize = 10;

/// Objects named as examples.
const OBJECTS_SHOWN: usize = 3;

/// Show the cluster: nodes, what is at risk, what is being repaired, what waits and why.
///
/// Exit status 3: something cannot be repaired until chunks return.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: tables for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: Args) -> Result<Outcome> {
    let status = daemon::block_on(async { ask(&mut args.coordinator.connect().await?).await })?;
    match args.format {
        Format::Json => print_json(&describe(&status))?,
        Format::Text => print(&status),
    }
    Ok(outcome(&status))
}

/// Asks the coordinator.
pub async fn ask(client: &mut Client) -> Result<proto::StatusReply> {
    Ok(client.status(proto::StatusRequest {}).await.map_err(refusal)?.into_inner())
}

/// What the status says about the exit of a command.
pub fn outcome(status: &proto::StatusReply) -> Outcome {
    match status.blocked.iter().any(|entry| entry.unrepairable) {
        true => Outcome::Unrepairable,
        false => Outcome::Done,
    }
}

/// In one word, for scripts: what an operator would say first.
pub fn state(status: &proto::StatusReply) -> &'static str {
    let at_risk = status.at_risk.iter().sum::<u64>() > 0;
    let unrepairable = status.blocked.iter().any(|entry| entry.unrepairable);
    match (at_risk, status.running.is_empty()) {
        (false, _) => "healthy",
        (true, false) => "repairing",
        (true, true) if status.paused => "paused",
        (true, true) if unrepairable => "unrepairable",
        (true, true) if !status.blocked.is_empty() => "blocked",
        (true, true) => "waiting",
    }
}

/// What is lost and how its repair goes, in a line.
pub fn summary(status: &proto::StatusReply) -> String {
    let lost = format!(
        "{} lost ({})",
        counted(status.lost_chunks, "chunk"),
        format_size(status.lost_bytes)
    );
    match state(status) {
        "healthy" => match silent(&status.nodes) {
            nodes if nodes.is_empty() => "healthy: every chunk is where it should be".into(),
            nodes => format!("healthy so far; silent: {}", nodes.join(", ")),
        },
        "repairing" => format!(
            "repairing: {lost}, {} running, {}",
            counted(status.running.len() as u64, "repair"),
            pace(status)
        ),
        "paused" => format!("paused: {lost}; suture repair resume goes on"),
        "unrepairable" => {
            let hopeless = status.blocked.iter().filter(|entry| entry.unrepairable).count();
            let stripes = counted(hopeless as u64, "stripe");
            format!("{stripes} cannot be repaired unless nodes return; otherwise {lost}")
        }
        "blocked" => format!("blocked: {lost}, and something is in the way"),
        _ => format!("waiting: {lost}"),
    }
}

/// Nodes that are neither used nor given up.
fn silent(nodes: &[proto::NodeStatus]) -> Vec<&str> {
    let is_silent = |node: &&proto::NodeStatus| ["suspect", "unknown"].contains(&&*node.health);
    nodes.iter().filter(is_silent).map(|node| node.name.as_str()).collect()
}

/// Rate and time left, as far as anyone can tell.
pub fn pace(status: &proto::StatusReply) -> String {
    match status.eta_seconds {
        Some(eta) => format!("{}, {} left", format_rate(status.rate), format_seconds(eta)),
        None if status.running.is_empty() => "nothing runs".into(),
        None => "nothing has moved yet or for a while".into(),
    }
}

fn print(status: &proto::StatusReply) {
    println!("{}", summary(status));
    println!(
        "cluster {}, epoch {}, up for {}; {} repaired ({}) since then{}",
        status.cluster,
        status.epoch,
        format_seconds(status.uptime_seconds),
        counted(status.repaired_chunks, "chunk"),
        format_size(status.repaired_bytes),
        if status.paused { "; repairs are paused" } else { "" },
    );
    println!();
    print_nodes(&status.nodes);
    print_at_risk(&status.at_risk);
    print_running(&status.running);
    print_blocked(&status.blocked);
}

/// The table of nodes.
pub fn print_nodes(nodes: &[proto::NodeStatus]) {
    if nodes.is_empty() {
        println!("no node has joined yet: start agents (suture agent)");
        return;
    }
    let mut nodes: Vec<&proto::NodeStatus> = nodes.iter().collect();
    nodes.sort_by_cached_key(|node| by_number(&node.name));
    let has_racks = nodes.iter().any(|node| node.rack.is_some());
    let mut rows = table(["node", "health", "chunks", "free", "address", "rack"], &[2, 3]);
    for node in nodes {
        let declared = if node.failed_by_operator { " (by operator)" } else { "" };
        rows.add_row([
            node.name.clone(),
            format!("{}{declared}", node.health),
            node.chunks.to_string(),
            format_size(node.free_bytes),
            node.address.clone(),
            node.rack.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    if let Some(column) = rows.column_mut(5).filter(|_| !has_racks) {
        column.set_constraint(ColumnConstraint::Hidden);
    }
    print_table(&rows);
}

/// Puts `n9` before `n10`.
fn by_number(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_string(), name[stem.len()..].parse().unwrap_or(0))
}

fn print_at_risk(at_risk: &[u64]) {
    let levels: Vec<(usize, u64)> =
        at_risk.iter().copied().enumerate().filter(|(_, stripes)| *stripes > 0).collect();
    if levels.is_empty() {
        return;
    }
    println!();
    for (margin, stripes) in levels {
        let stripes = counted(stripes, "stripe");
        match margin {
            0 => println!("at risk: {stripes} with no chunk to spare"),
            1 => println!("at risk: {stripes} with one chunk to spare"),
            margin => println!("at risk: {stripes} with {margin} chunks to spare"),
        }
    }
}

fn print_running(running: &[proto::Running]) {
    if running.is_empty() {
        return;
    }
    println!();
    let mut rows =
        table(["repair", "stripe", "chunk", "onto", "done", "of", "for"], &[1, 2, 4, 5, 6]);
    for repair in running.iter().take(ROWS_SHOWN) {
        rows.add_row([
            repair.repair.clone(),
            repair.stripe.to_string(),
            repair.chunk.to_string(),
            repair.destination.clone(),
            format_size(repair.bytes_done),
            format_size(repair.bytes),
            format_seconds(repair.seconds),
        ]);
    }
    print_table(&rows);
    print_rest(running.len());
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
    println!();
    for ((_, why), entries) in groups.iter().take(ROWS_SHOWN) {
        let mut objects: Vec<&str> = entries.iter().map(|entry| entry.object.as_str()).collect();
        objects.dedup();
        let more = if objects.len() > OBJECTS_SHOWN { ", ..." } else { "" };
        objects.truncate(OBJECTS_SHOWN);
        let stripes = counted(entries.len() as u64, "stripe");
        println!("blocked: {stripes} of {}{more}: {why}", objects.join(", "));
    }
    print_rest(groups.len());
}

fn print_rest(count: usize) {
    if count > ROWS_SHOWN {
        println!("... and {} more", count - ROWS_SHOWN);
    }
}

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
        "paused": status.paused,
        "nodes": describe_nodes(&status.nodes),
        "at_risk": status.at_risk,
        "queued_stripes": status.queued_stripes,
        "lost_chunks": status.lost_chunks,
        "lost_bytes": status.lost_bytes,
        "repaired_chunks": status.repaired_chunks,
        "repaired_bytes": status.repaired_bytes,
        "bytes_per_second": status.rate,
        "eta_seconds": status.eta_seconds,
        "running": running.collect::<Vec<_>>(),
        "blocked": describe_blocked(&status.blocked),
    })
}

/// The nodes for scripts.
pub fn describe_nodes(nodes: &[proto::NodeStatus]) -> Vec<Value> {
    let node = |node: &proto::NodeStatus| {
        json!({
            "node": node.node,
            "name": node.name,
            "rack": node.rack,
            "address": node.address,
            "health": node.health,
            "free_bytes": node.free_bytes,
            "chunks": node.chunks,
            "failed_by_operator": node.failed_by_operator,
        })
    };
    nodes.iter().map(node).collect()
}

/// Blocked stripes for scripts.
pub fn describe_blocked(blocked: &[proto::BlockedStripe]) -> Vec<Value> {
    let entry = |entry: &proto::BlockedStripe| {
        json!({
            "stripe": entry.stripe,
            "object": entry.object,
            "why": entry.why,
            "unrepairable": entry.unrepairable,
        })
    };
    blocked.iter().map(entry).collect()
}
