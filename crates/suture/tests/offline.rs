//! The offline commands from end to end: the real binary on real directories.
//!
//! Every test damages an encoded directory in one way and looks at what a user would see: exit
//! status, messages, and each byte on disk afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};

use crate::common::{self, Encoded, noise, run, run_in};
use serde_json::Value;

/// The chunks of the pair or triple, in order, of nine.
fn subsets(size: usize) -> Vec<Vec<usize>> {
    let all = (0u32..1 << 9).filter(|set| set.count_ones() as usize == size);
    all.map(|set| (0..9).filter(|chunk| set & (1 << chunk) != 0).collect()).collect()
}

#[test]
fn files_of_every_size_come_back() {
    for (code, data_chunks) in
        [("rs(1,1)", 1), ("rs(3,2)", 3), ("rs(6,3)", 6), ("rs(10,4)", 10), ("rs(120,8)", 120)]
    {
        for chunk in [64, 4096, 4160] {
            let stripe = data_chunks * chunk;
            for bytes in [0, 1, chunk, stripe - 1, stripe, stripe + 1, 3 * stripe + 17] {
                let encoded = Encoded::new(code, chunk, &noise(bytes));
                let verified = run(&["verify"], &encoded.directory);
                assert_eq!(verified.status, 0, "{code} {chunk} {bytes}: {verified:?}");
                encoded.assert_decodes();
                let stripes = bytes.div_ceil(stripe).max(1);
                assert_eq!(encoded.directory.join("stripe.00000").exists(), stripes > 1);
            }
        }
    }
}

#[test]
fn every_loss_of_up_to_three_chunks_is_survived_and_rebuilt_byte_for_byte() {
    let encoded = Encoded::new("rs(6,3)", 4160, &noise(30_000));
    let before = encoded.content();
    for size in 1..=3 {
        for lost in subsets(size) {
            for &chunk in &lost {
                fs::remove_file(encoded.chunk(0, chunk)).unwrap();
                fs::remove_file(encoded.checksums(0, chunk)).unwrap();
                // The other stripe loses as many, but others.
                fs::remove_file(encoded.chunk(1, 8 - chunk)).unwrap();
            }
            encoded.assert_decodes();
            let rebuilt = run(&["rebuild"], &encoded.directory);
            assert_eq!(rebuilt.status, 0, "{lost:?}: {rebuilt:?}");
            assert_eq!(encoded.content(), before, "{lost:?}");
        }
    }
}

#[test]
fn a_flipped_bit_in_any_chunk_is_named_avoided_and_mended() {
    let encoded = Encoded::new("rs(6,3)", 8192, &noise(40_000));
    let before = encoded.content();
    for chunk in 0..9 {
        encoded.flip(0, chunk, 5000);
        let verified = run(&["verify"], &encoded.directory);
        assert_eq!(verified.status, 1);
        let line =
            format!("stripe 0 chunk {chunk} is corrupt: 1 block of 4 KiB, the first at byte 4096");
        assert!(verified.stdout.contains(&line), "{verified:?}");
        encoded.assert_decodes();
        assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
        assert_eq!(encoded.content(), before);
    }
}

#[test]
fn truncated_longer_and_empty_chunks_are_mended() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(24_000));
    let before = encoded.content();
    for (chunk, bytes) in [(0, 4095), (4, 0), (8, 5000)] {
        let file = fs::OpenOptions::new().write(true).open(encoded.chunk(0, chunk)).unwrap();
        file.set_len(bytes).unwrap();
    }
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 1);
    assert!(
        verified.stdout.contains("chunk 0 has the wrong length: 4095 bytes instead of 4096"),
        "{verified:?}"
    );
    encoded.assert_decodes();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
}

#[test]
fn decode_counts_no_chunk_as_good_that_it_has_not_opened() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(6 * 4096));
    // Of those that it reads first too few are left, and of the others none.
    for chunk in [0, 1, 2, 3, 6, 7] {
        fs::remove_file(encoded.chunk(0, chunk)).unwrap();
    }
    fs::write(encoded.chunk(0, 8), "short").unwrap();
    let output = encoded.folder().join("decoded");
    let args = ["decode", "-o", output.to_str().unwrap(), "--format", "json"];
    let decoded = run(&args, &encoded.directory);
    assert_eq!(decoded.status, 3);
    assert!(decoded.stderr.contains("needs 6 surviving chunks, but has 2 ("), "{decoded:?}");
    let report = decoded.json();
    assert_eq!(report["unrepairable"][0]["lost"], serde_json::json!([0, 1, 2, 3, 6, 7, 8]));
    assert!(!output.exists());
}

#[test]
fn what_is_beyond_repair_is_listed_and_the_rest_is_rebuilt() {
    // Stripe 0 loses four chunks, stripe 1 one, stripe 2 all with their folder.
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(3 * 6 * 4096));
    for chunk in [0, 3, 5, 8] {
        fs::remove_file(encoded.chunk(0, chunk)).unwrap();
    }
    encoded.flip(1, 2, 0);
    fs::remove_dir_all(encoded.directory.join("stripe.00002")).unwrap();
    let untouched = encoded.content_of("stripe.00000");

    let verified = run(&["verify", "--format", "json"], &encoded.directory);
    assert_eq!(verified.status, 3);
    let report = verified.json();
    assert_eq!(report["unrepairable"], serde_json::json!([0, 2]));
    assert_eq!(report["bad"].as_array().unwrap().len(), 4 + 1 + 9);

    let output = encoded.folder().join("decoded");
    let decoded = run(&["decode", "-o", output.to_str().unwrap()], &encoded.directory);
    assert_eq!(decoded.status, 3);
    assert!(
        decoded.stderr.contains("stripe 0 cannot be repaired") && !output.exists(),
        "{decoded:?}"
    );

    let rebuilt = run(&["rebuild", "--report", "json"], &encoded.directory);
    assert_eq!(rebuilt.status, 3);
    assert!(rebuilt.stderr.contains("needs 6 surviving chunks, but has 5"), "{rebuilt:?}");
    let report = rebuilt.json();
    assert_eq!(report["stripes"].as_array().unwrap().len(), 1);
    assert_eq!(report["stripes"][0]["stripe"], 1);
    assert_eq!(report["stripes"][0]["lost"], serde_json::json!([2]));
    assert_eq!(report["unrepairable"][0]["lost"], serde_json::json!([0, 3, 5, 8]));
    assert_eq!(encoded.content_of("stripe.00000"), untouched);
    assert!(!encoded.directory.join("stripe.00002").exists());
}

#[test]
fn the_rebuild_report_counts_what_each_helper_reads_and_sends() {
    let encoded = Encoded::new("rs(6,3)", 64 << 10, &noise(500_000));
    let before = encoded.content();
    let rebuilt = run(&["rebuild", "--lost", "1,7", "--report", "json"], &encoded.directory);
    assert_eq!((rebuilt.status, rebuilt.stderr.as_str()), (0, ""));
    let report = rebuilt.json();
    assert_eq!(report["method"], "optimal");
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(report["read_bytes"], 2 * 6 * 65536);
    assert_eq!(report["sent_bytes"], 2 * 6 * 65536);
    assert!(report.get("unrepairable").is_none());
    for (index, stripe) in report["stripes"].as_array().unwrap().iter().enumerate() {
        assert_eq!(stripe["stripe"], index);
        assert_eq!(stripe["lost"], serde_json::json!([1, 7]));
        assert_eq!(stripe["method"], "optimal");
        let helpers = stripe["helpers"].as_array().unwrap();
        assert_eq!(helpers.len(), 6);
        for helper in helpers {
            assert_eq!(helper["read_bytes"], 65536);
            assert_eq!(helper["sent_bytes"], 65536);
            assert!(helper["chunk"] != 1 && helper["chunk"] != 7);
        }
    }
    assert_eq!(encoded.content(), before);
    let healthy =
        run(&["rebuild", "--report", "json", "--method", "conventional"], &encoded.directory)
            .json();
    assert_eq!(healthy["method"], "conventional");
    assert_eq!(healthy["stripes"], serde_json::json!([]));
}

#[test]
fn a_corrupt_helper_is_replaced_and_itself_rebuilt() {
    let encoded = Encoded::new("rs(6,3)", 300 << 12, &noise(5_000_000));
    let before = encoded.content();
    fs::remove_file(encoded.chunk(0, 0)).unwrap();
    // The last block: the helper has been used for a long time when it is found out.
    encoded.flip(0, 1, (300 << 12) - 1);
    let report = run(&["rebuild", "--lost", "0", "--report", "json"], &encoded.directory).json();
    assert_eq!(report["stripes"][0]["lost"], serde_json::json!([0, 1]));
    assert_eq!(encoded.content(), before);
}

#[test]
fn chunks_named_as_lost_may_be_too_many() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(9000));
    let before = encoded.content();
    let rebuilt = run(&["rebuild", "--lost", "0,1,2,3"], &encoded.directory);
    assert_eq!(rebuilt.status, 3);
    assert!(rebuilt.stderr.contains("chunk 3 was named as lost"), "{rebuilt:?}");
    for (lost, expected) in [
        ("9", "rs(6,3) has chunks 0 to 8"),
        ("x", "'x' is not a chunk"),
        ("1,256", "'256' is not a chunk"),
    ] {
        let refused = run(&["rebuild", "--lost", lost], &encoded.directory);
        assert_eq!(refused.status, 2);
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
    assert_eq!(encoded.content(), before);
}

#[test]
fn missing_and_stale_checksum_files_are_written_anew_from_good_chunks() {
    let encoded = Encoded::new("rs(6,3)", 12_288, &noise(70_000));
    let before = encoded.content();
    fs::remove_file(encoded.checksums(0, 1)).unwrap();
    fs::copy(encoded.checksums(0, 2), encoded.checksums(0, 3)).unwrap();
    fs::write(encoded.checksums(0, 4), "short").unwrap();
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 0, "good chunks are no damage: {verified:?}");
    assert!(
        verified.stdout.contains("chunk 1 is good, but its .crc file is missing"),
        "{verified:?}"
    );
    assert!(
        verified.stdout.contains("chunk 3 is good, but its .crc file is stale"),
        "{verified:?}"
    );
    encoded.assert_decodes();
    // A chunk and its checksums may both be bad.
    encoded.flip(0, 3, 9000);
    encoded.assert_decodes();
    assert_eq!(run(&["verify"], &encoded.directory).status, 1);
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
}

#[test]
fn a_chunk_that_only_its_own_checksum_file_vouches_for_is_not_believed() {
    // An old or misplaced chunk, complete with the `.crc` file that belongs to it.
    let encoded = Encoded::new("rs(6,3)", 8192, &noise(49_000));
    let before = encoded.content();
    let misplace = || {
        fs::copy(encoded.chunk(0, 2), encoded.chunk(0, 3)).unwrap();
        fs::copy(encoded.checksums(0, 2), encoded.checksums(0, 3)).unwrap();
    };
    misplace();
    encoded.assert_decodes();
    assert_eq!(run(&["verify"], &encoded.directory).status, 1);
    assert_eq!(run(&["rebuild", "--lost", "0"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
    misplace();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
}

#[test]
fn where_checksums_are_gone_parity_finds_the_bad_chunk() {
    for chunk in 0..9 {
        let encoded = Encoded::new("rs(6,3)", 8192, &noise(60_000));
        let before = encoded.content();
        encoded.forget_checksums();
        assert_eq!(run(&["verify"], &encoded.directory).status, 0);
        encoded.flip(1, chunk, 4100);
        let verified = run(&["verify", "--format", "json"], &encoded.directory);
        assert_eq!(verified.status, 1);
        let report = verified.json();
        assert_eq!(report["proof"], "parity");
        assert_eq!(report["bad"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&report["bad"][0]["stripe"], &report["bad"][0]["chunk"]),
            (&1.into(), &chunk.into())
        );
        encoded.assert_decodes();
        let rebuilt = run(&["rebuild"], &encoded.directory);
        assert_eq!(rebuilt.status, 0, "{rebuilt:?}");
        for (name, content) in encoded.content() {
            assert!(name == "manifest.json" || before[&name] == content, "{name}");
        }
    }
}

#[test]
fn where_parity_cannot_tell_nothing_is_trusted_and_nothing_changed() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(24_000));
    encoded.forget_checksums();
    // Two bad chunks in the same place, and three parities: two explanations are possible.
    encoded.flip(0, 2, 10);
    encoded.flip(0, 5, 10);
    let before = encoded.content();
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 3);
    assert!(verified.stdout.contains("parity cannot tell"), "{verified:?}");
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 3);
    assert_eq!(encoded.content(), before);
    // With the two taken away, seven chunks are left that agree: one to spare proves them.
    fs::remove_file(encoded.chunk(0, 2)).unwrap();
    fs::remove_file(encoded.chunk(0, 5)).unwrap();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    encoded.assert_decodes();
}

#[test]
fn a_manifest_that_lies_is_refused_before_anything_is_touched() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(30_000));
    fs::remove_file(encoded.chunk(0, 2)).unwrap();
    let path = encoded.directory.join("manifest.json");
    let honest = fs::read_to_string(&path).unwrap();
    // The manifest's own checksum would notice every lie; most are made without it.
    let own = honest.lines().find(|line| line.contains("manifest_crc32c")).unwrap();
    let unsealed = honest.replace(&format!("{own}\n"), "");
    let twice_as_large = unsealed.replace("4096", "8192").replace("30000", "60000");
    for (lie, expected) in [
        (honest.replace("30000", "29999"), "altered or damaged"),
        (honest.replace("\"unit_bytes\": 4096", "\"unit_bytes\": 64"), "altered or damaged"),
        (unsealed.replace("rs(6,3)", "rs(6,2)"), "8 chunks a stripe, but it lists 9"),
        (unsealed.replace("rs(6,3)", "rs(9,0)"), "its code is impossible"),
        (unsealed.replace("rs(6,3)", "nonsense"), "its code is impossible"),
        (unsealed.replace("30000", "300000"), "13 stripes of this size, but it lists 2"),
        (unsealed.replace("30000", "-1"), "not a suture-manifest-1"),
        (unsealed.replace("30000", "18446744073709551615"), "no file is"),
        (
            twice_as_large,
            "the manifest is wrong: by it chunks have 8192 bytes, but all 8 chunk files have 4096",
        ),
        (
            unsealed.replace("manifest-1", "manifest-9"),
            "\"suture-manifest-9\", but this version of suture reads \"suture-manifest-1\"",
        ),
        (unsealed.replacen('{', "[", 1), "not a manifest"),
        (String::new(), "not a manifest"),
    ] {
        fs::write(&path, lie).unwrap();
        let before = encoded.content();
        for command in [&["verify"][..], &["rebuild"], &["decode", "-o", "/nonexistent/out"]] {
            let refused = run(command, &encoded.directory);
            assert_eq!(refused.status, 2, "{expected}: {refused:?}");
            assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
            assert!(refused.stderr.contains(encoded.directory.to_str().unwrap()), "{refused:?}");
        }
        assert_eq!(encoded.content(), before);
    }
}

#[test]
fn other_files_are_named_and_left_alone() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(30_000));
    fs::write(encoded.directory.join("README"), "mine").unwrap();
    fs::write(encoded.directory.join("stripe.00001/chunk.09"), "what?").unwrap();
    let verified = run(&["verify", "--format", "json"], &encoded.directory);
    assert_eq!(verified.status, 0);
    assert_eq!(
        verified.json()["extra_files"],
        serde_json::json!(["README", "stripe.00001/chunk.09"])
    );
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(fs::read(encoded.directory.join("README")).unwrap(), b"mine");
}

#[test]
fn encode_never_writes_where_something_is() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(9000));
    let before = encoded.content();
    let source = encoded.folder().join("other");
    fs::write(&source, "other").unwrap();
    let encode = |source: &str, size: &str| {
        run(
            &["encode", source, "--code", "rs(6,3)", "--chunk-size", size, "-o"],
            &encoded.directory,
        )
    };
    let refused = encode(source.to_str().unwrap(), "64B");
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("already holds an encoded file"), "{refused:?}");
    assert_eq!(encoded.content(), before);
    // Chunks without a manifest may be the last good copies of something.
    fs::remove_file(encoded.directory.join("manifest.json")).unwrap();
    let refused = encode(source.to_str().unwrap(), "64B");
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("is not empty"), "{refused:?}");
    assert_eq!(encoded.content().len(), before.len() - 1);
    for command in [["verify"], ["rebuild"]] {
        let refused = run(&command, &encoded.directory);
        assert_eq!(refused.status, 2);
        assert!(refused.stderr.contains("no manifest.json"), "{refused:?}");
    }
}

#[test]
fn an_interrupted_encode_leaves_no_manifest_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("encoded");
    // As a crash while chunks were moved into place would leave it.
    fs::create_dir_all(directory.join(".encode.tmp")).unwrap();
    fs::write(directory.join(".encode.tmp/chunk.01"), "half").unwrap();
    fs::write(directory.join("chunk.00"), "old").unwrap();
    let source = folder.path().join("source");
    fs::write(&source, noise(10_000)).unwrap();
    assert_eq!(run(&["verify"], &directory).status, 2);
    let encode =
        ["encode", source.to_str().unwrap(), "--code", "rs(2,1)", "--chunk-size", "8KiB", "-o"];
    let encoded = run(&encode, &directory);
    assert_eq!(encoded.status, 0, "{encoded:?}");
    assert!(!directory.join(".encode.tmp").exists());
    let verified = run(&["verify", "--format", "json"], &directory);
    assert_eq!((verified.status, verified.json()["extra_files"].as_array().unwrap().len()), (0, 0));
    // As a crash behind the manifest would leave it: nothing is cleared away.
    fs::create_dir(directory.join(".encode.tmp")).unwrap();
    assert!(run(&encode, &directory).stderr.contains("already holds an encoded file"));
    assert_eq!(run(&["rebuild"], &directory).status, 0);
    assert!(!directory.join(".encode.tmp").exists());
    assert_eq!(run(&["verify"], &directory).status, 0);
}

#[test]
fn an_encode_that_fails_takes_its_traces_away() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::write(&source, noise(1000)).unwrap();
    let directory = folder.path().join("new/encoded");
    for (code, size, unit, expected) in [
        ("rs(6,3)", "1000B", "1000B", "nearest valid: 960B or 1KiB"),
        ("rs(6,3)", "4KiB", "192B", "nearest valid: 4032B or 4224B"),
        ("rs(6,3)", "4MB", "100", "nearest valid: 64B or 128B"),
        ("rs(0,3)", "4KiB", "4KiB", "rs(0,3) is impossible"),
        ("rs(200,56)", "4KiB", "4KiB", "impossible"),
        ("rs(6)", "4KiB", "4KiB", "rs(k,m)"),
        ("rss(6,3)", "4KiB", "4KiB", "did you mean rs?"),
        ("rs(6,3)", "4M", "4KiB", "'4M' is not a size"),
        ("rs(6,3)", "0", "64", "at least 1B"),
    ] {
        let source = source.to_str().unwrap();
        let refused = run(
            &["encode", source, "--code", code, "--chunk-size", size, "--unit", unit, "-o"],
            &directory,
        );
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        assert!(!directory.exists());
    }
    let missing = run(
        &["encode", "no-such-file", "--code", "rs(6,3)", "--chunk-size", "4KiB", "-o"],
        &directory,
    );
    assert_eq!(missing.status, 2);
    assert!(missing.stderr.contains("no-such-file"), "{missing:?}");
    let folder_given =
        run(&["encode", ".", "--code", "rs(6,3)", "--chunk-size", "4KiB", "-o"], &directory);
    assert_eq!(folder_given.status, 2);
}

#[test]
fn decode_writes_no_output_over_its_input() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(30_000));
    let before = encoded.content();
    let link = encoded.folder().join("link");
    std::os::unix::fs::symlink(encoded.chunk(0, 1), &link).unwrap();
    let inside = |name: &str| encoded.directory.join(name);
    for output in [
        inside("manifest.json"),
        inside("stripe.00000/chunk.00"),
        inside("chunk.77"),
        link,
        inside(""),
        "/dev/null".into(),
    ] {
        let refused = run(&["decode", "-o", output.to_str().unwrap()], &encoded.directory);
        assert_eq!(refused.status, 2, "{}: {refused:?}", output.display());
    }
    assert_eq!(encoded.content(), before);
    // An output that exists is replaced, and without a path it goes to the working directory.
    fs::write(encoded.folder().join("out"), "old").unwrap();
    let decoded = run_in(encoded.folder(), &["decode", "encoded", "-o", "out"]);
    assert_eq!(decoded.status, 0, "{decoded:?}");
    assert_eq!(fs::read(encoded.folder().join("out")).unwrap(), encoded.source);
}

#[test]
fn a_directory_that_cannot_be_written_keeps_its_files() {
    if rustix::process::geteuid().is_root() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: root may write everywhere; run the tests as another user for this one"
        );
        return;
    }
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(9000));
    fs::remove_file(encoded.chunk(0, 0)).unwrap();
    let before = encoded.content();
    let mode = |mode: u32| {
        fs::set_permissions(&encoded.directory, PermissionsExt::from_mode(mode)).unwrap()
    };
    mode(0o555);
    let rebuilt = run(&["rebuild"], &encoded.directory);
    let decoded = run_in(encoded.folder(), &["decode", "encoded", "-o", "out"]);
    mode(0o755);
    assert_eq!(rebuilt.status, 1);
    assert!(rebuilt.stderr.contains("chunk.00"), "{rebuilt:?}");
    assert_eq!(decoded.status, 0, "reading needs no permission to write: {decoded:?}");
    assert_eq!(encoded.content(), before);
}

#[test]
fn a_rebuild_clears_temporaries_and_keeps_out_of_the_way_of_another() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(9000));
    let before = encoded.content();
    // Of a crash between the two names of a file that replaces another, and of an older build.
    fs::write(encoded.directory.join(".suture-1-0.tmp"), "left by a crash").unwrap();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0, "nothing is lost");
    assert_eq!(encoded.content(), before);
    fs::write(encoded.directory.join("chunk.03.tmp"), "left by a crash").unwrap();
    fs::remove_file(encoded.chunk(0, 3)).unwrap();
    let handle = fs::File::open(&encoded.directory).unwrap();
    handle.try_lock().unwrap();
    let refused = run(&["rebuild"], &encoded.directory);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("another suture process"), "{refused:?}");
    encoded.assert_decodes();
    drop(handle);
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
}

#[test]
fn a_rebuild_killed_at_any_moment_is_finished_by_the_next() {
    let encoded = Encoded::new("rs(6,3)", 1 << 20, &noise(20 << 20));
    let before = encoded.content();
    for round in 0..6 {
        for stripe in 0..4 {
            fs::remove_file(encoded.chunk(stripe, (stripe + round) % 9)).unwrap();
        }
        let mut child = common::spawn(&["rebuild"], &encoded.directory);
        // Wait for some progress, a different one each round, rather than for a time.
        let progress = |name: &str| name.starts_with("chunk.") && !name.ends_with(".crc");
        while child.try_wait().unwrap().is_none()
            && encoded.names().filter(|name| progress(name)).count() < 32 + round
        {}
        child.kill().unwrap();
        child.wait().unwrap();
        for (name, content) in encoded.content().iter().filter(|(name, _)| !name.ends_with(".tmp"))
        {
            assert!(before[name] == *content, "{name} was published half-done");
        }
        assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
        assert!(encoded.content() == before);
    }
}

#[test]
fn a_manifest_with_a_wrong_chunk_checksum_never_publishes_a_wrong_chunk() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(24_000));
    let path = encoded.directory.join("manifest.json");
    let manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let checksum = manifest["chunk_crc32c"][0][4].as_str().unwrap();
    let own = manifest["manifest_crc32c"].as_str().unwrap();
    let text = fs::read_to_string(&path).unwrap().replace(checksum, "deadbeef");
    fs::write(&path, text.replace(&format!("  \"manifest_crc32c\": \"{own}\",\n"), "")).unwrap();
    let before = encoded.content();
    let rebuilt = run(&["rebuild"], &encoded.directory);
    assert_eq!(rebuilt.status, 3);
    assert!(rebuilt.stderr.contains("the manifest has deadbeef"), "{rebuilt:?}");
    assert_eq!(encoded.content(), before);
}

#[test]
fn parity_is_that_of_an_independent_program() {
    let lines: Vec<Vec<u8>> = include_str!("data/rs_6_3.hex")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            (0..64).map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap()).collect()
        })
        .collect();
    let encoded = Encoded::new("rs(6,3)", 64, &lines[..6].concat());
    for (chunk, expected) in lines.iter().enumerate() {
        assert_eq!(fs::read(encoded.chunk(0, chunk)).unwrap(), *expected, "chunk {chunk}");
    }
}

#[test]
fn units_do_not_change_the_bytes_of_reed_solomon() {
    let whole = Encoded::new("rs(6,3)", 8192, &noise(100_000));
    let cells = Encoded::with(&["--unit", "1KiB"], "rs(6,3)", 8192, &noise(100_000));
    let chunks = |encoded: &Encoded| {
        encoded
            .content()
            .into_iter()
            .filter(|(name, _)| name != "manifest.json")
            .collect::<Vec<_>>()
    };
    assert!(chunks(&whole) == chunks(&cells));
    let manifest: Value =
        serde_json::from_slice(&fs::read(cells.directory.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["unit_bytes"], 1024);
}

#[test]
fn codes_are_shown_with_their_price() {
    let report = common::run_plain(&["codes", "rs(6,3)", "rs(20,5)", "--format", "json"]).json();
    let code = &report["codes"][0];
    assert_eq!((&code["code"], &code["loss_tolerance"]), (&"rs(6,3)".into(), &3.into()));
    assert_eq!(
        (&code["storage_overhead"], &code["repair_read_chunks"]),
        (&1.5.into(), &6.0.into())
    );
    let served: Vec<&str> = code["policies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|policy| policy["served"] == true)
        .map(|policy| policy["policy"].as_str().unwrap())
        .collect();
    let published = ["cr", "ppr", "rp", "ppt", "pivot", "car", "chameleon"];
    let boosted = ["repairboost+cr", "repairboost+ppr", "repairboost+rp"];
    let expected: Vec<&str> = published.into_iter().chain(boosted).collect();
    assert_eq!(served[..expected.len()], expected);
    assert_eq!(served.last(), Some(&"suture"));
    assert_eq!(report["codes"][1]["repair_sent_chunks"], 20.0);
    let table = common::run_plain(&["codes"]);
    assert!(table.stdout.contains("rs(10,4)") && table.stdout.contains("chameleon"), "{table:?}");
    assert_eq!(common::run_plain(&["codes", "rs(0,1)"]).status, 2);
}

#[test]
fn an_unreadable_chunk_is_only_a_lost_one() {
    // A folder under a chunk's name: whatever it is, it is no chunk.
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(20_000));
    fs::remove_file(encoded.chunk(0, 1)).unwrap();
    fs::create_dir(encoded.chunk(0, 1)).unwrap();
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 1);
    assert!(verified.stdout.contains("chunk 1 cannot be read: not a regular file"), "{verified:?}");
    encoded.assert_decodes();
    let rebuilt = run(&["rebuild"], &encoded.directory);
    assert_eq!(rebuilt.status, 1, "a folder is not ours to replace: {rebuilt:?}");
    assert!(
        rebuilt.stderr.contains("not a regular file") && rebuilt.stderr.contains("chunk.01"),
        "{rebuilt:?}"
    );
    assert!(!encoded.directory.join("chunk.01.tmp").exists());

    fs::remove_dir(encoded.chunk(0, 1)).unwrap();
    std::os::unix::fs::symlink("/nowhere/else", encoded.chunk(0, 1)).unwrap();
    let verified = run(&["verify"], &encoded.directory);
    let why = "chunk 1 cannot be read: a link that leads nowhere; remove it";
    assert!(verified.status == 1 && verified.stdout.contains(why), "{verified:?}");
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 1);
    fs::remove_file(encoded.chunk(0, 1)).unwrap();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);

    let checksums = encoded.directory.join("chunk.00.crc");
    fs::remove_file(&checksums).unwrap();
    fs::create_dir(&checksums).unwrap();
    let verified = run(&["verify"], &encoded.directory);
    let why = "chunk 0 is good, but its .crc file is not a regular file: remove it";
    assert!(verified.status == 0 && verified.stdout.contains(why), "{verified:?}");
}

#[test]
fn a_rebuild_that_fails_does_not_call_every_chunk_good_and_rebuilds_the_other_chunks() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(20_000));
    let before = encoded.content();
    fs::remove_file(encoded.chunk(0, 1)).unwrap();
    fs::create_dir(encoded.chunk(0, 1)).unwrap();
    let told = |rebuilt: &common::Finished| {
        assert_eq!(rebuilt.status, 1, "{rebuilt:?}");
        assert!(rebuilt.stderr.contains("chunk.01 is not a regular file"), "{rebuilt:?}");
    };
    // One that comes before the folder, and one that comes after it.
    for other in [0, 7] {
        fs::remove_file(encoded.chunk(0, other)).unwrap();
        let rebuilt = run(&["rebuild"], &encoded.directory);
        told(&rebuilt);
        assert_eq!(rebuilt.stdout, "0 of 1 stripe rebuilt in full\n");
        let name = format!("chunk.{other:02}");
        assert!(fs::read(encoded.chunk(0, other)).unwrap() == before[&name], "{name}");
    }
    let rebuilt = run(&["rebuild", "--report", "json"], &encoded.directory);
    told(&rebuilt);
    let failed = &rebuilt.json()["failed"][0];
    assert_eq!(failed["stripe"], 0);
    assert!(failed["error"].as_str().unwrap().contains("chunk.01"), "{failed}");
}

#[test]
fn damage_beyond_the_end_of_the_file_is_still_damage() {
    let encoded = Encoded::new("rs(6,3)", 8192, &noise(100));
    let before = encoded.content();
    // Chunk 5 holds only padding; parity depends on it all the same.
    let file = fs::OpenOptions::new().write(true).open(encoded.chunk(0, 5)).unwrap();
    file.write_all_at(b"!", 8000).unwrap();
    encoded.assert_decodes();
    assert_eq!(run(&["verify"], &encoded.directory).status, 1);
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 0);
    assert_eq!(encoded.content(), before);
}

/// What `decode` gives, `verify` calls repairable and `rebuild` restores, chunk for chunk.
fn assert_restored(encoded: &Encoded, before: &BTreeMap<String, Vec<u8>>) -> common::Finished {
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 1, "{verified:?}");
    assert!(!verified.stdout.contains("beyond repair"), "{verified:?}");
    encoded.assert_decodes();
    let rebuilt = run(&["rebuild"], &encoded.directory);
    assert_eq!(rebuilt.status, 0, "{rebuilt:?}");
    assert!(encoded.content() == *before, "{rebuilt:?}");
    assert_eq!(run(&["verify"], &encoded.directory).status, 0);
    rebuilt
}

#[test]
fn of_a_short_file_chunks_of_padding_alone_may_all_be_lost_with_the_parity() {
    for bytes in [0, 1, 100, 4096, 4097] {
        let encoded = Encoded::new("rs(3,2)", 4096, &noise(bytes));
        let before = encoded.content();
        let first = bytes.div_ceil(4096);
        (first..5).for_each(|chunk| fs::remove_file(encoded.chunk(0, chunk)).unwrap());
        let rebuilt = assert_restored(&encoded, &before);
        let again = "1 stripe with too few good chunks encoded again from the bytes of the file";
        let is_again = 5 - first > 2;
        assert_eq!(rebuilt.stderr.contains(again), is_again, "{bytes}: {rebuilt:?}");
        let lost: Vec<String> = (first..5).map(|chunk| chunk.to_string()).collect();
        let args = ["rebuild", "--lost", &lost.join(","), "--report", "json"];
        let named = run(&args, &encoded.directory);
        assert_eq!(named.status, 0, "{named:?}");
        assert_eq!(named.json()["stripes"][0]["encoded_again"] == true, is_again, "{named:?}");
        assert!(encoded.content() == before);
    }
}

#[test]
fn damage_behind_the_end_of_the_file_costs_no_byte_of_it() {
    let encoded = Encoded::new("rs(3,2)", 16_384, &noise(5000));
    let before = encoded.content();
    // The bytes of the file are in the first two blocks of the first chunk.
    for chunk in [0, 1, 3] {
        let file = fs::OpenOptions::new().write(true).open(encoded.chunk(0, chunk)).unwrap();
        file.write_all_at(b"!", 9000).unwrap();
    }
    fs::remove_file(encoded.chunk(0, 4)).unwrap();
    assert_restored(&encoded, &before);
    // Where they are not left, nothing is.
    for chunk in [0, 3, 4] {
        let file = fs::OpenOptions::new().write(true).open(encoded.chunk(0, chunk)).unwrap();
        file.write_all_at(b"!", 4999).unwrap();
    }
    let damaged = encoded.content();
    let output = encoded.folder().join("out");
    for command in [&["verify"][..], &["rebuild"], &["decode", "-o", output.to_str().unwrap()]] {
        let refused = run(command, &encoded.directory);
        assert_eq!(refused.status, 3, "{command:?}: {refused:?}");
    }
    assert!(!output.exists() && encoded.content() == damaged);
}
