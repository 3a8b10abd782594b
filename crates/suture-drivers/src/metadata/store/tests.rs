//! The metadata under everything that may happen to them: refusals, crashes, and two at a time.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use suture_repair::event::{Command, Commit, Input, NodeState};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId, StripeRange,
};
use suture_repair::keeper::Keeper;
use suture_repair::keeper::conformance::{self, Kept};
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::Span;
use tempfile::TempDir;

use super::*;
use crate::metadata::backup;

mod copies;
mod damaged;
mod older;

const CHUNK_BYTES: u64 = 128;

fn open(dir: &Path) -> Result<MetadataStore> {
    MetadataStore::open(dir, Incomplete::Refuse)
}

/// A store with four nodes.
fn store() -> (TempDir, MetadataStore) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path()).unwrap();
    for name in ["a", "b", "c", "d"] {
        store.join(&node(name)).unwrap();
    }
    (dir, store)
}

fn node(name: &str) -> NewNode {
    let address = format!("127.0.0.1:{}", 7000 + name.len());
    let (uplink, downlink) = (1e6, 2e6);
    let name = name.into();
    NewNode { name, rack: None, address, uplink, downlink, store: None, processor: None }
}

/// Ends the store as a crash does: nothing is reported, nothing is closed in order.
fn crash(store: MetadataStore, dir: &Path) -> MetadataStore {
    drop(store);
    open(dir).unwrap()
}

fn object(name: &str, bytes: u64) -> Object {
    Object {
        name: name.into(),
        bytes,
        code: "rs(2,1)".parse().unwrap(),
        chunk_bytes: CHUNK_BYTES,
        // Bits that a signed number has elsewhere.
        checksum: 0xfedc_ba98_7654_3210,
        created: 1_700_000_000,
    }
}

fn stripe(id: StripeId) -> ObjectStripe {
    let record = |node| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(0),
        bytes: CHUNK_BYTES,
        crc: Some(u32::MAX),
    };
    let stripe = Stripe {
        id,
        code: "rs(2,1)".parse().unwrap(),
        chunk_bytes: CHUNK_BYTES,
        unit_bytes: CHUNK_BYTES,
        generation: Generation(0),
        chunks: vec![record(0), record(1), record(2)],
    };
    ObjectStripe { stripe, data_bytes: 2 * CHUNK_BYTES, checksum: Some(id.0) }
}

/// Stores an object of so many stripes.
fn put(store: &mut MetadataStore, name: &str, stripes: u32) -> Vec<StripeId> {
    let id = store.begin_put(name).unwrap();
    let ids = store.reserve_stripes(id, stripes).unwrap();
    let bytes = u64::from(stripes) * 2 * CHUNK_BYTES;
    let entries = ids.iter().copied().map(stripe).collect();
    store.commit_put(id, &object(name, bytes), entries).unwrap();
    ids
}

fn commit(stripe: StripeId, chunk: u8, node: u32, generation: u64) -> Commit {
    let repair = RepairId::new(1, 7);
    let copy = ChunkCopy { stripe, chunk: ChunkIndex(chunk), stamp: repair.into() };
    Commit { repair, copy, node: NodeId(node), generation: Generation(generation), clears: None }
}

fn last_change(store: &mut MetadataStore) -> Input {
    store.take_changes().pop().expect("something changed")
}

#[test]
fn every_start_begins_an_epoch_and_keeps_the_cluster() {
    let (dir, store) = store();
    let (cluster, epoch) = (store.cluster(), store.epoch());
    assert_eq!(epoch, 1);
    let store = crash(store, dir.path());
    assert_eq!((store.cluster(), store.epoch()), (cluster, 2));
}

#[test]
fn a_node_that_holds_nothing_can_be_removed_and_joins_again_as_the_same() {
    let (dir, mut store) = store();
    let (holder, idle) = (NodeId(0), NodeId(3));
    put(&mut store, "it", 1);
    let held = store.remove_nodes(&[idle, holder]);
    assert!(matches!(held, Err(MetadataError::NodeHolds { node, chunks: 1 }) if node == holder));
    store.remove_nodes(&[idle]).unwrap();
    assert!(matches!(last_change(&mut store), Input::Operator(Command::FailNode(n)) if n == idle));
    let mut store = crash(store, dir.path());
    let intent = store.intent().unwrap();
    assert_eq!((intent.failed, intent.removed), (vec![idle], vec![idle]));
    assert_eq!(store.join(&node("d")).unwrap(), idle);
    let back = last_change(&mut store);
    assert!(matches!(back, Input::Operator(Command::ReturnNode(node)) if node == idle));
    assert_eq!(store.intent().unwrap(), Intent::default());
    assert_eq!(store.nodes().unwrap().len(), 4);
}

/// A copy of the metadata without its log, as of a user who knows of one file only.
fn copy_without_log(from: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(from.join("metadata.db"), copy.path().join("metadata.db")).unwrap();
    copy
}

#[test]
fn the_file_alone_is_whole_after_a_close_and_refused_before() {
    let (dir, mut store) = store();
    let open_copy = copy_without_log(dir.path());
    store.close().unwrap();
    let whole = copy_without_log(dir.path());
    drop(store);
    let store = open(whole.path()).unwrap();
    assert_eq!(store.nodes().unwrap().len(), 4);
    drop(store);
    open(dir.path()).unwrap();

    let refused = open(open_copy.path()).unwrap_err().to_string();
    for part in ["metadata.db-wal", "--accept-copy"] {
        assert!(refused.contains(part), "{refused}");
    }
    let again = open(open_copy.path()).unwrap_err().to_string();
    assert_eq!(again, refused, "a refusal changes nothing");
    let store = MetadataStore::open(open_copy.path(), Incomplete::Accept).unwrap();
    assert_eq!((store.epoch(), store.nodes().unwrap().len()), (2, 0));
    drop(store);
    open(open_copy.path()).unwrap();
}

#[test]
fn the_log_is_folded_in_when_nothing_is_asked() {
    let (dir, mut store) = store();
    store.fold_log(false).unwrap();
    let before = copy_without_log(dir.path());
    store.fold_log(true).unwrap();
    let after = copy_without_log(dir.path());
    let nodes = |copy: &TempDir| {
        let store = MetadataStore::open(copy.path(), Incomplete::Accept).unwrap();
        store.nodes().unwrap().len()
    };
    assert_eq!((nodes(&before), nodes(&after)), (0, 4));
}

#[test]
fn a_part_of_the_metadata_is_not_taken_for_an_empty_cluster() {
    let (dir, mut store) = store();
    store.close().unwrap();
    drop(store);
    std::fs::remove_file(dir.path().join("metadata.db-wal")).unwrap();
    let path = dir.path().join("metadata.db");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, []).unwrap();
    let empty = format!("{:#}", open(dir.path()).unwrap_err());
    assert!(empty.contains("is empty") && empty.contains("metadata.db-wal"), "{empty}");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let half = format!("{:#}", open(dir.path()).unwrap_err());
    assert!(half.contains("malformed") || half.contains("damaged"), "{half}");
    std::fs::remove_file(&path).unwrap();
    let log = dir.path().join("metadata.db-wal");
    std::fs::write(&log, "what is left").unwrap();
    let missing = format!("{:#}", open(dir.path()).unwrap_err());
    assert!(missing.contains("is missing beside"), "{missing}");
    assert!(!path.exists() && log.exists(), "nothing is made or removed");
    std::fs::remove_file(&log).unwrap();
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open(dir.path()).unwrap().nodes().unwrap().len(), 4);
}

#[test]
fn a_node_that_joins_again_keeps_its_id_and_brings_its_new_address() {
    let (dir, mut store) = store();
    let moved = NewNode { address: "127.0.0.1:9999".into(), ..node("b") };
    assert_eq!(store.join(&moved).unwrap(), NodeId(1));
    assert_eq!(store.join(&node("e")).unwrap(), NodeId(4));
    let nodes = crash(store, dir.path()).nodes().unwrap();
    assert_eq!(nodes.len(), 5);
    assert!(nodes.iter().enumerate().all(|(index, record)| record.id.index() == index));
    assert_eq!(nodes[1].node, moved);
}

#[test]
fn a_node_keeps_its_rack_until_it_says_another_or_none() {
    let (dir, mut store) = store();
    for rack in [Some("r1"), Some("r2"), None] {
        let said = NewNode { rack: rack.map(str::to_string), ..node("b") };
        store.join(&said).unwrap();
        let Input::NodeAdded { id, rack: named, .. } = last_change(&mut store) else { panic!() };
        assert_eq!((id, named.as_deref()), (NodeId(1), rack));
        store = crash(store, dir.path());
        assert_eq!(store.nodes().unwrap()[1].node, said);
    }
}

#[test]
fn a_file_of_version_1_keeps_everything_and_its_nodes_have_no_rack() {
    let dir = tempfile::tempdir().unwrap();
    let old = schema::create_first(dir.path());
    old.execute_batch(
        "INSERT INTO cluster VALUES (1, -77, 4, 9, 1);
         INSERT INTO node VALUES (0, 'a', '127.0.0.1:7001', 1e6, 2e6, 0),
             (1, 'b', '127.0.0.1:7001', 1e6, 2e6, 1), (2, 'c', '127.0.0.1:7001', 1e6, 2e6, 0);
         INSERT INTO object VALUES (5, 'x', 256, 'rs(2,1)', 128, -81985529216486896, 1700000000);
         INSERT INTO stripe VALUES (8, 5, 0, 'rs(2,1)', 128, 256, 0);
         INSERT INTO chunk VALUES (8, 0, 0, 0, 4294967295), (8, 1, 1, 0, 4294967295),
             (8, 2, 2, 0, 4294967295);",
    )
    .unwrap();
    drop(old);
    let store = open(dir.path()).unwrap();
    assert_eq!((store.cluster(), store.epoch()), (ClusterId(-77i64 as u64), 5));
    assert_eq!(
        store.intent().unwrap(),
        Intent { paused: true, failed: vec![NodeId(1)], ..Intent::default() }
    );
    let nodes: Vec<NewNode> = store.nodes().unwrap().into_iter().map(|known| known.node).collect();
    assert_eq!(nodes, ["a", "b", "c"].map(node));
    assert_eq!(store.object("x").unwrap(), object("x", 256));
    let before_checksums = ObjectStripe { checksum: None, ..stripe(StripeId(8)) };
    assert_eq!(store.object_stripes("x", 0, 10).unwrap(), std::slice::from_ref(&before_checksums));
    assert!(store.label(&before_checksums.stripe).unwrap().is_empty());
    let mut store = crash(store, dir.path());
    let moved = NewNode { rack: Some("r1".into()), ..node("a") };
    store.join(&moved).unwrap();
    assert_eq!(store.nodes().unwrap()[0].node, moved);
}

#[test]
fn a_name_belongs_to_its_store_until_an_operator_gives_it_to_the_next() {
    let (dir, mut metadata) = store();
    let of = |store| NewNode { store: Some(StoreId(store)), ..node("b") };
    // Nothing is known of its store yet: the first that is announced has the name.
    assert_eq!(metadata.join(&of(1)).unwrap(), NodeId(1));
    let mut metadata = crash(metadata, dir.path());
    for other in [of(2), node("b")] {
        let refused = metadata.join(&other).unwrap_err();
        assert!(matches!(refused, MetadataError::OtherStore(_)), "{refused}");
        assert!(refused.to_string().contains("suture node replace b"), "{refused}");
    }
    // The store that has it takes the permission back by joining.
    metadata.replace_nodes(&[NodeId(1)]).unwrap();
    assert_eq!(metadata.intent().unwrap().replaced, ["b"]);
    metadata.join(&of(1)).unwrap();
    assert_eq!(metadata.intent().unwrap(), Intent::default());
    metadata.join(&of(2)).unwrap_err();

    metadata.replace_nodes(&[NodeId(1)]).unwrap();
    let mut metadata = crash(metadata, dir.path());
    assert_eq!(metadata.join(&of(2)).unwrap(), NodeId(1));
    metadata.join(&of(1)).unwrap_err();
    metadata.remove_nodes(&[NodeId(1)]).unwrap();
    assert_eq!(metadata.join(&of(3)).unwrap(), NodeId(1), "a removed node has no store");
}

#[test]
fn what_was_recorded_under_a_name_that_was_given_away_is_gone_until_its_store_lists_it() {
    let (dir, mut metadata) = store();
    let of = |store| NewNode { store: Some(StoreId(store)), ..node("b") };
    metadata.join(&of(1)).unwrap();
    put(&mut metadata, "x", 1);
    metadata.join(&of(1)).unwrap();
    assert_eq!(metadata.intent().unwrap(), Intent::default(), "it is its own");
    let taken = |metadata: &MetadataStore| metadata.intent().unwrap().taken;
    metadata.replace_nodes(&[NodeId(1)]).unwrap();
    assert_eq!(taken(&metadata), [], "nobody has it yet");
    metadata.join(&of(2)).unwrap();
    let mut metadata = crash(metadata, dir.path());
    assert_eq!(taken(&metadata), [NodeId(1)]);
    assert_eq!(metadata.intent().unwrap().replaced, [""; 0], "it is not free any more");
    metadata.join(&of(3)).unwrap_err();
    metadata.join(&of(2)).unwrap();
    assert_eq!(taken(&metadata), [NodeId(1)], "to join is not to list");
    metadata.note_whole(NodeId(1)).unwrap();
    assert_eq!(metadata.intent().unwrap(), Intent::default());
    // Whichever store joins next has to list them, also the one that had it.
    metadata.replace_nodes(&[NodeId(1)]).unwrap();
    metadata.note_whole(NodeId(1)).unwrap();
    assert_eq!(metadata.intent().unwrap().replaced, ["b"], "what is listed late changes nothing");
    metadata.join(&of(2)).unwrap();
    assert_eq!(taken(&metadata), [NodeId(1)]);
    // A node without chunks has nothing to list.
    metadata.replace_nodes(&[NodeId(3)]).unwrap();
    metadata.join(&NewNode { store: Some(StoreId(9)), ..node("d") }).unwrap();
    assert_eq!(taken(&metadata), [NodeId(1)]);
}

#[test]
fn what_the_operator_wants_outlives_a_crash() {
    let (dir, mut store) = store();
    store.set_paused(true).unwrap();
    store.set_node_intent(NodeId(2), KeptIntent::Failed).unwrap();
    store.set_node_intent(NodeId(0), KeptIntent::Draining).unwrap();
    store.set_node_intent(NodeId(1), KeptIntent::Paused { until: 77 }).unwrap();
    let mut store = crash(store, dir.path());
    let expected = Intent {
        paused: true,
        failed: vec![NodeId(2)],
        draining: vec![NodeId(0)],
        paused_nodes: vec![(NodeId(1), 77)],
        ..Intent::default()
    };
    assert_eq!(store.intent().unwrap(), expected);
    store.set_paused(false).unwrap();
    for node in 0..3 {
        store.set_node_intent(NodeId(node), KeptIntent::Serving).unwrap();
    }
    assert_eq!(store.intent().unwrap(), Intent::default());
}

#[test]
fn an_object_is_visible_whole_or_not_at_all() {
    let (dir, mut store) = store();
    let id = store.begin_put("x").unwrap();
    let ids = store.reserve_stripes(id, 2).unwrap();
    assert!(matches!(store.object("x"), Err(MetadataError::NoSuchObject(_))));
    // The second stripe names a node that does not exist: all of the put is refused.
    let mut entries: Vec<ObjectStripe> = ids.iter().copied().map(stripe).collect();
    entries[1].stripe.chunks[0].node = Some(NodeId(77));
    let refused = store.commit_put(id, &object("x", 4 * CHUNK_BYTES), entries);
    assert!(matches!(refused, Err(MetadataError::Database(_))), "{refused:?}");
    let mut store = crash(store, dir.path());
    assert!(matches!(store.object("x"), Err(MetadataError::NoSuchObject(_))));
    assert!(store.stripes().unwrap().is_empty());
}

#[test]
fn a_committed_object_comes_back_as_it_was_after_a_crash() {
    let (dir, mut store) = store();
    let ids = put(&mut store, "x", 3);
    let changes = store.take_changes();
    let added = changes.iter().filter(|change| matches!(change, Input::StripeAdded(_))).count();
    assert_eq!(added, 3);
    assert!(
        matches!(changes.last(), Some(Input::StripesReserved { writing, .. }) if writing.is_empty())
    );
    let store = crash(store, dir.path());
    assert_eq!(store.object("x").unwrap(), object("x", 6 * CHUNK_BYTES));
    let expected: Vec<ObjectStripe> = ids.iter().copied().map(stripe).collect();
    assert_eq!(store.object_stripes("x", 0, 10).unwrap(), expected);
    assert_eq!(store.object_stripes("x", 1, 1).unwrap(), expected[1..2]);
    assert_eq!(store.names_of(&ids[..1]).unwrap().into_values().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn stripe_ids_are_never_given_out_twice_not_even_after_a_crash() {
    let (dir, mut store) = store();
    let id = store.begin_put("x").unwrap();
    let first = store.reserve_stripes(id, 10).unwrap();
    let Input::StripesReserved { below, writing } = last_change(&mut store) else { panic!() };
    assert_eq!((below, writing), (StripeId(10), first));
    let mut store = crash(store, dir.path());
    store.announce_reserved().unwrap();
    let Input::StripesReserved { below, writing } = last_change(&mut store) else { panic!() };
    assert_eq!((below >= StripeId(10), writing), (true, vec![]));
    let id = store.begin_put("x").unwrap();
    assert_eq!(store.reserve_stripes(id, 1).unwrap(), [below]);
}

#[test]
fn names_are_never_overwritten_and_never_written_twice_at_once() {
    let (_dir, mut store) = store();
    put(&mut store, "x", 1);
    assert!(matches!(store.begin_put("x"), Err(MetadataError::NameTaken(_))));
    let id = store.begin_put("y").unwrap();
    assert!(matches!(store.begin_put("y"), Err(MetadataError::BeingWritten(_))));
    store.end_put(id).unwrap();
    store.begin_put("y").unwrap();
    assert!(matches!(store.reserve_stripes(id, 1), Err(MetadataError::PutEnded)));
}

#[test]
fn an_overwritten_object_goes_with_the_commit_of_the_next_and_not_before() {
    let (_dir, mut store) = store();
    let old = put(&mut store, "x", 2);
    let id = store.begin_overwrite("x").unwrap();
    assert!(matches!(store.begin_overwrite("x"), Err(MetadataError::BeingWritten(_))));
    let new = store.reserve_stripes(id, 1).unwrap();
    assert_eq!(store.stripes_of("x").unwrap(), old);
    store.take_changes();
    refuse_commits(&mut store, true);
    let object = object("x", 256);
    store.commit_put(id, &object, vec![stripe(new[0])]).unwrap_err();
    assert_eq!(store.stripes_of("x").unwrap(), old, "the commit failed");
    refuse_commits(&mut store, false);
    store.take_changes();
    store.commit_put(id, &object, vec![stripe(new[0])]).unwrap();
    assert_eq!(store.stripes_of("x").unwrap(), new);
    let changes = store.take_changes();
    let removed = |id: &StripeId| {
        changes.iter().any(|change| matches!(change, Input::StripeRemoved(gone) if gone == id))
    };
    assert!(old.iter().all(removed) && !removed(&new[0]), "{changes:?}");
    // Where there is none of its name, it is a put like any other.
    let id = store.begin_overwrite("y").unwrap();
    let ids = store.reserve_stripes(id, 1).unwrap();
    store.commit_put(id, &self::object("y", 256), vec![stripe(ids[0])]).unwrap();
    assert_eq!(store.stripes_of("y").unwrap(), ids);
}

#[test]
fn a_put_commits_only_what_it_was_given_and_enough_of_it() {
    let (_dir, mut store) = store();
    let id = store.begin_put("x").unwrap();
    let ids = store.reserve_stripes(id, 1).unwrap();
    let good = || stripe(ids[0]);
    let lacking = |node| {
        let mut entry = good();
        entry.stripe.chunks[2].node = node;
        entry
    };
    let whole = object("x", 2 * CHUNK_BYTES);
    for (object, entry, word) in [
        (&whole, stripe(StripeId(99)), "not given"),
        (&whole, lacking(None), "needs 3"),
        (&whole, lacking(Some(NodeId(0))), "distinct"),
        (&whole, ObjectStripe { data_bytes: 1, ..good() }, "hold 1 bytes"),
        (&object("y", 2 * CHUNK_BYTES), good(), "ends as 'y'"),
    ] {
        let error = store.commit_put(id, object, vec![entry]).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    store.commit_put(id, &whole, vec![good()]).unwrap();
}

#[test]
fn a_location_changes_only_from_the_generation_that_the_repair_knew() {
    let (dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    store.commit_location(&commit(id, 0, 3, 0)).unwrap();
    let Input::Committed { repair, stripe } = last_change(&mut store) else { panic!() };
    assert_eq!((repair, stripe.generation), (RepairId::new(1, 7), Generation(1)));
    assert_eq!(stripe.chunks[0].node, Some(NodeId(3)));
    assert_eq!(stripe.chunks[0].stamp, RepairId::new(1, 7).into());
    assert_eq!(stripe.chunks[0].crc, Some(u32::MAX));

    // Another repair that knew the stripe as it was before.
    store.commit_location(&commit(id, 1, 0, 0)).unwrap();
    let Input::CommitRefused { stripe: Some(found), .. } = last_change(&mut store) else {
        panic!()
    };
    assert_eq!(found, stripe);
    let after = crash(store, dir.path()).stripes().unwrap();
    assert_eq!(after, [stripe]);
}

#[test]
fn a_commit_that_is_asked_again_gets_its_first_answer() {
    let (_dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    for _ in 0..2 {
        store.commit_location(&commit(id, 0, 3, 0)).unwrap();
        let Input::Committed { stripe, .. } = last_change(&mut store) else { panic!() };
        assert_eq!(stripe.generation, Generation(1));
    }
}

#[test]
fn a_database_that_cannot_be_written_says_so_until_it_can() {
    let (_dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    store.database.pragma_update(None, "query_only", true).unwrap();
    store.noted(|store| store.commit_location(&commit(id, 0, 3, 0))).unwrap_err();
    assert!(store.fault().unwrap().contains("readonly"), "{:?}", store.fault());
    store.check_writable();
    assert!(store.fault().is_some() && store.is_faulty().load(Ordering::Relaxed));
    store.noted(|store| store.intent()).unwrap();
    assert!(store.fault().is_some(), "nothing was written");
    store.database.pragma_update(None, "query_only", false).unwrap();
    store.check_writable();
    assert_eq!(store.fault(), None);
    store.noted(|store| store.commit_location(&commit(id, 0, 3, 0))).unwrap();
    assert!(!store.is_faulty().load(Ordering::Relaxed));
}

#[test]
fn nothing_is_written_into_files_that_the_next_start_would_not_find() {
    for file in ["metadata.db", "metadata.db-wal"] {
        let (dir, mut store) = store();
        put(&mut store, "before", 1);
        let (path, aside) = (dir.path().join(file), dir.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        store.noted(|store| store.set_paused(true)).unwrap_err();
        assert!(store.fault().unwrap().contains("was removed, renamed or replaced"), "{file}");
        assert!(!store.is_in_place());
        let put_id = store.begin_put("lost").unwrap();
        store.reserve_stripes(put_id, 1).unwrap_err();
        let take = |database: &_, open| backup::take_by(database, &std::env::temp_dir(), open);
        assert_eq!(store.rescue(take).unwrap().contents.objects, 1);
        // Another file under its name is no better.
        fs::copy(&aside, &path).unwrap();
        store.check_writable();
        store.noted(|store| store.set_paused(true)).unwrap_err();
        fs::rename(&aside, &path).unwrap();
        store.check_writable();
        assert_eq!(store.fault(), None);
        store.noted(|store| store.set_paused(true)).unwrap();
    }
}

/// A copy that was found is on a node where another chunk is recorded that is missing there.
#[test]
fn a_commit_takes_the_location_of_the_chunk_that_it_clears_and_of_no_other() {
    let (dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    let clearing = |chunk| Commit { clears: Some(ChunkIndex(chunk)), ..commit(id, 0, 1, 0) };
    // Chunk 1 is on node 1, chunk 2 is not, and nothing else is.
    for other in [2, 9] {
        store.commit_location(&clearing(other)).unwrap();
        let change = last_change(&mut store);
        let Input::CommitRefused { stripe: Some(found), .. } = change else { panic!("{change:?}") };
        assert_eq!(found, stripe(id).stripe);
    }
    store.commit_location(&clearing(1)).unwrap();
    let Input::Committed { stripe: after, .. } = last_change(&mut store) else { panic!() };
    let mut expected = stripe(id).stripe;
    expected.generation = Generation(1);
    (expected.chunks[0].node, expected.chunks[0].stamp) =
        (Some(NodeId(1)), RepairId::new(1, 7).into());
    expected.chunks[1].node = None;
    assert_eq!(after, expected);
    assert_eq!(crash(store, dir.path()).stripes().unwrap(), [after]);
}

#[test]
fn two_chunks_of_a_stripe_never_come_to_lie_on_one_node() {
    let (_dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    store.commit_location(&commit(id, 0, 1, 0)).unwrap();
    let Input::CommitRefused { stripe: Some(found), .. } = last_change(&mut store) else {
        panic!()
    };
    assert_eq!(found, stripe(id).stripe);
}

#[test]
fn a_removed_object_takes_its_stripes_along_and_refuses_their_repairs() {
    let (_dir, mut store) = store();
    let ids = put(&mut store, "x", 2);
    store.take_changes();
    let removed = store.remove("x").unwrap();
    assert_eq!(removed, Removed { stripes: 2, bytes: 4 * CHUNK_BYTES });
    let changes = store.take_changes();
    let gone: Vec<StripeId> = changes
        .iter()
        .map(|change| match change {
            Input::StripeRemoved(id) => *id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(gone, ids);
    store.commit_location(&commit(ids[0], 0, 3, 0)).unwrap();
    assert!(matches!(last_change(&mut store), Input::CommitRefused { stripe: None, .. }));
    assert!(matches!(store.remove("x"), Err(MetadataError::NoSuchObject(_))));
    assert!(store.stripes().unwrap().is_empty());
    put(&mut store, "x", 1);
}

#[test]
fn listings_come_in_pages_and_by_prefix() {
    let (_dir, mut store) = store();
    for name in ["b/2", "a", "b/1", "c%", "b/10"] {
        put(&mut store, name, 1);
    }
    let names = |prefix, after, limit| {
        let objects = store.objects(prefix, after, limit).unwrap();
        objects.into_iter().map(|object| object.name).collect::<Vec<_>>()
    };
    assert_eq!(names("", "", 100), ["a", "b/1", "b/10", "b/2", "c%"]);
    assert_eq!(names("b/", "", 2), ["b/1", "b/10"]);
    assert_eq!(names("b/", "b/10", 2), ["b/2"]);
    assert_eq!(names("c%", "", 2), ["c%"]);
    assert!(names("d", "", 2).is_empty());
}

#[test]
fn lengths_units_and_missing_checksums_are_kept() {
    let (dir, mut store) = store();
    let id = store.begin_put("short").unwrap();
    let ids = store.reserve_stripes(id, 1).unwrap();
    let mut entry = stripe(ids[0]);
    entry.stripe.unit_bytes = 512;
    entry.stripe.chunks[0].crc = None;
    (entry.stripe.chunks[1].node, entry.stripe.chunks[1].bytes) = (None, 0);
    (entry.stripe.chunks[2].bytes, entry.stripe.chunks[2].crc) = (CHUNK_BYTES, Some(0));
    let expected = entry.stripe.clone();
    store.commit_put(id, &object("short", 2 * CHUNK_BYTES), vec![entry]).unwrap();
    assert_eq!(store.stripes().unwrap(), std::slice::from_ref(&expected));
    drop(store);
    assert_eq!(open(dir.path()).unwrap().stripes().unwrap(), [expected]);
}

/// The native metadata with one stripe.
struct Native(TempDir, Option<MetadataStore>);

impl Kept for Native {
    fn keeper(&mut self) -> &mut dyn Keeper {
        self.1.as_mut().expect("it is open")
    }

    fn remove(&mut self, _stripe: StripeId) {
        self.1.as_mut().expect("it is open").remove("x").unwrap();
    }

    fn restart(&mut self) {
        self.1 = None;
        self.1 = Some(open(self.0.path()).unwrap());
    }

    /// The coordinator decides that by itself.
    fn set_node(&mut self, _node: NodeId, _state: NodeState) -> bool {
        false
    }

    fn claim_lifetime(&self) -> Span {
        super::keeper::CLAIM_LIFETIME
    }
}

#[test]
fn the_native_metadata_keeps_every_promise_of_a_keeper() {
    conformance::check(|| {
        let (dir, mut store) = store();
        store.join(&node("e")).unwrap();
        put(&mut store, "x", 1);
        Native(dir, Some(store))
    });
}

/// Lets no commit through while `refuse` holds, as a log that cannot be written does.
fn refuse_commits(store: &mut MetadataStore, refuse: bool) {
    store.database.commit_hook(refuse.then_some(|| true)).unwrap();
}

#[test]
fn nothing_is_handed_out_by_a_commit_that_failed() {
    let (dir, mut store) = store();
    let put = store.begin_put("a").unwrap();
    store.take_changes();
    refuse_commits(&mut store, true);
    store.reserve_stripes(put, 2).unwrap_err();
    store.join(&node("late")).unwrap_err();
    assert!(store.take_changes().is_empty());
    refuse_commits(&mut store, false);
    assert_eq!(store.reserve_stripes(put, 2).unwrap(), [StripeId(0), StripeId(1)]);
    assert_eq!(store.join(&node("later")).unwrap(), NodeId(4));

    refuse_commits(&mut store, true);
    restored::begin_epoch(&mut store.database).unwrap_err();
    let epoch = store.epoch();
    assert_eq!(crash(store, dir.path()).epoch(), epoch + 1);
}

#[test]
fn chunks_of_a_put_whose_commit_failed_stay_until_another_change_is_durable() {
    let (_dir, mut store) = store();
    let put = store.begin_put("x").unwrap();
    let ids = store.reserve_stripes(put, 1).unwrap();
    refuse_commits(&mut store, true);
    let object = object("x", 256);
    let failed = store.noted(|store| store.commit_put(put, &object, vec![stripe(ids[0])]));
    assert!(failed.is_err(), "{failed:?}");
    store.end_put(put).unwrap();
    let kept = |store: &mut MetadataStore| match last_change(store) {
        Input::StripesReserved { writing, .. } => writing.contains(&ids[0]),
        other => panic!("{other:?}"),
    };
    assert!(kept(&mut store), "it may be found at the next start");
    assert_eq!(store.first_open().unwrap(), ids[0], "a backup of the metadata may lack it");
    refuse_commits(&mut store, false);
    store.noted(|store| store.set_paused(false)).unwrap();
    assert!(store.fault().is_some(), "that is so already: nothing was written");
    store.announce_reserved().unwrap();
    assert!(kept(&mut store), "nothing was written in its place");
    store.check_writable();
    assert!(!kept(&mut store), "that was written in its place");
    assert_eq!(store.fault(), None);
    store.fault = Some("another one".into());
    store.check_writable();
    assert_eq!(store.fault(), None, "each time something else is written");
}

#[test]
fn ids_of_stripes_that_are_there_are_not_handed_out_whatever_the_counter_says() {
    let (dir, mut store) = store();
    let ids = put(&mut store, "a", 3);
    store.database.execute("UPDATE cluster SET next_stripe = 1, sum = NULL", []).unwrap();
    let mut store = crash(store, dir.path());
    let put = store.begin_put("b").unwrap();
    let next = store.reserve_stripes(put, 1).unwrap();
    assert!(next > ids[ids.len() - 1..].to_vec(), "{next:?}");
}

#[test]
fn pages_of_an_object_that_is_gone_are_not_those_of_the_next_one_of_its_name() {
    let (_dir, mut store) = store();
    let ids = put(&mut store, "x", 5);
    let after = store.stripes_after("x", ids[1], 2).unwrap();
    assert_eq!(after, [stripe(ids[2]), stripe(ids[3])]);
    assert_eq!(store.stripes_after("x", ids[4], 2).unwrap(), []);
    store.remove("x").unwrap();
    let again = put(&mut store, "x", 5);
    let gone = store.stripes_after("x", ids[1], 2).unwrap_err();
    assert!(matches!(gone, MetadataError::NoSuchObject(_)), "{gone}");
    assert_eq!(store.stripes_after("x", again[0], 1).unwrap(), [stripe(again[1])]);
}

#[test]
fn no_second_coordinator_gets_in_whatever_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let _first = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        if !path.to_string_lossy().contains("metadata.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let refused = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap_err().to_string();
    assert!(refused.contains("in use by another coordinator"), "{refused}");
}

fn range(from: u64, below: u64) -> StripeRange {
    StripeRange { from: StripeId(from), below: StripeId(below) }
}

#[test]
fn an_id_that_is_removed_is_no_longer_one_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path()).unwrap();
    for name in ["a", "b", "c"] {
        store.join(&node(name)).unwrap();
    }
    store.protect(StripeId(10)).unwrap();
    for (name, ids) in [("a", 3..5), ("b", 0..1), ("c", 9..10)] {
        let stripes: Vec<_> = ids.map(|id| stripe(StripeId(id))).collect();
        let bytes = stripes.iter().map(|entry| entry.data_bytes).sum();
        let found = [(object(name, bytes), stripes)];
        store.add_found(&found, Leftovers::Keep).unwrap();
    }
    assert_eq!(store.unknown().unwrap(), [range(0, 10)]);
    for name in ["a", "b", "c"] {
        store.remove(name).unwrap();
    }
    let left = [range(1, 3), range(5, 9)];
    assert_eq!(store.unknown().unwrap(), left);
}
