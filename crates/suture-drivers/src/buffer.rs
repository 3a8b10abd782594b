//! Buffers for slices, used over and over.
//!
//! Place: ... [memory taken] -> slice received or read -> sent or written -> [given back] ...
//! How many are in use is bounded by the agent core, which admits a task only if its windows fit;
//! the pool only saves asking the system for memory 40,000 times a second, each time with its page
//! faults. Traces and sub-chunks come in many lengths, so buffers lie idle by size class, four to
//! an octave: each length finds its own again at once. The last one returned is the next one given:
//! it is still in the cache.
//!
//! Invariant: what lies idle goes before all buffers together, in use and idle, exceed `bytes_max`.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers begin on a cache line, as the kernels like them.
const ALIGNMENT: usize = 64;

/// The smallest class: shorter buffers are not worth classes of their own.
const CLASS_BYTES_MIN: usize = 512;

/// Where buffers come from and return to.
#[derive(Debug)]
pub struct Pool {
    idle: Mutex<Idle>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Idle {
    /// By class, which is their length in bytes.
    buffers: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// Bytes of all of them, and of all buffers in use.
    held_bytes: usize,
}

/// A buffer; it returns to its pool when dropped. Its first contents are unspecified: those of its
/// former use.
#[derive(Debug)]
pub struct Buffer {
    memory: Box<[u8]>,
    from: usize,
    len: usize,
    pool: Arc<Pool>,
}

/// The length in bytes of buffers that serve for `bytes`: at most a quarter more.
fn class(bytes: usize) -> usize {
    let step = bytes.max(CLASS_BYTES_MIN).next_power_of_two() / 8;
    bytes.max(CLASS_BYTES_MIN).next_multiple_of(step)
}

impl Pool {
    /// A pool that keeps buffers for later as long as all of them together, in use and idle, have
    /// at most so many bytes.
    pub fn new(bytes_max: usize) -> Arc<Pool> {
        Arc::new(Pool { idle: Mutex::default(), bytes_max })
    }

    /// A buffer of `len` bytes.
    pub fn take(self: &Arc<Pool>, len: usize) -> Buffer {
        let class = class(len + ALIGNMENT);
        let memory = self.reuse(class).unwrap_or_else(|| vec![0; class].into_boxed_slice());
        let from = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { memory, from, len, pool: self.clone() }
    }

    /// The last one of this class that was returned. Without one there will be one more buffer:
    /// if that is too much, what lies idle belongs to earlier repairs and is given up.
    fn reuse(&self, class: usize) -> Option<Box<[u8]>> {
        let mut idle = self.idle();
        let found = idle.buffers.get_mut(&class).and_then(Vec::pop);
        if found.is_none() {
            idle.held_bytes += class;
            if idle.held_bytes > self.bytes_max {
                idle.give_up();
            }
        }
        found
    }

    fn give_back(&self, memory: Box<[u8]>) {
        let mut idle = self.idle();
        if idle.held_bytes <= self.bytes_max {
            idle.buffers.entry(memory.len()).or_default().push(memory)
        } else {
            idle.held_bytes -= memory.len()
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn give_up(&mut self) {
        self.held_bytes -= self.idle_bytes();
        self.buffers.clear();
    }

    fn idle_bytes(&self) -> usize {
        self.buffers.iter().map(|(class, buffers)| class * buffers.len()).sum()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.memory));
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_each_length_its_own() {
        let pool = Pool::new(100_000);
        let (long, short) = (pool.take(4000), pool.take(700));
        assert_eq!((long.len(), long.as_ptr() as usize % ALIGNMENT), (4000, 0));
        let places = (long.as_ptr(), short.as_ptr());
        drop(long);
        drop(short);
        // The one returned last is too short, and neither is lost for that.
        let (long, short) = (pool.take(4010), pool.take(690));
        assert_eq!((long.as_ptr(), short.as_ptr()), places);
    }

    #[test]
    fn what_lies_idle_goes_before_all_exceed_the_bound() {
        let pool = Pool::new(50_000);
        for len in [3000, 9000, 1000, 20_000, 5000] {
            let many: Vec<Buffer> = (0..40_000 / len).map(|_| pool.take(len)).collect();
            drop(many);
            let idle = pool.idle();
            assert!(idle.held_bytes <= 50_000, "{len}");
            assert_eq!(idle.held_bytes, idle.idle_bytes());
        }
        // Beyond the bound there are as many as are taken, and none of them stays.
        let many: Vec<Buffer> = (0..20).map(|_| pool.take(9000)).collect();
        drop(many);
        assert!(pool.idle().held_bytes <= 50_000);
    }

    #[test]
    fn a_class_is_long_enough_and_at_most_a_quarter_longer() {
        for bytes in 1..70_000 {
            let class = class(bytes);
            assert!(class >= bytes && class * 4 <= bytes.max(CLASS_BYTES_MIN) * 5, "{bytes}");
            assert_eq!(super::class(class), class);
        }
    }
}
