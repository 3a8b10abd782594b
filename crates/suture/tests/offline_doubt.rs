//! What cannot be known of an encoded directory is not called good, lost or a wrong manifest.

use std::fs;
use std::process::Command;

use crate::common::{Encoded, noise, run};

const CODES: [&str; 5] = ["rs(3,2)", "rs(6,3)", "lrc(4,2,2)", "clay(4,2,5)", "butterfly(4)"];

/// Chunks of another file, or of another place, with `.crc` files that fit them: where the manifest
/// has no checksums, only the others can show that.
#[test]
fn chunks_of_something_else_are_not_decoded_where_only_parity_can_tell() {
    for code in CODES {
        for is_swap in [false, true] {
            let encoded = Encoded::new(code, 64 << 10, &noise(150_000));
            let mut other = noise(150_001);
            other.reverse();
            let other = Encoded::new(code, 64 << 10, &other[1..]);
            encoded.forget_checksums_of_manifest();
            let own = [encoded.chunk(0, 0), encoded.checksums(0, 0)];
            let from = if is_swap {
                [encoded.chunk(0, 1), encoded.checksums(0, 1)]
            } else {
                [other.chunk(0, 0), other.checksums(0, 0)]
            };
            for (own, from) in own.iter().zip(&from) {
                let (before, strange) = (fs::read(own).unwrap(), fs::read(from).unwrap());
                fs::write(own, strange).unwrap();
                if is_swap {
                    fs::write(from, before).unwrap();
                }
            }
            let output = encoded.folder().join("decoded");
            let decoded = run(&["decode", "-o", output.to_str().unwrap()], &encoded.directory);
            let is_right = || fs::read(&output).unwrap() == encoded.source;
            assert!(decoded.status == 3 || is_right(), "{code} {is_swap}: {decoded:?}");
            let verified = run(&["verify"], &encoded.directory);
            assert!(verified.status == 1 || verified.status == 3, "{code} {is_swap}: {verified:?}");
        }
    }
}

/// All chunk files of a stripe have one wrong length, and the manifest has its own checksum.
#[test]
fn a_manifest_that_is_proven_is_not_contradicted_by_all_chunks_of_a_stripe() {
    let encoded = Encoded::new("rs(3,2)", 64 << 10, &noise(300_000));
    (0..5).for_each(|chunk| fs::write(encoded.chunk(0, chunk), "").unwrap());
    let lost = fs::read(encoded.chunk(1, 2)).unwrap();
    fs::remove_file(encoded.chunk(1, 2)).unwrap();
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 3, "{verified:?}");
    assert!(verified.stdout.contains("stripe 0 is beyond repair"), "{verified:?}");
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 3);
    assert!(fs::read(encoded.chunk(1, 2)).unwrap() == lost, "the other stripe is rebuilt");
}

#[test]
fn chunks_that_this_process_cannot_open_are_not_called_lost() {
    let encoded = Encoded::new("rs(6,3)", 64 << 10, &noise(300_000));
    let before = encoded.content();
    let output = encoded.folder().join("decoded");
    for command in ["verify \"$1\"", "rebuild \"$1\"", "decode \"$1\" -o \"$2\""] {
        let script = format!("ulimit -n 8 && exec \"$0\" {command}");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_suture")]);
        let limited = limited.arg(&encoded.directory).arg(&output).output().unwrap();
        let said = [&limited.stdout[..], &limited.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(limited.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("Too many open files"), "{command}: {said}");
        assert!(!said.contains("beyond repair"), "{command}: {said}");
        assert!(!output.exists());
    }
    assert!(encoded.content() == before, "nothing was replaced");
    encoded.assert_decodes();
}
