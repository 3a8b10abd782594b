//! Which stripes of an object are not what was stored, where the whole is not.
//!
//! Place: `[get]`, after the last byte.
//! The checksum of an object says that something in it is wrong, and not what. Each stripe's was
//! recorded when it was written, and follows from the same pieces; so the user who put the object
//! can know which of its bytes to distrust.

use std::collections::VecDeque;
use std::ops::Range;

use anyhow::Result;
use suture_edge::error::unreadable;
use suture_repair::id::StripeId;

use super::layout::{Checksum, SummedPrefix};
use crate::metadata::Object;

/// Stripes that are named of those that are wrong.
const NAMED_MAX: usize = 8;

/// The checksums of an object's stripes, as they are read.
#[derive(Debug, Default)]
pub struct StripeSums {
    /// Those of which not all pieces have come, in the order of the object.
    open: VecDeque<StripeSum>,
    wrong: Vec<StripeSum>,
    /// How many have no checksum of their own.
    unrecorded: u64,
}

#[derive(Debug)]
struct StripeSum {
    id: StripeId,
    /// Its bytes within the object.
    range: Range<u64>,
    recorded: Option<u64>,
    found: Checksum,
}

impl StripeSums {
    /// Pieces of a stripe will come, which has these bytes of the object and this checksum.
    pub fn expect(&mut self, id: StripeId, range: Range<u64>, recorded: Option<u64>) {
        self.unrecorded += u64::from(recorded.is_none());
        self.open.push_back(StripeSum { id, range, recorded, found: Checksum::default() });
    }

    /// A piece: where it begins in the object, how long it is, and its checksum.
    pub fn add(&mut self, offset: u64, bytes: u64, sum: u64) {
        let Some(index) = self.open.iter().position(|stripe| stripe.range.contains(&offset)) else {
            return;
        };
        let stripe = &mut self.open[index];
        stripe.found.add(offset - stripe.range.start, bytes, sum);
        let found = stripe.found.so_far();
        if found.bytes < stripe.range.end - stripe.range.start {
            return;
        }
        let is_wrong = stripe.recorded.is_some_and(|recorded| recorded != found.checksum);
        self.wrong.extend(self.open.remove(index).filter(|_| is_wrong));
    }

    /// Refuses what is not the object, of which that many bytes with that checksum came, and
    /// nothing was given out if it was kept back.
    ///
    /// # Errors
    /// Unreadable, with the stripes that are wrong as far as they are known.
    pub fn check(&self, object: &Object, found: SummedPrefix, is_kept_back: bool) -> Result<()> {
        let SummedPrefix { bytes: found, checksum: sum } = found;
        if (found, sum) == (object.bytes, object.checksum) {
            return Ok(());
        }
        let what =
            if is_kept_back { "nothing of it was kept" } else { "what was given out is wrong" };
        Err(unreadable(format!(
            "'{}' came back with {found} bytes and checksum {sum:016x}, {} bytes and {:016x} were \
             stored: {}; {what}",
            object.name,
            object.bytes,
            object.checksum,
            self.describe(),
        )))
    }

    /// Which of them are wrong, as far as that is known: a part of a sentence.
    pub fn describe(&self) -> String {
        let named = self.wrong.iter().take(NAMED_MAX).map(|stripe| {
            let Range { start, end } = stripe.range;
            format!("{} (bytes {start} to {})", stripe.id, end - 1)
        });
        let named: Vec<String> = named.collect();
        match (self.wrong.len(), self.unrecorded) {
            (0, 0) => "each stripe by itself is as it was".into(),
            (0, count) => format!("where is not known, since {count} stripes have no checksum"),
            (count, _) if count > NAMED_MAX => {
                format!("wrong are {} and {} more", named.join(", "), count - NAMED_MAX)
            }
            _ => format!("wrong is {}", named.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::object_checksum;
    use super::*;

    const STRIPE_BYTES: u64 = 1000;

    /// Sums of so many stripes of which these have other bytes than were recorded.
    fn sums_of(count: u64, wrong: &[u64], recorded: bool) -> StripeSums {
        let content = |stripe: u64| -> Vec<u8> {
            (0..STRIPE_BYTES).map(|at| (at * 7 + stripe) as u8).collect()
        };
        let mut sums = StripeSums::default();
        for stripe in 0..count {
            let (from, sum) = (stripe * STRIPE_BYTES, object_checksum(&content(stripe)));
            sums.expect(StripeId(stripe + 5), from..from + STRIPE_BYTES, recorded.then_some(sum));
        }
        for stripe in 0..count {
            let mut bytes = content(stripe);
            if wrong.contains(&stripe) {
                bytes[700] ^= 1;
            }
            // In any order.
            for (from, to) in [(600, 1000), (0, 250), (250, 600)] {
                let sum = object_checksum(&bytes[from..to]);
                sums.add(stripe * STRIPE_BYTES + from as u64, (to - from) as u64, sum);
            }
        }
        assert!(sums.open.is_empty(), "all are whole");
        sums
    }

    #[test]
    fn a_wrong_stripe_is_named_with_its_bytes() {
        let one = sums_of(4, &[2], true);
        assert_eq!(one.describe(), "wrong is stripe 7 (bytes 2000 to 2999)");
        let two = sums_of(4, &[0, 3], true);
        let said = "wrong is stripe 5 (bytes 0 to 999), stripe 8 (bytes 3000 to 3999)";
        assert_eq!(two.describe(), said);
        let many = sums_of(20, &(0..12).collect::<Vec<_>>(), true).describe();
        assert!(many.ends_with("stripe 12 (bytes 7000 to 7999) and 4 more"), "{many}");
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        assert_eq!(sums_of(3, &[], true).describe(), "each stripe by itself is as it was");
        let unknown = "where is not known, since 3 stripes have no checksum";
        assert_eq!(sums_of(3, &[1], false).describe(), unknown);
    }
}
