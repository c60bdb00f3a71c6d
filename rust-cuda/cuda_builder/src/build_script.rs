//! The messages of a build: for cargo in a build script, otherwise for people.

use std::path::{Component, Path, PathBuf};

use crate::Build;

/// Prints the warnings and, for cargo, the sources. `workspace` is that of the kernels.
pub(crate) fn report(build: &Build, workspace: &Path) {
    // cargo sets OUT_DIR for build scripts and reads their standard output.
    if std::env::var_os("OUT_DIR").is_some() {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let sources: Vec<PathBuf> = build.sources.iter().map(|source| for_cargo(&package, workspace, source)).collect();
        lines(&sources, &build.warnings).iter().for_each(|line| println!("{line}"));
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

/// The path by which cargo knows a source: from the folder of the package on, if the source is in the workspace.
///
/// cargo knows a package by its name and its place in the workspace. So two workspaces with one target folder may share
/// `OUT_DIR` and the output of the build script. Absolute paths would tie both to the sources of the first one.
fn for_cargo(package: &Path, workspace: &Path, source: &Path) -> PathBuf {
    let path = relative(package, source);
    // With a symbolic link in the path of the package, `..` leads elsewhere.
    let is_same = || matches!((package.join(&path).canonicalize(), source.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if source.starts_with(workspace) && is_same() { path } else { source.to_owned() }
}

/// The path from a folder to a file. Both are absolute.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let common = folder.components().zip(file.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    up.chain(file.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cargo_gets_a_line_for_each_source_and_each_line_of_a_warning() {
        let sources = ["../k/src/lib.rs", "/k/it's a/Cargo.toml"].map(PathBuf::from);
        assert_eq!(
            lines(&sources, "warning: unused\n --> src/lib.rs:1\n\n"),
            [
                "cargo::rerun-if-changed=../k/src/lib.rs",
                "cargo::rerun-if-changed=/k/it's a/Cargo.toml",
                "cargo::warning=warning: unused",
                "cargo::warning= --> src/lib.rs:1"
            ]
        );
    }

    #[test]
    fn sources_in_the_workspace_have_paths_from_the_package_on() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [inside, outside] = ["w/k/src/lib.rs", "other/lib.rs"].map(|path| root.join(path));
        for file in [&inside, &outside] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let (workspace, package) = (root.join("w"), root.join("w/app"));
        fs::create_dir(&package).unwrap();
        assert_eq!(for_cargo(&package, &workspace, &inside), Path::new("../k/src/lib.rs"));
        assert_eq!(for_cargo(&root.join("w/k"), &workspace, &inside), Path::new("src/lib.rs"));
        assert_eq!(for_cargo(&package, &workspace, &outside), outside);
        // A package elsewhere, behind a link in the workspace.
        fs::create_dir(root.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("w/link")).unwrap();
        assert_eq!(for_cargo(&root.join("w/link"), &workspace, &inside), inside);
    }
}
