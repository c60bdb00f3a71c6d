//! The errors of a build, with what was required and what was found.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::hint;
use crate::panics::listed;
use crate::ptx::{NewerInstruction, PtxError, listed_instructions};
use crate::{Arch, PanickingKernel};

/// The reason why a build failed.
///
/// Its `Debug` text is the message with its causes, so that `unwrap` in a build script shows the whole help.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// The sources of `core`, which `-Zbuild-std=core` compiles, are missing.
    #[error(
        "the sources of core are missing at {path}: get them with `rustup component add rust-src`, in the folder of the \
         kernels. Without rustup, `cargo xtask setup` gets them, in the checkout that has the crate cuda_builder"
    )]
    RustSrcMissing {
        /// The folder in which the compiler looks.
        path: PathBuf,
    },
    /// The sources of `core` belong to another compiler.
    #[error(
        "the sources of core at {path} are those of Rust {found}, the compiler is {required}: remove that folder, then \
         `rustup component add rust-src`. Without rustup, run `cargo xtask setup` in the checkout that has the crate \
         cuda_builder"
    )]
    RustSrcVersion {
        /// The folder in which the compiler looks.
        path: PathBuf,
        /// The compiler's version.
        required: String,
        /// The version of the sources.
        found: String,
    },
    /// The build requires another version of the compiler.
    #[error(
        "the kernels need rustc {required}, `rustc --version` in {directory} says {found}: install {required}, and let \
         a `rust-toolchain.toml` name it; with rustup, `rustup show` says what else decides (an override of the folder)"
    )]
    WrongRustc {
        /// The required version.
        required: String,
        /// The version that was found.
        found: String,
        /// The folder of the query. A `rust-toolchain.toml` in it or above it chooses the compiler.
        directory: PathBuf,
    },
    /// A program could not be started.
    #[error("could not start `{program}`")]
    Start {
        /// The program's name.
        program: String,
        /// The cause.
        source: io::Error,
    },
    /// A program failed. The compiler's messages are in cargo's `stderr`.
    #[error("`{command}` failed ({status}):\n{stderr}")]
    Failed {
        /// The program and its relevant arguments.
        command: String,
        /// Its exit status.
        status: String,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// The answer of a program lacks something.
    #[error("`{command}` answered without {missing}")]
    Answer {
        /// The program and its arguments.
        command: String,
        /// The part that is missing.
        missing: &'static str,
    },
    /// The folder of [`CudaBuilder::new`](crate::CudaBuilder::new) holds no package.
    #[error("{path} is no crate of kernels: there is no Cargo.toml in it that names a package")]
    NoPackage {
        /// The folder.
        path: PathBuf,
    },
    /// The compiler succeeded but wrote no PTX file or more than one.
    #[error("one PTX file (*.s) was expected in {directory}, found {found}")]
    NoPtx {
        /// The folder of the PTX file.
        directory: PathBuf,
        /// The number of PTX files.
        found: usize,
    },
    /// [`ptx`](crate::ptx) can't parse the PTX, or the PTX is incomplete.
    #[error("the PTX of {crate_name} can't be used")]
    Ptx {
        /// The kernels crate.
        crate_name: String,
        /// The error in the text.
        source: PtxError,
    },
    /// The PTX has functions, which [`deny_functions`](crate::CudaBuilder::deny_functions) forbids.
    #[error(
        "the PTX of {crate_name} has {} function(s) beside its entries: {}; a call costs a stack frame: mark what \
         the kernels call #[inline(always)], and make what can panic impossible",
        functions.len(),
        functions.join(", ")
    )]
    FunctionsLeft {
        /// The kernels crate.
        crate_name: String,
        /// Their names.
        functions: Vec<String>,
    },
    /// Kernels can panic, which [`deny_panics`](crate::CudaBuilder::deny_panics) forbids.
    #[error(
        "kernels of {crate_name} can panic:\n{}\na panic stops the grid, and its code costs registers: \
         make it impossible (compare the index first, use `get_unchecked`, test the divisor for 0, replace `unwrap` by \
         `unwrap_or` or `unwrap_unchecked`), or allow it with `CudaBuilder::deny_panics(false)`",
        listed(kernels)
    )]
    Panics {
        /// The kernels crate.
        crate_name: String,
        /// The kernels, with the reasons.
        kernels: Vec<PanickingKernel>,
    },
    /// Kernels of a PTX file have instructions that its architecture lacks. The driver would refuse the file.
    #[error(
        "kernels of {crate_name} have instructions that {arch} lacks:\n{}\nset a newer `arch` of the `CudaBuilder`, or \
         leave these kernels out for {arch}",
        listed_instructions(instructions)
    )]
    NewerInstructions {
        /// The kernels crate.
        crate_name: String,
        /// The architecture of the builder.
        arch: Arch,
        /// The instructions.
        instructions: Vec<NewerInstruction>,
    },
    /// [`build_for_cargo`](crate::CudaBuilder::build_for_cargo) was called outside of a build script.
    #[error("cargo sets OUT_DIR for build scripts only: call `build_for_cargo` in a `build.rs`, and `build` elsewhere")]
    NoBuildScript,
    /// A file or folder could not be read or written.
    #[error("could not {action} {path}")]
    File {
        /// The action, such as "read" or "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A lock file lacks the package whose versions are hashed.
    #[error("{path} has no package {package}")]
    NotLocked {
        /// The `Cargo.lock`.
        path: PathBuf,
        /// The package's name.
        package: String,
    },
    /// A source of the hash does not exist.
    #[error("{path}, which the PTX depends on, does not exist")]
    NoSource {
        /// The file or folder.
        path: PathBuf,
    },
}

impl fmt::Debug for CudaBuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl CudaBuilderError {
    /// For `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// With a hint after the compiler's messages, if there is one.
    pub(crate) fn with_hint(mut self) -> Self {
        if let Self::Failed { stderr, .. } = &mut self
            && let Some(hint) = hint::after(stderr)
        {
            stderr.push('\n');
            stderr.push_str(hint);
        }
        self
    }
}
