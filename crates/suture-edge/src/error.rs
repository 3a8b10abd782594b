//! What caused an error, the input or the system, and how it shows the name at fault.
//!
//! Place: wherever a library refuses what a person gave it. The command line turns the kind into
//! its exit status.

use std::fmt;

/// What has to change before another attempt can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The input: an argument, a file or a name that cannot be right.
    BadInput,
    /// The system: a disk, a socket, a peer.
    Failure,
    /// The data: too little of them is left, or in reach.
    Unreadable,
}

/// An error that says of which kind it is.
#[derive(Debug)]
struct Marked {
    kind: ErrorKind,
    message: String,
}

impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Marked {}

/// An error of the kind [`ErrorKind::BadInput`]. The message names the thing and says what to do.
pub fn bad_input(message: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Marked { kind: ErrorKind::BadInput, message: message.to_string() })
}

/// An error of the kind [`ErrorKind::Unreadable`]. The message says what lacks how much.
pub fn unreadable(message: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Marked { kind: ErrorKind::Unreadable, message: message.to_string() })
}

/// The kind of an error, whatever context it was given since.
pub fn kind(error: &anyhow::Error) -> ErrorKind {
    let marked = error.chain().find_map(|cause| cause.downcast_ref::<Marked>());
    marked.map_or(ErrorKind::Failure, |marked| marked.kind)
}

/// Longer names are cut where they are shown.
const SHOWN_CHARS: usize = 64;

/// A text as messages repeat it: cut where it has more than so many characters, with its length.
pub fn brief(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
    }
}

/// Whether a character is not seen, or turns around how others are shown: a name with it could pass
/// for another one.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// A name as messages show it: in quotes, escaped where a terminal would act on it, and cut where
/// it is longer than a line.
pub fn quoted(name: &str) -> String {
    let escape = |c: char| match c {
        '\'' | '"' | '\\' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    let shown: String = name.chars().take(SHOWN_CHARS).map(escape).collect();
    match name.chars().nth(SHOWN_CHARS) {
        None => format!("'{shown}'"),
        Some(_) => format!("'{shown}...' ({} bytes)", name.len()),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn an_error_keeps_its_kind_under_any_context() {
        assert_eq!(kind(&bad_input("no such file")), ErrorKind::BadInput);
        let deep = Err::<(), _>(bad_input("no such file")).context("encoding").context("a job");
        assert_eq!(kind(&deep.unwrap_err()), ErrorKind::BadInput);
        assert_eq!(kind(&anyhow!("disk full").context("encoding")), ErrorKind::Failure);
        assert_eq!(kind(&unreadable("two left").context("reading")), ErrorKind::Unreadable);
    }

    #[test]
    fn a_text_without_end_is_cut() {
        assert_eq!(brief("äöü", 3), "äöü");
        assert_eq!(brief("äöü!", 3), "äöü... (7 bytes)");
    }

    #[test]
    fn a_name_is_shown_in_a_line_that_a_terminal_only_prints() {
        assert_eq!(quoted("ünï 😀's"), "'ünï 😀's'");
        assert_eq!(quoted("a\nb\u{1b}[2J\u{202e}"), "'a\\nb\\u{1b}[2J\\u{202e}'");
        let long = quoted(&"ä".repeat(5000));
        assert_eq!(long, format!("'{}...' (10000 bytes)", "ä".repeat(64)));
        assert_eq!(quoted(&"x".repeat(64)), format!("'{}'", "x".repeat(64)));
    }
}
