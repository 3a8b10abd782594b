//! Which chunks a client may name: those of objects whose names begin with its prefix.
//!
//! Place: a client asks for a chunk -> [the chunk's label says whose it is] -> it is served.
//! A coordinator shows a client its own objects only, but an agent is asked by stripe, chunk and
//! stamp, and these can be guessed. What a chunk belongs to is in its label, which the put wrote
//! with it, so that nothing has to be asked of the coordinator.

use suture_repair::id::ChunkCopy;
use suture_repair::label::Label;
use suture_repair::wire::Denial;

use crate::identity::Principal;
use crate::label::StripeLabel;

/// What whoever is at the other end of a connection may name.
#[derive(Debug)]
pub struct Scope {
    prefix: String,
    /// The copy that was found to be in it last: one is read in many parts.
    last: Option<ChunkCopy>,
}

impl Scope {
    /// That of a caller; where nobody has to prove who it is, everything.
    pub fn of(principal: Option<&Principal>) -> Scope {
        let prefix = principal.map_or_else(String::new, |who| who.prefix.clone());
        Scope { prefix, last: None }
    }

    /// Whether the copy is in it, whatever its label says or because that has been seen.
    pub fn is_open(&self, copy: ChunkCopy) -> bool {
        self.prefix.is_empty() || self.last == Some(copy)
    }

    /// Whether a copy with this label is in it.
    ///
    /// # Errors
    /// That it is not, or that its label does not say.
    pub fn check(&mut self, copy: ChunkCopy, label: &Label) -> Result<(), Denial> {
        let is_own = |label: StripeLabel| label.object.starts_with(&self.prefix);
        if !self.is_open(copy) && !StripeLabel::decode(label).is_ok_and(is_own) {
            return Err(Denial::NotOwned);
        }
        self.last = Some(copy);
        Ok(())
    }
}
