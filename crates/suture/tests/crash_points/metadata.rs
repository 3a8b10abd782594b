//! Stories of the metadata: starts, commits, copies, what takes their place, and an upgrade.
//!
//! Place: what is attacked without a cluster, beside the stories of the store.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use suture_drivers::metadata::schema::SCHEMA_VERSION;
use suture_drivers::metadata::unfinished::Unfinished;
use suture_drivers::metadata::{
    Incomplete, Leftovers, MetadataError, MetadataStore, NewNode, Object, ObjectStripe, Remembered,
    backup,
};
use suture_repair::event::Commit;
use suture_repair::id::{ChunkCopy, ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe};

use super::acts::{Acts, State};
use super::disk;
use super::stories::{CHUNK_BYTES, files_in};

/// Where the metadata are.
pub fn metadata_in(folder: &Path) -> PathBuf {
    folder.join("coordinator")
}

fn store_object(store: &mut MetadataStore, name: &str, acts: &Acts) -> Result<(), MetadataError> {
    let put = store.begin_put(name)?;
    let ids = store.reserve_stripes(put, 2)?;
    acts.promise("next stripe", ids[1].0 + 1);
    let stored = store.commit_put(put, &object(name), ids.into_iter().map(stripe).collect());
    let _ = store.end_put(put);
    stored
}

/// In the place of the one that has the name.
fn overwrite(store: &mut MetadataStore, name: &str, acts: &Acts) -> Result<(), MetadataError> {
    let put = store.begin_overwrite(name)?;
    let ids = store.reserve_stripes(put, 2)?;
    acts.promise("next stripe", ids[1].0 + 1);
    let object = Object { checksum: 1, ..object(name) };
    let stored = store.commit_put(put, &object, ids.into_iter().map(stripe).collect());
    let _ = store.end_put(put);
    stored
}

/// An object of two stripes.
fn object(name: &str) -> Object {
    Object {
        name: name.into(),
        bytes: 4 * CHUNK_BYTES,
        code: "rs(2,1)".parse().unwrap(),
        chunk_bytes: CHUNK_BYTES,
        checksum: 0xfedc_ba98_7654_3210,
        created: 1_700_000_000,
    }
}

fn node(name: &str) -> NewNode {
    let (uplink, downlink) = (1e6, 1e6);
    let address = "127.0.0.1:7000".to_string();
    let name = name.into();
    NewNode { name, rack: None, address, uplink, downlink, store: None, processor: None }
}

fn stripe(id: StripeId) -> ObjectStripe {
    let record = |node| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(0),
        bytes: CHUNK_BYTES,
        crc: Some(7),
    };
    let stripe = Stripe {
        id,
        code: "rs(2,1)".parse().unwrap(),
        chunk_bytes: CHUNK_BYTES,
        unit_bytes: CHUNK_BYTES,
        generation: Generation(0),
        chunks: vec![record(0), record(1), record(2)],
    };
    ObjectStripe { stripe, data_bytes: 2 * CHUNK_BYTES, checksum: None }
}

/// A coordinator that ended in order, with two objects.
pub fn metadata(folder: &Path) {
    let mut store = filled(folder);
    store.close().unwrap();
}

/// One that was killed: part of it is in the log.
pub fn killed(folder: &Path) {
    drop(filled(folder));
}

fn filled(folder: &Path) -> MetadataStore {
    let mut store = MetadataStore::open(&metadata_in(folder), Incomplete::Refuse).unwrap();
    for name in ["a", "b", "c", "d"] {
        store.join(&node(name)).unwrap();
    }
    let acts = Acts::untold(folder);
    store_object(&mut store, "base", &acts).unwrap();
    store_object(&mut store, "gone", &acts).unwrap();
    store
}

/// One that was killed, of the schema before this one.
pub fn former(folder: &Path) {
    killed(folder);
    let database = Connection::open(metadata_in(folder).join("metadata.db")).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    database.execute_batch("ALTER TABLE cluster DROP COLUMN set_back").unwrap();
    database.pragma_update(None, "user_version", SCHEMA_VERSION - 1).unwrap();
}

/// Where they were changed, they are beside that as they were.
pub fn look_at_upgraded(folder: &Path) -> Result<State, String> {
    let former = format!("metadata.db.schema-{}", SCHEMA_VERSION - 1);
    let kept = metadata_in(folder).join(&former);
    let again = disk::folder();
    let (there, database) = (kept.exists(), metadata_in(again.path()).join("metadata.db"));
    if there {
        fs::create_dir(metadata_in(again.path())).unwrap();
        fs::copy(&kept, &database).unwrap();
        let version = version(&database)?;
        if version != SCHEMA_VERSION - 1 {
            return Err(format!("'{former}' is of schema {version}"));
        }
    }
    if !there && version(&metadata_in(folder).join("metadata.db"))? == SCHEMA_VERSION {
        return Err(format!("there is no '{former}'"));
    }
    let found = look_at_metadata(folder)?;
    if there {
        let before = look_at_metadata(again.path()).map_err(|why| format!("{former}: {why}"))?;
        if before.things != found.things {
            return Err(format!("'{former}' has {:?}, and not {:?}", before.things, found.things));
        }
    }
    Ok(found)
}

fn version(database: &Path) -> Result<u32, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let database = Connection::open(database).map_err(text)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(text)?;
    database.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(text)
}

pub fn open(folder: &Path, acts: &mut Acts) {
    acts.begin();
    let open = || MetadataStore::open(&metadata_in(folder), Incomplete::Refuse);
    if let Some(mut store) = acts.step(open) {
        acts.promise("next epoch", u64::from(store.epoch()) + 1);
        acts.step(|| store.close());
    }
}

fn opened_metadata(folder: &Path, acts: &Acts) -> Option<MetadataStore> {
    match MetadataStore::open(&metadata_in(folder), Incomplete::Refuse) {
        Ok(store) => {
            acts.promise("next epoch", u64::from(store.epoch()) + 1);
            Some(store)
        }
        Err(error) => {
            println!("cannot be opened: {error:#}");
            None
        }
    }
}

pub fn commits(folder: &Path, acts: &mut Acts) {
    let Some(mut store) = opened_metadata(folder, acts) else { return };
    let promises = acts.promises();
    acts.begin();
    acts.step(|| store_object(&mut store, "new", &promises));
    acts.step(|| {
        let repair = RepairId::new(1, 7);
        let copy = ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(0), stamp: repair.into() };
        let generation = Generation(0);
        store.commit_location(&Commit { repair, copy, node: NodeId(3), generation, clears: None })
    });
    acts.step(|| store.fold_log(true));
    acts.step(|| store.remove("gone").map(drop));
    acts.step(|| store.set_paused(true));
    acts.step(|| store_object(&mut store, "late", &promises));
    acts.step(|| store.close());
}

/// What agents report, and an object in the place of another.
pub fn told(folder: &Path, acts: &mut Acts) {
    let Some(mut store) = opened_metadata(folder, acts) else { return };
    let promises = acts.promises();
    acts.begin();
    acts.step(|| store.join(&node("e")).map(drop));
    acts.step(|| {
        let epoch = store.epoch() + 3;
        store.outrank("a", Remembered { epoch, committed: 9, mark: None })?;
        promises.promise("next epoch", u64::from(store.epoch()) + 1);
        Ok::<_, MetadataError>(())
    });
    acts.step(|| {
        let below = 1 << 40;
        store.protect(StripeId(below))?;
        promises.promise("next stripe", below);
        Ok::<_, MetadataError>(())
    });
    acts.step(|| overwrite(&mut store, "base", &promises));
    acts.step(|| store.close());
}

/// Made again from labels, in the place of none.
pub fn rebuild(folder: &Path, acts: &mut Acts) {
    acts.begin();
    acts.step(|| {
        let begun = Unfinished::begin(&metadata_in(folder)).map_err(|why| format!("{why:#}"))?;
        let begun = begun.ok_or("there are metadata")?;
        let store = MetadataStore::open(begun.folder(), Incomplete::Refuse);
        let mut store = store.map_err(|why| format!("{why:#}"))?;
        let text = |why: MetadataError| why.to_string();
        for name in ["a", "b", "c"] {
            store.join(&node(name)).map_err(text)?;
        }
        let found = |name: &str, first: u64| {
            (object(name), [first, first + 1].map(|id| stripe(StripeId(id))).to_vec())
        };
        let found = [found("base", 3), found("other", 8)];
        store.add_found(&found, Leftovers::Keep).map_err(text)?;
        store.close().map_err(|why| format!("{why:#}"))?;
        drop(store);
        begun.finish().map_err(|why| format!("{why:#}"))
    });
}

/// All of it is there, or nothing.
pub fn look_at_rebuilt(folder: &Path) -> Result<State, String> {
    let State { things, .. } = look_at_metadata(folder)?;
    let things = BTreeMap::from([("all".to_string(), format!("{things:?}"))]);
    Ok(State { things, floors: BTreeMap::new() })
}

/// What follows a start that made the log, and is not folded in.
pub fn first_put(folder: &Path, acts: &mut Acts) {
    acts.begin();
    let Some(mut store) = opened_metadata(folder, acts) else { return };
    let promises = acts.promises();
    acts.step(|| store_object(&mut store, "new", &promises));
}

pub fn take(folder: &Path, acts: &mut Acts) {
    let Some(mut store) = opened_metadata(folder, acts) else { return };
    let promises = acts.promises();
    acts.begin();
    acts.step(|| store_object(&mut store, "new", &promises));
    acts.step(|| backup::take(&store.path(), store.first_open()?).map(drop));
    acts.step(|| store_object(&mut store, "late", &promises));
}

/// As after a restore: whole, and without a log.
pub fn no_log(folder: &Path) {
    metadata(folder);
    for name in ["metadata.db-wal", "metadata.db-shm"] {
        let _ = fs::remove_file(metadata_in(folder).join(name));
    }
}

/// As a copy of the one file from a coordinator that runs.
pub fn lost_log(folder: &Path) {
    killed(folder);
    for name in ["metadata.db-wal", "metadata.db-shm"] {
        fs::remove_file(metadata_in(folder).join(name)).unwrap();
    }
}

/// However often it is tried, and whatever happened meanwhile: something is missing.
pub fn look_at_refused(folder: &Path) -> Result<State, String> {
    match look_at_metadata(folder) {
        Err(why) if why.contains("was copied while a coordinator had it open") => {
            Ok(State::default())
        }
        found => Err(format!("it is taken for whole: {found:?}")),
    }
}

/// A copy of metadata to which more was added since.
fn copy_in(folder: &Path) -> PathBuf {
    folder.join("copy.db")
}

pub fn stopped_and_copy(folder: &Path) {
    killed_and_copy(folder);
    let store = MetadataStore::open(&metadata_in(folder), Incomplete::Refuse);
    store.unwrap().close().unwrap();
}

pub fn killed_and_copy(folder: &Path) {
    let mut store = filled(folder);
    let mut copy = backup::take(&store.path(), store.first_open().unwrap()).unwrap();
    let mut bytes = Vec::new();
    copy.file.read_to_end(&mut bytes).unwrap();
    fs::write(copy_in(folder), bytes).unwrap();
    store_object(&mut store, "since", &Acts::untold(folder)).unwrap();
}

fn restore_now(folder: &Path) -> anyhow::Result<()> {
    let copy = copy_in(folder);
    backup::restore(&copy, &metadata_in(folder), Incomplete::Refuse, true).map(drop)
}

pub fn restore(folder: &Path, acts: &mut Acts) {
    acts.begin();
    acts.step(|| restore_now(folder).map_err(|error| format!("{error:#}")));
}

/// Which metadata are in place, and which are beside them.
pub fn look_at_restored(folder: &Path) -> Result<State, String> {
    let mut found = look_at_metadata(folder);
    if found.as_ref().is_err_and(|why| why.contains("was copied while a coordinator had it open")) {
        // It says that something is missing, and the operator who was interrupted goes on.
        restore_now(folder).map_err(|error| format!("{error:#}"))?;
        found = look_at_metadata(folder);
    }
    let state = found?;
    let aside = metadata_in(folder).join("metadata.db.replaced-1");
    let mut replaced = None;
    if aside.exists() {
        let again = disk::folder();
        let at = |name: &str| metadata_in(again.path()).join(name);
        fs::create_dir(metadata_in(again.path())).unwrap();
        fs::copy(&aside, at("metadata.db")).unwrap();
        let _ = fs::copy(format!("{}-wal", aside.display()), at("metadata.db-wal"));
        let found = look_at_metadata(again.path()).map_err(|why| format!("replaced: {why}"))?;
        replaced = Some(found.things);
    }
    let all = format!("{:?}, and beside it {replaced:?}", state.things);
    Ok(State { things: BTreeMap::from([("all".to_string(), all)]), floors: state.floors })
}

/// What a coordinator finds that starts here.
pub fn look_at_metadata(folder: &Path) -> Result<State, String> {
    let dir = metadata_in(folder);
    let text = |error: MetadataError| error.to_string();
    let open = MetadataStore::open(&dir, Incomplete::Refuse);
    let mut store = open.map_err(|error| format!("{error:#}"))?;
    let mut things = BTreeMap::new();
    for object in store.objects("", "", 100).map_err(text)? {
        let mut stripes = store.object_stripes(&object.name, 0, 100).map_err(text)?;
        // Which ids are given out depends on what failed before.
        let first = stripes.first().map_or(0, |entry| entry.stripe.id.0);
        stripes.iter_mut().for_each(|entry| entry.stripe.id.0 -= first);
        things.insert(format!("object {}", object.name), format!("{object:?} {stripes:?}"));
    }
    things.insert("paused".to_string(), store.intent().map_err(text)?.paused.to_string());
    for node in store.nodes().map_err(text)? {
        things.insert(format!("node {}", node.id), format!("{node:?}"));
    }
    let put = store.begin_put("probe").map_err(text)?;
    let next = store.reserve_stripes(put, 1).map_err(text)?[0].0;
    let floors = BTreeMap::from([
        ("next stripe".to_string(), next),
        ("next epoch".to_string(), store.epoch().into()),
    ]);
    for path in files_in(&dir) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_known =
            matches!(name.as_str(), "metadata.db" | "metadata.db-wal" | "metadata.db-shm");
        let is_kept = [".replaced-", ".schema-"].iter().any(|kept| name.contains(kept));
        if !is_known && !is_kept {
            return Err(format!("'{name}' was left behind"));
        }
    }
    Ok(State { things, floors })
}
