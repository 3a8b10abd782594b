//! What a helper or relay computes for each slice: the sum of what is in memory, in place.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...
//! Children send finished partial sums, so only the own bytes are multiplied. The first child's
//! buffer becomes the sum: no memory beyond what the lane reserved. It is computed where it is
//! sent or written, so that the bytes are still in that processor's cache.

use suture_gf::Coefficients;
use suture_repair::id::NodeId;
use suture_repair::role::Role;

use crate::buffer::Buffer;

/// Where a slice in memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The agent's own copy.
    Own,
    /// The spool, which holds a sum already.
    Spool,
    /// A child.
    Child(NodeId),
}

/// A sum that is still to be computed.
#[derive(Debug)]
pub struct Sum {
    into: Buffer,
    /// What `into` is multiplied by.
    factor: u8,
    rest: Vec<Buffer>,
    coefficients: Vec<u8>,
}

impl Sum {
    /// The sum of a slice's sources under `role`. All must be of one length.
    pub fn of(sources: Vec<(Source, Buffer)>, role: &Role) -> Sum {
        let own = role.own.map_or(1, |own| own.coefficient);
        let factor = |source| if source == Source::Own { own } else { 1 };
        let mut parts = sources;
        // A child first, if there is one: it needs no multiplication in place.
        parts.sort_by_key(|(source, _)| factor(*source) != 1);
        let coefficients = parts.iter().skip(1).map(|(source, _)| factor(*source)).collect();
        let mut parts = parts.into_iter();
        let (source, into) = parts.next().expect("a slice has a source");
        Sum { into, factor: factor(source), rest: parts.map(|(_, b)| b).collect(), coefficients }
    }

    /// Computes it; all other buffers go back to the pool.
    pub fn compute(mut self) -> Buffer {
        multiply(&mut self.into, self.factor);
        if !self.rest.is_empty() {
            let sources: Vec<&[u8]> = self.rest.iter().map(|buffer| &**buffer).collect();
            suture_gf::dot_add(&mut self.into, &Coefficients::new(&self.coefficients), &sources);
        }
        self.into
    }
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
    use crate::buffer::Pool;
    use suture_gf::field;
    use suture_repair::id::{ChunkCopy, ChunkIndex, Stamp, StripeId};
    use suture_repair::plan::{Lane, Mode, Plan, Range, Start};
    use suture_repair::random::Random;
    use suture_repair::role::{Own, Sink};

    fn role(coefficient: u8) -> Role {
        let range = Range { from: 0, to: 1 };
        let lane = Lane {
            range,
            lost: vec![],
            mode: Mode::Streamed,
            decoder: None,
            scheme: None,
            edges: vec![],
        };
        let plan = Plan {
            stripe: StripeId(0),
            lost: vec![],
            destinations: Default::default(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![],
        };
        let copy = ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(0), stamp: Stamp(0) };
        Role {
            own: Some(Own { copy, coefficient }),
            children: vec![],
            sink: Sink::Store,
            stored: false,
            windows: plan.windows(&lane, 1),
        }
    }

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
            assert_eq!(*Sum::of(sources, &role(coefficient)).compute(), expected[..]);
        }
    }
}
