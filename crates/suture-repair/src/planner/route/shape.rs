//! Shapes: how the helpers of one request are joined to a tree.
//!
//! Place: `[plan]` by a published planner, after the balance. Trees of numbers alone (`star`,
//! `ppr`, `chain`, `tunable`) come first; then those that depend on links (`chain::best_path`,
//! `ppt`, `pivot`) and on racks (`rack`).

pub(in crate::planner) mod chain;
pub mod pivot;
pub(in crate::planner) mod ppr;
pub(in crate::planner) mod ppt;
pub(in crate::planner) mod rack;
pub(in crate::planner) mod star;
pub(in crate::planner) mod tunable;

use crate::planner::request::Request;
use crate::planner::route::request::{RouteRequest, Topology, takes_any, usual_count};
use crate::planner::{Abilities, Job, PlanError, View};
use crate::policy::Shape;

impl Shape {
    /// Reads a job for plans of this shape.
    ///
    /// # Errors
    /// As [`Request::new`]; when the shape joins sums and the code has none, when some agent cannot
    /// execute what the repair sends, or when PPT would have to try too many trees.
    pub(in crate::planner) fn request<'a>(
        self,
        job: &'a Job,
        view: &View<'_>,
    ) -> Result<RouteRequest<'a>, PlanError> {
        let ask = |lost: &[_], helpers: &[_]| usual_count(job.code, lost, helpers);
        let (request, usual_count) = Request::new(job, view, ask)?;
        let topology = self.topology(&request, usual_count, view.abilities)?;
        Ok(RouteRequest { request, shape: self, usual_count, topology })
    }

    fn topology(
        self,
        request: &Request<'_>,
        usual_count: usize,
        abilities: Abilities,
    ) -> Result<Topology, PlanError> {
        let (job, code) = (request.job, request.job.code);
        let is_sum = request.lost.len() == 1 && code.sub_chunk_count() == 1;
        // Several chunks at once are gathered whatever the shape; one chunk only where a tree may
        // be a star.
        let may_gather = request.lost.len() > 1
            || !matches!(self, Shape::Ppr | Shape::Chain | Shape::Ppt | Shape::Pivot | Shape::Rack);
        if !is_sum && !may_gather {
            return Err(PlanError::NoSums { shape: self, code: code.code() });
        }
        abilities.suffice(is_sum)?;
        Ok(match self {
            _ if !is_sum => Topology::Gather,
            Shape::Star => Topology::Tree(star::parent),
            Shape::Ppr => Topology::Tree(ppr::parent),
            Shape::Chain => Topology::Tree(chain::parent),
            Shape::Tunable => Topology::Tuned,
            Shape::Ppt => {
                let is_free = takes_any(code);
                ppt::check(if is_free { job.survivors.len() } else { usual_count }, usual_count)?;
                Topology::Grown
            }
            _ => Topology::Grown,
        })
    }
}
