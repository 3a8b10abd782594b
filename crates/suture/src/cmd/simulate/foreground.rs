//! `--foreground W[:clients]`: which applications share the links.
//!
//! Place: before `[slices flow]`: what else uses the links.

use std::str::FromStr;

use suture_sim::client::{Served, percentile};
use suture_sim::workload::Workload;

/// Clients where no number is given: as many as ChameleonEC's evaluation has at most.
const CLIENTS: usize = 4;

/// More than a link of any kind would notice.
const CLIENTS_MAX: usize = 1000;

/// The value of `--foreground`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForegroundArg {
    pub workload: Workload,
    pub clients: usize,
}

impl FromStr for ForegroundArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ForegroundArg, String> {
        let (name, clients) = match text.split_once(':') {
            None => (text, CLIENTS),
            Some((name, number)) => {
                let clients = number.parse().ok().filter(|count| (1..=CLIENTS_MAX).contains(count));
                let clients = clients.ok_or_else(|| {
                    format!(
                        "'{number}' is not a number of clients; write {name}:4 (1 to {CLIENTS_MAX})"
                    )
                })?;
                (name, clients)
            }
        };
        let workload = name.parse::<Workload>().map_err(|error| error.to_string())?;
        Ok(ForegroundArg { workload, clients })
    }
}

/// What clients did beside a repair, and how the same operations go without it.
pub struct ForegroundComparison {
    pub during: Served,
    pub alone: Served,
}

/// What a repair did to applications.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interference {
    pub baseline_p50_ms: f64,
    pub baseline_p99_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// How much longer the same operations took, as a part (ChameleonEC, Exp#2).
    pub interference_degree: f64,
}

impl Interference {
    pub fn of(ForegroundComparison { during, alone }: &ForegroundComparison) -> Interference {
        let ms = |served: &Served, part| 1e3 * percentile(&served.latencies, part);
        let degree = during.client_seconds / alone.client_seconds - 1.0;
        Interference {
            baseline_p50_ms: ms(alone, 0.5),
            baseline_p99_ms: ms(alone, 0.99),
            p50_ms: ms(during, 0.5),
            p99_ms: ms(during, 0.99),
            interference_degree: if degree.is_finite() { degree } else { 0.0 },
        }
    }
}
