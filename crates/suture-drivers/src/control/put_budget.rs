//! How much memory puts that have not ended may take of the coordinator.
//!
//! Place: put begun -> [stripes placed] -> chunks durable -> object visible; before any failure.
//! A put keeps where each of its stripes goes and what was stored of it until it ends, and the
//! client decides when that is, and how many stripes there are until then: it costs nothing to ask
//! for places and store nothing. So what is kept is counted, for each caller and for all of them.
//!
//! Invariant: what is counted is given back with the put, however it ends.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use suture_repair::stripe::ChunkRecord;
use tonic::Status;

use crate::metrics::calls::{PutMemory, RefusalReason};
use crate::metrics::coordinator::CoordinatorMetrics;

/// What puts may take in all, and of one caller: three objects of 2^18 stripes of nine chunks.
const BYTES_MAX: usize = 1 << 30;
const BYTES_EACH_MAX: usize = 512 << 20;

/// What a stripe takes beside its chunks, as maps and vectors have it.
const STRIPE_BYTES: usize = 320;

/// What is taken for a chunk: its node where it was placed, and its record.
const CHUNK_BYTES: usize = 8 + mem::size_of::<ChunkRecord>();

/// What a put takes beside its stripes: its call, its name, and its space in the audit log. So a
/// caller has a few hundred of them at a time, and no more.
const PUT_BYTES: usize = 1 << 20;

/// What all puts take.
#[derive(Debug)]
pub struct PutBudget {
    /// Of each caller that has a put.
    taken: Mutex<BTreeMap<String, usize>>,
    /// Where it is counted that there was none left.
    metrics: Arc<CoordinatorMetrics>,
}

/// What one put takes, until it is dropped.
#[derive(Debug)]
pub struct PutShare {
    budget: Arc<PutBudget>,
    caller: String,
    bytes: usize,
}

impl PutBudget {
    /// A budget of which nothing is taken.
    pub fn new(metrics: Arc<CoordinatorMetrics>) -> Arc<PutBudget> {
        Arc::new(PutBudget { taken: Mutex::default(), metrics })
    }

    /// What puts may take, and what they do.
    pub fn memory(&self) -> PutMemory {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved: usize = taken.values().sum();
        PutMemory { limit_bytes: BYTES_MAX as u64, reserved_bytes: reserved as u64 }
    }

    /// The share of a put that begins, of that caller.
    ///
    /// # Errors
    /// That there is no memory for one more.
    pub fn share(self: &Arc<PutBudget>, caller: String) -> Result<PutShare, Status> {
        let mut share = PutShare { budget: self.clone(), caller, bytes: 0 };
        share.take_bytes(PUT_BYTES)?;
        Ok(share)
    }
}

impl PutShare {
    /// Counts more stripes of so many chunks.
    ///
    /// # Errors
    /// That there is no memory for them.
    pub fn take(&mut self, stripes: u32, chunks: usize) -> Result<(), Status> {
        self.take_bytes(stripes as usize * (STRIPE_BYTES + chunks * CHUNK_BYTES))
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), Status> {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&self.caller).copied().unwrap_or(0);
        if own + bytes > BYTES_EACH_MAX || all + bytes > BYTES_MAX {
            self.budget.metrics.refused(RefusalReason::PutMemory);
            return Err(Status::resource_exhausted(
                "the puts that are under way are too many, or have too many stripes, to be kept in \
                 memory: put fewer objects at a time, or in longer chunks (--chunk-size)",
            ));
        }
        taken.insert(self.caller.clone(), own + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for PutShare {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.remove(&self.caller).unwrap_or(0) - self.bytes;
        if own > 0 {
            taken.insert(mem::take(&mut self.caller), own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::coordinator::Seen;

    /// Takes as much as there is.
    fn fill(share: &mut PutShare) -> u32 {
        (0..).find(|_| share.take(512, 9).is_err()).expect("there is an end")
    }

    #[test]
    fn one_caller_does_not_take_all_and_all_together_no_more_than_there_is() {
        let budget = PutBudget::new(CoordinatorMetrics::new(None));
        let share = |name: &str| budget.share(name.into()).unwrap();
        let mut first = share("a");
        let count = fill(&mut first);
        assert!(count * 512 > 1 << 18, "the longest object that a command stores");
        assert!(budget.share("a".into()).is_err(), "it is one caller");
        let mut others = ["b", "c"].map(share);
        let counts = others.each_mut().map(fill);
        assert!(counts[0] + 8 > count && counts[1] < 8, "{counts:?}");
        let error = others[1].take(1, 200_000).unwrap_err();
        assert!(error.message().contains("--chunk-size"), "{error}");
        drop((first, others));
        assert!(budget.taken.lock().unwrap().is_empty());
        assert_eq!(fill(&mut share("c")), count);
        let many: Vec<PutShare> = (0..).map_while(|_| budget.share("d".into()).ok()).collect();
        assert_eq!(many.len(), BYTES_EACH_MAX / PUT_BYTES, "puts without any stripe");
    }

    #[test]
    fn what_is_taken_and_what_is_refused_is_in_the_metrics() {
        let metrics = CoordinatorMetrics::new(None);
        let budget = PutBudget::new(metrics.clone());
        let shown = |sample: &str| -> f64 {
            let seen = Seen { puts: budget.memory(), ..Seen::default() };
            let text = String::from_utf8(metrics.write(&seen).classic.to_vec()).unwrap();
            let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
            found.unwrap_or_else(|| panic!("{sample} is not in\n{text}")).parse().unwrap()
        };
        let (limit, reserved) =
            ("suture_put_memory_limit_bytes", "suture_put_memory_reserved_bytes");
        let refused = "suture_refusals_total{reason=\"put_memory\"}";
        assert_eq!([shown(limit), shown(reserved)], [BYTES_MAX as f64, 0.0]);
        let mut share = budget.share("a".into()).unwrap();
        assert_eq!(shown(reserved), PUT_BYTES as f64);
        share.take(10, 9).unwrap();
        let taken = PUT_BYTES + 10 * (STRIPE_BYTES + 9 * CHUNK_BYTES);
        assert_eq!([shown(reserved), shown(refused)], [taken as f64, 0.0]);
        fill(&mut share);
        assert_eq!(shown(refused), 1.0);
        assert!(shown(reserved) <= BYTES_EACH_MAX as f64);
        drop(share);
        assert_eq!([shown(reserved), shown(refused)], [0.0, 1.0]);
    }
}
