//! The times by which a coordinator under a target waits.
//!
//! Place: under the targets that begin a coordinator.

use suture_repair::event::Timers;
use suture_repair::time::Span;

/// Short enough that a few steps pass all of them.
pub const TIMERS: Timers = Timers {
    suspect_after: Span::from_secs(1),
    dead_after: Span::from_secs(3),
    start_grace: Span::from_secs(10),
    stall_after: Span::from_secs(20),
    commit_retry: Span::from_secs(5),
    claim_prolong: Span::from_secs(2),
    retry_first: Span::from_millis(100),
    retry_max: Span::from_secs(10),
};
