//! One failure under one policy: planned, or planned and simulated.
//!
//! Place: failure -> [stripes -> queue -> plan -> ... -> stripe healthy], with the coordinator that
//! the daemons run. What a figure shows of it, `metric.rs` reads from what is measured here.

use std::cell::OnceCell;

use anyhow::{Result, anyhow, bail};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Batch, View, plan};
use suture_repair::policy::{Balance, Policy};
use suture_sim::client::{Served, percentile};
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::fluid_agents::Rebuilt;
use suture_sim::scenario::{Foreground, Overheads, Scenario};
use suture_sim::simulate::{self, Outcome as Simulated, simulate, timeline_links};
use suture_sim::timeline::Timeline;
use suture_sim::workload::Workload;

use super::setting::{FigureSetting, Prepared};
use crate::cpu_time::cpu_ns;
use crate::input::Damage;

/// Buckets of a timeline, from which links and intervals are read.
const BUCKETS: usize = 240;

/// How often a plan of a few chunks is made to time it: the least of them counts.
const PLANS: usize = 5;

/// What planning and, where it was asked for, simulating a failure came to.
pub struct Measured {
    /// What lost chunks have in all.
    pub lost_bytes: u64,
    /// How many they are.
    pub lost_chunks: usize,
    /// CPU time from jobs to plans.
    pub planning_seconds: f64,
    /// What plans put on nodes and racks, or what was moved.
    pub load: Load,
    /// The plans themselves, where only planning was asked for.
    pub batch: Batch,
    /// What the simulation came to.
    pub run: Option<RunFigures>,
}

/// What one simulated repair took, and did to applications.
pub struct RunFigures {
    /// From the first dispatch to the last chunk.
    pub seconds: f64,
    /// CPU time of the coordinator: planning and scheduling.
    pub coordinator_seconds: f64,
    /// What every chunk took.
    pub chunks: Vec<ChunkTimes>,
    /// What applications did meanwhile, where there are any.
    pub foreground: Option<ForegroundRun>,
    /// The mean rate of every link with all that it carried, uplinks and downlinks in turn; none
    /// where it was not recorded.
    pub links: Vec<f64>,
}

/// When a chunk was rebuilt, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct ChunkTimes {
    /// Its repair was dispatched.
    pub began: f64,
    /// All of its bytes were there.
    pub ended: f64,
    /// How many these are.
    pub bytes: u64,
}

/// What applications did beside a repair. What they would have done without it is simulated on
/// request.
pub struct ForegroundRun {
    scenario: Scenario,
    during: Served,
    alone: OnceCell<Served>,
}

impl RunFigures {
    /// Bytes that were rebuilt by a second, as if each chunk's came evenly from its dispatch to its
    /// end.
    pub fn rebuilt_bytes(&self, second: f64) -> f64 {
        let part = |chunk: &ChunkTimes| {
            let part = (second - chunk.began) / (chunk.ended - chunk.began);
            if chunk.ended <= second { 1.0 } else { part.max(0.0) }
        };
        self.chunks.iter().map(|chunk| chunk.bytes as f64 * part(chunk)).sum()
    }
}

impl ForegroundRun {
    /// The 99th percentile of what they waited, in milliseconds.
    pub fn p99_ms(&self) -> f64 {
        p99_ms(&self.during)
    }

    /// How much longer that is than for the same operations without the repair, as a part.
    pub fn delay(&self) -> Option<f64> {
        Some(p99_ms(&self.during) / p99_ms(self.alone()) - 1.0).filter(|part| part.is_finite())
    }

    /// How much longer they took for the same operations, as a part.
    pub fn interference(&self) -> Option<f64> {
        let part = self.during.client_seconds / self.alone().client_seconds - 1.0;
        Some(part).filter(|part| part.is_finite())
    }

    /// Bytes that moved for them.
    pub fn moved_bytes(&self) -> f64 {
        self.during.taken.values().map(|taken| taken.up + taken.down).sum()
    }

    /// The same on one link, of the uplinks and downlinks of all nodes in turn.
    pub fn moved_on(&self, link: usize) -> f64 {
        let taken = self.during.taken.get(&NodeId(link as u32 / 2)).copied().unwrap_or_default();
        if link.is_multiple_of(2) { taken.up } else { taken.down }
    }

    fn alone(&self) -> &Served {
        self.alone.get_or_init(|| simulate::alone(&self.scenario, &self.during))
    }
}

impl Prepared {
    /// Plans the repair of the failure; nothing is moved.
    ///
    /// # Errors
    /// When the policy cannot serve it.
    pub fn plan(&self, policy: Policy) -> Result<Measured> {
        policy.plannable().map_err(|fault| anyhow!("{fault}"))?;
        let damage = self.input.damage();
        // What is announced to a coordinator when it begins.
        let cluster = self.capacities.declared_cluster(0.0);
        let free_bytes = self.input.free_bytes();
        let idle = Load::new(&cluster);
        let view = view(&cluster, &free_bytes, &idle);
        let times = if damage.jobs.len() > 1 { 1 } else { PLANS };
        let mut made = None;
        let mut least_ns = u64::MAX;
        for _ in 0..times {
            let started = cpu_ns();
            made = Some(plan(policy, &damage.jobs, &view, self.input.seed));
            least_ns = least_ns.min(cpu_ns() - started);
        }
        let batch = made.expect("at least one plan is made");
        if let Some((_, why)) = batch.refused.first() {
            bail!("{why}");
        }
        let planned = batch.planned(&damage.jobs);
        let load = Load::of(&cluster, planned.map(|(job, plan)| (plan, job.facts())));
        Ok(Measured { batch, load, ..self.unmeasured(&damage, least_ns) })
    }

    /// Plans and simulates it; what links carry is recorded only where it is to be shown.
    ///
    /// # Errors
    /// When the policy cannot serve it, or the repair never ends.
    pub fn simulate(
        &self,
        setting: &FigureSetting,
        policy: Policy,
        has_links: bool,
    ) -> Result<Measured> {
        policy.plannable().map_err(|fault| anyhow!("{fault}"))?;
        let damage = self.input.damage();
        let timeline_buckets = has_links.then_some(BUCKETS);
        let scenario = Scenario { timeline_buckets, ..self.scenario(setting, policy, &damage)? };
        let simulated = simulate(&scenario, &mut cpu_ns);
        if let Some(given_up) = simulated.given_up {
            bail!("{given_up}");
        }
        if let Some((stripe, why)) = simulated.unrepaired.first() {
            let why = why.as_ref().map_or("it was never begun".to_string(), ToString::to_string);
            bail!("stripe {} is not repaired: {why}", stripe.0);
        }
        let measured = self.unmeasured(&damage, simulated.planning_ns);
        let load = simulated.load.clone();
        Ok(Measured { load, run: Some(self.figures(scenario, simulated)), ..measured })
    }

    /// What applications alone put on links for so long: the timeline of all links, in at most so
    /// many buckets.
    ///
    /// # Errors
    /// When there is no such workload.
    pub fn applications(
        &self,
        setting: &FigureSetting,
        seconds: f64,
        buckets: usize,
    ) -> Result<Timeline> {
        let scenario = self.scenario(setting, "cr".parse()?, &Damage::default())?;
        Ok(simulate::applications(&scenario, seconds, buckets).0)
    }

    /// What applications wait for so long without a repair, at the 99th percentile.
    ///
    /// # Errors
    /// When there is no such workload.
    pub fn alone_p99_ms(&self, setting: &FigureSetting, seconds: f64) -> Result<Option<f64>> {
        let scenario = self.scenario(setting, "cr".parse()?, &Damage::default())?;
        let (_, served) = simulate::applications(&scenario, seconds, BUCKETS);
        Ok(served.as_ref().map(p99_ms))
    }

    /// The least time of any plans of whole chunks, with what links have from the start on.
    pub fn bound_seconds(&self) -> f64 {
        let jobs = self.input.damage().jobs;
        let free_bytes = self.input.free_bytes();
        let bound = |cluster: &Cluster| {
            let idle = Load::new(cluster);
            bound_seconds(&jobs, &view(cluster, &free_bytes, &idle))
        };
        let guess = bound(&self.input.cluster);
        self.capacities.least_seconds(guess, bound)
    }

    fn unmeasured(&self, damage: &Damage, planning_ns: u64) -> Measured {
        let batch = Batch::default();
        Measured {
            lost_bytes: damage.lost_chunks as u64 * self.input.chunk_bytes,
            lost_chunks: damage.lost_chunks,
            planning_seconds: planning_ns as f64 / 1e9,
            load: Load::new(&self.input.cluster),
            batch,
            run: None,
        }
    }

    fn scenario(
        &self,
        setting: &FigureSetting,
        policy: Policy,
        damage: &Damage,
    ) -> Result<Scenario> {
        if self.readers.is_some() && setting.foreground.is_none() {
            bail!("readers make a straggler of a node beside applications only");
        }
        let foreground = setting.foreground.map(|(name, clients)| -> Result<Foreground> {
            let workload = name.parse::<Workload>().map_err(|why| anyhow!("{why}"))?;
            let (is_monitored, readers) = (is_monitored(policy), self.readers);
            Ok(Foreground { is_monitored, readers, ..Foreground::new(workload, clients) })
        });
        // The pipeline of a lane is full when its first packet has passed each hop, and is read
        // and written once more.
        let hop_seconds = setting.packet_bytes.map_or(0.0, |packet| {
            let disk = setting.disk.map_or(0.0, |rate| packet as f64 / rate);
            packet as f64 / setting.link + disk
        });
        Ok(Scenario {
            capacities: self.capacities.clone(),
            stripes: self.input.damaged_stripes(damage),
            failed: self.input.failed.clone(),
            silent: Vec::new(),
            free_bytes: self.input.free_bytes(),
            policy,
            seed: self.input.seed,
            overheads: Overheads { hop_seconds, slice_seconds: 0.0 },
            foreground: foreground.transpose()?,
            timeline_buckets: None,
            exact_entries: EXACT_ENTRIES,
            throttle: None,
        })
    }

    fn figures(&self, scenario: Scenario, simulated: Simulated) -> RunFigures {
        let bytes = self.input.chunk_bytes;
        let times = |chunk: &Rebuilt| {
            let (began, ended) = (chunk.began, chunk.ended);
            ChunkTimes { began, ended, bytes }
        };
        let chunks = simulated.rebuilt.iter().map(times).collect();
        let links = simulated.timeline.map_or(Vec::new(), |timeline| {
            let links = 0..timeline_links(&scenario).len();
            links.map(|link| carried(&timeline, link) / simulated.seconds).collect()
        });
        let foreground = simulated.foreground.map(|during| ForegroundRun {
            scenario,
            during,
            alone: OnceCell::new(),
        });
        RunFigures {
            seconds: simulated.seconds,
            coordinator_seconds: simulated.planning_ns as f64 / 1e9,
            chunks,
            foreground,
            links,
        }
    }
}

/// Whether the coordinator is notified of what applications take under a policy. ChameleonEC has a
/// monitor (HPCA'25, section III-A); what it is compared with has none, and the daemons count what
/// others move only where repair is throttled.
fn is_monitored(policy: Policy) -> bool {
    let balances = [Balance::Chameleon, Balance::ChameleonArtifact, Balance::ChameleonIo];
    balances.contains(&policy.balance)
}

fn p99_ms(served: &Served) -> f64 {
    1e3 * percentile(&served.latencies, 0.99)
}

/// Bytes that a link carried in all.
fn carried(timeline: &Timeline, link: usize) -> f64 {
    (0..timeline.len()).map(|bucket| timeline.get(bucket, link).carried).sum()
}

fn view<'a>(cluster: &'a Cluster, free_bytes: &'a [u64], idle: &'a Load) -> View<'a> {
    View { cluster, free_bytes, load: idle, abilities: Abilities::ALL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_under_way_count_by_how_long_they_have_been() {
        let chunk = |began: f64, ended: f64| ChunkTimes { began, ended, bytes: 100 };
        let run = RunFigures {
            seconds: 30.0,
            coordinator_seconds: 0.0,
            chunks: vec![chunk(0.0, 10.0), chunk(10.0, 30.0), chunk(25.0, 30.0)],
            foreground: None,
            links: Vec::new(),
        };
        let all = [0.0, 5.0, 10.0, 20.0, 30.0].map(|second| run.rebuilt_bytes(second));
        assert_eq!(all, [0.0, 50.0, 100.0, 150.0, 300.0]);
    }

    #[test]
    fn only_what_has_a_monitor_in_its_paper_is_notified() {
        let is = |policy: &str| is_monitored(policy.parse().unwrap());
        assert!(is("chameleon") && is("tunable/chameleon:io/phases:20"));
        assert!(!is("rp") && !is("repairboost+cr") && !is("suture"));
    }
}
