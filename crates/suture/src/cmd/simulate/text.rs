//! `suture simulate` for people: how long, how far from the bound, and what the time went into.
//!
//! Place: `failure -> ... -> stripe healthy`, as a table.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{ColumnConstraint, Table, presets};
use suture_edge::units::{format_percent, format_rate, format_seconds, format_size};
use suture_sim::client::percentile;
use suture_sim::scenario::Foreground;
use suture_terminal::output::{counted, lines};

use super::foreground::Interference;
use super::throttle::described;
use super::{Run, SimulationInput};
use crate::cmd::evaluate::text::{
    align_right, bound_meaning, nothing_to_do, refused, trimmed, unrepairable, what_is_lost,
    who_helps,
};
use crate::cmd::evaluate::{Answer, served};

/// Prints one policy's run.
///
/// # Errors
/// Those of formatting, which text in memory does not have.
pub fn print(question: &SimulationInput<'_>, evaluation: &Run) -> Result<()> {
    let mut out = String::new();
    writeln!(out, "{}", what_is_lost(question.input, question.damage))?;
    if evaluation.simulated.rebuilt.is_empty() {
        writeln!(out, "{}", nothing_to_do(question.damage))?;
    } else {
        writeln!(out, "{}", who_helps(evaluation.policy))?;
        writeln!(out, "\n{}", figures(question, evaluation))?;
        if let Some(clients) = &evaluation.clients {
            let interference = Interference::of(clients);
            let operations = clients.during.latencies.len();
            writeln!(out, "\n{}", applications(question, &interference, operations))?;
        }
    }
    out += &notes(question);
    out += &unrepairable(&evaluation.unrepairable)?;
    lines(&out);
    Ok(())
}

/// Prints a row for each policy.
///
/// # Errors
/// Those of formatting, which text in memory does not have.
pub fn print_comparison(question: &SimulationInput<'_>, results: &[Answer<Run>]) -> Result<()> {
    let mut out = String::new();
    writeln!(out, "{}\n", what_is_lost(question.input, question.damage))?;
    writeln!(out, "{}", trimmed(&comparison_table(question, results)))?;
    let served: Vec<&Run> = served(results).collect();
    if let Some(evaluation) = served.first() {
        let bound = format_seconds(evaluation.bound_seconds);
        let traced = question.scenario.capacities.is_traced();
        let links = if traced { ", with what links have until then" } else { "" };
        let meaning = bound_meaning(&question.input.code);
        writeln!(out, "\nThe bound is {bound}: {meaning}{links}.")?;
    }
    out += &refused(results);
    if let Some(evaluation) = served.first() {
        out += &unrepairable(&evaluation.unrepairable)?;
    }
    lines(&out);
    Ok(())
}

fn comparison_table(question: &SimulationInput<'_>, results: &[Answer<Run>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "policy",
        "repaired in",
        "of the bound",
        "busiest port",
        "chunk p50",
        "p99",
        "moved",
        "across racks",
        "client p99",
        "interference",
        "planned in",
    ]);
    for Answer { policy, result } in results {
        let Ok(evaluation) = result else { continue };
        let (simulated, chunks) = (&evaluation.simulated, evaluation.chunk_seconds());
        let clients = evaluation.clients.as_ref().map(Interference::of);
        let dash = || "-".to_string();
        table.add_row([
            policy.to_string(),
            format_seconds(simulated.seconds),
            evaluation.percent_of_bound().map_or_else(dash, format_percent),
            format_seconds(evaluation.max_load_seconds),
            format_seconds(percentile(&chunks, 0.5)),
            format_seconds(percentile(&chunks, 0.99)),
            format_size(simulated.load.moved_bytes()),
            format_size(simulated.load.cross_rack_bytes()),
            clients.map_or_else(dash, |all| format_seconds(all.p99_ms / 1e3)),
            clients.map_or_else(dash, |all| format!("{:.2}", all.interference_degree)),
            format_seconds(evaluation.planning_seconds),
        ]);
    }
    align_right(&mut table, 1);
    let mut hide = |column: usize| {
        table
            .column_mut(column)
            .expect("there are eleven")
            .set_constraint(ColumnConstraint::Hidden);
    };
    if question.input.cluster.racks.is_empty() {
        hide(7);
    }
    if question.scenario.foreground.is_none() {
        hide(8);
        hide(9);
    }
    table
}

fn figures(question: &SimulationInput<'_>, evaluation: &Run) -> String {
    let (simulated, chunks) = (&evaluation.simulated, evaluation.chunk_seconds());
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let percent = evaluation.percent_of_bound().unwrap_or_default();
    let of_bound = format!("{} of the bound", format_percent(percent));
    table.add_row(["repaired in", &format_seconds(simulated.seconds), &of_bound]);
    let bound = format_seconds(evaluation.bound_seconds);
    table.add_row(["bound", &bound, bound_meaning(&question.input.code)]);
    let peak = format_seconds(evaluation.max_load_seconds);
    table.add_row(["busiest port", &peak, &where_time_went(evaluation)]);
    let rate = format_rate(evaluation.repaired_bytes_per_second());
    let count = simulated.rebuilt.len();
    let rebuilt = format_size(count as u64 * evaluation.chunk_bytes);
    table.add_row(["rebuilt", &rate, &format!("{rebuilt} in all")]);
    let others = format!(
        "half of them; 99 % within {}, all within {}",
        format_seconds(percentile(&chunks, 0.99)),
        format_seconds(percentile(&chunks, 1.0)),
    );
    table.add_row(["a chunk", &format_seconds(percentile(&chunks, 0.5)), &others]);
    let moved = simulated.load.moved_bytes();
    let each = moved as f64 / (count as u64 * evaluation.chunk_bytes) as f64;
    let each = format!("{each:.2} chunks for each lost one");
    table.add_row(["moved", &format_size(moved), &each]);
    if !question.input.cluster.racks.is_empty() {
        let crossing = simulated.load.cross_rack_bytes();
        let share = format!("{} of it", format_percent(100.0 * crossing as f64 / moved as f64));
        table.add_row(["across racks", &format_size(crossing), &share]);
    }
    table.add_row(["planned in", &format_seconds(evaluation.planning_seconds), ""]);
    trimmed(&table)
}

/// What the plans cost, and what their schedule adds.
fn where_time_went(evaluation: &Run) -> String {
    let peak = evaluation.max_load_seconds;
    let added = (evaluation.simulated.seconds / peak - 1.0) * 100.0;
    let schedule = match added {
        added if added < 0.05 => "never idle".to_string(),
        added => format!("its pauses add {}", format_percent(added)),
    };
    match evaluation.ratio() {
        Some(ratio) if ratio > 1.0005 => {
            format!("{} above the bound; {schedule}", format_percent((ratio - 1.0) * 100.0))
        }
        Some(ratio) if ratio < 0.9995 => {
            format!("{} below the bound; {schedule}", format_percent((1.0 - ratio) * 100.0))
        }
        _ => schedule,
    }
}

fn applications(question: &SimulationInput<'_>, all: &Interference, operations: usize) -> String {
    let Some(foreground) = question.scenario.foreground else { return String::new() };
    let Foreground { workload, clients, .. } = foreground;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["requests", "p50", "p99"]);
    let row = |name: &str, p50: f64, p99: f64| {
        [name.to_string(), format_seconds(p50 / 1e3), format_seconds(p99 / 1e3)]
    };
    table.add_row(row("without the repair", all.baseline_p50_ms, all.baseline_p99_ms));
    table.add_row(row("during it", all.p50_ms, all.p99_ms));
    align_right(&mut table, 1);
    let longer = match all.interference_degree {
        degree if degree < 1.0 => format!("{} longer", format_percent(100.0 * degree)),
        degree => format!("{:.1} times as long", 1.0 + degree),
    };
    format!(
        "{}\n{workload}, {}: {operations} operations took {longer}.",
        trimmed(&table),
        counted(clients as u64, "client")
    )
}

/// What a reader must know to compare.
fn notes(question: &SimulationInput<'_>) -> String {
    let mut notes = String::new();
    if question.scenario.capacities.is_traced() {
        notes += "\nLinks follow a trace; the bound counts what they have until then.\n";
    }
    if let Some(throttle) = &question.scenario.throttle {
        notes += match question.scenario.foreground {
            Some(_) => "\nRepair yields: applications go first, and it takes ",
            None => "\nRepair takes ",
        };
        notes += &format!("{} (--throttle off: it takes what it gets).\n", described(throttle));
    }
    notes
}
