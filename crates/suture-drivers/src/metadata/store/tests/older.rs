//! Metadata that are older than what agents know.

use super::*;
use crate::metadata::Mark;

fn remembered(epoch: u32, committed: u64) -> Remembered {
    Remembered { epoch, committed, mark: None }
}

/// A store on a backup that is taken now.
fn begin_with_copy(store: &MetadataStore, first_open: StripeId) -> (TempDir, MetadataStore) {
    let mut copy = backup::take(&store.path(), first_open).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(dir.path().join("metadata.db")).unwrap();
    std::io::copy(&mut copy.file, &mut file).unwrap();
    let store = open(dir.path()).unwrap();
    (dir, store)
}

#[test]
fn two_that_begin_with_the_same_metadata_give_out_different_ids() {
    let (_dir, mut store) = store();
    put(&mut store, "a", 3);
    let begun = |name: &str| {
        let (copy, mut store) = begin_with_copy(&store, StripeId(3));
        let put = store.begin_put(name).unwrap();
        let given = store.reserve_stripes(put, 100).unwrap();
        let skipped = [StripeRange { from: StripeId(3), below: given[0] }];
        assert_eq!(store.unknown().unwrap(), skipped, "what others may have given out");
        (given, copy)
    };
    let ((one, _one), (other, _other)) = (begun("b"), begun("c"));
    assert!(one.iter().all(|id| !other.contains(id)), "{one:?} and {other:?}");
}

#[test]
fn ids_that_others_gave_out_are_never_given_out_here() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    let given = |store: &mut MetadataStore, name: &str| {
        let put = store.begin_put(name).unwrap();
        store.reserve_stripes(put, 2).unwrap()
    };
    assert_eq!(given(&mut store, "a"), [StripeId(0), StripeId(1)]);
    store.protect(StripeId(2)).unwrap();
    assert_eq!(store.unknown().unwrap(), [], "this one was given out here");
    // One agent lists after the other.
    store.protect(StripeId(6)).unwrap();
    store.protect(StripeId(7)).unwrap();
    store.protect(StripeId(5)).unwrap();
    let unknown = [range(2, 7)];
    assert_eq!(store.unknown().unwrap(), unknown);
    assert_eq!(given(&mut store, "b"), [StripeId(7), StripeId(8)]);
    let mut store = crash(store, dir.path());
    assert_eq!(store.unknown().unwrap()[0], unknown[0]);
    store.announce_reserved().unwrap();
    let is_told = |change: &Input| match *change {
        Input::StripesUnknown { from, below } => StripeRange { from, below } == unknown[0],
        _ => false,
    };
    assert!(store.take_changes().iter().any(is_told));
    assert!(given(&mut store, "c")[0] >= StripeId(9));
}

#[test]
fn a_backup_leaves_stripes_to_puts_that_end_after_it() {
    let (dir, mut store) = store();
    put(&mut store, "before", 2);
    let open = store.begin_put("a").unwrap();
    let ids = store.reserve_stripes(open, 2).unwrap();
    let between = put(&mut store, "between", 1);
    let first = store.first_open().unwrap();
    assert_eq!(first, ids[0]);
    let late = store.begin_put("b").unwrap();
    let later = store.reserve_stripes(late, 1).unwrap();

    let (_restored, restored) = begin_with_copy(&store, first);
    let below = |id: StripeId| StripeId(id.0 + 1);
    let unknown = restored.unknown().unwrap();
    assert_eq!(
        unknown[0],
        StripeRange { from: ids[0], below: below(ids[1]) },
        "{between:?} is in it"
    );
    assert!(unknown[1].from == later[0] && unknown.len() == 2, "{unknown:?}");
    // Puts that have ended need nothing.
    [open, late].into_iter().for_each(|put| store.end_put(put).unwrap());
    let next = store.first_open().unwrap();
    assert_eq!(next, below(later[0]));
    let copy = backup::take(&store.path(), next).unwrap();
    assert_eq!((copy.contents.stripes, dir.path().exists()), (3, true));
}

#[test]
fn an_epoch_that_an_agent_followed_elsewhere_is_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    store.outrank("new", remembered(0, 0)).unwrap();
    store.outrank("new", remembered(1, 0)).unwrap();
    assert_eq!(store.epoch(), 1, "it joined in this epoch, and joins again");
    store.outrank("old", remembered(1, 0)).unwrap();
    assert_eq!(store.epoch(), 2, "it has followed another epoch 1");
    store.outrank("old", remembered(6, 0)).unwrap();
    assert_eq!(store.epoch(), 7);
    let raised = |change: &Input| matches!(change, Input::EpochRaised(2 | 7));
    assert_eq!(store.take_changes().iter().filter(|change| raised(change)).count(), 2);
    assert_eq!(crash(store, dir.path()).epoch(), 8);
}

#[test]
fn a_put_that_was_under_way_in_a_snapshot_is_not_gone_when_agents_know_of_its_end() {
    let (dir, snapshot) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    ["a", "b", "c", "d"].iter().for_each(|name| {
        store.join(&node(name)).unwrap();
    });
    put(&mut store, "before", 1);
    let id = store.begin_put("after").unwrap();
    let ids = store.reserve_stripes(id, 2).unwrap();
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let path = file.unwrap().path();
        std::fs::copy(&path, snapshot.path().join(path.file_name().unwrap())).unwrap();
    }
    let unknown = |store: &MetadataStore| {
        let ranges = store.unknown().unwrap();
        ranges.iter().any(|range| range.contains(ids[0]))
    };
    let mut restored = MetadataStore::open(snapshot.path(), Incomplete::Accept).unwrap();
    restored.outrank("n0", remembered(1, 1)).unwrap();
    assert!(!unknown(&restored), "nobody knows of the second put");
    restored.take_changes();
    restored.outrank("n1", remembered(1, 2)).unwrap();
    assert!(unknown(&restored));
    let reported = |change: &Input| matches!(change, Input::StripesUnknown { .. });
    assert!(restored.take_changes().iter().any(reported));
    restored.outrank("n2", remembered(1, 2)).unwrap();
    assert!(restored.take_changes().is_empty(), "it has caught up");
    assert_eq!(crash(restored, snapshot.path()).committed().load(Ordering::Relaxed), 2);
}

#[test]
fn a_process_that_was_set_back_with_its_machine_gives_out_nothing_again() {
    let (_dir, mut store) = store();
    put(&mut store, "before", 1);
    let known = store.committed().load(Ordering::Relaxed);
    let next = store.first_open().unwrap();
    let begun = store.epoch();
    ["a", "new"].iter().for_each(|name| store.outrank(name, remembered(0, known)).unwrap());
    store.outrank("a", remembered(begun, known)).unwrap();
    assert_eq!(store.first_open().unwrap(), next, "nobody knows of anything else");
    let open = store.begin_put("during").unwrap();
    let ids = store.reserve_stripes(open, 1).unwrap();
    store.take_changes();

    // It joined here, and knows of a put that was never committed here.
    store.outrank("a", remembered(begun, known + 1)).unwrap();
    assert_eq!(store.epoch(), begun + 1, "another process went on in this one");
    let changes = store.take_changes();
    assert!(changes.iter().any(|change| matches!(change, Input::EpochRaised(_))), "{changes:?}");
    let first = store.first_open().unwrap();
    let is_left = |id: StripeId| {
        let ranges = store.unknown().unwrap();
        ranges.iter().any(|range| range.contains(id))
    };
    assert!(is_left(ids[0]) && is_left(StripeId(first.0 - 1)), "others may have written there");
    assert!(first.0 - ids[0].0 > 1 << 10, "ids that others may have given out are passed over");
    let ended = store.reserve_stripes(open, 1).unwrap_err();
    assert!(matches!(ended, MetadataError::PutEnded), "{ended}");
    // The others report the same; and it reports nothing new again.
    store.outrank("new", remembered(begun, known + 1)).unwrap();
    store.outrank("a", remembered(begun + 1, known + 1)).unwrap();
    assert_eq!((store.epoch(), store.first_open().unwrap()), (begun + 1, first));
}

#[test]
fn a_process_that_was_set_back_is_told_so_by_its_marks_where_as_many_puts_were_committed_since() {
    let (_dir, mut store) = store();
    put(&mut store, "before", 1);
    let known = store.committed().load(Ordering::Relaxed);
    let (written, marks) = (store.written(), store.marks());
    let mark = |at: u64| marks.lock().unwrap().make(written.load(Ordering::Relaxed), at).unwrap();
    ["a", "b", "c"].iter().for_each(|name| store.outrank(name, remembered(0, known)).unwrap());
    let (begun, made) = (store.epoch(), mark(100));
    let reported = |mark| Remembered { epoch: begun, committed: known, mark: Some(mark) };
    store.outrank("a", reported(made)).unwrap();
    assert_eq!((store.epoch(), store.is_set_back()), (begun, false));

    // Both lives made one mark more.
    store.set_paused(true).unwrap();
    mark(200);
    let next = store.first_open().unwrap();
    store.outrank("a", reported(Mark { number: made.number + 1, at: 201 })).unwrap();
    assert_eq!((store.epoch(), store.is_set_back()), (begun + 1, true));
    let first = store.first_open().unwrap();
    assert!(first > next, "ids that others may have given out are passed over");
    let ranges = store.unknown().unwrap();
    assert!(ranges.iter().any(|range| range.contains(next)), "{ranges:?}");

    // What was made before is still known, and so is what was not.
    let is_left = |store: &MetadataStore| store.unknown().unwrap()[0].from == StripeId(0);
    store.database.execute("DELETE FROM unknown", []).unwrap();
    store.outrank("b", reported(made)).unwrap();
    assert!(store.unknown().unwrap().is_empty());
    // A session that began in the epoch before goes on, and is sent the marks of this one.
    store.set_paused(false).unwrap();
    let newer = mark(300);
    store.outrank("b", reported(newer)).unwrap();
    assert!(store.unknown().unwrap().is_empty());
    // What could not be made durable is accepted when it is reported again.
    let foreign = reported(Mark { number: 7, at: 700 });
    store.database.pragma_update(None, "query_only", true).unwrap();
    store.outrank("c", foreign).unwrap_err();
    store.database.pragma_update(None, "query_only", false).unwrap();
    store.outrank("c", foreign).unwrap();
    assert!(is_left(&store));
    assert_eq!(store.epoch(), begun + 1);
    // One agent is not accepted again and again.
    let again = Mark { number: 99, at: 1 };
    let claim = Remembered { epoch: begun + 1, committed: known + 7, mark: Some(again) };
    store.outrank("a", claim).unwrap();
    assert_eq!(store.epoch(), begun + 1);
    store.outrank("b", Remembered { epoch: begun + 1, ..remembered(0, 0) }).unwrap();
    store.outrank("b", claim).unwrap();
    assert_eq!(store.epoch(), begun + 2, "another one is");
}

#[test]
fn metadata_that_were_set_back_stay_so_until_a_rebuild_completes_them() {
    let (dir, store) = store();
    let mut store = crash(store, dir.path());
    assert!(!store.is_set_back());
    store.outrank("n0", remembered(1, 3)).unwrap();
    let mut store = crash(store, dir.path());
    assert!(store.is_set_back(), "agents' backups are the better ones still");
    let (copied, copy) = begin_with_copy(&store, store.first_open().unwrap());
    assert!(copy.is_set_back(), "and better than a backup of these");
    copy.database.execute("UPDATE cluster SET set_back = 0", []).unwrap();
    drop(copy);
    let error = format!("{:#}", open(copied.path()).err().unwrap());
    assert!(error.contains("does not have its checksum"), "a flipped bit does not end it: {error}");

    store.add_found(&[], Leftovers::Keep).unwrap();
    assert!(!store.is_set_back());
    assert!(!crash(store, dir.path()).is_set_back());
}
