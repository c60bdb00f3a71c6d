//! `cargo xtask new-kernel`: a workspace with a first kernel, its test, and a program that launches it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The files of a new workspace: the path and the text. `ROOT`, `NAME`, `CRATE`, `KERNEL` and `STRUCT` are replaced.
const FILES: [(&str, &str); 10] = [
    ("Cargo.toml", include_str!("../template/Cargo.toml.in")),
    (".cargo/config.toml", include_str!("../../examples/own-kernels/.cargo/config.toml")),
    (".gitignore", "/target\n"),
    ("rust-toolchain.toml", include_str!("../../examples/own-kernels/rust-toolchain.toml")),
    ("kernels/Cargo.toml", include_str!("../template/kernels.toml.in")),
    ("kernels/src/lib.rs", include_str!("../template/kernels.rs.in")),
    ("kernels/tests/first.rs", include_str!("../template/test.rs.in")),
    ("app/Cargo.toml", include_str!("../template/app.toml.in")),
    ("app/build.rs", include_str!("../template/build.rs.in")),
    ("app/src/main.rs", include_str!("../template/main.rs.in")),
];

/// Names that cargo or rustc refuse, or that the files of the template use otherwise.
const TAKEN: [&str; 12] = [
    "alloc",
    "app",
    "core",
    "cuda_builder",
    "cuda_launch",
    "cuda_std",
    "host",
    "kernels",
    "proc_macro",
    "self",
    "std",
    "test",
];

/// Types of `cuda_std` that the kernel uses, and that the kernel's struct must not hide.
const HANDLES: [&str; 2] = ["Global", "GlobalMut"];

/// Words of the language.
const KEYWORDS: [&str; 40] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "super", "trait", "type",
];

/// The name of the struct that `#[kernel]` makes for a kernel of this name.
fn struct_name(name: &str) -> String {
    let words = name.split(['-', '_']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The text with the names in place of the words in capitals.
fn filled(text: &str, root: &str, name: &str) -> String {
    let kernel = name.replace('-', "_");
    // The path is filled in last, because it may contain the other words.
    text.replace("NAME", name)
        .replace("CRATE", &kernel)
        .replace("KERNEL", &kernel)
        .replace("STRUCT", &struct_name(name))
        .replace("ROOT", root)
}

/// Makes the folder `name` in `parent`, which need not exist. It has a workspace that depends on the crates of this
/// checkout, `root`.
///
/// # Errors
/// The name is no name of a crate, the folder exists, or a file can't be written.
pub fn new_kernel(root: &Path, parent: &Path, name: &str) -> Result<PathBuf> {
    let is_letter = |c: char| c.is_ascii_lowercase();
    ensure!(
        name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit() || "-_".contains(c)),
        "{name:?} is no name of a kernel: a lower-case letter, then letters, digits, - and _ are required"
    );
    let kernel = name.replace('-', "_");
    let refused = |reason: &str| format!("{name:?} can't be the name of a kernel: {reason}");
    ensure!(!KEYWORDS.contains(&&*kernel), refused("it is a keyword of Rust"));
    ensure!(!TAKEN.contains(&&*kernel), refused("a crate of Rust or of the new workspace has this name"));
    let made = struct_name(name);
    ensure!(
        !HANDLES.contains(&&*made),
        refused(&format!("its struct would be {made}, which is a type of cuda_std that the kernel uses"))
    );
    ensure!(kernel.len() <= 64, refused("it has more than 64 characters"));
    let folder = parent.join(name);
    fs::create_dir_all(parent).with_context(|| format!("could not create {}", parent.display()))?;
    fs::create_dir(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let root_text = root.to_str().context("the path of this checkout is no Unicode")?;
    for (path, text) in FILES {
        let path = folder.join(path);
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
            fs::write(&path, filled(text, root_text, name))
        };
        write().with_context(|| format!("could not write {}", path.display()))?;
    }
    // The lock file has the versions that are tested here. Cargo removes the packages that the workspace does not need.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).context("could not copy Cargo.lock")?;
    println!(
        "{} has a kernel, its test and a program:\n  cd {}\n  cargo test -p {name}    # in the emulator\n  \
         cargo run                # builds the PTX; on a GPU, if there is one",
        folder.display(),
        folder.display()
    );
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_has_all_files_with_the_names_in_place() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("new/folder");
        let folder = new_kernel(&crate::root(), &parent, "two-words").unwrap();
        for (path, _) in FILES {
            let text = fs::read_to_string(folder.join(path)).unwrap().replace(crate::root().to_str().unwrap(), "");
            for word in ["ROOT", "NAME", "CRATE", "KERNEL", "STRUCT"] {
                assert!(!text.contains(word), "{path} has {word}");
            }
        }
        // Two workspaces in one target folder must not share the build script and the PTX.
        let program = fs::read_to_string(folder.join("app/Cargo.toml")).unwrap();
        assert!(program.contains("\nname = \"two-words-app\"\n"), "{program}");
        let source = fs::read_to_string(folder.join("kernels/src/lib.rs")).unwrap();
        assert!(source.contains("pub unsafe fn two_words(") && source.contains("super::TwoWords {"), "{source}");
        let error = new_kernel(&crate::root(), &parent, "two-words").unwrap_err();
        assert!(error.to_string().starts_with("could not create "), "{error}");
    }

    #[test]
    fn names_that_no_crate_can_have_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let long = "x".repeat(65);
        let letters = ["", "Upper", "1st", "a b", "../up"].map(|name| (name, "a lower-case letter, then letters"));
        let others = [("match", "keyword"), ("core", "has this name"), ("kernels", "has this name"), (&long, "64")];
        let handles = ["global", "global_", "global-mut"].map(|name| (name, "a type of cuda_std"));
        for (name, reason) in letters.into_iter().chain(others).chain(handles) {
            let error = new_kernel(&crate::root(), parent.path(), name).unwrap_err().to_string();
            assert!(error.contains("name of a kernel: ") && error.contains(reason), "{name}: {error}");
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
