//! What a demo stores: the user's file or folder, or generated random data.
//!
//! Place: before a demo's put, and at its end, when every object is compared with its source.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use suture_edge::error::bad_input;
use suture_repair::random::Random;

/// Generated data of a demo is cut into files of this size.
pub const GENERATED_FILE_BYTES: u64 = 64 << 20;

/// One object and the file that it comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in the store.
    pub name: String,
    /// Where its bytes are.
    pub path: PathBuf,
    /// How many they are.
    pub bytes: u64,
}

/// Every regular file of `path`, which may be one itself, in the order of their names.
///
/// # Errors
/// Bad input when it cannot be read or holds no file with bytes.
pub fn from_user(path: &Path) -> Result<Vec<Source>> {
    let about = fs::metadata(path)
        .map_err(|error| bad_input(format!("cannot read '{}': {error}", path.display())))?;
    let mut sources = Vec::new();
    if about.is_file() {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        sources.push(Source { name, path: path.to_path_buf(), bytes: about.len() });
    } else {
        walk(path, path, &mut sources)?;
    }
    if sources.iter().all(|source| source.bytes == 0) {
        let path = path.display();
        return Err(bad_input(format!(
            "'{path}' holds no data; name a file or directory that does"
        )));
    }
    Ok(sources)
}

fn walk(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    let entries = fs::read_dir(folder)
        .map_err(|error| bad_input(format!("cannot read '{}': {error}", folder.display())))?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        // Links are left out: what they lead to may lie outside, or lead back.
        let about = fs::symlink_metadata(&path)?;
        if about.is_dir() {
            walk(root, &path, sources)?;
        } else if about.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            sources.push(Source { name, bytes: about.len(), path });
        }
    }
    Ok(())
}

/// Writes `bytes` of random data to files of at most `file_bytes` in `folder`, the same for the
/// same seed.
///
/// # Errors
/// When a file cannot be written.
pub fn generate(folder: &Path, bytes: u64, file_bytes: u64, seed: u64) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let bytes = left.min(file_bytes);
        let index = sources.len() as u64;
        let name = format!("random-{index:02}");
        let path = folder.join(&name);
        write_random(&path, bytes, seed + index).context("cannot write the generated data")?;
        sources.push(Source { name, path, bytes });
        left -= bytes;
    }
    Ok(sources)
}

fn write_random(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut random = Random::new(seed);
    let mut part = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(part.len() as u64) as usize;
        random.fill(&mut part[..length]);
        file.write_all(&part[..length])?;
        left -= length as u64;
    }
    file.flush()
}
