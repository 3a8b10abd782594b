//! Applications on the testbed: what they wait alone, and beside a repair.
//!
//! Place: beside [slices flow], seen from outside. Requests come from the namespace whose link has
//! no limits, at a given rate, whether or not earlier ones were answered, so that a repair that
//! makes them wait meets as many of them as one that does not.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use suture_code::Code;
use suture_drivers::config::parse_duration;
use suture_drivers::control::client::{self, Client};
use suture_edge::error::bad_input;
use suture_edge::units::parse_nonzero_size;
use suture_sim::workload::Workload;

use crate::foreground::drive::{self, Demand, Driven};
use crate::foreground::keyspace::Keyspace;

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
    rate: f64,
    clients: Option<usize>,
    objects: Option<usize>,
    value_max: Option<String>,
    alone: Option<String>,
}

/// What applications ask for.
#[derive(Clone, Copy, Debug)]
pub struct Applications {
    /// Which requests.
    pub workload: Workload,
    /// Requests a second, on average.
    pub rate: f64,
    /// Requests under way at a time, at most.
    pub clients: usize,
    /// Different objects.
    pub objects: usize,
    /// Bytes of a value, at most.
    pub value_max: u64,
    /// How long they are watched before the failure.
    pub alone: Duration,
}

/// What requests waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Requests that are counted.
    pub requests: u64,
    /// Of these, those that failed.
    pub errors: u64,
    /// Milliseconds, on average.
    pub mean_ms: f64,
    /// 99 of a hundred took no longer, of the kind of requests that waited longest.
    pub p99_ms: f64,
}

/// The same without a repair and beside one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Felt {
    /// Before the failure.
    pub alone: Waits,
    /// From the declaration of the failure to the last commit.
    pub beside: Waits,
}

impl Felt {
    /// How much longer a client takes that begins a request when its last one is answered, as a
    /// part: ChameleonEC's interference degree (section V-B, Exp#2).
    pub fn interference(&self) -> f64 {
        self.beside.mean_ms / self.alone.mean_ms - 1.0
    }
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
        if !(self.rate > 0.0 && self.rate <= 10_000.0) || clients == 0 || objects == 0 {
            return Err(bad_input(
                "the load's rate, clients and objects are above zero, and its rate at most 10000 a \
                 second",
            ));
        }
        let duration = |text: &str| parse_duration(text).map_err(bad_input);
        Ok(Applications {
            workload,
            rate: self.rate,
            clients,
            objects,
            value_max: parse_nonzero_size(self.value_max.as_deref().unwrap_or("512KiB"))
                .map_err(bad_input)?,
            alone: duration(self.alone.as_deref().unwrap_or("10s"))?,
        })
    }
}

/// Applications whose values are stored.
pub struct Ready {
    applications: Applications,
    keyspace: Arc<Keyspace>,
    clients: Vec<Client>,
}

impl Applications {
    /// Stores all values.
    ///
    /// # Errors
    /// When the coordinator does not answer or a value cannot be stored.
    pub async fn prepare(self, address: &str, code: Code, chunk_bytes: u64) -> Result<Ready> {
        let mut clients = Vec::new();
        for _ in 0..self.clients {
            clients.push(client::connect(address, None).await?);
        }
        let keyspace = Keyspace::new(PREFIX.to_string(), self.objects, code, chunk_bytes);
        let ready = Ready { applications: self, keyspace: Arc::new(keyspace), clients };
        drive::fill(&ready.keyspace, &ready.clients, &ready.demand(self.alone), |_| {}).await?;
        Ok(ready)
    }
}

impl Ready {
    fn demand(&self, duration: Duration) -> Demand {
        Demand {
            workload: self.applications.workload,
            rate: self.applications.rate,
            warm_up: Duration::ZERO,
            duration,
            drain: DRAIN,
            seed: 1,
            value_max: self.applications.value_max,
        }
    }

    /// What they wait without a repair.
    ///
    /// # Errors
    /// When no request was answered, or one failed.
    pub async fn alone(&self) -> Result<Waits> {
        let demand = Demand { warm_up: WARM_UP, ..self.demand(self.applications.alone) };
        let never = std::future::pending();
        let waits = of(&drive::drive(&self.keyspace, &self.clients, &demand, never).await);
        ensure!(waits.requests > 0, "no request of the applications was answered: a higher rate");
        ensure!(waits.errors == 0, "{} requests of the applications failed", waits.errors);
        Ok(waits)
    }

    /// What they wait until `end`, or for `longest`.
    pub async fn beside(&self, longest: Duration, end: impl Future<Output = ()>) -> Waits {
        of(&drive::drive(&self.keyspace, &self.clients, &self.demand(longest), end).await)
    }
}

fn of(driven: &Driven) -> Waits {
    let figures = driven.latencies.figures();
    let requests: u64 = figures.iter().map(|kind| kind.count).sum();
    let sum: f64 = figures.iter().map(|kind| kind.mean_ms * kind.count as f64).sum();
    Waits {
        requests,
        errors: figures.iter().map(|kind| kind.errors).sum(),
        mean_ms: sum / requests.max(1) as f64,
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
        assert_eq!((load.workload, load.alone), (Workload::Ibm, Duration::from_secs(4)));
        assert_eq!((load.clients, load.objects, load.value_max), (8, 50, 512 << 10));
        for (text, words) in [
            ("workload = 'ycsb-x'\nrate = 3.0", "there is no workload 'ycsb-x'"),
            ("workload = 'ycsb-e'\nrate = 3.0", "not ycsb-e"),
            ("workload = 'ibm'\nrate = 0.0", "above zero"),
            ("workload = 'ibm'\nrate = 1.0\nclients = 0", "above zero"),
            ("workload = 'ibm'\nrate = 1.0\nclint = 1", "unknown field"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_degree_is_how_much_longer_requests_take() {
        let waits = |mean_ms| Waits { requests: 1, errors: 0, mean_ms, p99_ms: 9.0 };
        let felt = Felt { alone: waits(20.0), beside: waits(30.0) };
        assert!((felt.interference() - 0.5).abs() < 1e-12);
    }
}
