//! Objects in the native store, from the client's side: how they are written and read.
//!
//! Place: `[put]` -> failure detected -> ... -> stripe healthy -> `[get]`; both also in between.
//! * [`layout`] defines which byte of an object lies in which chunk of which stripe;
//! * [`pool`] keeps connections to agents and remembers which agents do not answer;
//! * [`answer_times`] knows which agents lag behind the others, and [`put_times`] how long a put
//!   waits for one that does;
//! * [`cut`] cuts a source of bytes into stripes, [`mod@write`] stores them, as a [`put_stream`]
//!   reports to the coordinator ([`unanswered`] finds out what became of a commit), [`lookup`]
//!   finds an object, and [`read`] brings it back, around what is missing ([`stripe_sums`] finds
//!   which stripe is wrong, should the whole be).
//!
//! Invariant: memory depends on the code and on constants here, never on the length of an object;
//! nor on that of its chunks, but for reads of codes with sub-chunks, which hold some chunks whole.

pub mod answer_times;
pub mod cut;
pub mod layout;
pub mod lookup;
pub mod pool;
pub mod put_stream;
mod put_times;
pub mod read;
mod stripe_sums;
pub mod unanswered;
pub mod write;
