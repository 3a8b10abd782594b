//! The small files of an agent's data directory: whatever they hold is read as what it says, or
//! refused with the name of the file.
//!
//! Place: the first step of an agent's start, on a disk that may come from anywhere. An input is a
//! byte that chooses the file, and its content; or the name of a file among the chunks.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use suture_drivers::control::membership::Membership;
use suture_drivers::store::{DataDir, OpenError};
use suture_repair::chunk_store::ChunkStore;
use suture_repair::id::ListedCopy;

use crate::scratch;

/// The files; what is behind them in the list is a name among the chunks.
const FILES: [&str; 3] = ["identity", "store", "membership"];

/// Inputs to begin with: each file as it is written, and names of chunks.
pub fn valid() -> Vec<Vec<u8>> {
    let inputs: [(u8, &str); 6] = [
        (0, "suture-store 1\ncluster 0123456789abcdef\nnode n1\n"),
        (0, "suture-store 2\ncluster 0\nnode \n"),
        (1, "suture-store-id 0123456789abcdef\n"),
        (2, "suture-membership 1\nnode 4294967295\nepoch 7\n"),
        (3, "0000010000000000.c8.0000000000000007"),
        (3, "0000010000000000.c8.0000000000000007.part"),
    ];
    inputs.map(|(file, text)| [&[file], text.as_bytes()].concat()).to_vec()
}

/// Gives whether the input is what stands in such a file.
///
/// # Panics
/// When something is read as what it does not say, or refused without the file's name.
pub fn check(input: &[u8]) -> bool {
    let Some((&file, content)) = input.split_first() else { return false };
    match usize::from(file) {
        2 => check_membership(content),
        file if file < FILES.len() => check_opened(FILES[file], content),
        _ => check_name(content),
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = scratch::folder().join(name);
    fs::create_dir_all(&folder).expect("a scratch folder");
    folder
}

fn check_membership(content: &[u8]) -> bool {
    let (found, again) = (folder("membership"), folder("written"));
    fs::write(found.join("membership"), content).expect("it can be written");
    match Membership::read(&found) {
        Ok(membership) => {
            let membership = membership.expect("there is a file");
            membership.write(&again).expect("it can be written");
            assert_eq!(Membership::read(&again).ok(), Some(Some(membership)));
            true
        }
        Err(why) => {
            assert!(why.to_string().contains("membership"), "{why}");
            false
        }
    }
}

/// The whole directory is opened with the file in it, and again with what that made of it.
fn check_opened(name: &str, content: &[u8]) -> bool {
    let dir = folder(name);
    fs::write(dir.join(name), content).expect("it can be written");
    let opened = match DataDir::open(&dir) {
        Ok(opened) => opened,
        Err(why) => {
            let text = why.to_string();
            assert!(text.contains(&dir.display().to_string()), "{text}");
            assert!(!matches!(why, OpenError::Locked(_) | OpenError::Unidentified(_)), "{text}");
            return false;
        }
    };
    let (identity, id) = (opened.identity().cloned(), opened.id());
    drop(opened);
    let Some(identity) = identity else { return true };
    let text = fs::read_to_string(dir.join("identity")).expect("it was text");
    let again = format!("suture-store 1\ncluster {}\nnode {}\n", identity.cluster, identity.node);
    fs::write(dir.join("identity"), again).expect("it can be written");
    let opened = DataDir::open(&dir).expect("it was opened before");
    assert_eq!((opened.identity(), opened.id()), (Some(&identity), id), "{text:?}");
    opened.claim(&identity).expect("it is the same node's");
    true
}

/// A file of that name among the chunks is listed as no chunk that there can be, if at all.
fn check_name(name: &[u8]) -> bool {
    let is_name =
        !name.is_empty() && name.len() < 200 && !name.iter().any(|b| [0, b'/'].contains(b));
    if !is_name || name == b"." || name == b".." {
        return false;
    }
    let dir = folder("named");
    let identity = "suture-store 1\ncluster 0123456789abcdef\nnode n1\n";
    fs::write(dir.join("identity"), identity).expect("it can be written");
    let opened = DataDir::open(&dir).expect("a directory of this node");
    let identity = opened.identity().expect("it was written").clone();
    let store = opened.claim(&identity).expect("it is the same node's");
    let path = dir.join("chunks/00").join(OsStr::from_bytes(name));
    fs::write(&path, b"no chunk").expect("it can be written");
    let listed = store.list().expect("the folder can be read");
    fs::remove_file(&path).expect("it was written");
    let is_damaged = |held: &ListedCopy| held.digest.bytes == Some(u64::MAX);
    assert!(listed.iter().all(is_damaged), "{listed:?}");
    true
}
