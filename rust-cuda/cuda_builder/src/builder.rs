//! From a crate of kernels to PTX.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::child::{Package, Toolchain, command, output};
use crate::ptx::{Entry, Module, Ptx};
use crate::rust_src::RustSrc;
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
    /// wrappers, profile and target folder of configuration files. The kernels are compiled anew each time, `core` when needed.
    /// What is left is the compiler's version ([`rustc`](Self::rustc)) and the sources.
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

        let target = package.target.join("cuda-builder");
        let release = target.join(TARGET).join("release");
        forget(&release, &package.name)?;
        output(&mut self.cargo(&package, &target), "cargo rustc --target nvptx64-nvidia-cuda -Zbuild-std=core")?;
        let text = only_ptx(&release.join("deps"))?;

        let crate_name = package.name;
        let ptx =
            Ptx::parse(&text).map_err(|source| CudaBuilderError::Ptx { crate_name: crate_name.clone(), source })?;
        self.check_functions(&ptx, crate_name)?;
        if let Some(path) = &self.copy_to {
            write_whole(path, &text)?;
        }
        Ok(Build { text, ptx, rustc: toolchain.release })
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
        let mut flags = self.flags();
        flags.push(format!("--remap-path-prefix={}=/kernels", package.workspace.display()));
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        cargo.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
        cargo.args(["rustc", "--release", "--lib", "--crate-type=staticlib", "-Zbuild-std=core"]);
        cargo.arg(format!("--package={}", package.name)).arg(format!("--target={TARGET}"));
        cargo.arg("--target-dir").arg(target);
        let directory = target.to_string_lossy().replace('\\', "/");
        cargo.arg(format!("--config=build.build-dir='{directory}'"));
        for setting in PROFILE {
            cargo.arg(format!("--config=profile.release.{setting}"));
        }
        cargo.args(["--", "--emit=asm"]);
        cargo
    }
}

/// Removes what an earlier build of the kernels left, so that the PTX found afterwards is this build's.
fn forget(release: &Path, package: &str) -> Result<(), CudaBuilderError> {
    for path in list(&release.join("deps"))? {
        if path.extension() == Some(OsStr::new("s")) {
            fs::remove_file(&path).map_err(CudaBuilderError::file("remove", &path))?;
        }
    }
    for path in list(&release.join(".fingerprint"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.rsplit_once('-').is_some_and(|(name, _)| name == package) {
            fs::remove_dir_all(&path).map_err(CudaBuilderError::file("remove", &path))?;
        }
    }
    Ok(())
}

/// The text of the one PTX file in a folder.
fn only_ptx(deps: &Path) -> Result<String, CudaBuilderError> {
    let mut found = list(deps)?;
    found.retain(|path| path.extension() == Some(OsStr::new("s")));
    match &found[..] {
        [path] => fs::read_to_string(path).map_err(CudaBuilderError::file("read", path)),
        _ => Err(CudaBuilderError::NoPtx { directory: deps.to_owned(), found: found.len() }),
    }
}

/// What is in a folder; nothing, if there is no such folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>, CudaBuilderError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let items = fs::read_dir(folder).map_err(CudaBuilderError::file("list", folder))?;
    items.map(|item| item.map(|item| item.path()).map_err(CudaBuilderError::file("list", folder))).collect()
}

/// Writes beside the file, then renames.
fn write_whole(path: &Path, text: &str) -> Result<(), CudaBuilderError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
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
        assert_eq!(builder.flags(), ["-Ctarget-cpu=sm_80"]);
        let builder = builder.llvm_args(&["-a=1", "-b"]);
        assert_eq!(builder.flags(), ["-Ctarget-cpu=sm_80", "-Cllvm-args=-a=1 -b"]);
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

    #[test]
    fn none_or_two_ptx_files_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let found = || match only_ptx(folder.path()) {
            Err(CudaBuilderError::NoPtx { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(), 0);
        write_whole(&folder.path().join("a.s"), "a").unwrap();
        assert_eq!(only_ptx(folder.path()).unwrap(), "a");
        write_whole(&folder.path().join("b.s"), "b").unwrap();
        assert_eq!(found(), 2);
    }
}
