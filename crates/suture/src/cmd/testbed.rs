//! `suture testbed`: a cluster of real processes on an emulated network, and what repairs take
//! there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::format_link_rate;
use suture_files::directory::write_output;
use suture_files::output::{NewFile, file_place};
use suture_lab::testbed::campaign::{self, Campaign};
use suture_lab::testbed::cluster::ClusterSpec;
use suture_lab::testbed::network::Network;
use suture_lab::testbed::record::{self, Record};
use suture_lab::testbed::report::markdown::PageSection;
use suture_lab::testbed::scenario::Experiment;
use suture_lab::testbed::{report, shaping, tools};
use suture_terminal::output::{Format, counted, print_json, print_table, table};

use crate::outcome::Outcome;

/// Measure repairs on an emulated network, whose links have known rates.
///
/// Each node is in a network namespace of its own. Needs root, and `ip` and `tc` (iproute2).
/// Everything is removed at the end, also on Ctrl-C and when the command is killed; `suture testbed
/// down` removes what is left all the same.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: TestbedCommand,
}

#[derive(clap::Subcommand)]
enum TestbedCommand {
    Up(UpArgs),
    Run(RunArgs),
    Results(ResultsArgs),
    Down(DownArgs),
}

/// Options that say what a scenario says.
const OF_A_CLUSTER: [&str; 8] =
    ["file", "nodes", "bandwidth", "links", "racks", "oversubscription", "cores", "seed"];

/// Create the network of a scenario, or of the nodes that are named here, and leave it there.
///
/// Prints its run id and the namespaces; `ip netns exec NAMESPACE suture agent ...` starts
/// something there. Rates that follow a trace are those of the cluster here: only `run` replays.
#[derive(clap::Args)]
struct UpArgs {
    /// A scenario, whose cluster is made (see docs/testbed.md)
    #[arg(value_name = "SCENARIO", conflicts_with_all = OF_A_CLUSTER)]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterSpec,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Measure all repairs of a scenario, and write a report.
///
/// Exit status 1: a repair failed, or something is not as the scenario expects, and the report says
/// what; or it was interrupted, and the report is of the repairs that had been made.
#[derive(clap::Args)]
struct RunArgs {
    /// What is to be measured (see docs/testbed.md)
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Directory of the report: report.txt, report.json, report.html
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Overwrite what the directory holds
    #[arg(long)]
    force: bool,
    /// How often each policy is measured, instead of as often as the scenario says
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// The policies that are measured, instead of the scenario's
    #[arg(long, value_name = "P,..", value_delimiter = ',')]
    policies: Vec<String>,
    /// What to print: the report for people, or as one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Measure several scenarios one after the other, and write one page about all of them.
///
/// The page is written anew after each scenario. Exit status 1: a repair failed, or something is
/// not as its scenario expects.
#[derive(clap::Args)]
struct ResultsArgs {
    /// Scenarios, and directories of which every `.toml` is one
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<PathBuf>,
    /// The page, in Markdown
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A directory for the report of each scenario, as `run` writes it
    #[arg(long, value_name = "DIR")]
    reports: Option<PathBuf>,
    /// How often each policy is measured, instead of as often as the scenarios say
    #[arg(long, value_name = "N")]
    repetitions: Option<usize>,
    /// What to print: a line for people, or all reports as one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Remove testbeds: end what runs in their namespaces, and remove these.
#[derive(clap::Args)]
struct DownArgs {
    /// The run id of a testbed [default: the only one that there is]
    #[arg(value_name = "RUN", conflicts_with = "all")]
    run: Option<String>,
    /// Every testbed whose command has ended, and what is found by its names
    #[arg(long)]
    all: bool,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Wait for the end of standard input, and remove what is left then
    #[arg(long, hide = true, requires = "run")]
    when_stdin_closes: bool,
}

/// Makes, uses or removes a testbed.
///
/// # Errors
/// Bad input for a scenario, a folder or a run that cannot be used, and where networks cannot be
/// made; a failure when the system refuses something.
pub fn run(args: Args) -> Result<Outcome> {
    match args.command {
        TestbedCommand::Up(args) => up(&args),
        TestbedCommand::Run(args) => measure(&args),
        TestbedCommand::Results(args) => measure_all(&args),
        TestbedCommand::Down(args) => down(&args),
    }
}

fn up(args: &UpArgs) -> Result<Outcome> {
    let (title, cluster, is_marked) = match &args.scenario {
        Some(path) => {
            let experiment = Experiment::read(path)?;
            (experiment.title, experiment.cluster, experiment.is_marked)
        }
        None if args.cluster.is_empty() => {
            return Err(bad_input("name what to create: a scenario, --nodes N, or --cluster FILE"));
        }
        None => ("made by hand".to_string(), args.cluster.build(Path::new("."))?, false),
    };
    tools::check()?;
    let mut network = Network::up(&cluster, &title, true, None)?;
    network.has_classes = is_marked;
    if let Err(error) = shaping::limit(&network) {
        return network.down().and(Err(error));
    }
    print_network(&network, &cluster, args.format)?;
    network.stay();
    Ok(Outcome::Done)
}

fn print_network(
    network: &Network,
    cluster: &suture_repair::cluster::Cluster,
    format: Format,
) -> Result<()> {
    let run = network.run();
    if format == Format::Json {
        let node = |host: &suture_lab::testbed::network::Host| json!({ "name": host.name, "namespace": host.namespace, "address": host.address });
        return print_json(&json!({
            "run": run,
            "core": network.core,
            "client": node(&network.client),
            "nodes": network.nodes.iter().map(node).collect::<Vec<_>>(),
        }));
    }
    let mut rows = table(["node", "namespace", "address", "uplink", "downlink", "rack"], &[3, 4]);
    let client = &network.client;
    let unlimited = || "no limit".to_string();
    rows.add_row([
        client.name.clone(),
        client.namespace.clone(),
        client.address.to_string(),
        unlimited(),
        unlimited(),
        "-".to_string(),
    ]);
    for (node, host) in cluster.nodes.iter().zip(&network.nodes) {
        let rack = node.rack.map(|rack| cluster.racks[rack.0 as usize].clone());
        rows.add_row([
            host.name.clone(),
            host.namespace.clone(),
            host.address.to_string(),
            format_link_rate(node.uplink.0),
            format_link_rate(node.downlink.0),
            rack.unwrap_or_else(|| "-".into()),
        ]);
    }
    print_table(&rows);
    outln!("ip netns exec {} suture coordinator ...  starts something there", client.namespace);
    outln!("suture testbed down {run}  removes all of it");
    Ok(())
}

fn measure(args: &RunArgs) -> Result<Outcome> {
    let mut experiment = Experiment::read(&args.scenario)?;
    experiment.change(args.repetitions, &args.policies)?;
    report::check_folder(&args.output, args.force)?;
    let mut campaign = Campaign::new(experiment);
    let performed = perform(&mut campaign);
    let (made, planned) = (campaign.runs.len(), campaign.planned());
    if performed.is_ok() || made > 0 {
        report::write(&campaign, &args.output)?;
    }
    performed.with_context(|| match made {
        0 => "nothing was measured".to_string(),
        _ => format!("{made} of {planned} repairs are in '{}'", args.output.display()),
    })?;
    let document = report::document(&campaign);
    match args.format {
        Format::Json => print_json(&document)?,
        Format::Text => outln!("{}", report::text::report(&campaign, &document).trim_end()),
    }
    let is_as_expected = campaign.verdicts().iter().all(|verdict| verdict.holds);
    let is_well = campaign.is_whole() && is_as_expected;
    Ok(if is_well { Outcome::Done } else { Outcome::Missed })
}

fn perform(campaign: &mut Campaign) -> Result<()> {
    campaign::measure(campaign, |campaign, network| {
        let experiment = &campaign.experiment;
        errln!("{}: testbed {}, {}", experiment.title, network.run(), size(experiment));
    })
}

fn measure_all(args: &ResultsArgs) -> Result<Outcome> {
    // What cannot be written is said before hours of measuring.
    check_page(&args.output)?;
    let mut planned = Vec::new();
    for path in scenarios(&args.scenarios)? {
        let mut experiment = Experiment::read(&path)?;
        experiment.change(args.repetitions, &[])?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if planned.iter().any(|(other, _)| *other == name) {
            return Err(bad_input(format!("two scenarios have the name {}", quoted(&name))));
        }
        if let Some(reports) = &args.reports {
            report::check_folder(&reports.join(&name), false)?;
        }
        campaign::check(&experiment).with_context(|| name.clone())?;
        planned.push((name, experiment));
    }
    let count = planned.len();
    let mut all: Vec<PageSection> = Vec::new();
    for (name, experiment) in planned {
        let mut campaign = Campaign::new(experiment);
        let performed = perform(&mut campaign);
        if !campaign.runs.is_empty() {
            if let Some(reports) = &args.reports {
                report::write(&campaign, &reports.join(&name))?;
            }
            let document = report::document(&campaign);
            all.push(PageSection { name, campaign, document });
            let page = report::markdown::page(&all, count);
            write_output(&args.output, page.as_bytes())?;
        }
        performed.with_context(|| format!("{} of {count} scenarios are measured", all.len()))?;
    }
    let is_well = |section: &PageSection| {
        let verdicts = section.campaign.verdicts();
        section.campaign.is_whole() && verdicts.iter().all(|verdict| verdict.holds)
    };
    match args.format {
        Format::Json => {
            let report = |of: &PageSection| json!({ "name": of.name, "report": of.document });
            print_json(&json!({ "scenarios": all.iter().map(report).collect::<Vec<_>>() }))?;
        }
        Format::Text => {
            outln!("{}: {}", args.output.display(), counted(all.len() as u64, "scenario"));
        }
    }
    Ok(if all.iter().all(is_well) { Outcome::Done } else { Outcome::Missed })
}

/// Whether the page can be written, by what is there and by a file in its folder.
fn check_page(page: &Path) -> Result<()> {
    let cannot =
        |why: std::io::Error| bad_input(format!("cannot write '{}': {why}", page.display()));
    NewFile::beside(&file_place(page)?).map(drop).map_err(cannot)
}

/// The scenarios that are named, and those of folders in the order of their names.
fn scenarios(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in named {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let shown = path.display();
        let entries = fs::read_dir(path)
            .map_err(|why| bad_input(format!("cannot read the directory '{shown}': {why}")))?;
        let files = entries.map(|entry| entry.map(|entry| entry.path()));
        let files: Vec<PathBuf> = files
            .collect::<std::io::Result<_>>()
            .with_context(|| format!("cannot read the directory '{shown}'"))?;
        let is_scenario = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
        let mut files: Vec<PathBuf> = files.into_iter().filter(is_scenario).collect();
        if files.is_empty() {
            return Err(bad_input(format!("there is no scenario (*.toml) in '{shown}'")));
        }
        files.sort();
        found.append(&mut files);
    }
    Ok(found)
}

fn size(experiment: &Experiment) -> String {
    format!(
        "{}, {} of {}",
        counted(experiment.cluster.nodes.len() as u64, "node"),
        counted(experiment.repetitions as u64, "repetition"),
        counted(experiment.policies.len() as u64, "policy").replace("policys", "policies"),
    )
}

fn down(args: &DownArgs) -> Result<Outcome> {
    if let (Some(run), true) = (&args.run, args.when_stdin_closes) {
        record::watch(run)?;
        return Ok(Outcome::Done);
    }
    tools::check_programs()?;
    let records = record::all()?;
    let chosen: Vec<&Record> = match &args.run {
        Some(run) => {
            let found = records.iter().find(|record| record.run == *run);
            vec![found.ok_or_else(|| bad_input(unknown(run, &records)))?]
        }
        None => records.iter().filter(|record| why_left(record, args.all).is_none()).collect(),
    };
    let is_text = args.format == Format::Text;
    let why = |record: &Record| why_left(record, args.all).filter(|_| args.run.is_none());
    let left: Vec<(&Record, String)> =
        records.iter().filter_map(|record| Some((record, why(record)?))).collect();
    for (Record { run, title, .. }, why) in left.iter().filter(|_| is_text) {
        outln!("{run}: left, {why} ({title})");
    }
    if chosen.len() > 1 && !args.all {
        let runs = chosen.iter().map(|record| describe(record)).collect::<Vec<_>>().join("\n");
        return Err(bad_input(format!("name the testbed, or give --all; there are:\n{runs}")));
    }
    tools::check()?;
    if chosen.is_empty() && is_text {
        outln!("there is no testbed to take down");
    }
    for record in &chosen {
        record.take_down().with_context(|| format!("testbed {}", record.run))?;
        if is_text {
            outln!("{}: removed ({})", record.run, record.title);
        }
    }
    if !is_text {
        let removed = |record: &&Record| json!({ "run": record.run, "title": record.title });
        let left_json = |(record, why): &(&Record, String)| json!({ "run": record.run, "title": record.title, "why": why });
        print_json(&json!({
            "removed": chosen.iter().map(removed).collect::<Vec<_>>(),
            "left": left.iter().map(left_json).collect::<Vec<_>>(),
        }))?;
    }
    Ok(Outcome::Done)
}

/// Why it is not taken down; `None` where no process uses it any more, and it is a testbed for sure
/// or all are wanted.
fn why_left(record: &Record, wants_all: bool) -> Option<String> {
    if record.is_lost() && !wants_all {
        return Some(format!("no record has it: `suture testbed down {}` removes it", record.run));
    }
    let is_used = record.is_live() && !record.stays;
    is_used.then(|| format!("process {} uses it", record.process))
}

fn unknown(run: &str, records: &[Record]) -> String {
    let others = records.iter().map(describe).collect::<Vec<_>>().join("\n");
    if records.is_empty() {
        format!("there is no testbed {}, nor any other", quoted(run))
    } else {
        format!("there is no testbed {}; there are:\n{others}", quoted(run))
    }
}

fn describe(record: &Record) -> String {
    format!("  {}  {}", record.run, record.title)
}
