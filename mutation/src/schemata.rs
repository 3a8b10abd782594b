//! One program with all mutants in it: a copy of the crates, its sources edited, and the switch
//! that says which mutant is on.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::places::{self, Edit};

/// Stands in the copy as `mutation.rs`; `COUNT` is put before it.
const SWITCH: &str = include_str!("switch.txt");

/// In the scratch folder: the places that do not compile.
const REFUSED: &str = "dropped";

/// A file of the core with its places.
pub struct Source {
    /// Below `crates/suture-repair/src`.
    pub file: String,
    text: String,
    edits: Vec<Edit>,
    /// The number of the first mutant of each edit.
    first: Vec<u32>,
    /// Edits that the compiler refuses.
    dropped: BTreeSet<usize>,
}

/// All mutants, and the folder in which they are built.
pub struct Schemata {
    pub scratch: PathBuf,
    pub sources: Vec<Source>,
    /// The name of each mutant.
    pub names: Vec<String>,
}

impl Source {
    /// The numbers of the mutants that are built.
    pub fn kept(&self) -> impl Iterator<Item = u32> {
        let edits = self.edits.iter().enumerate().filter(|(at, _)| !self.dropped.contains(at));
        edits.flat_map(|(at, edit)| self.first[at]..self.first[at] + edit.mutants.len() as u32)
    }

    /// The text with its edits. Comments show where each begins and ends.
    fn edited(&self) -> String {
        let all: Vec<usize> =
            (0..self.edits.len()).filter(|at| !self.dropped.contains(at)).collect();
        let mut out = String::new();
        self.render(0..self.text.len(), &all, &mut out);
        out
    }

    /// A range of the text with those of the edits that are in it.
    fn render(&self, range: Range<usize>, edits: &[usize], out: &mut String) {
        let is_in = |edit: &Edit| range.start <= edit.range.start && edit.range.end <= range.end;
        let edits: Vec<usize> = edits.iter().copied().filter(|n| is_in(&self.edits[*n])).collect();
        let (mut at, mut edits) = (range.start, &*edits);
        while let [number, rest @ ..] = edits {
            let edit = &self.edits[*number];
            let inside = rest.iter().take_while(|n| self.edits[**n].range.start < edit.range.end);
            let (inner, after) = rest.split_at(inside.count());
            edits = after;
            out.push_str(&self.text[at..edit.range.start]);
            at = edit.range.end;
            out.push_str(&format!("/*<{number}*/"));
            let mut template = edit.template.split('$');
            out.push_str(template.next().unwrap_or_default());
            for rest in template {
                match &rest[..1] {
                    "l" => self.render(edit.parts[0].clone(), inner, out),
                    "r" => self.render(edit.parts[1].clone(), inner, out),
                    mutant => {
                        let id = self.first[*number] + mutant.parse::<u32>().expect("a number");
                        out.push_str(&format!("crate::mutation::is({id})"));
                    }
                }
                out.push_str(&rest[1..]);
            }
            out.push_str("/*>*/");
        }
        out.push_str(&self.text[at..range.end]);
    }
}

/// The innermost edit around a byte of an edited text.
fn edit_at(edited: &str, at: usize) -> Option<usize> {
    let mut open = Vec::new();
    let mut rest = 0;
    while let Some(found) = edited[rest..at].find("/*") {
        let mark = &edited[rest + found + 2..];
        if mark.starts_with('>') {
            open.pop();
        } else if let Some(number) = mark.strip_prefix('<').and_then(|m| m.split("*/").next()) {
            open.push(number.parse().ok()?);
        }
        rest += found + 2;
    }
    open.pop()
}

/// Copies a folder, but for the files that are written otherwise.
fn copy_folder(from: &Path, to: &Path, written: &BTreeSet<PathBuf>) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() && entry.file_name() != "target" {
            copy_folder(&from, &to, written)?;
        } else if from.is_file() && !written.contains(&to) {
            write_changed(&to, &fs::read(&from)?)?;
        }
    }
    Ok(())
}

/// Files that are as they were keep their time, so that nothing is built for nothing.
pub fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::write(path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

impl Schemata {
    /// Finds the mutants of these files of the repository.
    pub fn of(repository: &Path, scratch: &Path, files: &[String]) -> Result<Schemata> {
        let mut schemata =
            Schemata { scratch: scratch.to_path_buf(), sources: Vec::new(), names: Vec::new() };
        for file in files {
            let path = repository.join("crates/suture-repair/src").join(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let (edits, mut first) = (places::find(&text).context(file.clone())?, Vec::new());
            for edit in &edits {
                first.push(schemata.names.len() as u32);
                schemata.names.extend(edit.mutants.iter().map(|name| format!("{file}:{name}")));
            }
            let dropped = BTreeSet::new();
            schemata.sources.push(Source { file: file.clone(), text, edits, first, dropped });
        }
        Ok(schemata)
    }

    /// Leaves out what the compiler has refused before.
    pub fn leave_out_refused(&mut self) {
        let refused = fs::read_to_string(self.scratch.join(REFUSED)).unwrap_or_default();
        let refused: BTreeSet<&str> = refused.lines().collect();
        for source in &mut self.sources {
            let is_refused =
                |edit: &Edit| refused.contains(&*format!("{}:{}", source.file, edit.mutants[0]));
            let edits = source.edits.iter().enumerate();
            source.dropped = edits.filter(|(_, e)| is_refused(e)).map(|(at, _)| at).collect();
        }
    }

    /// Copies the repository and writes the edited sources, without those that do not compile.
    pub fn write(&mut self, repository: &Path) -> Result<()> {
        let src = self.scratch.join("crates/suture-repair/src");
        for name in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            fs::create_dir_all(&self.scratch)?;
            write_changed(&self.scratch.join(name), &fs::read(repository.join(name))?)?;
        }
        let written = self.sources.iter().map(|source| src.join(&source.file));
        let written = written.chain([src.join("lib.rs")]).collect();
        for folder in ["crates", "fuzz"] {
            copy_folder(&repository.join(folder), &self.scratch.join(folder), &written)?;
        }
        let lib = fs::read_to_string(repository.join("crates/suture-repair/src/lib.rs"))?;
        let lib = format!("{lib}\n/// Which mutant is on.\npub mod mutation;\n");
        write_changed(&src.join("lib.rs"), lib.as_bytes())?;
        let count = format!("const COUNT: usize = {};\n", self.names.len());
        write_changed(&src.join("mutation.rs"), (count + SWITCH).as_bytes())?;
        loop {
            for source in &self.sources {
                write_changed(&src.join(&source.file), source.edited().as_bytes())?;
            }
            let refused = self.refused()?;
            if refused == 0 {
                break;
            }
            println!("{refused} places do not compile and are left out");
            let dropped = self.sources.iter().flat_map(|source| {
                let name = |at: &usize| source.edits[*at].mutants.first().cloned();
                let names = source.dropped.iter().filter_map(name);
                names.map(|name| format!("{}:{name}\n", source.file))
            });
            fs::write(self.scratch.join(REFUSED), dropped.collect::<String>())?;
        }
        Ok(())
    }

    /// Drops what the compiler refuses; gives how many places that were.
    fn refused(&mut self) -> Result<usize> {
        let mut cargo = self.cargo("check");
        cargo.args(["-p", "suture-repair", "--message-format=json"]);
        let output = cargo.output()?;
        let mut dropped = 0;
        let mut last = String::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let message = &value["message"];
            if message["level"] == "error" {
                last = message["rendered"].as_str().unwrap_or_default().to_string();
                dropped += usize::from(self.drop_at(message));
            }
        }
        if !output.status.success() && dropped == 0 {
            bail!("not to be mended: {last}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(dropped)
    }

    fn drop_at(&mut self, message: &Value) -> bool {
        let spans = message["spans"].as_array().into_iter().flatten();
        let (primary, other): (Vec<&Value>, Vec<&Value>) =
            spans.partition(|span| span["is_primary"] == true);
        for span in primary.into_iter().chain(other) {
            let name = span["file_name"].as_str().unwrap_or_default();
            let is_it = |s: &&mut Source| name == format!("crates/suture-repair/src/{}", s.file);
            let Some(source) = self.sources.iter_mut().find(is_it) else { continue };
            let at = span["byte_start"].as_u64().unwrap_or_default() as usize;
            let compiled = fs::read_to_string(self.scratch.join(name)).unwrap_or_default();
            if let Some(edit) = edit_at(&compiled, at) {
                // It may have been dropped by another error of the same compilation.
                return source.dropped.insert(edit);
            }
        }
        false
    }

    /// Cargo in the scratch folder.
    pub fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.arg(command).args(["-j", "2"]).current_dir(&self.scratch);
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_TARGET_DIR", self.scratch.join("target"));
        cargo
    }
}
