//! The lines of blocks with commits that have been asked for and not answered, in a file of their
//! own.
//!
//! Place: ... chunk durable -> [commit location] -> stripe healthy.
//! Each line of the file adds one or takes one away; a start reads what is left. While nothing is
//! left the file is empty, and one that has become long is written anew with what is left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use suture_repair::id::{ChunkCopy, RepairId};

use crate::data_dir;

/// What the file is called.
pub(super) const ASKED_NAME: &str = "rebuilt-asked.jsonl";

/// A file of so many bytes is written anew: a thousand lines, of which few are still asked for.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The lines that are not answered, and the file that has them.
#[derive(Debug)]
pub(super) struct AskedLines {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Each by its number.
    open: BTreeMap<u64, AskedLine>,
    next: u64,
}

/// A line that is not answered, with what it is about.
#[derive(Clone, Debug)]
pub(super) struct AskedLine {
    /// The attempt that makes the block.
    pub repair: RepairId,
    /// The copy that it makes.
    pub copy: ChunkCopy,
    /// What is to be written of it.
    pub line: Value,
    /// Its commit is asked for, and will be answered; else it is to be published.
    pub is_committing: bool,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AskedEntry {
    Asked(u64, Value),
    Answered(u64),
}

impl AskedLines {
    /// The file in a data_dir, and the lines that are left there.
    pub(super) fn open(data_dir: &Path) -> io::Result<(AskedLines, Vec<Value>)> {
        let path = data_dir.join(ASKED_NAME);
        let file = data_dir::new_file().create(true).append(true).open(&path)?;
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let mut left = BTreeMap::new();
        // The last one may be cut.
        for entry in text.lines().filter_map(|line| serde_json::from_str::<AskedEntry>(line).ok()) {
            match entry {
                AskedEntry::Asked(number, line) => drop(left.insert(number, line)),
                AskedEntry::Answered(number) => drop(left.remove(&number)),
            }
        }
        let bytes = text.len() as u64;
        let asked = AskedLines { path, file, bytes, open: BTreeMap::new(), next: 0 };
        Ok((asked, left.into_values().collect()))
    }

    /// Nothing of what is in the file counts any more but what was added since it was opened.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.bytes = 0;
        self.file.set_len(0)
    }

    /// A block is to be published, or its commit is asked for; again, where it is known.
    pub(super) fn add(&mut self, new: AskedLine) -> io::Result<()> {
        let is_it = |open: &&mut AskedLine| (open.repair, open.copy) == (new.repair, new.copy);
        if let Some(known) = self.open.values_mut().find(is_it) {
            known.is_committing |= new.is_committing;
            return Ok(());
        }
        let (number, line) = (self.next, new.line.clone());
        self.next += 1;
        self.open.insert(number, new);
        self.write(&AskedEntry::Asked(number, line))
    }

    /// The lines of which `is_it` holds.
    pub(super) fn find(&self, is_it: impl Fn(&AskedLine) -> bool) -> Vec<Value> {
        let lines = self.open.values().filter(|open| is_it(open));
        lines.map(|open| open.line.clone()).collect()
    }

    /// The lines of which `is_it` holds were answered.
    pub(super) fn remove(&mut self, is_it: impl Fn(&AskedLine) -> bool) -> io::Result<()> {
        let numbers = self.open.iter().filter(|(_, open)| is_it(open)).map(|(number, _)| *number);
        for number in numbers.collect::<Vec<_>>() {
            self.open.remove(&number);
            if self.open.is_empty() {
                return self.clear();
            }
            self.write(&AskedEntry::Answered(number))?;
        }
        Ok(())
    }

    fn write(&mut self, entry: &AskedEntry) -> io::Result<()> {
        if self.bytes > FILE_BYTES_MAX {
            return self.write_anew();
        }
        let line = format!("{}\n", serde_json::to_string(entry)?);
        self.bytes += line.len() as u64;
        self.file.write_all(line.as_bytes())
    }

    /// A file with what is left takes the place of this one.
    fn write_anew(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        // One that a start has left, if any.
        let _ = fs::remove_file(&new);
        let mut file = data_dir::new_file().create_new(true).append(true).open(&new)?;
        let mut text = String::new();
        for (number, open) in &self.open {
            let entry = AskedEntry::Asked(*number, open.line.clone());
            text += &format!("{}\n", serde_json::to_string(&entry)?);
        }
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)?;
        (self.file, self.bytes) = (file, text.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{ChunkIndex, Stamp, StripeId};

    use super::*;

    fn copy(chunk: u8) -> ChunkCopy {
        ChunkCopy { stripe: StripeId(7), chunk: ChunkIndex(chunk), stamp: Stamp(1) }
    }

    fn line(repair: u64, chunk: u8, line: Value) -> AskedLine {
        AskedLine { repair: RepairId(repair), copy: copy(chunk), line, is_committing: true }
    }

    #[test]
    fn a_file_that_grows_long_is_written_anew_and_has_what_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (mut asked, left) = AskedLines::open(dir.path()).unwrap();
        assert!(left.is_empty());
        let path = dir.path().join(ASKED_NAME);
        asked.add(line(0, 0, Value::from("first"))).unwrap();
        let long = Value::from("x".repeat(1000));
        for repair in 1..=3 * FILE_BYTES_MAX / 1000 {
            asked.add(line(repair, 1, long.clone())).unwrap();
            asked.remove(|of| of.repair == RepairId(repair)).unwrap();
            assert!(fs::metadata(&path).unwrap().len() < FILE_BYTES_MAX + 2000);
        }
        // What is written after that is at its end.
        asked.add(line(1, 2, Value::from("last"))).unwrap();
        let (_, left) = AskedLines::open(dir.path()).unwrap();
        assert_eq!(left, ["first", "last"]);
    }

    #[test]
    fn a_line_that_is_cut_is_none_and_a_file_of_which_nothing_is_left_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ASKED_NAME);
        let (mut asked, _) = AskedLines::open(dir.path()).unwrap();
        for chunk in 0..2 {
            asked.add(line(1, chunk, Value::from(chunk))).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        asked.remove(|of| of.copy == copy(0)).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > text.len() as u64);
        asked.remove(|_| true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        assert_eq!(AskedLines::open(dir.path()).unwrap().1, [0]);
    }
}
