//! How the kernels are built, what they are built from, and what their PTX must look like.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cuda_builder::ptx::{Entry as PtxEntry, Item, ItemKind, Module, Ptx};
use cuda_builder::{Arch, CudaBuilder, SourceHash};
use kernels_gpu::abi::kernel::{Convergent, Kernel, Parameter};

/// The oldest GPUs that are supported; PTX for them runs on all newer ones.
pub const ARCH: Arch = Arch::Sm70;

/// The architectures that kernels are compiled for: the oldest, and the one of which the list of entries says that
/// others need it.
pub const ARCHITECTURES: [Arch; 2] = [ARCH, Arch::Sm80];

/// Loops with constant bounds are unrolled, so that arrays that they index lie in registers and not in local memory.
/// Loops whose bounds are known at run time stay as they are.
pub const LLVM_ARGS: [&str; 3] = ["-unroll-threshold=1000000", "-unroll-full-max-count=1000", "-unroll-runtime=false"];

/// What the PTX is made from, and what makes it, relative to the root of the workspace.
pub const SOURCES: [&str; 10] = [
    "kernels-gpu/Cargo.toml",
    "kernels-gpu/src",
    "rust-cuda/cuda_std/Cargo.toml",
    "rust-cuda/cuda_std/src",
    "rust-cuda/cuda_std_macros/Cargo.toml",
    "rust-cuda/cuda_std_macros/src",
    "rust-cuda/cuda_builder/Cargo.toml",
    "rust-cuda/cuda_builder/src",
    "xtask/src/kernels.rs",
    "xtask/src/module_text.rs",
];

/// The package of the kernels.
const PACKAGE: &str = "kernels-gpu";

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

/// The build of the kernels for one architecture.
///
/// # Errors
/// As [`pinned_rustc`].
pub fn builder(root: &Path, arch: Arch) -> Result<CudaBuilder> {
    Ok(CudaBuilder::new(root.join("kernels-gpu"))
        .arch(arch)
        .llvm_args(&LLVM_ARGS)
        .rustc(pinned_rustc(root)?)
        .deny_functions(true))
}

/// What the kernels compile to.
#[derive(Debug)]
pub struct Built {
    /// Sorted by name.
    pub modules: Vec<Module>,
    /// The compiler's version.
    pub rustc: String,
}

/// Compiles the kernels once for each of [`ARCHITECTURES`], and takes from each build the kernels that need just that
/// architecture. The compiler knows no instructions that are newer than its architecture.
///
/// # Errors
/// A build fails.
pub fn build(root: &Path, list: &[Kernel]) -> Result<Built> {
    let mut modules = Vec::new();
    let mut rustc = String::new();
    for arch in ARCHITECTURES {
        println!("compiling the kernels for {arch}");
        let build = builder(root, arch)?.build()?;
        let wanted = |symbol: &str| {
            // An entry in no list is kept, so that it is reported.
            list.iter().find(|kernel| kernel.symbol == symbol).is_none_or(|kernel| target(kernel) == arch.name())
        };
        let split = build.split(|symbol| module_of(symbol, list));
        modules.extend(split.into_iter().filter(|module| module.entries.iter().any(|entry| wanted(&entry.name))));
        rustc = build.rustc;
    }
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Built { modules, rustc })
}

/// The module of a symbol. A symbol in no list gets a module of its own, which is then reported.
fn module_of(symbol: &str, list: &[Kernel]) -> String {
    list.iter().find(|kernel| kernel.symbol == symbol).map_or(symbol, |kernel| kernel.module).to_owned()
}

/// The oldest architecture that has the instructions of a kernel.
fn target(kernel: &Kernel) -> String {
    let (major, minor) = kernel.compute_capability;
    format!("sm_{major}{minor}")
}

/// The hash of everything that the PTX depends on. It does not depend on where the checkout lies.
///
/// # Errors
/// A source is not there.
pub fn source_hash(root: &Path) -> Result<String> {
    let mut hash = SourceHash::new(root).sources(&SOURCES)?.locked(PACKAGE)?.setting("rustc", &pinned_rustc(root)?);
    for arch in ARCHITECTURES {
        for flag in builder(root, arch)?.flags() {
            hash = hash.setting("flag", &flag);
        }
    }
    Ok(hash.finish())
}

/// All differences between modules (name and PTX) and the list of entries.
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
    // A module runs where its newest kernel does.
    let newest = kernels.iter().max_by_key(|kernel| kernel.compute_capability);
    let required = newest.map(|kernel| target(kernel)).unwrap_or_default();
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
    for item in &ptx.items {
        let ItemKind::Entry(entry) = &item.kind else { continue };
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
        for (what, found, required) in differences(convergent(item), kernel.convergent) {
            problems.push(format!("module {module}: {} has {found} {what}, its source implies {required}", entry.name));
        }
    }
}

/// The convergent instructions of an entry, to compare with [`Kernel::convergent`].
fn convergent(entry: &Item) -> Convergent {
    let mut counts = Convergent::NONE;
    for instruction in &entry.instructions {
        let mut words = instruction.split('.');
        let (opcode, modifier) = (words.next(), words.next());
        match (opcode, modifier) {
            (Some("bar"), Some("warp")) => counts.warp_barriers += 1,
            // These are the forms that wait, arrive or reduce.
            (Some("bar" | "barrier"), _) => counts.barriers += 1,
            (Some("mma" | "wmma"), _) => counts.matrix_products += 1,
            (Some("shfl"), _) => counts.shuffles += 1,
            (Some("vote" | "match" | "redux" | "activemask" | "elect"), _) => counts.votes += 1,
            _ => {}
        }
    }
    counts
}

/// In what two counts differ: the instruction, the number found and the number required.
fn differences(found: Convergent, required: Convergent) -> impl Iterator<Item = (&'static str, u32, u32)> {
    [
        ("bar.sync", found.barriers, required.barriers),
        ("bar.warp.sync", found.warp_barriers, required.warp_barriers),
        ("mma.sync", found.matrix_products, required.matrix_products),
        ("shfl.sync", found.shuffles, required.shuffles),
        ("vote.sync", found.votes, required.votes),
    ]
    .into_iter()
    .filter(|(_, found, required)| found != required)
}

/// The parameters of an entry, to compare with [`Kernel::parameters`].
fn parameters(entry: &PtxEntry) -> Vec<Parameter> {
    let parameter =
        |param: &cuda_builder::ptx::Param| Parameter { bytes: param.bytes, align: param.align, pointer: param.pointer };
    entry.params.iter().map(parameter).collect()
}
