//! An open code: the code itself, and the jobs that were compiled for it.
//!
//! Place: `suture_open -> [what calls share] -> suture_close`.
//! One loss is followed by thousands of stripes with the same loss, and compiling is the dearest
//! part of a small repair; so jobs are kept, by (lost, helpers), as long as memory allows, and the
//! one that encodes for good.
//!
//! Invariants: threads may share a handle; the lock is held to look up and to insert, never while
//! compiling or running; an encoding call waits at most for the first to have compiled it; the same
//! question always gets the same answer.

use crate::job::Job;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use suture_code::{ChunkIndex, Code, CodeError};

/// What the jobs that are kept may weigh together: some 50 MB.
const WEIGHT_MAX: usize = 1 << 20;
/// What a job weighs beside its DAG, so that there are never more than 4096.
const WEIGHT_OF_ANY: usize = 256;

/// An erasure code that was opened by its name. Any number of threads may use it at a time.
#[derive(Debug)]
pub struct Handle {
    code: Code,
    /// Apart from the others, so that encoding calls do not wait for decoding ones.
    encoding: OnceLock<Result<Job, CodeError>>,
    jobs: Mutex<Jobs>,
}

/// What a job answers, each in ascending order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Question {
    lost: Vec<ChunkIndex>,
    helpers: Vec<ChunkIndex>,
}

#[derive(Debug, Default)]
struct Jobs {
    /// Jobs, and when they were last used.
    by_question: BTreeMap<Question, (Arc<Job>, u64)>,
    uses: u64,
    weight: usize,
}

impl Handle {
    /// A handle that remembers nothing yet.
    #[must_use]
    pub fn new(code: Code) -> Handle {
        Handle { code, encoding: OnceLock::new(), jobs: Mutex::default() }
    }

    /// The code that this handle was opened for.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The parity chunks from the data chunks.
    ///
    /// # Errors
    /// Never, unless a code describes itself wrongly.
    pub fn encoding(&self) -> Result<&Job, CodeError> {
        self.encoding.get_or_init(|| Job::encode(&self.code)).as_ref().map_err(Clone::clone)
    }

    /// The lost chunks from exactly these helpers, in whatever order they are given.
    ///
    /// # Errors
    /// As [`Code::repair_dag`].
    pub fn repair(
        &self,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Arc<Job>, CodeError> {
        let sorted = |chunks: &[ChunkIndex]| {
            let mut chunks = chunks.to_vec();
            chunks.sort_unstable();
            chunks
        };
        self.job(Question { lost: sorted(lost), helpers: sorted(helpers) })
    }

    /// The lost chunks from helpers of the code's choice. With `plain`, a code whose helpers would
    /// have to combine sub-chunks before they send them decodes from k chunks instead.
    ///
    /// # Errors
    /// As [`Code::helpers_for`].
    pub fn repair_from(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
        plain: bool,
    ) -> Result<Arc<Job>, CodeError> {
        let job = self.repair(lost, &self.code.helpers_for(lost, available)?)?;
        if job.is_plain() || !plain {
            return Ok(job);
        }
        // Such codes regenerate from more than k helpers, and any k decode.
        let first = &available[..self.code.data_chunks()];
        self.repair(lost, &self.code.helpers_for(lost, first)?)
    }

    fn job(&self, question: Question) -> Result<Arc<Job>, CodeError> {
        if let Some(job) = self.jobs().find(&question) {
            return Ok(job);
        }
        let job = Arc::new(Job::repair(&self.code, &question.lost, &question.helpers)?);
        self.jobs().keep(question, &job);
        Ok(job)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs {
    fn find(&mut self, question: &Question) -> Option<Arc<Job>> {
        self.uses += 1;
        let (job, used) = self.by_question.get_mut(question)?;
        *used = self.uses;
        Some(job.clone())
    }

    /// Keeps a job, unless another thread was faster, in the place of those that rested longest.
    fn keep(&mut self, question: Question, job: &Arc<Job>) {
        if self.find(&question).is_some() {
            return;
        }
        self.weight += weight(job);
        while self.weight > WEIGHT_MAX {
            let oldest = self.by_question.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(question, _)| question.clone()) else {
                break;
            };
            if let Some((job, _)) = self.by_question.remove(&oldest) {
                self.weight -= weight(&job);
            }
        }
        self.by_question.insert(question, (job.clone(), self.uses));
    }
}

fn weight(job: &Job) -> usize {
    WEIGHT_OF_ANY + job.weight()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(indices: &[u8]) -> Vec<ChunkIndex> {
        indices.iter().copied().map(ChunkIndex).collect()
    }

    #[test]
    fn a_question_is_compiled_once_whatever_its_order() {
        let handle = Handle::new("clay(4,2,5)".parse().unwrap());
        let first = handle.repair(&chunks(&[1]), &chunks(&[0, 2, 3, 4, 5])).unwrap();
        let again = handle.repair(&chunks(&[1]), &chunks(&[5, 4, 0, 2, 3])).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(std::ptr::eq(handle.encoding().unwrap(), handle.encoding().unwrap()));
    }

    #[test]
    fn what_is_kept_stays_below_the_limit_and_the_oldest_goes_first() {
        let handle = Handle::new("rs(24,4)".parse().unwrap());
        let all: Vec<ChunkIndex> = handle.code().chunks().collect();
        let mut asked = 0;
        for first in 0..all.len() {
            for second in first + 1..all.len() {
                for third in second + 1..all.len() {
                    let lost = [all[first], all[second], all[third]];
                    let rest: Vec<ChunkIndex> =
                        all.iter().copied().filter(|chunk| !lost.contains(chunk)).collect();
                    handle.repair_from(&lost, &rest, false).unwrap();
                    asked += 1;
                }
            }
        }
        let jobs = handle.jobs();
        assert!(asked > jobs.by_question.len(), "{asked} questions do not fill the memory");
        assert!(jobs.weight <= WEIGHT_MAX && jobs.weight > WEIGHT_MAX / 2);
        let total: usize = jobs.by_question.values().map(|(job, _)| weight(job)).sum();
        assert_eq!(total, jobs.weight);
    }
}
