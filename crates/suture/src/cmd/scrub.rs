//! `suture scrub`: every copy is read now, and the chunks of each stripe are compared.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_edge::units::{format_seconds, format_size};
use suture_terminal::output::{Format, counted, print_json};
use suture_terminal::progress::Progress;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::status;

/// How often a pass is looked at that is waited for.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Read every chunk now, compare the chunks of each stripe, and repair what is damaged.
///
/// It starts from the first stripe, whatever a running pass has done, and reads as fast as [scrub]
/// in the coordinator's configuration lets it. `suture status` shows how far it has come.
///
/// Exit status with --wait: 0 every chunk was read and is good; 1 bad chunks were found, which are
/// rebuilt, or some were not read, since a disk gave errors or their nodes are paused or down (or
/// the scrub failed); 3 something cannot be repaired, or chunks do not fit each other though each
/// has its checksum.
#[derive(clap::Args)]
pub struct Args {
    /// Wait until every chunk was read, with a progress bar
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Begins a pass over all stripes, and waits for it if asked to.
///
/// # Errors
/// When no coordinator answers, or it goes away, or another pass is begun while this one is waited
/// for.
pub fn run(args: Args) -> Result<Outcome> {
    daemon::block_on(async {
        let mut client = args.coordinator.connect().await?;
        let before = ask(&mut client).await?;
        let since = Instant::now();
        let started = client.start_scrub(proto::ScrubRequest {}).await.map_err(refusal)?;
        let proto::ScrubStarted { passes: pass, stripes } = started.into_inner();
        if !args.wait {
            let mut now = ask(&mut client).await?;
            if !now.running {
                // It has ended by now, and with it what is said of a pass that runs.
                (now.stripes_done, now.stripes) = (stripes, stripes);
            }
            return begun(&now, args.format);
        }
        let progress = Progress::stripes(args.format, "scrubbing");
        let mut status = status::ask(&mut client).await?;
        let mut last = status.scrub.clone().unwrap_or_default();
        while last.running && last.passes == pass {
            let words = format!("{} read", format_size(last.bytes_done));
            progress.set(last.stripes_done, last.stripes, words);
            tokio::time::sleep(POLL_EVERY).await;
            status = status::ask(&mut client).await?;
            last = status.scrub.clone().unwrap_or_default();
        }
        drop(progress);
        if last.passes != pass {
            bail!("another scrub was started while this one was waited for");
        }
        let found = last.found_copies.saturating_sub(before.found_copies);
        ended(&status, found, since.elapsed(), args.format)
    })
}

async fn ask(client: &mut Client) -> Result<proto::ScrubStatus> {
    Ok(status::ask(client).await?.scrub.unwrap_or_default())
}

fn begun(scrub: &proto::ScrubStatus, format: Format) -> Result<Outcome> {
    match format {
        Format::Json => print_json(&status::describe_scrub(scrub))?,
        Format::Text => outln!(
            "scrub started: {}{}; suture status shows how far it has come",
            counted(scrub.stripes, "stripe"),
            at_least(scrub)
        ),
    }
    Ok(Outcome::Done)
}

/// What it takes by its rate, where that is long enough to be waited for.
fn at_least(scrub: &proto::ScrubStatus) -> String {
    let least = scrub.least_seconds.filter(|seconds| *seconds >= 1.0);
    let shown = |seconds| format!(", at least {} at its rate", format_seconds(seconds));
    least.map_or_else(String::new, shown)
}

fn ended(
    status: &proto::StatusReply,
    found: u64,
    took: Duration,
    format: Format,
) -> Result<Outcome> {
    let scrub = status.scrub.clone().unwrap_or_default();
    match format {
        Format::Json => print_json(&json!({
            "found_copies": found,
            "unread_copies": scrub.unread_copies,
            "left_out_copies": scrub.left_out_copies,
            "unrepairable": status::describe_blocked(&beyond_repair(status)),
            "unread": status::describe_unread(&scrub),
            "inconsistent": status::describe_inconsistent(&scrub),
            "seconds": took.as_secs_f64(),
            "lost_chunks": status.lost_chunks,
            "lost_bytes": status.lost_bytes,
        }))?,
        Format::Text => {
            print_found(status, &scrub, found, took);
            status.warnings.iter().for_each(|warning| outln!("warning: {warning}"));
        }
    }
    Ok(match status::outcome(status) {
        _ if !scrub.inconsistent.is_empty() => Outcome::Unrepairable,
        Outcome::Done if found > 0 => Outcome::Damaged,
        Outcome::Done if scrub.unread_copies + scrub.left_out_copies > 0 => Outcome::Missed,
        outcome => outcome,
    })
}

/// How many chunks are bad and which could not be read.
fn print_found(
    status: &proto::StatusReply,
    scrub: &proto::ScrubStatus,
    found: u64,
    took: Duration,
) {
    outln!("{}", describe_found(status, scrub, found, took));
    status::print_blocked(&beyond_repair(status));
    for proto::UnreadCopy { stripe, chunk, node, object } in &scrub.unread {
        outln!("could not be read: chunk {chunk} of stripe {stripe} ('{object}') on {node}");
    }
    let more = scrub.unread_copies.saturating_sub(scrub.unread.len() as u64);
    if more > 0 {
        outln!("... and {more} more");
    }
}

/// The same in a line. What is beyond repair is not called lost: nothing is going to rebuild it.
fn describe_found(
    status: &proto::StatusReply,
    scrub: &proto::ScrubStatus,
    found: u64,
    took: Duration,
) -> String {
    let took = format_seconds(took.as_secs_f64());
    let unread = match scrub.unread_copies {
        0 => None,
        unread => Some(format!("{} could not be read", counted(unread, "chunk"))),
    };
    let missed: Vec<String> = unread.into_iter().chain(status::left_out(scrub)).collect();
    let is_all = missed.is_empty();
    let is_at_risk = status.at_risk.iter().sum::<u64>() > 0;
    let read = if is_all {
        format!("every chunk was read in {took}")
    } else {
        format!("scrub ended in {took}: {}", missed.join(", "))
    };
    let (then, rest) = match found {
        0 if is_at_risk => ("no other chunk is bad".to_owned(), Some(status::summary(status))),
        0 if is_all => ("all are good".to_owned(), None),
        0 => ("all others are good".to_owned(), None),
        found => {
            let lost = match status::outcome(status) {
                Outcome::Unrepairable => status::summary(status),
                _ => format!(
                    "{} ({}) lost now",
                    counted(status.lost_chunks, "chunk"),
                    format_size(status.lost_bytes)
                ),
            };
            (format!("{} found", counted(found, "bad chunk")), Some(lost))
        }
    };
    let rest = rest.map_or_else(String::new, |rest| format!("; {rest}"));
    format!("{read}{} {then}{rest}", if is_all { ":" } else { ";" })
}

/// Stripes that nothing but returning chunks can help.
fn beyond_repair(status: &proto::StatusReply) -> Vec<proto::BlockedStripe> {
    status.blocked.iter().filter(|entry| entry.unrepairable).cloned().collect()
}
