//! Laws of matrices over GF(2^8): products, inverses, ranks, and expressing rows by other rows.
//!
//! Place: what decoding rests on.

use proptest::prelude::*;
use suture_gf::{Matrix, field};

fn matrix(rows: usize, columns: usize) -> impl Strategy<Value = Matrix> {
    prop::collection::vec(any::<u8>(), rows * columns).prop_map(move |elements| {
        Matrix::from_fn(rows, columns, |row, column| elements[row * columns + column])
    })
}

fn sizes() -> impl Strategy<Value = (Matrix, Matrix)> {
    (1..9usize, 1..9usize, 1..9usize).prop_flat_map(|(a, b, c)| (matrix(a, b), matrix(b, c)))
}

#[test]
fn the_product_is_the_textbook_one() {
    let left = Matrix::from_rows(&[[1, 2], [3, 4], [0, 255]]);
    let right = Matrix::from_rows(&[[5, 6, 7], [8, 9, 10]]);
    let expected = Matrix::from_fn(3, 3, |row, column| {
        (0..2).fold(0, |sum, i| sum ^ field::mul(left.get(row, i), right.get(i, column)))
    });
    assert_eq!(left.mul(&right), expected);
}

#[test]
fn a_repeated_row_makes_a_matrix_singular() {
    let singular = Matrix::from_rows(&[[1, 2, 3], [4, 5, 6], [1 ^ 4, 2 ^ 5, 3 ^ 6]]);
    assert_eq!(singular.rank(), 2);
    assert_eq!(singular.invert(), None);
    assert_eq!(Matrix::zero(3, 3).rank(), 0);
}

#[test]
fn a_pivot_may_have_to_be_searched() {
    let permutation = Matrix::from_rows(&[[0, 0, 1], [1, 0, 0], [0, 1, 0]]);
    assert_eq!(permutation.invert(), Some(permutation.transpose()));
}

#[test]
fn wide_cauchy_matrices_invert() {
    let cauchy =
        Matrix::from_fn(120, 120, |row, column| field::inv((row + 120) as u8 ^ column as u8));
    let inverse = cauchy.invert().unwrap();
    assert_eq!(cauchy.mul(&inverse), Matrix::identity(120));
}

#[test]
fn targets_outside_the_span_cannot_be_expressed() {
    let rows = Matrix::from_rows(&[[1, 0, 0], [0, 1, 0]]);
    assert_eq!(rows.express(&Matrix::from_rows(&[[7, 9, 0]])), Some(Matrix::from_rows(&[[7, 9]])));
    assert_eq!(rows.express(&Matrix::from_rows(&[[0, 0, 1]])), None);
}

proptest! {
    #[test]
    fn the_identity_changes_nothing((a, _) in sizes()) {
        prop_assert_eq!(&Matrix::identity(a.row_count()).mul(&a), &a);
        prop_assert_eq!(&a.mul(&Matrix::identity(a.column_count())), &a);
    }

    #[test]
    fn transposition_reverses_products((a, b) in sizes()) {
        prop_assert_eq!(a.mul(&b).transpose(), b.transpose().mul(&a.transpose()));
    }

    #[test]
    fn an_inverse_exists_exactly_at_full_rank(
        a in (1..9usize).prop_flat_map(|size| matrix(size, size)),
    ) {
        match a.invert() {
            Some(inverse) => {
                prop_assert_eq!(a.rank(), a.row_count());
                prop_assert_eq!(a.mul(&inverse), Matrix::identity(a.row_count()));
                prop_assert_eq!(inverse.mul(&a), Matrix::identity(a.row_count()));
            }
            None => prop_assert!(a.rank() < a.row_count()),
        }
    }

    #[test]
    fn rank_is_that_of_the_transpose_and_never_grows_in_a_product((a, b) in sizes()) {
        prop_assert_eq!(a.rank(), a.transpose().rank());
        prop_assert!(a.mul(&b).rank() <= a.rank().min(b.rank()));
    }

    #[test]
    fn what_is_in_the_span_is_expressed((combinations, rows) in sizes()) {
        let targets = combinations.mul(&rows);
        let solution = rows.express(&targets).expect("in the span by construction");
        prop_assert_eq!(solution.mul(&rows), targets);
    }
}
