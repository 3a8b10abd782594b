//! One machine is lost in the middle of a repair, and nothing else goes wrong: the other nodes go
//! on, and no attempt stands still.

use suture_sim::lone::{self, Lone};

/// Clusters that lose one machine each.
const SEEDS: u64 = 100;

#[test]
fn no_repair_stands_still_for_a_machine_that_it_can_do_without() {
    let mut went_on = 0;
    for seed in 0..SEEDS {
        let Lone { violation, went_on: of_seed, rebuilt } = lone::run(seed);
        assert_eq!(violation, None, "seed {seed}");
        assert!(rebuilt >= 2 * u64::from(lone::LOST), "seed {seed}: {rebuilt} chunks were rebuilt");
        went_on += of_seed;
    }
    assert!(went_on >= SEEDS / 4, "{went_on} repairs went on by another plan");
}
