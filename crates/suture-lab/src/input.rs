//! What `plan`, `simulate` and `durability` work on: a cluster, a placement, failed nodes; read or
//! generated.
//!
//! Place: `[failure detected -> stripes affected] -> queue -> plan -> ...`; here the failure is
//! given on the command line. Files are read by `cluster_file.rs` and `placement_file.rs`, a
//! made-up cluster comes from `generated.rs`; from here on nothing shows the difference.
//!
//! Invariants: every stripe has as many distinct nodes as the code has chunks, every capacity is
//! above zero, and each refusal names the file, the line and the name, and says what to do.

mod cluster_file;
mod generated;
mod placement_file;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use suture_code::code::edit_distance;
use suture_code::{Code, layout};
use suture_edge::bounded::read_text;
use suture_edge::error::bad_input;
use suture_edge::units::{format_exact_size, parse_nonzero_size};
use suture_repair::cluster::Cluster;
use suture_repair::id::{ChunkIndex, Generation, NodeId, Stamp, StripeId};
use suture_repair::planner::Job;
use suture_repair::processor::Processor;
use suture_repair::stripe::{CHUNK_BYTES_MAX, ChunkRecord, Stripe};

pub(crate) use cluster_file::ClusterFile;
pub use cluster_file::{of_cores, read as read_cluster};
pub use generated::{Bandwidth, Shape, generate_cluster, oversubscribed, place};

/// Chunks of long objects are no shorter: each is a file that is made durable.
pub const CHUNK_BYTES_MIN: u64 = 4 << 10;

/// No trace is longer: an hour of ten thousand nodes.
const TRACE_BYTES_MAX: u64 = 256 << 20;

/// The cluster, the stripes and the failure.
#[derive(clap::Args)]
pub struct InputArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The nodes that fail, by name
    #[arg(long, value_name = "NODE[,NODE..]", value_delimiter = ',', required = true)]
    failed: Vec<String>,
}

/// The cluster and the stripes.
#[derive(clap::Args)]
pub struct ClusterArgs {
    /// The nodes and their links (TOML); goes with --placement
    #[arg(long, value_name = "FILE", requires = "placement", help_heading = "Input from files")]
    cluster: Option<PathBuf>,
    /// The node index of each chunk, one stripe a line; goes with --cluster
    #[arg(long, value_name = "FILE", requires = "cluster", help_heading = "Input from files")]
    placement: Option<PathBuf>,
    /// Make up a cluster of so many nodes, n0, n1, ...; goes with --stripes
    #[arg(
        long,
        value_name = "N",
        requires = "stripes",
        conflicts_with = "cluster",
        help_heading = "Generated input"
    )]
    nodes: Option<usize>,
    /// Place so many stripes at random
    #[arg(
        long,
        value_name = "S",
        requires = "nodes",
        conflicts_with = "cluster",
        help_heading = "Generated input"
    )]
    stripes: Option<usize>,
    /// Spread the nodes over so many racks, r0, r1, ...
    #[arg(
        long,
        value_name = "R",
        requires = "nodes",
        conflicts_with = "cluster",
        help_heading = "Generated input"
    )]
    racks: Option<usize>,
    /// How much more a rack's nodes can send than its uplink carries, for instance 5
    #[arg(
        long,
        value_name = "X",
        requires = "racks",
        conflicts_with = "cluster",
        help_heading = "Generated input"
    )]
    oversubscription: Option<f64>,
    /// The links: 1Gbit, or uniform:100Mbit..1Gbit; with :same, uplink and downlink are equal
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1Gbit",
        conflicts_with = "cluster",
        help_heading = "Generated input"
    )]
    bandwidth: Bandwidth,
    /// Cores that each node has for repair, at typical costs; without it none ever waits for them
    #[arg(
        long,
        value_name = "N",
        requires = "nodes",
        conflicts_with = "cluster",
        value_parser = parse_cores,
        help_heading = "Generated input"
    )]
    cores: Option<Processor>,
    /// The code of all stripes, for instance 'rs(6,3)'
    #[arg(long, value_name = "CODE")]
    code: Code,
    /// Bytes of a chunk
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_nonzero_size)]
    chunk_size: u64,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// A processor of so many cores.
fn parse_cores(text: &str) -> Result<Processor, String> {
    let cores = text.parse::<f64>();
    let cores = cores.map_err(|_| format!("'{text}' is not a number of cores, for instance 2"))?;
    of_cores(cores)
}

/// Cluster, placement and failures, checked against each other.
#[derive(Debug)]
pub struct Input {
    /// Nodes, racks and links.
    pub cluster: Cluster,
    /// The code of every stripe.
    pub code: Code,
    /// The length of every chunk.
    pub chunk_bytes: u64,
    /// Bytes of rebuilt chunks that each node may take if it lives.
    pub free_bytes: Vec<u64>,
    /// Nodes that the operator keeps out of it, ascending.
    pub excluded: Vec<NodeId>,
    /// The node of each chunk, stripe after stripe: there may be many millions.
    pub placement: Vec<NodeId>,
    /// Failed nodes, ascending, each once.
    pub failed: Vec<NodeId>,
    /// Where everything random begins.
    pub seed: u64,
}

/// What the failure did to the stripes.
#[derive(Debug, Default)]
pub struct Damage {
    /// Stripes that can be repaired, in order.
    pub jobs: Vec<Job>,
    /// Stripes that cannot be rebuilt from what is left, in order, and why.
    pub unrepairable: Vec<(StripeId, String)>,
    /// Lost chunks of both.
    pub lost_chunks: usize,
}

impl Input {
    /// Reads or generates what the arguments name, and checks it.
    ///
    /// # Errors
    /// Bad input: which file, line or argument is wrong, and why.
    pub fn read(args: &InputArgs) -> Result<Input> {
        let mut input = Input::read_whole(&args.cluster)?;
        input.failed = find_failed(&input.cluster, &args.failed)?;
        Ok(input)
    }

    /// The same with no node failed.
    ///
    /// # Errors
    /// Bad input: which file, line or argument is wrong, and why.
    pub fn read_whole(args: &ClusterArgs) -> Result<Input> {
        let code = args.code;
        let (ClusterFile { cluster, free_bytes, excluded }, placement) =
            match (&args.cluster, &args.placement, args.nodes) {
                (Some(cluster_path), Some(placement_path), _) => {
                    let file = cluster_file::read(cluster_path)?;
                    check_node_count(code, file.cluster.nodes.len())?;
                    let placement = placement_file::read(placement_path, &file.cluster, code)?;
                    (file, placement)
                }
                (_, _, Some(nodes)) => {
                    check_node_count(code, nodes)?;
                    let shape = Shape {
                        nodes,
                        stripes: args.stripes.unwrap_or_default(),
                        racks: args.racks,
                        oversubscription: args.oversubscription,
                        bandwidth: args.bandwidth,
                        processor: args.cores,
                    };
                    let (cluster, placement) = generated::generate(&shape, code, args.seed)?;
                    let free_bytes = vec![u64::MAX; nodes];
                    (ClusterFile { cluster, free_bytes, excluded: Vec::new() }, placement)
                }
                _ => {
                    return Err(bad_input(
                        "no input: give --cluster and --placement, or --nodes and --stripes",
                    ));
                }
            };
        check_chunk_size(args.chunk_size)?;
        let sub_chunks = u64::from(code.sub_chunk_count());
        if !args.chunk_size.is_multiple_of(sub_chunks) {
            return Err(bad_input(format!(
                "--chunk-size {} is not a multiple of the {sub_chunks} sub-chunks of {code}: the next is {}",
                format_exact_size(args.chunk_size),
                format_exact_size(args.chunk_size.next_multiple_of(sub_chunks))
            )));
        }
        let (chunk_bytes, seed, failed) = (args.chunk_size, args.seed, Vec::new());
        Ok(Input { cluster, code, chunk_bytes, free_bytes, excluded, placement, failed, seed })
    }

    /// Bytes of rebuilt chunks that each node may take.
    pub fn free_bytes(&self) -> Vec<u64> {
        let free = self.cluster.ids().zip(&self.free_bytes);
        free.map(|(node, bytes)| if self.failed.contains(&node) { 0 } else { *bytes }).collect()
    }

    /// The stripes that the failure hit.
    pub fn damage(&self) -> Damage {
        let marked = |nodes: &[NodeId]| -> Vec<bool> {
            self.cluster.ids().map(|node| nodes.contains(&node)).collect()
        };
        let (failed, excluded) = (marked(&self.failed), marked(&self.excluded));
        let mut damage = Damage::default();
        for (stripe, nodes) in self.placement.chunks(self.code.chunk_count()).enumerate() {
            let stripe = StripeId(stripe as u64);
            if nodes.iter().all(|node| !failed[node.index()]) {
                continue;
            }
            let chunks = self.code.chunks().zip(nodes.iter().copied());
            let (lost, rest): (Vec<_>, Vec<_>) = chunks.partition(|(_, node)| failed[node.index()]);
            let (idle, survivors): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, node)| excluded[node.index()]);
            damage.lost_chunks += lost.len();
            let readable: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
            if !self.code.decodable(&readable) {
                damage.unrepairable.push((stripe, self.too_many(lost.len(), idle.len())));
                continue;
            }
            damage.jobs.push(Job {
                stripe,
                code: self.code.into(),
                chunk_bytes: self.chunk_bytes,
                lost: lost.into_iter().map(|(chunk, _)| chunk).collect(),
                survivors,
                idle: idle.into_iter().map(|(_, node)| node).collect(),
                excluded: nodes.to_vec(),
                keeper_places: Vec::new(),
                avoid: Vec::new(),
                source: None,
            });
        }
        damage
    }

    /// The stripes that the coordinator has to know: whole ones do not matter to a repair.
    pub fn damaged_stripes(&self, damage: &Damage) -> Vec<Stripe> {
        let (chunks, bytes) = (self.code.chunk_count(), self.chunk_bytes);
        let record =
            |&node: &_| ChunkRecord { node: Some(node), stamp: Stamp(0), bytes, crc: Some(0) };
        let stripe = |job: &Job| Stripe {
            id: job.stripe,
            code: job.code.code(),
            chunk_bytes: bytes,
            unit_bytes: bytes,
            generation: Generation(0),
            chunks: self.placement[job.stripe.0 as usize * chunks..][..chunks]
                .iter()
                .map(record)
                .collect(),
        };
        damage.jobs.iter().map(stripe).collect()
    }

    /// Why a stripe cannot be rebuilt that misses so many chunks.
    fn too_many(&self, lost: usize, idle: usize) -> String {
        let (code, tolerance) = (self.code, self.code.loss_tolerance());
        match idle {
            0 => format!("{lost} chunks are lost, and {code} survives {tolerance}"),
            _ => format!(
                "chunks lost: {lost}, on excluded nodes: {idle}; {code} does without {tolerance}"
            ),
        }
    }
}

/// Whether so many nodes can have a stripe.
///
/// # Errors
/// Bad input when they are too few.
pub fn check_node_count(code: Code, nodes: usize) -> Result<()> {
    let needed = code.chunk_count();
    if nodes >= needed {
        return Ok(());
    }
    Err(bad_input(format!(
        "{nodes} nodes are too few for {code}: each of a stripe's {needed} chunks needs a node of \
         its own; use at least {needed} nodes, and one more to have a place for a rebuilt chunk"
    )))
}

fn find_failed(cluster: &Cluster, names: &[String]) -> Result<Vec<NodeId>> {
    find_nodes(cluster, names)
        .map_err(|of| bad_input(format!("--failed {}: the cluster has {}", of.name, of.why)))
}

/// A name that no node of a cluster has.
#[derive(Clone, Debug)]
pub struct UnknownNode {
    /// The name that no node has.
    pub name: String,
    /// That there is no such node, and the nearest name that one has.
    pub why: String,
}

/// The nodes of these names, ascending, each once.
///
/// # Errors
/// The first name that no node has, and the nearest that one has.
pub fn find_nodes(cluster: &Cluster, names: &[String]) -> Result<Vec<NodeId>, UnknownNode> {
    let find = |name: &String| {
        let name = name.trim();
        cluster.find(name).ok_or_else(|| {
            let known = cluster.nodes.iter().map(|node| node.name.as_str());
            let nearest = known.min_by_key(|known| edit_distance(known, name)).unwrap_or_default();
            let why = format!("no such node; did you mean '{nearest}'?");
            UnknownNode { name: name.to_string(), why }
        })
    };
    let mut failed = names.iter().map(find).collect::<Result<Vec<NodeId>, _>>()?;
    failed.sort_unstable();
    failed.dedup();
    Ok(failed)
}

/// The text of a trace.
///
/// # Errors
/// When the file cannot be read, or is longer than traces are.
pub fn trace_text(path: &Path) -> io::Result<String> {
    read_text(File::open(path)?, TRACE_BYTES_MAX)
}

/// No chunk is longer than agents store.
///
/// # Errors
/// Bad input with the limit.
pub fn check_chunk_size(chunk_bytes: u64) -> Result<()> {
    if chunk_bytes > CHUNK_BYTES_MAX {
        let (size, max) = (format_exact_size(chunk_bytes), format_exact_size(CHUNK_BYTES_MAX));
        let what = format!("--chunk-size {size} is too large: chunks have at most {max}");
        return Err(bad_input(what));
    }
    Ok(())
}

/// Refuses chunks of a code that agents do not store; `origin` is where their length is from.
///
/// # Errors
/// Bad input with the limit, or with the nearest lengths that the code has.
pub fn check_stored_chunk_size(code: &Code, chunk_bytes: u64, origin: &str) -> Result<()> {
    check_chunk_size(chunk_bytes)?;
    layout::check_unit(code, chunk_bytes).map_err(|error| {
        let nearest: Vec<String> = error.nearest().map(format_exact_size).collect();
        bad_input(format!(
            "chunks of {code} are multiples of {}, {origin} {} is not: take {}",
            format_exact_size(error.step),
            format_exact_size(error.bytes),
            nearest.join(" or "),
        ))
    })
}

/// Refuses chunks that are too short for stripes without number.
///
/// # Errors
/// Bad input with the least.
pub fn check_many_chunks(chunk_bytes: u64) -> Result<()> {
    if chunk_bytes < CHUNK_BYTES_MIN {
        let (size, min) = (format_exact_size(chunk_bytes), format_exact_size(CHUNK_BYTES_MIN));
        return Err(bad_input(format!(
            "--chunk-size {size} is too small: each chunk is a file that is made durable, so at \
             least {min}"
        )));
    }
    Ok(())
}
