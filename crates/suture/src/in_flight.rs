//! Objects that a command stores or reads several at a time.
//!
//! Place: inside `put` and `get`, between the list of objects and what is said of each. Small
//! objects cost a disk's and a network's latency, not their bytes: several at a time share it.
//! Invariant: of all that are under way there are not more bytes than the bound, unless one alone
//! has more.

use tokio::task::JoinSet;

/// Objects at a time, and the most bytes of them, unless one alone has more.
const OBJECTS_MAX: usize = 8;
const BYTES_MAX: u64 = 64 << 20;

/// What is under way, and how much of it.
pub struct InFlight<T> {
    tasks: JoinSet<(u64, T)>,
    bytes: u64,
}

impl<T: Send + 'static> InFlight<T> {
    /// Nothing is under way.
    pub fn new() -> InFlight<T> {
        InFlight { tasks: JoinSet::new(), bytes: 0 }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether an object of so many bytes may begin now.
    pub fn fits(&self, bytes: u64) -> bool {
        let fits = self.tasks.len() < OBJECTS_MAX && self.bytes + bytes <= BYTES_MAX;
        fits || self.is_empty()
    }

    /// Begins with an object of so many bytes.
    pub fn begin(&mut self, bytes: u64, work: impl Future<Output = T> + Send + 'static) {
        self.bytes += bytes;
        self.tasks.spawn(async move { (bytes, work.await) });
    }

    /// What came of the one that ends next; `None` when nothing is under way.
    pub async fn next(&mut self) -> Option<T> {
        let done = self.tasks.join_next().await?;
        let (bytes, done) = done.unwrap_or_else(|why| std::panic::resume_unwind(why.into_panic()));
        self.bytes -= bytes;
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_small_ones_or_one_long_one_at_a_time() {
        let mut in_flight = InFlight::new();
        assert!(in_flight.fits(u64::MAX), "one alone");
        (0..OBJECTS_MAX).for_each(|index| in_flight.begin(1, async move { index }));
        assert!(!in_flight.fits(0));
        let first = in_flight.next().await.unwrap();
        assert!(in_flight.fits(BYTES_MAX - 7) && !in_flight.fits(BYTES_MAX - 6));
        let mut done = vec![first];
        while let Some(index) = in_flight.next().await {
            done.push(index);
        }
        done.sort_unstable();
        assert_eq!(done, (0..OBJECTS_MAX).collect::<Vec<_>>());
        assert!(in_flight.is_empty() && in_flight.fits(u64::MAX));
    }
}
