//! The messages of a build: for cargo in a build script, otherwise for people.

use std::path::PathBuf;

use crate::Build;

/// Prints the warnings and, for cargo, the sources.
pub(crate) fn report(build: &Build) {
    // cargo sets OUT_DIR for build scripts and reads their standard output.
    if std::env::var_os("OUT_DIR").is_some() {
        lines(&build.sources, &build.warnings).iter().for_each(|line| println!("{line}"));
    } else if !build.warnings.is_empty() {
        eprint!("{}", build.warnings);
    }
}

/// The lines for cargo.
fn lines(sources: &[PathBuf], warnings: &str) -> Vec<String> {
    let changed = sources.iter().map(|source| format!("cargo::rerun-if-changed={}", source.display()));
    let warnings = warnings.lines().filter(|line| !line.is_empty()).map(|line| format!("cargo::warning={line}"));
    changed.chain(warnings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_gets_a_line_for_each_source_and_each_line_of_a_warning() {
        let sources = ["/k/src/lib.rs", "/k/it's a/Cargo.toml"].map(PathBuf::from);
        assert_eq!(
            lines(&sources, "warning: unused\n --> src/lib.rs:1\n\n"),
            [
                "cargo::rerun-if-changed=/k/src/lib.rs",
                "cargo::rerun-if-changed=/k/it's a/Cargo.toml",
                "cargo::warning=warning: unused",
                "cargo::warning= --> src/lib.rs:1"
            ]
        );
    }
}
