//! What the fingerprints of a stripe say.
//!
//! Place: [failure detected] -> stripes affected -> ...: all that a pass asked for was read, and
//! either fits, or shows which chunk is corrupt, or is reported. What was found inconsistent is
//! kept by the keeper, and sent to the coordinator after this one.

use super::{Comparison, Coordinator};
use crate::coordinator::proof;
use crate::event::{Output, Report, ScrubStep};
use crate::id::{ChunkIndex, CopyAt, RepairId, StripeId};

impl Coordinator {
    /// A pass under the coordinator before found this.
    pub(in crate::coordinator) fn recall_inconsistent(&mut self, id: StripeId) {
        if self.stripes.get(id).is_some() {
            self.scrub.inconsistent.insert(id);
        }
    }

    pub(super) fn judge_if_complete(&mut self, id: RepairId) {
        if self.scrub.comparisons.get(&id).is_some_and(|of| of.wanted.is_empty()) {
            let comparison = self.scrub.comparisons.remove(&id).expect("looked up above");
            self.judge_stripe(comparison);
        }
    }

    /// All that can be read of a stripe was read, and has its own checksums: whether it fits.
    fn judge_stripe(&mut self, comparison: Comparison) {
        let Comparison { stripe: id, sums, is_partial, left_out, .. } = comparison;
        if let Some(pass) = &mut self.scrub.pass {
            if is_partial {
                pass.put_off.insert(id);
                self.scrub.has_news = true;
            } else {
                pass.stripes_done += 1;
                self.scrub.left_out += left_out;
            }
        }
        let Some(stripe) = self.stripes.get(id) else { return };
        let code = stripe.shortened();
        let sums: Vec<(ChunkIndex, &[u8])> = sums.iter().map(|(c, sums)| (*c, &**sums)).collect();
        if proof::agree(&code, &sums) != Some(false) {
            let is_all =
                sums.len() == stripe.indices().filter(|c| stripe.copy(*c).is_some()).count();
            if is_all && self.scrub.inconsistent.remove(&id) {
                self.outputs.push_back(Output::Scrub(ScrubStep::Consistent(id)));
            }
            return;
        }
        let odd = proof::odd_one(&code, &sums);
        let is_unrecorded = |chunk: &ChunkIndex| stripe.record(*chunk).crc.is_none();
        match odd.filter(is_unrecorded).and_then(|chunk| stripe.copy(chunk)) {
            Some(CopyAt { node, copy }) => {
                self.scrub.found += 1;
                self.inconsistent_copy(node, copy);
            }
            None => {
                if self.scrub.inconsistent.insert(id) {
                    self.outputs.push_back(Output::Scrub(ScrubStep::Inconsistent(id)));
                    self.report(Report::Inconsistent { stripe: id, odd });
                }
            }
        }
    }
}
