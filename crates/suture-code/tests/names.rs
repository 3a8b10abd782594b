//! Names of codes: what is accepted, how it is written back, and what the refusals say.
//!
//! Place: the first thing an operator types.

use suture_code::{Code, CodeError};

fn refused(text: &str) -> CodeError {
    text.parse::<Code>().expect_err(text)
}

#[test]
fn names_survive_the_round_trip() {
    for (text, canonical) in [
        ("rs(6,3)", "rs(6,3)"),
        ("  RS ( 10 , 4 ) ", "rs(10,4)"),
        ("rs(1,1)", "rs(1,1)"),
        ("rs(200,55)", "rs(200,55)"),
        ("rs-vandermonde(10, 4)", "rs-vandermonde(10,4)"),
        ("LRC(12,2,2)", "lrc(12,2,2)"),
        ("Butterfly(4)", "butterfly(4)"),
        ("clay(10,4,13)", "clay(10,4,13)"),
    ] {
        let code: Code = text.parse().unwrap();
        assert_eq!(code.to_string(), canonical);
        assert_eq!(code.to_string().parse(), Ok(code));
    }
}

#[test]
fn sizes_are_those_of_the_name() {
    let code: Code = "rs(10,4)".parse().unwrap();
    assert_eq!((code.data_chunks(), code.parity_chunks(), code.chunk_count()), (10, 4, 14));
    assert_eq!((code.sub_chunk_count(), code.alignment(), code.loss_tolerance()), (1, 64, 4));
    assert_eq!(code.chunks().count(), 14);
}

#[test]
fn unknown_families_suggest_the_nearest() {
    for (text, nearest) in
        [("rd(6,3)", "rs"), ("lcr(4,2,2)", "lrc"), ("rs-vandermond(6,3)", "rs-vandermonde")]
    {
        let error = refused(text);
        assert!(
            matches!(error, CodeError::UnknownFamily { nearest: found, .. } if found == nearest),
            "{error}"
        );
        assert!(error.to_string().ends_with(&format!("did you mean {nearest}?")));
    }
}

#[test]
fn impossible_sizes_are_refused_with_numbers_and_limits() {
    for (text, data_chunks, parity_chunks) in [
        ("rs(0,3)", 0, 3),
        ("rs(6,0)", 6, 0),
        ("rs(200,56)", 200, 56),
        ("rs(18446744073709551615,2)", usize::MAX, 2),
    ] {
        let expected = CodeError::ImpossibleParameters {
            family: "rs",
            data_chunks,
            parity_chunks,
            chunk_count_max: 255,
        };
        assert_eq!(refused(text), expected);
        let message = expected.to_string();
        assert!(message.contains(text) && message.contains("255"), "{message}");
    }
}

#[test]
fn broken_rules_are_named() {
    for (text, rule) in [
        ("lrc(7,2,2)", "l divides k"),
        ("butterfly(1)", "2 to 8 data chunks"),
        ("butterfly(9)", "2 to 8 data chunks"),
        ("lrc(6,0,2)", "at least 1 data chunk, 1 local and 1 global parity"),
        ("lrc(250,5,2)", "at most 255 chunks"),
        ("lrc(18446744073709551615,1,1)", "at most 255 chunks"),
    ] {
        let error = refused(text);
        assert!(matches!(&error, CodeError::BreaksRule { name, .. } if name == text));
        assert!(error.to_string().contains(rule), "{error}");
    }
}

#[test]
fn malformed_names_are_refused() {
    for text in [
        "",
        "rs",
        "rs(6,3",
        "rs6,3)",
        "rs(6;3)",
        "rs(6,three)",
        "rs(6,-3)",
        "rs(6,3) twice",
        "(6,3)",
        "rs()",
        "rs(6,)",
    ] {
        assert_eq!(refused(text), CodeError::MalformedName { name: text.to_string() });
    }
    assert_eq!(refused("rs(6)"), CodeError::ParameterCount { form: "rs(k,m)", found: 1 });
    assert_eq!(refused("lrc(6,2)"), CodeError::ParameterCount { form: "lrc(k,l,m)", found: 2 });
    assert_eq!(refused("rs(6,3,1)"), CodeError::ParameterCount { form: "rs(k,m)", found: 3 });
}
