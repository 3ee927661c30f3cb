//! Keys are published in the form that Windows reads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mqbridge::security::PrivateKey;

#[test]
fn public_keys_are_written_as_windows_writes_them() {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/vectors/keys");
    let mut seen = 0;
    for entry in fs::read_dir(keys).unwrap() {
        let blob_file = entry.unwrap().path();
        let name = blob_file.file_name().unwrap().to_str().unwrap();
        let Some(stem) = name.strip_suffix(".publickeyblob.hex") else { continue };
        let pem = fs::read_to_string(blob_file.with_file_name(format!("{stem}.pem"))).unwrap();
        let key = PrivateKey::from_pem(&pem).unwrap();
        let hex = key.public().to_blob().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let expected = fs::read_to_string(&blob_file).unwrap();
        // Keys of queue managers are for key exchange; those of users say CALG_RSA_SIGN in the second four bytes.
        let compared = if stem.starts_with("qm-") { 0 } else { 16 };
        assert_eq!(hex[compared..], expected.trim()[compared..], "{stem}");
        assert_eq!(key.public().bits(), stem.rsplit('-').next().unwrap().parse::<usize>().unwrap());
        seen += 1;
    }
    assert_eq!(seen, 11, "every key of the vectors has a blob");
}
