//! Copies of the metadata: restored, and completed by what agents hold.

use super::*;

#[test]
fn an_empty_object_of_before_gives_its_name_up_to_a_newer_one_that_is_found() {
    for (created, names) in [
        (1_700_000_001, ["x", "x.empty"]),
        (1_700_000_000, ["x", "x.empty"]),
        (1_699_999_999, ["x.stripe-9", "x"]),
    ] {
        let (_dir, mut store) = store();
        put(&mut store, "x", 0);
        store.protect(StripeId(20)).unwrap();
        let newer = Object { created, ..object("x", 2 * CHUNK_BYTES) };
        let found = [(newer, vec![stripe(StripeId(9))])];
        store.add_found(&found, Leftovers::Keep).unwrap();
        let lengths = names.map(|name| store.object(name).unwrap().bytes);
        assert_eq!(lengths, [2 * CHUNK_BYTES, 0], "{created}");
    }
}

#[test]
fn what_a_coordinator_left_that_was_killed_is_restored_with_its_log() {
    let (dir, mut store) = store();
    put(&mut store, "x", 3);
    let [beside, alone, target] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let copy = |to: &Path| to.join("copy.db");
    for (file, log) in [(beside.path(), true), (alone.path(), false)] {
        std::fs::copy(store.path(), copy(file)).unwrap();
        if log {
            std::fs::copy(wal::log_of(&store.path()), wal::log_of(&copy(file))).unwrap();
        }
    }
    let restore = |from: &Path, is_replaced| {
        backup::restore(from, target.path(), Incomplete::Refuse, is_replaced)
    };
    let why = restore(&copy(alone.path()), false).unwrap_err().to_string();
    assert!(why.contains("was copied while a coordinator had it open"), "{why}");
    // They may change while they are copied.
    let why = restore(&store.path(), false).unwrap_err().to_string();
    assert!(why.contains("in use by another coordinator"), "{why}");
    assert!(std::fs::read_dir(target.path()).unwrap().next().is_none());
    let restored = restore(&copy(beside.path()), false).unwrap();
    assert_eq!((restored.contents.objects, restored.contents.stripes), (1, 3));
    let mut again = open(target.path()).unwrap();
    assert_eq!(again.object("x").unwrap(), store.object("x").unwrap());
    put(&mut again, "y", 2);

    // So are those that another copy has replaced, in the same folder.
    drop(again);
    drop(store);
    let mut first = open(dir.path()).unwrap();
    first.close().unwrap();
    let whole = first.path();
    drop(first);
    let replaced = restore(&whole, true).unwrap().replaced.unwrap();
    assert!(wal::log_of(&replaced).exists());
    assert!(open_object(target.path(), "y").is_err());
    restore(&replaced, true).unwrap();
    assert!(open_object(target.path(), "y").is_ok());
}

fn open_object(dir: &Path, name: &str) -> Result<Object, MetadataError> {
    let mut store = open(dir).unwrap();
    let found = store.object(name);
    store.close().unwrap();
    found
}
