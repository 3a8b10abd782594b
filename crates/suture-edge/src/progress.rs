//! What a long job reports while it runs. Libraries call back and print nothing.
//!
//! Place: beside every job that takes long; the command line draws a bar from it.

/// A step of a job, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many more are done.
    Done(u64),
    /// So many more are to be done than was known before.
    Added(u64),
}

/// Called at every step, from any thread.
pub type Progress<'a> = dyn Fn(Step) + Send + Sync + 'a;
