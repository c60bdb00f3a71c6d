//! Compiles a crate of kernels to PTX.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::build_script;
use crate::child::{Package, Toolchain, command, output};
use crate::panics::panicking;
use crate::ptx::{Entry, Module, Ptx, apply_declared};
use crate::rust_src::RustSrc;
use crate::target::TargetFolder;
use crate::{Arch, CudaBuilderError};

/// The target, as rustc calls it.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// The child's release profile. It sets every key that changes code, so that no configuration file does.
///
/// One codegen unit and fat LTO put everything into one PTX.
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

/// LLVM's options that unroll loops with constant bounds, and only those.
///
/// An array that is indexed in a loop lies in local memory. Unrolled, it lies in registers. A loop whose bounds are
/// known at run time stays as it is.
const UNROLLED: [&str; 3] = ["-unroll-threshold=1000000", "-unroll-full-max-count=1000", "-unroll-runtime=false"];

/// Builds a crate of kernels to PTX.
///
/// The crate is an ordinary `rlib` with `extern "ptx-kernel"` functions. The command line sets the crate type that PTX
/// needs.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    path: PathBuf,
    arch: Arch,
    /// None for [`UNROLLED`].
    llvm_args: Option<Vec<String>>,
    rustc: Option<String>,
    copy_to: Option<PathBuf>,
    deny_functions: bool,
    deny_panics: bool,
    target: Option<PathBuf>,
}

/// The result of [`CudaBuilder::build`].
#[derive(Clone, Debug)]
pub struct Build {
    /// The PTX text. Its `.version` has all instructions, also those of inline assembly.
    pub text: String,
    /// The parsed PTX.
    pub ptx: Ptx,
    /// The version of the compiler: `1.95.0`.
    pub rustc: String,
    /// The compiler's warnings; empty if there are none.
    pub warnings: String,
    /// The files that the PTX was made from: sources, manifests, `Cargo.lock` and `rust-toolchain.toml`.
    pub sources: Vec<PathBuf>,
}

impl Build {
    /// The kernels of the PTX.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.ptx.entries()
    }

    /// Splits the PTX into modules. `module_of` returns the name of the module of an entry. See [`Ptx::split`].
    pub fn split(&self, module_of: impl Fn(&str) -> String) -> Vec<Module> {
        self.ptx.split(module_of)
    }
}

impl CudaBuilder {
    /// A builder for the crate in the folder `path`, for [`Arch::Sm70`], with the rustc that rustup chooses there.
    ///
    /// Loops with constant bounds are unrolled, so that arrays stay in registers; [`llvm_args`](Self::llvm_args)
    /// replaces that. A kernel that can panic is an error; [`deny_panics`](Self::deny_panics) allows it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arch: Arch::default(),
            llvm_args: None,
            rustc: None,
            copy_to: None,
            deny_functions: false,
            deny_panics: true,
            target: None,
        }
    }

    /// Sets the oldest GPU architecture that the PTX runs on.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Sets options for LLVM, one string each, such as `-unroll-threshold=1000000`.
    ///
    /// They take the place of the default ones, which unroll every loop with constant bounds.
    #[must_use]
    pub fn llvm_args(mut self, options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned());
        self.llvm_args.get_or_insert_default().extend(options);
        self
    }

    /// Requires this version of rustc, such as `1.95.0`. Another one writes different PTX.
    #[must_use]
    pub fn rustc(mut self, version: impl Into<String>) -> Self {
        self.rustc = Some(version.into());
        self
    }

    /// Writes the PTX to this file as well. The file appears complete or not at all.
    ///
    /// The driver loads the file as one module. So an instruction that [`arch`](Self::arch) lacks is an error. Without
    /// a file it is none, because [`Build::split`] gives each module the header that it needs.
    #[must_use]
    pub fn copy_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.copy_to = Some(path.into());
        self
    }

    /// Rejects functions other than the entries. In a kernel that should be inlined completely, a call costs a stack
    /// frame.
    #[must_use]
    pub fn deny_functions(mut self, deny: bool) -> Self {
        self.deny_functions = deny;
        self
    }

    /// Rejects kernels that can panic, which is the default.
    ///
    /// A panic stops the grid, and the context is lost. The code of a panic also costs registers and a stack frame.
    /// With `false` such kernels are allowed. The panic handler of `cuda_std` then names the file and the line.
    #[must_use]
    pub fn deny_panics(mut self, deny: bool) -> Self {
        self.deny_panics = deny;
        self
    }

    /// Sets the target folder. The default is `cuda-builder` in that of the workspace of the kernels.
    #[must_use]
    pub fn target_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.target = Some(path.into());
        self
    }

    /// The flags of rustc for every crate that is compiled for the GPU.
    ///
    /// The flags, the sources and the compiler's version determine every byte of the PTX.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("-Ctarget-cpu={}", self.arch)];
        // This pass may clone a barrier into both arms of a branch (rust-lang/rust#137086). Then threads wait at
        // different barriers.
        flags.push("-Zmir-enable-passes=-JumpThreading".to_owned());
        let options = match &self.llvm_args {
            Some(options) => options.join(" "),
            None => UNROLLED.join(" "),
        };
        if !options.is_empty() {
            flags.push(format!("-Cllvm-args={options}"));
        }
        flags
    }

    /// Compiles the crate.
    ///
    /// # The same bytes everywhere
    ///
    /// The same sources and the same compiler give the same bytes:
    ///
    /// - The child cargo does not see environment variables that change code, such as `RUSTFLAGS`, `CARGO_BUILD_*`,
    ///   `CARGO_PROFILE_*` and `RUSTC_WRAPPER`.
    /// - Its command line overrides the flags, wrappers, profile and target folder of configuration files.
    /// - The kernels are compiled again each time, `core` when needed.
    /// - The compiler is the one that rustup chooses in the folder of the kernels. A `rust-toolchain.toml` there
    ///   overrides `cargo +nightly` and `RUSTC`. [`rustc`](Self::rustc) requires a version.
    ///
    /// # One at a time
    ///
    /// Builds for one architecture wait for each other if they use the same target folder.
    ///
    /// # What it prints
    ///
    /// The compiler's warnings go to standard error. In a build script each becomes a `cargo::warning` line, and each
    /// of [`Build::sources`] becomes a `cargo::rerun-if-changed` line.
    ///
    /// # Errors
    /// See [`CudaBuilderError`]. Each error names what was required, what was found and the remedy, if there is one.
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

        let folder = self.target.clone().unwrap_or_else(|| package.target.join("cuda-builder"));
        // cargo runs in the folder of the kernels.
        let folder = std::path::absolute(&folder).map_err(CudaBuilderError::file("find", &folder))?;
        let folder = folder.join(self.arch.name());
        let target = TargetFolder::lock(&folder, TARGET)?;
        target.forget(&package.name)?;
        let name = "cargo rustc --target nvptx64-nvidia-cuda -Zbuild-std=core";
        let said = output(&mut self.cargo(&package, &folder), name).map_err(CudaBuilderError::with_hint)?;
        let text = apply_declared(target.only_ptx()?);
        let sources = target.sources(&package, &toolchain.sysroot)?;
        drop(target);

        let crate_name = package.name;
        let ptx =
            Ptx::parse(&text).map_err(|source| CudaBuilderError::Ptx { crate_name: crate_name.clone(), source })?;
        self.check_panics(&ptx, &crate_name)?;
        self.check_functions(&ptx, crate_name.clone())?;
        let text = ptx.with_version(text);
        if let Some(path) = &self.copy_to {
            let instructions = ptx.newer_instructions();
            if !instructions.is_empty() {
                return Err(CudaBuilderError::NewerInstructions { crate_name, arch: self.arch, instructions });
            }
            write_whole(path, &text)?;
        }
        let warnings = String::from_utf8_lossy(&said.stderr).into_owned();
        let build = Build { text, ptx, rustc: toolchain.release, warnings, sources };
        build_script::report(&build, &package.workspace);
        Ok(build)
    }

    /// Compiles the crate in the build script of a program, so that the program includes the PTX.
    ///
    /// It is [`build`](Self::build) with these settings:
    ///
    /// - The PTX is written to `OUT_DIR/NAME.ptx`. `NAME` is the name of the crate in Rust, with underscores.
    /// - The target folder is in `OUT_DIR`, so the build never waits for the cargo that runs the build script.
    ///
    /// cargo knows a package by its name and its place in the workspace, so two workspaces with one target folder may
    /// share `OUT_DIR`. The `cargo::rerun-if-changed` lines have relative paths for the sources of the workspace. So
    /// cargo sees the changed sources of either. Packages of different names share nothing.
    ///
    /// The whole `build.rs` of a program:
    ///
    /// ```no_run
    /// use cuda_builder::{Arch, CudaBuilder};
    ///
    /// CudaBuilder::new("../kernels").arch(Arch::Sm80).build_for_cargo().unwrap();
    /// ```
    ///
    /// The program includes the PTX with `include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"))`.
    ///
    /// # Errors
    /// Those of [`build`](Self::build), and [`NoBuildScript`](CudaBuilderError::NoBuildScript) outside of a build
    /// script. Their `Debug` text, which `unwrap` shows, is the whole message.
    pub fn build_for_cargo(&self) -> Result<Build, CudaBuilderError> {
        let out = std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or(CudaBuilderError::NoBuildScript)?;
        let package = Package::of(&self.path)?;
        let ptx = out.join(format!("{}.ptx", package.library));
        self.clone().target_dir(out.join("cuda-builder")).copy_to(ptx).build()
    }

    fn check_panics(&self, ptx: &Ptx, crate_name: &str) -> Result<(), CudaBuilderError> {
        let kernels = panicking(ptx);
        if self.deny_panics && !kernels.is_empty() {
            return Err(CudaBuilderError::Panics { crate_name: crate_name.to_owned(), kernels });
        }
        Ok(())
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

    /// The command of the child cargo.
    fn cargo(&self, package: &Package, target: &Path) -> std::process::Command {
        let mut cargo = command("cargo", &self.path);
        // Allows the unstable features of the device's crates on a stable compiler, in this process only.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        // The environment overrides build.rustflags and target.*.rustflags of configuration files. Remapped paths make
        // panic locations the same everywhere.
        let mut flags = OsString::from(self.flags().join("\x1f"));
        flags.push("\x1f--remap-path-prefix=");
        flags.push(&package.workspace);
        flags.push("=/kernels");
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags);
        // The rustc whose version was checked. `build.rustc` of a configuration file may name another one.
        cargo.env("RUSTC", "rustc").env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
        // Standard error then has only warnings and errors.
        cargo.args(["rustc", "--quiet", "--release", "--lib", "--crate-type=staticlib", "-Zbuild-std=core"]);
        cargo.arg(format!("--package={}", package.name)).arg(format!("--target={TARGET}"));
        cargo.arg("--target-dir").arg(target);
        // The environment overrides configuration files, and a path in it needs no quotes. cargo reads braces as a
        // template.
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

/// Writes a file next to the target, then renames it.
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
        assert_eq!(builder.flags()[..2], ["-Ctarget-cpu=sm_80", "-Zmir-enable-passes=-JumpThreading"]);
        let unrolled = "-Cllvm-args=-unroll-threshold=1000000 -unroll-full-max-count=1000 -unroll-runtime=false";
        assert_eq!(builder.flags()[2..], [unrolled]);
        assert_eq!(builder.clone().llvm_args(&[]).flags().len(), 2);
        let builder = builder.llvm_args(&["-a=1", "-b"]);
        assert_eq!(builder.flags()[2..], ["-Cllvm-args=-a=1 -b"]);
    }

    #[test]
    fn another_rustc_is_refused_before_anything_is_built() {
        let error = CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).rustc("1.0.0").build().unwrap_err();
        assert!(
            matches!(
                &error,
                CudaBuilderError::WrongRustc { required, found, .. } if required == "1.0.0" && found != required
            ),
            "{error}"
        );
    }

    #[test]
    fn kernels_that_can_panic_are_refused_unless_allowed() {
        let text = ".version 6.0\n.target sm_70\n.address_size 64\n\
            .func _RNvNtC4core9panicking18panic_bounds_check() { ret; }\n\
            .entry e() { call _RNvNtC4core9panicking18panic_bounds_check; ret; }";
        let ptx = Ptx::parse(text).unwrap();
        let builder = CudaBuilder::new("kernels");
        let error = builder.check_panics(&ptx, "kernels").unwrap_err();
        assert!(error.to_string().contains("  e: an index that may be out of bounds\n"), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string(), "`unwrap` shows the whole help");
        builder.deny_panics(false).check_panics(&ptx, "kernels").unwrap();
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
