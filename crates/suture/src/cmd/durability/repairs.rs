//! How long a policy takes to repair one failed node, two, some more, a rack: by simulating it.
//!
//! Place: failure detected -> [stripes -> ... -> stripe healthy], a few times, each from an idle
//! and whole cluster. Which nodes fail is drawn by the seed, the same for every policy.

use suture_lab::cpu_time::cpu_ns;
use suture_lab::input::Input;
use suture_repair::event::Blocked;
use suture_repair::id::NodeId;
use suture_repair::planner::PlanError;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_sim::capacity::Capacities;
use suture_sim::durability::repair_times::RepairTimes;
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Overheads, Scenario};
use suture_sim::simulate::{GivenUp, simulate};

use super::DurabilityInput;
use crate::cmd::evaluate::{Refusal, is_of_the_policy};

/// So many single failures are repaired: nodes differ in their links.
const SINGLE_FAILURES: usize = 5;

/// So many sets of each larger number of nodes.
const SETS: usize = 3;

/// More nodes than that fail together only as a rack.
pub const NODES_MAX: usize = 3;

/// How long repairs of one failure took, simulated.
pub struct Repaired {
    /// By number of nodes, ascending from 1.
    pub points: Vec<Point>,
    /// Whether the times were simulated, not given.
    pub is_simulated: bool,
}

/// Repairs of so many nodes that failed together; seconds, scaled to what nodes store.
pub struct Point {
    pub nodes: usize,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub repairs: usize,
}

impl Repaired {
    /// One time for each node, one after the other.
    pub fn given(seconds: f64) -> Repaired {
        let point = Point { nodes: 1, mean: seconds, min: seconds, max: seconds, repairs: 0 };
        Repaired { points: vec![point], is_simulated: false }
    }

    pub fn times(&self) -> RepairTimes {
        RepairTimes::measured(self.points.iter().map(|point| (point.nodes, point.mean)).collect())
    }
}

/// Simulates the repairs of a policy.
///
/// # Errors
/// When the policy is not planned for this cluster and code.
pub fn simulate_all(question: &mut DurabilityInput, policy: Policy) -> Result<Repaired, Refusal> {
    policy.plannable().map_err(|fault| Refusal(fault.to_string()))?;
    let racks = question.racks.clone();
    let scale = question.scale;
    let input = &mut question.input;
    let random = &mut Random::new(input.seed);
    let most = input.code.loss_tolerance().clamp(1, NODES_MAX).min(spare_nodes(input).max(1));
    let mut points = Vec::new();
    for nodes in 1..=most {
        let count = if nodes == 1 { SINGLE_FAILURES } else { SETS };
        let sets = (0..count).map(|_| draw_nodes(input, nodes, random)).collect();
        match simulate_sets(input, policy, sets, scale) {
            Ok(Some(point)) => points.push(point),
            Ok(None) => break,
            // One failure it repairs; how long several take is extrapolated.
            Err(refusal) if points.is_empty() => return Err(refusal),
            Err(_) => break,
        }
    }
    if points.is_empty() {
        return Err(Refusal(
            "no node that was tried holds a chunk to repair: use more stripes".into(),
        ));
    }
    let largest = racks.into_iter().max_by_key(Vec::len).unwrap_or_default();
    if largest.len() > most
        && let Ok(Some(point)) = simulate_sets(input, policy, vec![largest], scale)
    {
        points.push(point);
    }
    Ok(Repaired { points, is_simulated: true })
}

/// Nodes beyond those that a stripe needs: rebuilt chunks go there.
fn spare_nodes(input: &Input) -> usize {
    input.cluster.nodes.len() - input.code.chunk_count()
}

fn draw_nodes(input: &Input, count: usize, random: &mut Random) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = input.cluster.ids().collect();
    random.shuffle(&mut nodes);
    nodes.truncate(count);
    nodes.sort_unstable();
    nodes
}

/// Repairs each set; `None` when none of them lost anything.
fn simulate_sets(
    input: &mut Input,
    policy: Policy,
    sets: Vec<Vec<NodeId>>,
    scale: f64,
) -> Result<Option<Point>, Refusal> {
    let nodes = sets.first().map_or(0, Vec::len);
    let mut seconds = Vec::new();
    for set in sets {
        input.failed = set;
        let result = simulate_one(input, policy);
        input.failed.clear();
        seconds.extend(result?.map(|seconds| seconds * scale));
    }
    if seconds.is_empty() {
        return Ok(None);
    }
    Ok(Some(Point {
        nodes,
        mean: seconds.iter().sum::<f64>() / seconds.len() as f64,
        min: seconds.iter().copied().fold(f64::INFINITY, f64::min),
        max: seconds.iter().copied().fold(0.0, f64::max),
        repairs: seconds.len(),
    }))
}

/// Seconds to repair what `input.failed` lost; `None` if that is nothing.
fn simulate_one(input: &Input, policy: Policy) -> Result<Option<f64>, Refusal> {
    let damage = input.damage();
    if damage.jobs.is_empty() {
        return Ok(None);
    }
    let scenario = Scenario {
        capacities: Capacities::new(input.cluster.clone(), None, None, Vec::new()),
        stripes: input.damaged_stripes(&damage),
        failed: input.failed.clone(),
        silent: input.excluded.clone(),
        free_bytes: input.free_bytes(),
        policy,
        seed: input.seed,
        overheads: Overheads::default(),
        throttle: None,
        foreground: None,
        timeline_buckets: None,
        exact_entries: EXACT_ENTRIES,
    };
    let simulated = simulate(&scenario, &mut cpu_ns);
    for (_, why) in &simulated.unrepaired {
        match why {
            Some(Blocked::Plan(error)) if is_of_the_policy(error) => {
                return Err(Refusal(error.to_string()));
            }
            Some(Blocked::Plan(PlanError::NoDestination)) if simulated.rebuilt.is_empty() => {
                let needed = input.code.chunk_count() + 1;
                return Err(Refusal(format!(
                    "no node is free to take a rebuilt chunk: use at least {needed} nodes, or give \
                     --repair-time"
                )));
            }
            _ => (),
        }
    }
    let is_nothing = simulated.rebuilt.is_empty().then_some(GivenUp::Still);
    if let Some(given_up) = simulated.given_up.or(is_nothing) {
        return Err(Refusal(given_up.to_string()));
    }
    // What found no place in so small a cluster would take its share of time elsewhere.
    let lost: usize = damage.jobs.iter().map(|job| job.lost.len()).sum();
    Ok(Some(simulated.seconds * lost as f64 / simulated.rebuilt.len() as f64))
}
