//! `suture plan`: what a failure costs to repair, under one policy or side by side under all.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> ...`; nothing is moved. The plans are those
//! that the coordinator would make, and the bound beside them says how much better any plan could
//! be.

mod text;

use anyhow::Result;
use suture_code::ChunkIndex;
use suture_lab::cpu_time::cpu_ns;
use suture_lab::input::{Damage, Input, InputArgs};
use suture_repair::bound::{bound_seconds, own_bound_seconds};
use suture_repair::id::StripeId;
use suture_repair::plan::Plan;
use suture_repair::plan::json::{Document, FORMAT, load_rows, plan_json};
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Batch, Job, View, plan, validated};
use suture_repair::policy::Policy;
use suture_terminal::output::{Format, begin_json, emit, print_json};

use super::evaluate::{
    Answer, COMPARE_FORMAT, Comparison, Refusal, compared, is_of_the_policy, outcome, policies,
};
use crate::outcome::Outcome;

/// Plan the repair of failed nodes: who sends what to whom, and how loaded links get.
///
/// It shows how far that is from the best possible, too.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// A preset (suture, cr, ppr, rp, ...) or SHAPE/BALANCE/SCHEDULE, such as chain/greedy/all
    #[arg(long, value_name = "POLICY", default_value = "suture")]
    policy: Policy,
    /// Show every preset side by side (and POLICY, if it is none)
    #[arg(long)]
    compare: bool,
    /// Leave the plans themselves out of the JSON
    #[arg(long)]
    no_plans: bool,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One policy's answer to the input.
struct Planned {
    policy: Policy,
    batch: Batch,
    load: Load,
    bound_seconds: f64,
    /// The bound of the policy's own traffic, where there is one.
    own_bound_seconds: Option<f64>,
    max_load_seconds: f64,
    planning_seconds: f64,
    /// Stripes that cannot be repaired, ascending, and why.
    unrepairable: Vec<(StripeId, String)>,
}

/// Plans the repair of a failure, or compares policies.
///
/// # Errors
/// Bad input for a cluster, placement or policy that cannot be used; a failure when the plans
/// cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    let input = Input::read(&args.input)?;
    let started_ns = cpu_ns();
    let damage = input.damage();
    let damage_ns = cpu_ns() - started_ns;
    if args.compare {
        return compare(&input, &damage, args.policy, damage_ns, args.format);
    }
    let evaluation = evaluate(args.policy, &input, &damage, damage_ns, &mut None);
    let evaluation = evaluation.map_err(|refusal| refusal.of_asked(args.policy))?;
    match args.format {
        Format::Text => text::print(&input, &damage, &evaluation)?,
        Format::Json if args.no_plans => print_json(&document(&input, &damage, &evaluation))?,
        Format::Json => print_with_plans(&input, &damage, &evaluation),
    }
    Ok(outcome(&evaluation.unrepairable))
}

fn compare(
    input: &Input,
    damage: &Damage,
    asked: Policy,
    damage_ns: u64,
    format: Format,
) -> Result<Outcome> {
    let mut known = None;
    let answer = |policy| {
        let result = evaluate(policy, input, damage, damage_ns, &mut known);
        Answer { policy, result }
    };
    let answers: Vec<Answer<Planned>> = policies([asked]).into_iter().map(answer).collect();
    match format {
        Format::Text => text::print_comparison(input, damage, &answers)?,
        Format::Json => {
            let document = |planned: &Planned| document(input, damage, planned);
            print_json(&Comparison::new(COMPARE_FORMAT, &answers, document))?;
        }
    }
    Ok(compared(&answers, |evaluation| &evaluation.unrepairable))
}

/// The chunks of each stripe that some plans rebuild, and the k-chunk bound of that.
struct KnownBound {
    lost: Vec<(StripeId, Vec<ChunkIndex>)>,
    seconds: f64,
}

/// Plans, and weighs the plans. `damage_ns` is what finding the jobs took; `known` is the bound of
/// the policy before, which holds again where the same chunks are rebuilt.
fn evaluate(
    policy: Policy,
    input: &Input,
    damage: &Damage,
    damage_ns: u64,
    known: &mut Option<KnownBound>,
) -> Result<Planned, Refusal> {
    policy.plannable().map_err(|fault| Refusal(fault.to_string()))?;
    let (free_bytes, idle) = (input.free_bytes(), Load::new(&input.cluster));
    let view = View {
        cluster: &input.cluster,
        free_bytes: &free_bytes,
        load: &idle,
        abilities: Abilities::ALL,
    };
    let started_ns = cpu_ns();
    let batch = plan(policy, &damage.jobs, &view, input.seed);
    let planning_seconds = (damage_ns + cpu_ns() - started_ns) as f64 / 1e9;
    let batch = validated(batch, &damage.jobs, &view);

    let mut unrepairable: Vec<(StripeId, String)> = Vec::new();
    for (index, error) in &batch.refused {
        if is_of_the_policy(error) {
            return Err(Refusal(error.to_string()));
        }
        unrepairable.push((damage.jobs[*index].stripe, error.to_string()));
    }
    for (job, plan) in batch.planned(&damage.jobs) {
        let unplaced = job.lost.len() - plan.lost.len();
        if unplaced > 0 {
            let reason = format!("no node is free to take {unplaced} of its lost chunks");
            unrepairable.push((job.stripe, reason));
        }
    }
    unrepairable.extend(damage.unrepairable.iter().cloned());
    unrepairable.sort();

    let planned: Vec<_> = batch.planned(&damage.jobs).collect();
    let load = Load::of(&input.cluster, planned.iter().map(|(job, plan)| (*plan, job.facts())));
    let jobs = jobs_as_planned(&planned);
    let lost = rebuilt(&batch);
    let same = known.take().filter(|known| known.lost == lost);
    let of_jobs = || KnownBound { lost, seconds: bound_seconds(&jobs, &view) };
    let bound_seconds = known.insert(same.unwrap_or_else(of_jobs)).seconds;
    let own_bound_seconds = own_bound_seconds(policy, &jobs, &view, &load, bound_seconds);
    let max_load_seconds = load.max_seconds(&input.cluster);
    Ok(Planned {
        policy,
        batch,
        load,
        bound_seconds,
        own_bound_seconds,
        max_load_seconds,
        planning_seconds,
        unrepairable,
    })
}

/// The chunks of each stripe that plans rebuild.
fn rebuilt(batch: &Batch) -> Vec<(StripeId, Vec<ChunkIndex>)> {
    batch.plans.iter().map(|plan| (plan.stripe, plan.lost.clone())).collect()
}

/// The jobs that have plans, with only the losses that the plans rebuild.
fn jobs_as_planned(planned: &[(&Job, &Plan)]) -> Vec<Job> {
    let job = |(job, plan): &(&Job, &Plan)| Job { lost: plan.lost.clone(), ..(*job).clone() };
    planned.iter().map(job).collect()
}

impl Planned {
    /// Its k-chunk bound, for plans of another policy.
    fn known_bound(&self) -> KnownBound {
        KnownBound { lost: rebuilt(&self.batch), seconds: self.bound_seconds }
    }

    /// The peak over the bound; `None` when there is nothing to do.
    fn ratio(&self) -> Option<f64> {
        (self.bound_seconds > 0.0).then(|| self.max_load_seconds / self.bound_seconds)
    }

    /// Whether the policy's own bound says something that the bound does not.
    fn is_apart(&self, own_seconds: f64) -> bool {
        own_seconds > 0.0 && (own_seconds / self.bound_seconds - 1.0).abs() > 1e-3
    }
}

/// The document, without its plans.
fn document(input: &Input, damage: &Damage, evaluation: &Planned) -> Document {
    Document {
        format: FORMAT,
        policy: evaluation.policy.to_string(),
        code: input.code.to_string(),
        chunk_bytes: input.chunk_bytes,
        lost_chunks: damage.lost_chunks,
        bound_seconds: evaluation.bound_seconds,
        own_bound_seconds: evaluation.own_bound_seconds,
        max_load_seconds: evaluation.max_load_seconds,
        ratio: evaluation.ratio(),
        planning_seconds: evaluation.planning_seconds,
        cross_rack_bytes: evaluation.load.cross_rack_bytes(),
        moved_bytes: evaluation.load.moved_bytes(),
        load: load_rows(&evaluation.load, &input.cluster),
        unrepairable: evaluation.unrepairable.iter().map(|(stripe, _)| stripe.0).collect(),
        plans: None,
    }
}

/// Without line breaks: an edge a line would be millions of lines.
fn print_with_plans(input: &Input, damage: &Damage, evaluation: &Planned) {
    let plans = evaluation.batch.plans.iter();
    let plans = plans.map(|plan| plan_json(plan, &input.cluster)).collect();
    let document = Document { plans: Some(plans), ..document(input, damage, evaluation) };
    begin_json();
    emit(|out| {
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)
    });
}
