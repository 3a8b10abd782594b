//! All repairs of a scenario: every policy as often as the scenario says.
//!
//! Place: around the testbed's repairs. Policies take turns, so that what changes on the machine
//! meanwhile meets all of them alike. A repair that fails is noted with its reason, and the others
//! go on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use suture_edge::error::bad_input;
use suture_edge::units::{format_percent, format_seconds, format_size};
use suture_repair::policy::Policy;
use tempfile::TempDir;

use super::applications::Applications;
use super::expect::{Expectation, Expected};
use super::figures::{Medians, RepairFigures};
use super::measure::Bed;
use super::network::Network;
use super::scenario::{ChunkPlace, Experiment};
use super::stored::{StoredCluster, without_limits};
use super::tools;
use crate::demo::processes::Processes;
use crate::demo::{run, source, stage};

/// Seeds the stored data.
const SEED: u64 = 1;

/// A file system in memory that every Linux has.
const MEMORY_FOLDER: &str = "/dev/shm";

/// Free space beside the stored chunks: rebuilt ones, metadata, logs.
const SPARE_BYTES: u64 = 256 << 20;

/// One repair of a campaign.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The policy that it was made by.
    pub policy: Policy,
    /// Which of its repetitions, from 1.
    pub repetition: usize,
    /// What it came to, or why it came to nothing.
    pub result: Result<RepairFigures, String>,
}

/// All repairs of a scenario.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The experiment that was measured.
    pub experiment: Experiment,
    /// In the order in which they were made.
    pub runs: Vec<RunRecord>,
    /// By when the last repetition is to be over; the first is made all the same. None: there is
    /// time for all of them.
    pub until: Option<Instant>,
    /// Is set when no other repair is to be begun. A signal that comes while the network or the
    /// data are made reaches none of the processes, and nothing else that waits for signals.
    pub stop: Option<&'static AtomicBool>,
}

impl Campaign {
    /// One of which nothing was measured yet.
    pub fn new(experiment: Experiment) -> Campaign {
        Campaign { experiment, runs: Vec::new(), until: None, stop: None }
    }

    /// How many repairs the scenario has.
    pub fn planned(&self) -> usize {
        self.experiment.repetitions * self.experiment.policies.len()
    }

    /// What a policy's repetitions come to together, if any came to anything.
    pub fn medians(&self, policy: Policy) -> Option<Medians> {
        let runs = self.runs.iter().filter(|run| run.policy == policy);
        Medians::of(&runs.filter_map(|run| run.result.as_ref().ok()).collect::<Vec<_>>())
    }

    /// The repetition of a policy whose time is nearest to the median.
    pub fn typical(&self, policy: Policy) -> Option<&RepairFigures> {
        let seconds = self.medians(policy)?.seconds;
        let off = |run: &&RepairFigures| (run.seconds - seconds).abs();
        let runs = self.runs.iter().filter(|run| run.policy == policy);
        let runs = runs.filter_map(|run| run.result.as_ref().ok());
        runs.min_by(|a, b| off(a).total_cmp(&off(b)))
    }

    /// What became of what is expected.
    pub fn verdicts(&self) -> Vec<Expected> {
        let Experiment { policies, expectations, .. } = &self.experiment;
        let judged =
            |expected: &Expectation| expected.judge(policies, |policy| self.medians(policy));
        expectations.iter().map(judged).collect()
    }

    /// Whether every repair was made and came to something.
    pub fn is_whole(&self) -> bool {
        self.runs.len() == self.planned() && self.runs.iter().all(|run| run.result.is_ok())
    }
}

/// Where a scenario's processes keep what they keep, if there is enough of it.
///
/// # Errors
/// Bad input when there is not.
fn base_folder(experiment: &Experiment) -> Result<PathBuf> {
    let folder = match experiment.chunks {
        ChunkPlace::Memory => PathBuf::from(MEMORY_FOLDER),
        ChunkPlace::Disk => std::env::temp_dir(),
    };
    let code = experiment.code;
    let stored = experiment.data_bytes() * code.chunk_count() as u64 / code.data_chunks() as u64;
    let rebuilt = stored * experiment.failed.len() as u64 / experiment.cluster.nodes.len() as u64;
    let values = match experiment.load {
        Some(Applications::Open(load)) => load.objects as u64 * load.value_max,
        Some(Applications::Closed(_)) | None => 0,
    };
    let values = values * code.chunk_count() as u64 / code.data_chunks() as u64;
    // Once as every repair begins with it, and once as one of them changes it.
    let needed = experiment.data_bytes() + 2 * (stored + values) + rebuilt + SPARE_BYTES;
    let disk = rustix::fs::statvfs(&folder)
        .with_context(|| format!("cannot read the free space of '{}'", folder.display()))?;
    let free = disk.f_bavail * disk.f_frsize;
    if free < needed {
        return Err(bad_input(format!(
            "the scenario needs {} in '{}', where {} are free: store fewer or smaller stripes, or \
             keep chunks elsewhere (chunks = \"disk\" or \"memory\")",
            format_size(needed),
            folder.display(),
            format_size(free),
        )));
    }
    Ok(folder)
}

/// Checks that a scenario can be measured on this machine.
///
/// # Errors
/// Bad input where it cannot.
pub fn check(experiment: &Experiment) -> Result<()> {
    tools::check()?;
    base_folder(experiment).map(drop)
}

/// Makes the network of a campaign, measures everything there, and removes the network again; the
/// repairs that were made by then are there after an error, too. `announce` is called with the
/// network.
///
/// # Errors
/// Bad input where networks cannot be made; a failure when the system refuses something or it is
/// interrupted.
pub fn measure(campaign: &mut Campaign, announce: impl FnOnce(&Campaign, &Network)) -> Result<()> {
    tools::check()?;
    let experiment = &campaign.experiment;
    let base = base_folder(experiment)?;
    let mut network = Network::up(&experiment.cluster, &experiment.title, false, Some(base))?;
    network.has_classes = experiment.is_marked;
    announce(campaign, &network);
    // Everything that talks to the testbed does so from a thread that has moved there, so that this
    // one stays where it is.
    let performed = std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            network.enter()?;
            perform(campaign, &network)
        });
        inside.join().map_err(|_| anyhow!("the thread of the testbed has panicked"))?
    });
    network.down().and(performed)
}

/// Performs all repairs; what comes of each is printed on stderr. Those that were made by then are
/// there after an error, too.
///
/// # Errors
/// When the data cannot be made, or it is interrupted.
fn perform(campaign: &mut Campaign, network: &Network) -> Result<()> {
    let Campaign { experiment, runs, until, stop } = campaign;
    let (experiment, until, stop) = (&*experiment, *until, *stop);
    go_on(stop)?;
    let folder = network.folder().context("the testbed has no folder")?;
    let data = folder.join("data");
    std::fs::create_dir(&data).context("cannot make a directory for the data")?;
    let sources = source::generate(&data, experiment.data_bytes(), source_bytes(experiment), SEED)?;
    let bed = Bed { experiment, network, sources: &sources };
    stage::perform_in(folder, "stage-", false, async |_, stage| {
        let stored = store(&bed, stage).await.context("cannot store the data of the scenario")?;
        let began = Instant::now();
        for repetition in 1..=experiment.repetitions {
            // The next one takes as long as those before it took on average.
            let made = repetition as u32 - 1;
            let each = began.elapsed().checked_div(made).unwrap_or_default();
            if made > 0 && until.is_some_and(|until| Instant::now() + each > until) {
                break;
            }
            for policy in &experiment.policies {
                go_on(stop)?;
                let result = one(&bed, *policy, &stored, stage).await;
                let result = result.map_err(|error| format!("{error:#}"));
                let record = RunRecord { policy: *policy, repetition, result };
                errln!("{}", describe(&record, experiment.repetitions));
                runs.push(record);
            }
        }
        Ok(())
    })
}

/// Whether another repair may be begun.
///
/// # Errors
/// When none is to be begun any more.
fn go_on(stop: Option<&AtomicBool>) -> Result<()> {
    ensure!(stop.is_none_or(|stop| !stop.load(Ordering::Relaxed)), "interrupted");
    Ok(())
}

/// Bytes of each source: whole stripes, about 64 MiB of them.
fn source_bytes(experiment: &Experiment) -> u64 {
    let stripe = experiment.stripe_bytes();
    (source::GENERATED_FILE_BYTES / stripe).max(1) * stripe
}

/// Stores the data with which every repair begins.
async fn store(bed: &Bed<'_>, stage: &mut Option<Processes>) -> Result<StoredCluster> {
    let stored = fill(bed, stage).await;
    explained(stored, stage).await
}

async fn fill(bed: &Bed<'_>, stage: &mut Option<Processes>) -> Result<StoredCluster> {
    let processes = stage.insert(Processes::new(run_folder(bed)?));
    let unlimited = without_limits(bed.scenario(bed.experiment.policies[0]));
    let mut client = bed.start(&unlimited.setting, processes).await?;
    run::store(&unlimited, &mut client).await?;
    StoredCluster::of(stage.take().expect("it was put there")).await
}

async fn one(
    bed: &Bed<'_>,
    policy: Policy,
    stored: &StoredCluster,
    stage: &mut Option<Processes>,
) -> Result<RepairFigures> {
    let figures = bed.measure(policy, stored, run_folder(bed)?, stage).await;
    explained(figures, stage).await
}

fn run_folder(bed: &Bed<'_>) -> Result<TempDir> {
    let base = bed.network.folder().context("the testbed has no folder")?;
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(base);
    folder.context("cannot make a folder")
}

/// What processes came to, once they are ended. That one of them ended by itself is a better reason
/// than what followed from it.
async fn explained<T>(result: Result<T>, stage: &mut Option<Processes>) -> Result<T> {
    let ended = stage.as_mut().map_or(Ok(()), Processes::check);
    if let Some(processes) = stage.take() {
        processes.end(false).await?;
    }
    result.or_else(|error| ended.and(Err(error)))
}

fn describe(run: &RunRecord, repetitions: usize) -> String {
    let of = format!("{} ({} of {repetitions})", run.policy, run.repetition);
    match &run.result {
        Ok(figures) => format!(
            "{of}: {} in {}, {} of the bound, {} of processors per GB, cores {} busy; limit: {}",
            format_size(figures.lost_bytes),
            format_seconds(figures.seconds),
            format_percent(figures.percent_of_bound),
            format_seconds(figures.agent_processor_seconds_per_gb),
            format_percent(100.0 * figures.processor_part),
            figures.limit.name(),
        ),
        Err(why) => format!("{of}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_repair_is_begun_once_none_is_to_be() {
        let stop = AtomicBool::new(false);
        assert!(go_on(None).is_ok() && go_on(Some(&stop)).is_ok());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(go_on(Some(&stop)).unwrap_err().to_string(), "interrupted");
    }
}
