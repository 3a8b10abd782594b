//! The offline commands with every code: round trips over all patterns, reports against formulas.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{Encoded, Finished, noise, run, run_plain};
use serde_json::Value;
use suture_code::{ChunkIndex, Code};

/// Codes, and units that cut their chunks in an awkward, a common and no way.
const CODES: [(&str, &[usize]); 7] = [
    ("rs(4,2)", &[4160, 8192]),
    ("rs-vandermonde(4,2)", &[64, 8192]),
    ("lrc(6,2,2)", &[8192]),
    ("butterfly(4)", &[512, 32_768]),
    ("butterfly(3)", &[256 * 3, 16_384]),
    ("clay(4,2,5)", &[512, 32_768]),
    ("clay(3,3,4)", &[64 * 8, 6 * 64 * 8]),
];

fn code(name: &str) -> Code {
    name.parse().unwrap()
}

fn encoded(name: &str, unit: usize, units: usize, bytes: usize) -> Encoded {
    Encoded::with(&["--unit", &format!("{unit}B")], name, unit * units, &noise(bytes))
}

/// All sets of 1 to `size_max` chunks that leave enough.
fn patterns(code: &Code, size_max: u32) -> Vec<Vec<usize>> {
    let count = code.chunk_count();
    let sets = (1u32..1 << count).filter(|set| set.count_ones() <= size_max);
    let lost = sets.map(|set| (0..count).filter(|chunk| set >> chunk & 1 == 1).collect());
    let survives = |lost: &Vec<usize>| {
        let left: Vec<ChunkIndex> =
            code.chunks().filter(|chunk| !lost.contains(&usize::from(chunk.0))).collect();
        code.decodable(&left)
    };
    lost.filter(survives).collect()
}

fn remove(encoded: &Encoded, stripe: usize, lost: &[usize]) {
    for &chunk in lost {
        fs::remove_file(encoded.chunk(stripe, chunk)).unwrap();
        fs::remove_file(encoded.checksums(stripe, chunk)).unwrap();
    }
}

fn report(encoded: &Encoded, method: &str, lost: &[usize]) -> Value {
    let lost: Vec<String> = lost.iter().map(usize::to_string).collect();
    let args = ["rebuild", "--lost", &lost.join(","), "--method", method, "--report", "json"];
    let rebuilt = run(&args, &encoded.directory);
    assert_eq!(rebuilt.status, 0, "{rebuilt:?}");
    rebuilt.json()
}

/// Damages chunks of a stripe, more or fewer than the code survives, as these numbers say.
fn damage(encoded: &Encoded, count: usize, mut next: impl FnMut(usize) -> usize) {
    for _ in 0..next(count + 1) {
        let path = encoded.chunk(0, next(count));
        let Ok(mut bytes) = fs::read(&path) else { continue };
        let at = next(bytes.len());
        match next(5) {
            0 => {
                fs::remove_file(&path).unwrap();
                continue;
            }
            1 => bytes.truncate(at),
            2 => bytes = fs::read(encoded.chunk(0, next(count))).unwrap_or(bytes),
            // Most often behind the end of a short file.
            _ => bytes[at] ^= 1,
        }
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn what_decode_gives_verify_calls_repairable_and_rebuild_restores() {
    let mut random = noise(1 << 16).into_iter();
    let mut next = |below: usize| {
        let mut byte = || usize::from(random.next().expect("there is enough"));
        (byte() << 16 | byte() << 8 | byte()) % below.max(1)
    };
    let (mut given, mut beyond) = (0, 0);
    for _ in 0..12 {
        for (name, units) in CODES {
            let (unit, count) = (units[next(units.len())], code(name).chunk_count());
            let chunk = unit * (1 + next(2));
            let most = [2, chunk, 2 * chunk, code(name).data_chunks() * chunk + 1];
            let most = most[next(most.len())];
            let encoded = encoded(name, unit, chunk / unit, next(most));
            let before = encoded.content();
            damage(&encoded, count, &mut next);
            let output = encoded.folder().join("out");
            let verified = run(&["verify"], &encoded.directory);
            let decoded = run(&["decode", "-o", output.to_str().unwrap()], &encoded.directory);
            let rebuilt = run(&["rebuild"], &encoded.directory);
            let all = format!("{name} {unit} {chunk}: {verified:?} {decoded:?} {rebuilt:?}");
            let is_given = decoded.status == 0;
            assert_eq!(
                (verified.status == 3, rebuilt.status),
                (!is_given, if is_given { 0 } else { 3 }),
                "{all}"
            );
            if is_given {
                assert!(fs::read(output).unwrap() == encoded.source, "{all}");
                assert!(encoded.content() == before, "{all}");
            }
            (given, beyond) = (given + usize::from(is_given), beyond + usize::from(!is_given));
        }
    }
    assert!(given > 20 && beyond > 10, "{given} {beyond}");
}

#[test]
fn every_code_in_every_unit_comes_back_from_every_loss() {
    for (name, units) in CODES {
        let code = code(name);
        for &unit in units {
            let count = if unit > 10_000 { 1 } else { 8 };
            let stripe = unit * count * code.data_chunks();
            let encoded = encoded(name, unit, count, stripe + stripe / 3);
            let before = encoded.content();
            for lost in patterns(&code, code.loss_tolerance() as u32) {
                remove(&encoded, 0, &lost);
                encoded.assert_decodes();
                let rebuilt = run(&["rebuild"], &encoded.directory);
                assert_eq!(rebuilt.status, 0, "{name} {unit} {lost:?}: {rebuilt:?}");
                assert!(encoded.content() == before, "{name} {unit} {lost:?}");
            }
        }
    }
}

#[test]
fn files_of_every_size_come_back_from_every_code() {
    for (name, units) in CODES {
        let stripe = code(name).data_chunks() * units[0] * 3;
        for bytes in [0, 1, units[0] * 3 + 1, stripe - 1, stripe, 2 * stripe + 77] {
            let encoded = encoded(name, units[0], 3, bytes);
            encoded.assert_decodes();
            let last = if bytes > stripe { bytes / stripe } else { 0 };
            remove(&encoded, last, &[0]);
            encoded.assert_decodes();
        }
    }
}

#[test]
fn lrc_survives_what_can_be_survived_and_says_what_cannot() {
    let code = code("lrc(6,2,2)");
    let encoded = Encoded::new("lrc(6,2,2)", 64, &noise(384));
    let before = encoded.content();
    for lost in patterns(&code, 4).iter().filter(|lost| lost.len() == 4) {
        remove(&encoded, 0, lost);
        let rebuilt = run(&["rebuild"], &encoded.directory);
        assert_eq!(rebuilt.status, 0, "{lost:?}: {rebuilt:?}");
        assert!(encoded.content() == before, "{lost:?}");
    }
    // A group and its local parity: six chunks are left, more than enough elsewhere, not here.
    remove(&encoded, 0, &[0, 1, 2, 6]);
    let before = encoded.content();
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 3);
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 3);
    assert!(verified.stdout.contains("not any 6 do"), "{verified:?}");
    assert!(encoded.content() == before);
}

/// What one helper reads and sends, in 64ths of its chunk.
fn helpers(report: &Value, chunk_bytes: u64) -> BTreeMap<u64, (u64, u64)> {
    let helpers = report["stripes"][0]["helpers"].as_array().unwrap().iter();
    let share = |helper: &Value, key: &str| {
        let bytes = 64 * helper[key].as_u64().unwrap();
        assert_eq!(bytes % chunk_bytes, 0);
        bytes / chunk_bytes
    };
    let both = |helper: &Value| (share(helper, "read_bytes"), share(helper, "sent_bytes"));
    helpers.map(|helper| (helper["chunk"].as_u64().unwrap(), both(helper))).collect()
}

/// Every chunk is lost once; says of each how many help, and what they read and send, in 64ths.
fn check_volumes(name: &str, method: &str, expected: &[(&[usize], usize, u64, u64)]) {
    let code = code(name);
    // Sub-chunks are whole blocks, so whatever is read is not rounded.
    let chunk = 4096 * code.sub_chunk_count() as usize;
    let encoded = Encoded::new(name, chunk, &noise(code.data_chunks() * chunk));
    let before = encoded.content();
    for &(chunks, helper_count, read, sent) in expected {
        for &lost in chunks {
            let report = report(&encoded, method, &[lost]);
            let helpers = helpers(&report, chunk as u64);
            let read_sum: u64 = helpers.values().map(|(read, _)| read).sum();
            let sent_sum: u64 = helpers.values().map(|(_, sent)| sent).sum();
            let found = (helpers.len(), read_sum, sent_sum);
            assert_eq!(found, (helper_count, read, sent), "{name} {method} {lost}");
            assert_eq!(report["read_bytes"], read * chunk as u64 / 64);
            assert_eq!(report["sent_bytes"], sent * chunk as u64 / 64);
            assert_eq!(report["stripes"][0]["method"], method);
            assert!(encoded.content() == before, "{name} {lost}");
        }
    }
}

#[test]
fn reports_equal_the_formulas() {
    check_volumes("rs(6,3)", "optimal", &[(&[0, 5, 8], 6, 6 * 64, 6 * 64)]);
    check_volumes("rs-vandermonde(6,3)", "conventional", &[(&[0, 5, 8], 6, 6 * 64, 6 * 64)]);
    let lrc: [(&[usize], _, _, _); 2] =
        [(&[0, 1, 2, 3, 4, 5, 6, 7], 3, 3 * 64, 3 * 64), (&[8, 9], 6, 6 * 64, 6 * 64)];
    check_volumes("lrc(6,2,2)", "optimal", &lrc);
    check_volumes("lrc(6,2,2)", "conventional", &[(&[0, 3, 8, 9], 6, 6 * 64, 6 * 64)]);
    // Half of each of the k + 1 others is sent; for B, D0..D(k-2) read all of it.
    check_volumes(
        "butterfly(4)",
        "optimal",
        &[(&[0, 1, 2, 3, 4], 5, 160, 160), (&[5], 5, 256, 160)],
    );
    check_volumes("butterfly(4)", "conventional", &[(&[0, 3, 4, 5], 4, 256, 256)]);
    // d helpers send 1/q each, q = d - k + 1.
    check_volumes("clay(4,2,5)", "optimal", &[(&[0, 3, 4, 5], 5, 160, 160)]);
    check_volumes("clay(3,3,4)", "optimal", &[(&[0, 5], 4, 128, 128)]);
    check_volumes("clay(4,2,5)", "conventional", &[(&[0, 5], 4, 256, 256)]);
}

#[test]
fn traces_send_what_their_ranks_say() {
    for name in ["rs(6,3)", "rs-vandermonde(6,3)", "rs(3,2)", "rs(10,4)"] {
        let code = code(name);
        for lost in code.chunks() {
            let scheme = code.trace_scheme(lost, &[]).expect("a known scheme");
            let bits: usize = scheme.ranks(code.chunk_count()).iter().map(|(_, rank)| rank).sum();
            let others = code.chunk_count() - 1;
            let expected =
                (&[usize::from(lost.0)][..], others, 64 * others as u64, 8 * bits as u64);
            check_volumes(name, "trace", &[expected]);
        }
    }
}

#[test]
fn where_traces_cannot_serve_it_takes_whole_chunks_and_says_so() {
    let encoded = Encoded::new("rs(6,3)", 4096, &noise(24_000));
    let before = encoded.content();
    let two = run(&["rebuild", "--lost", "1,2", "--method", "trace"], &encoded.directory);
    assert_eq!(two.status, 0);
    assert!(two.stderr.contains("2 chunks are lost, and traces rebuild one"), "{two:?}");
    // Two traces of six chunks less one would send more than the six chunks that rebuild both.
    let report = report(&encoded, "trace", &[1, 2]);
    assert_eq!(report["method"], "trace");
    assert_eq!(report["stripes"][0]["method"], "conventional");
    assert_eq!(report["read_bytes"], 6 * 4096);
    assert_eq!(report["stripes"].as_array().unwrap().len(), 1);
    assert!(report["stripes"][0]["instead"].as_str().unwrap().contains("2 chunks"));
    assert_eq!(encoded.content(), before);
    for name in ["rs(5,2)", "clay(4,2,5)", "lrc(4,2,1)", "butterfly(4)"] {
        let encoded = Encoded::new(name, 4096, &noise(10_000));
        let one = run(&["rebuild", "--lost", "0", "--method", "trace"], &encoded.directory);
        assert_eq!(one.status, 0);
        let expected = format!("{name} has no trace scheme for chunk 0");
        assert!(one.stderr.contains(&expected), "{one:?}");
    }
}

#[test]
fn a_corrupt_helper_of_a_thrifty_repair_is_replaced_and_rebuilt() {
    for (name, method) in [
        ("lrc(6,2,2)", "optimal"),
        ("butterfly(4)", "optimal"),
        ("clay(4,2,5)", "optimal"),
        ("rs(6,3)", "trace"),
    ] {
        let chunk = 65_536;
        let encoded = Encoded::new(name, chunk, &noise(4 * chunk));
        let before = encoded.content();
        fs::remove_file(encoded.chunk(0, 0)).unwrap();
        (0..16).for_each(|block| encoded.flip(0, 1, block * 4096 + 9));
        let report = report(&encoded, method, &[0]);
        assert_eq!(report["stripes"][0]["lost"], serde_json::json!([0, 1]), "{name}");
        assert!(encoded.content() == before, "{name}");
    }
}

#[test]
fn reads_of_small_sub_chunks_count_the_blocks_that_are_checked() {
    // Sub-chunks of 64 bytes: half of them touch every block.
    let encoded = encoded("butterfly(4)", 512, 64, 100_000);
    let report = report(&encoded, "optimal", &[0]);
    assert_eq!(report["stripes"][0]["helpers"][0]["read_bytes"], 32_768);
    assert_eq!(report["stripes"][0]["helpers"][0]["sent_bytes"], 16_384);
}

#[test]
fn without_checksums_parity_judges_every_code() {
    for (name, units) in CODES {
        let code = code(name);
        for &unit in units {
            let encoded = encoded(name, unit, 3, code.data_chunks() * unit * 3);
            let before = encoded.content();
            encoded.forget_checksums();
            assert_eq!(run(&["verify"], &encoded.directory).status, 0, "{name} {unit}");
            for chunk in 0..code.chunk_count() {
                encoded.flip(0, chunk, unit as u64 * 2 + 5);
                let verified = run(&["verify", "--format", "json"], &encoded.directory);
                assert_eq!(verified.status, 1, "{name} {unit} {chunk}: {verified:?}");
                let bad = &verified.json()["bad"];
                assert_eq!((bad.as_array().unwrap().len(), &bad[0]["chunk"]), (1, &chunk.into()));
                assert_eq!(run(&["rebuild"], &encoded.directory).status, 0, "{name} {chunk}");
                let name_of = format!("chunk.{chunk:02}");
                assert!(fs::read(encoded.chunk(0, chunk)).unwrap() == before[&name_of]);
                fs::remove_file(encoded.checksums(0, chunk)).unwrap();
                for other in code.chunks() {
                    let _ = fs::remove_file(encoded.checksums(0, other.0.into()));
                }
            }
        }
    }
}

#[test]
fn agreement_says_nothing_of_a_chunk_that_nothing_checks() {
    // Group 1 has lost its parity, and the globals are gone: only group 0 is still checked.
    let encoded = Encoded::new("lrc(6,2,2)", 4096, &noise(24_000));
    encoded.forget_checksums();
    [7, 8, 9].iter().for_each(|chunk| fs::remove_file(encoded.chunk(0, *chunk)).unwrap());
    encoded.flip(0, 4, 100);
    let before = encoded.content();
    let verified = run(&["verify"], &encoded.directory);
    assert_eq!(verified.status, 3, "{verified:?}");
    assert!(verified.stdout.contains("chunk 4 has no checksum left"), "{verified:?}");
    assert!(!verified.stdout.contains("chunk 1 has no"), "group 0 is proven: {verified:?}");
    assert_eq!(run(&["rebuild"], &encoded.directory).status, 3);
    assert_eq!(encoded.content(), before);
}

#[test]
fn sizes_and_names_that_are_impossible_are_refused_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::write(&source, noise(1000)).unwrap();
    for (code, size, unit, expected) in [
        ("butterfly(4)", "64KiB", "500", "nearest valid: 512B"),
        ("clay(10,4,13)", "1MiB", "20000", "16KiB or 32KiB"),
        ("clay(10,4,13)", "100KiB", "100KiB", "96KiB or 112KiB"),
        ("butterfly(4)", "10KiB", "4KiB", "8KiB or 12KiB"),
        ("butterfly(9)", "4KiB", "4KiB", "2 to 8 data chunks"),
        ("clay(4,2,4)", "4KiB", "4KiB", "k < d < k + m"),
        ("clay(24,4,27)", "4KiB", "4KiB", "16384 sub-chunks"),
        ("lrc(7,2,2)", "4KiB", "4KiB", "l divides k"),
        ("lrc(6,2)", "4KiB", "4KiB", "lrc(k,l,m)"),
        ("rs-vandermonde(250,10)", "4KiB", "4KiB", "at most 255"),
    ] {
        let directory = folder.path().join("out");
        let file = source.to_str().unwrap();
        let args = ["encode", file, "--code", code, "--chunk-size", size, "--unit", unit, "-o"];
        let refused = run(&args, &directory);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        assert!(!directory.exists());
    }
}

#[test]
fn a_manifest_that_lies_about_its_code_is_refused() {
    let encoded = encoded("butterfly(4)", 4096, 2, 20_000);
    let path = encoded.directory.join("manifest.json");
    let honest = fs::read_to_string(&path).unwrap();
    let own = honest.lines().find(|line| line.contains("manifest_crc32c")).unwrap();
    let unsealed = honest.replace(&format!("{own}\n"), "");
    for (from, to, expected) in [
        ("butterfly(4)", "clay(4,2,6)", "its code is impossible"),
        ("butterfly(4)", "clay(4,2,5)", "altered or damaged"),
        ("butterfly(4)", "butterfly(5)", "7 chunks a stripe, but it lists 6"),
        ("\"unit_bytes\": 4096", "\"unit_bytes\": 64", "nearest valid: 512B"),
        ("\"unit_bytes\": 4096", "\"unit_bytes\": 1536", "7680B or 9KiB"),
    ] {
        let text = if expected == "altered or damaged" { &honest } else { &unsealed };
        fs::write(&path, text.replace(from, to)).unwrap();
        let before = encoded.content();
        let refused = run(&["verify"], &encoded.directory);
        assert_eq!(refused.status, 2, "{to}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        assert_eq!(run(&["rebuild"], &encoded.directory).status, 2);
        assert_eq!(encoded.content(), before);
    }
}

/// CRC32C of all chunks one after the other: encoded data must stay readable for ever.
#[test]
fn encoded_bytes_never_change() {
    let checksum = |name: &str| {
        let encoded = encoded(name, 512, 4, 10_000);
        let all: Vec<u8> = encoded
            .content()
            .into_iter()
            .filter(|(name, _)| !name.ends_with(".crc") && name != "manifest.json")
            .flat_map(|(_, content)| content)
            .collect();
        format!("{name} {:08x}", suture_edge::checksum::crc32c(&all))
    };
    let names = ["rs(6,3)", "rs-vandermonde(6,3)", "lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)"];
    assert_eq!(
        names.map(checksum),
        [
            "rs(6,3) 70b67b97",
            "rs-vandermonde(6,3) 2aa034a1",
            "lrc(6,2,2) e936d321",
            "butterfly(4) 9964983c",
            "clay(4,2,5) 34d69230",
        ]
    );
}

#[test]
fn codes_shows_what_each_kind_of_chunk_costs_and_who_serves_it() {
    let names = ["lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)", "rs(6,3)"];
    let report = run_plain(&[&["codes", "--format", "json"], &names[..]].concat()).json();
    let codes = report["codes"].as_array().unwrap();
    let volumes = |code: &Value| -> Vec<(usize, f64, f64)> {
        let of = |volume: &Value| {
            let number = |key: &str| volume[key].as_f64().unwrap();
            let count = volume["chunks"].as_array().unwrap().len();
            (count, number("read_chunks"), number("sent_chunks"))
        };
        code["repairs"].as_array().unwrap().iter().map(of).collect()
    };
    assert_eq!(volumes(&codes[0]), [(6, 3.0, 3.0), (2, 3.0, 3.0), (2, 6.0, 6.0)]);
    assert_eq!(volumes(&codes[1]), [(4, 2.5, 2.5), (1, 2.5, 2.5), (1, 4.0, 2.5)]);
    assert_eq!(volumes(&codes[2]), [(4, 2.5, 2.5), (2, 2.5, 2.5)]);
    assert!(codes[3]["repairs"][0]["trace_sent_chunks"].as_f64().unwrap() <= 4.0);
    let served = |code: &Value| -> Vec<String> {
        let policies = code["policies"].as_array().unwrap().iter();
        let served = policies.filter(|policy| policy["served"] == true);
        served.map(|policy| policy["policy"].as_str().unwrap().to_string()).collect()
    };
    let serves = |code: &Value, policy: &str| served(code).iter().any(|name| name == policy);
    assert!(["cr", "ppr", "rp", "suture"].iter().all(|policy| serves(&codes[0], policy)));
    assert!(["cr", "suture"].iter().all(|policy| serves(&codes[1], policy)));
    assert!(!serves(&codes[1], "ppr") && !serves(&codes[2], "rp"));
    let policies = codes[2]["policies"].as_array().unwrap();
    let chain = policies.iter().find(|policy| policy["policy"] == "rp").unwrap();
    let reason = chain["reason"].as_str().unwrap();
    assert!(reason.contains("joins partial sums, which clay(4,2,5) does not have"), "{reason}");
    let table = run_plain(&["codes"]).stdout;
    assert!(table.contains("rs-vandermonde(k,m)") && table.contains("(1) "), "{table}");
}

/// A directory of rs(4,2), for which no scheme is known, and a file of searched ones.
fn searched() -> (Encoded, std::path::PathBuf, Value) {
    let encoded = Encoded::new("rs(4,2)", 4096, &noise(16_000));
    let file = encoded.folder().join("schemes");
    let output = file.to_str().unwrap();
    let found = run_plain(&[
        "codes",
        "search",
        "rs(4,2)",
        "--seconds",
        "0.5",
        "-o",
        output,
        "--format",
        "json",
    ]);
    assert_eq!(found.status, 0, "{found:?}");
    (encoded, file, found.json())
}

fn rebuild_with(schemes: &std::path::Path, lost: &str, encoded: &Encoded) -> Finished {
    let schemes = schemes.to_str().unwrap();
    let args = ["rebuild", "--lost", lost, "--method", "trace", "--schemes", schemes];
    run(&[&args[..], &["--report", "json"]].concat(), &encoded.directory)
}

#[test]
fn what_a_search_found_serves_a_rebuild() {
    let (encoded, file, found) = searched();
    let before = encoded.content();
    for scheme in found["schemes"].as_array().unwrap() {
        let (lost, bits) = (&scheme["lost"], scheme["bits"].as_u64().unwrap());
        assert!(bits < 32, "{scheme}");
        let rebuilt = rebuild_with(&file, &lost.to_string(), &encoded);
        assert_eq!((rebuilt.status, rebuilt.stderr.as_str()), (0, ""), "{rebuilt:?}");
        let report = rebuilt.json();
        assert_eq!(report["stripes"][0]["method"], "trace");
        assert_eq!(report["sent_bytes"], bits * 4096 / 8);
        assert!(encoded.content() == before);
    }
    // Without the file, it is known where schemes come from.
    let plain = run(&["rebuild", "--lost", "0", "--method", "trace"], &encoded.directory);
    assert!(plain.stderr.contains("suture codes search may find one for --schemes"), "{plain:?}");
    // Of several schemes the least is taken, and none that sends more than k chunks are.
    let poor = "3 2 32 0 - 0000000000000000\n";
    let known = Encoded::new("rs(3,2)", 4096, &noise(12_000));
    fs::write(&file, poor).unwrap();
    assert_eq!(rebuild_with(&file, "0", &known).json()["sent_bytes"], 17 * 4096 / 8);
    fs::write(&file, "4 2 40 0 - 0000000000000000\n").unwrap();
    let whole = rebuild_with(&file, "0", &encoded);
    assert_eq!(whole.json()["stripes"][0]["method"], "conventional");
}

#[test]
fn schemes_that_lie_are_refused_before_anything_is_touched() {
    let (encoded, file, _) = searched();
    let before = encoded.content();
    let honest = fs::read_to_string(&file).unwrap();
    let first = honest.lines().next().unwrap();
    let [k, m, bits, rest] = first.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!() };
    let boast = format!("{k} {m} 9 {rest}");
    let real = format!("claims to send 9 bits for each byte, but it sends {bits}");
    for (text, expected) in [
        ("".to_string(), "has no scheme for rs(4,2); suture codes search"),
        (honest.replace("4 2 ", "5 2 "), "has no scheme for rs(4,2)"),
        (format!("\n{boast}\n"), real.as_str()),
        (format!("{first} 0\n"), "is not a trace scheme"),
        (first.replace(" - ", " ? "), "is not a trace scheme"),
        (format!("{first}\n4 2"), "line 2: a scheme is written: k m bits"),
        (format!("4 x {bits} {rest}"), "\"x\" is not a number"),
        ("4 2 40 9 - 0000000000000000".to_string(), "there is no chunk 9"),
        ("4 2 40 0 0 0000000000000000".to_string(), "chunk 0 is lost and cannot help"),
        ("4 2 40 0 1,1 0000000000000000".to_string(), "chunk 1 is named twice"),
        (format!("4 2 40 0 - {}", "00".repeat(24)), "takes 4 parity chunks, but the code has 2"),
        ("{\"schemes\": []}".to_string(), "line 1"),
    ] {
        fs::write(&file, &text).unwrap();
        let refused = rebuild_with(&file, "0", &encoded);
        assert_eq!(refused.status, 2, "{text}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
    }
    fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    assert!(rebuild_with(&file, "0", &encoded).stderr.contains("is not a file of trace schemes"));
    let absent = rebuild_with(&encoded.folder().join("absent"), "0", &encoded);
    assert!(absent.status == 2 && absent.stderr.contains("cannot read"), "{absent:?}");
    fs::write(&file, &honest).unwrap();
    let other = ["rebuild", "--lost", "0", "--schemes", file.to_str().unwrap()];
    let other = run(&other, &encoded.directory);
    assert!(other.status == 2 && other.stderr.contains("add --method trace"), "{other:?}");
    let lrc = Encoded::new("lrc(4,2,1)", 4096, &noise(10_000));
    let lrc = rebuild_with(&file, "0", &lrc);
    assert!(lrc.status == 2 && lrc.stderr.contains("only Reed-Solomon codes can"), "{lrc:?}");
    assert!(encoded.content() == before);
}

#[test]
fn the_tables_of_codes_fit_a_terminal() {
    let table = run_plain(&["codes"]).stdout;
    // The reasons below the last table are sentences, and may wrap.
    for line in table.lines().filter(|line| !line.starts_with('(')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_search_finds_verifies_and_writes_schemes() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("schemes");
    let file = output.to_str().unwrap();
    let args = ["codes", "search", "rs(3,2)", "--seconds", "0.5", "-o", file, "--format", "json"];
    let found = run_plain(&args);
    assert_eq!(found.status, 0, "{found:?}");
    let report = found.json();
    assert_eq!(report["schemes"].as_array().unwrap().len(), 5);
    let text = fs::read_to_string(&output).unwrap();
    for (line, scheme) in text.lines().zip(report["schemes"].as_array().unwrap()) {
        let bits = scheme["bits"].as_u64().unwrap();
        assert!(bits <= 24 && line.starts_with(&format!("3 2 {bits} ")), "{line}");
        let [_, _, _, scheme] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!() };
        code("rs(3,2)").trace_dag(&scheme.parse().unwrap()).unwrap();
    }
    for (args, expected) in [
        (["codes", "search", "lrc(6,2,2)", "--seconds", "1"], "only Reed-Solomon codes can"),
        (["codes", "search", "rs(3,2)", "--seconds", "-1"], ""),
        (["codes", "search", "rs(3,2)", "-o", "/nonexistent/x"], "there is no directory"),
        (["codes", "search", "rs(0,2)", "--seconds", "1"], "impossible"),
    ] {
        let refused = run_plain(&args);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{refused:?}");
    }
}
