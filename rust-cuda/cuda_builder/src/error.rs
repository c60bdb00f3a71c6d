//! What can go wrong, with what was required and what was found.

use std::io;
use std::path::PathBuf;

use crate::ptx::PtxError;

/// Why there is no PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaBuilderError {
    /// `-Zbuild-std=core` has nothing to compile.
    #[error(
        "the sources of core are missing at {path}: get them with `rustup component add rust-src`, \
         or in this project with `cargo xtask setup`"
    )]
    RustSrcMissing {
        /// Where the compiler looks.
        path: PathBuf,
    },
    /// The sources of `core` are those of another compiler.
    #[error(
        "the sources of core at {path} are those of Rust {found}, the compiler is {required}: remove that folder, then \
         `rustup component add rust-src`, or in this project `cargo xtask setup`"
    )]
    RustSrcVersion {
        /// Where the compiler looks.
        path: PathBuf,
        /// The compiler's version.
        required: String,
        /// The version of the sources.
        found: String,
    },
    /// The PTX is promised for one compiler, and this is another.
    #[error(
        "the kernels need rustc {required}, `rustc --version` in {directory} says {found}: install {required}, and let \
         a `rust-toolchain.toml` name it; with rustup, `rustup show` says what else decides (an override of the folder)"
    )]
    WrongRustc {
        /// The version asked for.
        required: String,
        /// The version there is.
        found: String,
        /// Where rustc was asked; a `rust-toolchain.toml` above it decides.
        directory: PathBuf,
    },
    /// A program could not be started.
    #[error("could not start `{program}`")]
    Start {
        /// The program's name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program ended with an error; for cargo, the compiler's messages are in `stderr`.
    #[error("`{command}` failed ({status}):\n{stderr}")]
    Failed {
        /// The program and what matters of its arguments.
        command: String,
        /// Its exit status.
        status: String,
        /// What it wrote to standard error.
        stderr: String,
    },
    /// A program answered something that can't be understood.
    #[error("`{command}` answered without {missing}")]
    Answer {
        /// The program and its arguments.
        command: String,
        /// What should have been there.
        missing: &'static str,
    },
    /// The folder given to [`CudaBuilder::new`](crate::CudaBuilder::new) holds no package.
    #[error("{path} is no crate of kernels: there is no Cargo.toml in it that names a package")]
    NoPackage {
        /// The folder.
        path: PathBuf,
    },
    /// The compiler ended well, but left no PTX or more than one.
    #[error("one PTX file (*.s) was expected in {directory}, found {found}")]
    NoPtx {
        /// Where it should be.
        directory: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// The PTX is not what [`ptx`](crate::ptx) understands, or not whole.
    #[error("the PTX of {crate_name} can't be used")]
    Ptx {
        /// The kernels crate.
        crate_name: String,
        /// Where and why.
        source: PtxError,
    },
    /// Functions were left that [`deny_functions`](crate::CudaBuilder::deny_functions) does not allow.
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
    /// A file or folder could not be read or written.
    #[error("could not {action} {path}")]
    File {
        /// "read", "write", …
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A lock file lacks the package whose versions should be hashed.
    #[error("{path} has no package {package}")]
    NotLocked {
        /// The `Cargo.lock`.
        path: PathBuf,
        /// The package's name.
        package: String,
    },
    /// A source that the hash should cover does not exist.
    #[error("{path}, which the PTX depends on, does not exist")]
    NoSource {
        /// The file or folder.
        path: PathBuf,
    },
}

impl CudaBuilderError {
    /// For `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
