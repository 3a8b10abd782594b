//! How near every kernel comes to what the memory allows, and how far it leaves ISA-L behind:
//! contenders take turns, time is CPU time of the thread, figures are medians of the turns. Thus
//! neighbours on the machine disturb all alike, and the ratios hold even where the figures do not.
//!
//! `cargo bench -p suture-gf --bench roof [-- PART-OF-A-NAME]`

mod race;

use race::{Race, races};
use rustix::time::{ClockId, clock_gettime};

/// Turns of each contender; odd, so that there is a median.
const TURNS: usize = 41;

/// Source bytes of one turn: long beside the clock's resolution, short beside a time slice.
const TURN_BYTES: usize = 8 << 20;

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let filter = filter.unwrap_or_default();
    for race in races().into_iter().filter(|race| race.name.contains(&filter)) {
        run(race);
    }
}

fn run(mut race: Race) {
    let runs = (TURN_BYTES / race.bytes).max(1);
    let mut seconds = vec![Vec::new(); race.contenders.len()];
    for _ in 0..TURNS {
        for (contender, seconds) in race.contenders.iter_mut().zip(&mut seconds) {
            // The first run brings the contender's buffers back into the caches.
            (contender.run)();
            let start = cpu_seconds();
            (0..runs).for_each(|_| (contender.run)());
            seconds.push((cpu_seconds() - start) / runs as f64);
        }
    }
    let rates: Vec<f64> = seconds
        .iter_mut()
        .map(|seconds| {
            seconds.sort_by(f64::total_cmp);
            race.bytes as f64 / seconds[TURNS / 2] / 1e9
        })
        .collect();
    let rate_of = |name: &str| {
        race.contenders.iter().position(|contender| contender.name == name).map(|i| rates[i])
    };
    let isal = rate_of("ISA-L");
    println!("{}", race.name);
    println!("  {:<24}{:>8}{:>10}{:>10}", "", "GB/s", "of roof", "of ISA-L");
    for (contender, rate) in race.contenders.iter().zip(&rates) {
        let of_isal = isal.map_or("-".to_owned(), |isal| format!("{:.2}", rate / isal));
        println!("  {:<24}{rate:>8.1}{:>10.2}{of_isal:>10}", contender.name, rate / rates[0]);
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
