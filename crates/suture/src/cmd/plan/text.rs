//! `suture plan` for people: what is lost, how long it takes, where it is tight, what would help.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> ...`
//! Times here are loads: what the busiest port needs if it is never idle. Advice is given only
//! where it follows from the numbers of this very input.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{ColumnConstraint, Table, presets};
use suture_code::Code;
use suture_edge::units::{
    format_link_rate, format_percent, format_rate, format_seconds, format_size,
};
use suture_repair::id::NodeId;
use suture_repair::plan::load::{Port, PortLoad};
use suture_repair::policy::{Balance, Policy, Shape};
use suture_terminal::output::{counted, lines};

use super::{Damage, Input, Planned, evaluate};
use crate::cmd::evaluate::text::{
    align_right, bound_meaning, nothing_to_do, refused, trimmed, unrepairable, what_is_lost,
    who_helps,
};
use crate::cmd::evaluate::{Answer, served};

/// Rows of the table of busiest ports: enough to see whether one stands out.
const PORTS_SHOWN: usize = 5;

/// A port within this part of the peak is as good as the busiest.
const NEAR_PEAK: f64 = 0.95;

/// So many ports near the peak are more than a few that could be mended one by one.
const NEAR_PEAK_FEW: usize = 4;

/// Above this ratio a plan leaves something worth looking for.
const WORTH_IMPROVING: f64 = 1.05;

/// The most jobs for which advice may plan again: well under a second.
const ADVICE_JOBS_MAX: usize = 20_000;

pub(super) fn print(input: &Input, damage: &Damage, evaluation: &Planned) -> Result<()> {
    let mut out = String::new();
    writeln!(out, "{}", what_is_lost(input, damage))?;
    if evaluation.batch.plans.is_empty() {
        writeln!(out, "{}", nothing_to_do(damage))?;
    } else {
        writeln!(out, "{}", who_helps(evaluation.policy))?;
        writeln!(out, "\n{}", figures(input, evaluation))?;
        writeln!(out, "\n{}", busiest_ports(input, evaluation))?;
        writeln!(out, "\n{}", advice(input, damage, evaluation))?;
    }
    out += &unrepairable(&evaluation.unrepairable)?;
    lines(&out);
    Ok(())
}

pub(super) fn print_comparison(
    input: &Input,
    damage: &Damage,
    results: &[Answer<Planned>],
) -> Result<()> {
    let mut out = String::new();
    writeln!(out, "{}\n", what_is_lost(input, damage))?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["policy", "busiest port", "x bound", "moved", "across racks", "planned in"]);
    for Answer { policy, result } in results {
        if let Ok(evaluation) = result {
            table.add_row([
                policy.to_string(),
                format_seconds(evaluation.max_load_seconds),
                evaluation.ratio().map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}")),
                format_size(evaluation.load.moved_bytes()),
                format_size(evaluation.load.cross_rack_bytes()),
                format_seconds(evaluation.planning_seconds),
            ]);
        }
    }
    align_right(&mut table, 1);
    if input.cluster.racks.is_empty() {
        table.column_mut(4).expect("there are six").set_constraint(ColumnConstraint::Hidden);
    }
    writeln!(out, "{}", trimmed(&table))?;
    let served: Vec<&Planned> = served(results).collect();
    if let Some(evaluation) = served.first() {
        let bound = format_seconds(evaluation.bound_seconds);
        writeln!(out, "\nThe bound is {bound}: {}.", bound_meaning(&input.code))?;
    }
    out += &refused(results);
    if let Some(evaluation) = served.first() {
        out += &unrepairable(&evaluation.unrepairable)?;
    }
    lines(&out);
    Ok(())
}

/// What no plan of the policy's kind can do.
fn own_bound(policy: Policy, code: &Code) -> &'static str {
    match (policy.shape, policy.balance) {
        (Shape::Rack | Shape::Star, Balance::Car(_) | Balance::CarRandom) => {
            "no plan that keeps chunks in the failed rack is faster"
        }
        (Shape::Star, _) => "no plan that gathers each chunk in one place is faster",
        (Shape::Trace, _) => "no plan with traces alone is faster",
        _ if !has_traces(code) => "no plan is faster, whichever helpers it takes",
        _ => "no plan of whole chunks and traces is faster",
    }
}

/// Whether its plans may send traces; other codes have other ways below the bound.
fn has_traces(code: &Code) -> bool {
    matches!(code, Code::Rs(_) | Code::RsVandermonde(_))
}

fn figures(input: &Input, evaluation: &Planned) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let distance = evaluation.ratio().map_or_else(String::new, |ratio| match ratio {
        ratio if ratio < 0.9995 => {
            format!("{} below the bound, thanks to traces", format_percent((1.0 - ratio) * 100.0))
        }
        ratio if ratio < 1.0005 => "on the bound".to_string(),
        ratio if ratio < 2.0 => {
            format!("{} above the bound", format_percent((ratio - 1.0) * 100.0))
        }
        ratio => format!("{ratio:.1} times the bound"),
    });
    let bound = format_seconds(evaluation.bound_seconds);
    table.add_row(["bound", &bound, bound_meaning(&input.code)]);
    if let Some(own) = evaluation.own_bound_seconds.filter(|own| evaluation.is_apart(*own)) {
        let above = (evaluation.max_load_seconds / own - 1.0).max(0.0) * 100.0;
        let meaning = format!(
            "{}; this one is {} above it",
            own_bound(evaluation.policy, &input.code),
            format_percent(above)
        );
        table.add_row(["own bound", &format_seconds(own), &meaning]);
    }
    let peak = format_seconds(evaluation.max_load_seconds);
    table.add_row(["busiest port", &peak, &distance]);
    let moved = evaluation.load.moved_bytes();
    let repaired: u64 = evaluation.batch.plans.iter().map(|plan| plan.lost.len() as u64).sum();
    let each = moved as f64 / (repaired * input.chunk_bytes) as f64;
    let each = format!("{each:.2} chunks for each lost one");
    table.add_row(["moved", &format_size(moved), &each]);
    if !input.cluster.racks.is_empty() {
        let crossing = evaluation.load.cross_rack_bytes();
        let share = format!("{} of it", format_percent(100.0 * crossing as f64 / moved as f64));
        table.add_row(["across racks", &format_size(crossing), &share]);
    }
    let planning = format_seconds(evaluation.planning_seconds);
    let plans = counted(evaluation.batch.plans.len() as u64, "plan");
    table.add_row(["planned in", &planning, &plans]);
    trimmed(&table)
}

fn busiest_ports(input: &Input, evaluation: &Planned) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["busiest ports", "", "to move", "at", "takes"]);
    for port in ports_by_time(input, evaluation).iter().take(PORTS_SHOWN) {
        let (name, kind, _) = describe(input, port.port);
        table.add_row([
            name,
            kind.to_string(),
            format_size(port.bytes),
            rate(input, port.port),
            format_seconds(port.seconds),
        ]);
    }
    align_right(&mut table, 2);
    trimmed(&table)
}

fn ports_by_time(input: &Input, evaluation: &Planned) -> Vec<PortLoad> {
    let mut ports: Vec<PortLoad> = evaluation.load.ports(&input.cluster).collect();
    ports.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    ports
}

/// What would make the repair faster: another policy, more of everything, or one port.
fn advice(input: &Input, damage: &Damage, evaluation: &Planned) -> String {
    let suture: Policy = "suture".parse().expect("suture is a preset");
    let is_far = evaluation.ratio().is_some_and(|ratio| ratio >= WORTH_IMPROVING);
    if is_far && evaluation.policy != suture && damage.jobs.len() <= ADVICE_JOBS_MAX {
        let mut known = Some(evaluation.known_bound());
        let better = evaluate(suture, input, damage, 0, &mut known).ok();
        let factor = |better: &Planned| evaluation.max_load_seconds / better.max_load_seconds;
        if let Some(better) = better.filter(|better| factor(better) >= WORTH_IMPROVING) {
            return format!(
                "What would help: --policy suture. It spreads the same repair so that the \
                 busiest port needs {}, {:.2} times less.",
                format_seconds(better.max_load_seconds),
                factor(&better)
            );
        }
    }
    let ports = ports_by_time(input, evaluation);
    let is_near = |port: &&PortLoad| port.seconds >= NEAR_PEAK * evaluation.max_load_seconds;
    match ports.iter().filter(is_near).count() {
        1..NEAR_PEAK_FEW => one_tight_port(input, &ports),
        near => format!(
            "What would help: more nodes or faster links, or a code whose repair reads less than \
             {}. Another plan hardly: {near} ports are within 5 % of the busiest.",
            input.code
        ),
    }
}

fn one_tight_port(input: &Input, ports: &[PortLoad]) -> String {
    let tightest = ports[0].port;
    let (name, kind, remedy) = describe(input, tightest);
    let other = ports.iter().find(|port| !same_kind(port.port, tightest));
    let otherwise = other.map_or_else(String::new, |port| {
        let (name, kind, _) = describe(input, port.port);
        format!(" The {kind} of {name} needs {}.", format_seconds(port.seconds))
    });
    format!("What would help: {remedy}; the {kind} of {name} sets the pace.{otherwise}")
}

fn same_kind(a: Port, b: Port) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// A port's owner, its kind, and what to do when it is the tightest.
fn describe(input: &Input, port: Port) -> (String, &'static str, &'static str) {
    let node = |id: NodeId| input.cluster.node(id).name.clone();
    let racks = &input.cluster.racks;
    match port {
        Port::Uplink(id) => {
            (node(id), "uplink", "a faster uplink or less foreground traffic there")
        }
        Port::Downlink(id) => {
            (node(id), "downlink", "a faster downlink or less foreground traffic there")
        }
        Port::DiskRead(id) => (node(id), "disk read", "disks that read faster"),
        Port::DiskWrite(id) => (node(id), "disk write", "disks that write faster"),
        Port::Processor(id) => (node(id), "processor", "more cores there, or plans without traces"),
        Port::RackUplink(id) => (
            racks[id.0 as usize].clone(),
            "rack uplink",
            "fewer bytes across racks, or a wider core",
        ),
        Port::RackDownlink(id) => (
            racks[id.0 as usize].clone(),
            "rack downlink",
            "fewer bytes across racks, or a wider core",
        ),
    }
}

/// The capacity that repair may use.
fn rate(input: &Input, port: Port) -> String {
    let cluster = &input.cluster;
    let disk = |rate: Option<suture_repair::cluster::Rate>| {
        rate.map_or_else(String::new, |rate| format_rate(rate.0))
    };
    let cores = |of: Option<&suture_repair::processor::Processor>| {
        of.map_or_else(String::new, |of| format!("cores: {}", of.cores()))
    };
    let core = |rate: fn(&suture_repair::cluster::Core) -> f64| {
        cluster.core.as_ref().map_or_else(String::new, |core| format_link_rate(rate(core)))
    };
    match port {
        Port::Uplink(id) => format_link_rate(cluster.node(id).uplink_free().0),
        Port::Downlink(id) => format_link_rate(cluster.node(id).downlink_free().0),
        Port::DiskRead(id) => disk(cluster.node(id).disk_read),
        Port::DiskWrite(id) => disk(cluster.node(id).disk_write),
        Port::Processor(id) => cores(cluster.node(id).processor.as_ref()),
        Port::RackUplink(_) => core(|core| core.rack_uplink.0),
        Port::RackDownlink(_) => core(|core| core.rack_downlink.0),
    }
}
