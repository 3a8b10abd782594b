//! Reading what a person named: it may be a device without end, so there is a limit.
//!
//! Place: the edge, before text is parsed. Pipes are fine: nothing is asked but to be read.

use std::io::{self, BufRead, Read};

use crate::units::format_size;

/// All of a text.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or has more bytes than that.
pub fn read_text(from: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_long("it", bytes_max));
    }
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8");
    String::from_utf8(bytes).map_err(no_text)
}

/// Appends the next line with its end, and gives its length: 0 where nothing follows.
///
/// # Errors
/// When it cannot be read, or has more bytes than that.
pub fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: u64) -> io::Result<usize> {
    let read = from.take(bytes_max + 1).read_until(b'\n', line)?;
    if read as u64 > bytes_max {
        return Err(too_long("a line of it", bytes_max));
    }
    Ok(read)
}

fn too_long(what: &str, bytes_max: u64) -> io::Error {
    let why = format!("{what} has more than {}", format_size(bytes_max));
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_read_to_the_limit() {
        let error = |result: io::Result<String>| result.unwrap_err().to_string();
        assert_eq!(error(read_text(io::repeat(0), 1024)), "it has more than 1.00 KiB");
        assert_eq!(error(read_text([0xff].as_slice(), 1)), "it is not valid UTF-8");
        // Half a character is over the limit.
        assert_eq!(error(read_text("aö".as_bytes(), 1)), "it has more than 1 B");
        assert_eq!(read_text("aö".as_bytes(), 3).unwrap(), "aö");

        let mut endless = io::BufReader::new(io::repeat(0));
        let failed = read_line(&mut endless, &mut Vec::new(), 64).unwrap_err();
        assert_eq!(failed.to_string(), "a line of it has more than 64 B");
        let (mut lines, mut line) = (b"a\nbc".as_slice(), Vec::new());
        let mut next = || read_line(&mut lines, &mut line, 2).unwrap();
        assert_eq!([next(), next(), next()], [2, 2, 0]);
        assert_eq!(line, b"a\nbc");
    }
}
