//! Every kernel against ISA-L, where it is installed: an implementation that shares no line with
//! ours, whose chunks ours must be exchangeable with.
//!
//! Place: dev-only; without the library the test reports loudly that it compared nothing.

#[path = "common/isal.rs"]
mod isal;
#[path = "common/noise.rs"]
mod noise;

use isal::Isal;
use noise::noise;
use suture_gf::{Coefficients, Kernel};

#[test]
fn every_kernel_computes_the_parities_of_isal() {
    let Some(isal) = Isal::load() else { return };
    for (source_count, output_count) in [(1, 1), (3, 2), (6, 3), (10, 4), (12, 1), (17, 5)] {
        let rows: Vec<Vec<u8>> =
            (0..output_count).map(|row| noise(100 + row as u64, source_count)).collect();
        let prepared: Vec<_> = rows.iter().map(|row| Coefficients::new(row)).collect();
        for length in [64, 65, 257, 4096, 10_000] {
            let memory: Vec<Vec<u8>> =
                (0..source_count).map(|source| noise(source as u64, length)).collect();
            let sources: Vec<&[u8]> = memory.iter().map(|source| &source[..]).collect();
            let mut theirs = vec![vec![0; length]; output_count];
            let outputs = theirs.iter_mut().map(|row| &mut row[..]).collect();
            isal.prepare(&rows, &sources, outputs).run();
            for kernel in Kernel::available() {
                let mut ours = vec![vec![0; length]; output_count];
                let mut outputs: Vec<&mut [u8]> = ours.iter_mut().map(|row| &mut row[..]).collect();
                kernel.dot_many(&mut outputs, &prepared, &sources);
                assert!(ours == theirs, "{kernel:?}, {source_count} to {output_count}, {length}");
            }
        }
    }
}

#[test]
fn every_kernel_multiplies_as_isal_by_every_coefficient() {
    let Some(isal) = Isal::load() else { return };
    let bytes: Vec<u8> = (0..=255).collect();
    for coefficient in 0..=255 {
        let mut theirs = [0; 256];
        isal.prepare(&[vec![coefficient]], &[&bytes], vec![&mut theirs]).run();
        for kernel in Kernel::available() {
            let mut ours = [0; 256];
            kernel.mul_add(&mut ours, coefficient, &bytes);
            assert!(ours == theirs, "{kernel:?} times {coefficient}");
        }
    }
}
