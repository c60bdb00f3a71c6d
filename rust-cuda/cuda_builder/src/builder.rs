//! From a crate of kernels to PTX.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::build_script;
use crate::child::{Package, Toolchain, command, output};
use crate::ptx::{Entry, Module, Ptx};
use crate::rust_src::RustSrc;
use crate::target::TargetFolder;
use crate::{Arch, CudaBuilderError};

/// The target, as rustc calls it.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// The child's release profile. Every key that changes code is named, so that no configuration file decides it: one
/// codegen unit and fat LTO put everything into one PTX.
const PROFILE: [&str; 9] = [
    "opt-level=3",
    "lto=\"fat\"",
    "codegen-units=1",
    "panic=\"abort\"",
    "debug=0",
    "strip=\"none\"",
    "incremental=false",
    "debug-assertions=false",
    "overflow-checks=false",
];

/// Builds a crate of kernels to PTX.
///
/// The crate is an ordinary `rlib` with `extern "ptx-kernel"` functions; the crate type that the PTX needs is asked for
/// on the command line.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    path: PathBuf,
    arch: Arch,
    llvm_args: Vec<String>,
    rustc: Option<String>,
    copy_to: Option<PathBuf>,
    deny_functions: bool,
}

/// What [`CudaBuilder::build`] made.
#[derive(Clone, Debug)]
pub struct Build {
    /// The PTX as the compiler wrote it.
    pub text: String,
    /// The same, taken apart.
    pub ptx: Ptx,
    /// The version of the compiler: `1.95.0`.
    pub rustc: String,
    /// What the compiler warned of; empty where all is well.
    pub warnings: String,
    /// The files that the PTX was made from: sources, manifests, `Cargo.lock` and `rust-toolchain.toml`.
    pub sources: Vec<PathBuf>,
}

impl Build {
    /// The kernels in it.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.ptx.entries()
    }

    /// The PTX in modules; `module_of` says for the name of an entry where it belongs. See [`Ptx::split`].
    pub fn split(&self, module_of: impl Fn(&str) -> String) -> Vec<Module> {
        self.ptx.split(module_of)
    }
}

impl CudaBuilder {
    /// For the kernels crate in the folder `path`, for [`Arch::Sm70`] and with whatever rustc works in that folder.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arch: Arch::default(),
            llvm_args: Vec::new(),
            rustc: None,
            copy_to: None,
            deny_functions: false,
        }
    }

    /// The oldest GPU that the PTX shall run on.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Options for LLVM, one string each: `-unroll-threshold=1000000`.
    #[must_use]
    pub fn llvm_args(mut self, options: &[&str]) -> Self {
        self.llvm_args.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// Refuses any rustc but this version (`1.95.0`): another one writes other PTX.
    #[must_use]
    pub fn rustc(mut self, version: impl Into<String>) -> Self {
        self.rustc = Some(version.into());
        self
    }

    /// Writes the PTX to this file, too. It appears whole or not at all.
    #[must_use]
    pub fn copy_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(path.into());
        self
    }

    /// Makes functions beside the entries an error: in a kernel that was meant to be inlined whole, a call is a mistake
    /// that costs a stack frame.
    #[must_use]
    pub fn deny_functions(mut self, deny: bool) -> Self {
        self.deny_functions = deny;
        self
    }

    /// The flags that rustc is given for every crate that is compiled for the GPU.
    ///
    /// With the sources and the compiler's version they decide every byte of the PTX.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("-Ctarget-cpu={}", self.arch)];
        // This pass may clone a barrier into both arms of a branch (rust-lang/rust#137086): then not all threads reach
        // the same one.
        flags.push("-Zmir-enable-passes=-JumpThreading".to_owned());
        if !self.llvm_args.is_empty() {
            flags.push(format!("-Cllvm-args={}", self.llvm_args.join(" ")));
        }
        flags
    }

    /// Compiles.
    ///
    /// # The same bytes everywhere
    ///
    /// The child cargo does not see the variables by which an outer cargo, a shell or a CI machine changes code
    /// (`RUSTFLAGS`, `CARGO_BUILD_*`, `CARGO_PROFILE_*`, `RUSTC_WRAPPER` …), and its command line overrides flags,
    /// wrappers, profile and target folder of configuration files. The kernels are compiled again each time, `core` when needed.
    /// What is left is the compiler's version ([`rustc`](Self::rustc)) and the sources. The compiler is the one that
    /// rustup finds for
    /// the folder of the kernels: a `rust-toolchain.toml` there wins over `cargo +nightly` and `RUSTC`.
    ///
    /// # One at a time
    ///
    /// Builds for one architecture in one target folder wait for each other.
    ///
    /// # What it prints
    ///
    /// The compiler's warnings, to standard error. In a build script they become `cargo::warning` lines, and each of
    /// [`Build::sources`] a `cargo::rerun-if-changed` line.
    ///
    /// # Errors
    /// See [`CudaBuilderError`]; each says what was required, what was found and, where there is one, the remedy.
    pub fn build(&self) -> Result<Build, CudaBuilderError> {
        let package = Package::of(&self.path)?;
        let toolchain = Toolchain::of(&self.path)?;
        if let Some(required) = self.rustc.as_ref().filter(|required| **required != toolchain.release) {
            return Err(CudaBuilderError::WrongRustc {
                required: required.clone(),
                found: toolchain.release,
                directory: self.path.clone(),
            });
        }
        RustSrc::locate(&self.path)?.check()?;

        let folder = package.target.join("cuda-builder").join(self.arch.name());
        let target = TargetFolder::lock(&folder, TARGET)?;
        target.forget(&package.name)?;
        let said =
            output(&mut self.cargo(&package, &folder), "cargo rustc --target nvptx64-nvidia-cuda -Zbuild-std=core")?;
        let text = target.only_ptx()?;
        let sources = target.sources(&package, &toolchain.sysroot)?;
        drop(target);

        let crate_name = package.name;
        let ptx =
            Ptx::parse(&text).map_err(|source| CudaBuilderError::Ptx { crate_name: crate_name.clone(), source })?;
        self.check_functions(&ptx, crate_name)?;
        if let Some(path) = &self.copy_to {
            write_whole(path, &text)?;
        }
        let warnings = String::from_utf8_lossy(&said.stderr).into_owned();
        let build = Build { text, ptx, rustc: toolchain.release, warnings, sources };
        build_script::report(&build);
        Ok(build)
    }

    fn check_functions(&self, ptx: &Ptx, crate_name: String) -> Result<(), CudaBuilderError> {
        let mut functions: Vec<String> = ptx.functions().map(str::to_owned).collect();
        functions.sort();
        functions.dedup();
        if self.deny_functions && !functions.is_empty() {
            return Err(CudaBuilderError::FunctionsLeft { crate_name, functions });
        }
        Ok(())
    }

    /// The child process.
    fn cargo(&self, package: &Package, target: &Path) -> std::process::Command {
        let mut cargo = command("cargo", &self.path);
        // Allows the unstable features of the device's crates on a stable compiler, for this process alone.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        // The environment wins over build.rustflags and target.*.rustflags of configuration files. Panic locations and
        // whatever else may hold a path get one that is the same everywhere.
        let mut flags = OsString::from(self.flags().join("\x1f"));
        flags.push("\x1f--remap-path-prefix=");
        flags.push(&package.workspace);
        flags.push("=/kernels");
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
        // The one that was asked for its version; `build.rustc` of a configuration file names another.
        cargo.env("RUSTC", "rustc").env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
        // Standard error then has nothing but warnings and errors.
        cargo.args(["rustc", "--quiet", "--release", "--lib", "--crate-type=staticlib", "-Zbuild-std=core"]);
        cargo.arg(format!("--package={}", package.name)).arg(format!("--target={TARGET}"));
        cargo.arg("--target-dir").arg(target);
        // By the environment, where a path needs no quotes. It wins over configuration files. cargo takes braces for a
        // template's.
        if !target.to_string_lossy().contains(['{', '}']) {
            cargo.env("CARGO_BUILD_BUILD_DIR", target);
        }
        for setting in PROFILE {
            cargo.arg(format!("--config=profile.release.{setting}"));
        }
        cargo.args(["--", "--emit=asm"]);
        cargo
    }
}

/// Writes beside the file, then renames.
fn write_whole(path: &Path, text: &str) -> Result<(), CudaBuilderError> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{}.tmp", std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed)));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, text).map_err(CudaBuilderError::file("write", &temporary))?;
    fs::rename(&temporary, path).map_err(CudaBuilderError::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_the_settings() {
        let builder = CudaBuilder::new("kernels").arch(Arch::Sm80);
        assert_eq!(builder.flags(), ["-Ctarget-cpu=sm_80", "-Zmir-enable-passes=-JumpThreading"]);
        let builder = builder.llvm_args(&["-a=1", "-b"]);
        assert_eq!(builder.flags()[2..], ["-Cllvm-args=-a=1 -b"]);
    }

    #[test]
    fn another_rustc_is_refused_before_anything_is_built() {
        let error = CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).rustc("1.0.0").build().unwrap_err();
        assert!(
            matches!(&error, CudaBuilderError::WrongRustc { required, found, .. } if required == "1.0.0" && found != required),
            "{error}"
        );
    }

    #[test]
    fn functions_are_refused_where_denied() {
        let text = ".version 6.0\n.target sm_70\n.address_size 64\n.func f() { ret; }\n.entry e() { call f; ret; }";
        let ptx = Ptx::parse(text).unwrap();
        let builder = CudaBuilder::new("kernels");
        builder.check_functions(&ptx, "kernels".to_owned()).unwrap();
        let error = builder.deny_functions(true).check_functions(&ptx, "kernels".to_owned()).unwrap_err();
        assert!(matches!(&error, CudaBuilderError::FunctionsLeft { functions, .. } if functions == &["f"]), "{error}");
    }
}
