//! Which copies a put may write: those whose stamp the coordinator has made for them.
//!
//! Place: put begun -> [stripes placed] -> chunks durable -> object visible.
//! A client names to an agent the copy that it writes, and the numbers of stripes can be guessed.
//! The stamp cannot: it is a keyed hash of the stripe's number, and the coordinator sends it to the
//! put that was given the stripe, and the key to agents. So a client writes nothing into stripes of
//! others, nor under numbers that no put has. The client of a put is not known here.
//!
//! The key is made anew whenever a coordinator starts, since that ends all puts; stamps stay as
//! random as those that are drawn.

use std::fmt;

use ring::hmac;
use suture_repair::id::{ChunkCopy, Stamp, StripeId};

/// Bytes of a key: as many as the hash has.
const KEY_BYTES: usize = 32;

/// What the coordinator and its agents share.
#[derive(Clone, PartialEq, Eq)]
pub struct PutKey([u8; KEY_BYTES]);

impl PutKey {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no random bits.
    pub fn random() -> rustix::io::Result<PutKey> {
        let mut bytes = [0; KEY_BYTES];
        // So few bytes come all at once.
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(PutKey(bytes))
    }

    /// The key with these bytes; `None` where a key has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<PutKey> {
        Some(PutKey(bytes.try_into().ok()?))
    }

    /// What is sent to agents.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Of all copies that a put makes of a stripe.
    pub fn stamp(&self, stripe: StripeId) -> Stamp {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let hash = hmac::sign(&key, &stripe.0.to_le_bytes());
        let bits = hash.as_ref().first_chunk().expect("a hash has 32 bytes");
        Stamp::of_put(u64::from_le_bytes(*bits))
    }

    /// Whether the copy is named with the stamp that the coordinator made for it.
    pub fn admits(&self, copy: ChunkCopy) -> bool {
        copy.stamp == self.stamp(copy.stripe)
    }
}

impl fmt::Debug for PutKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PutKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::ChunkIndex;

    use super::*;

    #[test]
    fn a_stamp_is_of_its_stripe_and_its_key_alone_and_is_a_puts() {
        let [one, two] = [PutKey([1; KEY_BYTES]), PutKey([2; KEY_BYTES])];
        let stamps = [one.stamp(StripeId(5)), one.stamp(StripeId(6)), two.stamp(StripeId(5))];
        assert!(stamps[0] != stamps[1] && stamps[0] != stamps[2]);
        assert!(stamps.iter().all(|stamp| *stamp == Stamp::of_put(stamp.0)));
        let copy = |stamp| ChunkCopy { stripe: StripeId(5), chunk: ChunkIndex(1), stamp };
        assert!(one.admits(copy(stamps[0])));
        assert!(![stamps[1], stamps[2], Stamp(0)].into_iter().any(|stamp| one.admits(copy(stamp))));
        assert_eq!(PutKey::from_bytes(&one.bytes()).as_ref(), Some(&one));
        assert_eq!(PutKey::from_bytes(&[1; 31]), None);
        assert!(PutKey::random().unwrap() != PutKey::random().unwrap());
        assert_eq!(format!("{one:?}"), "PutKey(..)", "it is in no log");
    }
}
