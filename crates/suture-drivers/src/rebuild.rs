//! The metadata made again from what the agents hold.
//!
//! Place: beside the life of a repair: without the map of stripes nothing can be repaired or read.
//! Agents join and list their copies, as at every start of a coordinator; one copy of each stripe
//! that the metadata do not know is asked for its label. The labels give objects, the lists give
//! the places of their chunks. What is known already stays as it is, so a backup is completed by
//! what was stored since; but where two objects have one name, the newer one gets it that can be
//! read.
//!
//! Invariants: an object appears only with all of its stripes; a chunk is recorded only where a
//! copy of its length and checksum was listed, and no two chunks of a stripe on one node; a stripe
//! whose copies could not all be asked is not taken for one without a label.
//! Deliberately absent: which objects were removed. One that was comes back if its chunks are still
//! there, since nothing distinguishes it from one that was lost.

pub mod recovery;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use suture_edge::error::quoted;
use suture_repair::id::{Generation, ListedCopy, NodeId, Stamp, StripeId};
use suture_repair::message::CopyFault;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::wire::ClusterId;
use tokio::task::JoinSet;
use tracing::debug;

use crate::address::AgentAddress;
use crate::chunk_client::ChunkError;
use crate::coordinator::Listings;
use crate::identity::credentials::Kept;
use crate::label::StripeLabel;
use crate::metadata::{Object, ObjectStripe, is_readable};
use crate::object::layout::join_checksums;
use crate::object::pool::ConnectionPool;

/// Labels that are asked for at a time: with a few agents enough to keep their disks busy.
const LABELS_AT_ONCE: usize = 64;

/// Pauses before those that did not answer are asked again: links break for moments.
const ASKED_AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// The copies of one stripe, and where they are.
pub type Copies = Vec<(NodeId, ListedCopy)>;

/// A stripe of which copies were listed.
#[derive(Clone, Debug)]
pub struct FoundStripe {
    /// Which nodes have a copy of which of its chunks.
    pub copies: Copies,
    /// What it is by its labels; none when none of its copies has a label that can be read.
    pub label: Option<StripeLabel>,
    /// Whether there is a copy that could not be asked, and might have such a label.
    pub is_unread: bool,
}

/// Labels as far as they could be read.
#[derive(Debug, Default)]
pub struct ReadLabels {
    /// Each stripe with its copies.
    pub stripes: BTreeMap<StripeId, FoundStripe>,
    /// Why nodes could not be asked, those whose copies might have shown more.
    pub unasked: BTreeMap<NodeId, String>,
}

/// Objects that can be recorded, and what is left.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Each with all of its stripes, in order; of those with one name the first is to keep it.
    pub objects: Vec<(Object, Vec<ObjectStripe>)>,
    /// Objects of which stripes are missing.
    pub incomplete: Vec<IncompleteObject>,
    /// Stripes whose chunks do not say what they belong to.
    pub unlabelled: u64,
    /// Stripes whose chunks could not all be asked.
    pub unread: u64,
}

/// An object of which not all stripes were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteObject {
    /// The name that its labels have.
    pub name: String,
    /// How many of its stripes were found.
    pub found: u64,
    /// How many it has, as far as that is known.
    pub stripes: Option<u64>,
}

/// The listed copies of stripes that are not `known`.
pub fn copies_of_unknown(
    listings: &Listings,
    known: &BTreeSet<StripeId>,
) -> BTreeMap<StripeId, Copies> {
    let mut copies: BTreeMap<StripeId, Copies> = BTreeMap::new();
    for (&node, listed) in listings {
        for listed in listed.iter().filter(|listed| !known.contains(&listed.copy.stripe)) {
            copies.entry(listed.copy.stripe).or_default().push((node, *listed));
        }
    }
    copies
}

/// Asks the agents for the label of each stripe, of one copy after the other until one has a label
/// that fits the copies of most nodes; those that do not answer some times more. `read` is called
/// for each stripe that is done.
pub async fn read_labels(
    cluster: ClusterId,
    addresses: &BTreeMap<NodeId, AgentAddress>,
    credentials: Option<Arc<Kept>>,
    copies: BTreeMap<StripeId, Copies>,
    mut read: impl FnMut(),
) -> ReadLabels {
    let addresses = Arc::new(addresses.clone());
    let pool = || Arc::new(ConnectionPool::new(cluster, credentials.clone()));
    let mut found = ask_all(pool(), &addresses, copies, &mut read).await;
    for pause in ASKED_AGAIN_AFTER {
        let unread = found.stripes.iter().filter(|(_, stripe)| stripe.is_unread);
        let unread: BTreeMap<_, _> = unread.map(|(id, of)| (*id, of.copies.clone())).collect();
        if unread.is_empty() {
            break;
        }
        tokio::time::sleep(pause).await;
        // A new pool tries agents again that failed before.
        let again = ask_all(pool(), &addresses, unread, &mut || ()).await;
        found.stripes.extend(again.stripes);
        found.unasked = again.unasked;
    }
    found
}

/// Asks once for the label of each stripe, of many at a time.
async fn ask_all(
    pool: Arc<ConnectionPool>,
    addresses: &Arc<BTreeMap<NodeId, AgentAddress>>,
    copies: BTreeMap<StripeId, Copies>,
    read: &mut impl FnMut(),
) -> ReadLabels {
    let mut found = ReadLabels::default();
    let mut waiting = copies.into_iter();
    let mut asked = JoinSet::new();
    loop {
        while asked.len() < LABELS_AT_ONCE
            && let Some((id, copies)) = waiting.next()
        {
            let (pool, addresses) = (pool.clone(), addresses.clone());
            asked.spawn(async move {
                let (label, unasked) = read_label(&pool, &addresses, &copies).await;
                (id, FoundStripe { copies, label, is_unread: !unasked.is_empty() }, unasked)
            });
        }
        let Some(done) = asked.join_next().await else { return found };
        let (id, stripe, unasked) = done.expect("whoever reads a label does not panic");
        found.stripes.insert(id, stripe);
        for (node, why) in unasked {
            found.unasked.entry(node).or_insert(why);
        }
        read();
    }
}

/// The label that the copies of the most nodes fit. Those of a put all fit the same one; a copy
/// with another has come under the number of the stripe by mistake or malice, and speaks for its
/// node alone. Where there is no such label for more than half of the nodes, it has to be known
/// what every copy says: with the label comes why nodes could not be asked.
async fn read_label(
    pool: &ConnectionPool,
    addresses: &BTreeMap<NodeId, AgentAddress>,
    copies: &Copies,
) -> (Option<StripeLabel>, BTreeMap<NodeId, String>) {
    let holders = copies.iter().map(|(node, _)| *node).collect::<BTreeSet<NodeId>>().len();
    let mut best: Option<(usize, StripeLabel)> = None;
    let mut found: Vec<StripeLabel> = Vec::new();
    let mut unasked = BTreeMap::new();
    for &(node, listed) in copies {
        if found.iter().any(|label| is_of(label, &listed)) {
            continue;
        }
        match ask(pool, addresses.get(&node), listed).await {
            Ok(Some(label)) => {
                let nodes = nodes_of(&label, copies);
                if 2 * nodes > holders {
                    return (Some(label), BTreeMap::new());
                }
                if best.as_ref().is_none_or(|(most, _)| nodes > *most) {
                    best = Some((nodes, label.clone()));
                }
                found.push(label);
            }
            Ok(None) => {}
            Err(why) => drop(unasked.insert(node, why)),
        }
    }
    // What could not be asked may be what most would fit.
    let best = best.filter(|_| unasked.is_empty());
    (best.map(|(_, label)| label), unasked)
}

/// The label of one copy; none where it has none of its own.
///
/// # Errors
/// Why it is not known what the copy says.
async fn ask(
    pool: &ConnectionPool,
    address: Option<&AgentAddress>,
    listed: ListedCopy,
) -> Result<Option<StripeLabel>, String> {
    let Some(address) = address else { return Err("it does not say where it serves".into()) };
    if pool.is_silent(address) {
        return Err(format!("{address} did not answer a moment ago"));
    }
    let mut connection = pool.take(address).await.map_err(|why| why.to_string())?;
    let label = connection.read_label(listed.copy).await;
    pool.give(address, connection, &label);
    let none = |why: &dyn fmt::Display| debug!(copy = %listed.copy, %why, "no label");
    match label.map(|label| StripeLabel::decode(&label)) {
        Ok(Ok(label)) if is_of(&label, &listed) => return Ok(Some(label)),
        Ok(Ok(_)) => none(&"it is of another chunk"),
        Ok(Err(why)) => none(&why),
        Err(ChunkError::Fault { fault: CopyFault::Missing | CopyFault::Corrupt, .. }) => {
            none(&"the copy is of no use");
        }
        Err(why) => return Err(why.to_string()),
    }
    Ok(None)
}

/// How many nodes have a copy that the label describes.
fn nodes_of(label: &StripeLabel, copies: &Copies) -> usize {
    let of_it = copies.iter().filter(|(_, listed)| is_of(label, listed)).map(|(node, _)| *node);
    of_it.collect::<BTreeSet<NodeId>>().len()
}

/// Whether the label describes a copy as it was listed.
fn is_of(label: &StripeLabel, listed: &ListedCopy) -> bool {
    let crc = label.crcs.get(usize::from(listed.copy.chunk.0)).copied();
    crc.is_some() && listed.digest.bytes == Some(label.chunk_bytes) && listed.digest.crc == crc
}

/// The objects that the stripes make up, in the order in which they have a right to their name:
/// such as can be read before others, newer ones before older ones.
pub fn objects_of(found: BTreeMap<StripeId, FoundStripe>) -> Rebuilt {
    let mut rebuilt = Rebuilt::default();
    let mut objects: BTreeMap<StripeId, Vec<(StripeLabel, ObjectStripe)>> = BTreeMap::new();
    for (id, FoundStripe { copies, label, is_unread }) in found {
        match label {
            Some(label) => {
                let stripe = stripe_of(id, &copies, &label);
                objects.entry(label.first).or_default().push((label, stripe));
            }
            None if is_unread => rebuilt.unread += 1,
            None => rebuilt.unlabelled += 1,
        }
    }
    for mut stripes in objects.into_values() {
        stripes.sort_by_key(|(label, _)| label.ordinal);
        if is_whole(&stripes) {
            rebuilt.objects.push(object_of(stripes))
        } else {
            rebuilt.incomplete.push(incomplete(&stripes))
        }
    }
    // Clocks are set; ids of stripes only grow.
    rebuilt
        .objects
        .sort_by_key(|(_, stripes)| (!is_readable(stripes), Reverse(stripes[0].stripe.id)));
    rebuilt
}

/// Whether these are all stripes of one object, in order.
fn is_whole(stripes: &[(StripeLabel, ObjectStripe)]) -> bool {
    let (head, first) = &stripes[0];
    let last = stripes.len() as u64 - 1;
    head.first == first.stripe.id
        && stripes.is_sorted_by(|(_, a), (_, b)| a.stripe.id < b.stripe.id)
        && (0..).zip(stripes).all(|(ordinal, (label, _))| {
            label.is_of_object(head)
                && label.ordinal == ordinal
                && label.is_last == (ordinal == last)
        })
}

fn object_of(stripes: Vec<(StripeLabel, ObjectStripe)>) -> (Object, Vec<ObjectStripe>) {
    let head = stripes[0].0.clone();
    let add = |(bytes, sum): (u64, u64), (label, _): &(StripeLabel, ObjectStripe)| {
        (bytes + label.data_bytes, join_checksums(sum, label.checksum, label.data_bytes))
    };
    let (bytes, checksum) = stripes.iter().fold((0, 0), add);
    let object = Object {
        name: head.object,
        bytes,
        code: head.code,
        chunk_bytes: head.object_chunk_bytes,
        checksum,
        created: head.created,
    };
    (object, stripes.into_iter().map(|(_, stripe)| stripe).collect())
}

fn incomplete(stripes: &[(StripeLabel, ObjectStripe)]) -> IncompleteObject {
    let last = stripes.iter().find(|(label, _)| label.is_last);
    IncompleteObject {
        name: stripes[0].0.object.clone(),
        found: stripes.len() as u64,
        stripes: last.and_then(|(label, _)| label.ordinal.checked_add(1)),
    }
}

fn stripe_of(id: StripeId, copies: &Copies, label: &StripeLabel) -> ObjectStripe {
    let chunk_bytes = label.chunk_bytes;
    let good: Copies = copies.iter().filter(|(_, listed)| is_of(label, listed)).copied().collect();
    let places = places(label.crcs.len(), &good);
    // Where no copy was found the stamp is that of no copy: whichever comes back is adopted.
    let chunks = label.crcs.iter().zip(places).map(|(&crc, place)| ChunkRecord {
        node: place.map(|(node, _)| node),
        stamp: place.map(|(_, listed)| listed.copy.stamp).unwrap_or(Stamp(0)),
        bytes: chunk_bytes,
        crc: Some(crc),
    });
    let chunks = chunks.collect();
    let (unit_bytes, generation) = (chunk_bytes, Generation(0));
    let stripe = Stripe { id, code: label.code, chunk_bytes, unit_bytes, generation, chunks };
    ObjectStripe { stripe, data_bytes: label.data_bytes, checksum: Some(label.checksum) }
}

/// A copy for as many chunks as can have one, each on a node of its own.
fn places(chunks: usize, copies: &Copies) -> Vec<Option<(NodeId, ListedCopy)>> {
    let mut of_chunk: Vec<Copies> = vec![Vec::new(); chunks];
    copies.iter().for_each(|copy| of_chunk[usize::from(copy.1.copy.chunk.0)].push(*copy));
    let mut taken: BTreeMap<NodeId, (usize, ListedCopy)> = BTreeMap::new();
    for chunk in 0..chunks {
        place(chunk, &of_chunk, &mut taken, &mut BTreeSet::new());
    }
    let mut places = vec![None; chunks];
    taken.into_iter().for_each(|(node, (chunk, copy))| places[chunk] = Some((node, copy)));
    places
}

/// Finds the chunk a place, and chunks that are in its way other ones (an augmenting path).
fn place(
    chunk: usize,
    of_chunk: &[Copies],
    taken: &mut BTreeMap<NodeId, (usize, ListedCopy)>,
    tried: &mut BTreeSet<NodeId>,
) -> bool {
    of_chunk[chunk].iter().any(|&(node, copy)| {
        let is_free = tried.insert(node)
            && match taken.get(&node).map(|(other, _)| *other) {
                None => true,
                Some(other) => place(other, of_chunk, taken, tried),
            };
        if is_free {
            taken.insert(node, (chunk, copy));
        }
        is_free
    })
}

impl fmt::Display for IncompleteObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of ", quoted(&self.name), self.found)?;
        match self.stripes {
            Some(stripes) => write!(f, "its {stripes} stripes"),
            None => write!(f, "its stripes, the last is not among them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{ChunkCopy, ChunkIndex, Digest};

    use super::*;

    const CHUNK: u64 = 4096;

    fn label(first: u64, ordinal: u64, is_last: bool) -> StripeLabel {
        StripeLabel {
            object: format!("object-{first}"),
            code: "rs(2,1)".parse().unwrap(),
            object_chunk_bytes: CHUNK,
            created: 5,
            first: StripeId(first),
            ordinal,
            is_last,
            chunk_bytes: CHUNK,
            data_bytes: 2 * CHUNK,
            checksum: 0,
            crcs: vec![10, 11, 12],
        }
    }

    fn copy(stripe: u64, chunk: u8, node: u32) -> (NodeId, ListedCopy) {
        let copy =
            ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(chunk), stamp: Stamp(9) };
        let digest = Digest { bytes: Some(CHUNK), crc: Some(10 + u32::from(chunk)) };
        (NodeId(node), ListedCopy { copy, digest })
    }

    fn whole(stripe: u64, label: StripeLabel) -> (StripeId, FoundStripe) {
        let copies = (0..3).map(|chunk| copy(stripe, chunk, u32::from(chunk))).collect();
        (StripeId(stripe), FoundStripe { copies, label: Some(label), is_unread: false })
    }

    #[test]
    fn an_object_appears_with_all_of_its_stripes_or_not_at_all() {
        let stripes = [
            whole(4, label(4, 0, false)),
            whole(5, label(4, 1, true)),
            whole(9, label(9, 0, false)),
            whole(30, label(30, 1, true)),
        ];
        let rebuilt = objects_of(stripes.into());
        let names: Vec<&str> = rebuilt.objects.iter().map(|(o, _)| o.name.as_str()).collect();
        assert_eq!(names, ["object-4"]);
        let (object, stripes) = &rebuilt.objects[0];
        assert_eq!((object.bytes, stripes.len()), (4 * CHUNK, 2));
        let missing: Vec<String> = rebuilt.incomplete.iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "'object-9': 1 of its stripes, the last is not among them",
                "'object-30': 1 of its 2 stripes"
            ]
        );
    }

    #[test]
    fn copies_of_other_bytes_are_no_places_and_chunks_without_any_stay_lost() {
        let mut wrong = copy(4, 1, 1);
        wrong.1.digest.crc = Some(77);
        let found = FoundStripe {
            copies: vec![copy(4, 0, 0), wrong, copy(4, 2, 2)],
            label: Some(label(4, 0, true)),
            is_unread: false,
        };
        let rebuilt = objects_of([(StripeId(4), found)].into());
        let nodes: Vec<_> = rebuilt.objects[0].1[0].stripe.chunks.iter().map(|c| c.node).collect();
        assert_eq!(nodes, [Some(NodeId(0)), None, Some(NodeId(2))]);
    }

    #[test]
    fn every_chunk_that_can_have_a_node_of_its_own_has_one() {
        // The first that comes to mind for chunk 0 is the only one that chunk 1 has.
        let copies =
            vec![copy(4, 0, 0), copy(4, 0, 1), copy(4, 1, 0), copy(4, 2, 1), copy(4, 2, 2)];
        let nodes: Vec<_> = places(3, &copies).into_iter().map(|p| p.map(|(n, _)| n.0)).collect();
        assert_eq!(nodes, [Some(1), Some(0), Some(2)]);
    }
}
