//! What a repair takes of the machine: processor time, memory, and what passed through links.
//!
//! Place: beside the testbed's repair. Everything is read where the kernel counts it (`/proc`), by
//! no process that takes part, before the repair and after it.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

/// Ticks of the kernel's clock in a second, as `/proc` counts them on every Linux.
const TICKS: f64 = 100.0;

/// Processor time of some processes and of the machine, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// What the processes took themselves, and the kernel for them.
    pub processes: f64,
    /// What everything on the machine took, the kernel and other guests of its host included.
    pub busy: f64,
    /// All that there was, of all cores.
    pub available: f64,
}

impl ProcessorTime {
    /// Until now.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn now(processes: &[u32]) -> Result<ProcessorTime> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let (busy, available) = machine(&stat).context("/proc/stat has no line of processors")?;
        let processes = processes.iter().filter_map(|process| {
            process_seconds(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
        });
        Ok(ProcessorTime { processes: processes.sum(), busy, available })
    }

    /// What was taken since an earlier moment.
    pub fn since(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            processes: self.processes - earlier.processes,
            busy: self.busy - earlier.busy,
            available: self.available - earlier.available,
        }
    }

    /// The part of all cores that was busy.
    pub fn busy_part(&self) -> f64 {
        self.busy / self.available.max(f64::MIN_POSITIVE)
    }

    /// The part of all cores that the processes took.
    pub fn own_part(&self) -> f64 {
        self.processes / self.available.max(f64::MIN_POSITIVE)
    }
}

/// The thread of a coordinator that keeps its metadata.
const METADATA_THREAD: &str = "metadata";

/// Processor time of a coordinator, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoordinatorTime {
    /// What the whole process took.
    pub process: f64,
    /// What the thread took that keeps the metadata: commits.
    pub metadata: f64,
}

impl CoordinatorTime {
    /// Until now; nothing of one that does not run.
    pub fn now(process: Option<u32>) -> CoordinatorTime {
        let Some(process) = process else { return CoordinatorTime::default() };
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let tasks = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        let metadata = tasks.filter(|stat| name(stat) == Some(METADATA_THREAD));
        CoordinatorTime {
            process: process_seconds(&stat).unwrap_or(0.0),
            metadata: metadata.filter_map(|stat| process_seconds(&stat)).sum(),
        }
    }

    /// What was taken since an earlier moment.
    pub fn since(self, earlier: CoordinatorTime) -> CoordinatorTime {
        CoordinatorTime {
            process: self.process - earlier.process,
            metadata: self.metadata - earlier.metadata,
        }
    }
}

/// The name of a process or a thread.
fn name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.0.split_once('(')?.1)
}

/// Seconds that the machine was busy, and all of them.
fn machine(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guests are in user and nice already.
    let ticks: Vec<f64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all: f64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(((all - idle) / TICKS, all / TICKS))
}

fn process_seconds(stat: &str) -> Option<f64> {
    // The name of the program may have spaces and brackets; it ends with the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Bytes that each device of a namespace has received and sent so far.
pub type Counters = BTreeMap<String, (u64, u64)>;

/// The counters of the namespace that a process sees.
///
/// # Errors
/// When the process is gone.
pub fn counters(process: u32) -> Result<Counters> {
    let path = format!("/proc/{process}/net/dev");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.lines().filter_map(device).collect())
}

fn device(line: &str) -> Option<(String, (u64, u64))> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> =
        numbers.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((name.trim().to_string(), (*numbers.first()?, *numbers.get(8)?)))
}

/// What this machine is: processors, memory and kernel, in a line.
pub fn machine_name() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("processor", |(_, name)| name.trim());
    let system = rustix::system::sysinfo();
    let memory = system.totalram as u64 * u64::from(system.mem_unit);
    let kernel = rustix::system::uname();
    format!(
        "{cores} x {model}, {} of memory, Linux {}",
        suture_edge::units::format_size(memory),
        kernel.release().to_string_lossy()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::cpu_ns;

    #[test]
    fn the_thread_of_the_metadata_counts_in_the_process_and_by_itself() {
        assert_eq!(CoordinatorTime::now(None), CoordinatorTime::default());
        let before = CoordinatorTime::now(Some(std::process::id()));
        let work = || {
            // Several ticks, in which the kernel counts.
            let began = cpu_ns();
            while cpu_ns() - began < 100_000_000 {}
            CoordinatorTime::now(Some(std::process::id()))
        };
        let thread = std::thread::Builder::new().name(METADATA_THREAD.into()).spawn(work).unwrap();
        let took = thread.join().unwrap().since(before);
        // The process was read a moment before its threads.
        assert!(took.metadata > 0.0 && took.process > took.metadata - 0.05, "{took:?}");
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let stat = "cpu  100 0 50 700 100 0 30 20 9 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(machine(stat), Some((2.0, 10.0)));
        let process = "7 (a (b) c) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 9 0 12345 1 1";
        assert_eq!((name(process), process_seconds(process)), (Some("a (b) c"), Some(2.0)));
        let dev = " x-n1: 1500 10 0 0 0 0 0 0 2500 11 0 0 0 0 0 0";
        assert_eq!(device(dev), Some(("x-n1".to_string(), (1500, 2500))));
        assert_eq!(device("Inter-|   Receive"), None);
    }
}
