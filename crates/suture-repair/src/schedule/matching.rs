//! The largest set of transfers in which each node sends to one and receives from one at most.
//!
//! Place: ... dispatch -> [which edges flow in this slot] -> slices flow -> ...
//! The network of RepairBoost (ATC'21, section 3.3) has unit capacities from the source to every
//! sender, between, and from every receiver to the sink, so its maximum flow is a maximum matching.
//! Hopcroft and Karp's algorithm finds it in O(E sqrt(V)); what stands first among a sender's
//! transfers is preferred where that costs no transfer.

use std::collections::VecDeque;

const FAR: u32 = u32::MAX;

/// For each sender the position of its transfer among `transfers[sender]` (lists of receivers below
/// `receivers`), if it has one.
pub(super) fn maximum(transfers: &[Vec<usize>], receivers: usize) -> Vec<Option<usize>> {
    let mut matching = Matching {
        transfers,
        sends: vec![None; transfers.len()],
        receives: vec![None; receivers],
        levels: vec![FAR; transfers.len()],
    };
    while matching.label() {
        for sender in 0..transfers.len() {
            if matching.sends[sender].is_none() {
                matching.augment(sender);
            }
        }
    }
    matching.sends
}

struct Matching<'a> {
    transfers: &'a [Vec<usize>],
    sends: Vec<Option<usize>>,
    /// For each receiver, the sender that it receives from.
    receives: Vec<Option<usize>>,
    levels: Vec<u32>,
}

impl Matching<'_> {
    /// Labels senders by their distance from one without a transfer, along alternating paths.
    /// Returns whether such a path ends at a receiver that receives nothing.
    fn label(&mut self) -> bool {
        let mut queue = VecDeque::new();
        for sender in 0..self.transfers.len() {
            let is_free = self.sends[sender].is_none();
            self.levels[sender] = if is_free { 0 } else { FAR };
            if is_free {
                queue.push_back(sender);
            }
        }
        let mut found = false;
        while let Some(sender) = queue.pop_front() {
            for &receiver in &self.transfers[sender] {
                match self.receives[receiver] {
                    None => found = true,
                    Some(next) if self.levels[next] == FAR => {
                        self.levels[next] = self.levels[sender] + 1;
                        queue.push_back(next);
                    }
                    Some(_) => {}
                }
            }
        }
        found
    }

    /// Finds `first` a transfer along labels that grow by one, moving others where needed. The
    /// search keeps its own stack: paths can be as long as the cluster is large.
    fn augment(&mut self, first: usize) {
        let mut path: Vec<(usize, usize)> = vec![(first, 0)];
        while let Some(&mut (sender, ref mut tried)) = path.last_mut() {
            let Some(&receiver) = self.transfers[sender].get(*tried) else {
                // Nothing from here: this sender need not be visited again in this round.
                self.levels[sender] = FAR;
                path.pop();
                continue;
            };
            *tried += 1;
            match self.receives[receiver] {
                None => {
                    for &(sender, tried) in &path {
                        let receiver = self.transfers[sender][tried - 1];
                        self.sends[sender] = Some(tried - 1);
                        self.receives[receiver] = Some(sender);
                    }
                    return;
                }
                Some(next)
                    if self.levels[next] != FAR && self.levels[next] == self.levels[sender] + 1 =>
                {
                    path.push((next, 0));
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The definition: the most senders that can be served, by trying everything.
    fn brute(transfers: &[Vec<usize>], taken: &mut Vec<bool>) -> usize {
        let Some((first, rest)) = transfers.split_first() else { return 0 };
        let mut best = brute(rest, taken);
        for &receiver in first {
            if !taken[receiver] {
                taken[receiver] = true;
                best = best.max(1 + brute(rest, taken));
                taken[receiver] = false;
            }
        }
        best
    }

    #[test]
    fn it_is_as_large_as_trying_everything_makes_it() {
        let random = &mut Random::new(7);
        for _ in 0..2000 {
            let (senders, receivers) = (random.below(7) as usize, 1 + random.below(6) as usize);
            let mut transfers = vec![Vec::new(); senders];
            for list in &mut transfers {
                list.extend((0..receivers).filter(|_| random.below(3) == 0));
            }
            let found = maximum(&transfers, receivers);
            let mut taken = vec![false; receivers];
            for (list, place) in transfers.iter().zip(&found) {
                let Some(place) = place else { continue };
                assert!(!std::mem::replace(&mut taken[list[*place]], true), "received twice");
            }
            let size = found.iter().flatten().count();
            assert_eq!(size, brute(&transfers, &mut vec![false; receivers]));
        }
    }

    #[test]
    fn what_stands_first_is_preferred() {
        assert_eq!(maximum(&[vec![1, 0], vec![2, 0]], 3), [Some(0), Some(0)]);
    }
}
