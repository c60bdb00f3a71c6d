//! The GPU's kernels on the CPU, every access checked: the same plan, the same entries, another executor.

use cuda_emulator::{Buffer, Counts, Emulator, Limits, Memory, Role};
use kernels_gpu::constant_mask::MASK;
use kernels_gpu::cuda_std::constant::ConstantMemory as _;
use kernels_gpu::entries::Function;

use crate::plan::{self, Plan, VariantChoice};
use crate::{Error, Problem, Result};

/// A problem, ready to be emulated.
pub(crate) struct EmulatorConvolution {
    emulator: Emulator,
    plan: Plan,
    memory: Memory,
    source: Buffer<f32>,
    result: Buffer<f32>,
    mask: Buffer<f32>,
    coefficients: Vec<f32>,
}

impl std::fmt::Debug for EmulatorConvolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmulatorConvolution").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl EmulatorConvolution {
    /// Plans the problem for an H100.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(crate) fn new(seed: u64, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        let plan = Plan::new(problem, plan::Limits { shared_bytes: Limits::H100.shared_bytes.into() }, choice)?;
        let pixels = problem.width() * problem.height();
        let coefficients = problem.window().coefficients().to_vec();
        let mut memory = Memory::new();
        let source = memory.allocate("source", pixels, Role::Scratch);
        let result = memory.allocate("result", pixels, Role::Output);
        let mask = Self::place_mask(&plan, &mut memory, &coefficients);
        Ok(Self { emulator: Emulator::new().seed(seed), plan, memory, source, result, mask, coefficients })
    }

    /// Puts the mask where the kernel expects it, and nothing where it does not.
    fn place_mask(plan: &Plan, memory: &mut Memory, coefficients: &[f32]) -> Buffer<f32> {
        if plan.entry.variant.mask_is_constant() {
            memory.set_constant(MASK::SYMBOL, coefficients);
            return memory.upload("mask", &[]);
        }
        memory.upload("mask", coefficients)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn run(&mut self, source: &[f32], result: &mut [f32]) -> Result<()> {
        self.upload(source);
        self.execute()?;
        result.copy_from_slice(&self.download());
        Ok(())
    }

    /// A fresh memory with this source, and a result that nothing has written.
    pub(crate) fn upload(&mut self, source: &[f32]) {
        self.memory = Memory::new();
        self.source = self.memory.upload("source", source);
        self.result = self.memory.allocate("result", source.len(), Role::Output);
        self.mask = Self::place_mask(&self.plan, &mut self.memory, &self.coefficients);
    }

    /// Runs the kernel once.
    ///
    /// # Errors
    /// [`Error::Emulator`] if it did something wrong, or left an output unwritten.
    pub(crate) fn execute(&mut self) -> Result<()> {
        self.launch(self.emulator).map(|_| ())
    }

    /// Runs the kernel once and counts its accesses.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub(crate) fn counts(&mut self) -> Result<Counts> {
        self.launch(self.emulator.counting(true))
    }

    pub(crate) fn download(&self) -> Vec<f32> {
        self.memory.download(&self.result)
    }

    fn launch(&mut self, emulator: Emulator) -> Result<Counts> {
        let wrong = |report: String| Error::Emulator { kernel: self.plan.entry.symbol.to_owned(), report };
        let Function::F32(kernel) = self.plan.entry.function();
        let (source, result, mask) = (self.source.global(), self.result.global_mut(), self.mask.global());
        let mut counts = Counts::default();
        for one in &self.plan.launches {
            let launch = cuda_emulator::Launch::flat(one.grid, one.block, one.shared_bytes);
            let params = one.params;
            counts += emulator
                .launch(self.plan.entry.symbol, &launch, &mut self.memory, || {
                    // SAFETY: the emulator checks every access; none reaches memory of this program.
                    unsafe { kernel(source, result, mask, params) }
                })
                .map_err(|error| wrong(error.to_string()))?;
        }
        match self.memory.unwritten(&self.result) {
            None => Ok(counts),
            Some((first, count)) => {
                Err(wrong(format!("{count} outputs were not written, the first is result[{first}]")))
            }
        }
    }
}
