//! The objects that the foreground reads and writes.
//!
//! Place: between a workload's keys and the names of the store.
//! An object that is overwritten is gone for a client that reads it then. So a key is written under
//! a name of a new version, reads turn to it from then on, and the former one is removed when
//! no client reads it any more. No request waits for another of its key: what is measured is the
//! store. What is stored is noise of a seed, so that nothing has to be kept to make it.
//!
//! Whatever may be stored is known here from the moment that its put begins, so that nothing is
//! left behind by a put that was cut off. What is known not to be stored is forgotten.
//!
//! Invariant: nothing is removed but what was stored here. The names begin with a number that each
//! run draws for itself, so that no object has one of them before; and a name that is taken all the
//! same is not counted as stored.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::rand::{GetRandomFlags, getrandom};
use suture_code::Code;
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto;
use suture_drivers::object::cut::ObjectSource;
use suture_drivers::object::lookup::Lookup;
use suture_drivers::object::put_stream::PutOptions;
use suture_drivers::object::read::{self, GetAgents, Sink};
use suture_drivers::object::unanswered::NotKnown;
use suture_drivers::object::write::{self, PutAgents};
use suture_repair::random::Random;

/// Noise that all values are cut from.
const NOISE_BYTES: usize = 1 << 20;

/// Keys, and where the newest version of each is.
pub struct Keyspace {
    prefix: String,
    code: Code,
    chunk_bytes: u64,
    noise: Arc<Vec<u8>>,
    /// Key by key the version that is read; who reads it holds it.
    versions: Vec<Mutex<Option<Arc<u64>>>>,
    next_version: AtomicU64,
    /// Former versions of keys, to be removed when nobody reads them any more.
    former: Mutex<Vec<(usize, Arc<u64>)>>,
    /// Connections that serve all requests, as those of an application do.
    readers: Arc<GetAgents>,
    writers: Arc<PutAgents>,
    /// What is stored, or may be: keys and versions.
    left: Mutex<BTreeSet<(usize, u64)>>,
}

impl Keyspace {
    /// So many keys, none of which is stored yet, under names that begin with `prefix` and a
    /// number that no other run has.
    ///
    /// # Errors
    /// When the system gives no random number.
    pub fn new(prefix: &str, keys: usize, code: Code, chunk_bytes: u64) -> Result<Keyspace> {
        let mut noise = vec![0; NOISE_BYTES];
        Random::new(1).fill(&mut noise);
        let mut run = [0; 8];
        getrandom(&mut run, GetRandomFlags::empty()).context("cannot draw a number for the run")?;
        Ok(Keyspace {
            prefix: format!("{prefix}{:016x}/", u64::from_le_bytes(run)),
            code,
            chunk_bytes,
            noise: Arc::new(noise),
            versions: (0..keys).map(|_| Mutex::new(None)).collect(),
            next_version: AtomicU64::new(0),
            former: Mutex::default(),
            readers: Arc::default(),
            writers: Arc::default(),
            left: Mutex::default(),
        })
    }

    /// What the names of all of its objects begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.versions.len()
    }

    /// Writes a new version of a key. The former one is to be removed ([`Self::tidy`]).
    ///
    /// # Errors
    /// When it cannot be stored; the former one is read still.
    pub async fn write(&self, client: &mut Client, key: usize, bytes: u64) -> Result<()> {
        let version = self.next_version.fetch_add(1, Ordering::Relaxed);
        self.left().insert((key, version));
        let options = PutOptions {
            name: self.name(key, version),
            code: self.code,
            chunk_bytes: self.chunk_bytes,
            overwrite: false,
            waits_for_all: false,
        };
        let noise = Noise { noise: self.noise.clone(), at: version as usize, left: bytes };
        let source = ObjectSource::Stream(Box::new(noise));
        let progress: Arc<suture_edge::progress::Progress<'static>> = Arc::new(|_| {});
        let put = write::put(client, &self.writers, &options, source, &progress).await;
        put.inspect_err(|why| self.not_stored(key, version, why))?;
        let former = lock(&self.versions[key]).replace(Arc::new(version));
        lock(&self.former).extend(former.map(|former| (key, former)));
        Ok(())
    }

    /// Removes former versions that nobody reads any more; what cannot be removed is left, and can
    /// be by its prefix.
    pub async fn tidy(&self, client: &mut Client) {
        let is_unread = |(_, version): &mut (usize, Arc<u64>)| Arc::strong_count(version) == 1;
        let unread: Vec<(usize, Arc<u64>)> = lock(&self.former).extract_if(.., is_unread).collect();
        for (key, version) in unread {
            let _ = self.remove(client, key, *version).await;
        }
    }

    /// A put failed: what has the name now, if anything has it, is not to be removed. Only where
    /// the outcome of the put is unknown it may be what was put.
    fn not_stored(&self, key: usize, version: u64, why: &anyhow::Error) {
        if !why.is::<NotKnown>() {
            self.left().remove(&(key, version));
        }
    }

    /// Reads a key, all of it; gives how many bytes it has.
    ///
    /// # Errors
    /// When it is not stored, or cannot be read.
    pub async fn read(&self, client: &mut Client, key: usize) -> Result<u64> {
        let version = lock(&self.versions[key]).clone().context("the key was never stored")?;
        let lookup = Lookup::of(client, &self.name(key, *version)).await?;
        Ok(read::get(client, &self.readers, lookup, &mut Nowhere, &|_| {}).await?.bytes)
    }

    /// Asks for a key that is not there.
    ///
    /// # Errors
    /// When it is there, or the coordinator cannot be asked.
    pub async fn miss(&self, client: &mut Client, key: usize) -> Result<()> {
        let name = format!("{}{key}.none", self.prefix);
        let answer = client.lookup(proto::ObjectName { name }).await;
        let answer = match answer {
            Ok(parts) => parts.into_inner().message().await.map(drop),
            Err(status) => Err(status),
        };
        match answer {
            Err(status) if status.code() == tonic::Code::NotFound => Ok(()),
            Err(status) => Err(refusal(status)),
            Ok(()) => anyhow::bail!("there is an object that nobody stored"),
        }
    }

    /// Removes a version of a key that no client reads any more.
    ///
    /// # Errors
    /// When the coordinator refuses; it is no error that there is none.
    pub async fn remove(&self, client: &mut Client, key: usize, version: u64) -> Result<()> {
        let request = proto::ObjectName { name: self.name(key, version) };
        match client.remove(request).await {
            Err(status) if status.code() != tonic::Code::NotFound => return Err(refusal(status)),
            _ => self.left().remove(&(key, version)),
        };
        Ok(())
    }

    /// Another version that may be stored; no client writes or reads any more.
    pub fn take(&self) -> Option<(usize, u64)> {
        self.left().pop_first()
    }

    fn left(&self) -> MutexGuard<'_, BTreeSet<(usize, u64)>> {
        lock(&self.left)
    }

    fn name(&self, key: usize, version: u64) -> String {
        format!("{}{key}.{version}", self.prefix)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a value, as they are read.
struct Noise {
    noise: Arc<Vec<u8>>,
    at: usize,
    left: u64,
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let from = self.at % self.noise.len();
        let length = buffer.len().min(self.noise.len() - from).min(self.left as usize);
        buffer[..length].copy_from_slice(&self.noise[from..from + length]);
        (self.at, self.left) = (self.at + length, self.left - length as u64);
        Ok(length)
    }
}

/// Bytes that are not needed: they were checked when they were read.
struct Nowhere;

impl Sink for Nowhere {
    fn takes_any_order(&self) -> bool {
        true
    }

    fn write(&mut self, _offset: u64, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_never_have_one_name() {
        let keys = || Keyspace::new("load/", 2, "rs(2,1)".parse().unwrap(), 64).unwrap();
        let (one, other) = (keys(), keys());
        assert!(one.prefix().starts_with("load/") && one.prefix() != other.prefix());
        assert_eq!(one.name(1, 7), format!("{}1.7", one.prefix()));
    }

    #[test]
    fn what_a_put_did_not_store_is_not_removed() {
        let keyspace = Keyspace::new("load/", 2, "rs(2,1)".parse().unwrap(), 64).unwrap();
        keyspace.left().extend((0..3).map(|version| (0, version)));
        let taken = anyhow::anyhow!("there is an object of this name already");
        keyspace.not_stored(0, 1, &taken);
        keyspace.not_stored(0, 2, &NotKnown::new("load/0.2", &taken).into());
        let left: Vec<(usize, u64)> = std::iter::from_fn(|| keyspace.take()).collect();
        assert_eq!(left, [(0, 0), (0, 2)], "and what may be stored is");
    }

    #[test]
    fn a_value_has_its_length_wherever_it_begins() {
        let noise = Arc::new((0..10).collect::<Vec<u8>>());
        let mut bytes = Vec::new();
        Noise { noise, at: 8, left: 13 }.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    }
}
