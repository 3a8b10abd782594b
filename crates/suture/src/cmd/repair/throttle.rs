//! `suture repair throttle`: what repair may take of links, and when it runs.
//!
//! Place: beside [slices flow]. Without options it shows what holds, and what that comes to; each
//! option changes one thing and leaves the others; what it says is kept across restarts.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::json;
use suture_drivers::config::throttle::{cap, floor, keep, or_off, p99};
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_drivers::maintenance_window::MaintenanceWindow;
use suture_edge::error::bad_input;
use suture_edge::units::{format_link_rate, format_seconds};
use suture_repair::throttle::Keep;
use suture_terminal::output::{Format, print_json};

use crate::address::CoordinatorAddress;
use crate::outcome::Outcome;
use crate::status;

/// Show or change the limits of repair. Rates are like 200Mbit or 25MB (per second).
#[derive(clap::Args)]
pub struct Args {
    /// The most that repair moves at each node in each direction; off: no cap
    #[arg(long, value_name = "RATE|off")]
    cap: Option<String>,
    /// The same of one node; off: as all the others. May be given several times
    #[arg(long, value_name = "NODE=RATE|off")]
    node: Vec<String>,
    /// The most that all nodes of a rack together send for repairs, and that they receive; off: no
    /// cap. May be given several times
    #[arg(long, value_name = "RACK=RATE|off")]
    rack: Vec<String>,
    /// The most that all nodes together send for repairs; off: no cap
    #[arg(long, value_name = "RATE|off")]
    total: Option<String>,
    /// What stays free of each link beside what applications take: a part like 30%, or a rate
    #[arg(long, value_name = "PART|RATE|off")]
    keep: Option<String>,
    /// Repair yields while the 99th percentile of what agents' probes wait is above this
    #[arg(long, value_name = "TIME|off")]
    p99: Option<String>,
    /// What repair has at least, within caps, while a stripe has no margin left: a rate, or 10%
    /// (of each link)
    #[arg(long, value_name = "RATE|10%")]
    floor: Option<String>,
    /// Repair runs only in the minutes of a cron expression, in a time zone:
    /// '* 22-23,0-5 * * *;Europe/Berlin'; stripes without margin are repaired at any time
    #[arg(long, value_name = "CRON;ZONE|off")]
    window: Option<String>,
    /// No limits at all, whatever coordinator.toml says
    #[arg(long, conflicts_with_all = ["cap", "node", "rack", "total", "keep", "p99", "floor", "window"])]
    off: bool,
    /// As coordinator.toml says
    #[arg(long, conflicts_with_all = ["off", "cap", "node", "rack", "total", "keep", "p99", "floor", "window"])]
    reset: bool,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows what holds, after changing it as asked.
///
/// # Errors
/// Bad input for a value or a name that cannot be; a failure when no coordinator answers.
pub async fn run(args: Args) -> Result<Outcome> {
    let changes = args.changes().map_err(bad_input)?;
    let mut client = args.coordinator.connect().await?;
    let status = if args.changes_something() {
        change(&mut client, &args, changes).await?
    } else {
        status::ask_soon(&mut client).await?
    };
    let throttle = status.throttle.clone().unwrap_or_default();
    match args.format {
        Format::Json => {
            let mut described = status::describe_throttle(&throttle);
            described["age_seconds"] = json!(status.age_seconds);
            print_json(&described)?;
        }
        Format::Text => print(&throttle, &status),
    }
    Ok(Outcome::Done)
}

/// Changes what is asked for, and leaves the rest as it is; gives the status after that.
async fn change(
    client: &mut Client,
    args: &Args,
    changes: Vec<Change>,
) -> Result<proto::StatusReply> {
    let before = status::ask(client).await?;
    let wanted = before.throttle.unwrap_or_default().wanted.unwrap_or_default();
    let throttle = match (args.reset, args.off) {
        (true, _) => None,
        (_, true) => Some(proto::Throttle::default()),
        _ => Some(changed(wanted, changes)),
    };
    client.set_throttle(proto::ThrottleCommand { throttle }).await.map_err(refusal)?;
    status::ask(client).await
}

/// One thing that is wanted otherwise; none: no more.
enum Change {
    Cap(Option<u64>),
    Node(String, Option<u64>),
    Rack(String, Option<u64>),
    Total(Option<u64>),
    Keep(Option<Keep>),
    P99(Option<u64>),
    Floor(Option<u64>),
    Window(Option<String>),
}

impl Args {
    fn changes_something(&self) -> bool {
        let values = [&self.cap, &self.total, &self.keep, &self.p99, &self.floor, &self.window];
        let has_names = !self.node.is_empty() || !self.rack.is_empty();
        self.off || self.reset || has_names || values.iter().any(|value| value.is_some())
    }

    fn changes(&self) -> Result<Vec<Change>, String> {
        let of = |option: &'static str| move |why: String| format!("{option}: {why}");
        let mut changes = Vec::new();
        if let Some(text) = &self.cap {
            changes.push(Change::Cap(or_off(text, cap).map_err(of("--cap"))?));
        }
        for text in &self.node {
            let (name, rate) = named(text, "n3").map_err(of("--node"))?;
            changes.push(Change::Node(name, rate));
        }
        for text in &self.rack {
            let (name, rate) = named(text, "r1").map_err(of("--rack"))?;
            changes.push(Change::Rack(name, rate));
        }
        if let Some(text) = &self.total {
            changes.push(Change::Total(or_off(text, cap).map_err(of("--total"))?));
        }
        if let Some(text) = &self.keep {
            changes.push(Change::Keep(or_off(text, keep).map_err(of("--keep"))?));
        }
        if let Some(text) = &self.p99 {
            let wait = or_off(text, p99).map_err(of("--p99"))?;
            changes.push(Change::P99(wait.map(|wait| wait.as_nanos() as u64)));
        }
        if let Some(text) = &self.floor {
            changes.push(Change::Floor(floor(text).map_err(of("--floor"))?));
        }
        if let Some(text) = &self.window {
            let window = or_off(text, str::parse::<MaintenanceWindow>).map_err(of("--window"))?;
            changes.push(Change::Window(window.map(|window| window.to_string())));
        }
        Ok(changes)
    }
}

/// A name and its cap.
fn named(text: &str, example: &str) -> Result<(String, Option<u64>), String> {
    let Some((name, rate)) = text.rsplit_once('=') else {
        return Err(format!("'{text}' names no rate: write it like {example}=50Mbit"));
    };
    Ok((name.to_string(), or_off(rate, cap)?))
}

/// What is wanted after these changes.
fn changed(mut wanted: proto::Throttle, changes: Vec<Change>) -> proto::Throttle {
    use proto::throttle::Keep as Word;
    let set = |caps: &mut HashMap<String, u64>, name: String, cap: Option<u64>| {
        match cap {
            Some(cap) => caps.insert(name, cap),
            None => caps.remove(&name),
        };
    };
    for change in changes {
        match change {
            Change::Cap(cap) => wanted.node = cap,
            Change::Node(name, cap) => set(&mut wanted.nodes, name, cap),
            Change::Rack(name, cap) => set(&mut wanted.racks, name, cap),
            Change::Total(cap) => wanted.total = cap,
            Change::Keep(keep) => {
                wanted.keep = keep.map(|keep| match keep {
                    Keep::Percent(part) => Word::KeepPercent(part.into()),
                    Keep::Rate(rate) => Word::KeepRate(rate),
                });
            }
            Change::P99(wait) => wanted.p99_ns = wait,
            Change::Floor(floor) => wanted.floor = floor,
            Change::Window(window) => wanted.window = window,
        }
    }
    wanted
}

fn print(throttle: &proto::ThrottleStatus, status: &proto::StatusReply) {
    let wanted = throttle.wanted.clone().unwrap_or_default();
    let from = if throttle.is_default {
        "as coordinator.toml says"
    } else {
        "by an operator (suture repair throttle --reset: as coordinator.toml says)"
    };
    let lines = sentences(&wanted);
    if lines.is_empty() {
        outln!("repair may take all that links carry, {from}")
    } else {
        outln!("repair may take, {from}:")
    }
    lines.iter().for_each(|line| outln!("  {line}"));
    status::throttle_line(status).into_iter().for_each(|line| outln!("{line}"));
    status::age_line(status).into_iter().for_each(|line| outln!("{line}"));
}

/// What is wanted, a line for each thing.
fn sentences(wanted: &proto::Throttle) -> Vec<String> {
    use proto::throttle::Keep as Word;
    let rate = |rate: u64| format_link_rate(rate as f64);
    let mut lines = Vec::new();
    lines.extend(wanted.node.map(|cap| format!("{} at each node in each direction", rate(cap))));
    let sorted = |caps: &HashMap<String, u64>| {
        let mut caps: Vec<(String, u64)> = caps.iter().map(|(n, cap)| (n.clone(), *cap)).collect();
        caps.sort();
        caps
    };
    let nodes = sorted(&wanted.nodes).into_iter();
    lines.extend(nodes.map(|(name, cap)| format!("{} at {name}", rate(cap))));
    let racks = sorted(&wanted.racks).into_iter();
    lines.extend(racks.map(|(name, cap)| format!("{} at all nodes of rack {name}", rate(cap))));
    lines.extend(wanted.total.map(|cap| format!("{} at all nodes together", rate(cap))));
    lines.extend(wanted.keep.map(|keep| match keep {
        Word::KeepPercent(part) => {
            format!("what applications leave of each link, but for {part} % of it")
        }
        Word::KeepRate(kept) => {
            format!("what applications leave of each link, but for {}", rate(kept))
        }
    }));
    lines.extend(wanted.p99_ns.map(|ns| {
        format!(
            "less while more than 1 of 100 probes waits longer than {}",
            format_seconds(ns as f64 / 1e9)
        )
    }));
    lines.extend(
        wanted
            .floor
            .map(|floor| format!("at least {} while a stripe has no margin left", rate(floor))),
    );
    lines.extend(wanted.window.as_ref().map(|window| format!("only in the window {window}")));
    lines
}
