//! The node with the least key, among thousands whose keys change all the time.
//!
//! Place: inside of a balance. A tournament: leaves are nodes, each inner place holds the winner of
//! the two below it, so a change replays one path to the root and the least is always at hand. A
//! heap would have to search for the entry to change.
//!
//! Invariants: of equal keys the lower index wins; a key of infinity never wins over a number.

/// A tournament over keys.
#[derive(Debug)]
pub(super) struct Least {
    keys: Vec<f64>,
    /// `winners[1]` is the root, the children of `i` are `2i` and `2i + 1`, leaves come last.
    winners: Vec<u32>,
}

impl Least {
    pub fn new(keys: Vec<f64>) -> Least {
        let width = keys.len().next_power_of_two();
        let last = keys.len().saturating_sub(1);
        let mut winners = vec![0; width];
        // Places past the end repeat the last node.
        winners.extend((0..width).map(|leaf| leaf.min(last) as u32));
        let mut least = Least { keys, winners };
        (1..width).rev().for_each(|place| least.play(place));
        least
    }

    pub fn set(&mut self, index: usize, key: f64) {
        if self.keys[index] == key {
            return;
        }
        self.keys[index] = key;
        let mut place = (self.winners.len() / 2 + index) / 2;
        while place > 0 {
            let before = self.winners[place];
            self.play(place);
            // Above a place that another one wins as before, nothing changes.
            if self.winners[place] == before && before as usize != index {
                return;
            }
            place /= 2;
        }
    }

    /// The index of the least key among those that `serves`; `None` when theirs are all infinite,
    /// or there are none. Quick when most serve: only subtrees whose winner does not are searched.
    pub fn least_where(&self, serves: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best = None;
        let mut best_key = f64::INFINITY;
        self.search(1, &serves, &mut best, &mut best_key);
        best
    }

    fn search(
        &self,
        place: usize,
        serves: &impl Fn(usize) -> bool,
        best: &mut Option<usize>,
        best_key: &mut f64,
    ) {
        let winner = self.winners[place] as usize;
        // Left before right, and only what is less: of equals the lower index wins.
        if self.keys.get(winner).is_none_or(|key| key >= best_key) {
            return;
        }
        if serves(winner) {
            (*best, *best_key) = (Some(winner), self.keys[winner]);
        } else if place < self.winners.len() / 2 {
            self.search(2 * place, serves, best, best_key);
            self.search(2 * place + 1, serves, best, best_key);
        }
    }

    /// The index of the least key, and the key, in the same way.
    pub fn least_with_key(&self) -> Option<(usize, f64)> {
        self.least_where(|_| true).map(|index| (index, self.keys[index]))
    }

    fn play(&mut self, place: usize) {
        let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
        let right_wins = self.keys[right as usize] < self.keys[left as usize];
        self.winners[place] = if right_wins { right } else { left };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_least_is_that_of_a_search_through_all() {
        let mut random = Random::new(1);
        for count in 1..40 {
            let mut least = Least::new(vec![f64::INFINITY; count]);
            assert_eq!(least.least_where(|_| true), None);
            for _ in 0..200 {
                let key =
                    if random.per_mille(200) { f64::INFINITY } else { random.below(9) as f64 };
                least.set(random.index(count), key);
                let (modulus, rest) = (random.between(1, 4) as usize, random.index(4));
                let serves = |index: usize| index % modulus != rest;
                let serving = (0..count).filter(|&index| serves(index));
                let finite = serving.filter(|&index| least.keys[index].is_finite());
                let expected = finite.min_by(|&a, &b| least.keys[a].total_cmp(&least.keys[b]));
                assert_eq!(least.least_where(serves), expected);
            }
        }
        assert_eq!(Least::new(Vec::new()).least_where(|_| true), None);
    }
}
