//! Shapes: how the helpers of one request are joined to a tree.
//!
//! Place: `failure -> stripes -> queue -> [plan: shape] -> admit -> dispatch -> slices -> commit`.
//! Trees of numbers alone (`star`, `ppr`, `chain`, `tunable`) come first; then those that depend on
//! links (`chain::best_path`, `ppt`, `pivot`) and on racks (`rack`).

pub(in crate::planner) mod chain;
pub mod pivot;
pub(in crate::planner) mod ppr;
pub(in crate::planner) mod ppt;
pub(in crate::planner) mod rack;
pub(in crate::planner) mod star;
pub(in crate::planner) mod tunable;

use crate::policy::Shape;

impl Shape {
    /// The tree of so many helpers, for shapes whose trees are known before their nodes: the parent
    /// of each helper's place; `helper_count` itself is the destination.
    ///
    /// # Panics
    /// When the shape grows its trees from links, racks or loads.
    pub(in crate::planner) fn tree(self, helper_count: usize) -> Vec<usize> {
        match self {
            Shape::Star => star::parents(helper_count),
            Shape::Ppr => ppr::parents(helper_count),
            Shape::Chain => chain::parents(helper_count),
            other => unreachable!("the trees of {other} are not known before their nodes"),
        }
    }
}
