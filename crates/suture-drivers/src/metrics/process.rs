//! What the system reports of the process itself, under the names that all exporters use.
//!
//! Place: beside everything, for monitoring. What cannot be read is left out.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Numbers of this process, read each time that monitoring asks.
#[derive(Debug)]
pub(super) struct Process {
    started: SystemTime,
}

impl Process {
    /// That of a process which has just begun.
    pub(super) fn begun() -> Process {
        Process { started: SystemTime::now() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut level = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        level("process_resident_memory_bytes", "Memory that is resident", status_bytes("VmRSS:"))?;
        level("process_open_fds", "Files and sockets that are open", open_files())?;
        let most = getrlimit(Resource::Nofile).current.map(|most| most as f64);
        level("process_max_fds", "Files and sockets that may be open", most)?;
        let started = self.started.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        let help = "When the process began, in seconds since 1970";
        level("process_start_time_seconds", help, started)?;
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let used = ConstCounter::new(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
        let help = "Processor time that was used";
        let name = "process_cpu_seconds";
        used.encode(encoder.encode_descriptor(name, help, None, used.metric_type())?)
    }
}

fn status_bytes(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = value.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn open_files() -> Option<f64> {
    // One of them is the folder that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}
