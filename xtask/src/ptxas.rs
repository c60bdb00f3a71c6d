//! Assembles every entry without a GPU. NVIDIA's assembler says how many registers an entry takes, and whether it keeps
//! anything in local memory. Few kernels may do that.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::build_ptx::FOLDER;
use crate::process::{capture, finish, make_executable};
use crate::stamp::Stamp;

/// An assembler on PyPI.
#[derive(Debug)]
struct Assembler {
    /// The package, in the versions that were tried.
    package: &'static str,
    /// Where the package keeps the program.
    program: &'static str,
    /// The folder that it is installed into.
    folder: &'static str,
    /// The architectures that it assembles for, one of each generation that it knows.
    architectures: &'static [&'static str],
    /// Whether a stack frame or a spill is an error on its architectures. On old ones it is only shown, because kernels
    /// are designed for newer ones.
    is_strict: bool,
}

/// CUDA 13 lacks the architectures before `sm_75`, so the assembler of CUDA 12 takes those.
const ASSEMBLERS: [Assembler; 2] = [
    Assembler {
        package: "nvidia-cuda-nvcc-cu12>=12.9,<13",
        program: "nvidia/cuda_nvcc/bin/ptxas",
        folder: "cuda-12-tools",
        architectures: &["sm_70", "sm_72"],
        is_strict: false,
    },
    Assembler {
        package: "nvidia-cuda-nvcc>=13.0,<14",
        program: "nvidia/cu13/bin/ptxas",
        folder: "cuda-tools",
        architectures: &["sm_75", "sm_80", "sm_90", "sm_120"],
        is_strict: true,
    },
];

/// All architectures that are assembled for, the oldest first.
fn architectures() -> impl Iterator<Item = &'static str> {
    ASSEMBLERS.iter().flat_map(|assembler| assembler.architectures).copied()
}

/// Whether a stack frame or a spill is an error on an architecture.
fn is_strict(arch: &str) -> bool {
    ASSEMBLERS.iter().any(|assembler| assembler.is_strict && assembler.architectures.contains(&arch))
}

/// The program that the machine has, of whatever version.
const INSTALLED: &str = "ptxas";

const DOWNLOAD_LIMIT: Duration = Duration::from_secs(300);
const ASSEMBLE_LIMIT: Duration = Duration::from_secs(300);

/// Entries that have a stack frame, and its most bytes.
///
/// The kernels of `separable_tensor_core` need fewer registers than they may have. But products of matrices take them
/// in aligned groups of two and four. On an H100, a kernel for four channels and 63 x 63 that computes two channels at
/// a time spills nothing, and takes 8 % longer.
const SPILLING: [(&str, u32); 21] = [
    // One register, on compute capability 7.5 and 8.0 alone.
    ("proven_planes_u16_c4", 8),
    // On compute capability 12.0 alone. Without it the kernel takes 4 % longer on an H100.
    ("separable_tensor_core_f32_c1_blocks_7", 8),
    ("separable_tensor_core_f32_c2_blocks_13", 64),
    ("separable_tensor_core_f32_c2_blocks_17", 64),
    ("separable_tensor_core_f32_c4_blocks_13", 32),
    ("separable_tensor_core_f32_c4_blocks_17", 64),
    ("separable_tensor_core_f32_c4_blocks_9", 80),
    // Four blocks of a multiprocessor leave 128 registers, and the matrices of both factors take 48.
    ("separable_tensor_core_u8_u8_c1_21x21", 64),
    ("separable_tensor_core_u8_u8_c1_25x25", 64),
    ("separable_tensor_core_u8_u8_c1_31x31", 64),
    ("separable_tensor_core_u8_u8_c1_33x33", 64),
    ("separable_tensor_core_u8_u8_c3_21x21", 64),
    ("separable_tensor_core_u8_u8_c3_25x25", 64),
    ("separable_tensor_core_u8_u8_c3_31x31", 64),
    ("separable_tensor_core_u8_u8_c3_33x33", 64),
    ("separable_tensor_core_u8_u8_c4_21x21", 64),
    ("separable_tensor_core_u8_u8_c4_25x25", 64),
    ("separable_tensor_core_u8_u8_c4_31x31", 64),
    ("separable_tensor_core_u8_u8_c4_33x33", 64),
    // Two registers, on compute capability 7.5 and 8.0 alone.
    ("sliding_window_planar_u16_c4_13x13", 8),
    // Two registers, on compute capability 8.0 and 12.0 alone. With three blocks it takes 9 % longer on an H200.
    ("tensor_core_u8_u8_c3_9x9", 8),
];

/// What ptxas says about one entry on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Usage {
    registers: u32,
    stack: u32,
    spill_stores: u32,
    spill_loads: u32,
}

impl Usage {
    /// Whether an entry may have this stack frame and these spills.
    fn is_allowed(&self, entry: &str) -> bool {
        match SPILLING.iter().find(|(name, _)| *name == entry) {
            Some(&(_, most)) => self.stack <= most,
            None => !self.has_frame(),
        }
    }

    /// Whether the entry keeps anything in local memory.
    fn has_frame(&self) -> bool {
        self.stack + self.spill_stores + self.spill_loads > 0
    }
}

/// Whether this is a CI machine. There a missing tool is an error, because a check that did not run must not pass.
#[must_use]
pub fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Checks as [`check`], and writes the [`stamp`] if nothing was skipped.
///
/// # Errors
/// Those of [`check`], or the stamp can't be written.
pub fn write(root: &Path) -> Result<()> {
    if check(root)? { stamp(root)?.write() } else { Ok(()) }
}

/// What the check depends on. This file names the assemblers and architectures.
///
/// # Errors
/// The PTX can't be read.
pub fn stamp(root: &Path) -> Result<Stamp> {
    Stamp::new(root, "ptxas", "ptxas").files("xtask/src/ptxas.rs")?.files(FOLDER)
}

/// Assembles every committed module for each architecture and prints the registers of each entry. Returns whether each
/// architecture had its own assembler.
///
/// # Errors
/// A module does not assemble, or an entry has a stack frame or spills that it may not have, or has none though it is
/// listed. Where ptxas can't be had: an error on a CI machine, elsewhere a message.
pub fn check(root: &Path) -> Result<bool> {
    let modules = modules(root)?;
    let mut usages = Usages::new();
    let mut is_complete = true;
    for assembler in &ASSEMBLERS {
        match find(root, assembler) {
            Ok(ptxas) => {
                assemble(&ptxas, assembler, &modules, &mut usages)?;
                is_complete &= ptxas != Path::new(INSTALLED);
            }
            Err(error) if in_ci() => return Err(error),
            Err(error) => {
                is_complete = false;
                println!("SKIPPED, nothing was checked for {}: {error:#}", assembler.architectures.join(", "))
            }
        }
    }
    if usages.is_empty() {
        return Ok(false);
    }
    println!("registers of a thread; * has a stack frame or spills, - is older than the entry, or was skipped");
    print!("{:<34}", "entry");
    architectures().for_each(|arch| print!(" {arch:>7}"));
    println!();
    let mut bad = Vec::new();
    for (entry, of_entry) in &usages {
        print!("{entry:<34}");
        for arch in architectures() {
            let Some(usage) = of_entry.get(arch) else {
                print!(" {:>6} ", "-");
                continue;
            };
            print!(" {:>6}{}", usage.registers, if usage.has_frame() { '*' } else { ' ' });
            if !usage.is_allowed(entry) && is_strict(arch) {
                let Usage { stack, spill_stores, spill_loads, .. } = usage;
                bad.push(format!(
                    "{entry} on {arch}: {stack} bytes of stack, {spill_stores} stored, {spill_loads} loaded"
                ));
            }
        }
        println!();
    }
    for (entry, _) in SPILLING {
        let spills = |(arch, usage): (&&str, &Usage)| is_strict(arch) && usage.has_frame();
        if is_complete && !usages.get(entry).is_some_and(|of_entry| of_entry.iter().any(spills)) {
            bad.push(format!("{entry} is listed as one that spills, and does not"));
        }
    }
    ensure!(
        bad.is_empty(),
        "stack frames and spills are as listed in xtask/src/ptxas.rs, but for:\n  {}",
        bad.join("\n  ")
    );
    let strict = architectures().find(|arch| is_strict(arch)).unwrap_or_default();
    let (all, spilling) = (usages.len(), SPILLING.len());
    println!("{all} entries: no stack frame and no spills from {strict} on, but for the {spilling} that are listed");
    Ok(is_complete)
}

/// The ptxas of the target folder, fetched if it is missing. Outside of CI an installed one serves, too.
fn find(root: &Path, assembler: &Assembler) -> Result<PathBuf> {
    let Assembler { package, program, .. } = assembler;
    let folder = crate::target(root).join(assembler.folder);
    let ptxas = folder.join(program);
    if !ptxas.is_file()
        && let Err(error) = fetch(&folder, package)
    {
        if knows(assembler) && !in_ci() {
            println!("{error:#}; the installed ptxas is used instead");
            return Ok(INSTALLED.into());
        }
        return Err(error);
    }
    ensure!(ptxas.is_file(), "package {package} has no file {program}");
    // The package's files may come without the permission to run them.
    make_executable(&ptxas)?;
    Ok(ptxas)
}

/// Whether the installed ptxas, if there is one, knows the architectures of an assembler.
fn knows(assembler: &Assembler) -> bool {
    let help = Command::new(INSTALLED).arg("--help").output();
    help.is_ok_and(|help| {
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        help.status.success() && assembler.architectures.iter().all(|arch| text.contains(arch))
    })
}

/// Installs the package into `folder`, with the first Python that has pip.
fn fetch(folder: &Path, package: &str) -> Result<()> {
    println!("fetching {package} with pip");
    let mut tried = Vec::new();
    for python in ["python3", "python"] {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--only-binary=:all:", "--upgrade"]);
        pip.arg("--target").arg(folder).arg(package);
        match capture(&mut pip, DOWNLOAD_LIMIT) {
            Ok(_) => return Ok(()),
            Err(error) => tried.push(format!("{error:#}")),
        }
    }
    bail!("could not get ptxas, package {package}: {}", tried.join("; "))
}

/// The committed modules' files.
fn modules(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join(FOLDER);
    let mut modules = Vec::new();
    for item in fs::read_dir(&folder).with_context(|| format!("could not list {}", folder.display()))? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            modules.push(path);
        }
    }
    ensure!(!modules.is_empty(), "there is no PTX in {}: run `cargo xtask build-ptx`", folder.display());
    modules.sort();
    Ok(modules)
}

/// By entry and architecture.
type Usages = BTreeMap<String, BTreeMap<&'static str, Usage>>;

/// Assembles all modules for the architectures of an assembler, as many at a time as there are processors.
fn assemble(ptxas: &Path, assembler: &Assembler, modules: &[PathBuf], usages: &mut Usages) -> Result<()> {
    let mut jobs = Vec::new();
    for module in modules {
        let text = fs::read_to_string(module).with_context(|| format!("could not read {}", module.display()))?;
        let target = between(&text, "\n.target ", "\n");
        let least = target.and_then(number).with_context(|| format!("{} is for {target:?}", module.display()))?;
        let architectures = assembler.architectures.iter().copied().filter(|arch| number(arch) >= Some(least));
        jobs.extend(architectures.map(|arch| (module, arch)));
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((module, arch)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = assemble_one(ptxas, module, arch);
                    results.lock().expect("no thread panics").push((*arch, result));
                }
            });
        }
    });
    for (arch, result) in results.into_inner().expect("no thread panics") {
        for (entry, usage) in result? {
            usages.entry(entry).or_default().insert(arch, usage);
        }
    }
    Ok(())
}

/// The number of an architecture: 90 of `sm_90`.
fn number(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.parse().ok()
}

fn assemble_one(ptxas: &Path, module: &Path, arch: &str) -> Result<Vec<(String, Usage)>> {
    let cubin = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(ptxas);
    command.arg("--verbose").arg(format!("--gpu-name={arch}")).arg("--output-file").arg(cubin.path()).arg(module);
    let finished = finish(&mut command, ASSEMBLE_LIMIT)?;
    let said = finished.stdout + &finished.stderr;
    ensure!(finished.status.success(), "{} does not assemble for {arch}:\n{said}", module.display());
    let usages = usages(&said);
    ensure!(!usages.is_empty(), "ptxas said nothing about the entries of {}:\n{said}", module.display());
    Ok(usages)
}

/// Reads what `ptxas --verbose` says: for each entry a line with its name, one with its memory, one with its registers.
fn usages(said: &str) -> Vec<(String, Usage)> {
    let mut usages: Vec<(String, Usage)> = Vec::new();
    for line in said.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            usages.push((name.to_owned(), Usage::default()));
        }
        let Some((_, usage)) = usages.last_mut() else { continue };
        // A function that an entry calls has a frame of its own, which counts for the entry.
        for (unit, field) in [
            (" bytes stack frame", &mut usage.stack),
            (" bytes spill stores", &mut usage.spill_stores),
            (" bytes spill loads", &mut usage.spill_loads),
            (" registers", &mut usage.registers),
        ] {
            if let Some(number) = before(line, unit) {
                *field = (*field).max(number);
            }
        }
    }
    usages
}

fn between<'a>(line: &'a str, start: &str, end: &str) -> Option<&'a str> {
    line.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

/// The number that stands right before `unit`.
fn before(line: &str, unit: &str) -> Option<u32> {
    line.split_once(unit)?.0.rsplit([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_entries_may_spill() {
        let (listed, most) = SPILLING[0];
        let spills = |stack| Usage { registers: 255, stack, spill_stores: 20, spill_loads: 28 };
        assert!(spills(most).is_allowed(listed) && !spills(most + 8).is_allowed(listed));
        assert!(!spills(8).is_allowed("shared_tile_f32_c1") && !spills(0).is_allowed("shared_tile_f32_c1"));
        assert!(Usage { registers: 255, ..Usage::default() }.is_allowed("shared_tile_f32_c1"));
    }

    #[test]
    fn the_oldest_architecture_is_assembled_for() {
        let all: Vec<_> = architectures().collect();
        assert_eq!(all[0], crate::kernels::ARCH.name(), "what is promised is tried");
        assert!(!is_strict("sm_70") && is_strict("sm_75"));
        assert!(all.is_sorted_by_key(|arch| number(arch)), "{all:?}");
    }

    #[test]
    fn what_ptxas_says_is_read() {
        let said = "\
ptxas info    : 0 bytes gmem, 65536 bytes cmem[3]
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    176 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 176 bytes cumulative stack size
";
        let usage = |registers, stack, spill_stores, spill_loads| Usage { registers, stack, spill_stores, spill_loads };
        assert_eq!(usages(said), [("one".to_owned(), usage(40, 0, 0, 0)), ("two".to_owned(), usage(255, 176, 12, 8))]);
        assert!(usages("ptxas fatal : no").is_empty());
    }
}
