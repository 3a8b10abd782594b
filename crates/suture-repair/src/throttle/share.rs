//! One cap among several nodes: by what each has to move, but no more than it may have.
//!
//! Place: beside [slices flow]; a part of what the throttle decides.
//! Shares in proportion to loads let all that the cap holds end together; what one node may not
//! have goes to the others. A node without bytes to move gets next to nothing, until it has some.

/// What a node without load gets of a cap, in bytes per second: enough to begin, for a second.
pub(super) const IDLE: u64 = 1000;

/// What each may have by itself (none: as much as there is), its load, and then its share. The
/// shares together are at most `cap`, or one byte per second each where that is more.
pub(super) fn share(cap: u64, parts: &[(Option<u64>, u64)]) -> Vec<u64> {
    let alone = |bound: Option<u64>| bound.unwrap_or(u64::MAX);
    let sum = parts.iter().fold(0u64, |sum, (bound, _)| sum.saturating_add(alone(*bound)));
    if sum <= cap {
        return parts.iter().map(|(bound, _)| alone(*bound)).collect();
    }
    let (mut left, mut weights) = (cap, 0u128);
    let mut shares = vec![0; parts.len()];
    let mut busy = Vec::new();
    let idle = IDLE.min(cap / (2 * parts.len().max(1)) as u64);
    for (index, (bound, load)) in parts.iter().enumerate() {
        if *load == 0 {
            shares[index] = alone(*bound).min(idle);
            left -= shares[index];
        } else {
            weights += u128::from(*load);
            busy.push(index);
        }
    }
    // Those that may have the least for their load are full first.
    let fullness = |index: &usize| {
        let (bound, load) = parts[*index];
        u128::from(alone(bound)) * u128::from(u32::MAX) / u128::from(load)
    };
    busy.sort_by_key(fullness);
    for index in busy {
        let (bound, load) = parts[index];
        let part = (u128::from(left) * u128::from(load) / weights) as u64;
        shares[index] = part.min(alone(bound));
        left -= shares[index];
        weights -= u128::from(load);
    }
    shares.into_iter().map(|share| share.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn loads_share_a_cap_and_what_one_may_not_have_goes_to_the_others() {
        assert_eq!(share(100, &[(None, 30), (None, 70)]), [30, 70]);
        assert_eq!(share(100, &[(Some(10), 30), (None, 70)]), [10, 90]);
        assert_eq!(share(100, &[(Some(10), 1), (Some(20), 1)]), [10, 20]);
        assert_eq!(share(1 << 40, &[(None, 0), (None, 5)]), [IDLE, (1 << 40) - IDLE]);
    }

    #[test]
    fn shares_never_exceed_the_cap_nor_what_each_may_have_and_leave_nothing_that_is_wanted() {
        let random = &mut Random::new(7);
        for _ in 0..2000 {
            let count = random.between(1, 9) as usize;
            let cap = random.between(1000, 1 << 30);
            let parts: Vec<(Option<u64>, u64)> = (0..count)
                .map(|_| {
                    let bound = random.between(1, 1 << 30);
                    ((!bound.is_multiple_of(3)).then_some(bound), random.between(0, 4) * 1000)
                })
                .collect();
            let shares = share(cap, &parts);
            let sum: u64 = shares.iter().fold(0, |sum, share| sum.saturating_add(*share));
            let bounds = parts.iter().fold(0u64, |s, p| s.saturating_add(p.0.unwrap_or(u64::MAX)));
            assert!(sum <= cap.max(count as u64) || bounds <= cap, "{sum} of {cap}: {parts:?}");
            for ((bound, _), share) in parts.iter().zip(&shares) {
                assert!(bound.is_none_or(|bound| *share <= bound), "{share} of {bound:?}");
            }
            let wants = parts.iter().zip(&shares).any(|((bound, load), share)| {
                *load > 0 && bound.is_none_or(|bound| *share < bound)
            });
            assert!(
                !wants || sum + count as u64 >= cap,
                "{sum} of {cap} given, and some want more"
            );
        }
    }

    #[test]
    fn a_cap_that_is_just_enough_gives_all_what_they_may_have() {
        assert_eq!(share(30, &[(Some(10), 0), (Some(20), 5)]), [10, 20]);
    }

    #[test]
    fn those_with_nothing_to_move_leave_half_of_a_small_cap_to_the_others() {
        assert_eq!(share(120, &[(None, 0), (None, 0), (None, 5)]), [20, 20, 80]);
        assert_eq!(share(120, &[(None, 0), (None, 5)]), [30, 90]);
    }
}
