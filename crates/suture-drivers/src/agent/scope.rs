//! Which chunks a client may name: those of objects whose names begin with its prefix.
//!
//! Place: a client asks for a chunk -> [the chunk's label names its object] -> it is served.
//! A coordinator shows a client its own objects only, but an agent is asked by stripe, chunk and
//! stamp, and these can be guessed. What a chunk belongs to is in its label, which the put wrote
//! with it, so that nothing has to be asked of the coordinator.

use suture_repair::id::ChunkCopy;
use suture_repair::label::Label;
use suture_repair::wire::Denial;

use crate::identity::Principal;
use crate::label::StripeLabel;

/// Which objects' chunks the principal at the other end of a connection may name.
#[derive(Debug)]
pub struct Scope {
    prefix: String,
    /// The copy that was found to be in it last: one is read in many parts.
    last: Option<ChunkCopy>,
}

impl Scope {
    /// The scope of a caller; without credentials, where no principal is proven, everything.
    pub fn of(principal: Option<&Principal>) -> Scope {
        let prefix = principal.map_or_else(String::new, |who| who.prefix.clone());
        Scope { prefix, last: None }
    }

    /// Whether the copy is in it, whatever its label says or because that has been seen.
    pub fn is_open(&self, copy: ChunkCopy) -> bool {
        self.prefix.is_empty() || self.last == Some(copy)
    }

    /// Whether something with this label is in it.
    ///
    /// # Errors
    /// That it is not, or that its label does not say.
    pub fn check(&self, label: &Label) -> Result<(), Denial> {
        let is_own = |label: StripeLabel| label.object.starts_with(&self.prefix);
        if self.prefix.is_empty() || StripeLabel::decode(label).is_ok_and(is_own) {
            Ok(())
        } else {
            Err(Denial::NotOwned)
        }
    }

    /// The same of a stored copy and its own label, which is seen with it. A label that a client
    /// sends proves nothing about a copy that is stored.
    ///
    /// # Errors
    /// As [`Scope::check`].
    pub fn check_stored(&mut self, copy: ChunkCopy, label: &Label) -> Result<(), Denial> {
        self.check(label)?;
        self.last = Some(copy);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{ChunkIndex, Stamp, StripeId};

    use super::*;
    use crate::identity::AccessRole;

    fn label(object: &str) -> Label {
        let label = StripeLabel {
            object: object.into(),
            code: "rs(2,1)".parse().unwrap(),
            object_chunk_bytes: 64,
            created: 1,
            first: StripeId(7),
            ordinal: 0,
            is_last: true,
            chunk_bytes: 64,
            data_bytes: 128,
            checksum: 1,
            crcs: vec![1, 2, 3],
        };
        label.encode()
    }

    #[test]
    fn a_label_that_is_sent_opens_nothing_that_is_there() {
        let copy = ChunkCopy { stripe: StripeId(7), chunk: ChunkIndex(0), stamp: Stamp(1) };
        let who = Principal::new(AccessRole::Client, "team").unwrap();
        let mut scope = Scope::of(Some(&Principal { prefix: "team/".into(), ..who }));
        assert_eq!(scope.check(&label("team/x")), Ok(()), "it may write that");
        assert!(!scope.is_open(copy));
        assert_eq!(scope.check_stored(copy, &label("rival/x")), Err(Denial::NotOwned));
        assert_eq!(scope.check_stored(copy, &label("team/x")), Ok(()));
        assert!(scope.is_open(copy));
        assert!(Scope::of(None).is_open(copy) && Scope::of(None).check(&Label::default()).is_ok());
    }
}
