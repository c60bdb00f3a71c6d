//! How the kernels are built, what they are built from, and what their PTX must look like.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cuda_builder::ptx::{Entry as PtxEntry, Ptx};
use cuda_builder::{Arch, CudaBuilder, SourceHash};
use kernels_gpu::kernel::{Kernel, Parameter};

/// The oldest GPUs that are supported; PTX for them runs on all newer ones.
pub const ARCH: Arch = Arch::Sm70;

/// Loops with constant bounds are unrolled whole: an array that is indexed in a loop which stays rolled goes to local
/// memory instead of registers. Loops with bounds known only at run time stay as they are.
pub const LLVM_ARGS: [&str; 3] = ["-unroll-threshold=1000000", "-unroll-full-max-count=1000", "-unroll-runtime=false"];

/// What the PTX is made from, relative to the root of the workspace.
pub const SOURCES: [&str; 6] = [
    "kernels-gpu/Cargo.toml",
    "kernels-gpu/src",
    "rust-cuda/cuda_std/Cargo.toml",
    "rust-cuda/cuda_std/src",
    "rust-cuda/cuda_std_macros/Cargo.toml",
    "rust-cuda/cuda_std_macros/src",
];

/// The version of rustc that `rust-toolchain.toml` pins.
///
/// # Errors
/// The file is not there or names no channel.
pub fn pinned_rustc(root: &Path) -> Result<String> {
    let path = root.join("rust-toolchain.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let channel = text.lines().find_map(|line| line.trim().strip_prefix("channel")?.trim().strip_prefix('='));
    match channel.map(|channel| channel.trim().trim_matches('"')) {
        Some(channel) if channel.split('.').count() == 3 => Ok(channel.to_owned()),
        found => bail!("{} must pin one version, channel = \"1.2.3\", found {found:?}", path.display()),
    }
}

/// The build of the kernels.
///
/// # Errors
/// As [`pinned_rustc`].
pub fn builder(root: &Path) -> Result<CudaBuilder> {
    Ok(CudaBuilder::new(root.join("kernels-gpu"))
        .arch(ARCH)
        .llvm_args(&LLVM_ARGS)
        .rustc(pinned_rustc(root)?)
        .deny_functions(true))
}

/// The hash of everything that the PTX depends on. It does not depend on where the checkout lies.
///
/// # Errors
/// A source is not there.
pub fn source_hash(root: &Path) -> Result<String> {
    let mut hash = SourceHash::new(root).sources(&SOURCES)?.setting("rustc", &pinned_rustc(root)?);
    for flag in builder(root)?.flags() {
        hash = hash.setting("flag", &flag);
    }
    Ok(hash.finish())
}

/// Everything in which modules (name and PTX) are not what the list of entries says; nothing, if all is well.
#[must_use]
pub fn mismatches<'a>(modules: impl IntoIterator<Item = (&'a str, &'a str)>, list: &[Kernel]) -> Vec<String> {
    let mut expected: BTreeMap<&str, Vec<&Kernel>> = BTreeMap::new();
    for kernel in list {
        expected.entry(kernel.module).or_default().push(kernel);
    }
    let mut problems = Vec::new();
    for (module, text) in modules {
        let Some(kernels) = expected.remove(module) else {
            problems.push(format!("module {module} is not in the list of entries"));
            continue;
        };
        match Ptx::parse(text) {
            Ok(ptx) => compare(module, &ptx, &kernels, &mut problems),
            Err(error) => problems.push(format!("module {module}: {error}")),
        }
    }
    problems.extend(expected.into_keys().map(|module| format!("module {module} of the list of entries is not there")));
    problems
}

/// One module against the kernels that it should have.
fn compare(module: &str, ptx: &Ptx, kernels: &[&Kernel], problems: &mut Vec<String>) {
    // All of a module run where its newest does.
    let (major, minor) = kernels.iter().map(|kernel| kernel.compute_capability).max().unwrap_or_default();
    let required = format!("sm_{major}{minor}");
    if ptx.target != required {
        problems.push(format!("module {module} is for {}, required is {required}", ptx.target));
    }
    for function in ptx.functions() {
        problems.push(format!("module {module} has a function beside its entries: {function}"));
    }
    for kernel in kernels {
        if !ptx.entries().any(|entry| entry.name == kernel.symbol) {
            problems.push(format!("module {module} has no entry {}", kernel.symbol));
        }
    }
    for entry in ptx.entries() {
        let Some(kernel) = kernels.iter().find(|kernel| kernel.symbol == entry.name) else {
            problems.push(format!("module {module}: entry {} does not belong here", entry.name));
            continue;
        };
        let found = parameters(entry);
        if found != kernel.parameters {
            problems.push(format!(
                "module {module}: the parameters of {} are {found:?}, required {:?}",
                entry.name, kernel.parameters
            ));
        }
    }
}

/// The parameters of an entry, to compare with [`Kernel::parameters`].
fn parameters(entry: &PtxEntry) -> Vec<Parameter> {
    let parameter =
        |param: &cuda_builder::ptx::Param| Parameter { bytes: param.bytes, align: param.align, pointer: param.pointer };
    entry.params.iter().map(parameter).collect()
}
