//! A block group of HDFS as a stripe: what of it is where, and how long each internal block is.
//!
//! Place: [stripes affected] -> queue -> plan -> ...
//! Data lie in cells, in turn over the data blocks; a block ends with its last cell, and nothing
//! past that is stored. So a short group has short blocks, and a very short one has blocks that do
//! not exist and are known to be zero. A parity block is as long as the first data block.
//!
//! A copy's stamp is the group's generation stamp with the bit of puts, unless a repair made it.

use serde::{Deserialize, Serialize};
use suture_code::Code;
use suture_repair::id::{ChunkIndex, Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{CHUNK_BYTES_MAX, ChunkRecord, Stripe};

/// Set in the id of every group and block of one.
const GROUP_BIT: u64 = 1 << 63;

/// The lowest bits of a block's id are its place in the group.
const INDEX_BITS: u32 = 4;
const BLOCKS_MAX: u8 = 1 << INDEX_BITS;

/// The cells that the plugin's codec `butterfly` works on.
const BUTTERFLY_CELL: u64 = 1 << 20;

/// A block group as the NameNode's plugin describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its id, which is negative.
    pub group: i64,
    /// The generation stamp of all its blocks.
    pub stamp: u64,
    /// How much data it has.
    pub bytes: u64,
    /// How much of it lies in one block before the next.
    pub cell: u64,
    /// What HDFS calls its codec.
    pub codec: String,
    /// Data blocks of a whole group.
    pub data: u8,
    /// Parity blocks of any group.
    pub parity: u8,
    /// The file that it is of.
    pub path: String,
    /// The internal blocks that are there.
    pub units: Vec<Unit>,
}

impl Group {
    /// Whether so many of its blocks are there that any code of HDFS can rebuild the others: of a
    /// short group those that it lacks are known, too.
    pub fn is_repairable(&self) -> bool {
        let cells = self.bytes.div_ceil(self.cell.max(1));
        self.units.len() as u64 >= cells.min(u64::from(self.data))
    }
}

/// An internal block that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its place in the group.
    pub index: u8,
    /// The UUID of its DataNode.
    pub node: String,
    /// Whether it is to stay there.
    pub state: UnitState,
}

/// Whether an internal block is to stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitState {
    /// Its node is in service.
    Live,
    /// Its node leaves: it can be read, and is wanted elsewhere.
    Leaving,
}

/// What repairs that run do with the blocks of a group, each with its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupWork {
    /// Blocks that are being built there: until they are committed they count as missing.
    pub built: Vec<(ChunkIndex, NodeId)>,
    /// Blocks that may be read there: where their nodes leave they stay, for as long.
    pub read: Vec<(ChunkIndex, NodeId)>,
}

/// The stripe that a group is.
pub fn stripe_id(group: i64) -> StripeId {
    StripeId((group.cast_unsigned() & !GROUP_BIT) >> INDEX_BITS)
}

/// The group that a stripe is.
pub fn group_id(stripe: StripeId) -> i64 {
    (stripe.0 << INDEX_BITS | GROUP_BIT).cast_signed()
}

/// The internal block that a chunk is.
pub fn block_id(stripe: StripeId, chunk: ChunkIndex) -> i64 {
    group_id(stripe) + i64::from(chunk.0)
}

/// The chunk that an internal block is.
pub fn chunk_of(block: i64) -> (StripeId, ChunkIndex) {
    let index = (block & i64::from(BLOCKS_MAX - 1)) as u8;
    (stripe_id(block - i64::from(index)), ChunkIndex(index))
}

/// The stamp of a copy that clients or HDFS wrote.
pub fn stamp_of(generation_stamp: u64) -> Stamp {
    Stamp::of_put(generation_stamp)
}

/// The generation stamp of such a copy; none of one that a repair made.
pub fn generation_stamp(stamp: Stamp) -> Option<u64> {
    let put = Stamp::of_put(0).0;
    (stamp.0 & put != 0).then_some(stamp.0 & !put)
}

impl Group {
    /// Its code, if it is one that Suture serves.
    pub fn code(&self) -> Option<Code> {
        let (data, parity) = (self.data, self.parity);
        let name = match &*self.codec {
            "rs" => format!("rs({data},{parity})"),
            // The plugin's codec has codewords of whole cells, and this is how long they are.
            "butterfly" if parity == 2 && self.cell == BUTTERFLY_CELL => {
                format!("butterfly({data})")
            }
            _ => return None,
        };
        name.parse().ok().filter(|_| data.checked_add(parity).is_some_and(|all| all <= BLOCKS_MAX))
    }

    /// How long a codeword's piece of a block is. None where the last row is a short one of a code
    /// with sub-chunks: HDFS keeps that in copies, which is another code.
    fn unit_bytes(&self, code: &Code) -> Option<u64> {
        let bytes = self.block_bytes(0);
        match code.sub_chunk_count() {
            1 => Some(bytes),
            _ => bytes.is_multiple_of(self.cell).then_some(self.cell),
        }
    }

    /// How long an internal block is; 0: there is none, and it is known to be zero.
    pub fn block_bytes(&self, index: u8) -> u64 {
        let (cell, row) = (self.cell, self.cell * u64::from(self.data));
        let whole_rows = self.bytes / row;
        let rest = self.bytes % row;
        // Parity is as long as the first data block.
        let before = if index < self.data { u64::from(index) * cell } else { 0 };
        whole_rows * cell + rest.saturating_sub(before).min(cell)
    }

    /// Whether an internal block is on another node than this one, and is to stay there.
    pub fn is_elsewhere(&self, index: u8, uuid: &str) -> bool {
        let is_it = |unit: &Unit| unit.index == index && unit.node != uuid;
        self.units.iter().any(|unit| unit.state == UnitState::Live && is_it(unit))
    }

    /// The stripe, with the node of each DataNode's UUID; of generation 0. Blocks on nodes that
    /// leave count as wanted elsewhere, but for those without which nothing could be decoded: they
    /// are what the others are made of, and are wanted elsewhere after that. None where a node is
    /// not known yet or has two of the blocks, or no stripe is like this.
    pub fn stripe(
        &self,
        node_of: impl Fn(&str) -> Option<NodeId>,
        work: &GroupWork,
    ) -> Option<Stripe> {
        let is_group = self.group < 0 && self.group & i64::from(BLOCKS_MAX - 1) == 0;
        let has_length = (1..=CHUNK_BYTES_MAX).contains(&self.cell)
            && (1..=CHUNK_BYTES_MAX).contains(&self.bytes);
        let code = self.code().filter(|_| is_group && has_length)?;
        let stamp = stamp_of(self.stamp);
        let record =
            |index| ChunkRecord { node: None, stamp, bytes: self.block_bytes(index), crc: None };
        let mut chunks: Vec<ChunkRecord> = (0..self.data + self.parity).map(record).collect();
        for unit in self.units.iter().filter(|unit| unit.state == UnitState::Live) {
            let record = chunks.get_mut(usize::from(unit.index))?;
            if !record.is_known_zero() {
                let node = node_of(&unit.node)?;
                let is_built = work.built.contains(&(ChunkIndex(unit.index), node));
                record.node = (!is_built).then_some(node);
            }
        }
        self.keep_leaving(&mut chunks, node_of, &work.read);
        let mut nodes: Vec<NodeId> = chunks.iter().filter_map(|chunk| chunk.node).collect();
        nodes.sort_unstable();
        if nodes.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        let chunk_bytes = self.block_bytes(0);
        let unit_bytes = self.unit_bytes(&code)?;
        let stripe = Stripe {
            id: stripe_id(self.group),
            code,
            chunk_bytes,
            unit_bytes,
            generation: Generation(0),
            chunks,
        };
        stripe.check().is_ok().then_some(stripe)
    }

    /// Has as many blocks on nodes that leave be there as it takes to decode the others, first
    /// those that are `read` there by now.
    fn keep_leaving(
        &self,
        chunks: &mut [ChunkRecord],
        node_of: impl Fn(&str) -> Option<NodeId>,
        read: &[(ChunkIndex, NodeId)],
    ) {
        let leaving = self.units.iter().filter(|unit| unit.state == UnitState::Leaving);
        let leaving = leaving.filter_map(|of| Some((ChunkIndex(of.index), node_of(&of.node)?)));
        let mut leaving: Vec<(ChunkIndex, NodeId)> = leaving.collect();
        leaving.sort_by_key(|unit| !read.contains(unit));
        let there = chunks.iter().filter(|record| is_there(record)).count();
        let mut lacking = usize::from(self.data).saturating_sub(there);
        for (chunk, node) in leaving {
            let Some(record) = chunks.get_mut(usize::from(chunk.0)) else { continue };
            if !is_there(record) && (lacking > 0 || read.contains(&(chunk, node))) {
                record.node = Some(node);
                lacking = lacking.saturating_sub(1);
            }
        }
    }
}

/// Whether a chunk helps a repair: it lies somewhere, or is known to be zero.
fn is_there(record: &ChunkRecord) -> bool {
    record.is_known_zero() || record.node.is_some()
}

#[cfg(test)]
mod tests {
    use suture_code::execute::Program;
    use suture_edge::checksum::crc32c;

    use super::*;

    const FIRST: i64 = i64::MIN + 16;

    fn group(bytes: u64, data: u8, parity: u8) -> Group {
        let unit = |index: u8| Unit { index, node: format!("dn{index}"), state: UnitState::Live };
        Group {
            group: FIRST,
            stamp: 1001,
            bytes,
            cell: 1 << 20,
            codec: "rs".into(),
            data,
            parity,
            path: "/f".into(),
            units: (0..data + parity).map(unit).collect(),
        }
    }

    /// The stripe of a group whose block `dnN` has is on node N, while nothing is repaired.
    fn stripe(group: &Group) -> Option<Stripe> {
        stripe_at_work(group, &GroupWork::default())
    }

    fn stripe_at_work(group: &Group, work: &GroupWork) -> Option<Stripe> {
        group.stripe(|uuid| uuid[2..].parse().ok().map(NodeId), work)
    }

    /// On which nodes the chunks of a stripe are.
    fn nodes(stripe: &Stripe) -> Vec<Option<u32>> {
        stripe.chunks.iter().map(|chunk| chunk.node.map(|node| node.0)).collect()
    }

    fn lengths(group: &Group) -> Vec<u64> {
        (0..group.data + group.parity).map(|index| group.block_bytes(index)).collect()
    }

    #[test]
    fn blocks_are_as_long_as_hdfs_makes_them() {
        const CELL: u64 = 1 << 20;
        assert_eq!(lengths(&group(700_000, 6, 3))[..2], [700_000, 0]);
        assert_eq!(lengths(&group(700_000, 6, 3))[6..], [700_000; 3]);
        let short = lengths(&group(2_500_000, 6, 3));
        assert_eq!(short[..4], [CELL, CELL, 402_848, 0]);
        assert_eq!(short[6..], [CELL; 3]);
        assert_eq!(lengths(&group(6 * CELL, 6, 3)), [CELL; 9]);
        assert_eq!(
            lengths(&group(9 * CELL + 5, 3, 2)),
            [3 * CELL + 5, 3 * CELL, 3 * CELL, 3 * CELL + 5, 3 * CELL + 5]
        );
        for bytes in [1, CELL - 1, 7 * CELL + 1, 60 * CELL - 1] {
            let group = group(bytes, 6, 3);
            assert_eq!(lengths(&group)[..6].iter().sum::<u64>(), bytes);
        }
    }

    #[test]
    fn a_group_is_a_stripe_and_its_blocks_are_its_chunks() {
        let mut short = group(2_500_000, 6, 3);
        short.units[1].state = UnitState::Leaving;
        short.units.remove(7);
        let stripe = stripe(&short).unwrap();
        // Wanted elsewhere, known to be zero, missing.
        let expected = [Some(0), None, Some(2), None, None, None, Some(6), None, Some(8)];
        assert_eq!(nodes(&stripe), expected);
        assert_eq!((stripe.id, group_id(stripe.id)), (StripeId(1), FIRST));
        assert_eq!(short.stripe(|_| None, &GroupWork::default()), None);
        let block = block_id(stripe.id, ChunkIndex(7));
        assert_eq!((block, chunk_of(block)), (FIRST + 7, (stripe.id, ChunkIndex(7))));
        assert_eq!(generation_stamp(stamp_of(1001)), Some(1001));
        assert_eq!(generation_stamp(Stamp(5 << 32 | 1)), None);
    }

    /// A group of rs(6,3) in which the nodes of these blocks leave.
    fn leaving(indices: &[u8]) -> Group {
        let mut group = group(6 << 20, 6, 3);
        for unit in group.units.iter_mut().filter(|unit| indices.contains(&unit.index)) {
            unit.state = UnitState::Leaving;
        }
        group
    }

    #[test]
    fn blocks_on_leaving_nodes_are_read_where_too_few_others_are_there() {
        let is_at = |stripe: Option<Stripe>| -> Vec<bool> {
            nodes(&stripe.unwrap()).iter().map(Option::is_some).collect()
        };
        let without = |lost: &[usize]| (0..9).map(|at| !lost.contains(&at)).collect::<Vec<_>>();
        assert_eq!(is_at(stripe(&leaving(&[1, 4, 7]))), without(&[1, 4, 7]), "six are enough");
        // A rack of four: the first of them is what the others are made of.
        let four = leaving(&[1, 4, 7, 8]);
        assert_eq!(is_at(stripe(&four)), without(&[4, 7, 8]));
        assert_eq!(nodes(&stripe(&four).unwrap())[1], Some(1));
        assert_eq!(is_at(stripe(&leaving(&[0, 1, 2, 3, 4, 5, 6, 7, 8]))), without(&[6, 7, 8]));
        // Missing ones cannot be read.
        let mut both = leaving(&[1, 4, 7]);
        both.units.retain(|unit| unit.index != 0);
        assert_eq!(is_at(stripe(&both)), without(&[0, 4, 7]));
        // Known zeros are there: of this one two blocks have data.
        let mut short = group(1_500_000, 6, 3);
        short.units.iter_mut().for_each(|unit| unit.state = UnitState::Leaving);
        let there = [Some(0), Some(1), None, None, None, None, None, None, None];
        assert_eq!(nodes(&stripe(&short).unwrap()), there);
    }

    #[test]
    fn what_a_repair_reads_stays_until_it_has_ended_and_what_it_builds_comes_then() {
        let mut group = leaving(&[1, 4, 7, 8]);
        let reported = stripe(&group).unwrap();
        let located = |stripe: &Stripe| {
            stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?.node))).collect()
        };
        let mut work =
            GroupWork { built: vec![(ChunkIndex(4), NodeId(14))], read: located(&reported) };
        assert_eq!(stripe_at_work(&group, &work), Some(reported.clone()));
        // The block is there by the NameNode's word, and not committed.
        let unit = group.units.iter_mut().find(|unit| unit.index == 4).unwrap();
        (unit.node, unit.state) = ("dn14".into(), UnitState::Live);
        assert_eq!(stripe_at_work(&group, &work), Some(reported.clone()));
        // Its commit: now six others are there, and the repair goes on reading the seventh.
        work.built.clear();
        let after = stripe_at_work(&group, &work).unwrap();
        assert_eq!((nodes(&after)[4], nodes(&after)[1]), (Some(14), Some(1)));
        // Once nothing is repaired the last one is wanted elsewhere, too.
        let ended = nodes(&stripe(&group).unwrap());
        let lost: Vec<usize> = (0..9).filter(|at| ended[*at].is_none()).collect();
        assert_eq!(lost, [1, 7, 8]);
    }

    #[test]
    fn a_block_is_elsewhere_where_it_is_to_stay_on_another_node() {
        let group = leaving(&[2]);
        assert!(group.is_elsewhere(0, "dn7") && !group.is_elsewhere(0, "dn0"));
        assert!(!group.is_elsewhere(2, "dn7"), "it leaves");
        assert!(!group.is_elsewhere(9, "dn7"), "there is none");
    }

    #[test]
    fn a_butterfly_group_has_units_of_a_cell_and_no_row_that_hdfs_keeps_in_copies() {
        const CELL: u64 = 1 << 20;
        let butterfly = |bytes| Group { codec: "butterfly".into(), ..group(bytes, 4, 2) };
        let whole = stripe(&butterfly(12 * CELL)).unwrap();
        assert_eq!((whole.code.to_string(), whole.chunk_bytes), ("butterfly(4)".into(), 3 * CELL));
        assert_eq!((whole.unit_bytes, whole.layout().sub_chunk_count()), (CELL, 8));
        // The last row: two whole cells and 5 bytes.
        let partial = stripe(&butterfly(10 * CELL + 5)).unwrap();
        let lengths: Vec<u64> = partial.chunks.iter().map(|chunk| chunk.bytes).collect();
        let (two, three) = (2 * CELL, 3 * CELL);
        assert_eq!(lengths, [three, three, two + 5, two, three, three]);
        assert_eq!(stripe(&butterfly(12 * CELL + 5)), None, "a row in copies");
        assert_eq!(stripe(&butterfly(12 * CELL + 512)), None, "a row in copies");
        assert_eq!(stripe(&butterfly(2 * CELL)), None, "known zeros");
        let small_cells = Group { cell: 1 << 19, ..butterfly(12 * CELL) };
        assert_eq!(stripe(&small_cells), None);
        assert_eq!(Group { parity: 3, ..butterfly(12 * CELL) }.code(), None);
    }

    #[test]
    fn a_row_that_hdfs_encodes_is_a_unit_of_ours() {
        // Made, encoded and summed by `ButterflyTest` of plugins/hdfs too.
        const CELL: usize = 1 << 20;
        let made = |at: usize| ((at as u32 + 1).wrapping_mul(0x9E37_79B1) >> 24) as u8;
        let data: Vec<u8> = (0..4 * CELL).map(made).collect();
        let code = group(4 << 20, 4, 2);
        let code = Group { codec: "butterfly".into(), ..code }.code().unwrap();
        let program = Program::compile(&code.encode_dag()).unwrap();
        let sub_chunk_bytes = CELL / code.sub_chunk_count() as usize;
        let sources: Vec<&[u8]> = data.chunks(sub_chunk_bytes).collect();
        let mut parity = vec![0; 2 * CELL];
        program.run(&sources, &mut parity.chunks_mut(sub_chunk_bytes).collect::<Vec<_>>()).unwrap();
        let crcs: Vec<u32> = parity.chunks(CELL).map(crc32c).collect();
        assert_eq!(crcs, [0x6c0f_7515, 0xbacd_f4f9]);
    }

    #[test]
    fn what_suture_does_not_serve_is_no_stripe() {
        for codec in ["rs-legacy", "xor"] {
            assert_eq!(Group { codec: codec.into(), ..group(1 << 22, 2, 1) }.code(), None);
        }
        for (data, parity) in [(3, 2), (6, 3), (10, 4), (12, 4)] {
            let code = group(1 << 22, data, parity).code().unwrap().to_string();
            assert_eq!(code, format!("rs({data},{parity})"));
        }
        assert_eq!(group(1 << 22, 14, 4).code(), None);
        let on_one = |group: &Group| group.stripe(|_| Some(NodeId(0)), &GroupWork::default());
        for cell in [0, u64::MAX] {
            assert_eq!(on_one(&Group { cell, ..group(1, 3, 2) }), None);
        }
        for bytes in [0, u64::MAX] {
            assert_eq!(on_one(&group(bytes, 3, 2)), None);
        }
        for id in [0, 16, FIRST + 1] {
            assert_eq!(on_one(&Group { group: id, ..group(1 << 22, 3, 2) }), None);
        }
        assert_eq!(on_one(&group(1 << 22, 3, 2)), None, "a node has two");
        let beyond = Unit { index: 9, node: "x".into(), state: UnitState::Live };
        assert_eq!(on_one(&Group { units: vec![beyond], ..group(1 << 22, 3, 2) }), None);
    }
}
