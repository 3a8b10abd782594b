//! Chain: each helper adds its part to what the one before it sent. Repair pipelining, RP, ECPipe.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! No link carries more than one chunk, so streamed in slices a chunk takes little longer than one
//! transfer: (slices + hops - 1) slice times. The slowest link on the path sets the rate, and the
//! tree is as deep as it can be. Source: R. Li, X. Li, P. P. C. Lee, Q. Huang, "Repair Pipelining
//! for Erasure-Coded Storage", USENIX ATC'17, section 3.2.

/// The parent of each of `helper_count` helpers; `helper_count` itself is the destination.
pub(super) fn parents(helper_count: usize) -> Vec<usize> {
    (1..=helper_count).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn everyone_sends_to_the_next() {
        assert_eq!(super::parents(4), [1, 2, 3, 4]);
    }
}
