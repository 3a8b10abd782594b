//! `suture scrub`: every copy is read now, and the chunks of each stripe are compared.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_edge::units::{format_seconds, format_size};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json};
use crate::progress::Progress;
use crate::status;

/// How often a pass is looked at that is waited for.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Read every chunk now, compare the chunks of each stripe, and repair what is damaged.
///
/// It starts from the first stripe, whatever a running pass has done, and reads as fast as [scrub]
/// in the coordinator's configuration lets it. `suture status` shows how far it has come.
///
/// Exit status with --wait: 1 bad chunks were found, which are rebuilt, or some could not be read,
/// so nobody knows whether they are good (or the scrub failed); 3 something cannot be repaired, or
/// chunks do not fit each other though each has its checksum.
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
        let pass = started.into_inner().passes;
        if !args.wait {
            let now = ask(&mut client).await?;
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
        Outcome::Done if scrub.unread_copies > 0 => Outcome::Missed,
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
    let took = format_seconds(took.as_secs_f64());
    let read = match scrub.unread_copies {
        0 => format!("every chunk was read in {took}"),
        unread => format!("scrub ended in {took}: {} could not be read", counted(unread, "chunk")),
    };
    match (found, scrub.unread_copies) {
        (0, 0) if status.at_risk.iter().sum::<u64>() > 0 => {
            outln!("{read}: no other chunk is bad; {}", status::summary(status));
        }
        (0, 0) => outln!("{read}: all are good"),
        (0, _) => outln!("{read}; all others are good"),
        (found, unread) => outln!(
            "{read}{} {} found; {} ({}) lost now",
            if unread > 0 { ";" } else { ":" },
            counted(found, "bad chunk"),
            counted(status.lost_chunks, "chunk"),
            format_size(status.lost_bytes)
        ),
    }
    for proto::UnreadCopy { stripe, chunk, node, object } in &scrub.unread {
        outln!("could not be read: chunk {chunk} of stripe {stripe} ('{object}') on {node}");
    }
    let more = scrub.unread_copies.saturating_sub(scrub.unread.len() as u64);
    if more > 0 {
        outln!("... and {more} more");
    }
}
