//! What every chunk store must do, as code: one list of rules, run against each implementation.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...
//! A test hands over a constructor of empty media; each rule gets one of its own and panics when
//! the store breaks it. What only one medium can suffer (a torn footer, a lost directory entry) is
//! for that store's own tests.

use std::fmt::Debug;
use std::mem::forget;
use std::sync::Arc;

use super::{ChunkStore, ChunkWriter, Published, short};
use crate::id::{ChunkCopy, ChunkIndex, Digest, Stamp, StripeId};
use crate::label::Label;
use crate::message::{CopyFault, Failure};
use crate::random::Random;

/// What a store lies on, and what a test may do to it behind the store's back.
pub trait Medium {
    /// Opens the store, as a process does at its start.
    fn open(&mut self) -> Arc<dyn ChunkStore>;

    /// The process is gone, and with it all that was not durable. The store is opened again next.
    fn crash(&mut self);

    /// Changes the byte at `offset` of a published copy.
    fn damage(&mut self, copy: ChunkCopy, offset: u64);

    /// Unpublished chunks that take space on it.
    fn unfinished_count(&self) -> usize;

    /// Whether copies are this store's to remove. Where they are not, an order to is answered and
    /// nothing happens.
    fn deletes(&self) -> bool {
        true
    }
}

/// More than any medium has space for.
const TOO_MANY_BYTES: u64 = 1 << 50;

/// Lengths around the blocks of checksums that stores have (512 B, 4 KiB), and short chunks.
const LENGTHS: [usize; 9] = [1, 63, 511, 512, 513, 4095, 4096, 4097, 20_011];

type StoreRule = fn(&mut dyn Medium);

/// Checks every rule, each on an empty medium from `make`.
///
/// # Panics
/// When the store breaks a rule.
pub fn check<M: Medium>(make: impl Fn() -> M) {
    let rules: [StoreRule; 11] = [
        only_published_chunks_are_listed,
        what_is_listed_and_read_is_what_was_published,
        every_range_of_every_length_is_read,
        ranges_past_the_end_are_refused,
        damaged_bytes_never_come_out,
        what_is_missing_is_called_so,
        a_chunk_that_is_not_proven_is_not_published,
        publishing_is_idempotent_and_never_overwrites,
        an_aborted_chunk_leaves_nothing,
        a_crash_leaves_nothing_or_a_proven_chunk,
        too_much_is_refused_at_once,
    ];
    for rule in rules {
        rule(&mut make());
    }
}

fn copy(stripe: u64) -> ChunkCopy {
    let stamp = Stamp::of_put(1 << 32 | stripe);
    ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(3), stamp }
}

fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Random::new(seed).fill(&mut data);
    data
}

/// CRC32C, bit by bit: independent of what stores use.
fn checksum(data: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ (crc & 1).wrapping_neg() & 0x82f6_3b78;
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Begins a chunk and writes all of it, the end first.
fn written(store: &dyn ChunkStore, data: &[u8]) -> Arc<dyn ChunkWriter> {
    let writer = good(store.begin(data.len() as u64));
    assert_eq!(writer.bytes(), data.len() as u64);
    let cut = data.len() / 3;
    good(writer.write(cut as u64, &data[cut..]));
    good(writer.write(0, &data[..cut]));
    writer
}

fn put(store: &dyn ChunkStore, copy: ChunkCopy, data: &[u8]) -> Published {
    let writer = written(store, data);
    assert_eq!(writer.prove(Some(checksum(data)), &mut |_| ()), Ok(checksum(data)));
    good(writer.publish(copy, &Label::default()))
}

fn read(store: &dyn ChunkStore, copy: ChunkCopy) -> Vec<u8> {
    let reader = good(store.open(copy));
    let mut bytes = vec![0; reader.bytes() as usize];
    good(reader.read(0, &mut bytes));
    bytes
}

fn listed(store: &dyn ChunkStore) -> Vec<ChunkCopy> {
    let mut copies: Vec<ChunkCopy> = good(store.list()).iter().map(|held| held.copy).collect();
    copies.sort_unstable();
    copies
}

fn good<T, E: Debug>(result: Result<T, E>) -> T {
    result.expect("nothing is wrong with the medium")
}

fn only_published_chunks_are_listed(medium: &mut dyn Medium) {
    let store = medium.open();
    assert_eq!(listed(&*store), []);
    let begun = written(&*store, &data(900, 1));
    let proven = written(&*store, &data(900, 2));
    good(proven.prove(None, &mut |_| ()));
    assert_eq!(listed(&*store), []);
    assert_eq!(put(&*store, copy(7), &data(900, 3)), Published::Named);
    assert_eq!(listed(&*store), [copy(7)]);
    assert_eq!(good(proven.publish(copy(2), &Label::default())), Published::Named);
    assert_eq!(listed(&*store), [copy(2), copy(7)]);
    drop((begun, proven));
    good(store.delete(copy(7)));
    good(store.delete(copy(7)));
    good(store.delete(copy(99)));
    if !medium.deletes() {
        return assert_eq!(listed(&*store), [copy(2), copy(7)]);
    }
    assert_eq!(listed(&*store), [copy(2)]);
    assert_eq!(store.open(copy(7)).err(), Some(CopyFault::Missing));
}

fn what_is_listed_and_read_is_what_was_published(medium: &mut dyn Medium) {
    let store = medium.open();
    let contents = [data(900, 1), data(901, 2)];
    let published = contents
        .iter()
        .map(|data| Digest { bytes: Some(data.len() as u64), crc: Some(checksum(data)) });
    let published: Vec<Digest> = published.collect();
    for (stripe, data) in (1..).zip(&contents) {
        put(&*store, copy(stripe), data);
    }
    for (stripe, digest) in (1..).zip(&published) {
        let held = good(store.list());
        let held = held.iter().find(|held| held.copy == copy(stripe)).expect("it is listed");
        assert!(held.digest.fits(*digest), "{held:?}");
        let reader = good(short::open_matching(&*store, copy(stripe), *digest));
        assert_eq!(Some(reader.bytes()), digest.bytes);
        assert!(reader.crc().is_none_or(|crc| Some(crc) == digest.crc));
        assert_eq!(short::check(&*store, copy(stripe), *digest), Ok(()));
        // A copy of other bytes has its name and is none.
        let other = Digest { crc: digest.crc.map(|crc| !crc), ..*digest };
        let refused = short::open_matching(&*store, copy(stripe), other).err();
        assert_eq!(refused, reader.crc().map(|_| CopyFault::Corrupt));
        let longer = Digest { bytes: digest.bytes.map(|bytes| bytes + 1), crc: None };
        assert_eq!(short::check(&*store, copy(stripe), longer), Err(CopyFault::Corrupt));
    }
}

fn every_range_of_every_length_is_read(medium: &mut dyn Medium) {
    let store = medium.open();
    let mut random = Random::new(9);
    for bytes in LENGTHS {
        let (copy, data) = (copy(bytes as u64), data(bytes, bytes as u64));
        assert_eq!(put(&*store, copy, &data), Published::Named);
        assert_eq!(store.check(copy), Ok(()));
        let reader = good(store.open(copy));
        assert_eq!(reader.bytes(), bytes as u64);
        for _ in 0..100 {
            let from = random.index(bytes + 1);
            let mut part = vec![0; random.index(bytes - from + 1)];
            assert_eq!(reader.read(from as u64, &mut part), Ok(()));
            assert_eq!(part, data[from..from + part.len()], "from {from} of {bytes}");
        }
        assert_eq!(read(&*store, copy), data);
    }
}

fn ranges_past_the_end_are_refused(medium: &mut dyn Medium) {
    let store = medium.open();
    assert_eq!(put(&*store, copy(1), &data(700, 1)), Published::Named);
    let reader = good(store.open(copy(1)));
    assert_eq!(reader.read(699, &mut [0; 2]), Err(CopyFault::Corrupt));
    assert_eq!(reader.read(u64::MAX, &mut [0; 2]), Err(CopyFault::Corrupt));
    let writer = good(store.begin(10));
    assert!(matches!(writer.write(5, &[0; 6]), Err(Failure::Disk(_))));
    assert!(matches!(writer.write(u64::MAX, &[0; 6]), Err(Failure::Disk(_))));
}

fn damaged_bytes_never_come_out(medium: &mut dyn Medium) {
    let (bytes, mut random) = (20_011, Random::new(4));
    let (store, data) = (medium.open(), data(bytes, 1));
    assert_eq!(put(&*store, copy(1), &data), Published::Named);
    let places = [4096, bytes - 1, 0];
    for (hurt, place) in places.iter().enumerate() {
        medium.damage(copy(1), *place as u64);
        let reader = match store.open(copy(1)) {
            Ok(reader) => reader,
            Err(fault) => return assert_eq!(fault, CopyFault::Corrupt),
        };
        for _ in 0..200 {
            let from = random.index(bytes);
            let mut part = vec![0; random.index(bytes - from) + 1];
            let to = from + part.len();
            match reader.read(from as u64, &mut part) {
                Ok(()) => assert_eq!(part, data[from..to], "from {from}"),
                Err(fault) => assert_eq!(fault, CopyFault::Corrupt),
            }
        }
        for place in &places[..=hurt] {
            let touched = reader.read(*place as u64, &mut [0]);
            assert_eq!(touched, Err(CopyFault::Corrupt), "byte {place}");
        }
        assert_eq!(store.check(copy(1)), Err(CopyFault::Corrupt));
    }
}

fn what_is_missing_is_called_so(medium: &mut dyn Medium) {
    let store = medium.open();
    assert_eq!(store.open(copy(1)).err(), Some(CopyFault::Missing));
    assert_eq!(store.check(copy(1)), Err(CopyFault::Missing));
    assert_eq!(put(&*store, copy(1), &data(600, 1)), Published::Named);
    let other_stamp = ChunkCopy { stamp: Stamp(0), ..copy(1) };
    assert_eq!(store.check(other_stamp), Err(CopyFault::Missing));
}

fn a_chunk_that_is_not_proven_is_not_published(medium: &mut dyn Medium) {
    let (store, data) = (medium.open(), data(5000, 1));
    let (expected, found) = (checksum(&data) ^ 1, checksum(&data));
    let writer = written(&*store, &data);
    assert!(
        matches!(writer.publish(copy(1), &Label::default()), Err(Failure::Disk(_))),
        "never proven"
    );
    let proof = writer.prove(Some(expected), &mut |_| ());
    assert_eq!(proof, Err(Failure::ProofFailed { expected, found }));
    assert!(
        matches!(writer.publish(copy(1), &Label::default()), Err(Failure::Disk(_))),
        "proof failed"
    );
    assert_eq!(writer.prove(None, &mut |_| ()), Ok(found));
    good(writer.write(100, &[!data[100]]));
    assert!(
        matches!(writer.publish(copy(1), &Label::default()), Err(Failure::Disk(_))),
        "written since"
    );
    assert_eq!(listed(&*store), []);
    good(writer.write(100, &data[100..101]));
    assert_eq!(writer.prove(Some(found), &mut |_| ()), Ok(found));
    assert_eq!(good(writer.publish(copy(1), &Label::default())), Published::Named);
    // Refused or without effect: what is published stays as it was proven.
    let _ = writer.write(0, &[!data[0]]);
    assert_eq!(read(&*store, copy(1)), data);
}

fn publishing_is_idempotent_and_never_overwrites(medium: &mut dyn Medium) {
    let (store, first) = (medium.open(), data(3000, 1));
    let writer = written(&*store, &first);
    good(writer.prove(None, &mut |_| ()));
    assert_eq!(good(writer.publish(copy(1), &Label::default())), Published::Named);
    assert_eq!(good(writer.publish(copy(1), &Label::default())), Published::Named);
    assert_eq!(put(&*store, copy(1), &first), Published::Named);
    assert_eq!(put(&*store, copy(1), &data(3000, 2)), Published::Taken);
    assert_eq!(put(&*store, copy(1), &first[..2999]), Published::Taken);
    drop(writer);
    assert_eq!((listed(&*store), read(&*store, copy(1))), (vec![copy(1)], first));
    assert_eq!(medium.unfinished_count(), 0);
    good(store.delete(copy(1)));
    let after = if medium.deletes() { Published::Named } else { Published::Taken };
    assert_eq!(put(&*store, copy(1), &data(3000, 2)), after);
}

fn an_aborted_chunk_leaves_nothing(medium: &mut dyn Medium) {
    let store = medium.open();
    let writer = written(&*store, &data(5000, 1));
    assert_eq!(medium.unfinished_count(), 1);
    good(writer.prove(None, &mut |_| ()));
    drop(writer);
    assert_eq!((listed(&*store), medium.unfinished_count()), (vec![], 0));
}

fn a_crash_leaves_nothing_or_a_proven_chunk(medium: &mut dyn Medium) {
    let data = data(5000, 1);
    let steps: [fn(&dyn ChunkWriter, &[u8]); 4] = [
        |writer, data| good(writer.write(0, &data[..2000])),
        |writer, data| good(writer.write(2000, &data[2000..])),
        |writer, data| assert_eq!(writer.prove(None, &mut |_| ()), Ok(checksum(data))),
        |writer, _| assert_eq!(good(writer.publish(copy(1), &Label::default())), Published::Named),
    ];
    for done in 0..=steps.len() {
        let store = medium.open();
        let writer = good(store.begin(data.len() as u64));
        steps[..done].iter().for_each(|step| step(&*writer, &data));
        // A process that ends like this drops nothing.
        forget(writer);
        drop(store);
        medium.crash();
        let store = medium.open();
        assert_eq!(medium.unfinished_count(), 0, "after {done} steps");
        let is_published = done == steps.len();
        assert_eq!(listed(&*store), if is_published { vec![copy(1)] } else { vec![] });
        assert_eq!(store.check(copy(1)).is_ok(), is_published, "after {done} steps");
    }
    assert_eq!(read(&*medium.open(), copy(1)), data);
}

fn too_much_is_refused_at_once(medium: &mut dyn Medium) {
    let store = medium.open();
    assert_eq!(store.begin(TOO_MANY_BYTES).err(), Some(Failure::NoSpace));
    assert_eq!(medium.unfinished_count(), 0);
    assert!((1..TOO_MANY_BYTES).contains(&good(store.free_bytes())));
}
