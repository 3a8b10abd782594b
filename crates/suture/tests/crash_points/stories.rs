//! Stories of one process on one folder: the chunk store, the metadata ([`super::metadata`]), the
//! files of commands.
//!
//! Place: what is attacked without a cluster. Each story is the code that daemons run, called in
//! the order in which they call it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use suture_drivers::control::membership::Membership;
use suture_drivers::store::{DataDir, Identity, Store};
use suture_edge::checksum::crc32c;
use suture_files::directory::{read_manifest, sync_directory};
use suture_files::encode::{Encode, Source, remove_workshop};
use suture_files::geometry::Geometry;
use suture_files::manifest::MANIFEST_NAME;
use suture_files::output::NewFile;
use suture_files::verify::{extra_files, verify};
use suture_repair::chunk_store::{ChunkStore, Published};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::Failure;
use suture_repair::wire::ClusterId;

use super::acts::{Acts, Look, State};
use super::metadata::{
    commits, first_put, former, killed, killed_and_copy, look_at_metadata, look_at_rebuilt,
    look_at_refused, look_at_restored, look_at_upgraded, lost_log, metadata, no_log, open, rebuild,
    restore, stopped_and_copy, take, told,
};
use crate::daemons::noise;

/// What is attacked.
pub struct Story {
    /// Its name in the table.
    pub name: &'static str,
    /// Makes the folder in which it begins.
    pub prepare: fn(&Path),
    /// What the attacked process does.
    pub act: fn(&Path, &mut Acts),
    /// What it left.
    pub look: Look,
}

/// All of them.
pub const STORIES: [Story; 21] = [
    Story { name: "store: first start", prepare: nothing, act: open_store, look: look_at_store },
    Story { name: "store: start", prepare: crashed_store, act: open_store, look: look_at_store },
    Story { name: "store: publish", prepare: store, act: publish, look: look_at_store },
    Story { name: "store: delete", prepare: store, act: delete, look: look_at_store },
    Story { name: "store: scrub read", prepare: store, act: scrub, look: look_at_store },
    Story { name: "store: membership", prepare: member, act: join, look: look_at_membership },
    Story { name: "metadata: first start", prepare: nothing, act: open, look: look_at_metadata },
    Story { name: "metadata: start", prepare: killed, act: open, look: look_at_metadata },
    Story { name: "metadata: upgrade", prepare: former, act: open, look: look_at_upgraded },
    Story { name: "metadata: commits", prepare: metadata, act: commits, look: look_at_metadata },
    Story { name: "metadata: told", prepare: metadata, act: told, look: look_at_metadata },
    Story { name: "metadata: rebuild", prepare: nothing, act: rebuild, look: look_at_rebuilt },
    Story { name: "metadata: copy", prepare: metadata, act: take, look: look_at_metadata },
    Story { name: "metadata: first put", prepare: no_log, act: first_put, look: look_at_metadata },
    Story { name: "metadata: lost log", prepare: lost_log, act: open, look: look_at_refused },
    Story { name: "metadata: restored start", prepare: no_log, act: open, look: look_at_metadata },
    Story {
        name: "metadata: restore",
        prepare: stopped_and_copy,
        act: restore,
        look: look_at_restored,
    },
    Story {
        name: "metadata: restore, killed",
        prepare: killed_and_copy,
        act: restore,
        look: look_at_restored,
    },
    Story { name: "output: new", prepare: nothing, act: output, look: look_at_output },
    Story { name: "output: replaced", prepare: old_output, act: output, look: look_at_output },
    Story { name: "encode", prepare: source, act: encode, look: look_at_encoded },
];

pub const CHUNK_BYTES: u64 = 128;

fn nothing(_: &Path) {}

// The chunk store.

fn identity() -> Identity {
    Identity { cluster: ClusterId(7), node: "n1".to_owned() }
}

fn copy_of(stripe: u64) -> ChunkCopy {
    ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(3), stamp: Stamp(1 << 32) }
}

fn store_in(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn put(store: &Store, stripe: u64, bytes: usize, is_rebuilt: bool) -> Result<(), Failure> {
    let data = noise(bytes);
    let chunk =
        if is_rebuilt { store.begin(bytes as u64)? } else { store.begin_arriving(bytes as u64)? };
    for (number, part) in data.chunks(bytes / 2).enumerate() {
        chunk.write((number * (bytes / 2)) as u64, part)?;
    }
    chunk.prove(Some(crc32c(&data)), &mut |_| ())?;
    match chunk.publish(copy_of(stripe), &Label::default())? {
        Published::Named => Ok(()),
        Published::Taken => Err(Failure::Disk("the name is taken".to_string())),
    }
}

fn store(folder: &Path) {
    let store = Store::open(&store_in(folder), &identity()).unwrap();
    for stripe in [1, 2, 3] {
        put(&store, stripe, 9000, false).unwrap();
    }
}

fn crashed_store(folder: &Path) {
    store(folder);
    for left in ["tmp/0", "tmp/1"] {
        fs::write(store_in(folder).join(left), "left behind").unwrap();
    }
}

fn open_store(folder: &Path, acts: &mut Acts) {
    acts.begin();
    let mut id = None;
    acts.step(|| {
        let data_dir = DataDir::open(&store_in(folder))?;
        id = data_dir.id();
        data_dir.claim(&identity())
    });
    if let Some(id) = id {
        // Both together: exactly this one.
        acts.promise("id", id.0);
        acts.promise("id inverted", !id.0);
    }
}

/// What goes on though the store cannot be opened: nothing.
fn opened(folder: &Path) -> Option<Store> {
    match Store::open(&store_in(folder), &identity()) {
        Ok(store) => Some(store),
        Err(error) => {
            println!("cannot be opened: {error}");
            None
        }
    }
}

fn publish(folder: &Path, acts: &mut Acts) {
    let Some(store) = opened(folder) else { return };
    acts.begin();
    acts.step(|| put(&store, 4, 20_000, false));
    acts.step(|| put(&store, 5, 5000, true));
    // The same once more, as after an answer that was lost.
    acts.step(|| put(&store, 1, 9000, true));
}

fn delete(folder: &Path, acts: &mut Acts) {
    let Some(store) = opened(folder) else { return };
    acts.begin();
    acts.step(|| store.delete(copy_of(1)));
    acts.step(|| store.delete(copy_of(9)));
}

/// Every copy is good, so nothing may be said of one but that it could not be read just now.
fn scrub(folder: &Path, acts: &mut Acts) {
    let Some(store) = opened(folder) else { return };
    acts.begin();
    acts.step(|| store.list());
    for stripe in [1, 2] {
        acts.step(|| store.scan(copy_of(stripe), &mut |_| ()).map_err(Fault));
    }
    acts.step(|| {
        let reader = store.open(copy_of(3)).map_err(Fault)?;
        let mut slice = vec![0; 4000];
        reader.read(3000, &mut slice).map_err(Fault)?;
        assert_eq!(slice, noise(9000)[3000..7000], "bytes left that are wrong");
        Ok::<(), Fault>(())
    });
}

/// As it is called.
struct Fault(suture_repair::message::CopyFault);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            suture_repair::message::CopyFault::Unreadable => write!(f, "could not be read"),
            fault => panic!("a good copy is called {fault:?}"),
        }
    }
}

fn look_at_store(folder: &Path) -> Result<State, String> {
    let dir = store_in(folder);
    let store = Store::open(&dir, &identity()).map_err(|error| error.to_string())?;
    let mut state = State::default();
    for entry in files_in(&dir) {
        let name = entry.strip_prefix(&dir).unwrap().display().to_string();
        if !matches!(name.as_str(), "identity" | "store") && !name.starts_with("chunks/") {
            return Err(format!("'{name}' was left behind"));
        }
    }
    let copies = store.list().map_err(|error| error.to_string())?;
    let held = files_in(&dir.join("chunks"));
    if held.len() != copies.len() {
        return Err(format!("{} files, of which {} are chunks", held.len(), copies.len()));
    }
    for listed in copies {
        let mut data = Vec::new();
        let scanned = store.scan(listed.copy, &mut |part| data.extend(part));
        scanned.map_err(|fault| format!("{}: {fault:?}", listed.copy))?;
        let thing = format!("{} bytes, {:08x}", data.len(), crc32c(&data));
        state.things.insert(format!("chunk {}", listed.copy), thing);
    }
    let id = fs::read_to_string(dir.join("store")).map_err(|error| error.to_string())?;
    let id = u64::from_str_radix(id.trim().rsplit(' ').next().unwrap(), 16).unwrap();
    state.floors = BTreeMap::from([("id".to_string(), id), ("id inverted".to_string(), !id)]);
    Ok(state)
}

fn member(folder: &Path) {
    Membership { node: NodeId(1), epoch: 1, committed: 0 }.write(folder).unwrap();
}

fn join(folder: &Path, acts: &mut Acts) {
    acts.begin();
    for epoch in [2, 3] {
        acts.step(|| Membership { node: NodeId(1), epoch, committed: 7 }.write(folder));
    }
}

fn look_at_membership(folder: &Path) -> Result<State, String> {
    let found = Membership::read(folder).map_err(|error| error.to_string())?;
    let found = found.ok_or("it was never in a cluster")?;
    // The next session takes away what was left.
    member(folder);
    let left = files_in(folder);
    if left.len() != 1 {
        return Err(format!("{left:?} are left"));
    }
    let things = BTreeMap::from([("membership".to_string(), format!("{found:?}"))]);
    Ok(State { things, floors: BTreeMap::new() })
}

/// Every file below a folder.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

// What commands write.

fn target(folder: &Path) -> PathBuf {
    folder.join("output")
}

fn old_output(folder: &Path) {
    fs::write(target(folder), noise(5000)).unwrap();
}

fn output(folder: &Path, acts: &mut Acts) {
    acts.begin();
    acts.step(|| {
        let new = NewFile::beside(&target(folder))?;
        for part in noise(40_000).chunks(16_384) {
            new.file().write_all(part)?;
        }
        new.publish(&target(folder))?;
        sync_directory(folder)
    });
}

fn look_at_output(folder: &Path) -> Result<State, String> {
    // The next command that replaces a file there takes away what one before it left.
    if target(folder).exists() {
        let other = folder.join("other");
        fs::write(&other, "old").unwrap();
        let new = NewFile::beside(&other).map_err(|error| error.to_string())?;
        new.publish(&other).map_err(|error| error.to_string())?;
        fs::remove_file(other).unwrap();
    }
    let mut state = State::default();
    for path in files_in(folder) {
        let bytes = fs::read(&path).unwrap();
        let thing = format!("{} bytes, {:08x}", bytes.len(), crc32c(&bytes));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "output" {
            return Err(format!("'{name}' was left behind"));
        }
        state.things.insert(name, thing);
    }
    Ok(state)
}

/// Two stripes.
fn source(folder: &Path) {
    fs::write(folder.join("source"), noise(10_000)).unwrap();
}

fn encode(folder: &Path, acts: &mut Acts) {
    acts.begin();
    acts.step(|| encode_into(folder));
}

fn encode_into(folder: &Path) -> anyhow::Result<()> {
    let source = Source::open(&folder.join("source"))?;
    let (code, file_bytes) = ("rs(2,1)".parse().unwrap(), source.bytes());
    let geometry = Geometry { code, file_bytes, chunk_bytes: 4096, unit_bytes: 4096 };
    let directory = folder.join("encoded");
    Encode { source: &source, geometry, directory: &directory, progress: &|_| () }.run()
}

fn look_at_encoded(folder: &Path) -> Result<State, String> {
    let directory = folder.join("encoded");
    let text = |error: anyhow::Error| format!("{error:#}");
    let is_complete = directory.join(MANIFEST_NAME).exists();
    match encode_into(folder) {
        Ok(()) if is_complete => return Err("it was encoded into once more".to_string()),
        Err(error) if !is_complete => return Err(format!("the next one: {error:#}")),
        _ => {}
    }
    let manifest = read_manifest(&directory).map_err(text)?;
    for verdict in verify(&directory, &manifest, &|_| ()) {
        if !verdict.faults.is_empty() || !verdict.bad_checksum_files.is_empty() {
            return Err(format!("stripe {} has {:?}", verdict.stripe, verdict.faults));
        }
    }
    let _ = remove_workshop(&directory);
    let extra = extra_files(&directory, &manifest).map_err(|error| error.to_string())?;
    if !extra.is_empty() {
        return Err(format!("{extra:?} were left behind"));
    }
    let whole = is_complete.then(|| ("encoded".to_string(), "whole".to_string()));
    Ok(State { things: whole.into_iter().collect(), floors: BTreeMap::new() })
}
