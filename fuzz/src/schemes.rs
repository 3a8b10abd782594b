//! Files of trace schemes: whatever is accepted rebuilds what was encoded, and prints back to
//! itself.
//!
//! Place: `suture rebuild --schemes`, a file that people search for, send each other and edit. An
//! input is a byte that chooses the code, and the file.

use suture_code::Code;
use suture_files::scheme;

use crate::scratch;

const CODES: [&str; 4] = ["rs(4,2)", "rs(6,3)", "rs(10,4)", "rs(2,1)"];

/// Inputs to begin with: the schemes that each code knows, and one that is none.
pub fn valid() -> Vec<Vec<u8>> {
    let mut inputs = vec![b"\x004 2 10 0 - 0102040810204080\n".to_vec()];
    for (index, code) in (0..).zip(CODES) {
        let code: Code = code.parse().expect("it is a code");
        let lines = code.schemes().iter().take(4).map(|known| scheme::line_of(&code, known));
        let lines: Vec<String> = lines.collect();
        inputs.extend(lines.iter().map(|line| [&[index], line.as_bytes()].concat()));
        inputs.push([&[index], lines.concat().as_bytes()].concat());
    }
    inputs
}

/// Gives whether the file has a scheme for the code.
///
/// # Panics
/// When a scheme does not print back to itself, or a refusal does not name the file.
pub fn check(input: &[u8]) -> bool {
    let Some((&code, text)) = input.split_first() else { return false };
    let code: Code = CODES[usize::from(code) % CODES.len()].parse().expect("it is a code");
    let path = scratch::file("schemes", text);
    match scheme::read(&path, &code) {
        Ok(schemes) => {
            for scheme in &schemes {
                assert_eq!(scheme.to_string().parse(), Ok(scheme.clone()));
                assert!(code.trace_dag(scheme).is_ok_and(|dag| dag.validate().is_ok()));
            }
            !schemes.is_empty()
        }
        Err(why) => {
            let text = format!("{why:#}");
            assert!(text.contains(&path.display().to_string()), "{text}");
            false
        }
    }
}
