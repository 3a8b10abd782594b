//! `suture codes`: what each code costs and gives, and which repair shapes serve it. Computed, not written down.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use suture_code::{ChunkIndex, Code, CodeError};

use crate::outcome::{Outcome, bad_input};
use crate::output::{Format, line, print_json};
use crate::units::format_exact_size;

/// What is shown when no code is named: the ones that clusters run.
const COMMON: [&str; 6] = ["rs(3,2)", "rs(4,2)", "rs(6,3)", "rs(8,3)", "rs(10,4)", "rs(12,4)"];

/// The families of codes, and what is true of all their members.
const FAMILIES: [Family; 1] = [Family {
    form: "rs(k,m)",
    parameters: "k >= 1, m >= 1, k+m <= 255",
    tolerance: "any m chunks",
    description: "Reed-Solomon, byte for byte that of HDFS and ISA-L",
}];

/// Show the codes: parameters, tolerance, overhead, and what repairing one chunk reads and sends.
#[derive(clap::Args)]
pub struct Args {
    /// Codes to show, for instance 'rs(20,6)' [default: common ones]
    #[arg(value_name = "CODE")]
    codes: Vec<Code>,
    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    families: &'static [Family],
    codes: Vec<Row>,
}

#[derive(Serialize)]
struct Family {
    form: &'static str,
    parameters: &'static str,
    tolerance: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct Row {
    code: String,
    data_chunks: usize,
    parity_chunks: usize,
    /// How many chunks may be lost, whichever they are.
    loss_tolerance: usize,
    /// Bytes stored for each byte of data.
    storage_overhead: f64,
    sub_chunk_count: u32,
    /// Units and chunks are multiples of this.
    alignment_bytes: usize,
    /// What repairing one chunk takes, in chunks, averaged over which one it is.
    repair_read_chunks: f64,
    repair_sent_chunks: f64,
    policies: Vec<Service>,
}

/// Whether a repair shape serves a code.
#[derive(Serialize)]
struct Service {
    shape: &'static str,
    served: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<Outcome> {
    let common =
        || COMMON.iter().map(|name| name.parse()).collect::<Result<Vec<Code>, CodeError>>();
    let codes = if args.codes.is_empty() { common()? } else { args.codes };
    let rows = codes.iter().map(row).collect::<Result<Vec<Row>, CodeError>>().map_err(bad_input)?;
    let report = Report { families: &FAMILIES, codes: rows };
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print_tables(&report),
    }
    Ok(Outcome::Done)
}

fn row(code: &Code) -> Result<Row, CodeError> {
    let sub_chunks = f64::from(code.sub_chunk_count());
    let chunks = code.chunk_count();
    let mut read_chunks = 0.0;
    let mut sent_chunks = 0.0;
    let mut sums_suffice = true;
    for lost in code.chunks() {
        let others: Vec<ChunkIndex> = code.chunks().filter(|chunk| *chunk != lost).collect();
        let dag = code.repair_dag(&[lost], &code.helpers_for(&[lost], &others)?)?;
        let read: usize = dag.reads().iter().map(|(_, sub_chunks)| sub_chunks.len()).sum();
        read_chunks += read as f64 / sub_chunks;
        sent_chunks += f64::from(code.least_helper_sub_chunks(lost)) / sub_chunks;
        sums_suffice &= dag.partial_coefficients(lost).is_some();
    }
    let in_a_tree = || Service {
        shape: "",
        served: sums_suffice,
        reason: (!sums_suffice).then_some(
            "relays may only add up whole chunks, and its repair needs more than one sum",
        ),
    };
    let star = Service { shape: "star", served: true, reason: None };
    Ok(Row {
        code: code.to_string(),
        data_chunks: code.data_chunks(),
        parity_chunks: code.parity_chunks(),
        loss_tolerance: code.loss_tolerance(),
        storage_overhead: chunks as f64 / code.data_chunks() as f64,
        sub_chunk_count: code.sub_chunk_count(),
        alignment_bytes: code.alignment(),
        repair_read_chunks: read_chunks / chunks as f64,
        repair_sent_chunks: sent_chunks / chunks as f64,
        policies: vec![
            star,
            Service { shape: "ppr", ..in_a_tree() },
            Service { shape: "chain", ..in_a_tree() },
        ],
    })
}

fn print_tables(report: &Report) {
    for family in report.families {
        line(format_args!(
            "{}  {}; survives the loss of {}; {}",
            family.form, family.description, family.tolerance, family.parameters
        ));
    }
    line("");
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "code",
        "data",
        "parity",
        "survives",
        "overhead",
        "alignment",
        "repair reads",
        "and sends",
        "served by",
    ]);
    for row in &report.codes {
        let shapes =
            |served: bool| row.policies.iter().filter(move |policy| policy.served == served);
        let mut served = shapes(true).map(|policy| policy.shape).collect::<Vec<_>>().join(", ");
        for policy in shapes(false) {
            served += &format!("; not {}: {}", policy.shape, policy.reason.unwrap_or_default());
        }
        table.add_row([
            row.code.clone(),
            row.data_chunks.to_string(),
            row.parity_chunks.to_string(),
            format!("any {}", row.loss_tolerance),
            format!("{:.2}x", row.storage_overhead),
            format_exact_size(row.alignment_bytes as u64),
            format_chunks(row.repair_read_chunks),
            format_chunks(row.repair_sent_chunks),
            served,
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(7) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    line(table);
}

fn format_chunks(chunks: f64) -> String {
    if chunks == 1.0 {
        "1 chunk".to_string()
    } else if chunks.fract() == 0.0 {
        format!("{chunks} chunks")
    } else {
        format!("{chunks:.2} chunks")
    }
}
