//! Buffers for slices, used over and over.
//!
//! Place: ... [memory taken] -> slice received or read -> sent or written -> [given back] ...
//! How many are in use is bounded by the agent core, which admits a task only if its windows fit;
//! the pool only saves asking the system for memory 40,000 times a second, each time with its page
//! faults. The last one returned is the next one given: it is still in the cache.
//!
//! Invariant: what lies idle here never exceeds `idle_bytes_max`.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers begin on a cache line, as the kernels like them.
const ALIGNMENT: usize = 64;

/// Where buffers come from and return to.
#[derive(Debug)]
pub struct Pool {
    idle: Mutex<Idle>,
    idle_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Box<[u8]>>,
    bytes: usize,
}

/// A buffer; it returns to its pool when dropped. Its first contents are anyone's.
#[derive(Debug)]
pub struct Buffer {
    memory: Box<[u8]>,
    from: usize,
    len: usize,
    pool: Arc<Pool>,
}

impl Pool {
    /// A pool that keeps at most so much for later.
    pub fn new(idle_bytes_max: usize) -> Arc<Pool> {
        Arc::new(Pool { idle: Mutex::default(), idle_bytes_max })
    }

    /// A buffer of `len` bytes.
    pub fn take(self: &Arc<Pool>, len: usize) -> Buffer {
        let memory = self.reuse(len + ALIGNMENT);
        let memory = memory.unwrap_or_else(|| vec![0; len + ALIGNMENT].into_boxed_slice());
        let from = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Buffer { memory, from, len, pool: self.clone() }
    }

    /// The last one returned, if it is long enough; if not, it belongs to an earlier repair with
    /// smaller slices and is given up.
    fn reuse(&self, bytes: usize) -> Option<Box<[u8]>> {
        let mut idle = self.idle();
        let memory = idle.buffers.pop()?;
        idle.bytes -= memory.len();
        (memory.len() >= bytes).then_some(memory)
    }

    fn give_back(&self, memory: Box<[u8]>) {
        let mut idle = self.idle();
        if idle.bytes + memory.len() <= self.idle_bytes_max {
            idle.bytes += memory.len();
            idle.buffers.push(memory);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn buffers_are_used_again_and_little_lies_idle() {
        let pool = Pool::new(10_000);
        let first = pool.take(4000);
        assert_eq!((first.len(), first.as_ptr() as usize % ALIGNMENT), (4000, 0));
        let place = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(3000).as_ptr(), place);
        let many: Vec<Buffer> = (0..10).map(|_| pool.take(4000)).collect();
        drop(many);
        assert!(pool.idle().bytes <= 10_000);
    }
}
