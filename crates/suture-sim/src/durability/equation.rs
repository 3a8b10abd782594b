//! The chance that a node's repair is overtaken by more failures: Equation 2 of ChameleonEC.
//!
//! Place: beside `failure -> ... -> stripe healthy`: what its length is worth.
//! ChameleonEC (HPCA'25), section II-B. A stripe's k + m nodes hold nothing else; one of them fails
//! and its repair takes a window tau. Each other node fails within it with f = 1 - exp(-tau/theta),
//! theta being the expected lifetime, and data is lost when m or more of them do:
//! `Pr = 1 - sum_{i<m} C(k+m-1, i) f^i (1-f)^(k+m-1-i)`.
//! The paper sets theta to 10 years, (k, m) to (10, 4) and 96 TB a node; its window is what these
//! take at a repair throughput. The text that we have lost the figure drawn from it (Figure 2), so
//! there is no printed number to meet. It is a chance for each repair, not for each year, and it
//! counts every failure in the window alike, however little is left to repair by then.

/// The expected lifetime of a node that the paper takes, in seconds: 10 years.
pub const PAPER_LIFETIME_SECONDS: f64 = 10.0 * super::YEAR_SECONDS;

/// What a node of the paper stores, in bytes.
pub const PAPER_NODE_BYTES: f64 = 96e12;

/// The chance that `tolerance` or more of `others` nodes fail within `window_seconds`, each with an
/// exponential lifetime of `lifetime_seconds` on average: data loss during one node's repair.
///
/// The terms beyond the tolerance are added, not those within it subtracted from one: chances far
/// below 1e-16 keep all their digits.
pub fn loss_probability(
    others: usize,
    tolerance: usize,
    window_seconds: f64,
    lifetime_seconds: f64,
) -> f64 {
    let hazard = window_seconds / lifetime_seconds;
    let fails = -(-hazard).exp_m1();
    let chances = (tolerance..=others)
        .map(|i| choose(others, i) * fails.powi(i as i32) * survives(hazard, others - i));
    chances.sum::<f64>().min(1.0)
}

/// That `count` nodes live through the window.
fn survives(hazard: f64, count: usize) -> f64 {
    (-hazard * count as f64).exp()
}

/// How many subsets of `size` a set of `of` has; exact while it fits a float.
pub fn choose(of: usize, size: usize) -> f64 {
    if size > of {
        return 0.0;
    }
    let size = size.min(of - size);
    (0..size).fold(1.0, |product, i| product * (of - i) as f64 / (i + 1) as f64)
}
