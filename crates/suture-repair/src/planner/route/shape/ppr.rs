//! PPR: pairs of nodes add up in rounds, until the destination has the sum. Partial-parallel
//! repair.
//!
//! Place: `[plan]`, a shape of a published planner: a tree of numbers alone. The destination takes
//! part in the rounds as the last in line, so k helpers need ceil(log2(k + 1)) rounds, and no node
//! receives more often than that. A binary aggregation tree: in each round the nodes still standing
//! pair up in order, the first of a pair sends to the second and leaves, and an odd last one waits.
//! Source: S. Mitra, R. Panta, M.-R. Ra, S. Bagchi, "Partial-Parallel-Repair", EuroSys'16, section
//! 4; the same tree for k = 4 is figure 5 of RepairBoost (ATC'21). We stream it in slices, as the
//! later papers do.

/// The parent of a place of `helper_count` helpers; `helper_count` itself is the destination. After
/// r rounds the last place of every 2^r in a row stands, and the very last: a place sends in the
/// round in which its row is the first of a pair, to the last place of the second.
pub(in crate::planner) fn parent(place: usize, helper_count: usize) -> usize {
    let row = 1 << (place + 1).trailing_zeros();
    (place + row).min(helper_count)
}

#[cfg(test)]
mod tests {
    use super::parent;

    fn parents(helper_count: usize) -> Vec<usize> {
        (0..helper_count).map(|place| parent(place, helper_count)).collect()
    }

    /// The rounds as they are described: those still standing pair up in order.
    fn parents_by_rounds(helper_count: usize) -> Vec<usize> {
        let mut parents = vec![helper_count; helper_count];
        let mut standing: Vec<usize> = (0..=helper_count).collect();
        while standing.len() > 1 {
            for pair in standing.chunks_exact(2) {
                parents[pair[0]] = pair[1];
            }
            standing = standing.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
        }
        parents
    }

    #[test]
    fn the_tree_is_what_the_rounds_leave() {
        (1..=300).for_each(|count| assert_eq!(parents(count), parents_by_rounds(count)));
    }

    #[test]
    fn the_tree_for_four_helpers_is_the_papers_figure() {
        // v1 -> v2, v3 -> v4; v2 -> v4; v4 -> v5.
        assert_eq!(parents(4), [1, 3, 3, 4]);
        assert_eq!(parents(6), [1, 3, 3, 6, 5, 6]);
    }

    #[test]
    fn nobody_receives_more_often_than_there_are_rounds() {
        for helper_count in 1..=60usize {
            let rounds = (helper_count + 1).next_power_of_two().ilog2() as usize;
            let parents = parents(helper_count);
            let received = |node| parents.iter().filter(|parent| **parent == node).count();
            assert!((0..=helper_count).all(|node| received(node) <= rounds), "{helper_count}");
            assert!(parents.iter().enumerate().all(|(child, parent)| child < *parent));
        }
    }
}
