//! What planning takes of a processor: the CPU time of the thread that plans.
//!
//! Place: beside [plan]. Another process on the same core does not count.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
