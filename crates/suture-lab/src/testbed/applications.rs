//! Applications on the testbed: what they wait alone, and beside a repair.
//!
//! Place: beside [slices flow], seen from outside. Requests come from the namespace whose link has
//! no limits. Those of the store come at a given rate, whether or not earlier ones were answered,
//! so that a repair that makes them wait meets as many of them as one that does not. Those of
//! clients in a closed loop are of something else on the same machines (`requests.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use suture_code::Code;
use suture_drivers::config::parse_duration;
use suture_drivers::control::client::{self, Client};
use suture_edge::error::bad_input;
use suture_edge::units::parse_nonzero_size;
use suture_repair::id::NodeId;
use suture_sim::workload::Workload;

use super::network::Network;
use super::requests::{ClosedLoop, LoopClients, RequestLog};
use crate::foreground::drive::{self, Demand, Driven};
use crate::foreground::keyspace::Keyspace;
use crate::foreground::latency::LatencyFigures;
use crate::foreground::{CLIENTS_MAX, OBJECTS_MAX};

/// Before the names of what applications store.
const PREFIX: &str = "applications/";

/// Until requests of the beginning are over.
const WARM_UP: Duration = Duration::from_secs(2);

/// What requests may take that are under way at the end.
const DRAIN: Duration = Duration::from_secs(20);

/// The table `[load]` of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadToml {
    workload: String,
    rate: Option<f64>,
    clients: Option<usize>,
    objects: Option<usize>,
    value_max: Option<String>,
    alone: Option<String>,
    #[serde(default)]
    closed: bool,
}

/// Which clients ask for what while a repair runs.
#[derive(Clone, Copy, Debug)]
pub enum Applications {
    /// Users of the store, whose requests come when they come.
    Open(OpenLoop),
    /// Users of something else on the same machines, each of whom waits for an answer first.
    Closed(ClosedLoop),
}

/// Requests of the store, at a rate.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// Which requests are made.
    pub workload: Workload,
    /// Requests a second, on average.
    pub rate: f64,
    /// Requests under way at a time, at most.
    pub clients: usize,
    /// How many different objects they are about.
    pub objects: usize,
    /// Bytes of a value, at most.
    pub value_max: u64,
    /// How long they are watched before the failure.
    pub alone: Duration,
}

/// What requests waited for their answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Requests that are counted.
    pub requests: u64,
    /// Of these, those that failed.
    pub errors: u64,
    /// Milliseconds that they waited on average.
    pub mean_ms: f64,
    /// 99 of a hundred took no longer, of the kind of requests that waited longest.
    pub p99_ms: f64,
}

/// What was seen of requests for a while.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What requests waited for their answers.
    pub waits: Waits,
    /// Each of them, of clients in a closed loop.
    pub log: Option<RequestLog>,
}

/// The same without a repair and beside one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Felt {
    /// What they waited before the failure.
    pub alone: Waits,
    /// From the declaration of the failure to the last commit.
    pub beside: Waits,
    /// The k-chunk bound on what applications alone leave of links, over the time of the repair, in
    /// percent; none for clients in a closed loop, which take whatever they get.
    pub left_percent: Option<f64>,
}

impl LoadToml {
    /// What it asks for.
    ///
    /// # Errors
    /// Bad input: a workload that there is not, or numbers that cannot be.
    pub fn read(&self) -> Result<Applications> {
        use Workload::{Etc, Ibm, Twitter, YcsbA, YcsbB, YcsbC};
        let workload: Workload = self.workload.parse().map_err(bad_input)?;
        if ![YcsbA, YcsbB, YcsbC, Etc, Twitter, Ibm].contains(&workload) {
            return Err(bad_input(format!(
                "the testbed's load has ycsb-a, ycsb-b, ycsb-c, etc, twitter and ibm, not {workload}"
            )));
        }
        let (clients, objects) = (self.clients.unwrap_or(8), self.objects.unwrap_or(50));
        for (key, number, most) in
            [("clients", clients, CLIENTS_MAX), ("objects", objects, OBJECTS_MAX)]
        {
            if number > most {
                return Err(bad_input(format!("the load has {number} {key}: {most} at most")));
            }
        }
        let duration = |text: &str| parse_duration(text).map_err(bad_input);
        let alone = duration(self.alone.as_deref().unwrap_or("10s"))?;
        if self.closed {
            self.check_closed(clients)?;
            return Ok(Applications::Closed(ClosedLoop { workload, clients, alone }));
        }
        let rate = self.rate.ok_or_else(|| {
            bad_input("the load has no rate: say how many requests a second, or closed = true")
        })?;
        if !(rate > 0.0 && rate <= 10_000.0) || clients == 0 || objects == 0 {
            return Err(bad_input(
                "the load's rate, clients and objects are above zero, and its rate at most 10000 a \
                 second",
            ));
        }
        let value_max = parse_nonzero_size(self.value_max.as_deref().unwrap_or("512KiB"));
        let value_max = value_max.map_err(bad_input)?;
        Ok(Applications::Open(OpenLoop { workload, rate, clients, objects, value_max, alone }))
    }

    fn check_closed(&self, clients: usize) -> Result<()> {
        if self.rate.is_some() || self.objects.is_some() || self.value_max.is_some() {
            return Err(bad_input(
                "a closed load has no rate, objects or value_max: each client begins a request \
                 when its last one was answered, of whatever length",
            ));
        }
        if clients == 0 {
            return Err(bad_input("the load's clients are above zero"));
        }
        Ok(())
    }
}

/// Applications that can begin.
pub enum Ready {
    /// Their values are stored.
    Store(StoreClients),
    /// Nodes answer the requests of these clients.
    Nodes(LoopClients),
}

/// Clients of the store whose values are there.
pub struct StoreClients {
    load: OpenLoop,
    keyspace: Arc<Keyspace>,
    clients: Vec<Client>,
}

impl Applications {
    /// Stores all values, or has nodes answer.
    ///
    /// # Errors
    /// When the coordinator does not answer, a value cannot be stored, or a node not be reached.
    pub async fn prepare(
        self,
        address: &str,
        code: Code,
        chunk_bytes: u64,
        network: &Network,
        failed: &[NodeId],
    ) -> Result<Ready> {
        Ok(match self {
            Applications::Open(load) => {
                Ready::Store(load.prepare(address, code, chunk_bytes).await?)
            }
            Applications::Closed(load) => {
                Ready::Nodes(LoopClients::open(load, network, failed).await?)
            }
        })
    }
}

impl OpenLoop {
    async fn prepare(self, address: &str, code: Code, chunk_bytes: u64) -> Result<StoreClients> {
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(client::connect(address, None).await?);
        }
        let keyspace = Keyspace::new(PREFIX, self.objects, code, chunk_bytes)?;
        let ready = StoreClients { load: self, keyspace: Arc::new(keyspace), clients };
        drive::fill(&ready.keyspace, &ready.clients, &ready.demand(self.alone), |_| {}).await?;
        Ok(ready)
    }
}

impl StoreClients {
    fn demand(&self, duration: Duration) -> Demand {
        Demand {
            workload: self.load.workload,
            rate: self.load.rate,
            warm_up: Duration::ZERO,
            duration,
            drain: DRAIN,
            seed: 1,
            value_max: self.load.value_max,
        }
    }

    async fn alone(&self) -> Result<Waits> {
        let demand = Demand { warm_up: WARM_UP, ..self.demand(self.load.alone) };
        let never = std::future::pending();
        let waits = of(&drive::drive(&self.keyspace, &self.clients, &demand, never).await);
        ensure!(waits.requests > 0, "no request of the applications was answered: a higher rate");
        ensure!(waits.errors == 0, "{} requests of the applications failed", waits.errors);
        Ok(waits)
    }

    async fn beside(&self, longest: Duration, end: impl Future<Output = ()>) -> Waits {
        of(&drive::drive(&self.keyspace, &self.clients, &self.demand(longest), end).await)
    }
}

impl Ready {
    /// What they wait without a repair.
    ///
    /// # Errors
    /// When no request was answered, or one failed.
    pub async fn alone(&self) -> Result<Seen> {
        Ok(match self {
            Ready::Store(clients) => Seen { waits: clients.alone().await?, log: None },
            Ready::Nodes(clients) => Seen::of(clients.alone().await?),
        })
    }

    /// What they wait until `end`, or for `longest`; when bytes moved is kept in seconds `since` a
    /// moment.
    ///
    /// # Errors
    /// When clients in a closed loop lose a connection.
    pub async fn beside(
        &self,
        since: Instant,
        longest: Duration,
        end: impl Future<Output = ()>,
    ) -> Result<Seen> {
        Ok(match self {
            Ready::Store(clients) => Seen { waits: clients.beside(longest, end).await, log: None },
            Ready::Nodes(clients) => Seen::of(clients.beside(since, longest, end).await?),
        })
    }
}

impl Seen {
    fn of(log: RequestLog) -> Seen {
        let ms = |seconds: f64| 1e3 * seconds;
        let waits = Waits {
            requests: log.count() as u64,
            errors: 0,
            mean_ms: log.mean().map_or(0.0, |mean| ms(mean.seconds)),
            p99_ms: log.at(0.99).map_or(0.0, |time| ms(time.seconds)),
        };
        Seen { waits, log: Some(log) }
    }
}

fn of(driven: &Driven) -> Waits {
    let figures = driven.latencies.figures();
    // Those that failed have no latency.
    let known = || figures.iter().filter(|kind| kind.count > kind.errors);
    let answered = |kind: &LatencyFigures| (kind.count - kind.errors) as f64;
    let sum: f64 = known().map(|kind| kind.mean_ms * answered(kind)).sum();
    let all: f64 = known().map(answered).sum();
    Waits {
        requests: figures.iter().map(|kind| kind.count).sum(),
        errors: figures.iter().map(|kind| kind.errors).sum(),
        mean_ms: sum / all.max(1.0),
        p99_ms: figures.iter().map(|kind| kind.p99_ms).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Applications> {
        toml::from_str::<LoadToml>(text)?.read()
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let load = read("workload = 'ibm'\nrate = 3.0\nalone = '4s'").unwrap();
        let Applications::Open(load) = load else { panic!("{load:?} is closed") };
        assert_eq!((load.workload, load.alone), (Workload::Ibm, Duration::from_secs(4)));
        assert_eq!((load.clients, load.objects, load.value_max), (8, 50, 512 << 10));
        let load = read("workload = 'etc'\nclosed = true\nclients = 4").unwrap();
        let Applications::Closed(load) = load else { panic!("{load:?} is open") };
        assert_eq!((load.workload, load.clients), (Workload::Etc, 4));
        for (text, words) in [
            ("workload = 'ycsb-x'\nrate = 3.0", "there is no workload 'ycsb-x'"),
            ("workload = 'ycsb-e'\nrate = 3.0", "not ycsb-e"),
            ("workload = 'ibm'\nrate = 0.0", "above zero"),
            ("workload = 'ibm'\nrate = 1.0\nclients = 0", "above zero"),
            ("workload = 'ibm'\nrate = 1.0\nclint = 1", "unknown field"),
            ("workload = 'ibm'", "no rate: say how many requests a second"),
            ("workload = 'ibm'\nclosed = true\nrate = 1.0", "a closed load has no rate"),
            ("workload = 'ibm'\nclosed = true\nclients = 0", "clients are above zero"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }
}
