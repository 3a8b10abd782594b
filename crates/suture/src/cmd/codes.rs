//! `suture codes`: what each code costs and gives, and which policies serve it. Computed, not
//! written down.
//!
//! Volumes come from the codes' own repair DAGs; whether a policy serves a code is found by asking
//! the planner for a plan that the agents of this version can execute.

use anyhow::Result;
use serde::Serialize;
use suture_code::{ChunkIndex, Code, CodeError};
use suture_edge::error::bad_input;
use suture_lab::executable::refusal_of;
use suture_repair::policy::Policy;
use suture_terminal::output::{Format, print_json};

use crate::outcome::Outcome;

mod search;
mod text;

/// What is shown when no code is named: the ones that clusters run, and one or two of each family.
const COMMON: [&str; 10] = [
    "rs(3,2)",
    "rs(6,3)",
    "rs(8,3)",
    "rs(10,4)",
    "rs(12,4)",
    "rs-vandermonde(10,4)",
    "lrc(6,2,2)",
    "lrc(12,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
];

/// The families of codes, and what is true of all their members.
const FAMILIES: [Family; 5] = [
    Family {
        form: "rs(k,m)",
        parameters: "k >= 1, m >= 1, k+m <= 255",
        tolerance: "any m chunks",
        description: "Reed-Solomon, byte for byte that of HDFS and ISA-L",
    },
    Family {
        form: "rs-vandermonde(k,m)",
        parameters: "k >= 1, m >= 1, k+m <= 255",
        tolerance: "any m chunks",
        description: "Reed-Solomon, byte for byte that of klauspost/reedsolomon and Backblaze",
    },
    Family {
        form: "lrc(k,l,m)",
        parameters: "l divides k, l >= 1, m >= 1, k+l+m <= 255",
        tolerance: "any m+1 chunks, and up to m+l spread over the groups",
        description: "l groups with a local parity each, and m global parities",
    },
    Family {
        form: "butterfly(k)",
        parameters: "2 <= k <= 8",
        tolerance: "any 2 chunks",
        description: "two parities by exclusive or; one chunk takes half of what remains",
    },
    Family {
        form: "clay(k,m,d)",
        parameters: "k < d < k+m, k+m <= 255, at most 4096 sub-chunks",
        tolerance: "any m chunks",
        description: "coupled layers; d helpers send 1/(d-k+1) of a chunk each",
    },
];

/// Show the codes: parameters, tolerance, overhead, and what repairing one chunk takes.
///
/// That is what it reads and sends, and which policies serve the code: those for which the planner
/// finds plans that the agents of this version can execute.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<CodesSubcommand>,
    /// Codes to show, for instance 'rs(20,6)' [default: common ones]
    #[arg(value_name = "CODE")]
    codes: Vec<Code>,
    /// What to print: tables for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Subcommand)]
enum CodesSubcommand {
    Search(search::Args),
}

#[derive(Serialize)]
struct CodesReport {
    families: &'static [Family],
    codes: Vec<CodeRow>,
}

#[derive(Serialize)]
struct Family {
    form: &'static str,
    parameters: &'static str,
    tolerance: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct CodeRow {
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
    /// The same, kind by kind.
    repairs: Vec<Volume>,
    policies: Vec<Service>,
}

/// What the helpers of one lost chunk read and send, in chunks.
#[derive(Serialize)]
struct Volume {
    /// The chunks of which this is true.
    chunks: Vec<u8>,
    kind: &'static str,
    helpers: usize,
    read_chunks: f64,
    sent_chunks: f64,
    /// What they send when they send traces, averaged over the chunks; absent without a scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_sent_chunks: Option<f64>,
}

/// Whether a policy serves a code.
#[derive(PartialEq, Eq, Serialize)]
struct Service {
    policy: String,
    served: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Prints what the codes cost, or searches for trace schemes.
///
/// # Errors
/// Bad input for codes and outputs that cannot be; a failure when schemes cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    if let Some(CodesSubcommand::Search(args)) = args.command {
        return search::run(&args);
    }
    let common =
        || COMMON.iter().map(|name| name.parse()).collect::<Result<Vec<Code>, CodeError>>();
    let codes = if args.codes.is_empty() { common()? } else { args.codes };
    let rows =
        codes.iter().map(row).collect::<Result<Vec<CodeRow>, CodeError>>().map_err(bad_input)?;
    let report = CodesReport { families: &FAMILIES, codes: rows };
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => text::print(&report),
    }
    Ok(Outcome::Done)
}

fn row(code: &Code) -> Result<CodeRow, CodeError> {
    let repairs = volumes(code)?;
    let chunks = code.chunk_count() as f64;
    let mean = |of: fn(&Volume) -> f64| {
        repairs.iter().map(|volume| of(volume) * volume.chunks.len() as f64).sum::<f64>() / chunks
    };
    // Of chunks that are alike, one is asked about.
    let kinds: Vec<ChunkIndex> =
        repairs.iter().map(|volume| ChunkIndex(volume.chunks[0])).collect();
    let service = |(name, policy)| service(name, policy, code, &kinds);
    Ok(CodeRow {
        code: code.to_string(),
        data_chunks: code.data_chunks(),
        parity_chunks: code.parity_chunks(),
        loss_tolerance: code.loss_tolerance(),
        storage_overhead: chunks / code.data_chunks() as f64,
        sub_chunk_count: code.sub_chunk_count(),
        alignment_bytes: code.alignment(),
        repair_read_chunks: mean(|volume| volume.read_chunks),
        repair_sent_chunks: mean(|volume| volume.sent_chunks),
        repairs,
        policies: Policy::presets().map(service).collect(),
    })
}

/// Chunk by chunk, those together that are of one kind and cost the same.
fn volumes(code: &Code) -> Result<Vec<Volume>, CodeError> {
    let sub_chunks = f64::from(code.sub_chunk_count());
    let mut volumes: Vec<Volume> = Vec::new();
    for lost in code.chunks() {
        let others: Vec<ChunkIndex> = code.chunks().filter(|chunk| *chunk != lost).collect();
        let dag = code.repair_dag(&[lost], &code.helpers_for(&[lost], &others)?)?;
        let (reads, sends) = (dag.reads(), dag.sends());
        let read: usize = reads.iter().map(|(_, sub_chunks)| sub_chunks.len()).sum();
        let sent: u32 = sends.iter().map(|(_, rows)| rows).sum();
        let scheme = code.trace_scheme(lost, &[]);
        let bits = |ranks: Vec<(ChunkIndex, usize)>| ranks.iter().map(|(_, rank)| rank).sum();
        let bits = scheme.map(|scheme| bits(scheme.ranks(code.chunk_count())));
        let volume = Volume {
            chunks: vec![lost.0],
            kind: if usize::from(lost.0) < code.data_chunks() { "data" } else { "parity" },
            helpers: reads.len(),
            read_chunks: read as f64 / sub_chunks,
            sent_chunks: f64::from(sent) / sub_chunks,
            trace_sent_chunks: bits.map(|bits: usize| bits as f64 / 8.0),
        };
        match volumes.iter_mut().find(|known| known.costs_like(&volume)) {
            Some(known) => known.add(&volume),
            None => volumes.push(volume),
        }
    }
    Ok(volumes)
}

impl Volume {
    fn costs_like(&self, other: &Volume) -> bool {
        let cost =
            |volume: &Volume| (volume.kind, volume.helpers, volume.read_chunks, volume.sent_chunks);
        cost(self) == cost(other)
            && self.trace_sent_chunks.is_some() == other.trace_sent_chunks.is_some()
    }

    fn add(&mut self, other: &Volume) {
        let (count, more) = (self.chunks.len() as f64, other.chunks.len() as f64);
        let both = self.trace_sent_chunks.zip(other.trace_sent_chunks);
        self.trace_sent_chunks = both.map(|(a, b)| (a * count + b * more) / (count + more));
        self.chunks.extend(&other.chunks);
    }
}

fn service(name: &str, policy: Policy, code: &Code, kinds: &[ChunkIndex]) -> Service {
    let reason = refusal_of(policy, code, kinds.iter().copied()).map(|error| error.to_string());
    Service { policy: name.to_string(), served: reason.is_none(), reason }
}
