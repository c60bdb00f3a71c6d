//! Statistics of the machine code (SASS) that NVIDIA's assembler makes of the PTX: registers, spills, shared memory,
//! instructions. No GPU is needed.
//!
//! A driver has an assembler of its own version, so its machine code may differ a little.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Arch, Build, CudaBuilderError};

/// The machine code of all kernels of a build on one architecture. Its `Display` text is a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SassStatistics {
    /// The architecture.
    pub arch: Arch,
    /// The assembler.
    pub ptxas: PathBuf,
    /// The kernels in the order of their names.
    pub kernels: Vec<KernelStatistics>,
}

/// The machine code of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStatistics {
    /// The symbol.
    pub name: String,
    /// The registers of a thread.
    pub registers: u32,
    /// The stack frame of a thread in bytes: arrays in local memory, and spilled registers.
    pub stack_bytes: u32,
    /// The bytes that instructions store into local memory for lack of registers.
    pub spill_store_bytes: u32,
    /// The bytes that instructions load back.
    pub spill_load_bytes: u32,
    /// The shared memory of fixed length of a block in bytes. Dynamic shared memory is not in it.
    pub shared_bytes: u32,
    /// The number of instructions of each opcode in the code, such as `FFMA`, without modifiers and padding. None
    /// without `nvdisasm`.
    pub instructions: Option<BTreeMap<String, u32>>,
}

impl KernelStatistics {
    /// The number of all instructions in the code. None without `nvdisasm`.
    #[must_use]
    pub fn instruction_count(&self) -> Option<u32> {
        self.instructions.as_ref().map(|all| all.values().sum())
    }
}

impl fmt::Display for SassStatistics {
    /// A line for each kernel, with the most frequent instructions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The opcodes that a line shows.
        const SHOWN: usize = 6;
        let width = self.kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0).max(6);
        write!(f, "{:<width$} registers  stack spills shared  instructions on {}", "kernel", self.arch)?;
        for kernel in &self.kernels {
            let spills = kernel.spill_store_bytes + kernel.spill_load_bytes;
            let KernelStatistics { name, registers, stack_bytes, shared_bytes, .. } = kernel;
            write!(f, "\n{name:<width$} {registers:>9} {stack_bytes:>6} {spills:>6} {shared_bytes:>6}")?;
            if let Some(instructions) = &kernel.instructions {
                let mut sorted: Vec<_> = instructions.iter().collect();
                sorted.sort_by_key(|&(name, count)| (std::cmp::Reverse(*count), name.clone()));
                let shown: Vec<_> = sorted.iter().take(SHOWN).map(|(name, count)| format!("{count} {name}")).collect();
                let more = if sorted.len() > SHOWN { " …" } else { "" };
                write!(f, "  {}: {}{more}", kernel.instruction_count().unwrap_or(0), shown.join(", "))?;
            }
        }
        Ok(())
    }
}

impl Build {
    /// Assembles the PTX for an architecture and reads what its kernels take. None if there is no assembler.
    ///
    /// The assembler is `ptxas`: the program that the variable `PTXAS` names, or that is in `PATH`, or in `bin` of the
    /// folder that `CUDA_PATH` or `CUDA_HOME` names, or in `/usr/local/cuda/bin`. `nvdisasm` beside it or in `PATH`
    /// counts the instructions. Both are parts of CUDA and, without CUDA, of the packages `nvidia-cuda-nvcc` and
    /// `nvidia-cuda-nvdisasm` on PyPI.
    ///
    /// In a `build.rs`, each line becomes a message of cargo:
    ///
    /// ```no_run
    /// use cuda_builder::{Arch, CudaBuilder};
    ///
    /// let build = CudaBuilder::new("../kernels").arch(Arch::Sm80).build_for_cargo().unwrap();
    /// if let Some(statistics) = build.sass_statistics(Arch::Sm90).unwrap() {
    ///     statistics.to_string().lines().for_each(|line| println!("cargo::warning={line}"));
    ///     assert!(statistics.kernels.iter().all(|kernel| kernel.spill_store_bytes == 0), "{statistics}");
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CudaBuilderError::Failed`] if the assembler refuses the PTX, as one does that is older than the architecture.
    /// [`CudaBuilderError::Start`], [`CudaBuilderError::File`], [`CudaBuilderError::Answer`].
    pub fn sass_statistics(&self, arch: Arch) -> Result<Option<SassStatistics>, CudaBuilderError> {
        let Some(ptxas) = find_ptxas() else { return Ok(None) };
        statistics(&self.text, arch, ptxas).map(Some)
    }
}

/// The statistics of a PTX text.
fn statistics(text: &str, arch: Arch, ptxas: PathBuf) -> Result<SassStatistics, CudaBuilderError> {
    let folder = Temporary::new()?;
    let (source, cubin) = (folder.0.join("kernels.ptx"), folder.0.join("kernels.cubin"));
    fs::write(&source, text).map_err(CudaBuilderError::file("write", &source))?;
    let mut command = Command::new(&ptxas);
    command.args(["--verbose", &format!("--gpu-name={arch}"), "--output-file"]).arg(&cubin).arg(&source);
    let mut kernels = usages(&said(&mut command, &ptxas)?);
    if kernels.is_empty() {
        return Err(CudaBuilderError::Answer {
            command: ptxas.display().to_string(),
            missing: "a line about the registers of a kernel",
        });
    }
    if let Some(nvdisasm) = find_beside(&ptxas, "nvdisasm") {
        let mut code = instructions(&said(Command::new(&nvdisasm).arg("--print-code").arg(&cubin), &nvdisasm)?);
        for kernel in &mut kernels {
            kernel.instructions = code.remove(&kernel.name);
        }
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(SassStatistics { arch, ptxas, kernels })
}

/// A folder that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self, CudaBuilderError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self::numbered(&MADE)
    }

    /// Creates the folder with the next free number. An earlier process with the same id may have left folders.
    fn numbered(next: &AtomicU64) -> Result<Self, CudaBuilderError> {
        loop {
            let name = format!("cuda-builder-{}-{}", std::process::id(), next.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(folder.clone())).map_err(CudaBuilderError::file("create", folder)),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A folder that can't be removed stays among the system's temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a program writes to standard output and standard error.
fn said(command: &mut Command, program: &Path) -> Result<String, CudaBuilderError> {
    let name = || program.display().to_string();
    let output = command.output().map_err(|source| CudaBuilderError::Start { program: name(), source })?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(CudaBuilderError::Failed { command: name(), status: output.status.to_string(), stderr: text })
}

fn find_ptxas() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PTXAS") {
        return Some(path.into());
    }
    let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let folders = toolkits.chain(["/usr/local/cuda".into()]).map(|folder| folder.join("bin"));
    in_path().into_iter().chain(folders).map(|folder| folder.join(executable("ptxas"))).find(|path| path.is_file())
}

/// A program in the folder of another one, or in `PATH`.
fn find_beside(program: &Path, name: &str) -> Option<PathBuf> {
    let beside = program.parent().map(Path::to_owned);
    beside.into_iter().chain(in_path()).map(|folder| folder.join(executable(name))).find(|path| path.is_file())
}

fn in_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn executable(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

/// Reads what `ptxas --verbose` says: for each kernel a line with its name, one with its memory, one with its
/// registers.
fn usages(said: &str) -> Vec<KernelStatistics> {
    let mut kernels: Vec<KernelStatistics> = Vec::new();
    for line in said.lines() {
        if let Some(name) = line.split_once("Compiling entry function '").and_then(|(_, rest)| rest.split_once('\'')) {
            kernels.push(KernelStatistics { name: name.0.to_owned(), ..Default::default() });
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        // A function that a kernel calls has a frame of its own, which counts for the kernel.
        for (unit, field) in [
            (" bytes stack frame", &mut kernel.stack_bytes),
            (" bytes spill stores", &mut kernel.spill_store_bytes),
            (" bytes spill loads", &mut kernel.spill_load_bytes),
            (" registers", &mut kernel.registers),
            (" bytes smem", &mut kernel.shared_bytes),
        ] {
            let number = line.split_once(unit).and_then(|(before, _)| before.rsplit([' ', ',']).next()?.parse().ok());
            *field = (*field).max(number.unwrap_or(0));
        }
    }
    kernels
}

/// Counts the opcodes of each section `.text.NAME:` of what `nvdisasm` writes.
fn instructions(code: &str) -> BTreeMap<String, BTreeMap<String, u32>> {
    let mut kernels = BTreeMap::<String, BTreeMap<String, u32>>::new();
    let mut current = None;
    for line in code.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            current = Some(kernels.entry(name.to_owned()).or_default());
        }
        // `/*0010*/  @!P0 LDG.E R2, [R4] ;`
        let Some(instruction) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else { continue };
        let mut words = instruction.1.split_whitespace().skip_while(|word| word.starts_with(['@', '{']));
        let opcode = words.next().and_then(|word| word.split(['.', ';']).next()).unwrap_or_default();
        // NOP fills the end of the code.
        if let (Some(counts), true) = (&mut current, !opcode.is_empty() && opcode != "NOP") {
            *counts.entry(opcode.to_owned()).or_default() += 1;
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
ptxas info    : 0 bytes gmem, 65536 bytes cmem[3]
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    176 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 176 bytes cumulative stack size, 2048 bytes smem
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 380 bytes cmem[0]
";

    const CODE: &str = "\
\t.section\t.text.one,\"ax\",@progbits
one:
.text.one:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!P1 LDG.E.CONSTANT R2, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E R3, desc[UR4][R2.64] ;
.L_x_0:
        /*0040*/                   BRA `(.L_x_0);
        /*0050*/                   NOP;
.text.two:
        /*0000*/                   EXIT ;
";

    #[test]
    fn what_the_programs_say_is_read() {
        let kernels = usages(SAID);
        let [two, one] = &kernels[..] else { panic!("{kernels:?}") };
        assert_eq!((two.name.as_str(), two.registers, two.stack_bytes, two.shared_bytes), ("two", 255, 176, 2048));
        assert_eq!((two.spill_store_bytes, two.spill_load_bytes), (12, 8));
        assert_eq!((one.name.as_str(), one.registers, one.stack_bytes, one.shared_bytes), ("one", 40, 0, 0));
        assert!(usages("ptxas fatal : no").is_empty());
        let code = instructions(CODE);
        let counts: Vec<_> = code["one"].iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(counts, [("BRA", 1), ("EXIT", 1), ("LDC", 1), ("LDG", 2)]);
        assert_eq!(code["two"].len(), 1);
    }

    #[test]
    fn the_table_has_a_line_for_each_kernel() {
        let mut kernels = usages(SAID);
        kernels[1].instructions = instructions(CODE).remove("one");
        let text = SassStatistics { arch: Arch::Sm90, ptxas: "ptxas".into(), kernels }.to_string();
        assert_eq!(
            text,
            "kernel registers  stack spills shared  instructions on sm_90\n\
             two          255    176     20   2048\n\
             one           40      0      0      0  5: 2 LDG, 1 BRA, 1 EXIT, 1 LDC"
        );
    }

    #[test]
    fn a_folder_that_is_left_over_is_passed_over() {
        // Numbers that no other test reaches.
        let next = AtomicU64::new(1 << 40);
        let first = Temporary::numbered(&next).unwrap();
        let second = Temporary::numbered(&AtomicU64::new(1 << 40)).unwrap();
        assert!(first.0.is_dir() && second.0.is_dir() && first.0 != second.0);
    }

    /// Programs that stand in the place of NVIDIA's.
    #[cfg(unix)]
    #[test]
    fn a_program_that_refuses_is_an_error_and_one_without_a_disassembler_gives_no_instructions() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, body: &str| {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let good = program("ptxas", &format!("cat <<'END'\n{SAID}END"));
        assert!(find_beside(&folder.path().join("ptxas"), "no-such-program").is_none());
        program("nvdisasm", &format!("cat <<'END'\n{CODE}END"));
        let found = statistics("text", Arch::Sm90, good).unwrap();
        assert_eq!(found.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(found.kernels[0].instruction_count(), Some(5));

        let bad = program("bad-ptxas", "echo 'ptxas fatal : Unsupported .version' >&2; exit 255");
        let error = statistics("text", Arch::Sm90, bad).unwrap_err().to_string();
        assert!(error.contains("bad-ptxas") && error.contains("Unsupported .version"), "{error}");
        let silent = statistics("text", Arch::Sm90, program("silent", "")).unwrap_err();
        assert!(matches!(silent, CudaBuilderError::Answer { .. }), "{silent}");
        let missing = statistics("text", Arch::Sm90, folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, CudaBuilderError::Start { .. }), "{missing}");
    }
}
