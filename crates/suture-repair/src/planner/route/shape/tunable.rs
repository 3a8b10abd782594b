//! Tunable: a tree for any division of the downloads. ChameleonEC's repair plan.
//!
//! Place: `[plan]`, a shape of a published planner: a tree from the balance's choice of receivers.
//! Every helper uploads once; which node downloads how often was decided by bandwidth. It remains
//! to pair uploads with downloads: relays are served in the order of how little they wait for, from
//! those that have nothing (more) to wait for, and what is left over goes to the destination. Any
//! numbers will do that add up to the helpers, with at least one for the destination: serving the
//! relays upwards, those that can send never run out. Source: ChameleonEC (HPCA'25), section III-B,
//! Algorithm 1. The text leaves open which sender is taken; we take the one that has been ready for
//! the longest, which keeps the tree shallow.

/// The parent of each helper's place, given how often each of them receives; `receives.len()` is
/// the destination, which receives the rest.
pub(in crate::planner) fn parents(receives: &[u32]) -> Vec<usize> {
    let destination = receives.len();
    let mut parents = vec![destination; receives.len()];
    // First those that wait for nothing, which can send; then relays, each of which will be able to
    // when it is its turn. Of equals the first comes first.
    let mut order: Vec<usize> = (0..destination).collect();
    order.sort_by_key(|&place| receives[place]);
    let mut ready = 0;
    for &relay in &order {
        for _ in 0..receives[relay] {
            parents[order[ready]] = relay;
            ready += 1;
        }
    }
    assert!(ready < order.len(), "the destination receives at least once");
    parents
}

#[cfg(test)]
mod tests {
    use super::parents;
    use crate::random::Random;

    #[test]
    fn the_tree_is_that_of_the_papers_figure() {
        // N1 and N7 only send, N4 waits for one chunk and N3 for two, N6 is the destination.
        // N1 -> N4; N7 -> N3, N4 -> N3; N3 -> N6.
        let [n1, n3, n4, n7] = [0, 1, 2, 3];
        let tree = parents(&[0, 2, 1, 0]);
        assert_eq!([tree[n1], tree[n7], tree[n4], tree[n3]], [n4, n3, n3, 4]);
    }

    #[test]
    fn any_division_of_the_downloads_becomes_a_tree() {
        let mut random = Random::new(3);
        for _ in 0..2000 {
            let count = random.between(1, 20) as usize;
            let mut receives = vec![0; count + 1];
            receives[count] = 1;
            (1..count).for_each(|_| receives[random.index(count + 1)] += 1);
            let tree = parents(&receives[..count]);
            for (place, &expected) in receives.iter().enumerate() {
                let received = tree.iter().filter(|&&parent| parent == place).count();
                assert_eq!(received, expected as usize);
            }
            for start in 0..count {
                let mut path = std::iter::successors(Some(start), |&at| tree.get(at).copied());
                assert!(path.by_ref().take(count + 1).any(|at| at == count), "{tree:?}");
            }
        }
    }
}
