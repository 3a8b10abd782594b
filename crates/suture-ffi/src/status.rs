//! What went wrong, in a form that C can take: a number to act on and a text to show.
//!
//! Place: the way back from every call of the C ABI.
//! The number groups causes by what the caller can do about them; the text has the details, and is
//! kept for the thread that failed until its next failure.
//!
//! Invariant: [`guard`] is around everything, so a panic becomes [`Status::Internal`].

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use suture_code::CodeError;

/// How a call ended. Everything but `SUTURE_STATUS_OK` is negative. A call that is refused has
/// written nothing, except where `SUTURE_STATUS_INTERNAL` or `SUTURE_STATUS_TOO_SMALL` say so.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All was done as asked.
    Ok = 0,
    /// A pointer that must not be null is, or it is not aligned for what it points to.
    BadPointer = -1,
    /// The text does not name a code, or no such code is possible.
    BadName = -2,
    /// A chunk that the stripe does not have, that is named twice, or that is both lost and
    /// available; or no lost chunk was named.
    BadChunk = -3,
    /// A length that does not fit: units are multiples of the code's alignment, chunks are
    /// multiples of the unit, and what is passed together is equally long.
    BadLength = -4,
    /// A flag that this version does not know.
    BadFlags = -5,
    /// A buffer to be written overlaps another buffer.
    Overlap = -6,
    /// What survives does not determine what is lost.
    TooFewChunks = -7,
    /// More helpers than the repair uses: they are not those that `suture_repair_reads` asked for.
    TooManyHelpers = -8,
    /// The caller's array is too small; how much it takes has been written to the count.
    TooSmall = -9,
    /// A defect of Suture. Outputs may have been written in part. Please report the text.
    Internal = -10,
}

impl Status {
    const ALL: [Status; 11] = [
        Status::Ok,
        Status::BadPointer,
        Status::BadName,
        Status::BadChunk,
        Status::BadLength,
        Status::BadFlags,
        Status::Overlap,
        Status::TooFewChunks,
        Status::TooManyHelpers,
        Status::TooSmall,
        Status::Internal,
    ];

    /// The status with this number, if there is one.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as i32 == number)
    }

    /// A few words for each status.
    #[must_use]
    pub fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::BadPointer => c"a pointer is null or not aligned",
            Status::BadName => c"there is no such code",
            Status::BadChunk => c"the chunks named make no sense together",
            Status::BadLength => c"a length does not fit",
            Status::BadFlags => c"an unknown flag is set",
            Status::Overlap => c"a buffer to be written overlaps another",
            Status::TooFewChunks => c"the surviving chunks do not determine the lost ones",
            Status::TooManyHelpers => c"there are more helpers than the repair uses",
            Status::TooSmall => c"the array is too small for the answer",
            Status::Internal => c"a defect of suture",
        }
    }
}

/// A refusal: the number and the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What the caller can act on.
    pub status: Status,
    /// What the caller's user can read.
    pub message: String,
}

impl Fault {
    /// A refusal with its details.
    pub fn new(status: Status, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into() }
    }
}

impl From<CodeError> for Fault {
    fn from(error: CodeError) -> Fault {
        let status = match error {
            CodeError::MalformedName { .. }
            | CodeError::UnknownFamily { .. }
            | CodeError::ParameterCount { .. }
            | CodeError::ImpossibleParameters { .. }
            | CodeError::BreaksRule { .. }
            | CodeError::TooManySubChunks { .. } => Status::BadName,
            CodeError::NoSuchChunk { .. }
            | CodeError::DuplicateChunk { .. }
            | CodeError::HelperIsLost { .. }
            | CodeError::KnownZero { .. }
            | CodeError::ZeroToo { .. }
            | CodeError::ZeroSubChunks { .. }
            | CodeError::NothingLost => Status::BadChunk,
            CodeError::NotEnoughChunks { .. } | CodeError::NotDetermined { .. } => {
                Status::TooFewChunks
            }
            CodeError::TooManyHelpers { .. } => Status::TooManyHelpers,
            // Buffers are checked before a program sees them, and traces are never asked for.
            CodeError::NoTraces { .. }
            | CodeError::SchemeTooDeep { .. }
            | CodeError::MalformedScheme { .. }
            | CodeError::BufferCount { .. }
            | CodeError::LengthMismatch { .. }
            | CodeError::InvalidDag(_) => Status::Internal,
        };
        Fault::new(status, error.to_string())
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a call: a refusal and a panic both leave their text and become a number.
pub fn guard(body: impl FnOnce() -> Result<(), Fault>) -> Status {
    // What a panic leaves half done is the caller's buffers, as documented, and never the handle:
    // its lock is held for single operations of a map.
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(fault)) => fault,
        Err(payload) => Fault::new(Status::Internal, panic_message(&*payload)),
    };
    // C ends texts at a zero byte; the quoted names in messages have theirs escaped.
    let text = CString::new(fault.message).unwrap_or_else(|_| fault.status.text().to_owned());
    // A thread that is being torn down has nowhere to keep a text, and no call that could read it.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    fault.status
}

/// The text of this thread's last failure, valid until its next; empty when there was none.
#[must_use]
pub fn last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("a defect of suture, please report it: {}", text.unwrap_or("a panic without words"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: the text stays until this thread's next failure.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().to_string()
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_text() {
        assert_eq!(guard(|| panic!("{} sub-chunks too many", 3)), Status::Internal);
        assert!(
            last_text().ends_with("please report it: 3 sub-chunks too many"),
            "{}",
            last_text()
        );
        assert_eq!(guard(|| std::panic::panic_any(7)), Status::Internal);
        assert!(last_text().ends_with("a panic without words"), "{}", last_text());
    }

    #[test]
    fn the_last_error_is_the_threads_own() {
        assert_eq!(guard(|| Err(Fault::new(Status::Overlap, "here"))), Status::Overlap);
        std::thread::spawn(|| assert_eq!(last_text(), "")).join().unwrap();
        assert_eq!(guard(|| Ok(())), Status::Ok);
        assert_eq!(last_text(), "here");
    }

    #[test]
    fn every_status_has_a_number_and_words_of_its_own() {
        for (index, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as i32, -(index as i32));
            assert_eq!(Status::from_number(status as i32), Some(status));
            let same = Status::ALL.into_iter().filter(|other| other.text() == status.text());
            assert_eq!(same.count(), 1);
        }
        assert_eq!(Status::from_number(1), None);
        assert_eq!(Status::from_number(-11), None);
    }
}
