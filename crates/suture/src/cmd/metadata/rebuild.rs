//! `suture metadata rebuild`: the map of what is stored, from what the agents hold.

use std::sync::Mutex;

use anyhow::{Result, bail};
use serde_json::json;
use suture_drivers::coordinator::refused::RefusedAgent;
use suture_drivers::identity::AccessRole;
use suture_drivers::metadata::Added;
use suture_drivers::rebuild::recovery::{
    Recovered, RecoveryStep, RecoveryWanted, reasons, recover,
};
use suture_edge::units::{format_estimate, format_size, parse_time};
use suture_repair::wire::ClusterId;
use suture_terminal::output::{Format, counted, print_json};
use suture_terminal::progress::Progress;

use crate::daemon::{self, ConfigArgs, Stop};
use crate::log;
use crate::outcome::Outcome;

/// Lines that name what was left out.
const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct RebuildArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Continue once so many agents have listed what they hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    agents: Option<u64>,
    /// Continue when no further agent has joined for so long
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
    wait: f64,
    /// The cluster whose agents to take; others are refused [default: that of the existing
    /// metadata, or of all agents that join]
    #[arg(long, value_name = "HEX", value_parser = parse_cluster)]
    cluster: Option<ClusterId>,
    /// Let chunks be deleted that belong to no object in the end; only when all of --agents agents
    /// have joined
    #[arg(long, requires = "agents")]
    forget_rest: bool,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A cluster as `status` and messages write it.
fn parse_cluster(text: &str) -> Result<ClusterId, String> {
    let number = (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten();
    number.map(ClusterId).ok_or_else(|| "a cluster is 16 hexadecimal digits".into())
}

/// Makes the map again from labels, or completes it by them.
///
/// # Errors
/// Bad input for a configuration that cannot be used; a failure when a coordinator runs, no agent
/// comes, or the metadata cannot be written. What was there stays as it was.
pub fn run(args: &RebuildArgs) -> Result<Outcome> {
    let config = daemon::coordinator_config(&args.config)?;
    daemon::check_owner(&config.data_dir)?;
    // What a coordinator would warn of is as expected here.
    log::begin("error");
    daemon::raise_descriptor_limit()?;
    daemon::block_on(async {
        let mut stop = Stop::new(false)?;
        let credentials =
            daemon::credentials(config.credentials.as_deref(), AccessRole::Coordinator)?;
        let is_open = config.insecure || credentials.is_some();
        let listener = daemon::listen(config.listen, is_open).await?;
        let &RebuildArgs { agents, wait, cluster, forget_rest, .. } = args;
        let wanted = RecoveryWanted { agents, wait, cluster, forget_rest };
        let bar = RecoveryBar(Mutex::new((Progress::waiting(args.format), false)));
        let on_step = |step| bar.draw(args.format, step);
        let found = tokio::select! {
            found = recover(&wanted, &on_step, &config, listener, credentials) => found?,
            () = stop.requested() => bail!("ended before it was done: no object was added"),
        };
        drop(bar);
        show(args.format, &found)
    })
}

/// What is drawn meanwhile, and whether it is of labels.
struct RecoveryBar(Mutex<(Progress, bool)>);

impl RecoveryBar {
    fn draw(&self, format: Format, step: RecoveryStep) {
        let mut bar = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match step {
            RecoveryStep::Listed { agents, left } => bar.0.note(format!(
                "{} listed what they hold; waiting {} for more (Ctrl-C leaves all as it was)",
                counted(agents, "agent"),
                format_estimate(left)
            )),
            RecoveryStep::Read { done, all } => {
                if !bar.1 {
                    *bar = (Progress::stripes(format, "reading labels"), true);
                }
                bar.0.set(done, all, "read".into());
            }
        }
    }
}

fn show(format: Format, found: &Recovered) -> Result<Outcome> {
    match format {
        Format::Json => print_json(&describe(found))?,
        Format::Text => print(found),
    }
    errln!("suture: {}", unlabelled_by_nature(found));
    let is_whole = found.incomplete.is_empty() && found.unlabelled == 0 && found.unread == 0;
    if is_whole && found.missing() == 0 && found.refused.is_empty() {
        Ok(Outcome::Done)
    } else {
        Ok(Outcome::Unrepairable)
    }
}

/// What is in the label of no chunk, however many are there.
fn unlabelled_by_nature(found: &Recovered) -> String {
    let beside = if found.known > 0 { " beside what the metadata had" } else { "" };
    format!(
        "what has no chunks is not found{beside}: objects of no bytes, and what operators declared \
         of nodes and repairs"
    )
}

fn describe(found: &Recovered) -> serde_json::Value {
    let incomplete = found.incomplete.iter().map(|object| {
        json!({"object": object.name, "found_stripes": object.found, "stripes": object.stripes})
    });
    let renamed = found.added.renamed.iter().map(|(was, is)| json!({"was": was, "is": is}));
    let refused = found.refused.iter().map(|agent| json!({"name": agent.name, "why": agent.why}));
    json!({
        "cluster": found.cluster.to_string(),
        "agents": found.agents,
        "missing_agents": found.missing(),
        "refused_agents": refused.collect::<Vec<_>>(),
        "known_stripes": found.known,
        "damaged_objects": found.added.damaged,
        "objects": found.added.objects,
        "stripes": found.added.stripes,
        "bytes": found.added.bytes,
        "renamed": renamed.collect::<Vec<_>>(),
        "incomplete": incomplete.collect::<Vec<_>>(),
        "unlabelled_stripes": found.unlabelled,
        "unread_stripes": found.unread,
        "unasked": found.unasked,
    })
}

fn print(found: &Recovered) {
    let Added { objects, stripes, bytes, renamed, damaged } = &found.added;
    outln!(
        "cluster {}: {} listed what they hold: {}",
        found.cluster,
        counted(found.agents.len() as u64, "agent"),
        found.agents.join(", ")
    );
    if found.missing() > 0 {
        let missing = counted(found.missing(), "agent");
        outln!(
            "{missing} of {} did not come: what only they hold is not in the metadata",
            found.wanted.unwrap_or_default()
        );
    }
    if *damaged > 0 {
        outln!(
            "{} of the metadata were damaged: removed, to be added again",
            counted(*damaged, "object")
        );
    }
    for RefusedAgent { name, why, .. } in &found.refused {
        outln!("agent '{name}' was refused: {why}");
    }
    outln!(
        "added {} in {} ({}); {} known before",
        counted(*objects, "object"),
        counted(*stripes, "stripe"),
        format_size(*bytes),
        counted(found.known, "stripe")
    );
    for (was, is) in renamed.iter().take(SHOWN) {
        outln!("there are two objects '{was}': the older or unreadable one is '{is}' now");
    }
    for object in found.incomplete.iter().take(SHOWN) {
        outln!("not added: {object}");
    }
    let more = found.incomplete.len().saturating_sub(SHOWN);
    if more > 0 {
        outln!("and {} more", counted(more as u64, "object"));
    }
    if found.unlabelled > 0 {
        outln!(
            "{} without a label: their chunks do not say which object they are of",
            counted(found.unlabelled, "stripe")
        );
    }
    if found.unread > 0 {
        outln!(
            "{} could not be asked for their labels: {}",
            counted(found.unread, "stripe"),
            reasons(&found.unasked)
        );
        outln!(
            "see to it that this machine reaches the agents where they serve chunks, and run this again"
        );
    }
    if found.unlabelled > 0 || !found.incomplete.is_empty() {
        let theirs = if found.is_rest_forgotten {
            "their chunks are deleted when the coordinator starts"
        } else {
            "their chunks stay as they are: start the agents that are missing and run this again; if they are permanently gone, --forget-rest lets them be deleted"
        };
        outln!("{theirs}");
    }
    outln!("start the coordinator; `suture status` shows what has to be repaired");
}
