//! How long an operation waits for its client: it may fall behind its least rate by so much time
//! and no more.
//!
//! Place: under each operation of a client on the data plane.

use std::time::Duration;

use tokio::time::Instant;

/// The least that is asked of the other side in one operation.
#[derive(Clone, Copy, Debug)]
pub struct LeastRate {
    /// So many bytes per second.
    pub rate: u64,
    /// How far it may fall behind.
    pub grace: Duration,
}

/// How long the other side may still be waited for: each byte that it moves adds to it, up to the
/// grace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub least: LeastRate,
    pub left: Duration,
}

/// A wait for the other side, which takes from its allowance however it ends.
pub(super) struct AllowedWait<'a> {
    allowance: &'a mut Allowance,
    began: Instant,
}

impl Drop for AllowedWait<'_> {
    fn drop(&mut self) {
        self.allowance.left = self.allowance.left.saturating_sub(self.began.elapsed());
    }
}

impl Allowance {
    /// Begins a wait for the other side.
    pub fn wait(&mut self) -> AllowedWait<'_> {
        AllowedWait { allowance: self, began: Instant::now() }
    }

    pub fn moved(&mut self, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / self.least.rate as f64);
        self.left = (self.left + earned).min(self.least.grace);
    }
}
