//! How long nodes live: exponential, or Weibull for those that wear out or fail young.
//!
//! Place: before [failure detected]: when nodes fail.
//! Both are given by their mean, which is what operators know, and a Weibull shape: above 1 old
//! nodes fail more often, below 1 new ones do, and 1 is exponential. The hazard (failures a second
//! at an age) and its integral are closed forms, so weights of biased runs are exact.

use suture_repair::random::Random;

/// A distribution of lifetimes; times are seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    mean: f64,
    shape: f64,
    /// Weibull's eta: by this age 63 % have failed.
    scale: f64,
}

impl Lifetime {
    /// Without memory: as likely to fail at any age.
    pub fn exponential(mean: f64) -> Lifetime {
        Lifetime { mean, shape: 1.0, scale: mean }
    }

    /// Weibull with this mean and shape.
    pub fn weibull(mean: f64, shape: f64) -> Lifetime {
        Lifetime { mean, shape, scale: mean / gamma(1.0 + 1.0 / shape) }
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Whether age does not matter.
    pub fn is_exponential(&self) -> bool {
        self.shape == 1.0
    }

    /// Failures a second at `age`.
    pub fn hazard(&self, age: f64) -> f64 {
        if self.is_exponential() {
            return 1.0 / self.mean;
        }
        self.shape / self.scale * (age / self.scale).powf(self.shape - 1.0)
    }

    /// The integral of the hazard up to `age`.
    pub fn cumulative_hazard(&self, age: f64) -> f64 {
        if self.is_exponential() { age / self.mean } else { (age / self.scale).powf(self.shape) }
    }

    /// A lifetime of a new node.
    pub fn draw(&self, random: &mut Random) -> f64 {
        let hazard = draw_exponential(random);
        if self.is_exponential() {
            return hazard * self.mean;
        }
        self.scale * hazard.powf(1.0 / self.shape)
    }
}

/// An exponential number of mean 1.
pub fn draw_exponential(random: &mut Random) -> f64 {
    // 1 - unit lies in (0, 1], whose logarithm is finite.
    -(1.0 - random.unit()).ln()
}

/// Euler's gamma function for arguments of 1 and more: Lanczos with g = 7 and nine terms, good for
/// fifteen digits.
fn gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = TERMS[1..].iter().enumerate().map(|(i, term)| term / (x + (i + 1) as f64));
    let base = x + 7.5;
    let sum = TERMS[0] + sum.sum::<f64>();
    (2.0 * std::f64::consts::PI).sqrt() * base.powf(x + 0.5) * (-base).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_meets_factorials_and_halves() {
        let half = std::f64::consts::PI.sqrt() / 2.0;
        for (x, value) in [(1.0, 1.0), (2.0, 1.0), (5.0, 24.0), (1.5, half), (11.0, 3_628_800.0)] {
            assert!((gamma(x) / value - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn drawn_lifetimes_have_the_mean_and_the_hazard_adds_up() {
        for shape in [0.7, 1.0, 1.5, 3.0] {
            let lifetime = Lifetime::weibull(100.0, shape);
            let random = &mut Random::new(3);
            let mean = (0..100_000).map(|_| lifetime.draw(random)).sum::<f64>() / 1e5;
            assert!((mean / 100.0 - 1.0).abs() < 0.02, "{shape}: {mean}");
            let step = 1e-3;
            let sum = (0..100_000).map(|i| lifetime.hazard((f64::from(i) + 0.5) * step) * step);
            let sum: f64 = sum.sum();
            assert!((sum / lifetime.cumulative_hazard(100.0) - 1.0).abs() < 0.01, "{shape}: {sum}");
        }
    }
}
