//! `suture load`: applications on the native store, and what they feel.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use suture_code::Code;
use suture_drivers::config::parse_duration;
use suture_drivers::control::client::Client;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::{format_rate, format_seconds, format_size, parse_nonzero_size};
use suture_lab::foreground::drive::{self, Demand, Driven};
use suture_lab::foreground::keyspace::Keyspace;
use suture_lab::foreground::latency::{ErrorCount, LatencyFigures};
use suture_lab::foreground::{CLIENTS_MAX, OBJECTS_MAX};
use suture_lab::input;
use suture_sim::workload::Workload;
use suture_terminal::output::{Format, counted, print_json, print_table, table};
use suture_terminal::progress::Progress;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;

/// More would be a load on the client itself.
const RATE_MAX: f64 = 100_000.0;

/// Where the store does less than this part of what it is asked, it does not keep up.
const KEEPS_UP: f64 = 0.98;

/// Read and write objects as applications do, at a given rate, and show the latencies.
///
/// Values are stored first and removed at the end. Requests begin when they are due, whether or not
/// earlier ones are answered, and a latency counts from that moment. Ctrl-C ends it and prints what
/// there is. Exit status 1: a request failed, or it was ended early.
#[derive(clap::Args)]
pub struct Args {
    /// Which requests: ycsb-a (half reads), ycsb-b (95 % reads), ycsb-c (only reads), or models of
    /// published traces: etc (Facebook's cache of that name), twitter, ibm
    #[arg(long, value_name = "W", default_value = "ycsb-a")]
    workload: Workload,
    /// Requests a second, on average
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    rate: f64,
    /// For how long requests are counted
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    duration: Duration,
    /// For how long requests are made before that, to warm up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Requests in flight at a time, at most, each on a connection of its own; others wait
    #[arg(long, value_name = "N", default_value_t = 32)]
    clients: usize,
    /// Different objects
    #[arg(long, value_name = "N", default_value_t = 200)]
    objects: usize,
    /// Longer values are cut to this
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_nonzero_size)]
    value_max: u64,
    /// The code of all objects
    #[arg(long, value_name = "CODE", default_value = "rs(6,3)")]
    code: Code,
    /// Bytes of a chunk, for long values
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_nonzero_size)]
    chunk_size: u64,
    /// What the names of all objects begin with; each run adds a part of its own
    #[arg(long, value_name = "PREFIX", default_value = "load/")]
    prefix: String,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Leave the objects in the store
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: tables for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct LoadReport {
    format: &'static str,
    workload: String,
    rate: f64,
    clients: usize,
    objects: usize,
    prefix: String,
    warm_up_seconds: f64,
    seconds: f64,
    interrupted: bool,
    offered: u64,
    answered_per_second: f64,
    keeps_up: bool,
    unanswered: u64,
    read_bytes: u64,
    written_bytes: u64,
    operations: Vec<LatencyFigures>,
    errors: Vec<ErrorCount>,
}

/// Makes the requests and shows what came of them.
///
/// # Errors
/// Bad input for arguments that cannot be; a failure when no coordinator answers, or the values
/// cannot be stored.
pub fn run(args: Args) -> Result<Outcome> {
    check(&args)?;
    daemon::block_on(load(&args))
}

fn check(args: &Args) -> Result<()> {
    use Workload::{Etc, Ibm, Twitter, YcsbA, YcsbB, YcsbC};
    if ![YcsbA, YcsbB, YcsbC, Etc, Twitter, Ibm].contains(&args.workload) {
        return Err(bad_input(format!(
            "{} is for suture simulate alone: load has ycsb-a, ycsb-b, ycsb-c, etc, twitter and ibm",
            args.workload
        )));
    }
    if !(args.rate > 0.0 && args.rate <= RATE_MAX) {
        return Err(bad_input(format!(
            "--rate {} is out of range: above 0, at most {RATE_MAX} requests per second",
            args.rate
        )));
    }
    for (option, found, max) in
        [("--clients", args.clients, CLIENTS_MAX), ("--objects", args.objects, OBJECTS_MAX)]
    {
        if !(1..=max).contains(&found) {
            return Err(bad_input(format!("{option} {found} is out of range: 1 to {max}")));
        }
    }
    input::check_many_chunks(args.chunk_size)?;
    input::check_stored_chunk_size(&args.code, args.chunk_size, "--chunk-size")
}

async fn load(args: &Args) -> Result<Outcome> {
    let mut stop = daemon::stop_signals()?;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..args.clients {
        clients.push(args.coordinator.connect().await?);
    }
    let keyspace = Keyspace::new(&args.prefix, args.objects, args.code, args.chunk_size)?;
    let keyspace = Arc::new(keyspace);
    let demand = Demand {
        workload: args.workload,
        rate: args.rate,
        warm_up: args.warm_up,
        duration: args.duration,
        drain: args.duration.max(Duration::from_secs(5)),
        seed: args.seed,
        value_max: args.value_max,
    };
    let filled = tokio::select! {
        filled = fill(args, &keyspace, &clients, &demand) => Some(filled),
        _ = stop.received() => None,
    };
    let mut is_interrupted = filled.is_none();
    let driven = match &filled {
        Some(Ok(())) => {
            let stopped = async {
                stop.received().await;
                is_interrupted = true;
            };
            Some(drive::drive(&keyspace, &clients, &demand, stopped).await)
        }
        _ => None,
    };
    if !args.keep {
        drive::clear(&keyspace, &clients).await;
    }
    filled.unwrap_or(Ok(()))?;
    let Some(driven) = driven else {
        return Err(anyhow::anyhow!("interrupted before all values were stored"));
    };
    show(args, keyspace.prefix(), &driven, is_interrupted)
}

async fn fill(
    args: &Args,
    keyspace: &Arc<Keyspace>,
    clients: &[Client],
    demand: &Demand,
) -> Result<()> {
    let progress = Arc::new(Progress::waiting(args.format));
    let words = progress.clone();
    let stored = std::sync::atomic::AtomicU64::new(0);
    let objects = args.objects;
    let note = move |more| {
        let stored = stored.fetch_add(more, std::sync::atomic::Ordering::Relaxed) + more;
        words.note(format!("storing values: {stored} of {objects}"));
    };
    drive::fill(keyspace, clients, demand, note).await
}

fn show(args: &Args, prefix: &str, driven: &Driven, interrupted: bool) -> Result<Outcome> {
    let latencies = &driven.latencies;
    let seconds = driven.seconds.max(f64::MIN_POSITIVE);
    let report = LoadReport {
        format: "suture-load-1",
        workload: args.workload.to_string(),
        rate: args.rate,
        clients: args.clients,
        objects: args.objects,
        prefix: prefix.to_owned(),
        warm_up_seconds: args.warm_up.as_secs_f64(),
        seconds: driven.seconds.max(0.0),
        interrupted,
        offered: driven.offered,
        answered_per_second: driven.answered as f64 / seconds,
        keeps_up: driven.kept_up as f64 >= KEEPS_UP * driven.offered as f64,
        unanswered: latencies.unanswered(),
        read_bytes: latencies.bytes.0,
        written_bytes: latencies.bytes.1,
        operations: latencies.figures(),
        errors: latencies.errors(),
    };
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => print(&report),
    }
    if args.keep && args.format == Format::Text {
        outln!("the objects were left: their names begin with {}", quoted(prefix));
    }
    Ok(if interrupted || !report.errors.is_empty() { Outcome::Missed } else { Outcome::Done })
}

fn print(report: &LoadReport) {
    outln!(
        "{}: {} offered in {}, {:.1} answered a second; read {} ({}), wrote {} ({})",
        report.workload,
        counted(report.offered, "request"),
        format_seconds(report.seconds),
        report.answered_per_second,
        format_size(report.read_bytes),
        format_rate(report.read_bytes as f64 / report.seconds.max(f64::MIN_POSITIVE)),
        format_size(report.written_bytes),
        format_rate(report.written_bytes as f64 / report.seconds.max(f64::MIN_POSITIVE)),
    );
    let header = ["request", "count", "errors", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut rows = table(header, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for figures in &report.operations {
        // None was answered.
        let ms = |ms: f64| if ms.is_nan() { "-".to_string() } else { format_seconds(ms / 1e3) };
        rows.add_row([
            figures.operation.to_string(),
            figures.count.to_string(),
            figures.errors.to_string(),
            ms(figures.mean_ms),
            ms(figures.p50_ms),
            ms(figures.p90_ms),
            ms(figures.p99_ms),
            ms(figures.p999_ms),
            ms(figures.max_ms),
        ]);
    }
    print_table(&rows);
    for ErrorCount { error, count } in &report.errors {
        outln!("{count} x {error}");
    }
    if !report.keeps_up {
        outln!(
            "the store does not keep up with {} requests a second: latencies grow as long as it \
             lasts",
            report.rate
        );
    }
    if report.interrupted {
        outln!("ended early: these are {} of it", format_seconds(report.seconds));
    }
}
