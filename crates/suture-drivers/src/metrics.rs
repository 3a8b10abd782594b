//! Numbers for monitoring: what a daemon counts and measures, as Prometheus reads it.
//!
//! Place: beside every step of failure -> ... -> stripe healthy; it decides nothing and no decision
//! depends on it. The cores count nothing: what is here follows from their reports and statuses,
//! and from what drivers do on disks and links.
//!
//! Names begin with `suture_`, end with their unit, counters with `_total`. Every label has few
//! values that are known beforehand, or one for each node: never a stripe, an object or a repair.

pub mod agent;
pub mod calls;
pub mod coordinator;
mod hdfs;
mod links;
pub mod page;
mod process;
mod rates;
mod scrub;
mod text;

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};
use suture_repair::message::{CopyFault, Failure};

use crate::identity::credentials::Kept;
pub use text::Exposition;

/// Names of labels, each with its value.
type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// Something that goes up and down.
type Level = Gauge<f64, AtomicU64>;

/// Times in seconds, or other sums that are no whole numbers, which only grow.
type Sum = Counter<f64, AtomicU64>;

/// Bounds of the buckets of a disk's and of a commit's times, in seconds: from what the page cache
/// takes to what a disk that fails takes.
const TIMES: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 30.0,
];

/// What a daemon reports of itself, whichever it is.
#[derive(Debug)]
struct OfDaemon {
    registry: Registry,
    certificates: Family<Labels, Level>,
}

impl OfDaemon {
    /// The numbers that all daemons have; `role` distinguishes them.
    fn new(role: &'static str) -> OfDaemon {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process::begun()));
        let mut of = OfDaemon { registry, certificates: Family::default() };
        let build: Family<Labels, Level> = Family::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&vec![("version", version.into()), ("role", role.into())]).set(1.0);
        of.add("suture_build_info", "Which build this is; always 1", build);
        let certificates = of.certificates.clone();
        of.add(
            "suture_certificate_expiry_timestamp_seconds",
            "When the daemon's certificate, or the authority that vouches for it, counts no more",
            certificates,
        );
        of
    }

    fn add(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.registry.register(name, help, metric);
    }

    /// A new counter or level of that name.
    fn new_one<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        let metric = M::default();
        self.add(name, help, metric.clone());
        metric
    }

    /// Reads when certificates end; they may have been renewed.
    fn note_certificates(&self, credentials: Option<&Kept>) {
        for (certificate, not_after) in credentials.iter().flat_map(|kept| kept.current().ends()) {
            let labels = vec![("certificate", certificate.into())];
            self.certificates.get_or_create(&labels).set(not_after as f64);
        }
    }

    fn write(&self) -> Exposition {
        Exposition::of(&self.registry)
    }
}

/// Every kind of failure, so that each has a series before the first of its kind: a rate needs one.
const FAILURES: [&str; 12] = [
    "missing",
    "corrupt",
    "unreadable",
    "peer_lost",
    "no_space",
    "no_memory",
    "wrong_bytes",
    "inconsistent",
    "stalled",
    "refused",
    "disk",
    "listing",
];

/// Begins the series of these values of a label, at nothing.
fn begin(counters: &Family<Labels, Counter>, label: &'static str, values: &[&'static str]) {
    for value in values {
        drop(counters.get_or_create(&vec![(label, (*value).into())]));
    }
}

/// A value of the label that says why something failed.
fn reason(why: &Failure) -> &'static str {
    match why {
        Failure::Source { fault, .. } => fault_name(*fault),
        Failure::PeerLost(_) => "peer_lost",
        Failure::NoSpace => "no_space",
        Failure::NoBuffers { .. } => "no_memory",
        Failure::ProofFailed { .. } | Failure::PastEnd { .. } => "wrong_bytes",
        Failure::Inconsistent => "inconsistent",
        Failure::Stalled => "stalled",
        Failure::Refused(_) => "refused",
        Failure::Disk(_) => "disk",
    }
}

fn fault_name(fault: CopyFault) -> &'static str {
    match fault {
        CopyFault::Missing => "missing",
        CopyFault::Corrupt => "corrupt",
        CopyFault::Unreadable => "unreadable",
    }
}
