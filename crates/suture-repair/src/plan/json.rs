//! `suture-plan-1`: plans as JSON, the form in which they leave and enter the program.
//!
//! Place: plans as text, on their way out: `suture plan --format json`. In memory a plan holds ids;
//! in JSON nodes carry the names of the cluster file, so that a plan stays readable beside it. A
//! document is the output of `suture plan`: what was asked, what the plans cost, and (unless left
//! out) the plans.
//!
//! Writing is serde; reading goes over the parsed value by hand, because an error must name the
//! field (`plans[3].lanes[0].edges[2]`) and serde knows only line and column. Unknown fields are
//! refused: a plan with fields that are not known must not be carried out in part. Reading does not
//! judge the plan; `validate.rs` does.

mod reader;

use std::collections::BTreeMap;

use serde::Serialize;
use suture_code::Code;

use crate::cluster::Cluster;
use crate::id::{ChunkIndex, NodeId};
use crate::plan::load::Load;
use crate::plan::{Lane, Mode, Plan, Start};

pub use reader::JsonError;

/// The `format` of a document with plans.
pub const FORMAT: &str = "suture-plan-1";

/// The output of `suture plan`, in the order in which it is written.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The name of the format, [`FORMAT`].
    pub format: &'static str,
    /// The name of the policy.
    pub policy: String,
    /// The name of the code.
    pub code: String,
    /// The length of each chunk.
    pub chunk_bytes: u64,
    /// How many chunks are lost.
    pub lost_chunks: usize,
    /// The k-chunk lower bound.
    pub bound_seconds: f64,
    /// A lower bound of the policy's own traffic model, where one is computed.
    pub own_bound_seconds: Option<f64>,
    /// What the busiest port needs.
    pub max_load_seconds: f64,
    /// `max_load_seconds / bound_seconds`; null when nothing is to be done.
    pub ratio: Option<f64>,
    /// CPU time of planning.
    pub planning_seconds: f64,
    /// Bytes sent from one rack to another.
    pub cross_rack_bytes: u64,
    /// Bytes sent by all nodes.
    pub moved_bytes: u64,
    /// What each node moves.
    pub load: Vec<NodeLoadJson>,
    /// Stripes that cannot be repaired.
    pub unrepairable: Vec<u64>,
    /// The plans; absent when they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<Vec<PlanJson>>,
}

/// One node's row of a document's `load`.
#[derive(Debug, Serialize)]
pub struct NodeLoadJson {
    node: String,
    up_bytes: u64,
    down_bytes: u64,
    disk_read_bytes: u64,
    disk_write_bytes: u64,
}

/// A plan as it is written.
#[derive(Debug, Serialize)]
pub struct PlanJson {
    stripe: u64,
    lost: Vec<u8>,
    destinations: BTreeMap<u8, String>,
    start: Option<StartJson>,
    range: [u64; 2],
    period: Option<u64>,
    lanes: Vec<LaneJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum StartJson {
    After(Vec<usize>),
    Slot(u32),
    Wave(u32),
}

#[derive(Debug, Serialize)]
struct LaneJson {
    from: u64,
    to: u64,
    lost: Vec<u8>,
    mode: &'static str,
    decoders: Vec<String>,
    scheme: Option<u32>,
    edges: Vec<(String, String, u64, &'static str)>,
}

/// What a reader needs of a document: the plans and what they are plans of.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedBatch {
    /// The code of the stripes.
    pub code: Code,
    /// The length of each chunk.
    pub chunk_bytes: u64,
    /// The plans of the document.
    pub plans: Vec<Plan>,
}

/// The rows of a document's `load`.
pub fn load_rows(load: &Load, cluster: &Cluster) -> Vec<NodeLoadJson> {
    let nodes = cluster.nodes.iter().zip(load.nodes());
    let row = |(node, load): (&crate::cluster::Node, &crate::plan::load::NodeLoad)| NodeLoadJson {
        node: node.name.clone(),
        up_bytes: load.up_bytes,
        down_bytes: load.down_bytes,
        disk_read_bytes: load.disk_read_bytes,
        disk_write_bytes: load.disk_write_bytes,
    };
    nodes.map(row).collect()
}

/// The form in which `plan` is written. Its nodes must be nodes of `cluster`.
pub fn plan_json(plan: &Plan, cluster: &Cluster) -> PlanJson {
    let name = |node: NodeId| cluster.node(node).name.clone();
    PlanJson {
        stripe: plan.stripe.0,
        lost: numbers(&plan.lost),
        destinations: plan
            .destinations
            .iter()
            .map(|(chunk, &node)| (chunk.0, name(node)))
            .collect(),
        start: start_json(&plan.start),
        range: [plan.range.from, plan.range.to],
        period: plan.period,
        lanes: plan.lanes.iter().map(|lane| lane_json(lane, name)).collect(),
    }
}

/// `plan` as JSON text.
pub fn write_plan(plan: &Plan, cluster: &Cluster) -> String {
    serde_json::to_string(&plan_json(plan, cluster)).expect("a plan has only string keys")
}

/// Reads what [`write_plan`] wrote.
///
/// # Errors
/// When the text is not JSON or not a plan, or names a node that `cluster` does not have.
pub fn read_plan(text: &str, cluster: &Cluster) -> Result<Plan, JsonError> {
    reader::plan(&reader::parse(text)?, cluster)
}

/// Reads a document that holds its plans.
///
/// # Errors
/// As [`read_plan`], and when it is of another format or was written without plans.
pub fn read_document(text: &str, cluster: &Cluster) -> Result<PlannedBatch, JsonError> {
    reader::document(&reader::parse(text)?, cluster)
}

fn start_json(start: &Start) -> Option<StartJson> {
    match start {
        Start::Now => None,
        Start::After(plans) => Some(StartJson::After(plans.clone())),
        Start::Slot(slot) => Some(StartJson::Slot(*slot)),
        Start::Wave(wave) => Some(StartJson::Wave(*wave)),
    }
}

fn lane_json(lane: &Lane, name: impl Fn(NodeId) -> String) -> LaneJson {
    let edges = lane.edges.iter();
    LaneJson {
        from: lane.range.from,
        to: lane.range.to,
        lost: numbers(&lane.lost),
        mode: mode_word(lane.mode),
        decoders: lane.decoder.into_iter().map(&name).collect(),
        scheme: lane.scheme.map(|scheme| scheme.0),
        edges: edges.map(|e| (name(e.child), name(e.parent), e.bytes, e.carries.word())).collect(),
    }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Streamed => "streamed",
        Mode::Stored => "stored",
    }
}

fn numbers(chunks: &[ChunkIndex]) -> Vec<u8> {
    chunks.iter().map(|chunk| chunk.0).collect()
}
