//! The best mixture of options: a linear program whose columns are made as they are needed.
//!
//! Place: beside `[plan]`: the last step of the potential planner for small batches
//! (`planner/exact/potential/mixture.rs`), and the prices of the bound in racks
//! (`bound/search.rs`), where all stripes are one item. Each column is one option of one item,
//! with the seconds that it puts on ports; the program asks which part of each item goes by which
//! option, so that the busiest port is done first. Its dual is a price for a second of each port,
//! and a search for the cheapest option at given prices shows whether any column is missing
//! (Dantzig and Wolfe, 1960; Gilmore and Gomory, 1961). So the mixture is the optimum of all
//! options that this search knows, and not only of those that were met before.
//!
//! The simplex method with the inverse of the basis kept: a few hundred rows at most. It begins
//! with one option for each item, and every step holds a mixture that can be carried out, so it may
//! end at any step.
//!
//! Invariants: the finish is always in the basis, and every item has an option in it.

/// A port by its number, and seconds of it or the price of one.
pub(crate) type Seconds = (usize, f64);

/// The most rows: items and ports that any option uses.
const ROWS_MAX: usize = 320;

/// A step gains less: nothing. Relative to prices, which are 1 together.
const GAIN_MIN: f64 = 1e-9;

/// Smaller numbers are no pivots.
const PIVOT_MIN: f64 = 1e-9;

/// Steps for each row and call: where many mixtures are equally good, steps may go in circles.
const STEPS_PER_ROW: usize = 4;

/// What has a value in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    /// When the busiest port is done.
    Finish,
    /// How much earlier the port of a row is done.
    Slack(usize),
    /// The part of its item that goes by this option.
    Column(usize),
}

struct Column {
    item: usize,
    /// Seconds for the whole item, by row.
    seconds: Vec<(usize, f64)>,
}

/// The program with the columns so far.
pub(super) struct Master {
    items: usize,
    /// The port of each row after those of the items.
    ports: Vec<usize>,
    /// The row of each port that has one.
    rows: Vec<Option<usize>>,
    columns: Vec<Column>,
    /// Which variable each row of the basis has, and its value.
    basis: Vec<(Variable, f64)>,
    is_basic: Vec<bool>,
    /// The inverse of the basis, row by row.
    inverse: Vec<Vec<f64>>,
}

impl Master {
    /// The program in which each item goes by one option, in the order of the items. `bases` are
    /// seconds that each port is busy anyway. `None` where nothing takes any time, or there are too
    /// many ports.
    pub fn new(first: &[Vec<Seconds>], bases: &[f64]) -> Option<Master> {
        let items = first.len();
        let mut loads = bases.to_vec();
        let mut rows = vec![None; bases.len()];
        let mut ports = Vec::new();
        for &(port, seconds) in first.iter().flatten() {
            loads[port] += seconds;
            if rows[port].is_none() {
                rows[port] = Some(items + ports.len());
                ports.push(port);
            }
        }
        let busiest = ports.iter().copied().max_by(|a, b| loads[*a].total_cmp(&loads[*b]))?;
        let finish = loads[busiest];
        let count = items + ports.len();
        if count > ROWS_MAX || !finish.is_finite() || finish <= 0.0 {
            return None;
        }
        let of_item = |item: usize| (Variable::Column(item), 1.0);
        let of_port = |port: &usize| {
            if *port == busiest {
                (Variable::Finish, finish)
            } else {
                (Variable::Slack(rows[*port].expect("it has a row")), finish - loads[*port])
            }
        };
        let basis = (0..items).map(of_item).chain(ports.iter().map(of_port)).collect();
        let mut master = Master {
            items,
            columns: Vec::new(),
            basis,
            is_basic: vec![true; items],
            inverse: Vec::new(),
            ports,
            rows,
        };
        first.iter().enumerate().for_each(|(item, seconds)| master.push(item, seconds));
        master.invert_first(busiest);
        Some(master)
    }

    /// The inverse of the basis of one option for each item: the finish is what the busiest port
    /// needs, a slack the difference to what its own port needs.
    fn invert_first(&mut self, busiest: usize) {
        let count = self.basis.len();
        let mut needs = vec![vec![0.0; count]; count];
        for column in &self.columns {
            column.seconds.iter().for_each(|(row, seconds)| needs[*row][column.item] = *seconds);
        }
        let at = self.rows[busiest].expect("it has a row");
        let mut finish = needs[at].clone();
        finish[at] = -1.0;
        let row = |row: usize| {
            if row < self.items {
                return unit(row, count);
            }
            if row == at {
                return finish.clone();
            }
            let mut slack: Vec<f64> =
                finish.iter().zip(&needs[row]).map(|(finish, needs)| finish - needs).collect();
            slack[row] += 1.0;
            slack
        };
        self.inverse = (0..count).map(row).collect();
    }

    fn push(&mut self, item: usize, seconds: &[Seconds]) {
        let mut by_row: Vec<(usize, f64)> = Vec::with_capacity(seconds.len());
        for &(port, seconds) in seconds {
            let row = self.rows[port].expect("it has a row");
            match by_row.iter_mut().find(|(known, _)| *known == row) {
                Some((_, sum)) => *sum += seconds,
                None => by_row.push((row, seconds)),
            }
        }
        self.columns.push(Column { item, seconds: by_row });
    }

    /// Adds an option of an item. False where it would need more rows than there may be.
    pub fn add(&mut self, item: usize, seconds: &[Seconds], bases: &[f64]) -> bool {
        for &(port, _) in seconds {
            if self.rows[port].is_none() && !self.add_row(port, bases[port]) {
                return false;
            }
        }
        self.push(item, seconds);
        self.is_basic.push(false);
        true
    }

    /// A row for a port that no option so far uses: idle but for its base.
    fn add_row(&mut self, port: usize, base: f64) -> bool {
        let row = self.basis.len();
        if row == ROWS_MAX {
            return false;
        }
        let at = self.finish_row();
        self.inverse.iter_mut().for_each(|inverse| inverse.push(0.0));
        let mut inverse = self.inverse[at].clone();
        inverse[row] = 1.0;
        self.inverse.push(inverse);
        // A port that is busy for longer anyway counts as busy until the finish.
        self.basis.push((Variable::Slack(row), (self.basis[at].1 - base).max(0.0)));
        self.rows[port] = Some(row);
        self.ports.push(port);
        true
    }

    fn finish_row(&self) -> usize {
        let finish = self.basis.iter().position(|(variable, _)| *variable == Variable::Finish);
        finish.expect("the finish is in the basis")
    }

    /// When the busiest port is done.
    pub fn finish(&self) -> f64 {
        self.basis[self.finish_row()].1
    }

    /// The price of a second of each port that has one.
    pub fn prices(&self) -> impl Iterator<Item = Seconds> + '_ {
        let duals = &self.inverse[self.finish_row()][self.items..];
        self.ports.iter().copied().zip(duals.iter().map(|dual| (-dual).max(0.0)))
    }

    /// What the cheapest option so far of an item costs at these prices.
    pub fn cheapest(&self, item: usize) -> f64 {
        self.inverse[self.finish_row()][item]
    }

    /// The options of each item with the part that goes there: the columns in the order in which
    /// they came, those of [`Master::new`] first.
    pub fn parts(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.basis.iter().filter_map(|(variable, part)| match variable {
            Variable::Column(column) => Some((*column, part.max(0.0))),
            Variable::Finish | Variable::Slack(_) => None,
        })
    }

    /// Steps until no column and no slack makes the finish earlier.
    pub fn solve(&mut self) {
        for step in 0..STEPS_PER_ROW * self.basis.len() {
            // After half of them the first that gains anything, so that circles end.
            let is_first_taken = 2 * step > STEPS_PER_ROW * self.basis.len();
            let Some(entering) = self.entering(is_first_taken) else { return };
            if !self.enter(entering) {
                return;
            }
        }
    }

    /// The variable outside of the basis that gains most for each of it.
    fn entering(&self, is_first_taken: bool) -> Option<Variable> {
        let duals = &self.inverse[self.finish_row()];
        let slacks = (self.items..self.basis.len()).map(|row| (Variable::Slack(row), duals[row]));
        let outside = self.columns.iter().enumerate().filter(|(at, _)| !self.is_basic[*at]);
        let columns = outside.map(|(at, column)| {
            let paid = column.seconds.iter().map(|(row, seconds)| duals[*row] * seconds);
            (Variable::Column(at), duals[column.item] + paid.sum::<f64>())
        });
        let least = GAIN_MIN * self.finish().max(1e-300);
        let mut gaining = slacks
            .filter(|(_, gain)| *gain > GAIN_MIN)
            .chain(columns.filter(|(_, gain)| *gain > least));
        let best = if is_first_taken {
            gaining.next()
        } else {
            gaining.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        best.map(|(variable, _)| variable)
    }

    /// Brings a variable into the basis, in place of the one that is used up first. False where
    /// none is.
    fn enter(&mut self, entering: Variable) -> bool {
        let change = self.change(entering);
        let mut leaving: Option<(usize, f64)> = None;
        for (row, (variable, value)) in self.basis.iter().enumerate() {
            if change[row] <= PIVOT_MIN || *variable == Variable::Finish {
                continue;
            }
            let amount = value.max(0.0) / change[row];
            // Of equal ones the largest pivot, which loses least.
            let is_first = |(known, least): (usize, f64)| {
                amount < least || (amount == least && change[row] > change[known])
            };
            if leaving.is_none_or(is_first) {
                leaving = Some((row, amount));
            }
        }
        let Some((row, amount)) = leaving else { return false };
        for (change, (_, value)) in change.iter().zip(&mut self.basis) {
            *value -= change * amount;
        }
        self.replace(row, (entering, amount), &change);
        true
    }

    /// By how much the value of each row falls for each of the variable.
    fn change(&self, variable: Variable) -> Vec<f64> {
        let change = |inverse: &Vec<f64>| match variable {
            Variable::Finish => unreachable!("the finish is in the basis"),
            Variable::Slack(row) => inverse[row],
            Variable::Column(at) => {
                let column = &self.columns[at];
                let seconds = column.seconds.iter().map(|(row, seconds)| inverse[*row] * seconds);
                inverse[column.item] + seconds.sum::<f64>()
            }
        };
        self.inverse.iter().map(change).collect()
    }

    fn replace(&mut self, row: usize, entering: (Variable, f64), change: &[f64]) {
        for (variable, is_in) in [(self.basis[row].0, false), (entering.0, true)] {
            if let Variable::Column(at) = variable {
                self.is_basic[at] = is_in;
            }
        }
        self.basis[row] = entering;
        let mut pivot = std::mem::take(&mut self.inverse[row]);
        pivot.iter_mut().for_each(|value| *value /= change[row]);
        for (inverse, change) in self.inverse.iter_mut().zip(change) {
            // The row itself is empty for now.
            if *change != 0.0 {
                inverse.iter_mut().zip(&pivot).for_each(|(value, pivot)| *value -= change * pivot);
            }
        }
        self.inverse[row] = pivot;
    }
}

fn unit(at: usize, count: usize) -> Vec<f64> {
    let mut row = vec![0.0; count];
    row[at] = 1.0;
    row
}

#[cfg(test)]
mod tests {
    use super::{Master, Seconds};
    use crate::random::Random;

    const PORTS: usize = 8;

    fn column(random: &mut Random) -> Vec<Seconds> {
        let ports = (0..PORTS).filter(|_| random.per_mille(400)).collect::<Vec<usize>>();
        ports.into_iter().map(|port| (port, 0.1 + random.unit())).collect()
    }

    /// The mixture can be carried out, and its prices show that none is better.
    fn check(master: &Master, columns: &[(usize, Vec<Seconds>)], bases: &[f64]) {
        let mut loads = bases.to_vec();
        let mut shares = vec![0.0; master.items];
        for (at, part) in master.parts() {
            shares[columns[at].0] += part;
            columns[at].1.iter().for_each(|(port, seconds)| loads[*port] += part * seconds);
        }
        assert!(shares.iter().all(|share| (share - 1.0).abs() < 1e-6), "{shares:?}");
        let mut prices = vec![0.0; PORTS];
        master.prices().for_each(|(port, price)| prices[port] = price);
        let busiest = loads.iter().copied().fold(0.0, f64::max);
        let finish = master.finish();
        assert!((busiest - finish).abs() < 1e-6 * finish, "{busiest} is not {finish}");
        assert!((prices.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{prices:?}");
        let cost =
            |column: &[Seconds]| column.iter().map(|(port, s)| prices[*port] * s).sum::<f64>();
        let paid = |item: usize| {
            let columns = columns.iter().filter(|(of, _)| *of == item);
            columns.map(|(_, column)| cost(column)).fold(f64::INFINITY, f64::min)
        };
        let base: f64 = prices.iter().zip(bases).map(|(price, base)| price * base).sum();
        let least = base + (0..master.items).map(paid).sum::<f64>();
        assert!((least - finish).abs() < 1e-6 * finish, "{least} is not {finish}");
        let cheapest = |item: usize| (master.cheapest(item) - paid(item)).abs() < 1e-6 * finish;
        assert!((0..master.items).all(cheapest));
    }

    #[test]
    fn mixtures_are_the_best_as_their_prices_show() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let items = random.between(1, 6) as usize;
            let mut bases: Vec<f64> = (0..PORTS).map(|_| 0.3 * random.unit()).collect();
            if random.per_mille(300) {
                bases.fill(0.0);
            }
            let first: Vec<Vec<Seconds>> = (0..items).map(|_| column(&mut random)).collect();
            let Some(mut master) = Master::new(&first, &bases) else { continue };
            // Every port has a row, so that all bases count.
            let mut columns: Vec<(usize, Vec<Seconds>)> = first.into_iter().enumerate().collect();
            columns.push((0, (0..PORTS).map(|port| (port, 9.0)).collect()));
            assert!(master.add(0, &columns[items].1, &bases));
            for _ in 0..random.between(1, 5) {
                for _ in 0..random.between(1, 8) {
                    let (item, column) = (random.below(items as u64) as usize, column(&mut random));
                    assert!(master.add(item, &column, &bases));
                    columns.push((item, column));
                }
                master.solve();
                if master.finish() > bases.iter().copied().fold(0.0, f64::max) * 1.001 {
                    check(&master, &columns, &bases);
                }
            }
        }
    }
}
