//! A part of a difference, and how parts are put into words.
//!
//! Place: under the explanation of an emulated repair. Each part has a number of its own, so that
//! what none of them explains is left, and is said to be.

use crate::reproduce::table::shown;

/// Causes below this part of a difference are not worth their words.
const NAMED: f64 = 0.15;

/// A difference is explained when no more than this part of it is left.
const LEFT: f64 = 1.0 / 3.0;

/// What is said of a part that nothing explains.
pub const UNEXPLAINED: &str = "is not explained by what was measured";

/// A part of a difference that something explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// In the unit of the difference, with its sign.
    pub amount: f64,
    /// What was measured of it.
    pub words: String,
}

/// What causes leave of a difference.
#[derive(Clone, Debug, Default)]
pub struct Leftover {
    /// What else was measured of it.
    pub words: String,
    /// That it may be chance, if it may.
    pub chance: Option<String>,
}

impl Leftover {
    /// What was measured of it, where chance explains nothing.
    pub fn of(words: String) -> Leftover {
        Leftover { words, chance: None }
    }
}

/// The causes of a difference, the largest first, and what of it they leave.
pub fn explained(difference: f64, unit: &str, causes: &[Cause], left: Leftover) -> String {
    let is_large = |amount: f64| (amount / difference).abs() >= NAMED;
    let (mut named, small): (Vec<&Cause>, Vec<&Cause>) =
        causes.iter().partition(|cause| is_large(cause.amount));
    named.sort_by(|a, b| b.amount.abs().total_cmp(&a.amount.abs()));
    let signed = |amount: f64| {
        let sign = if amount < 0.0 { '-' } else { '+' };
        format!("{sign}{} {unit}", shown(amount.abs())).trim_end().to_string()
    };
    let mut parts: Vec<String> =
        named.iter().map(|cause| format!("{}: {}", signed(cause.amount), cause.words)).collect();
    let small = small.iter().map(|cause| cause.amount).sum::<f64>();
    if is_large(small) {
        parts.push(format!("{}: other causes, each of which is small", signed(small)));
    }
    let rest = difference - small - named.iter().map(|cause| cause.amount).sum::<f64>();
    if (rest / difference).abs() > LEFT {
        parts.push(match left {
            Leftover { chance: Some(chance), .. } => format!("{}: {chance}", signed(rest)),
            Leftover { words, .. } if words.is_empty() => {
                format!("{} {UNEXPLAINED}", signed(rest))
            }
            Leftover { words, .. } => {
                format!("{} {UNEXPLAINED} ({words})", signed(rest))
            }
        });
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(amounts: &[f64]) -> Vec<Cause> {
        let cause = |amount: &f64| Cause { amount: *amount, words: format!("of {amount}") };
        amounts.iter().map(cause).collect()
    }

    #[test]
    fn small_causes_are_counted_and_shown_together() {
        let said = |amounts: &[f64]| explained(10.0, "s", &causes(amounts), Leftover::default());
        let together = "+5.20 s: of 5.2; +4.20 s: other causes, each of which is small";
        assert_eq!(said(&[1.4, 1.4, 5.2, 1.4]), together);
        assert_eq!(said(&[9.0, 1.0]), "+9.00 s: of 9");
        let left = "+5.00 s: of 5; +4.00 s is not explained by what was measured";
        assert_eq!(said(&[5.0, 1.0]), left);
    }
}
