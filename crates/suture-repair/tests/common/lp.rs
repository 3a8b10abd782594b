//! Linear programs, as an oracle: what the best fractional plan would cost.
#![allow(dead_code, reason = "each test takes what it needs")]

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, ZeroConeT,
};

/// A sum of variables times coefficients.
pub type Row = Vec<(usize, f64)>;

/// Minimises a sum over variables that are not negative.
#[derive(Default)]
pub struct LinearProgram {
    costs: Vec<f64>,
    equal: Vec<(Row, f64)>,
    at_most: Vec<(Row, f64)>,
}

impl LinearProgram {
    /// A variable that costs so much each.
    pub fn variable(&mut self, cost: f64) -> usize {
        self.costs.push(cost);
        self.costs.len() - 1
    }

    /// Wants a sum to be so much.
    pub fn equals(&mut self, row: Row, value: f64) {
        self.equal.push((row, value));
    }

    /// Wants a sum to be no more than that.
    pub fn at_most(&mut self, row: Row, value: f64) {
        self.at_most.push((row, value));
    }

    /// The least cost.
    pub fn solve(self) -> f64 {
        self.optimum().expect("the program has a solution").0
    }

    /// The least cost and the variables; `None` where no variables will do.
    pub fn optimum(mut self) -> Option<(f64, Vec<f64>)> {
        let variables = self.costs.len();
        self.at_most.extend((0..variables).map(|variable| (vec![(variable, -1.0)], 0.0)));
        let cones = [ZeroConeT(self.equal.len()), NonnegativeConeT(self.at_most.len())];
        let rows: Vec<(Row, f64)> = self.equal.into_iter().chain(self.at_most).collect();
        let (mut at, mut columns, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (row, _)) in rows.iter().enumerate() {
            for &(variable, coefficient) in row {
                at.push(index);
                columns.push(variable);
                values.push(coefficient);
            }
        }
        let matrix = CscMatrix::new_from_triplets(rows.len(), variables, at, columns, values);
        let bounds: Vec<f64> = rows.iter().map(|(_, bound)| *bound).collect();
        let settings = DefaultSettings { verbose: false, ..DefaultSettings::default() };
        let none = CscMatrix::zeros((variables, variables));
        let solver = DefaultSolver::new(&none, &self.costs, &matrix, &bounds, &cones, settings);
        let mut solver = solver.expect("a well-formed program");
        solver.solve();
        match solver.solution.status {
            SolverStatus::Solved | SolverStatus::AlmostSolved => {
                Some((solver.solution.obj_val, std::mem::take(&mut solver.solution.x)))
            }
            SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => None,
            other => panic!("{other:?}"),
        }
    }
}
