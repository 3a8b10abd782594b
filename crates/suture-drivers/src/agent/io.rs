//! Threads for slice reads and writes.
//!
//! Place: ... slice to be read or written -> [a thread does it] -> the core receives the answer ...
//! A slice read takes 10 to 100 microseconds from the page cache and milliseconds from a disk.
//! The runtime's own blocking pool would start a thread for each that waits, hundreds of them;
//! these are few and take jobs in order. Waking a thread costs about as much as a small read, so
//! another one is woken only when several jobs wait for each that is up.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait for each thread before one more is woken.
const JOBS_EACH: usize = 4;

/// A few threads and the jobs that wait for them. Dropping it drops the waiting jobs and waits
/// for the running ones.
#[derive(Debug)]
pub struct Io {
    queue: Arc<JobQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct JobQueue {
    jobs: Mutex<Jobs>,
    news: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Threads that look for jobs, or were notified to do so.
    awake: usize,
    /// Those that were notified and have not woken up yet.
    called: usize,
    closed: bool,
}

impl Io {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(threads: usize) -> std::io::Result<Io> {
        let jobs = Jobs { awake: threads, ..Jobs::default() };
        let queue = Arc::new(JobQueue { jobs: Mutex::new(jobs), news: Condvar::new() });
        let start = |index| {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(format!("suture-io-{index}"));
            thread.spawn(move || queue.work())
        };
        let threads = (0..threads).map(start).collect::<Result<_, _>>()?;
        Ok(Io { queue, threads })
    }

    /// Does `job` when all before it are begun.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut jobs = self.queue.jobs();
        jobs.waiting.push_back(Box::new(job));
        if jobs.awake < self.threads.len() && jobs.waiting.len() > JOBS_EACH * jobs.awake {
            jobs.awake += 1;
            jobs.called += 1;
            drop(jobs);
            self.queue.news.notify_one();
        }
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let unfinished = {
            let mut jobs = self.queue.jobs();
            jobs.closed = true;
            std::mem::take(&mut jobs.waiting)
        };
        self.queue.news.notify_all();
        drop(unfinished);
        for thread in self.threads.drain(..) {
            // Jobs that panic are caught, so the threads do not.
            let _ = thread.join();
        }
    }
}

impl JobQueue {
    fn work(&self) {
        while let Some(job) = self.next() {
            // The task that the job was for will stall and be tried elsewhere.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a disk job panicked");
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs();
        while jobs.waiting.is_empty() && !jobs.closed {
            jobs.awake -= 1;
            let nobody_calls = |jobs: &mut Jobs| jobs.called == 0 && !jobs.closed;
            let waited = self.news.wait_while(jobs, nobody_calls);
            jobs = waited.unwrap_or_else(PoisonError::into_inner);
            jobs.called = jobs.called.saturating_sub(1);
        }
        jobs.waiting.pop_front()
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JobQueue({} jobs)", self.jobs().waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_are_done_even_after_one_panics() {
        let io = Io::new(2).unwrap();
        let (done, results) = channel();
        io.submit(|| panic!("on purpose"));
        for number in 0..100 {
            let done = done.clone();
            io.submit(move || done.send(number).unwrap());
        }
        let mut found: Vec<i32> = (0..100).map(|_| results.recv().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>());
    }
}
