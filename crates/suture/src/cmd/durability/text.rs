//! `suture durability` for people: repair times, chances of loss side by side, and what to doubt.
//!
//! Place: failure -> ... -> stripe healthy, for years, as tables.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{Table, presets};
use suture_edge::units::{format_chance, format_long, format_percent, format_size};
use suture_sim::durability::{Estimate, Interval, Method};
use suture_terminal::output::{counted, lines};

use super::{DurabilityInput, Prospect};
use crate::cmd::evaluate::text::{align_right, refused, trimmed};
use crate::cmd::evaluate::{Answer, served};

/// Nodes that are failed for a larger part of the time make outages run into each other.
const BUSY_SHARE_MAX: f64 = 0.3;

/// An interval wider than this to either side says little.
const RELATIVE_ERROR_MAX: f64 = 0.3;

/// Fewer equal weights than that make an interval of a normal distribution too narrow.
const EFFECTIVE_SAMPLES_MIN: f64 = 50.0;

/// A node with less is a trial.
const NODE_BYTES_MIN: f64 = (100u64 << 30) as f64;

/// Below it new nodes fail so often at first that few runs dominate the weights.
const YOUNG_SHAPE: f64 = 0.75;

/// Prints one policy's estimates.
///
/// # Errors
/// Those of formatting, which text in memory does not have.
pub fn print(question: &DurabilityInput, evaluation: &Prospect) -> Result<()> {
    let mut out = assumptions(question);
    writeln!(out, "\n{}", repair_times(evaluation))?;
    writeln!(out, "\n{}", chances(question, evaluation))?;
    writeln!(out, "\n{}", how_estimated(&evaluation.estimate))?;
    for warning in warnings(question, evaluation) {
        writeln!(out, "Note: {warning}.")?;
    }
    lines(&out);
    Ok(())
}

/// Prints a row for each policy.
///
/// # Errors
/// Those of formatting, which text in memory does not have.
pub fn print_comparison(question: &DurabilityInput, results: &[Answer<Prospect>]) -> Result<()> {
    let mut out = assumptions(question);
    writeln!(out, "\n{}", comparison_table(question, results))?;
    out += &refused(results);
    let mut all: Vec<String> = Vec::new();
    for warning in served(results).flat_map(|evaluation| warnings(question, evaluation)) {
        if !all.contains(&warning) {
            all.push(warning);
        }
    }
    if !all.is_empty() {
        writeln!(out, "\nNote: {}.", all.join(".\nNote: "))?;
    }
    lines(&out);
    Ok(())
}

fn assumptions(question: &DurabilityInput) -> String {
    let input = &question.input;
    let stripes = input.placement.len() / input.code.chunk_count();
    let racks = match input.cluster.racks.len() {
        0 => String::new(),
        racks => format!(" in {}", counted(racks as u64, "rack")),
    };
    let spread = match question.weibull {
        None => "exponential".to_string(),
        Some(shape) => format!("Weibull of shape {shape}"),
    };
    let rack_failures = if question.racks.is_empty() {
        String::new()
    } else {
        format!(", a rack {}", format_long(question.rack_mttf_seconds))
    };
    format!(
        "{}{racks} with {} of {}, chunks of {}; a node stores {}.\n\
         A node lives {} on average ({spread}){rack_failures}; its repair begins after {}. \
         Data is to last {}.\n",
        counted(input.cluster.nodes.len() as u64, "node"),
        counted(stripes as u64, "stripe"),
        input.code,
        format_size(input.chunk_bytes),
        format_size(question.node_bytes as u64),
        format_long(question.lifetime.mean()),
        format_long(question.detection_seconds),
        format_long(question.mission_seconds),
    )
}

fn repair_times(evaluation: &Prospect) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let title = match evaluation.policy {
        Some(policy) => format!("repair by {policy}"),
        None => "repair".to_string(),
    };
    table.set_header([title.as_str(), "takes", ""]);
    for point in &evaluation.repaired.points {
        let source = match point.repairs {
            0 => "as given".to_string(),
            1 => "in one simulated repair".to_string(),
            repairs => format!(
                "{} to {} in {repairs} simulated repairs",
                format_long(point.min),
                format_long(point.max)
            ),
        };
        let nodes = counted(point.nodes as u64, "failed node");
        table.add_row([nodes, format_long(point.mean), source]);
    }
    align_right_column(&mut table, 1);
    trimmed(&table)
}

fn align_right_column(table: &mut Table, column: usize) {
    let column = table.column_mut(column).expect("the table has it");
    column.set_cell_alignment(comfy_table::CellAlignment::Right);
}

fn chances(question: &DurabilityInput, evaluation: &Prospect) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let within = format!("within {}", format_long(question.mission_seconds));
    table.set_header([
        "data loss",
        within.as_str(),
        "95 % interval",
        "mean time to it (MTTDL)",
        "",
    ]);
    let mut add_estimate = |name: &str, estimate: &Estimate, meaning: &str| {
        table.add_row([
            name.to_string(),
            chance_of(estimate),
            chance_interval(estimate),
            mttdl_of(estimate),
            meaning.to_string(),
        ]);
    };
    add_estimate("estimate", &evaluation.estimate, "stripes at the greatest risk repaired first");
    if let Some(as_chain) = &evaluation.as_chain {
        add_estimate("estimate, as chain", as_chain, "whole nodes repaired, exponential times");
    }
    let chain = &evaluation.chain;
    table.add_row([
        "Markov chain".to_string(),
        format_chance(chain.loss_probability(question.mission_seconds)),
        "-".to_string(),
        format_long(chain.mttdl()),
        "the same in closed form".to_string(),
    ]);
    let equation_2 = format_chance(evaluation.equation_2);
    let mut row = ["Equation 2", &equation_2, "-", "-", "for each repair of a node, not in years"];
    if evaluation.as_chain.is_none() {
        row[4] = "for each repair of a node; exponential";
    }
    table.add_row(row);
    (1..4).for_each(|column| align_right_column(&mut table, column));
    trimmed(&table)
}

fn comparison_table(question: &DurabilityInput, results: &[Answer<Prospect>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let within = format!("loss in {}", format_long(question.mission_seconds));
    table.set_header([
        "policy",
        "node repaired in",
        &within,
        "95 % interval",
        "mean time to loss",
        "Markov chain",
        "Equation 2",
    ]);
    for Answer { policy, result } in results {
        let Ok(evaluation) = result else { continue };
        table.add_row([
            policy.to_string(),
            format_long(evaluation.repaired.points[0].mean),
            chance_of(&evaluation.estimate),
            chance_interval(&evaluation.estimate),
            mttdl_of(&evaluation.estimate),
            format_chance(evaluation.chain.loss_probability(question.mission_seconds)),
            format_chance(evaluation.equation_2),
        ]);
    }
    align_right(&mut table, 1);
    trimmed(&table)
}

fn chance_of(estimate: &Estimate) -> String {
    match estimate.loss_probability.value {
        0.0 => "none found".to_string(),
        chance => format_chance(chance),
    }
}

fn chance_interval(estimate: &Estimate) -> String {
    let Interval { low, high, .. } = estimate.loss_probability;
    format!("{} to {}", format_chance(low), format_chance(high))
}

fn mttdl_of(estimate: &Estimate) -> String {
    let Interval { value, low, .. } = estimate.mttdl_seconds;
    if value.is_finite() { format_long(value) } else { format!("over {}", format_long(low)) }
}

fn how_estimated(estimate: &Estimate) -> String {
    let error = if estimate.relative_error.is_finite() {
        let error = format_percent(100.0 * estimate.relative_error);
        format!("within {error} at 95 % confidence")
    } else {
        "no loss was found".to_string()
    };
    match estimate.method {
        Method::Counting => format!(
            "Estimate: {} of {} missions lost data; {error}.",
            estimate.missions_lost, estimate.runs
        ),
        Method::Biasing | Method::Auto => format!(
            "Estimate: {} of {} outages with frequent failures lost data, weighted (as good as {:.0} \
             equal ones), from {}; {error}.",
            estimate.outages_lost,
            estimate.outages,
            estimate.effective_samples,
            counted(estimate.runs as u64, "mission"),
        ),
    }
}

/// Where assumptions do not hold, as sentences without their full stops.
pub fn warnings(question: &DurabilityInput, evaluation: &Prospect) -> Vec<String> {
    let (input, estimate) = (&question.input, &evaluation.estimate);
    let mut all = Vec::new();
    let mut warn = |is_so: bool, text: String| all.extend(is_so.then_some(text));
    let busy = format_percent(100.0 * estimate.busy_share);
    warn(
        estimate.busy_share > BUSY_SHARE_MAX,
        format!(
            "some node is failed in {busy} of the time; outages run into each other, and weights scatter"
        ),
    );
    let is_weighted = estimate.method != Method::Counting;
    let is_uncertain = estimate.relative_error > RELATIVE_ERROR_MAX
        || is_weighted && estimate.effective_samples < EFFECTIVE_SAMPLES_MIN;
    warn(
        is_uncertain,
        "few losses carry the estimate; a larger --runs makes it firmer".to_string(),
    );
    let is_ageing = !question.lifetime.is_exponential();
    warn(
        is_ageing,
        "the Markov chain and Equation 2 leave ageing out: they take the same mean, exponential"
            .to_string(),
    );
    warn(
        is_ageing && question.weibull.is_some_and(|shape| shape < YOUNG_SHAPE),
        "with so many early failures the first days of the cluster weigh most; all nodes begin new"
            .to_string(),
    );
    warn(
        !question.racks.is_empty(),
        "the Markov chain and Equation 2 leave racks out: they count failures of single nodes"
            .to_string(),
    );
    let (code, tolerance) = (input.code, input.code.loss_tolerance());
    warn(
        tolerance < code.parity_chunks(),
        format!(
            "Equation 2 takes any {} losses as fatal; {code} survives some of them",
            tolerance + 1
        ),
    );
    let nodes = input.cluster.nodes.len();
    warn(
        nodes > code.chunk_count(),
        format!(
            "Equation 2 is about {} nodes that hold every stripe; here are {nodes}",
            code.chunk_count()
        ),
    );
    warn(
        evaluation.repaired.is_simulated && question.node_bytes < NODE_BYTES_MIN,
        format!(
            "a node stores {} only; --node-data 8TB, for instance, estimates a full one",
            format_size(question.node_bytes as u64)
        ),
    );
    warn(
        question.scale > 1.0,
        "each stripe stands for a group of stripes on the same nodes; more groups, more ways to lose one".to_string(),
    );
    let most = evaluation.repaired.points.last().map_or(1, |point| point.nodes);
    warn(
        evaluation.repaired.is_simulated && most < tolerance.min(super::repairs::NODES_MAX),
        format!("repairs of more than {} at once are extrapolated", counted(most as u64, "node")),
    );
    let is_rackless = question.rack_mttf_seconds == super::NEVER && !input.cluster.racks.is_empty();
    warn(is_rackless, "racks do not fail; --rack-mttf 100y, for instance, lets them".to_string());
    all
}
