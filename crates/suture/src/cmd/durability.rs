//! `suture durability`: how likely data is lost in years, given how fast a policy repairs.
//!
//! Place: failure detected -> ... -> stripe healthy, for years. `repairs.rs` simulates repairs of a
//! few failures; what their length is worth is computed in `suture-sim/durability`, and stands
//! beside what Equation 2 of ChameleonEC and a Markov chain say.

mod repairs;
mod report;
mod text;

use anyhow::Result;
use suture_edge::error::{bad_input, brief};
use suture_edge::units::{parse_nonzero_size, parse_time};
use suture_lab::input::{ClusterArgs, Input};
use suture_repair::id::{NodeId, RackId};
use suture_repair::policy::Policy;
use suture_sim::durability::chain::Chain;
use suture_sim::durability::equation;
use suture_sim::durability::lifetime::Lifetime;
use suture_sim::durability::placement::Placement;
use suture_sim::durability::{Effort, Estimate, Method, Model, Repairs, YEAR_SECONDS, estimate};
use suture_terminal::output::{Format, print_json};

use self::repairs::Repaired;
use super::evaluate::{Answer, Comparison, compared, policies};
use crate::outcome::Outcome;

/// Biased outages of each run: they cost about as much as its mission.
const OUTAGES_PER_RUN: usize = 8;

/// Runs without `--runs`: seconds for most clusters, and an interval of a few percent.
const RUNS_DEFAULT: usize = 2000;

/// Placements of more chunks get fewer runs, so that they take less than a minute too.
const RUNS_FULL_CHUNKS: usize = 100_000;

/// But at least so many.
const RUNS_DEFAULT_MIN: usize = 250;

/// A Weibull shape beyond these makes nodes that all fail at once, or half of them when new.
const SHAPES: std::ops::RangeInclusive<f64> = 0.5..=10.0;

/// Every failure of so many years is simulated, thousands of times.
const YEARS_MAX: f64 = 10_000.0;

/// What `--rack-mttf` says when it is not given.
const NEVER: f64 = f64::INFINITY;

/// Estimate how likely data is lost in some years, with repairs as a policy makes them.
///
/// Nodes and racks fail for years, and repairs take as long as simulated ones do under a policy.
/// The probability of data loss (PDL) in some years and the mean time to it (MTTDL), with 95 %
/// confidence intervals; beside them ChameleonEC's Equation 2 and a Markov chain. A policy that
/// repairs twice as fast loses less than half as much.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A preset (suture, cr, ppr, rp, ...) or SHAPE/BALANCE/SCHEDULE, such as chain/greedy/all
    #[arg(long, value_name = "POLICY", default_value = "suture")]
    policy: Policy,
    /// Show every preset side by side (and POLICY, if it is none)
    #[arg(long)]
    compare: bool,
    /// How long a node lives on average
    #[arg(long, value_name = "TIME", default_value = "10y", value_parser = parse_time, help_heading = "Failures")]
    mttf: f64,
    /// Let failures depend on age: above 1 old nodes fail more often, below 1 new ones
    #[arg(long, value_name = "SHAPE", help_heading = "Failures", allow_negative_numbers = true)]
    weibull: Option<f64>,
    /// How long a rack lasts on average until all its nodes fail at once; never if not given
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = "Failures")]
    rack_mttf: Option<f64>,
    /// From a failure to the beginning of its repair; the coordinator waits as long by default
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time, help_heading = "Repairs")]
    detection: f64,
    /// What each node stores: repairs are simulated on the stripes given, their time is scaled up
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size, help_heading = "Repairs")]
    node_data: Option<u64>,
    /// Take this as the time to repair a node instead of simulating; several take it in turn
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_time,
        conflicts_with_all = ["node_data", "policy", "compare"],
        help_heading = "Repairs"
    )]
    repair_time: Option<f64>,
    /// For how many years data has to last
    #[arg(long, value_name = "Y", default_value_t = 10.0, allow_negative_numbers = true)]
    years: f64,
    /// How many missions to simulate: four times as many halve the interval [default: 2000, fewer
    /// for more than 100000 chunks]
    #[arg(long, value_name = "N", value_parser = parse_runs, allow_negative_numbers = true)]
    runs: Option<usize>,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What all policies have in common.
struct DurabilityInput {
    input: Input,
    lifetime: Lifetime,
    weibull: Option<f64>,
    racks: Vec<Vec<NodeId>>,
    rack_mttf_seconds: f64,
    detection_seconds: f64,
    mission_seconds: f64,
    node_bytes: f64,
    /// How much longer real repairs take than simulated ones, because nodes store more.
    scale: f64,
    runs: usize,
}

/// What one policy's durability is expected to be.
struct Prospect {
    /// `None` when the repair time was given.
    policy: Option<Policy>,
    repaired: Repaired,
    equation_2: f64,
    estimate: Estimate,
    chain: Chain,
    /// The estimate with the chain's repairs; only where its other assumptions hold.
    as_chain: Option<Estimate>,
}

/// Prints the estimates for one policy, or compares several.
///
/// # Errors
/// Bad input for a cluster, times or a policy that cannot be used.
pub fn run(args: Args) -> Result<Outcome> {
    let mut question = DurabilityInput::read(&args)?;
    if args.compare {
        return compare(question, args.policy, args.format);
    }
    let policy = args.repair_time.is_none().then_some(args.policy);
    let repaired = match args.repair_time {
        Some(seconds) => Ok(Repaired::given(seconds)),
        None => repairs::simulate_all(&mut question, args.policy),
    };
    let repaired = repaired.map_err(|refusal| refusal.of_asked(args.policy))?;
    let evaluation = question.evaluate(policy, repaired);
    match args.format {
        Format::Text => text::print(&question, &evaluation)?,
        Format::Json => print_json(&report::document(&question, &evaluation))?,
    }
    Ok(Outcome::Done)
}

fn compare(mut question: DurabilityInput, asked: Policy, format: Format) -> Result<Outcome> {
    let mut answers: Vec<Answer<Prospect>> = Vec::new();
    for policy in policies([asked]) {
        let repaired = repairs::simulate_all(&mut question, policy);
        let result = repaired.map(|repaired| question.evaluate(Some(policy), repaired));
        answers.push(Answer { policy, result });
    }
    match format {
        Format::Text => text::print_comparison(&question, &answers)?,
        Format::Json => {
            let document = |prospect: &Prospect| report::document(&question, prospect);
            print_json(&Comparison::new(report::COMPARE_FORMAT, &answers, document))?;
        }
    }
    Ok(compared(&answers, |_| &[]))
}

impl DurabilityInput {
    fn read(args: &Args) -> Result<DurabilityInput> {
        let input = Input::read_whole(&args.cluster)?;
        if input.placement.is_empty() {
            return Err(bad_input("there are no stripes, so nothing can be lost: see --stripes"));
        }
        if !(args.years > 0.0 && args.years <= YEARS_MAX) {
            return Err(bad_input(format!(
                "--years {} is not a time to keep data for: it must be above zero, and at most {YEARS_MAX}",
                brief(&args.years.to_string(), 20)
            )));
        }
        if let Some(shape) = args.weibull.filter(|shape| !SHAPES.contains(shape)) {
            return Err(bad_input(format!(
                "--weibull {shape} is out of range: shapes go from {} to {}, and 1 is exponential",
                SHAPES.start(),
                SHAPES.end()
            )));
        }
        let racks = match args.rack_mttf {
            None => Vec::new(),
            Some(_) if input.cluster.racks.is_empty() => {
                return Err(bad_input(
                    "--rack-mttf needs racks: give --racks, or name them in the cluster file",
                ));
            }
            Some(_) => racks(&input),
        };
        let nodes = input.cluster.nodes.len();
        let placed_bytes = input.placement.len() as f64 * input.chunk_bytes as f64 / nodes as f64;
        let node_bytes = args.node_data.map_or(placed_bytes, |bytes| bytes as f64);
        Ok(DurabilityInput {
            lifetime: Lifetime::weibull(args.mttf, args.weibull.unwrap_or(1.0)),
            weibull: args.weibull,
            racks,
            rack_mttf_seconds: args.rack_mttf.unwrap_or(NEVER),
            detection_seconds: args.detection,
            mission_seconds: args.years * YEAR_SECONDS,
            node_bytes,
            scale: node_bytes / placed_bytes,
            runs: args.runs.unwrap_or_else(|| default_runs(input.placement.len())),
            input,
        })
    }

    fn evaluate(&self, policy: Option<Policy>, repaired: Repaired) -> Prospect {
        let input = &self.input;
        let (code, nodes) = (input.code, input.cluster.nodes.len());
        let model = Model {
            placement: Placement::new(code, nodes, input.placement.clone()),
            lifetime: self.lifetime,
            racks: self.racks.clone(),
            rack_mttf_seconds: self.rack_mttf_seconds,
            repair: repaired.times(),
            detection_seconds: self.detection_seconds,
            repairs: Repairs::ByStripe,
            mission_seconds: self.mission_seconds,
        };
        let equation_2 = equation::loss_probability(
            code.chunk_count() - 1,
            code.loss_tolerance(),
            model.repair.seconds(1),
            model.lifetime.mean(),
        );
        let effort = Effort {
            runs: self.runs,
            outages_per_run: OUTAGES_PER_RUN,
            method: Method::Auto,
            seed: input.seed,
        };
        let estimate_of = |model: &Model| estimate(model, &effort);
        let estimate = estimate_of(&model);
        let chain = Chain::of(&model, input.seed);
        let is_a_chain = self.lifetime.is_exponential() && self.racks.is_empty();
        let by_node = Model { repairs: Repairs::ByNode, ..model };
        let as_chain = is_a_chain.then(|| estimate_of(&by_node));
        Prospect { policy, repaired, equation_2, estimate, chain, as_chain }
    }
}

fn default_runs(chunks: usize) -> usize {
    (RUNS_DEFAULT * RUNS_FULL_CHUNKS / chunks).clamp(RUNS_DEFAULT_MIN, RUNS_DEFAULT)
}

/// The nodes of each rack.
fn racks(input: &Input) -> Vec<Vec<NodeId>> {
    let of_rack = |rack: RackId| {
        let nodes = input.cluster.ids();
        nodes.filter(|&node| input.cluster.node(node).rack == Some(rack)).collect()
    };
    (0..input.cluster.racks.len() as u32).map(|rack| of_rack(RackId(rack))).collect()
}

fn parse_runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs @ 10..=10_000_000) => Ok(runs),
        _ => Err(format!("'{text}' is not a number of runs: give one from 10 to 10000000")),
    }
}
