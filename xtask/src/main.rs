//! `cargo xtask`: the project's own tasks.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::stamp::unless_current;
use xtask::{
    aarch64, book, build_ptx, ci, deny, gpu_bundle, new_kernel, outside, own_kernels, package, pictures, ptxas, report,
    setup, target, wheel,
};

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Get the sources of `core`, which build-ptx needs: from rustup, else from Debian's package
    Setup,
    /// Compile the kernels to the PTX in kernels-gpu/ptx, which is committed
    BuildPtx {
        /// Change nothing; fail where what is there is not what the kernels compile to
        #[arg(long)]
        check: bool,
        /// Check even if the stamp says that sources and PTX are unchanged
        #[arg(long, requires = "check")]
        force: bool,
    },
    /// Assemble the committed PTX: registers of every entry; a stack frame or a spill is an error, but for listed
    /// entries
    Ptxas {
        /// Assemble even if the stamp says that the PTX is unchanged
        #[arg(long)]
        force: bool,
    },
    /// Put the program, its tests and a script into ./gpu-bundle, for a machine with a GPU and without Rust
    GpuBundle,
    /// Make the packages of the crates, and check their fields, licences and sizes
    Package {
        /// Build each crate from its package, too
        #[arg(long)]
        verify: bool,
    },
    /// Build and run examples/outside as a user of the library does, and write its stamp
    Outside,
    /// Make a workspace for kernels of your own: a first kernel, its test in the emulator, and a program that launches
    /// it
    NewKernel {
        /// The name of the kernel, of its crate and of the new folder
        name: String,
        /// The folder in which the new one is made
        #[arg(long = "in", value_name = "FOLDER", default_value = ".")]
        parent: PathBuf,
    },
    /// Test and run examples/own-kernels and a workspace of new-kernel, with their PTX
    OwnKernels {
        /// Only compile the kernels of the example to this file, for docs/measurements/own_kernels.py
        #[arg(long, value_name = "FILE")]
        ptx: Option<PathBuf>,
        /// Run them even if the stamp says that nothing they depend on has changed
        #[arg(long)]
        force: bool,
    },
    /// Build the wheel of the Python module into target/wheel, and check it
    Wheel {
        /// Build a wheel for this machine alone, and run the tests of the module with it
        #[arg(long)]
        test: bool,
    },
    /// Build the book into target/book, and check all links and drawings
    Book,
    /// Make a page of each machine's measurements in target/report
    Report,
    /// Make the pictures in docs/images and docs/drawings from the committed photograph and reports
    Pictures,
    /// Check the licences and sources of all dependencies, and record that they have passed
    Deny,
    /// Run the tests of the CPU path for AArch64 in QEMU: is NEON right?
    Aarch64 {
        /// Run them even if the stamp says that the CPU path is unchanged
        #[arg(long)]
        force: bool,
    },
    /// Run everything that a change must pass
    Ci {
        /// Ignore all stamps; run the full sweep
        #[arg(long)]
        full: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The causes, and no backtrace: what failed is in the words.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = &xtask::root();
    match task {
        Task::BuildPtx { check: false, .. } => build_ptx::write(root),
        Task::BuildPtx { check: true, force } => unless_current(root, force, build_ptx::stamp, build_ptx::check),
        Task::Setup => setup::setup(root),
        Task::Ptxas { force } => unless_current(root, force, ptxas::stamp, ptxas::write),
        Task::GpuBundle => gpu_bundle::bundle(root),
        Task::Package { verify } => package::check(root, verify),
        Task::Outside => outside::write(root),
        Task::NewKernel { name, parent } => new_kernel::new_kernel(root, &parent, &name).map(drop),
        Task::OwnKernels { ptx: None, force } => unless_current(root, force, own_kernels::stamp, own_kernels::write),
        Task::OwnKernels { ptx: Some(file), .. } => own_kernels::write_ptx(root, &file),
        Task::Wheel { test: false } => wheel::wheel(root),
        Task::Wheel { test: true } => wheel::test(root),
        Task::Book => book::book(root),
        Task::Report => report::write(root, &target(root).join("report")),
        Task::Pictures => pictures::write(root),
        Task::Deny => deny::write(root),
        Task::Aarch64 { force } => unless_current(root, force, aarch64::stamp, aarch64::write),
        Task::Ci { full } => ci::ci(root, full),
    }
}
