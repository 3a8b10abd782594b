//! Threads: how work over stripes, and over ranges of a stripe, is spread over the machine in
//! bounded memory.
//!
//! Place: under all offline commands.
//! Many small stripes want a thread each; one large stripe wants all threads inside. So threads go
//! to stripes first, and what is left over goes into each stripe. A range is as much of every
//! chunk as one thread works on at a time: large enough that system calls are cheap, small enough
//! for the cache.
//!
//! Invariant: buffers take at most `BUFFER_BYTES_MAX`, and checksums of open chunks about
//! `CHECKSUM_BYTES_MAX`, whatever the file, the code and the machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use suture_code::layout::{Layout, PositionRange};
use suture_edge::checksum::BLOCK_BYTES;

use super::checksum::file_bytes;
use super::geometry::Geometry;
use super::position_ranges::PositionRanges;

const BLOCK: usize = BLOCK_BYTES as usize;
const BUFFER_BYTES_MAX: usize = 96 << 20;
/// Scratch tiles and buffers together, in buffers.
const SCRATCH_FACTOR: usize = 3;
const CHECKSUM_BYTES_MAX: u64 = 64 << 20;
/// Measured with rs(6,3): 256 KiB cost a tenth more processor time per byte and 1 MiB a quarter
/// more, since the buffers of a stripe leave the second-level cache; below this, system calls begin
/// to show.
const RANGE_BYTES_MAX: usize = 128 << 10;
/// More threads than this wait for the disk, not for the processor.
const THREADS_MAX: usize = 16;
/// Half of the usual limit of 1024 open files.
const OPEN_FILES_MAX: usize = 512;

/// How the work on a file is spread.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Threads that each work on a stripe of their own.
    pub stripe_threads: usize,
    /// Threads within a stripe.
    pub range_threads: usize,
    /// Bytes of every chunk that a thread works on at a time.
    pub range_bytes: usize,
}

impl Spread {
    /// As wide as this machine and this directory allow.
    pub fn over(geometry: &Geometry) -> Spread {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Spread::of(processors, geometry)
    }

    fn of(processors: usize, geometry: &Geometry) -> Spread {
        let chunks = geometry.code.chunk_count();
        let sub_chunks = geometry.code.sub_chunk_count() as usize;
        // Codes with sub-chunks keep as much again in the executor's scratch tiles.
        let buffers = if sub_chunks == 1 { chunks } else { SCRATCH_FACTOR * chunks };
        // A range as wide as a block in every sub-chunk reads nothing twice.
        let wanted_bytes = RANGE_BYTES_MAX.max(sub_chunks * BLOCK);
        let stripe_checksums = chunks as u64 * file_bytes(geometry.chunk_bytes);
        let stripes_max = (CHECKSUM_BYTES_MAX / stripe_checksums).clamp(1, geometry.stripe_count());
        let threads_max = (BUFFER_BYTES_MAX / (buffers * sub_chunks * BLOCK)).max(1);
        let threads = processors.min(THREADS_MAX).min(threads_max);
        let stripe_threads =
            threads.min(stripes_max as usize).min((OPEN_FILES_MAX / chunks).max(1));
        let range_threads = threads / stripe_threads;
        let share = BUFFER_BYTES_MAX / (stripe_threads * range_threads * buffers);
        let range_bytes = share.clamp(BLOCK, wanted_bytes) / BLOCK * BLOCK;
        Spread { stripe_threads, range_threads, range_bytes }
    }

    /// Calls `work` for every range of the first `extent_bytes` of a chunk, in any order, with a
    /// scratch of the thread's own.
    ///
    /// # Errors
    /// The first one of `work`.
    pub fn for_each_range<S, E: Send>(
        &self,
        layout: Layout,
        extent_bytes: u64,
        scratch: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &PositionRange) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let ranges = PositionRanges::over(layout, extent_bytes, self.range_bytes);
        for_each(self.range_threads, ranges.count(), scratch, |scratch, index| {
            work(scratch, &ranges.get(index))
        })
    }
}

/// Calls `work` for 0, 1, .. `count` on several threads, and stops at the first error.
///
/// # Errors
/// The first one of `work`.
pub fn for_each<S, E: Send>(
    threads: usize,
    count: u64,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None);
    let run = || {
        let mut scratch = scratch();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            if let Err(error) = work(&mut scratch, index) {
                // The others see the end of the work.
                next.store(count, Ordering::Relaxed);
                failed.lock().expect("no thread panics here").get_or_insert(error);
                return;
            }
        }
    };
    match threads.min(count as usize) {
        0 | 1 => run(),
        threads => std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(run)))),
    }
    failed.into_inner().expect("no thread panics here").map_or(Ok(()), Err)
}

/// What `work` gives for 0, 1, .. `count`, in that order, computed on several threads.
///
/// # Errors
/// The first one of `work`.
pub fn map<T: Send, E: Send>(
    threads: usize,
    count: u64,
    work: impl Fn(u64) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let results = Mutex::new(Vec::with_capacity(count as usize));
    for_each(
        threads,
        count,
        || (),
        |(), index| {
            let result = work(index)?;
            results.lock().expect("no thread panics here").push((index, result));
            Ok(())
        },
    )?;
    let mut results = results.into_inner().expect("no thread panics here");
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(code: &str, file_bytes: u64, chunk_bytes: u64) -> Geometry {
        Geometry { code: code.parse().unwrap(), file_bytes, chunk_bytes, unit_bytes: chunk_bytes }
            .check()
            .unwrap()
    }

    #[test]
    fn memory_is_bounded_for_every_shape() {
        for processors in [1, 2, 7, 64] {
            for code in ["rs(1,1)", "rs(6,3)", "rs(200,55)", "butterfly(8)", "clay(10,4,13)"] {
                for (file, chunk) in
                    [(0, 16_384), (1 << 40, 4 << 30), (1 << 30, 65_536), (4 << 30, 64 << 20)]
                {
                    let geometry = geometry(code, file, chunk);
                    let spread = Spread::of(processors, &geometry);
                    let threads = spread.stripe_threads * spread.range_threads;
                    assert!(threads >= 1 && threads <= processors);
                    assert!(
                        spread.range_bytes >= BLOCK && spread.range_bytes.is_multiple_of(BLOCK)
                    );
                    assert!(
                        threads * geometry.code.chunk_count() * spread.range_bytes
                            <= BUFFER_BYTES_MAX
                    );
                    let open = spread.stripe_threads as u64 * geometry.code.chunk_count() as u64;
                    assert!(
                        spread.stripe_threads == 1
                            || open * file_bytes(chunk) <= CHECKSUM_BYTES_MAX
                    );
                    assert!(spread.stripe_threads == 1 || open <= OPEN_FILES_MAX as u64);
                }
            }
        }
    }

    #[test]
    fn results_keep_their_order_and_the_first_error_stops_the_work() {
        assert_eq!(map(4, 100, |index| Ok::<_, ()>(index * index)).unwrap()[99], 9801);
        let done = AtomicU64::new(0);
        let result = for_each(
            2,
            1_000_000,
            || (),
            |(), index| {
                done.fetch_add(1, Ordering::Relaxed);
                if index == 10 { Err("stop") } else { Ok(()) }
            },
        );
        assert_eq!(result, Err("stop"));
        assert!(done.into_inner() < 1_000_000);
    }
}
