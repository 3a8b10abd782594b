//! `suture simulate`: how long a repair takes, under one policy or side by side under all.
//!
//! Place: `failure -> ... -> stripe healthy`, all of it but the bytes: the coordinator itself
//! decides, and a fluid network stands for agents and links (`suture-sim`). Where `suture plan`
//! says what the busiest port needs, this says what schedules, changing links and applications make
//! of it.

mod foreground;
mod report;
mod straggler;
mod text;
mod throttle;
mod timeline;

use std::path::{Path, PathBuf};

use anyhow::Result;
use suture_edge::error::bad_input;
use suture_edge::units::parse_rate;
use suture_lab::cpu_time::cpu_ns;
use suture_lab::input::{Damage, Input, InputArgs, trace_text};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::event::Blocked;
use suture_repair::id::StripeId;
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Job, View};
use suture_repair::policy::Policy;
use suture_sim::bandwidth_trace::{BandwidthTrace, Direction, LinkModel};
use suture_sim::capacity::{Capacities, Straggler, Undeclared};
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Foreground, Overheads, Scenario};
use suture_sim::simulate::{Outcome as Simulated, alone, simulate};
use suture_terminal::output::{Format, print_json};

use self::foreground::{ForegroundArg, ForegroundComparison};
use self::straggler::StragglerArg;
use self::throttle::ThrottleArg;
use self::timeline::BUCKETS;
use super::evaluate::{
    Answer, COMPARE_FORMAT, Comparison, Refusal, compared, is_of_the_policy, outcome, policies,
};
use crate::outcome::Outcome;

/// Seconds of a drawn trace: longer than most repairs, short enough to draw at once.
const MODEL_SECONDS: u64 = 6000;

/// What the timeline of the one policy that was asked for is called.
const TIMELINE: &str = "timeline";

/// What stands for links that are not declared and agents have probed, and the rate of such a
/// link where none has: a gigabit, in bytes per second.
const PROBED: &str = "probed";
const ASSUMED: Rate = Rate(125e6);

/// What names a model where a file could stand.
const MODEL_PREFIX: &str = "model:";

/// Simulate the repair of failed nodes: how long it takes, beside the least it can take.
///
/// With its plans and their schedule, links that change, and applications that share them.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// A preset (suture, cr, ppr, rp, ...) or SHAPE/BALANCE/SCHEDULE, such as chain/greedy/all
    #[arg(long, value_name = "POLICY", default_value = "suture")]
    policy: Policy,
    /// Show every preset side by side, and POLICY under every schedule
    #[arg(long)]
    compare: bool,
    /// What uplinks have free: CSV, a row each second, a column each node, Mbit/s, no header; or
    /// model:tpcds, model:tpch, model:swim
    #[arg(long, value_name = "CSV", help_heading = "Links and applications")]
    uplink_trace: Option<String>,
    /// The same for downlinks
    #[arg(long, value_name = "CSV", help_heading = "Links and applications")]
    downlink_trace: Option<String>,
    /// Applications that share the links: ycsb-a to ycsb-f, etc, twitter, ibm or switching, and how
    /// many clients, such as ycsb-a:4
    #[arg(long, value_name = "W[:CLIENTS]", help_heading = "Links and applications")]
    foreground: Option<ForegroundArg>,
    /// What repair may take beside applications, which then go first where both want a link, as at
    /// agents: such as keep=30% or cap=200Mbit,total=1Gbit,keep=10%; off: all share alike
    /// [default: keep=10%, with --foreground]
    #[arg(long, value_name = "LIMITS|off", help_heading = "Links and applications")]
    throttle: Option<ThrottleArg>,
    /// A node that keeps a part of its rates from some second on, unannounced, such as
    /// n3:0.1:5..60; may be given several times
    #[arg(long, value_name = "NODE:FACTOR[:FROM[..TO]]", help_heading = "Links and applications")]
    straggler: Vec<StragglerArg>,
    /// Declare no links: each is taken for RATE until repairs show what it carries; or probed:
    /// agents have probed each other before the failure
    #[arg(
        long,
        value_name = "RATE|probed",
        value_parser = parse_undeclared,
        help_heading = "Links and applications"
    )]
    undeclared: Option<Undeclared>,
    /// Write how busy every link was, as CSV and as SVG
    #[arg(long, value_name = "DIR")]
    timeline: Option<PathBuf>,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The simulated run of one policy.
struct Run {
    policy: Policy,
    simulated: Simulated,
    /// What clients did meanwhile, and how the same operations go without the repair.
    clients: Option<ForegroundComparison>,
    chunk_bytes: u64,
    bound_seconds: f64,
    max_load_seconds: f64,
    planning_seconds: f64,
    /// Stripes that were not repaired, ascending, and why.
    unrepairable: Vec<(StripeId, String)>,
}

/// All that policies have in common.
struct SimulationInput<'a> {
    input: &'a Input,
    damage: &'a Damage,
    damage_ns: u64,
    scenario: Scenario,
    stragglers: Vec<Straggler>,
    timeline: Option<PathBuf>,
}

/// Simulates the repair of a failure, or compares policies.
///
/// # Errors
/// Bad input for a cluster, trace or policy that cannot be used; a failure when `--timeline` cannot
/// be written.
pub fn run(args: Args) -> Result<Outcome> {
    let input = Input::read(&args.input)?;
    let stragglers = straggler::find(&args.straggler, &input.cluster)?;
    let capacities = read_capacities(&args, &input, stragglers.clone())?;
    let started_ns = cpu_ns();
    let damage = input.damage();
    let damage_ns = cpu_ns() - started_ns;
    let scenario = Scenario {
        capacities,
        stripes: input.damaged_stripes(&damage),
        failed: input.failed.clone(),
        silent: input.excluded.clone(),
        free_bytes: input.free_bytes(),
        policy: args.policy,
        seed: input.seed,
        overheads: Overheads::default(),
        throttle: throttle::config(args.throttle.clone(), args.foreground.is_some()),
        foreground: args
            .foreground
            .map(|options| Foreground::new(options.workload, options.clients)),
        timeline_buckets: args.timeline.is_some().then_some(BUCKETS),
        exact_entries: EXACT_ENTRIES,
    };
    if let Some(folder) = &args.timeline {
        let names: Vec<String> = if args.compare {
            side_by_side(args.policy).iter().map(timeline_of).collect()
        } else {
            vec![TIMELINE.into()]
        };
        timeline::prepare(folder, &names)?;
    }
    let (input, damage, timeline) = (&input, &damage, args.timeline);
    let question = SimulationInput { input, damage, damage_ns, scenario, stragglers, timeline };
    if args.compare {
        return compare(question, args.format);
    }
    let evaluation = question.evaluate(args.policy)?;
    let evaluation = evaluation.map_err(|refusal| refusal.of_asked(args.policy))?;
    question.write_timeline(&evaluation, TIMELINE)?;
    match args.format {
        Format::Text => {
            text::print(&question, &evaluation)?;
            question.name_timelines();
        }
        Format::Json => print_json(&report::document(&question, &evaluation))?,
    }
    Ok(outcome(&evaluation.unrepairable))
}

fn compare(question: SimulationInput<'_>, format: Format) -> Result<Outcome> {
    let asked = question.scenario.policy;
    let mut answers: Vec<Answer<Run>> = Vec::new();
    for policy in side_by_side(asked) {
        let result = question.evaluate(policy)?;
        if let Ok(evaluation) = &result {
            question.write_timeline(evaluation, &timeline_of(&policy))?;
        }
        answers.push(Answer { policy, result });
    }
    match format {
        Format::Text => {
            text::print_comparison(&question, &answers)?;
            question.name_timelines();
        }
        Format::Json => {
            let document = |run: &Run| report::document(&question, run);
            print_json(&Comparison::new(COMPARE_FORMAT, &answers, document))?;
        }
    }
    Ok(compared(&answers, |evaluation| &evaluation.unrepairable))
}

/// What is compared where one policy is asked for.
fn side_by_side(asked: Policy) -> Vec<Policy> {
    policies([asked].into_iter().chain(asked.under_every_schedule()))
}

/// What the timeline of one of several policies is called.
fn timeline_of(policy: &Policy) -> String {
    policy.to_string().replace(['/', ':'], "-")
}

fn read_capacities(args: &Args, input: &Input, stragglers: Vec<Straggler>) -> Result<Capacities> {
    let uplinks = &args.uplink_trace;
    let uplinks = read_trace(uplinks.as_deref(), "--uplink-trace", Direction::Up, input)?;
    let downlinks = &args.downlink_trace;
    let downlinks = read_trace(downlinks.as_deref(), "--downlink-trace", Direction::Down, input)?;
    let capacities = Capacities::new(input.cluster.clone(), uplinks, downlinks, stragglers);
    Ok(match args.undeclared {
        Some(how) => capacities.undeclared(how),
        None => capacities,
    })
}

fn parse_undeclared(text: &str) -> Result<Undeclared, String> {
    if text == PROBED {
        return Ok(Undeclared { assumed: ASSUMED, is_probed: true });
    }
    let rate = parse_rate(text).map_err(|error| format!("{error}; or write {PROBED}"))?;
    Ok(Undeclared { assumed: Rate(rate), is_probed: false })
}

fn read_trace(
    name: Option<&str>,
    option: &str,
    direction: Direction,
    input: &Input,
) -> Result<Option<BandwidthTrace>> {
    let Some(name) = name else { return Ok(None) };
    let nodes = &input.cluster.nodes;
    if let Some(model) = name.strip_prefix(MODEL_PREFIX) {
        let found = LinkModel::ALL.into_iter().find(|known| known.name() == model);
        let model = found.ok_or_else(|| {
            let known = LinkModel::ALL.map(LinkModel::name).join(", ");
            bad_input(format!("{option} {name}: there is no such model; use one of {known}"))
        })?;
        let links: Vec<Rate> = match direction {
            Direction::Up => nodes.iter().map(|node| node.uplink_free()).collect(),
            Direction::Down => nodes.iter().map(|node| node.downlink_free()).collect(),
        };
        // The two directions of a link are congested independently.
        let seed = input.seed ^ (0x7472_6163_6500 + direction as u64);
        return Ok(Some(model.draw(direction, &links, MODEL_SECONDS, seed)));
    }
    let text = trace_text(Path::new(name))
        .map_err(|error| bad_input(format!("{option}: cannot read {name}: {error}")))?;
    let trace = BandwidthTrace::parse(&text, nodes.len());
    trace.map(Some).map_err(|fault| bad_input(format!("{option}: {name}: {fault}")))
}

impl SimulationInput<'_> {
    fn evaluate(&self, policy: Policy) -> Result<Result<Run, Refusal>> {
        if let Err(fault) = policy.plannable() {
            return Ok(Err(Refusal(fault.to_string())));
        }
        let scenario = Scenario { policy, ..self.scenario.clone() };
        let simulated = simulate(&scenario, &mut cpu_ns);
        if let Some(given_up) = simulated.given_up {
            let Scenario { capacities, failed, .. } = &self.scenario;
            let link = straggler::slowest_link(capacities, &self.stragglers, failed);
            let link = link.map(|link| format!("; {link}")).unwrap_or_default();
            return Ok(Err(Refusal(format!("{given_up}{link}"))));
        }
        let unrepairable = match self.unrepairable(&simulated) {
            Ok(unrepairable) => unrepairable,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let capacities = &self.scenario.capacities;
        let jobs = self.rebuilt_jobs(&simulated);
        let bound =
            capacities.least_seconds(simulated.seconds, |cluster| self.bound(&jobs, cluster));
        let load = &simulated.load;
        let peak = capacities.least_seconds(simulated.seconds, |cluster| load.max_seconds(cluster));
        let during = simulated.foreground.clone();
        let clients = during.map(|during| {
            let alone = alone(&scenario, &during);
            ForegroundComparison { during, alone }
        });
        Ok(Ok(Run {
            policy,
            clients,
            chunk_bytes: self.input.chunk_bytes,
            bound_seconds: bound,
            max_load_seconds: peak,
            planning_seconds: (self.damage_ns + simulated.planning_ns) as f64 / 1e9,
            unrepairable,
            simulated,
        }))
    }

    /// The jobs with those of their losses that were rebuilt.
    fn rebuilt_jobs(&self, simulated: &Simulated) -> Vec<Job> {
        let rebuilt = simulated.rebuilt.iter().map(|chunk| (chunk.stripe, chunk.chunk));
        let mut rebuilt: Vec<_> = rebuilt.collect();
        rebuilt.sort_unstable();
        let is_rebuilt = |job: &Job, chunk| rebuilt.binary_search(&(job.stripe, chunk)).is_ok();
        let with_rebuilt = |job: &Job| {
            let lost = job.lost.iter().copied().filter(|&chunk| is_rebuilt(job, chunk));
            Job { lost: lost.collect(), ..job.clone() }
        };
        let jobs = self.damage.jobs.iter().map(with_rebuilt);
        jobs.filter(|job| !job.lost.is_empty()).collect()
    }

    fn bound(&self, jobs: &[Job], cluster: &Cluster) -> f64 {
        let (free_bytes, idle) = (self.input.free_bytes(), Load::new(cluster));
        bound_seconds(
            jobs,
            &View { cluster, free_bytes: &free_bytes, load: &idle, abilities: Abilities::ALL },
        )
    }

    /// What was not repaired, and why; or that the policy cannot serve this input.
    fn unrepairable(&self, simulated: &Simulated) -> Result<Vec<(StripeId, String)>, Refusal> {
        let mut unrepairable: Vec<(StripeId, String)> = Vec::new();
        for (stripe, why) in &simulated.unrepaired {
            let reason = match why {
                Some(Blocked::Plan(error)) if is_of_the_policy(error) => {
                    return Err(Refusal(error.to_string()));
                }
                Some(why) => why.to_string(),
                None => "the schedule never began its repair".to_string(),
            };
            unrepairable.push((*stripe, reason));
        }
        unrepairable.extend(self.damage.unrepairable.iter().cloned());
        unrepairable.sort();
        Ok(unrepairable)
    }

    fn write_timeline(&self, evaluation: &Run, name: &str) -> Result<()> {
        match &self.timeline {
            Some(folder) => timeline::write(folder, name, &self.scenario, evaluation),
            None => Ok(()),
        }
    }

    /// Says where timelines were written, behind the result.
    fn name_timelines(&self) {
        if let Some(folder) = &self.timeline {
            outln!("timelines in {}: numbers in .csv, a picture in .svg", folder.display());
        }
    }
}

impl Run {
    /// The busiest port over the bound; `None` when there is nothing to do.
    fn ratio(&self) -> Option<f64> {
        (self.bound_seconds > 0.0).then(|| self.max_load_seconds / self.bound_seconds)
    }

    /// The bound over the time, in percent; `None` when there is nothing to do.
    fn percent_of_bound(&self) -> Option<f64> {
        let seconds = self.simulated.seconds;
        (seconds > 0.0).then(|| 100.0 * self.bound_seconds / seconds)
    }

    fn repaired_bytes_per_second(&self) -> f64 {
        let bytes = self.simulated.rebuilt.len() as u64 * self.chunk_bytes;
        if bytes == 0 { 0.0 } else { bytes as f64 / self.simulated.seconds }
    }

    /// Seconds from dispatch to finish of each chunk, ascending.
    fn chunk_seconds(&self) -> Vec<f64> {
        let chunks = self.simulated.rebuilt.iter();
        let mut seconds: Vec<f64> = chunks.map(|chunk| chunk.ended - chunk.began).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        seconds
    }
}
