//! What a process that talks to others begins and ends with: a runtime, and a way to be stopped.
//!
//! Place: the first and the last moments of coordinator, agents, commands and trials.

use std::fs;
use std::future::Future;
use std::io;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs `work` to its end, on as many threads as there are processors.
///
/// # Errors
/// When the system gives no threads or event queue, and `work`'s own.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    block_on_runtime(tokio::runtime::Builder::new_multi_thread().enable_all().build(), work)
}

/// Runs `work` to its end on this runtime.
///
/// # Errors
/// When there is no runtime, and `work`'s own.
pub fn block_on_runtime<T>(
    runtime: io::Result<Runtime>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let runtime = runtime.context("cannot start threads")?;
    let result = runtime.block_on(work);
    // Remaining background tasks serve only the finished one; they are dropped.
    runtime.shutdown_background();
    result
}

/// A request for the process to end, by signal.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// None where the process was started to outlive its terminal (`nohup`), and of daemons.
    hang_up: Option<Signal>,
}

/// From this call on, no such signal ends the process before it has cleaned up.
///
/// # Errors
/// When the system does not let signals be waited for.
pub fn stop_signals() -> Result<StopSignals> {
    let wait_for = |kind| signal(kind).context("cannot wait for signals");
    Ok(StopSignals {
        interrupt: wait_for(SignalKind::interrupt())?,
        terminate: wait_for(SignalKind::terminate())?,
        hang_up: if is_ignored(SignalKind::hangup()) {
            None
        } else {
            Some(wait_for(SignalKind::hangup())?)
        },
    })
}

/// Whether the process was started with this signal ignored. To wait for it would end that.
pub fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.unwrap_or_default() >> (kind.as_raw_value() - 1) & 1 == 1
}

impl StopSignals {
    /// The same without hang-ups, which daemons take for another request.
    pub fn without_hang_up(self) -> StopSignals {
        StopSignals { hang_up: None, ..self }
    }

    /// Waits for the first of them; gives which it was.
    pub async fn received(&mut self) -> SignalKind {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = hang_up => SignalKind::hangup(),
        }
    }
}
