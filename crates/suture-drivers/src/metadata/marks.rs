//! Marks by which agents know again the process that they followed.
//!
//! Place: beside all of failure -> ... -> stripe healthy, while a coordinator runs. A machine that
//! goes back to a snapshot with its memory takes the coordinator back, and nothing starts anew.
//! So now and then, when something was made durable, the coordinator marks the moment and sends the
//! mark to agents, which report their last one when they join again. A mark that it has not made
//! was made by what it was before: it was set back.
//! A moment is read from a clock that runs with the process, in nanoseconds, so that no two lives
//! that began as one make the same mark.

use std::collections::VecDeque;

/// So many marks are known; with one a second at most, those of eighteen hours in which something
/// changed all the time.
const KNOWN_MAX: usize = 1 << 16;

/// That something was durable at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How many were made before it, in this epoch, and itself.
    pub number: u64,
    /// When, in nanoseconds of the process.
    pub at: u64,
}

/// Those that were made.
#[derive(Debug, Default)]
pub struct Marks {
    /// When, the last ones in order.
    made: VecDeque<u64>,
    /// The number of the last one; 0: there is none.
    last: u64,
    /// How much was durable then.
    written: u64,
}

impl Marks {
    /// The newest mark, one of now where more was `written` since; none before anything was.
    pub fn make(&mut self, written: u64, at: u64) -> Option<Mark> {
        if written != self.written {
            (self.written, self.last) = (written, self.last + 1);
            self.made.push_back(at);
            if self.made.len() > KNOWN_MAX {
                self.made.pop_front();
            }
        }
        self.made.back().map(|at| Mark { number: self.last, at: *at })
    }

    /// Whether it was made here. One that is too old to be known counts as made here.
    pub fn has_made(&self, mark: Mark) -> bool {
        let Some(ago) = self.last.checked_sub(mark.number) else { return false };
        let ago = usize::try_from(ago).unwrap_or(usize::MAX);
        mark.number > 0 && self.made.iter().rev().nth(ago).is_none_or(|at| *at == mark.at)
    }

    /// Begins anew for another epoch; gives what was made in the one before.
    pub fn begin_epoch(&mut self) -> Marks {
        let written = self.written;
        std::mem::replace(self, Marks { written, ..Marks::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_where_something_was_written() {
        let mut marks = Marks::default();
        assert_eq!(marks.make(0, 5), None);
        let first = marks.make(3, 10);
        assert_eq!(first, Some(Mark { number: 1, at: 10 }));
        assert_eq!(marks.make(3, 20), first);
        assert_eq!(marks.make(4, 30), Some(Mark { number: 2, at: 30 }));
        let former = marks.begin_epoch();
        assert_eq!(marks.make(4, 40), None);
        assert_eq!(marks.make(5, 50), Some(Mark { number: 1, at: 50 }));
        assert!(former.has_made(Mark { number: 2, at: 30 }));
    }

    #[test]
    fn what_another_life_made_is_known_by_its_number_or_its_moment() {
        let mut marks = Marks::default();
        for number in 1..=3 {
            marks.make(number, 10 * number);
        }
        let has_made = |number, at| marks.has_made(Mark { number, at });
        assert!(has_made(1, 10) && has_made(3, 30));
        assert!(!has_made(4, 40), "there are not so many");
        assert!(!has_made(3, 31), "as many, and another moment");
        assert!(!has_made(0, 0));
        let mut many = Marks::default();
        for number in 1..=KNOWN_MAX as u64 + 7 {
            many.make(number, number);
        }
        assert!(many.has_made(Mark { number: 7, at: 99 }), "nobody knows any more");
        assert!(!many.has_made(Mark { number: 8, at: 99 }));
    }
}
