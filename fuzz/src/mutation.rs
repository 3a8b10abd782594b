//! Inputs for fuzz bodies without a fuzzer: random bytes, and valid inputs with a few wounds.
//!
//! Place: ordinary tests, which run a few thousand of them. The same seed gives the same inputs.

/// A small generator (xorshift) whose seeds mean the same for ever.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..start + self.below((length - start).min(16) + 1)
    }
}

/// That many inputs: the valid ones as they are, then mostly mutations of them.
pub fn cases(valid: &[Vec<u8>], count: usize, seed: u64) -> impl Iterator<Item = Vec<u8>> + use<> {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let valid = valid.to_vec();
    (0..count).map(move |index| match valid.get(index) {
        Some(input) => input.clone(),
        None if rng.below(8) == 0 => (0..rng.below(64)).map(|_| rng.next() as u8).collect(),
        None => {
            let mut input = valid[rng.below(valid.len())].clone();
            // Mostly one: a second rarely leaves anything that goes deep.
            for _ in 0..=rng.below(8) / 6 {
                wound(&mut input, &valid, &mut rng);
            }
            input
        }
    })
}

fn wound(input: &mut Vec<u8>, valid: &[Vec<u8>], rng: &mut Rng) {
    let range = rng.range(input.len());
    match rng.below(6) {
        0 if !input.is_empty() => {
            let at = rng.below(input.len());
            input[at] ^= 1 << rng.below(8);
        }
        // Another digit, where there is one: most texts hold numbers.
        1 if input.iter().any(u8::is_ascii_digit) => {
            let digits = input.iter_mut().filter(|byte| byte.is_ascii_digit());
            let mut digits: Vec<&mut u8> = digits.collect();
            let at = rng.below(digits.len());
            *digits[at] = b'0' + rng.below(10) as u8;
        }
        2 => drop(input.drain(range)),
        3 => {
            let copy = input[range].to_vec();
            let at = rng.below(input.len() + 1);
            input.splice(at..at, copy);
        }
        4 => {
            let other = &valid[rng.below(valid.len())];
            let piece = other[rng.range(other.len())].to_vec();
            input.splice(range, piece);
        }
        _ => {
            let at = rng.below(input.len() + 1);
            input.insert(at, rng.next() as u8);
        }
    }
}
