//! Tells the program how it was built: profile, optimisation, commit. `bench` prints these beside its figures.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for variable in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        println!("cargo::rustc-env=HOST_{variable}={}", env::var(variable).unwrap_or_default());
    }
    // Empty where there is no repository, as in an unpacked archive of the sources.
    println!("cargo::rustc-env=HOST_COMMIT={}", commit().unwrap_or_default());
}

/// The short hash of the commit, with `-dirty` behind it if tracked files differ from it.
fn commit() -> Option<String> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).join("..").canonicalize().ok()?;
    // Sources unpacked inside of some other repository are not that repository's commit.
    if Path::new(&git(&root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    watch(&root);
    let hash = git(&root, &["rev-parse", "--short", "HEAD"])?;
    // Without the optional locks, because refreshing the index here would disturb a git command beside this one.
    let changes = git(&root, &["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"])?;
    Some(if changes.is_empty() { hash } else { format!("{hash}-dirty") })
}

/// Names what changes the commit or makes it dirty: where HEAD points, and the sources. Only paths that exist, because
/// cargo takes a missing one for changed each time.
fn watch(root: &Path) {
    let sources = ["faltung", "host", "kernels-gpu", "rust-cuda", "Cargo.toml", "Cargo.lock"];
    let mut paths: Vec<PathBuf> = sources.iter().map(|path| root.join(path)).collect();
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]).unwrap_or_default();
    for name in ["HEAD", "packed-refs", &branch] {
        paths.extend(git(root, &["rev-parse", "--git-path", name]).map(|path| root.join(path)));
    }
    for path in paths.iter().filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What a git command prints; None if it fails or there is no git.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}
