//! Runs rustc and cargo without the environment of an outer cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::CudaBuilderError;

/// Variables that locate cargo, rustup and the registries. The child keeps them, because they change no code.
///
/// `CARGO` is removed: it names the outer toolchain's program, and the folder of the kernels chooses the toolchain.
const KEPT: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
    "CARGO_TARGET_DIR",
    "RUSTUP_",
    "RUST_BACKTRACE",
];

/// Variables that cargo sets for the programs that it runs, and variables that set flags and programs of a build.
const REMOVED: [&str; 14] = [
    "CARGO",
    "RUST",
    "__CARGO",
    "DEBUG",
    "HOST",
    "MAKEFLAGS",
    "MFLAGS",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "SOURCE_DATE_EPOCH",
    "TARGET",
    "MAKEOVERRIDES",
];

/// Variables by which rustup's proxies pass on the toolchain of an outer `cargo`, as of `cargo +nightly`.
const OUTER_TOOLCHAIN: [&str; 2] = ["RUSTUP_TOOLCHAIN", "RUSTUP_TOOLCHAIN_SOURCE"];

/// Whether a file of rustup chooses the toolchain in `directory`.
fn has_toolchain_file(directory: &Path) -> bool {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let names = ["rust-toolchain.toml", "rust-toolchain"];
    directory.ancestors().any(|folder| names.iter().any(|name| folder.join(name).is_file()))
}

/// Whether a variable of the environment is removed for the child.
fn is_removed(variable: &str) -> bool {
    REMOVED.iter().any(|name| match *name {
        "CARGO" | "RUST" | "__CARGO" => variable.starts_with(name),
        name => variable == name,
    }) && !KEPT.iter().any(|name| variable == *name || (name.ends_with('_') && variable.starts_with(name)))
}

/// A command that runs in `directory`, with an environment in which the same sources give the same code.
///
/// A `rust-toolchain.toml` for the directory overrides the toolchain of an outer cargo.
pub(crate) fn command(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(is_removed) {
            command.env_remove(variable);
        }
    }
    if has_toolchain_file(directory) {
        for variable in OUTER_TOOLCHAIN {
            command.env_remove(variable);
        }
    }
    command
}

/// Runs a command to its end. Errors show `name`.
pub(crate) fn output(command: &mut Command, name: &str) -> Result<Output, CudaBuilderError> {
    let output = command.output().map_err(|source| CudaBuilderError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    if output.status.success() {
        return Ok(output);
    }
    Err(CudaBuilderError::Failed {
        command: name.to_owned(),
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim_end().to_owned(),
    })
}

/// The compiler that rustup chooses in a folder.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// Its version: `1.95.0`.
    pub(crate) release: String,
    /// Its sysroot.
    pub(crate) sysroot: PathBuf,
}

impl Toolchain {
    /// Queries rustc in a folder.
    pub(crate) fn of(directory: &Path) -> Result<Self, CudaBuilderError> {
        let ask = |arguments: &[&str], name| {
            let output = output(command("rustc", directory).args(arguments), name)?;
            Ok::<_, CudaBuilderError>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let answer = ask(&["--version", "--verbose"], "rustc --version --verbose")?;
        let field =
            |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(|line| line.trim().to_owned());
        let missing = |missing| CudaBuilderError::Answer { command: "rustc --version --verbose".to_owned(), missing };
        Ok(Self {
            release: field("release:").ok_or_else(|| missing("a line `release:`"))?,
            sysroot: PathBuf::from(ask(&["--print", "sysroot"], "rustc --print sysroot")?.trim()),
        })
    }
}

/// A package as cargo describes it.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The name of its library in file names: `kernels_gpu`.
    pub(crate) library: String,
    /// The target folder of its workspace, after `CARGO_TARGET_DIR` and configuration files.
    pub(crate) target: PathBuf,
    /// The folder of its workspace.
    pub(crate) workspace: PathBuf,
}

impl Package {
    /// Queries cargo about the package in a folder.
    pub(crate) fn of(directory: &Path) -> Result<Self, CudaBuilderError> {
        let no_package = || CudaBuilderError::NoPackage { path: directory.to_owned() };
        let manifest = directory.join("Cargo.toml").canonicalize().map_err(|_| no_package())?;
        const NAME: &str = "cargo metadata --no-deps";
        let mut cargo = command("cargo", directory);
        let output = output(cargo.args(["metadata", "--no-deps", "--format-version=1"]), NAME)?;
        let missing = |missing| CudaBuilderError::Answer { command: NAME.to_owned(), missing };
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| missing("a JSON object"))?;
        let text = |name| answer[name].as_str().map(PathBuf::from);
        let package = answer["packages"].as_array().into_iter().flatten().find(|package| {
            package["manifest_path"]
                .as_str()
                .is_some_and(|path| Path::new(path).canonicalize().is_ok_and(|path| path == manifest))
        });
        let package = package.ok_or_else(no_package)?;
        let is_library = |target: &&serde_json::Value| {
            target["kind"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|kind| kind.as_str().is_some_and(|k| k.ends_with("lib")))
        };
        let library = package["targets"].as_array().into_iter().flatten().find(is_library);
        let library = library.and_then(|target| target["name"].as_str()).ok_or_else(|| missing("a library target"))?;
        Ok(Self {
            name: package["name"].as_str().ok_or_else(no_package)?.to_owned(),
            library: library.replace('-', "_"),
            target: text("target_directory").ok_or_else(|| missing("target_directory"))?,
            workspace: text("workspace_root").ok_or_else(|| missing("workspace_root"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_code_is_removed_and_what_finds_things_is_kept() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_NVPTX64_NVIDIA_CUDA_RUSTFLAGS",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_INCREMENTAL",
            "CARGO_UNSTABLE_BUILD_STD",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_BOOTSTRAP",
            "CARGO",
            "CARGO_MANIFEST_DIR",
            "__CARGO_DEFAULT_LIB_METADATA",
            "TARGET",
            "OPT_LEVEL",
        ] {
            assert!(is_removed(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_HTTP_CAINFO",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "TARGETS",
        ] {
            assert!(!is_removed(name), "{name}");
        }
    }

    #[test]
    fn a_toolchain_file_wins_over_the_toolchain_of_an_outer_cargo() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("kernels");
        std::fs::create_dir(&inner).unwrap();
        let removed = |variable: &str| {
            command("rustc", &inner).get_envs().any(|(name, value)| name == variable && value.is_none())
        };
        assert!(!OUTER_TOOLCHAIN.into_iter().any(removed), "without a file the outer toolchain is as good as any");
        std::fs::write(folder.path().join("rust-toolchain.toml"), "").unwrap();
        assert!(OUTER_TOOLCHAIN.into_iter().all(removed));
    }

    #[test]
    fn this_package_is_found_and_a_folder_without_one_is_not() {
        let package = Package::of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert_eq!((&*package.name, &*package.library), ("cuda_builder", "cuda_builder"));
        let empty = tempfile::tempdir().unwrap();
        let error = Package::of(empty.path()).unwrap_err();
        assert!(matches!(&error, CudaBuilderError::NoPackage { path } if path == empty.path()), "{error}");
    }

    #[test]
    fn a_failed_program_keeps_its_words() {
        let mut rustc = command("rustc", Path::new("."));
        let error = output(rustc.arg("--no-such-flag"), "rustc").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("`rustc` failed (exit status: 1):\n") && text.contains("no-such-flag"), "{text}");
        let error = output(&mut command("no-such-program", Path::new(".")), "none").unwrap_err();
        assert!(matches!(&error, CudaBuilderError::Start { program, .. } if program == "no-such-program"));
    }
}
