//! What explains the figures of a repair: what there is at rest, what the coordinator takes of the
//! processor and how often it is asked, and what daemons have counted.
//!
//! Place: beside the testbed's repair, from before the failure to after the last commit. Asking
//! for the status costs the coordinator time as well, so that is measured at rest, and counted.

use std::time::{Duration, Instant};

use anyhow::Result;
use suture_drivers::control::client::Client;
use suture_drivers::control::proto::StatusReply;
use suture_drivers::control::summary;

use super::applications::Seen;
use super::exported::RepairCounts;
use super::figures::{IdleRates, RunDetails};
use super::network::Network;
use super::requests::LoopLogs;
use super::scenario::Experiment;
use super::usage::CoordinatorTime;
use super::watch::{LinkFigures, LinkWatch};
use crate::demo::processes::{HEARTBEAT, Processes};

/// How often the status is asked for at rest, and the pause in between: the kernel counts processor
/// time in hundredths of a second.
const REST_ASKS: u32 = 100;
const REST_PAUSE: Duration = Duration::from_millis(10);

/// What is counted of a repair to explain it.
pub struct Accounting<'a> {
    experiment: &'a Experiment,
    network: &'a Network,
    coordinator: Option<u32>,
    idle: Option<IdleRates>,
    /// What daemons had counted before.
    counts: Option<RepairCounts>,
    /// What the coordinator had taken when this began; since then, once it has ended.
    time: CoordinatorTime,
    status_asks: u64,
}

impl<'a> Accounting<'a> {
    /// Watches what goes on at rest, where the experiment has a time for that. Nothing has failed
    /// yet.
    ///
    /// # Errors
    /// When the coordinator does not answer, or the kernel reports nothing.
    pub async fn open(
        experiment: &'a Experiment,
        network: &'a Network,
        client: &mut Client,
        processes: &Processes,
    ) -> Result<Accounting<'a>> {
        let coordinator = processes.coordinator();
        let mut accounting = Accounting {
            experiment,
            network,
            coordinator,
            idle: None,
            counts: None,
            time: CoordinatorTime::default(),
            status_asks: 0,
        };
        accounting.counts = accounting.counted().await;
        if !experiment.rest.is_zero() {
            accounting.idle = Some(accounting.at_rest(client, processes).await?);
        }
        Ok(accounting)
    }

    /// What daemons have counted so far. Some that are started again begin anew, so nothing where
    /// that may happen, or where one does not answer.
    async fn counted(&self) -> Option<RepairCounts> {
        let Experiment { failed, drains, faults, .. } = self.experiment;
        if !faults.is_empty() {
            return None;
        }
        let gone = if *drains { &[] } else { &failed[..] };
        let counts = RepairCounts::read(self.network, gone).await;
        counts.inspect_err(|why| errln!("differences of traffic have no causes: {why:#}")).ok()
    }

    async fn at_rest(&self, client: &mut Client, processes: &Processes) -> Result<IdleRates> {
        let rest = self.experiment.rest;
        let mut links = LinkWatch::open(self.experiment, self.network)?;
        let before = CoordinatorTime::now(self.coordinator);
        links.begin()?;
        tokio::time::sleep(rest).await;
        let seconds = rest.as_secs_f64();
        let sent_bytes = links.end(seconds)?.sent_bytes as f64 / seconds;
        let took = CoordinatorTime::now(self.coordinator).since(before);
        let coordinator_processor = took.process / seconds;
        let (began, before) = (Instant::now(), CoordinatorTime::now(self.coordinator));
        for _ in 0..REST_ASKS {
            summary::ask(client).await?;
            tokio::time::sleep(REST_PAUSE).await;
        }
        let took = CoordinatorTime::now(self.coordinator).since(before);
        let of_asks = took.process - coordinator_processor * began.elapsed().as_secs_f64();
        Ok(IdleRates {
            coordinator_processor,
            sent_bytes,
            heartbeats: processes.agents().len() as f64 / HEARTBEAT.as_secs_f64(),
            status_processor: (of_asks / f64::from(REST_ASKS)).max(0.0),
        })
    }

    /// The coordinator's time counts from now on.
    pub fn begin(&mut self) {
        self.time = CoordinatorTime::now(self.coordinator);
    }

    /// The coordinator's status, and counts that it was asked for.
    ///
    /// # Errors
    /// When the coordinator goes away.
    pub async fn ask(&mut self, client: &mut Client) -> Result<StatusReply> {
        self.status_asks += 1;
        summary::ask(client).await
    }

    /// The coordinator's time counts no more.
    pub fn end(&mut self) {
        self.time = CoordinatorTime::now(self.coordinator).since(self.time);
    }

    /// What explains a repair that took so many `seconds`, whose first part was dispatched after
    /// `start_seconds`, and beside which applications were `seen` to wait.
    pub async fn details(
        self,
        start_seconds: Option<f64>,
        links: &LinkFigures,
        seconds: f64,
        seen: Option<&(Seen, Seen)>,
    ) -> RunDetails {
        let counts = match self.counts {
            Some(before) => self.counted().await.map(|counts| counts.since(before)),
            None => None,
        };
        let logs = |(alone, beside): &(Seen, Seen)| {
            let (alone, beside) = (alone.log.clone()?, beside.log.clone()?);
            Some(LoopLogs { alone, beside, links: links.steps.clone() })
        };
        RunDetails {
            start_seconds,
            // Beside applications links never fall silent.
            end_seconds: seen.is_none().then_some((seconds - links.last_moved).max(0.0)),
            sent_bytes: links.sent_bytes,
            coordinator_processor_seconds: self.time.process,
            metadata_seconds: self.time.metadata,
            status_asks: self.status_asks,
            idle: self.idle,
            counts,
            requests: seen.and_then(logs),
        }
    }
}
