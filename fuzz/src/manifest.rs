//! Manifests: whatever is read can be written, and is then read again as the same.
//!
//! Place: the root of trust of an encoded directory, which may come from anywhere.

/// Inputs to begin with: with checksums and without, one stripe and several, honest and not.
pub fn valid() -> Vec<Vec<u8>> {
    let manifest = |code: &str, sizes: [u64; 3], rest: &str| {
        let [file, chunk, unit] = sizes;
        format!(
            "{{\"format\": \"suture-manifest-1\", \"code\": \"{code}\", \"file_bytes\": {file}, \
             \"chunk_bytes\": {chunk}, \"unit_bytes\": {unit}{rest}}}"
        )
        .into_bytes()
    };
    let rows = ", \"chunk_crc32c\": [[\"00000000\", \"0a0b0c0d\", \"ffffffff\"], \
                [\"00000001\", \"00000002\", \"00000003\"]]";
    let huge = [i64::MAX as u64, 4 << 30, 64];
    vec![
        manifest("rs(2,1)", [200, 64, 64], rows),
        manifest("rs(2,1)", [0, 128, 64], ""),
        manifest("clay(4,2,5)", [1 << 40, 1 << 20, 512], ""),
        manifest("rs(2,1)", huge, rows),
        manifest("rs(2,1)", huge, ", \"manifest_crc32c\": \"00000000\""),
    ]
}

/// Gives whether the input was accepted.
///
/// # Panics
/// When a manifest that was read is not written and read back as the same.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match suture_files::rewrite_manifest(text) {
        Ok(written) => {
            assert_eq!(suture_files::rewrite_manifest(&written), Ok(written), "{text}");
            true
        }
        Err(reason) => {
            assert!(!reason.is_empty(), "{text}");
            false
        }
    }
}
