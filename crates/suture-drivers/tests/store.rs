//! The chunk store on a real disk: round trips, every kind of damage, full disks, crash leftovers.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use suture_drivers::agent::spool::Spool;
use suture_drivers::store::chunk::Damage;
use suture_drivers::store::layout::FOOTER_BYTES;
use suture_drivers::store::{DataDir, Identity, KEEP_FREE_MAX, OpenError, Store};
use suture_edge::checksum::BLOCK_BYTES;
use suture_repair::chunk_store::conformance::{self, Medium};
use suture_repair::chunk_store::{ChunkStore, Published};
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};
use suture_repair::random::Random;
use suture_repair::wire::ClusterId;

fn identity() -> Identity {
    Identity { cluster: ClusterId(7), node: "n1".to_owned() }
}

fn copy(stripe: u64) -> ChunkCopy {
    ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(3), stamp: Stamp(1 << 32) }
}

/// What is listed, in order.
fn listed(store: &Store) -> Vec<ChunkCopy> {
    let mut copies: Vec<ChunkCopy> = store.list().unwrap().iter().map(|held| held.copy).collect();
    copies.sort_unstable();
    copies
}

fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Random::new(seed).fill(&mut data);
    data
}

fn crc32c(data: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, data) as u32
}

fn put(store: &Store, copy: ChunkCopy, data: &[u8]) -> Result<Published, Failure> {
    let temp = store.begin(data.len() as u64)?;
    let cut = data.len() / 3;
    temp.write(cut as u64, &data[cut..])?;
    temp.write(0, &data[..cut])?;
    temp.prove(Some(crc32c(data)), &mut |_| ())?;
    temp.publish(copy, &Label::default())
}

fn path(dir: &Path, copy: ChunkCopy) -> PathBuf {
    let (stripe, chunk, stamp) = (copy.stripe.0, copy.chunk.0, copy.stamp.0);
    let name = format!("{stripe:016x}.{chunk:02x}.{stamp:016x}");
    dir.join("chunks").join(format!("{:02x}", stripe % 256)).join(name)
}

fn flip(path: &Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn leftovers(dir: &Path) -> usize {
    fs::read_dir(dir.join("tmp")).unwrap().count()
}

/// A store with one chunk of 3 blocks and a bit, and where its file lies.
struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
    data: Vec<u8>,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &identity()).unwrap();
        let data = data(3 * BLOCK_BYTES as usize + 100, 5);
        assert_eq!(put(&store, copy(1), &data), Ok(Published::Named));
        Fixture { dir, store, data }
    }

    fn path(&self) -> PathBuf {
        path(self.dir.path(), copy(1))
    }

    fn flip(&self, at: u64) {
        flip(&self.path(), at);
    }

    /// Changes the footer and makes its own checksum fit again.
    fn reseal(&self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = fs::read(self.path()).unwrap();
        let footer = bytes.len() - FOOTER_BYTES as usize;
        change(&mut bytes[footer..]);
        let check = bytes.len() - 4;
        let crc = crc32c(&bytes[footer..check]);
        bytes[check..].copy_from_slice(&crc.to_le_bytes());
        fs::write(self.path(), bytes).unwrap();
    }
}

#[test]
fn chunks_of_any_length_come_back_whole_and_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &identity()).unwrap();
    let mut random = Random::new(9);
    for (stripe, bytes) in [1, 100, 4095, 4096, 4097, 12_288, 300_001, 3_000_000].iter().enumerate()
    {
        let (copy, data) = (copy(stripe as u64), data(*bytes, stripe as u64));
        assert_eq!(put(&store, copy, &data), Ok(Published::Named));
        let chunk = store.chunk(copy).unwrap();
        assert_eq!(chunk.footer().bytes, *bytes as u64);
        chunk.check().unwrap();
        for _ in 0..200 {
            let from = random.index(*bytes);
            let len = random.index(bytes - from + 1).min(random.index(20_000) + 1);
            let mut part = vec![0; len];
            chunk.read(from as u64, &mut part).unwrap();
            assert_eq!(part, data[from..from + len]);
        }
        let past = chunk.read(*bytes as u64 - 1, &mut [0; 2]);
        assert!(matches!(past, Err(Damage::OutOfRange { .. })));
    }
    assert_eq!(listed(&store), (0..8).map(copy).collect::<Vec<_>>());
    assert_eq!(leftovers(dir.path()), 0);
}

/// Bytes that this process has had read from disks.
fn read_from_disks() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_copy_that_was_just_written_is_checked_on_the_disk_and_not_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = DataDir::open(dir.path()).unwrap().claim(&identity()).unwrap();
    let (copy, data) = (copy(1), data(8 << 20, 1));
    put(&store, copy, &data).unwrap();
    let kind = rustix::fs::statfs(dir.path()).unwrap().f_type;
    if kind == 0x0102_1994 {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is in memory, and has no disk",
            dir.path().display()
        );
        return;
    }
    let reader = store.open(copy).unwrap();
    reader.read(0, &mut vec![0; data.len()]).unwrap();
    let before = read_from_disks();
    ChunkStore::check(&store, copy).unwrap();
    assert!(read_from_disks() - before >= data.len() as u64);
}

#[test]
fn a_chunk_beyond_one_table_segment_is_read_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &identity()).unwrap();
    let (edge, beyond) = (64 << 20, 3 * BLOCK_BYTES as usize + 5);
    let data = data(edge + beyond, 1);
    assert_eq!(put(&store, copy(1), &data), Ok(Published::Named));
    let chunk = store.chunk(copy(1)).unwrap();
    let mut part = vec![0; 30_000];
    for from in [edge - 20_000, 5000, edge + beyond - 30_000] {
        chunk.read(from as u64, &mut part).unwrap();
        assert_eq!(part, data[from..from + 30_000]);
    }
    chunk.check().unwrap();
}

#[test]
fn a_flip_in_data_or_table_spoils_its_block_and_no_other() {
    for block in 0..4 {
        let flips = [block * BLOCK_BYTES + 50, 3 * BLOCK_BYTES + 100 + 4 * block + 1];
        for at in flips {
            let fixture = Fixture::new();
            fixture.flip(at);
            let chunk = fixture.store.chunk(copy(1)).unwrap();
            for probe in 0..4 {
                let mut part = [0; 10];
                let result = chunk.read(probe * BLOCK_BYTES + 20, &mut part);
                match result {
                    Ok(()) => {
                        assert_ne!(probe, block);
                        let from = (probe * BLOCK_BYTES + 20) as usize;
                        assert_eq!(part, fixture.data[from..from + 10]);
                    }
                    Err(damage) => {
                        assert_eq!(probe, block);
                        assert!(matches!(damage, Damage::Block { index } if index == block));
                        assert_eq!(damage.fault(), CopyFault::Corrupt);
                    }
                }
            }
            let damage = chunk.check().unwrap_err();
            assert!(matches!(damage, Damage::Block { index } if index == block), "{damage}");
            assert_eq!(fixture.store.check(copy(1)), Err(CopyFault::Corrupt));
        }
    }
}

#[test]
fn every_flipped_bit_of_the_footer_is_noticed() {
    let fixture = Fixture::new();
    let whole = fs::read(fixture.path()).unwrap();
    for bit in 0..FOOTER_BYTES as usize * 8 {
        let mut bytes = whole.clone();
        let at = bytes.len() - FOOTER_BYTES as usize + bit / 8;
        bytes[at] ^= 1 << (bit % 8);
        fs::write(fixture.path(), bytes).unwrap();
        let damage = fixture.store.chunk(copy(1)).unwrap_err();
        assert_eq!(damage.fault(), CopyFault::Corrupt, "bit {bit} passes for another build's");
        let whole = Digest { bytes: Some(fixture.data.len() as u64), crc: None };
        let held = fixture.store.list().unwrap();
        assert!(held.iter().all(|held| !held.digest.fits(whole)), "bit {bit}: {held:?}");
    }
}

#[test]
fn a_label_comes_back_beside_its_chunk_and_a_flip_in_it_spoils_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &identity()).unwrap();
    let label = Label::new(b"what is needed to know its object").unwrap();
    let data = data(3 * BLOCK_BYTES as usize - 7, 4);
    let temp = store.begin(data.len() as u64).unwrap();
    temp.write(0, &data).unwrap();
    temp.prove(None, &mut |_| ()).unwrap();
    temp.publish(copy(1), &label).unwrap();
    put(&store, copy(2), &data).unwrap();
    assert_eq!(store.label(copy(1)), Ok(label.clone()));
    assert_eq!(store.label(copy(2)), Ok(Label::default()));

    flip(&path(dir.path(), copy(1)), data.len() as u64 + 3 * 4 + 5);
    assert_eq!(store.label(copy(1)), Err(CopyFault::Corrupt));
    assert_eq!(store.check(copy(1)), Err(CopyFault::Corrupt), "a repair brings it back");
    let mut back = vec![0; data.len()];
    store.chunk(copy(1)).unwrap().read(0, &mut back).unwrap();
    assert!(back == data, "the data are as they were");
    assert_eq!(listed(&store), [copy(1), copy(2)]);
}

#[test]
fn a_file_of_the_first_version_is_read_and_has_no_label() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &identity()).unwrap();
    let data = data(5000, 4);
    put(&store, copy(1), &data).unwrap();
    let path = path(dir.path(), copy(1));
    // A file without a label is the same in both versions but for the number.
    let mut bytes = fs::read(&path).unwrap();
    let footer = bytes.len() - FOOTER_BYTES as usize;
    bytes[footer + 8] = 1;
    let check = crc32c(&bytes[footer..footer + 60]);
    bytes[footer + 60..].copy_from_slice(&check.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert_eq!(store.check(copy(1)), Ok(()));
    assert_eq!(store.label(copy(1)), Ok(Label::default()));
    assert_eq!(listed(&store), [copy(1)]);
}

#[test]
fn a_file_cut_short_anywhere_is_listed_as_nobodys_chunk() {
    let fixture = Fixture::new();
    let whole = fs::read(fixture.path()).unwrap();
    let table = fixture.data.len();
    let boundaries = [0, 1, 63, 64, 4096, table - 1, table, table + 4, whole.len() - 64];
    for bytes in boundaries.into_iter().chain([whole.len() - 1]) {
        fs::write(fixture.path(), &whole[..bytes]).unwrap();
        let damage = fixture.store.chunk(copy(1)).unwrap_err();
        assert_eq!(damage.fault(), CopyFault::Corrupt, "{bytes} bytes: {damage}");
        let [held] = &fixture.store.list().unwrap()[..] else { panic!("{bytes} bytes: one copy") };
        assert_eq!(held.copy, copy(1));
        let whole = Digest { bytes: Some(fixture.data.len() as u64), crc: None };
        assert!(!held.digest.fits(whole), "{bytes} bytes: {held:?}");
    }
    fs::write(fixture.path(), [&whole[..], &whole[..]].concat()).unwrap();
    assert!(matches!(fixture.store.chunk(copy(1)), Err(Damage::Length { .. })));
    fs::remove_file(fixture.path()).unwrap();
    assert_eq!(fixture.store.chunk(copy(1)).unwrap_err().fault(), CopyFault::Missing);
}

#[test]
fn a_file_shortened_under_an_open_reader_is_noticed() {
    let fixture = Fixture::new();
    let chunk = fixture.store.chunk(copy(1)).unwrap();
    chunk.read(0, &mut [0; 10]).unwrap();
    fs::OpenOptions::new().write(true).open(fixture.path()).unwrap().set_len(5000).unwrap();
    assert!(matches!(chunk.read(8000, &mut [0; 10]), Err(Damage::Short { .. })));
}

#[test]
fn what_the_system_cannot_read_is_not_called_corrupt() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path()).unwrap();
    // Reading it fails, for root as well.
    fs::create_dir(fixture.path()).unwrap();
    assert_eq!(fixture.store.check(copy(1)), Err(CopyFault::Unreadable));
    assert_eq!(fixture.store.open(copy(1)).err(), Some(CopyFault::Unreadable));
}

#[test]
fn what_is_no_file_under_the_name_of_a_chunk_is_unreadable_and_keeps_nobody_waiting() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.path()).unwrap();
    // No process ever opens its other end.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fixture.path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let damage = fixture.store.chunk(copy(1)).unwrap_err();
    assert_eq!(damage.fault(), CopyFault::Unreadable, "{damage}");
    assert_eq!(listed(&fixture.store), []);
}

#[test]
fn a_folder_for_chunks_in_the_making_that_is_removed_is_made_anew() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.dir.path().join("tmp")).unwrap();
    put(&fixture.store, copy(7), &fixture.data).unwrap();
    assert_eq!(listed(&fixture.store), [copy(1), copy(7)]);
}

#[test]
fn a_directory_that_is_taken_away_from_under_its_store_loses_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, away) = (folder.path().join("data"), folder.path().join("away"));
    let store = Store::open(&dir, &identity()).unwrap();
    put(&store, copy(1), &data(1000, 1)).unwrap();
    fs::rename(&dir, &away).unwrap();
    for is_replaced in [false, true] {
        if is_replaced {
            fs::create_dir_all(dir.join("chunks")).unwrap();
            fs::create_dir_all(dir.join("tmp")).unwrap();
        }
        assert_eq!(store.open(copy(1)).err(), Some(CopyFault::Unreadable), "{is_replaced}");
        let failures = [
            store.list().map(drop),
            store.begin(10).map(drop),
            store.begin_arriving(10).map(drop),
            store.delete(copy(1)),
        ];
        assert!(failures.iter().all(|failed| matches!(failed, Err(Failure::Disk(_)))));
    }
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&away, &dir).unwrap();
    assert_eq!(store.open(copy(2)).err(), Some(CopyFault::Missing));
    assert_eq!(listed(&store), [copy(1)]);
}

#[test]
fn all_readers_of_a_copy_share_one_descriptor() {
    let fixture = Fixture::new();
    let descriptors = || {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let links = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| *link == fixture.path()).count()
    };
    let readers: Vec<_> = (0..100).map(|_| fixture.store.open(copy(1)).unwrap()).collect();
    assert_eq!(descriptors(), 1);
    let mut first = [0; 100];
    readers.iter().for_each(|reader| reader.read(0, &mut first).unwrap());
    drop(readers);
    assert_eq!(descriptors(), 0);
    assert!(fixture.store.open(copy(1)).is_ok());
}

#[test]
fn another_version_is_refused_naming_both() {
    let fixture = Fixture::new();
    fixture.reseal(|footer| footer[8] = 9);
    assert_eq!(fixture.store.check(copy(1)), Err(CopyFault::Unreadable), "another build reads it");
    let damage = fixture.store.chunk(copy(1)).unwrap_err();
    assert!(matches!(damage, Damage::Version { found: 9 }));
    let text = "chunk file version 9, this build reads up to 2: run the suture that wrote it";
    assert_eq!(damage.to_string(), text);
}

#[test]
fn a_file_under_the_wrong_name_or_with_the_wrong_sum_is_noticed() {
    let fixture = Fixture::new();
    fs::copy(fixture.path(), path(fixture.dir.path(), copy(2))).unwrap();
    let damage = fixture.store.chunk(copy(2)).unwrap_err();
    assert!(matches!(damage, Damage::Name { found } if found == copy(1)), "{damage}");
    assert_eq!(listed(&fixture.store), [copy(1)]);
    fixture.reseal(|footer| footer[12] ^= 1);
    let damage = fixture.store.chunk(copy(1)).unwrap().check().unwrap_err();
    assert!(matches!(damage, Damage::Whole { .. }), "{damage}");
    assert_eq!(fixture.store.check(copy(1)), Err(CopyFault::Corrupt));
    fixture.reseal(|footer| footer[42] = 0xff);
    assert!(matches!(fixture.store.chunk(copy(1)), Err(Damage::Length { .. })));
}

#[test]
fn what_does_not_have_its_checksum_is_not_published() {
    let fixture = Fixture::new();
    let temp = fixture.store.begin(5000).unwrap();
    temp.write(0, &[1; 5000]).unwrap();
    let (expected, found) = (crc32c(&[2; 5000]), crc32c(&[1; 5000]));
    assert_eq!(
        temp.prove(Some(expected), &mut |_| ()),
        Err(Failure::ProofFailed { expected, found })
    );
    assert!(matches!(temp.publish(copy(2), &Label::default()), Err(Failure::Disk(_))));
    drop(temp);
    assert_eq!(listed(&fixture.store), [copy(1)]);
    assert_eq!(leftovers(fixture.dir.path()), 0);
    let temp = fixture.store.begin(10).unwrap();
    assert!(matches!(temp.write(5, &[0; 6]), Err(Failure::Disk(_))));
}

#[test]
fn an_existing_copy_is_never_overwritten() {
    let fixture = Fixture::new();
    assert_eq!(
        put(&fixture.store, copy(1), &fixture.data),
        Ok(Published::Named),
        "the same bytes again"
    );
    assert_eq!(put(&fixture.store, copy(1), &data(500, 6)), Ok(Published::Taken));
    let mut back = vec![0; fixture.data.len()];
    fixture.store.chunk(copy(1)).unwrap().read(0, &mut back).unwrap();
    assert_eq!(back, fixture.data);
    fixture.store.delete(copy(1)).unwrap();
    fixture.store.delete(copy(1)).unwrap();
    assert_eq!(put(&fixture.store, copy(1), &data(500, 6)), Ok(Published::Named));
}

#[test]
fn a_store_has_one_id_from_before_it_is_claimed_and_an_older_one_gets_one() {
    let dir = tempfile::tempdir().unwrap();
    let id = |dir: &Path| DataDir::open(dir).unwrap().id().expect("it can be written");
    let first = id(dir.path());
    assert_eq!(id(dir.path()), first, "it was not claimed yet");
    drop(Store::open(dir.path(), &identity()).unwrap());
    assert_eq!(id(dir.path()), first);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(id(other.path()), first);
    fs::remove_file(dir.path().join("store")).unwrap();
    let second = id(dir.path());
    assert_ne!(second, first);
    assert_eq!(id(dir.path()), second);
    fs::write(dir.path().join("store"), "nonsense").unwrap();
    let error = DataDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("store"), "{error}");
}

#[test]
fn a_disk_that_is_mounted_within_the_directory_is_refused() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(dir.path()) == device(other.path()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no other file system at /dev/shm");
        return;
    }
    std::os::unix::fs::symlink(other.path(), dir.path().join("chunks")).unwrap();
    let error = DataDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("chunks") && error.contains("mount the disk where"), "{error}");
    fs::remove_file(dir.path().join("chunks")).unwrap();
    DataDir::open(dir.path()).unwrap();
}

#[test]
fn a_restart_keeps_chunks_and_sweeps_what_was_in_the_making() {
    let Fixture { dir, store, data } = Fixture::new();
    let temp = store.begin(1 << 20).unwrap();
    temp.write(0, &[1; 100]).unwrap();
    std::mem::forget(temp);
    drop(store);
    assert_eq!(leftovers(dir.path()), 1);
    let store = Store::open(dir.path(), &identity()).unwrap();
    assert_eq!(leftovers(dir.path()), 0);
    assert_eq!(listed(&store), [copy(1)]);
    let mut back = vec![0; data.len()];
    store.chunk(copy(1)).unwrap().read(0, &mut back).unwrap();
    assert_eq!(back, data);
    assert!(store.free_bytes().unwrap() > 0);
}

#[test]
fn a_directory_serves_one_agent_of_one_node_of_one_cluster() {
    let Fixture { dir, store, .. } = Fixture::new();
    let error = Store::open(dir.path(), &identity()).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
    assert!(error.to_string().contains(dir.path().to_str().unwrap()));
    drop(store);
    for other in [
        Identity { cluster: ClusterId(8), ..identity() },
        Identity { node: "n2".to_owned(), ..identity() },
    ] {
        let error = Store::open(dir.path(), &other).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    }
    fs::write(dir.path().join("identity"), "suture-store 9\ncluster 7\nnode n1\n").unwrap();
    let text = Store::open(dir.path(), &identity()).unwrap_err().to_string();
    assert!(text.contains("version 9") && text.contains("reads 1"), "{text}");
}

#[test]
fn a_full_disk_is_named_before_and_while_writing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().to_str().unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=4m", "tmpfs", target];
    let mounted = std::process::Command::new("mount").args(mount).status();
    if !mounted.is_ok_and(|status| status.success()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: mounting a small tmpfs needs root");
        return;
    }
    let store = Store::open(dir.path(), &identity()).unwrap();
    let early = store.begin(8 << 20).map(drop);
    let fits = put(&store, copy(1), &data(1 << 20, 1));
    let spool = Spool::create(dir.path()).unwrap();
    let late = spool.write(0, &data(6 << 20, 2));
    drop(spool);
    let listed = listed(&store);
    let left = leftovers(dir.path());
    drop(store);
    let unmounted = std::process::Command::new("umount").arg(target).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(early, Err(Failure::NoSpace));
    assert_eq!(fits, Ok(Published::Named));
    assert_eq!(late, Err(Failure::NoSpace));
    assert_eq!((listed, left), (vec![copy(1)], 0));
}

#[test]
fn what_is_kept_free_for_others_is_not_counted_and_not_given_to_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let stat = || rustix::fs::statvfs(dir.path()).unwrap();
    let available = || stat().f_bavail * stat().f_frsize;
    let mut store = Store::open(dir.path(), &identity()).unwrap();
    // Much less than there is, and more than others take or leave meanwhile.
    let left = (available() / 4).min(1 << 30);
    let is_about = |bytes: u64, expected: u64| bytes.abs_diff(expected) < left / 2;
    store.keep_free(Some(0));
    let free = store.free_bytes().unwrap();
    assert!(is_about(free, available()), "{free}, not {}", available());

    let kept = available() - left;
    store.keep_free(Some(kept));
    let free = store.free_bytes().unwrap();
    assert!(is_about(free, left), "{free} beside {kept} that are kept, not {left}");
    assert_eq!(store.begin(2 * left).map(drop), Err(Failure::NoSpace));
    assert_eq!(store.begin_arriving(2 * left).map(drop), Err(Failure::NoSpace));
    assert_eq!(put(&store, copy(1), &data(10_000, 1)), Ok(Published::Named));

    store.keep_free(Some(u64::MAX));
    assert_eq!(store.free_bytes(), Ok(0));
    assert_eq!(store.begin(1).map(drop), Err(Failure::NoSpace));
    assert_eq!((listed(&store), leftovers(dir.path())), (vec![copy(1)], 0));

    // Where it is not configured, a hundredth is kept.
    store.keep_free(None);
    let (free, all) = (store.free_bytes().unwrap(), stat().f_blocks * stat().f_frsize);
    let by_default = (all / 100).min(KEEP_FREE_MAX);
    let expected = available().saturating_sub(by_default);
    assert!(free.abs_diff(expected) < by_default / 2, "{free}, not {expected}");
}

/// The store's directory, which outlives the store.
struct Directory(tempfile::TempDir);

impl Medium for Directory {
    fn open(&mut self) -> Arc<dyn ChunkStore> {
        Arc::new(Store::open(self.0.path(), &identity()).unwrap())
    }

    fn crash(&mut self) {
        // What was written stays in the page cache: only a loss of power would show more.
    }

    fn damage(&mut self, copy: ChunkCopy, offset: u64) {
        flip(&path(self.0.path(), copy), offset);
    }

    fn unfinished_count(&self) -> usize {
        leftovers(self.0.path())
    }
}

#[test]
fn the_native_store_keeps_every_promise_of_a_chunk_store() {
    conformance::check(|| Directory(tempfile::tempdir().unwrap()));
}

#[test]
fn a_folder_of_somebody_else_keeps_its_temporaries() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tmp/thesis.txt");
    std::fs::create_dir(dir.path().join("tmp")).unwrap();
    std::fs::write(&file, "thesis").unwrap();
    let error = DataDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("set data_dir to another directory"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "thesis");
    assert!(!dir.path().join("store").exists());
}

#[test]
fn a_file_in_the_place_of_a_folder_of_chunks_keeps_nobody_from_the_others() {
    let Fixture { dir, store, data } = Fixture::new();
    drop(store);
    let stray = dir.path().join("chunks/ff");
    std::fs::remove_dir(&stray).unwrap();
    std::fs::write(&stray, "thesis").unwrap();
    let store = Store::open(dir.path(), &identity()).unwrap();
    assert_eq!(listed(&store), [copy(1)]);
    assert!(matches!(put(&store, copy(255), &data), Err(Failure::Disk(_))));
    put(&store, copy(2), &data).unwrap();
    assert_eq!(std::fs::read_to_string(&stray).unwrap(), "thesis");
}
