//! Calls of a simulated disk that fail though its copies are whole.
//!
//! Place: ... slices flow -> [chunk proven and durable, in memory] -> commit ...
//! A disk that was pulled cannot be read; a medium gives errors now and then; a process has no
//! descriptors left, so that whatever it has not open already cannot be opened. What fails is
//! counted here, since the disk alone knows which calls there were.

use suture_repair::message::{CopyFault, Failure};
use suture_repair::random::Random;

use crate::fault::{Coverage, Kind};

/// What fails of a disk now, and how often it did.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// Whether reads fail, of whatever copy.
    pub is_unreadable: bool,
    /// Whether nothing can be opened.
    pub is_out_of_descriptors: bool,
    errors: Option<Errors>,
    pub coverage: Coverage,
}

/// Errors of a medium, on calls that change or list something.
#[derive(Debug)]
struct Errors {
    /// So many of 1000 calls fail.
    per_mille: u32,
    /// Whether only calls of one kind do, and of which.
    only: Option<Kind>,
    random: Random,
}

/// What those calls count as; there are few of the first ones.
const KINDS: [Kind; 6] = [
    Kind::FailedPublish,
    Kind::FailedPublish,
    Kind::FailedDelete,
    Kind::FailedDelete,
    Kind::FailedWrite,
    Kind::FailedList,
];

impl Failing {
    /// From now on some calls fail: how many, and which, follows from the seed. Without one, none.
    pub fn set_errors(&mut self, seed: Option<u64>) {
        self.errors = seed.map(|seed| {
            let mut random = Random::new(seed);
            let per_mille = random.between(20, 900) as u32;
            let only = random.per_mille(700).then(|| *random.choose(&KINDS));
            Errors { per_mille, only, random }
        });
    }

    /// A call that changes or lists something.
    ///
    /// # Errors
    /// [`Failure::Disk`] when this one fails.
    pub fn call(&mut self, kind: Kind) -> Result<(), Failure> {
        let Some(Errors { per_mille, only, random }) = &mut self.errors else { return Ok(()) };
        if only.is_some_and(|only| only != kind) || !random.per_mille(*per_mille) {
            return Ok(());
        }
        self.coverage.count(kind);
        Err(Failure::Disk("the medium gave an error".into()))
    }

    /// Whether a call that failed has had its effect all the same.
    pub fn is_done_all_the_same(&mut self) -> bool {
        self.errors.as_mut().is_some_and(|errors| errors.random.per_mille(500))
    }

    /// Something is to be opened that is not open yet.
    ///
    /// # Errors
    /// [`Failure::Disk`] when there is no descriptor for it.
    pub fn open(&mut self) -> Result<(), Failure> {
        if !self.is_out_of_descriptors {
            return Ok(());
        }
        self.coverage.count(Kind::NoDescriptors);
        Err(Failure::Disk("too many open files".into()))
    }

    /// A copy that is open is to be read.
    ///
    /// # Errors
    /// [`CopyFault::Unreadable`] when the disk cannot be read.
    pub fn read(&self) -> Result<(), CopyFault> {
        if self.is_unreadable { Err(CopyFault::Unreadable) } else { Ok(()) }
    }

    /// A copy is to be opened and read.
    ///
    /// # Errors
    /// [`CopyFault::Unreadable`] when either fails.
    pub fn open_and_read(&mut self) -> Result<(), CopyFault> {
        self.open().map_err(|_| CopyFault::Unreadable).and_then(|()| self.read())
    }
}
