//! Metadata in which the disk has changed something.

use suture_repair::event::KnownFault;

use super::*;

/// Changes what is recorded as a disk does that flips a bit: sums stay as they were.
fn damage(store: &MetadataStore, change: &str) {
    store.database.pragma_update(None, "foreign_keys", false).unwrap();
    assert_eq!(store.database.execute(change, []).unwrap(), 1, "{change}");
    store.database.pragma_update(None, "foreign_keys", true).unwrap();
}

/// Whether no copies of these stripes are deleted as orphans.
fn are_kept(store: &MetadataStore, ids: &[StripeId]) -> bool {
    let unknown = store.unknown().unwrap();
    ids.iter().all(|id| unknown.iter().any(|range| range.contains(*id)))
}

const CHANGES: [&str; 17] = [
    "UPDATE object SET name = 'y' WHERE name = 'x'",
    "UPDATE object SET bytes = bytes + 1 WHERE name = 'x'",
    "UPDATE object SET code = 'rs(2,2)' WHERE name = 'x'",
    "UPDATE object SET code = 'rs(' WHERE name = 'x'",
    "UPDATE object SET chunk_bytes = 256 WHERE name = 'x'",
    "UPDATE object SET checksum = checksum + 4 WHERE name = 'x'",
    "UPDATE object SET created = created + 1 WHERE name = 'x'",
    "UPDATE stripe SET object = 77 WHERE ordinal = 1 AND object = 1",
    "UPDATE stripe SET ordinal = 4 WHERE ordinal = 1 AND object = 1",
    "UPDATE stripe SET generation = 1 WHERE ordinal = 1 AND object = 1",
    "UPDATE stripe SET data_bytes = 255 WHERE ordinal = 1 AND object = 1",
    "UPDATE stripe SET checksum = checksum + 1 WHERE ordinal = 1 AND object = 1",
    "UPDATE stripe SET id = 1000 WHERE ordinal = 1 AND object = 1",
    "UPDATE chunk SET node = 3 WHERE stripe = 1 AND idx = 2",
    "UPDATE chunk SET stamp = stamp + 8 WHERE stripe = 1 AND idx = 0",
    "UPDATE chunk SET crc = crc - 1 WHERE stripe = 1 AND idx = 1",
    "DELETE FROM chunk WHERE stripe = 1 AND idx = 2",
];

#[test]
fn a_flipped_bit_is_found_before_anybody_acts_on_it_and_made_again() {
    for change in CHANGES {
        let (dir, mut store) = store();
        let ids = put(&mut store, "x", 3);
        let other = put(&mut store, "other", 2);
        damage(&store, change);
        // Also while it runs: a reader of the whole object meets it.
        let is_object_whole = store.object("x").is_ok();
        let is_whole = store.object_stripes("x", 0, 9).is_ok_and(|found| found.len() == 3);
        assert!(!(is_object_whole && is_whole), "{change}");
        let mut store = crash(store, dir.path());
        let why = store.stripes().unwrap_err().to_string();
        assert!(why.contains("suture metadata rebuild"), "{change}: {why}");

        store.set_damaged_aside();
        let good: Vec<StripeId> = store.stripes().unwrap().iter().map(|s| s.id).collect();
        assert_eq!(good, other, "{change}");
        assert!(are_kept(&store, &ids), "{change}: {:?}", store.unknown());
        assert_eq!(store.stripe_ids().unwrap(), other.iter().copied().collect(), "{change}");
        let entries = ids.iter().copied().map(stripe).collect();
        let found = [(object("x", 3 * 2 * CHUNK_BYTES), entries)];
        let added = store.add_found(&found, Leftovers::Keep).unwrap();
        assert_eq!((added.objects, added.renamed.len()), (1, 0), "{change}");
        let mut store = crash(store, dir.path());
        assert_eq!(store.stripes().unwrap().len(), 5, "{change}");
        assert_eq!(store.object("x").unwrap(), object("x", 3 * 2 * CHUNK_BYTES), "{change}");
    }
}

#[test]
fn what_is_damaged_is_not_copied_and_no_copy_of_it_is_taken_for_a_good_one() {
    let changes = CHANGES.into_iter().chain(["UPDATE cluster SET next_stripe = next_stripe - 1"]);
    for change in changes {
        let (dir, mut store) = store();
        put(&mut store, "x", 3);
        put(&mut store, "other", 2);
        backup::take(&store.path(), StripeId(0)).unwrap();
        damage(&store, change);
        let why = backup::take(&store.path(), StripeId(0)).unwrap_err();
        let is_damage = matches!(why.downcast_ref(), Some(MetadataError::Damaged(_)));
        assert!(is_damage && why.to_string().contains("no backup is made"), "{change}: {why}");
        store.close().unwrap();
        let copy = dir.path().join("copy.db");
        std::fs::copy(store.path(), &copy).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let restore = |incomplete| backup::restore(&copy, elsewhere.path(), incomplete, false);
        let why = restore(Incomplete::Refuse).unwrap_err().to_string();
        assert!(why.contains("is damaged") && why.contains("--accept-copy"), "{change}: {why}");
        assert!(restore(Incomplete::Accept).is_ok(), "{change}");
    }
}

#[test]
fn stripes_of_a_damaged_object_that_is_not_found_again_are_nobodys_to_delete() {
    let (dir, mut store) = store();
    let ids = put(&mut store, "x", 3);
    put(&mut store, "other", 1);
    damage(&store, CHANGES[5]);
    let mut store = crash(store, dir.path());
    store.set_damaged_aside();
    store.stripes().unwrap();
    assert!(are_kept(&store, &ids), "before any agent lists what it holds");
    assert_eq!(store.add_found(&[], Leftovers::Keep).unwrap().damaged, 1);
    assert!(are_kept(&store, &ids));
}

#[test]
fn a_location_that_changes_gets_a_new_sum_and_a_damaged_stripe_none() {
    let (dir, mut store) = store();
    let id = put(&mut store, "x", 1)[0];
    store.commit_location(&commit(id, 0, 3, 0)).unwrap();
    let mut store = crash(store, dir.path());
    assert_eq!(store.stripes().unwrap()[0].chunks[0].node, Some(NodeId(3)));
    damage(&store, "UPDATE chunk SET crc = crc - 1 WHERE stripe = 0 AND idx = 1");
    store.commit_location(&commit(id, 1, 0, 1)).unwrap_err();
    crash(store, dir.path()).stripes().unwrap_err();
}

#[test]
fn what_an_older_version_wrote_gets_its_sums_at_the_start() {
    let (dir, mut store) = store();
    put(&mut store, "x", 2);
    store.protect(StripeId(9)).unwrap();
    let wipe = |table: &str| format!("UPDATE {table} SET sum = NULL");
    let wiped = ["object", "stripe", "cluster", "unknown"].map(wipe);
    wiped.iter().for_each(|wipe| assert!(store.database.execute(wipe, []).unwrap() > 0, "{wipe}"));
    let mut store = crash(store, dir.path());
    store.stripes().unwrap();
    damage(&store, "UPDATE unknown SET below = below - 1");
    let mut store = crash(store, dir.path());
    assert!(are_kept(&store, &[StripeId(8)]));
    damage(&store, CHANGES[9]);
    store = crash(store, dir.path());
    store.stripes().unwrap_err();
    damage(&store, "UPDATE cluster SET committed = committed + 2");
    drop(store);
    open(dir.path()).unwrap_err();
}

#[test]
fn where_a_range_of_others_is_damaged_every_stripe_without_a_record_is_kept() {
    let changes = [
        "UPDATE unknown SET first = first + 64",
        "UPDATE unknown SET below = below - 8",
        "UPDATE unknown SET sum = sum + 1",
    ];
    for change in changes {
        let (dir, mut store) = store();
        put(&mut store, "x", 2);
        let others: Vec<StripeId> = (2..40).map(StripeId).collect();
        store.protect(StripeId(40)).unwrap();
        assert!(are_kept(&store, &others) && !are_kept(&store, &[StripeId(0)]));
        // Over a start, ranges that are as they were written are accepted.
        let store = crash(store, dir.path());
        assert!(are_kept(&store, &others) && !are_kept(&store, &[StripeId(0)]));
        damage(&store, change);
        let store = crash(store, dir.path());
        assert!(are_kept(&store, &others), "{change}: {:?}", store.unknown());
        let mut store = crash(store, dir.path());
        assert!(are_kept(&store, &others), "{change}: {:?}", store.unknown());
        assert_eq!(store.stripes().unwrap().len(), 2, "{change}");
    }
}

#[test]
fn a_damaged_record_of_the_cluster_is_refused_and_another_way_is_named() {
    let changes = [
        "UPDATE cluster SET id = id + 1",
        "UPDATE cluster SET epoch = epoch - 128",
        "UPDATE cluster SET next_stripe = next_stripe + 1024",
        "UPDATE cluster SET committed = committed + 2",
    ];
    for change in changes {
        let (dir, mut store) = store();
        put(&mut store, "x", 2);
        store.outrank("n0", Remembered { epoch: 7, committed: 0, mark: None }).unwrap();
        let mut store = crash(store, dir.path());
        let open_put = store.begin_put("y").unwrap();
        damage(&store, change);
        // While it runs nothing is built on it, and it does not get a sum that fits.
        let why = store.reserve_stripes(open_put, 1).unwrap_err().to_string();
        assert!(why.contains("checksum") && why.contains("suture metadata rebuild"), "{why}");
        store.outrank("n1", Remembered { epoch: 99, committed: 99, mark: None }).unwrap_err();
        drop(store);
        let why = format!("{:#}", open(dir.path()).unwrap_err());
        assert!(why.contains("damaged") && why.contains("suture metadata rebuild"), "{why}");
    }
}

#[test]
fn what_is_wrong_with_a_copy_is_announced_until_it_is_good_or_another_one_is_recorded() {
    let (dir, mut store) = store();
    let ids = put(&mut store, "x", 2);
    let copy = |chunk: u8| {
        let stamp = store.stripes().unwrap()[0].chunks[usize::from(chunk)].stamp;
        ChunkCopy { stripe: ids[0], chunk: ChunkIndex(chunk), stamp }
    };
    let copies = [0, 1, 2].map(copy);
    for (copy, fault) in copies.into_iter().zip(KnownFault::ALL) {
        store.note_fault(NodeId(copy.chunk.0.into()), copy, Some(fault)).unwrap();
    }
    // Of copies that are not recorded nothing is kept.
    store.note_fault(NodeId(3), copies[0], Some(KnownFault::Unreadable)).unwrap();
    let other = ChunkCopy { stamp: Stamp(77), ..copies[0] };
    store.note_fault(NodeId(0), other, Some(KnownFault::Unreadable)).unwrap();
    let announced = |store: &mut MetadataStore| {
        store.take_changes();
        store.announce_faults().unwrap();
        let faults = store.take_changes().into_iter().filter_map(|change| match change {
            Input::Faulty { node, copy, fault } => Some((node, copy, fault)),
            _ => None,
        });
        faults.collect::<Vec<_>>()
    };
    let known = copies.into_iter().zip(KnownFault::ALL);
    let known: Vec<_> = known.map(|(c, fault)| (NodeId(c.chunk.0.into()), c, fault)).collect();
    let mut store = crash(store, dir.path());
    assert_eq!(announced(&mut store), known);
    store.note_fault(NodeId(1), copies[1], None).unwrap();
    store.commit_location(&commit(ids[0], 0, 3, 0)).unwrap();
    assert_eq!(announced(&mut store), known[2..]);
    assert_eq!(store.stripes().unwrap().len(), 2, "sums are as they were");
}
