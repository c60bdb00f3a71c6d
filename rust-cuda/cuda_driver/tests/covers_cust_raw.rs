//! The table holds every function that `cust_raw` declares, and so every function that `cust` can call.
//!
//! A linked program needs only the functions that it uses. The test therefore reads the declarations of `cust_raw`, a
//! generated file with one pattern, at the place that Cargo names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_driver::SYMBOLS;

/// The folder of the `cust_raw` that this test is built with.
fn cust_raw() -> PathBuf {
    let cargo = std::env::var_os("CARGO").expect("Cargo runs the tests");
    // Without the filter Cargo needs the packages of every platform, and not all of them are downloaded.
    let platform = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", &platform, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("Cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut folders: Vec<_> = metadata
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| Path::new(rest.split('"').next()?).parent())
        // The folder's name has the version in the registry. Vendored copies may lack it.
        .filter(|folder| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name == "cust_raw" || name.starts_with("cust_raw-")
        })
        .collect();
    folders.dedup();
    assert_eq!(folders.len(), 1, "one `cust_raw` among the packages: {folders:?}");
    folders[0].to_owned()
}

#[test]
fn the_table_covers_cust_raw() {
    let file = cust_raw().join("src/cuda.rs");
    let source = std::fs::read_to_string(&file).expect("cust_raw has its declarations there");
    let declared: BTreeSet<&str> = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub fn "))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    // The test must not pass because the pattern of the file changed and nothing was found.
    assert!(declared.len() > 300, "only {} declarations found", declared.len());
    assert!(declared.contains("cuLaunchKernel"));

    let missing: Vec<_> = declared.iter().filter(|name| !SYMBOLS.contains(name)).collect();
    assert!(missing.is_empty(), "add to src/symbols.rs: {missing:?}");
}

#[test]
fn the_table_is_sorted() {
    assert!(SYMBOLS.is_sorted_by(|left, right| left < right));
}
