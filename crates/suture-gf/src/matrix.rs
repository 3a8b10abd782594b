//! Dense matrices over GF(2^8): generators, their products, their inverses.
//!
//! Place: ... helpers known -> [their coefficients: a matrix inverted] -> repair DAG ...
//! A code is a generator matrix; to repair is to express the lost rows by the rows of the helpers.
//! Matrices are small (at most 255 chunks times sub-chunks), so the plain cubic algorithms are
//! enough: inverting 200 x 200 takes about a millisecond, once per plan.
//!
//! Invariant: rows * columns == elements.len(). A matrix may have no rows, but it always has
//! columns.

use crate::field;
use crate::kernel::mul_add;
use std::fmt;

/// A dense matrix over GF(2^8), stored by rows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<u8>,
}

impl Matrix {
    /// The matrix whose elements are all zero.
    ///
    /// # Panics
    /// When there are no columns.
    #[must_use]
    pub fn zero(rows: usize, columns: usize) -> Matrix {
        assert!(columns > 0, "a matrix needs at least one column");
        Matrix { rows, columns, elements: vec![0; rows * columns] }
    }

    /// The identity of `size` rows and columns.
    #[must_use]
    pub fn identity(size: usize) -> Matrix {
        Matrix::from_fn(size, size, |row, column| u8::from(row == column))
    }

    /// The matrix with `element(row, column)` at each place.
    #[must_use]
    pub fn from_fn(rows: usize, columns: usize, element: impl Fn(usize, usize) -> u8) -> Matrix {
        let mut matrix = Matrix::zero(rows, columns);
        for row in 0..rows {
            for column in 0..columns {
                matrix.elements[row * columns + column] = element(row, column);
            }
        }
        matrix
    }

    /// The matrix made of the given rows.
    ///
    /// # Panics
    /// When there are no rows, or their lengths differ.
    #[must_use]
    pub fn from_rows(rows: &[impl AsRef<[u8]>]) -> Matrix {
        let columns =
            rows.first().expect("from_rows needs a row to know the columns").as_ref().len();
        let mut matrix = Matrix::zero(rows.len(), columns);
        for (index, row) in rows.iter().enumerate() {
            matrix.row_mut(index).copy_from_slice(row.as_ref());
        }
        matrix
    }

    /// How many rows there are.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns
    }

    /// The element in `row` and `column`, both counted from 0.
    #[must_use]
    pub fn get(&self, row: usize, column: usize) -> u8 {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.elements[row * self.columns + column]
    }

    /// Replaces the element in `row` and `column`, both counted from 0.
    pub fn set(&mut self, row: usize, column: usize, element: u8) {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.elements[row * self.columns + column] = element;
    }

    /// The elements of `row`, in the order of the columns.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u8] {
        &self.elements[row * self.columns..][..self.columns]
    }

    /// One row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [u8] {
        &mut self.elements[row * self.columns..][..self.columns]
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.elements.chunks_exact(self.columns)
    }

    /// The product `self * right`.
    ///
    /// # Panics
    /// When the columns of `self` are not as many as the rows of `right`.
    #[must_use]
    pub fn mul(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.columns, right.rows, "inner sizes of a matrix product");
        let mut product = Matrix::zero(self.rows, right.columns);
        for row in 0..self.rows {
            for inner in 0..self.columns {
                mul_add(product.row_mut(row), self.get(row, inner), right.row(inner));
            }
        }
        product
    }

    /// The inverse, or `None` when the matrix is singular.
    ///
    /// # Panics
    /// When the matrix is not square.
    #[must_use]
    pub fn invert(&self) -> Option<Matrix> {
        assert_eq!(self.rows, self.columns, "only a square matrix can be inverted");
        let mut augmented = self.beside(&Matrix::identity(self.rows));
        (augmented.reduce(self.columns) == self.rows).then(|| augmented.columns_from(self.columns))
    }

    /// The rank over the field: how many rows are linearly independent.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.clone().reduce(self.columns)
    }

    /// A matrix X with `X * self = targets`: each target row as a combination of our rows.
    ///
    /// `None` when some target is not in their span. Where our rows are dependent the answer is not
    /// unique, and the one that leaves later dependent rows unused is given.
    ///
    /// # Panics
    /// When the column counts differ, or there are no rows on either side.
    #[must_use]
    pub fn express(&self, targets: &Matrix) -> Option<Matrix> {
        assert_eq!(self.columns, targets.columns, "targets must live in the space of the rows");
        // Columns of the system are our rows; each target is one more column on the right.
        let mut system = self.transpose().beside(&targets.transpose());
        let pivots = system.reduce_to_pivots(self.rows);
        let unsolvable = (pivots.len()..system.rows)
            .any(|row| system.row(row)[self.rows..].iter().any(|&e| e != 0));
        if unsolvable {
            return None;
        }
        let mut solution = Matrix::zero(targets.rows, self.rows);
        for (row, &unknown) in pivots.iter().enumerate() {
            for target in 0..targets.rows {
                solution.set(target, unknown, system.get(row, self.rows + target));
            }
        }
        Some(solution)
    }

    /// Rows become columns.
    ///
    /// # Panics
    /// When there are no rows.
    #[must_use]
    pub fn transpose(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |row, column| self.get(column, row))
    }

    fn beside(&self, right: &Matrix) -> Matrix {
        assert_eq!(self.rows, right.rows, "matrices side by side have equally many rows");
        let mut both = Matrix::zero(self.rows, self.columns + right.columns);
        for row in 0..self.rows {
            both.row_mut(row)[..self.columns].copy_from_slice(self.row(row));
            both.row_mut(row)[self.columns..].copy_from_slice(right.row(row));
        }
        both
    }

    fn columns_from(&self, first: usize) -> Matrix {
        Matrix::from_fn(self.rows, self.columns - first, |row, column| {
            self.get(row, first + column)
        })
    }

    fn reduce(&mut self, columns: usize) -> usize {
        self.reduce_to_pivots(columns).len()
    }

    /// Gauss-Jordan elimination on the first `columns` columns; returns the pivot column of each
    /// leading row.
    fn reduce_to_pivots(&mut self, columns: usize) -> Vec<usize> {
        let mut pivots = Vec::new();
        for column in 0..columns {
            let done = pivots.len();
            let Some(pivot_row) = (done..self.rows).find(|&row| self.get(row, column) != 0) else {
                continue;
            };
            self.swap_rows(done, pivot_row);
            let scale = field::inv(self.get(done, column));
            self.row_mut(done)
                .iter_mut()
                .for_each(|element| *element = field::mul(*element, scale));
            let pivot = self.row(done).to_vec();
            for row in (0..self.rows).filter(|&row| row != done) {
                let factor = self.get(row, column);
                if factor != 0 {
                    mul_add(self.row_mut(row), factor, &pivot);
                }
            }
            pivots.push(column);
        }
        pivots
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.elements.swap(a * self.columns + column, b * self.columns + column);
        }
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} x {}", self.rows, self.columns)?;
        self.rows().try_for_each(|row| writeln!(f, "  {row:02x?}"))
    }
}
