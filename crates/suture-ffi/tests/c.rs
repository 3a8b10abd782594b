//! The C ABI as C and C++ see it: compiles programs with the machine's compilers and runs them.
//!
//! Place: the only test that reads `suture.h` as its users do. Without a compiler it says loudly
//! that it skips.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// What Rust's standard library needs of the system.
const SYSTEM: &[&str] = if cfg!(target_os = "linux") { &["-lpthread", "-ldl", "-lm"] } else { &[] };

struct Bench {
    compiler: String,
    folder: tempfile::TempDir,
}

impl Bench {
    /// A folder to work in, if the machine has the compiler: the one that the environment names,
    /// or the usual one.
    fn with(variable: &str, usual: &str) -> Option<Bench> {
        let compiler = std::env::var(variable).unwrap_or(usual.to_string());
        if Command::new(&compiler).arg("--version").output().is_err() {
            eprintln!(
                "SKIPPED: there is no {compiler}, so nothing of the C ABI was tested with it"
            );
            return None;
        }
        Some(Bench { compiler, folder: tempfile::tempdir().unwrap() })
    }

    /// Compiles a program of this crate; `link` says how it finds the library.
    fn compile(&self, source: &str, standard: &str, flags: &[&str], link: &[String]) -> Output {
        let mut command = Command::new(&self.compiler);
        command.arg(standard).args(WARNINGS).args(flags).arg("-I").arg(root().join("include"));
        command.arg(root().join(source)).args(link).arg("-o").arg(self.program());
        command.output().unwrap()
    }

    fn build(&self, source: &str, standard: &str, flags: &[&str], link: &[String]) {
        let output = self.compile(source, standard, flags, link);
        assert!(output.status.success(), "{source}:\n{}", text(&output.stderr));
    }

    /// Runs what was compiled last, and gives what it printed.
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.program()).args(arguments).output().unwrap();
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{printed}{}", text(&output.stderr));
        printed
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where cargo put the libraries that belong to this test: beside it.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

fn static_library() -> Vec<String> {
    let library = libraries().join("libsuture_ffi.a").display().to_string();
    std::iter::once(library).chain(SYSTEM.iter().map(|flag| flag.to_string())).collect()
}

fn shared_library() -> Vec<String> {
    let folder = libraries().display().to_string();
    vec![format!("-L{folder}"), "-lsuture_ffi".to_string(), format!("-Wl,-rpath,{folder}")]
}

#[test]
fn a_program_in_c_encodes_loses_and_repairs_with_every_code() {
    let Some(bench) = Bench::with("CC", "cc") else { return };
    bench.build("tests/c/abi.c", "-std=c99", &[], &static_library());
    let printed = bench.run(&[]);
    assert_eq!(printed.lines().count(), 6, "{printed}");
}

#[test]
fn sanitizers_find_nothing_in_it() {
    let Some(bench) = Bench::with("CC", "cc") else { return };
    let flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let probe = bench.compile("tests/c/sanitizers.c", "-std=c99", &flags, &[]);
    if !probe.status.success() || Command::new(bench.program()).status().is_err() {
        eprintln!("SKIPPED: {} has no sanitizers: {}", bench.compiler, text(&probe.stderr));
        return;
    }
    bench.build("tests/c/abi.c", "-std=c99", &flags, &static_library());
    bench.run(&[]);
}

#[test]
fn the_example_builds_against_the_shared_library_and_says_what_it_does() {
    let Some(bench) = Bench::with("CC", "cc") else { return };
    bench.build("examples/repair.c", "-std=c99", &[], &shared_library());
    let printed = bench.run(&[]);
    println!("{printed}");
    assert!(printed.contains("2.50 chunks, where decoding reads 4"), "{printed}");
    assert!(printed.contains("byte for byte"), "{printed}");
    let printed = bench.run(&["butterfly(4)"]);
    assert!(printed.contains("of chunk 0, sub-chunks 0 3-4 7"), "{printed}");
    let unknown = Command::new(bench.program()).arg("rs(6)").output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        text(&unknown.stderr).starts_with("there is no such code: the code is written rs(k,m)")
    );
}

#[test]
fn the_header_serves_cpp() {
    let Some(bench) = Bench::with("CXX", "c++") else { return };
    bench.build("tests/c/include.cpp", "-std=c++11", &[], &shared_library());
    assert_eq!(bench.run(&[]), "butterfly(4) has 8 sub-chunks\n");
}
