//! What an agent computes for each slice, from what is in memory.
//!
//! Place: ... slice received or read -> [its result computed] -> sent or written ...
//! Computed where the first result is sent or written, so that the bytes are still in that
//! processor's cache, and so that the agent's own task never touches a byte. Sums, by far the most
//! of it, are formed in place: children send finished partial sums, so only the own bytes are
//! multiplied, and the first child's buffer becomes the sum. Whatever else a role computes takes
//! buffers for its results, which the lane has reserved.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use suture_code::Scratch;
use suture_gf::Coefficients;
use suture_repair::id::NodeId;
use suture_repair::role::{Computation, Role};

use crate::buffer::{Buffer, Pool};

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Where a slice in memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The agent's own copy.
    Own,
    /// The spool, which holds results already.
    Spool,
    /// Sent by this child.
    Child(NodeId),
}

/// The results of a slice that are still to be computed.
#[derive(Debug)]
pub struct Combination {
    role: Arc<Role>,
    slice: u32,
    sources: Vec<(Source, Buffer)>,
    pool: Arc<Pool>,
}

/// One result of a slice.
#[derive(Debug)]
pub struct Pending(Inner);

#[derive(Debug)]
enum Inner {
    Only(Combination),
    OneOf(Arc<Mutex<Results>>, usize),
}

/// Results that go to several sinks: computed once, by the sink that comes first.
#[derive(Debug)]
enum Results {
    Sources(Option<Combination>),
    Computed(Vec<Option<Buffer>>),
}

impl Combination {
    /// What `role` makes of a slice's sources, which have the lengths that the role gives.
    pub fn new(
        role: Arc<Role>,
        slice: u32,
        sources: Vec<(Source, Buffer)>,
        pool: Arc<Pool>,
    ) -> Combination {
        Combination { role, slice, sources, pool }
    }

    /// The result for each sink of the role, in their order.
    pub fn into_results(self) -> Vec<Pending> {
        let count = self.role.sinks.len();
        if count == 1 {
            return vec![Pending(Inner::Only(self))];
        }
        let shared = Arc::new(Mutex::new(Results::Sources(Some(self))));
        (0..count).map(|result| Pending(Inner::OneOf(shared.clone(), result))).collect()
    }

    /// Computes all results; all other buffers go back to the pool.
    pub fn compute(mut self) -> Vec<Buffer> {
        match (&self.role.computation, &self.sources[..]) {
            (_, [(Source::Spool, _)]) => self.unspool(),
            (Computation::Sum { coefficient }, _) => vec![sum(self.sources, *coefficient)],
            (Computation::Pass, _)
                if self.role.own.as_ref().is_none_or(|own| own.part.is_none()) =>
            {
                let (_, only) = self.sources.pop().expect("a slice has a source");
                vec![only]
            }
            _ => self.combine(),
        }
    }

    /// The results as they lie in the spool, one after the other.
    fn unspool(mut self) -> Vec<Buffer> {
        let (_, spooled) = self.sources.pop().expect("the spool was read");
        if self.role.sinks.len() == 1 {
            return vec![spooled];
        }
        let copy = |result: &[u8]| {
            let mut buffer = self.pool.take(result.len());
            buffer.copy_from_slice(result);
            buffer
        };
        spooled.chunks(self.role.result_bytes(self.slice)).map(copy).collect()
    }

    fn combine(self) -> Vec<Buffer> {
        let Combination { role, slice, sources, pool } = self;
        let find = |wanted| {
            let found = sources.iter().find(|(source, _)| *source == wanted);
            found.map(|(_, buffer)| &**buffer)
        };
        let children = role.children.iter().map(|child| find(Source::Child(child.node)));
        let children: Option<Vec<&[u8]>> = children.collect();
        let children = children.expect("a slice is combined when all of its sources are there");
        let result_bytes = role.result_bytes(slice);
        let mut results: Vec<Buffer> = role.sinks.iter().map(|_| pool.take(result_bytes)).collect();
        let mut into: Vec<&mut [u8]> = results.iter_mut().map(|buffer| &mut **buffer).collect();
        let combined = SCRATCH.with_borrow_mut(|scratch| {
            role.combine(scratch, slice, find(Source::Own), &children, &mut into)
        });
        combined.expect("the lengths of sources were compared with the role's");
        results
    }
}

impl Pending {
    /// Computes it, unless that has happened along with another result of the slice.
    pub fn compute(self) -> Buffer {
        let (shared, result) = match self.0 {
            Inner::Only(combination) => {
                return combination.compute().pop().expect("one sink, one result");
            }
            Inner::OneOf(shared, result) => (shared, result),
        };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Results::Sources(combination) = &mut *shared {
            let combination = combination.take().expect("computed once");
            *shared = Results::Computed(combination.compute().into_iter().map(Some).collect());
        }
        let Results::Computed(results) = &mut *shared else { unreachable!("computed above") };
        results[result].take().expect("each result is taken once")
    }
}

/// The own bytes times `coefficient` plus those of the children, in place.
fn sum(sources: Vec<(Source, Buffer)>, coefficient: u8) -> Buffer {
    let factor = |source| if source == Source::Own { coefficient } else { 1 };
    let mut parts = sources;
    // A child first, if there is one: it needs no multiplication in place.
    parts.sort_by_key(|(source, _)| factor(*source) != 1);
    let coefficients: Vec<u8> = parts.iter().skip(1).map(|(source, _)| factor(*source)).collect();
    let mut parts = parts.into_iter();
    let (source, mut into) = parts.next().expect("a slice has a source");
    multiply(&mut into, factor(source));
    let rest: Vec<Buffer> = parts.map(|(_, buffer)| buffer).collect();
    if !rest.is_empty() {
        let sources: Vec<&[u8]> = rest.iter().map(|buffer| &**buffer).collect();
        suture_gf::dot_add(&mut into, &Coefficients::new(&coefficients), &sources);
    }
    into
}

/// `bytes *= factor`, by way of a tile that stays in the first-level cache: c x = x + (c - 1) x,
/// and minus is plus.
fn multiply(bytes: &mut [u8], factor: u8) {
    if factor == 1 {
        return;
    }
    let mut copy = [0; suture_gf::kernel::TILE_BYTES];
    for tile in bytes.chunks_mut(copy.len()) {
        let copy = &mut copy[..tile.len()];
        copy.copy_from_slice(tile);
        suture_gf::mul_add(tile, factor ^ 1, copy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_gf::field;
    use suture_repair::random::Random;

    #[test]
    fn sums_are_those_of_the_field() {
        let (pool, mut random) = (Pool::new(1 << 20), Random::new(3));
        for _ in 0..300 {
            let len = random.between(1, 20_000) as usize;
            let coefficient = random.next_u64() as u8;
            let mut sources = Vec::new();
            for index in 0..random.between(1, 4) {
                let source = match (index, random.per_mille(700)) {
                    (0, true) => Source::Own,
                    _ => Source::Child(NodeId(index as u32)),
                };
                let mut buffer = pool.take(len);
                random.fill(&mut buffer);
                sources.push((source, buffer));
            }
            random.shuffle(&mut sources);
            let expected: Vec<u8> = (0..len)
                .map(|i| {
                    sources.iter().fold(0, |sum, (source, buffer)| match source {
                        Source::Own => sum ^ field::mul(coefficient, buffer[i]),
                        _ => sum ^ buffer[i],
                    })
                })
                .collect();
            assert_eq!(*sum(sources, coefficient), expected[..]);
        }
    }
}
