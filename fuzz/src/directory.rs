//! Encoded directories: whatever becomes of their files, what is decoded or rebuilt is what was
//! encoded, or nothing is.
//!
//! Place: the plain-files commands, on folders that people copy, cut short and mix up. An input is
//! a byte that chooses the code, and a sequence of edits: a file, a kind of edit, where, and a
//! byte.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use suture_files::decode::decode_into;
use suture_files::encode::{Encode, Source};
use suture_files::geometry::Geometry;
use suture_files::method::Method;
use suture_files::rebuild::Rebuild;
use suture_files::verify::verify;

use crate::cursor::Cursor;
use crate::scratch;

const CODES: [(&str, u64, u64); 3] =
    [("rs(2,1)", 5120, 5120), ("clay(4,2,5)", 4096, 1024), ("lrc(4,2,2)", 4096, 4096)];
/// Two stripes, the last of which is not full.
const FILE_BYTES: usize = 13_000;
/// More of them leave nothing.
const EDITS_MAX: usize = 12;

/// Inputs to begin with: no edit, and some of each kind.
pub fn valid() -> Vec<Vec<u8>> {
    let edits: [&[[u8; 5]]; 7] = [
        &[],
        &[[0, 0, 9, 0, 1]],
        &[[1, 1, 0, 0, 0], [2, 0, 1, 0, 255]],
        &[[3, 2, 100, 0, 0], [4, 3, 0, 0, 0]],
        &[[0, 4, 1, 0, 0]],
        &[[5, 5, 7, 0, 3], [6, 0, 0, 1, 4], [7, 1, 0, 0, 0]],
        &[[12, 0, 40, 0, 1]],
    ];
    let with = |code: u8, edits: &[[u8; 5]]| [&[code], edits.as_flattened()].concat();
    (0..3).flat_map(|code| edits.iter().map(move |edits| with(code, edits))).collect()
}

/// A directory as it was encoded.
struct Encoded {
    source: Vec<u8>,
    files: Vec<(PathBuf, Vec<u8>)>,
    manifest: Vec<u8>,
}

thread_local! {
    static ENCODED: [Encoded; 3] = CODES.map(encode);
}

fn encode((code, chunk_bytes, unit_bytes): (&str, u64, u64)) -> Encoded {
    let source: Vec<u8> = (0..FILE_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
    let directory = scratch::folder().join(format!("encoded-{chunk_bytes}-{}", code.len()));
    let path = scratch::file("source", &source);
    let code = code.parse().expect("it is a code");
    let geometry = Geometry { code, file_bytes: FILE_BYTES as u64, chunk_bytes, unit_bytes };
    let source_file = Source::open(&path).expect("it was written");
    let geometry = geometry.check().expect("the sizes fit");
    let encode =
        Encode { source: &source_file, geometry, directory: &directory, progress: &|_| () };
    encode.run().expect("it can be encoded");
    let mut files = Vec::new();
    read_folder(&directory, &directory, &mut files);
    files.sort();
    let at = files.iter().position(|(path, _)| path.ends_with("manifest.json"));
    let (_, manifest) = files.remove(at.expect("every directory has one"));
    Encoded { source, files, manifest }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_folder(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("it is in there").to_path_buf();
            files.push((name, fs::read(&path).expect("a file")));
        }
    }
}

/// Gives whether the file can still be decoded.
///
/// # Panics
/// When other bytes are decoded than were encoded, or what is rebuilt is not sound.
pub fn check(input: &[u8]) -> bool {
    let Some((&code, edits)) = input.split_first() else { return false };
    ENCODED.with(|encoded| check_edited(&encoded[usize::from(code) % CODES.len()], edits))
}

fn check_edited(encoded: &Encoded, edits: &[u8]) -> bool {
    let root = &scratch::folder().join("edited");
    let _ = fs::remove_dir_all(root);
    let is_manifest_whole = write_edited(encoded, root, edits);
    let manifest = match suture_files::open(root) {
        Ok(manifest) => manifest,
        Err(why) => {
            assert!(!format!("{why:#}").is_empty());
            return false;
        }
    };
    if manifest.geometry.file_bytes > 1 << 20 || manifest.geometry.stripe_count() > 64 {
        return false;
    }
    let decode = || {
        let mut output = tempfile::tempfile_in(scratch::folder()).expect("a scratch file");
        let decoded = decode_into(root, &manifest, &output, &|_| ()).expect("it can be written");
        let mut bytes = Vec::new();
        output.seek(SeekFrom::Start(0)).expect("it is a file");
        output.read_to_end(&mut bytes).expect("it was written");
        decoded.unrepairable.is_empty().then_some(bytes)
    };
    let decoded = decode();
    let verdicts = verify(root, &manifest, &|_| ());
    let is_repairable = verdicts.iter().all(|verdict| verdict.repairable);
    if is_manifest_whole {
        assert!(decoded.as_ref().is_none_or(|bytes| *bytes == encoded.source), "other bytes");
        assert_eq!(is_repairable, decoded.is_some(), "what can be decoded can be repaired");
    }
    let options = Method::Optimal.into();
    let (directory, manifest, progress, prepared) = (root, &manifest, &|_| (), Mutex::new(None));
    let rebuild = Rebuild { directory, manifest, named: &[], options, progress, prepared };
    let results = rebuild.run();
    assert!(results.iter().all(|result| result.failure().is_none()));
    if is_manifest_whole && is_repairable {
        let verdicts = verify(root, manifest, progress);
        assert!(verdicts.iter().all(|verdict| verdict.faults.is_empty()), "not sound");
        assert_eq!(decode().as_ref(), Some(&encoded.source), "other bytes after a rebuild");
    }
    decoded.is_some()
}

/// Writes the directory with the edits; whether the manifest is as it was.
fn write_edited(encoded: &Encoded, root: &Path, edits: &[u8]) -> bool {
    let mut files = encoded.files.clone();
    files.push(("manifest.json".into(), encoded.manifest.clone()));
    let (mut edits, mut gone) = (Cursor(edits), vec![false; files.len()]);
    for _ in 0..EDITS_MAX {
        let Some([file, kind]) = edits.byte().zip(edits.byte()).map(|(a, b)| [a, b]) else { break };
        let Some([low, high]) = edits.byte().zip(edits.byte()).map(|(a, b)| [a, b]) else { break };
        let value = edits.byte().unwrap_or_default();
        let at = usize::from(file) % files.len();
        let offset = usize::from(low) | usize::from(high) << 8;
        match kind % 6 {
            3 => gone[at] = true,
            4 => {
                let other = files[offset % files.len()].1.clone();
                files[at].1 = other;
            }
            kind => edit(&mut files[at].1, kind, offset, value),
        }
    }
    for ((name, bytes), _) in files.iter().zip(&gone).filter(|(_, gone)| !**gone) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, bytes).expect("it can be written");
    }
    files.last().is_some_and(|(_, manifest)| *manifest == encoded.manifest)
}

fn edit(bytes: &mut Vec<u8>, kind: u8, offset: usize, value: u8) {
    let at = offset.min(bytes.len().saturating_sub(1));
    match kind {
        0 if !bytes.is_empty() => bytes[at] ^= value,
        1 => bytes.clear(),
        2 => bytes.truncate(offset),
        _ => bytes.insert(at, value),
    }
}
