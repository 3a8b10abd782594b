//! Butterfly codes: `butterfly(k)`, two parities by exclusive or alone, and one chunk rebuilt from
//! half of what remains.
//!
//! Place: put -> [parity computed]; ... -> [what a repair combines, for one family] -> plan ...
//! A chunk is a column of 2^(k-1) sub-chunks; columns are ordered D0 .. D(k-1), H, B. H is the
//! exclusive or of each row. B is defined by a recursion over k; unrolled, with s_j(i) = i xor
//! (2^j - 1), which mirrors row i within its aligned block of 2^j rows, it is
//!
//! ```text
//! B[i] = D0[i] + sum over j = 1..k of D0[s_j(i)] + .. + Dj[s_j(i)]  if bits j and j-1 of i differ,
//!                                     Dj[s_j(i)]                    if they are equal.
//! ```
//!
//! So B is made of sums over the first columns of a row, and so is H: each is formed once and kept
//! (`Columns::prefix`), which leaves 2 k exclusive ors for the two parities of a row.
//!
//! What makes repair work: the mirrors s_j keep whole sets of rows to themselves.
//! * Dj, j >= 1: rows whose bits j and j-1 are equal are rebuilt by H; of the others, one stands
//!   alone in each row of B that was read, since s_j flips bit j-1 and not bit j.
//! * D0: even rows by H, odd rows by the odd rows of B. H: the lower half, with B's, gives the
//!   upper.
//! * B: column Dl, l < k-1, sends its share of the lower half of B: sums, so it reads twice what it
//!   sends. The shares alone, turned upside down and encoded again, contain the upper half, because
//!   the map from a column to its share of B is its own inverse. The same fact decodes two losses
//!   in closed form.
//!
//! Source: Pamies-Juarez et al., "Opening the Chrysalis: On the Real Repair Performance of MSR
//! Codes", FAST 2016; D(k-1) is the leftmost column of its matrices.

use crate::chunk::ChunkIndex;
use crate::dag::{BYTE_WIDTH, Dag, Join, Source, ValueId};
use crate::describe::{ChunkRoles, Describe};
use crate::error::CodeError;
use crate::linear::check_helper_count;
use std::collections::BTreeMap;
use std::fmt;

const DATA_CHUNKS_MIN: usize = 2;
const DATA_CHUNKS_MAX: usize = 8;

/// The Butterfly code over k data chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Butterfly {
    data_chunks: u8,
}

/// A column of the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Column {
    Data(usize),
    H,
    B,
}

impl Butterfly {
    /// The code over that many data chunks.
    ///
    /// # Errors
    /// [`CodeError::BreaksRule`] when there are not 2 to 8.
    pub fn new(data_chunks: usize) -> Result<Butterfly, CodeError> {
        if (DATA_CHUNKS_MIN..=DATA_CHUNKS_MAX).contains(&data_chunks) {
            return Ok(Butterfly { data_chunks: data_chunks as u8 });
        }
        let name = format!("butterfly({data_chunks})");
        Err(CodeError::BreaksRule { name, rule: "it is defined here for 2 to 8 data chunks" })
    }

    fn rows(&self) -> usize {
        1 << (self.data_chunks - 1)
    }

    fn column(&self, chunk: ChunkIndex) -> Column {
        match chunk.0.checked_sub(self.data_chunks) {
            None => Column::Data(chunk.0.into()),
            Some(0) => Column::H,
            Some(_) => Column::B,
        }
    }

    /// Whether a helper's row takes part in the repair of one lost column other than B.
    fn helps(&self, lost: Column, helper: Column, row: usize) -> bool {
        match lost {
            Column::Data(0) => row % 2 == usize::from(helper == Column::B),
            Column::Data(j) => !bits_differ(row, j),
            Column::H => row >= self.rows() / 2,
            Column::B => match helper {
                Column::Data(j) if j == self.data_chunks() - 1 => row < self.rows() / 2,
                Column::H => row >= self.rows() / 2,
                // All of it is read, and half as much is sent.
                _ => true,
            },
        }
    }

    /// What is known of all columns, with the sources of a DAG: those rows of each helper.
    fn read(&self, helpers: &[ChunkIndex], is_read: impl Fn(Column, usize) -> bool) -> Columns {
        let unknown = || vec![None; self.rows()];
        let mut columns = Columns {
            dag: Dag::new(self.rows() as u32),
            data: vec![unknown(); self.data_chunks()],
            h: unknown(),
            b: unknown(),
            by_h: None,
            prefixes: BTreeMap::new(),
        };
        for &chunk in helpers {
            let column = self.column(chunk);
            for row in (0..self.rows()).filter(|&row| is_read(column, row)) {
                let source = Source { chunk, sub_chunk: row as u32 };
                let value = columns.dag.add_source(source, BYTE_WIDTH);
                columns.of(column)[row] = Some(value);
            }
        }
        columns
    }

    /// One column from half of each of the k + 1 others.
    fn regenerate(&self, lost: ChunkIndex, helpers: &[ChunkIndex]) -> Dag {
        let column = self.column(lost);
        let mut columns = self.read(helpers, |helper, row| self.helps(column, helper, row));
        let rows = match column {
            Column::Data(j) => columns.regenerate_data(j),
            Column::H => columns.regenerate_h(),
            Column::B => columns.regenerate_b(),
        };
        columns.show(lost, &rows);
        columns.dag
    }

    /// Any columns from k whole others.
    fn decode(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Dag {
        let mut columns = self.read(helpers, |_, _| true);
        columns.decode_data();
        for &chunk in lost {
            let rows = match self.column(chunk) {
                Column::Data(j) => columns.column(j),
                Column::H => columns.encode_h(),
                Column::B => columns.encode_b(),
            };
            columns.show(chunk, &rows);
        }
        columns.dag
    }
}

impl Describe for Butterfly {
    fn data_chunks(&self) -> usize {
        self.data_chunks.into()
    }

    fn parity_chunks(&self) -> usize {
        2
    }

    fn sub_chunk_count(&self) -> u32 {
        self.rows() as u32
    }

    fn least_helper_sub_chunks(&self, _lost: ChunkIndex) -> u32 {
        (self.data_chunks() + 1) as u32 * self.sub_chunk_count() / 2
    }

    fn helpers_for(
        &self,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Vec<ChunkIndex>, CodeError> {
        let needed = self.data_chunks();
        let all_others_help = lost.len() == 1 && available.len() > needed;
        let first = available.get(..needed + usize::from(all_others_help)).map(<[_]>::to_vec);
        first.ok_or(CodeError::NotEnoughChunks { needed, available: available.len() })
    }

    fn encode_dag(&self) -> Dag {
        let ChunkRoles { data, parity } = self.chunk_roles();
        self.decode(&parity, &data)
    }

    fn repair_dag(&self, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Result<Dag, CodeError> {
        if helpers.len() > self.data_chunks() {
            return Ok(self.regenerate(lost[0], helpers));
        }
        check_helper_count(self.data_chunks(), helpers)?;
        Ok(self.decode(lost, helpers))
    }
}

impl fmt::Display for Butterfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "butterfly({})", self.data_chunks)
    }
}

/// Row i mirrored within its aligned block of 2^j rows: s_j(i).
fn mirror(row: usize, j: usize) -> usize {
    row ^ ((1 << j) - 1)
}

/// Whether bits j and j-1 of a row's number differ.
fn bits_differ(row: usize, j: usize) -> bool {
    (row >> j ^ row >> (j - 1)) & 1 == 1
}

/// The rows of column `first` that row `row` of B contains, columns counted to `end`: a column's
/// share of B. With `first` and `end` fixed this is a linear map that is its own inverse.
fn share(first: usize, end: usize, row: usize) -> impl Iterator<Item = usize> {
    let later = (first + 1..end).filter(move |&j| bits_differ(row, j)).map(move |j| mirror(row, j));
    std::iter::once(mirror(row, first)).chain(later)
}

/// One value for each row; `None` where it is unknown, or zero.
type Rows = Vec<Option<ValueId>>;

/// What is known of the columns, and the DAG that knows it. A column that is unknown counts as
/// zero in all sums.
struct Columns {
    dag: Dag,
    data: Vec<Rows>,
    h: Rows,
    b: Rows,
    /// A data column that is not known itself, but by H: H less all other columns.
    by_h: Option<usize>,
    prefixes: BTreeMap<(usize, usize), Option<ValueId>>,
}

impl Columns {
    fn of(&mut self, column: Column) -> &mut Rows {
        match column {
            Column::Data(j) => &mut self.data[j],
            Column::H => &mut self.h,
            Column::B => &mut self.b,
        }
    }

    fn row_count(&self) -> usize {
        self.h.len()
    }

    /// Rebuilds Dj from the rows that `Butterfly::helps` has chosen.
    fn regenerate_data(&mut self, j: usize) -> Rows {
        self.by_h = Some(j);
        let mut rows: Rows = (0..self.row_count()).map(|row| self.entry(row, j)).collect();
        for row in 0..self.row_count() {
            if let Some(b) = self.b[row] {
                let terms = self.terms_of_b(row);
                rows[mirror(row, j)] = self.sum([Some(b)].into_iter().chain(terms));
            }
        }
        rows
    }

    fn regenerate_h(&mut self) -> Rows {
        let last = self.data.len() - 1;
        let half = self.row_count() / 2;
        let mut rows = vec![None; self.row_count()];
        for row in half..self.row_count() {
            rows[row] = self.prefix(row, last);
            // The last term of this row of B is the whole of the mirrored row: H itself.
            let terms = self.terms_of_b(row);
            rows[mirror(row, last)] = self.sum([self.b[row]].into_iter().chain(terms));
        }
        rows
    }

    /// Shares of the lower half of B, turned upside down, are a stripe of a Butterfly code with one
    /// column less: with D(k-1) its H gives B's lower half, with H its B gives B's upper half.
    fn regenerate_b(&mut self) -> Rows {
        let last = self.data.len() - 1;
        let half = self.row_count() / 2;
        let shares: Vec<Rows> = (0..last)
            .map(|column| (0..half).map(|row| self.share_sent(column, mirror(row, last))).collect())
            .collect();
        let (top, h) = (self.data[last].clone(), self.h.clone());
        self.data = shares;
        let mut rows = vec![None; self.row_count()];
        for row in 0..half {
            let lower = mirror(row, last);
            let of_shares = self.prefix(row, last - 1);
            rows[lower] = self.sum([top[row], of_shares]);
            let terms = self.terms_of_b(row);
            rows[row] = self.sum([h[lower]].into_iter().chain(terms));
        }
        rows
    }

    /// A data column's share of a row of B, summed at its helper.
    fn share_sent(&mut self, column: usize, row: usize) -> Option<ValueId> {
        let own = share(column, self.data.len(), row);
        let own: Vec<ValueId> = own.filter_map(|row| self.data[column][row]).collect();
        Some(self.dag.add_xor(Join::AtHelper, &own))
    }

    /// Makes all data columns known, from k whole columns.
    fn decode_data(&mut self) {
        let is_lost = |rows: &Rows| rows.iter().all(Option::is_none);
        let lost: Vec<usize> = (0..self.data.len()).filter(|&j| is_lost(&self.data[j])).collect();
        match lost[..] {
            [] => (),
            [j] if is_lost(&self.h) => {
                let known = self.with_b();
                self.data[j] = self.shares_of(&known, j, self.data.len(), |_| true);
                self.prefixes.clear();
            }
            [j] => self.by_h = Some(j),
            [p, q, ..] => self.decode_two(p, q),
        }
    }

    /// Columns p < q from H and B. With p standing in for p + q, which H gives, what is left of a
    /// row of B is a share of Dq as if its column were p and q columns were all; and, where bits q
    /// and q-1 are equal, Dq's mirrored row, which is one where they differ.
    fn decode_two(&mut self, p: usize, q: usize) {
        self.by_h = Some(p);
        let mut known = self.with_b();
        let unequal = self.shares_of(&known, p, q, |row| bits_differ(row, q));
        for row in (0..known.len()).filter(|&row| !bits_differ(row, q)) {
            known[row] = self.sum([known[row], unequal[mirror(row, q)]]);
        }
        let equal = self.shares_of(&known, p, q, |row| !bits_differ(row, q));
        let both: Rows = (0..known.len()).map(|row| self.entry(row, p)).collect();
        let rows = equal.into_iter().zip(unequal).map(|(equal, unequal)| equal.or(unequal));
        self.data[q] = rows.collect();
        self.data[p] =
            (0..known.len()).map(|row| self.sum([both[row], self.data[q][row]])).collect();
        self.by_h = None;
        self.prefixes.clear();
    }

    /// What the unknown columns contribute to each row of B.
    fn with_b(&mut self) -> Rows {
        let rows = 0..self.row_count();
        rows.map(|row| {
            let terms = self.terms_of_b(row);
            self.sum([self.b[row]].into_iter().chain(terms))
        })
        .collect()
    }

    /// The column whose shares these are, for a set of rows that its map keeps to itself.
    fn shares_of(
        &mut self,
        rows: &Rows,
        first: usize,
        end: usize,
        is_asked: impl Fn(usize) -> bool,
    ) -> Rows {
        let asked = |row: usize| is_asked(row).then_some(row);
        let images = (0..rows.len()).map(|row| {
            self.sum(
                asked(row).into_iter().flat_map(|row| share(first, end, row)).map(|at| rows[at]),
            )
        });
        images.collect()
    }

    fn column(&mut self, j: usize) -> Rows {
        (0..self.row_count()).map(|row| self.entry(row, j)).collect()
    }

    fn encode_h(&mut self) -> Rows {
        (0..self.row_count()).map(|row| self.prefix(row, self.data.len() - 1)).collect()
    }

    fn encode_b(&mut self) -> Rows {
        (0..self.row_count())
            .map(|row| {
                let terms = self.terms_of_b(row);
                self.sum(terms)
            })
            .collect()
    }

    /// The terms of row `row` of B that are known.
    fn terms_of_b(&mut self, row: usize) -> Vec<Option<ValueId>> {
        let mut terms = vec![self.entry(row, 0)];
        for j in 1..self.data.len() {
            let at = mirror(row, j);
            let is_prefix = bits_differ(row, j);
            terms.push(if is_prefix { self.prefix(at, j) } else { self.entry(at, j) });
        }
        terms
    }

    /// The data sub-chunk in `row` of `column`, if the matrix has it.
    fn entry(&mut self, row: usize, column: usize) -> Option<ValueId> {
        if self.by_h != Some(column) || self.h[row].is_none() || self.data[column][row].is_some() {
            return self.data[column][row];
        }
        let through = self.prefix(row, column);
        let before = (0..column).rev().map(|before| self.data[before][row]);
        self.data[column][row] = self.sum([through].into_iter().chain(before).collect::<Vec<_>>());
        self.data[column][row]
    }

    /// D0[row] + .. + Dj[row], formed once. Past a column that is known by H, it is H[row] less the
    /// columns after j: the unknown column is contained without having been computed.
    fn prefix(&mut self, row: usize, j: usize) -> Option<ValueId> {
        if let Some(&known) = self.prefixes.get(&(row, j)) {
            return known;
        }
        let last = self.data.len() - 1;
        let terms: Vec<Option<ValueId>> = match self.by_h {
            Some(unknown) if unknown <= j => match (j + 1..=last).find(|&j| is_asked(row, j)) {
                Some(next) => {
                    let beyond = self.prefix(row, next);
                    let between = (j + 1..=next).map(|j| self.data[j][row]);
                    [beyond].into_iter().chain(between).collect()
                }
                None => {
                    let after = (j + 1..=last).map(|j| self.data[j][row]);
                    [self.h[row]].into_iter().chain(after).collect()
                }
            },
            _ => match (1..j).rev().find(|&j| is_asked(row, j)) {
                Some(previous) => {
                    let before = self.prefix(row, previous);
                    let between = (previous + 1..=j).map(|j| self.data[j][row]);
                    [before].into_iter().chain(between).collect()
                }
                None => (0..=j).map(|j| self.data[j][row]).collect(),
            },
        };
        let sum = self.sum(terms);
        self.prefixes.insert((row, j), sum);
        sum
    }

    fn sum(&mut self, terms: impl IntoIterator<Item = Option<ValueId>>) -> Option<ValueId> {
        let terms: Vec<ValueId> = terms.into_iter().flatten().collect();
        match terms[..] {
            [] => None,
            [only] => Some(only),
            _ => Some(self.dag.add_xor(Join::AtDecoder, &terms)),
        }
    }

    fn show(&mut self, chunk: ChunkIndex, rows: &Rows) {
        for (row, value) in rows.iter().enumerate() {
            let value = value.expect("a column that was rebuilt has all its rows");
            self.dag.add_output(chunk, row as u32, value);
        }
    }
}

/// Whether some row of B contains the sum of the first columns through j of this row: then sums
/// that go further begin with it.
fn is_asked(row: usize, j: usize) -> bool {
    !bits_differ(row, j)
}
