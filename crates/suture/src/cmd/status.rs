//! `suture status`: how the cluster is, what is at risk, what runs, what waits and why.

use anyhow::Result;
use suture_drivers::control::proto;
use suture_edge::units::{format_seconds, format_size};
use suture_terminal::output::{Format, alarm, counted, print_json, print_table, table};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::status::{
    ROWS_SHOWN, age_line, ask_soon, describe, hdfs_line, last_repair_line, observes, outcome,
    print_blocked, print_nodes, print_rest, rebalance_line, scrub_line, state, summary,
    throttle_line,
};

/// Show the cluster: nodes, what is at risk, what is being repaired, what waits and why.
///
/// Exit status 3: something cannot be read now, or cannot be repaired until chunks return or nodes
/// or space come; or no NameNode answers, so that it is not known.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: tables for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows nodes, what is lost and what is repaired.
///
/// # Errors
/// When no coordinator answers, or it goes away.
pub fn run(args: Args) -> Result<Outcome> {
    let status =
        daemon::block_on(async { ask_soon(&mut args.coordinator.connect().await?).await })?;
    match args.format {
        Format::Json => print_json(&describe(&status))?,
        Format::Text => print(&status),
    }
    Ok(outcome(&status))
}

fn print(status: &proto::StatusReply) {
    outln!("{}", summary(status));
    age_line(status).into_iter().for_each(|line| outln!("{line}"));
    if status.unreadable_stripes > 0 && state(status) != "unreadable" {
        outln!("{} cannot be read now", counted(status.unreadable_stripes, "stripe"));
    }
    status.warnings.iter().for_each(|warning| alarm(format_args!("warning: {warning}")));
    outln!(
        "cluster {}, epoch {}, up for {}; {} repaired ({}) since then{}",
        status.cluster,
        status.epoch,
        format_seconds(status.uptime_seconds),
        counted(status.repaired_chunks, "chunk"),
        format_size(status.repaired_bytes),
        if status.paused && !observes(status) { "; repairs are paused" } else { "" },
    );
    hdfs_line(status).into_iter().for_each(|line| outln!("{line}"));
    last_repair_line(&status.history).into_iter().for_each(|line| outln!("{line}"));
    let scrub = status.scrub.as_ref().and_then(scrub_line);
    scrub.into_iter().for_each(|line| outln!("{line}"));
    throttle_line(status).into_iter().for_each(|line| outln!("{line}"));
    rebalance_line(status).into_iter().for_each(|line| outln!("{line}"));
    outln!();
    print_nodes(&status.nodes);
    print_at_risk(&status.at_risk, status.beyond_stripes);
    print_running(&status.running);
    print_blocked(&status.blocked);
}

/// What is at risk; what is `beyond` all repair is not.
fn print_at_risk(at_risk: &[u64], beyond: u64) {
    let left = |(margin, stripes): (usize, u64)| match margin {
        0 => (margin, stripes.saturating_sub(beyond)),
        _ => (margin, stripes),
    };
    let levels = at_risk.iter().copied().enumerate().map(left);
    let levels: Vec<(usize, u64)> = levels.filter(|(_, stripes)| *stripes > 0).collect();
    if levels.is_empty() {
        return;
    }
    outln!();
    for (margin, stripes) in levels {
        let stripes = counted(stripes, "stripe");
        match margin {
            0 => outln!("at risk: {stripes} with margin 0, which can lose no more chunks"),
            margin => outln!("at risk: {stripes} with margin {margin}"),
        }
    }
}

fn print_running(running: &[proto::Running]) {
    if running.is_empty() {
        return;
    }
    outln!();
    let mut rows =
        table(["repair", "stripe", "chunk", "onto", "done", "of", "for"], &[1, 2, 4, 5, 6]);
    for repair in running.iter().take(ROWS_SHOWN) {
        rows.add_row([
            repair.repair.clone(),
            repair.stripe.to_string(),
            repair.chunk.to_string(),
            repair.destination.clone(),
            format_size(repair.bytes_done),
            format_size(repair.bytes),
            format_seconds(repair.seconds),
        ]);
    }
    print_table(&rows);
    print_rest(running.len());
}
