//! `suture repair`: what an operator says of repairs.

mod throttle;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto::{self, RepairAction};
use suture_edge::error::quoted;
use suture_edge::units::{format_percent, format_seconds, format_size};
use suture_terminal::output::{Format, counted, print_json, print_table, table};
use suture_terminal::progress::Progress;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::status;

/// How often a watched repair is looked at: a bar that moves, and no load to speak of.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// For how long, and how often, it is looked whether what was begun has been planned.
const PLANNED_WITHIN: Duration = Duration::from_secs(5);
const PLANNED_POLL: Duration = Duration::from_millis(100);

/// Start, watch, pause, resume, cancel or throttle repairs.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: RepairSubcommand,
}

#[derive(clap::Subcommand)]
enum RepairSubcommand {
    /// Repair what is lost now, and what silent nodes hold, without waiting for timers
    ///
    /// Silent nodes count as failed at once, but for those that an operator paused, and repairs
    /// that were paused are resumed. With NAME: only what that object lacks, before everything
    /// else; no node counts as failed for it, and repairs stay paused if they were.
    ///
    /// Exit status 0: it is begun; 3: not all of it can be repaired.
    Start {
        /// Repair this object only, before all others
        #[arg(value_name = "NAME")]
        object: Option<String>,
        /// Only show what would be rebuilt and moved, and how long the busiest link needs
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show the progress of repairs
    ///
    /// Exit status 3: something cannot be read, or cannot be repaired before something changes.
    Status {
        /// Draw a progress bar until all is repaired, or until nothing more happens by itself. Exit
        /// status 0: nothing is lost any more; 1: something is left, for instance since repairs are
        /// paused
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Start no more repairs; running ones finish
    Pause(Common),
    /// Start repairs again
    Resume(Common),
    /// Stop running repairs, and pause
    Cancel(Common),
    /// Show or change the limits of repair; changes hold at once, and across restarts
    ///
    /// Without options the limits are shown. Rates are of payload: 200Mbit is in bits per second,
    /// 25MB in bytes per second. An option that is not given leaves its limit as it is; what limits
    /// are at first is in [throttle] of coordinator.toml.
    Throttle(throttle::Args),
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows, starts, pauses, resumes or cancels repairs.
///
/// # Errors
/// When no coordinator answers, or it goes away.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        match args.command {
            RepairSubcommand::Start { object, dry_run: true, common } => {
                preview(&common, object).await
            }
            RepairSubcommand::Start { object, dry_run: false, common } => {
                command(&common, RepairAction::Start, object).await
            }
            RepairSubcommand::Status { watch: true, common } => watch(&common).await,
            RepairSubcommand::Status { watch: false, common } => {
                show(&mut common.coordinator.connect().await?, &common).await
            }
            RepairSubcommand::Pause(common) => command(&common, RepairAction::Pause, None).await,
            RepairSubcommand::Resume(common) => command(&common, RepairAction::Resume, None).await,
            RepairSubcommand::Cancel(common) => command(&common, RepairAction::Cancel, None).await,
            RepairSubcommand::Throttle(args) => throttle::run(args).await,
        }
    })
}

async fn command(common: &Common, action: RepairAction, object: Option<String>) -> Result<Outcome> {
    let mut client = common.coordinator.connect().await?;
    let was_paused = status::ask(&mut client).await?.paused;
    let command = proto::RepairCommand { action: action.into(), object: object.clone() };
    client.command_repair(command).await.map_err(refusal)?;
    let is_start = action == RepairAction::Start;
    match was_paused && is_start {
        true if object.is_none() => errln!("suture: repairs were paused, and are resumed"),
        true => errln!("suture: repairs are paused (suture repair resume)"),
        false => {}
    }
    let status =
        if is_start { planned(&mut client).await? } else { status::ask(&mut client).await? };
    let shown = finish(&status, common.format)?;
    let is_asked = |name: &str| object.as_deref().is_none_or(|object| object == name);
    let waits = status.blocked.iter().any(|entry| is_asked(&entry.object));
    Ok(match (is_start, waits) {
        (true, true) => Outcome::Unrepairable,
        // What is beside an object is not asked about.
        (true, false) if object.is_some() => Outcome::Done,
        (true, false) => shown,
        // It is done, however the cluster is.
        (false, _) => Outcome::Done,
    })
}

/// How repairs stand once what was begun has been planned: what cannot be repaired is not known
/// before, and very many stripes are planned together, a moment after they could be.
async fn planned(client: &mut Client) -> Result<proto::StatusReply> {
    let began = Instant::now();
    loop {
        let status = status::ask(client).await?;
        let is_open = status.lost_chunks > 0
            && !status.paused
            && status.running.is_empty()
            && status.blocked.is_empty()
            && waits_for(&status).is_none();
        if !is_open || began.elapsed() > PLANNED_WITHIN {
            return Ok(status);
        }
        tokio::time::sleep(PLANNED_POLL).await;
    }
}

async fn show(client: &mut Client, common: &Common) -> Result<Outcome> {
    let status = status::ask_soon(client).await?;
    finish(&status, common.format)
}

fn finish(status: &proto::StatusReply, format: Format) -> Result<Outcome> {
    match format {
        Format::Json => print_json(&status::describe(status))?,
        Format::Text => {
            outln!("{}", status::summary(status));
            status::age_line(status).into_iter().for_each(|line| outln!("{line}"));
            status::throttle_line(status).into_iter().for_each(|line| outln!("{line}"));
            status::print_blocked(&status.blocked);
        }
    }
    Ok(status::outcome(status))
}

/// Draws a bar until nothing moves any more or can be expected to.
async fn watch(common: &Common) -> Result<Outcome> {
    let mut client = common.coordinator.connect().await?;
    let first = status::ask(&mut client).await?;
    let progress = Progress::reported(common.format, "repairing");
    let mut status = first.clone();
    while goes_on(&status) {
        let chunks = status.repaired_chunks.saturating_sub(first.repaired_chunks);
        let running: u64 = status.running.iter().map(|repair| repair.bytes_done).sum();
        let repaired = status.repaired_bytes.saturating_sub(first.repaired_bytes);
        let words = format!(
            "{chunks} of {}, {}",
            counted(chunks + status.lost_chunks + status.leaving_chunks, "chunk"),
            waits_for(&status).unwrap_or_else(|| status::rate_and_eta(&status))
        );
        let left = status.lost_bytes + status.leaving_bytes;
        progress.set(repaired + running, repaired + left, words);
        tokio::time::sleep(POLL_EVERY).await;
        status = status::ask(&mut client).await?;
    }
    drop(progress);
    let shown = finish(&status, common.format)?;
    Ok(if is_left(&status) { shown.or_missed() } else { shown })
}

/// Whether something is being rebuilt or moved, or will be without a command.
fn goes_on(status: &proto::StatusReply) -> bool {
    let runs = !status.running.is_empty();
    if status.at_risk.iter().sum::<u64>() > 0 {
        return runs || (!status.paused && status.lost_chunks > status.stuck_chunks);
    }
    match status::state(status) {
        "draining" => runs || (!status.paused && status.blocked.is_empty()),
        "degraded" => is_decided(status),
        _ => false,
    }
}

/// Whether what cannot be read comes back or is given up by itself. Nodes that an operator lets be
/// silent are not given up.
fn is_decided(status: &proto::StatusReply) -> bool {
    let is_silent = |node: &&proto::NodeStatus| ["suspect", "unknown"].contains(&&*node.health);
    let mut silent = status.nodes.iter().filter(is_silent).peekable();
    silent.peek().is_none() || silent.any(|node| node.intent != "paused")
}

/// Whether some chunk is lost, cannot be read or is to move, though all can be read.
fn is_left(status: &proto::StatusReply) -> bool {
    status.lost_chunks + status.leaving_chunks + status.degraded_stripes > 0
}

/// What is waited for where nothing runs, as far as that is known.
fn waits_for(status: &proto::StatusReply) -> Option<String> {
    if !status.running.is_empty() {
        return None;
    }
    let closed = status.throttle.as_ref().and_then(|throttle| throttle.closed_seconds);
    let opens = closed.map(|seconds| format!("the window opens in {}", format_seconds(seconds)));
    let blocked = || status.blocked.iter().find(|entry| !entry.unrepairable);
    opens.or_else(|| blocked().map(|entry| entry.why.clone()))
}

/// Shows what a start would do, of one object or of all that is lost, and changes nothing.
async fn preview(common: &Common, object: Option<String>) -> Result<Outcome> {
    let mut client = common.coordinator.connect().await?;
    let request = proto::PreviewRequest { object: object.clone() };
    let preview = client.preview_repair(request).await.map_err(refusal)?.into_inner();
    // One of the release before reads no name: its answer is about everything.
    if preview.object != object {
        bail!("the coordinator is of an older release, which shows this only of all objects");
    }
    let now = status::ask(&mut client).await?;
    match common.format {
        Format::Json => print_json(&describe(&preview))?,
        Format::Text => print(&preview, &now),
    }
    Ok(if preview.blocked.is_empty() { Outcome::Done } else { Outcome::Unrepairable })
}

fn print(preview: &proto::PreviewReply, now: &proto::StatusReply) {
    let object = preview.object.as_deref().map(|name| format!(" of {}", quoted(name)));
    let object = object.unwrap_or_default();
    if preview.chunks == 0 && preview.blocked.is_empty() {
        outln!("nothing more to start{object}; {}", status::summary(now));
        return;
    }
    outln!(
        "would rebuild {} ({}){object} by moving {}; the busiest {} needs {}{}",
        counted(preview.chunks, "chunk"),
        format_size(preview.bytes),
        format_size(preview.moved_bytes),
        if shares_caps(now) { "link or cap" } else { "link" },
        format_seconds(preview.max_load_seconds),
        above_bound(preview),
    );
    let busy: Vec<_> =
        preview.load.iter().filter(|node| node.up_bytes + node.down_bytes > 0).collect();
    if !busy.is_empty() {
        outln!();
        let mut rows = table(["node", "sends", "receives", "rebuilds"], &[1, 2, 3]);
        for node in busy {
            rows.add_row([
                node.name.clone(),
                format_size(node.up_bytes),
                format_size(node.down_bytes),
                counted(node.chunks_rebuilt_here, "chunk"),
            ]);
        }
        print_table(&rows);
    }
    status::print_blocked(&preview.blocked);
}

/// Whether a rack or the cluster has a cap.
fn shares_caps(now: &proto::StatusReply) -> bool {
    let wanted = now.throttle.as_ref().and_then(|throttle| throttle.wanted.as_ref());
    wanted.is_some_and(|wanted| wanted.total.is_some() || !wanted.racks.is_empty())
}

/// How far it is above what any plans need.
fn above_bound(preview: &proto::PreviewReply) -> String {
    match preview.bound_seconds {
        Some(bound) if bound > 0.0 => {
            let above = (preview.max_load_seconds / bound - 1.0).max(0.0) * 100.0;
            format!(", {} above the lower bound", format_percent(above))
        }
        _ => String::new(),
    }
}

fn describe(preview: &proto::PreviewReply) -> serde_json::Value {
    let load = preview.load.iter().map(|node| {
        json!({
            "node": node.name,
            "up_bytes": node.up_bytes,
            "down_bytes": node.down_bytes,
            "chunks": node.chunks_rebuilt_here,
        })
    });
    json!({
        "object": preview.object,
        "chunks": preview.chunks,
        "bytes": preview.bytes,
        "moved_bytes": preview.moved_bytes,
        "max_load_seconds": preview.max_load_seconds,
        "bound_seconds": preview.bound_seconds,
        "load": load.collect::<Vec<_>>(),
        "blocked": status::describe_blocked(&preview.blocked),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(lost_chunks: u64, stuck_chunks: u64) -> proto::StatusReply {
        let blocked = match stuck_chunks {
            0 => Vec::new(),
            _ => vec![proto::BlockedStripe { why: "all are full".into(), ..Default::default() }],
        };
        let at_risk = vec![0, lost_chunks];
        proto::StatusReply { at_risk, lost_chunks, stuck_chunks, blocked, ..Default::default() }
    }

    #[test]
    fn it_is_watched_for_as_long_as_something_happens_by_itself() {
        let running = vec![proto::Running::default()];
        assert!(goes_on(&lost(3, 0)) && goes_on(&lost(3, 2)), "some can be repaired");
        assert!(!goes_on(&lost(3, 3)), "none can");
        assert!(goes_on(&proto::StatusReply { running: running.clone(), ..lost(3, 3) }));
        let paused = |running| proto::StatusReply { paused: true, running, ..lost(3, 0) };
        assert!(!goes_on(&paused(Vec::new())) && goes_on(&paused(running)), "what runs ends first");
        assert!(!goes_on(&proto::StatusReply::default()), "it is healthy");
        // What is beyond repair is not counted as lost, and does not hold up the rest.
        let mut mixed = lost(3, 0);
        mixed.blocked = vec![proto::BlockedStripe { unrepairable: true, ..Default::default() }];
        assert_eq!((status::state(&mixed), goes_on(&mixed)), ("unrepairable", true));
    }

    #[test]
    fn silent_nodes_are_waited_for_unless_an_operator_lets_all_of_them_be_silent() {
        let node = |health: &str, intent: &str| proto::NodeStatus {
            health: health.into(),
            intent: intent.into(),
            ..Default::default()
        };
        let degraded =
            |nodes| proto::StatusReply { degraded_stripes: 1, nodes, ..Default::default() };
        assert!(goes_on(&degraded(vec![node("up", ""), node("suspect", "")])));
        assert!(goes_on(&degraded(vec![node("suspect", "paused"), node("unknown", "")])));
        assert!(!goes_on(&degraded(vec![node("up", ""), node("suspect", "paused")])));
        assert!(goes_on(&degraded(vec![node("up", "")])), "copies are read again");
    }

    #[test]
    fn where_nothing_runs_it_is_said_what_is_waited_for() {
        assert_eq!(waits_for(&lost(3, 0)), None);
        assert_eq!(waits_for(&lost(3, 1)).unwrap(), "all are full");
        let closed =
            Some(proto::ThrottleStatus { closed_seconds: Some(60.0), ..Default::default() });
        let mut waiting = proto::StatusReply { throttle: closed, ..lost(3, 1) };
        assert_eq!(waits_for(&waiting).unwrap(), "the window opens in 1 min 00 s");
        waiting.running = vec![proto::Running::default()];
        assert_eq!(waits_for(&waiting), None);
    }
}
