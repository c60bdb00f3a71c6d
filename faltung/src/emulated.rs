//! The GPU's kernels on the CPU, every access checked: the same plan, the same entries, another executor.

use cuda_emulator::{Buffer, Counts, Emulator, Memory, OutOfMemory, Role};
use kernels_gpu::cuda_std::constant::ConstantMemory as _;
use kernels_gpu::cuda_std::{Global, GlobalMut};
use kernels_gpu::fft::passes;
use kernels_gpu::registry::{Function, MaskForm};
use kernels_gpu::teaching::constant_mask::MASK;
use kernels_gpu::util::planes;

use crate::image::{bytes_of, bytes_of_mut};
use crate::plan::{Launch, Limits, Passes, Place, Plan, Rows, Step, VariantChoice, device_pitch, later_passes};
use crate::rows::{HostRows, HostRowsMut};
use crate::strips::{Cut, Strip};
use crate::{Error, Pixel, PixelType, Problem, Result, memory};

/// What the emulated device, an H100, allows.
pub(crate) const LIMITS: Limits = Limits::H100;

/// A problem, ready to be emulated.
pub(crate) struct EmulatorConvolution {
    emulator: Emulator,
    plan: Plan,
    problem: Problem,
    /// Bytes that images may take.
    limit: usize,
    strips: Vec<Strip>,
}

/// A strip in the emulator's memory, with its result and the mask.
struct Resident {
    memory: Memory,
    source: Values,
    result: Values,
    /// Scratch memory and planes, if the plan has any.
    planes: Buffer<f32>,
    mask: Buffer<f32>,
    /// The coefficients of ordered sums, if the plan has a proof.
    ordered: Buffer<f32>,
}

/// An array of one of the three types.
#[derive(Debug)]
enum Values {
    U8(Buffer<u8>),
    U16(Buffer<u16>),
    F32(Buffer<f32>),
}

macro_rules! each_type {
    ($values:expr, $buffer:ident => $body:expr) => {
        match $values {
            Values::U8($buffer) => $body,
            Values::U16($buffer) => $body,
            Values::F32($buffer) => $body,
        }
    };
}

impl Values {
    /// An array that holds `bytes`, which are values of type `T`.
    fn upload(memory: &mut Memory, kind: PixelType, bytes: &[u8]) -> Result<Self> {
        fn values<T: Pixel>(bytes: &[u8]) -> Result<Vec<T>> {
            let mut values = memory::zeros(bytes.len() / size_of::<T>(), "for the emulator's source")?;
            bytes_of_mut(&mut values).copy_from_slice(bytes);
            Ok(values)
        }
        let values = match kind {
            PixelType::U8 => memory.try_upload("source", bytes).map(Self::U8),
            PixelType::U16 => memory.try_upload("source", &values(bytes)?).map(Self::U16),
            PixelType::F32 => memory.try_upload("source", &values(bytes)?).map(Self::F32),
        };
        values.map_err(short)
    }

    /// An array of `length` values that nothing wrote.
    fn allocate(memory: &mut Memory, kind: PixelType, length: usize, role: Role) -> Result<Self> {
        let values = match kind {
            PixelType::U8 => memory.try_allocate("result", length, role).map(Self::U8),
            PixelType::U16 => memory.try_allocate("result", length, role).map(Self::U16),
            PixelType::F32 => memory.try_allocate("result", length, role).map(Self::F32),
        };
        values.map_err(short)
    }

    fn global(&self) -> Global<u8> {
        each_type!(self, buffer => buffer.global().cast())
    }

    fn global_mut(&self) -> GlobalMut<u8> {
        each_type!(self, buffer => buffer.global_mut().cast())
    }

    fn download(&self, memory: &Memory) -> Vec<u8> {
        each_type!(self, buffer => bytes_of(&memory.download(buffer)).to_vec())
    }

    /// The first of `wanted`'s values that nothing has written, and their number.
    fn unwritten(&self, memory: &Memory, wanted: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        each_type!(self, buffer => memory.unwritten_among(buffer, wanted))
    }
}

/// The error for memory that the emulator could not have.
pub(crate) fn short(short: OutOfMemory) -> Error {
    let free = memory::free().unwrap_or(0).into();
    Error::HostMemory { what: format!("for {} on the emulator", short.what), needed: short.bytes.into(), free }
}

/// What a launch came to.
pub(crate) fn failed(kernel: &str, error: cuda_emulator::Error) -> Error {
    match error {
        cuda_emulator::Error::Memory { short: found, .. } => short(found),
        other => Error::Emulator { kernel: kernel.to_owned(), report: other.to_string() },
    }
}

impl EmulatorConvolution {
    /// Plans the problem for an H100, whose memory has no end but `memory_limit`.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::DeviceMemory`].
    pub(crate) fn new(
        seed: u64,
        problem: &Problem,
        choice: VariantChoice,
        memory_limit: Option<usize>,
    ) -> Result<Self> {
        let plan = Plan::new(problem, LIMITS, choice)?;
        let limit = memory_limit.unwrap_or(usize::MAX);
        let cut = match (Cut::new(problem, &plan, limit), plan.without_scratch(choice)) {
            (Ok(cut), _) => cut,
            (Err(needed), None) => return Err(Error::DeviceMemory { needed, free: limit, total: limit }),
            (Err(_), Some(other)) => return Self::new(seed, problem, other, memory_limit),
        };
        let (emulator, problem) = (Emulator::new().seed(seed), problem.clone());
        Ok(Self { emulator, plan, problem, limit, strips: cut.strips })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The strips that the image is computed in; one is the whole image.
    pub(crate) fn strips(&self) -> &[Strip] {
        &self.strips
    }

    /// One image in, one out, strip by strip.
    ///
    /// # Errors
    /// [`Error::Emulator`] if the kernel did something wrong, or left an output unwritten; [`Error::HostMemory`].
    pub(crate) fn run(&self, source: HostRows<'_>, mut result: HostRowsMut<'_>) -> Result<()> {
        for strip in &self.strips {
            let mut resident = self.resident(strip, source)?;
            self.launch(self.emulator, &Rows::of(strip.height, strip.rows()), &mut resident)?;
            self.collect(strip, &resident, &mut result)?;
        }
        Ok(())
    }

    /// Runs the kernel once and counts its accesses.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Error::DeviceMemory`] if the image would take strips.
    pub(crate) fn counts(&self, source: HostRows<'_>) -> Result<Counts> {
        self.whole()?;
        let strip = &self.strips[0];
        let mut resident = self.resident(strip, source)?;
        self.launch(self.emulator.counting(true), &Rows::of(strip.height, strip.rows()), &mut resident)
    }

    /// What is counted is a whole image.
    fn whole(&self) -> Result<()> {
        if self.strips.len() == 1 {
            return Ok(());
        }
        let row = self.row_pitch(self.problem.format().input)
            + self.row_pitch(self.problem.format().output)
            + self.plan.planes_row_bytes();
        let needed = row * self.problem.height() + self.plan.scratch_bytes();
        Err(Error::DeviceMemory { needed, free: self.limit, total: self.limit })
    }

    /// Bytes from one row of an image of these values to the next.
    fn row_pitch(&self, values: PixelType) -> usize {
        device_pitch(self.problem.row_values(), values.bytes()) * values.bytes()
    }

    /// Puts the rows of a strip into a fresh memory, at the plan's pitch, and the mask where the kernel expects it and
    /// nothing where it does not.
    fn resident(&self, strip: &Strip, source: HostRows<'_>) -> Result<Resident> {
        let format = self.problem.format();
        let (row, pitch) = (self.problem.row_values() * format.input.bytes(), self.row_pitch(format.input));
        // Between the rows lie ones, NaN in f32: a kernel may read them along, but not use them.
        let mut rows = memory::zeros(strip.height * pitch, "for the emulator's source")?;
        rows.fill(0xff_u8);
        let to = rows.chunks_exact_mut(pitch);
        for (to, from) in to.zip(strip.source.iter().cloned().flatten()) {
            to[..row].copy_from_slice(source.at(from));
        }
        let mut memory = Memory::new();
        let source = Values::upload(&mut memory, format.input, &rows)?;
        drop(rows);
        let result_values = strip.height * self.row_pitch(format.output) / format.output.bytes();
        let role = match self.plan.entry.variant.spec().mask_form {
            // A block stores results, and may then compute some or all of them again.
            MaskForm::Spectrum | MaskForm::SpectrumOfPasses | MaskForm::ProvenFactors(_) => Role::Scratch,
            MaskForm::Rows(_) | MaskForm::Factors(_) | MaskForm::FixedPoint | MaskForm::SeparableFixedPoint => {
                Role::Output
            }
        };
        let result = Values::allocate(&mut memory, format.output, result_values, role)?;
        let planes = (self.plan.planes_row_bytes() * strip.height + self.plan.scratch_bytes()) / size_of::<f32>();
        let planes = memory.try_upload("planes", &vec![f32::NAN; planes]).map_err(short)?;
        let coefficients = self.plan.coefficients(&self.problem);
        let mask = if self.plan.entry.variant.reads_constant_memory() {
            memory.set_constant(MASK::SYMBOL, &coefficients);
            memory.try_upload("mask", &[])
        } else {
            memory.try_upload("mask", &coefficients)
        };
        let ordered = self.plan.ordered_coefficients(&self.problem).unwrap_or_default();
        let ordered = memory.try_upload("mask of ordered sums", &ordered).map_err(short)?;
        Ok(Resident { memory, source, result, planes, mask: mask.map_err(short)?, ordered })
    }

    /// Copies a strip's outputs to where they belong.
    fn collect(&self, strip: &Strip, resident: &Resident, result: &mut HostRowsMut<'_>) -> Result<()> {
        let bytes = self.problem.format().output.bytes();
        let (row, pitch) = (self.problem.row_values() * bytes, self.row_pitch(self.problem.format().output));
        // Twice: as values, and their bytes.
        let downloaded = strip.height as u64 * pitch as u64 * 2;
        if !memory::has_room(downloaded) {
            return Err(short(OutOfMemory { bytes: downloaded, what: "the result" }));
        }
        let values = resident.result.download(&resident.memory);
        for (to, from) in strip.outputs.clone().zip(values.chunks_exact(pitch).skip(strip.first)) {
            result.at_mut(to).copy_from_slice(&from[..row]);
        }
        Ok(())
    }

    /// Runs the three passes of `fft_passes`.
    fn transform(
        &self,
        emulator: Emulator,
        memory: &mut Memory,
        Passes { pairs, channels, params }: Passes,
        (image, result, scratch, mask): (Global<u8>, GlobalMut<u8>, GlobalMut<u8>, Global<f32>),
    ) -> std::result::Result<Counts, cuda_emulator::Error> {
        let Function::F32(rows) = self.plan.entry.function else { unreachable!("its pixels are f32") };
        let [columns, back] = later_passes(channels);
        let back_function = passes::BACK_FUNCTIONS[channels as usize - 1];
        let [of_rows, of_columns, of_back] = passes::shapes(pairs)
            .map(|(grid, block, shared_bytes)| cuda_emulator::Launch::flat(grid, block, shared_bytes));
        // SAFETY: the emulator checks every access; none reaches memory of this program.
        let run = || unsafe { rows(image.cast(), scratch, mask, params) };
        let mut counts = emulator.launch(self.plan.entry.symbol, &of_rows, memory, run)?;
        // SAFETY: as above.
        let run = || unsafe { passes::fft_passes_columns(scratch.cast(), mask, params, channels) };
        counts += emulator.launch(columns.symbol, &of_columns, memory, run)?;
        // SAFETY: as above.
        let run = || unsafe { back_function(scratch.cast(), image.cast(), result.cast(), mask, params) };
        counts += emulator.launch(back.symbol, &of_back, memory, run)?;
        Ok(counts)
    }

    /// Computes rows of an image.
    fn launch(&self, emulator: Emulator, rows: &Rows, resident: &mut Resident) -> Result<Counts> {
        let Resident { memory, source, result, planes: between, mask, ordered } = resident;
        let (source, mask, ordered) = (source.global(), mask.global(), ordered.global());
        let planes_bytes = between.len() * size_of::<f32>();
        let from = |place: Place| match place {
            Place::Source(bytes) => source.offset(bytes as isize),
            Place::Planes(bytes) => between.global().cast::<u8>().offset(bytes as isize),
            Place::Result(_) => unreachable!("a result is not read"),
        };
        let to = |place: Place| match place {
            Place::Result(bytes) => result.global_mut().offset(bytes as isize),
            Place::Planes(bytes) => between.global_mut().cast::<u8>().offset(bytes as isize),
            Place::Source(_) => unreachable!("a source is not written"),
        };
        let entry = self.plan.entry;
        let mut counts = Counts::default();
        for step in self.plan.steps(self.problem.format(), rows, planes_bytes) {
            let (symbol, launched) = match step {
                Step::Convolve {
                    launch: Launch { grid, block, shared_bytes, params, .. },
                    from: source,
                    to: result,
                } => {
                    let (from, to) = (from(source), to(result));
                    let launch = cuda_emulator::Launch::flat(grid, block, shared_bytes);
                    let launched = emulator.launch(entry.symbol, &launch, memory, || {
                        // SAFETY: the emulator checks every access; none reaches memory of this program.
                        unsafe {
                            match entry.function {
                                Function::U8(kernel) => kernel(from, to, mask, params),
                                Function::U16(kernel) => kernel(from.cast(), to, mask, params),
                                Function::F32(kernel) => kernel(from.cast(), to, mask, params),
                            }
                        }
                    });
                    (entry.symbol, launched)
                }
                Step::Transform { passes, from: source, to: result, scratch } => {
                    let launched =
                        self.transform(emulator, memory, passes, (from(source), to(result), to(scratch), mask));
                    (entry.symbol, launched)
                }
                Step::Convert { conversion, grid, params, from: source, to: result } => {
                    let (from, to) = (from(source), to(result));
                    let launch = cuda_emulator::Launch::flat(grid, planes::BLOCK, 0);
                    // SAFETY: the emulator checks every access; none reaches memory of this program.
                    let launched = emulator.launch(conversion.symbol, &launch, memory, || unsafe {
                        (conversion.function)(from, to, params)
                    });
                    (conversion.symbol, launched)
                }
                Step::Prove { conversion, grid, shared_bytes, params, planes } => {
                    let (planes, to) = (from(planes).cast(), result.global_mut());
                    let launch = cuda_emulator::Launch::flat(grid, planes::proven::BLOCK, shared_bytes);
                    // SAFETY: the emulator checks every access; none reaches memory of this program.
                    let launched = emulator.launch(conversion.symbol, &launch, memory, || unsafe {
                        (conversion.function)(planes, source, to, ordered, params)
                    });
                    (conversion.symbol, launched)
                }
            };
            counts += launched.map_err(|error| failed(symbol, error))?;
        }
        let bytes = self.problem.format().output.bytes();
        let (pitch, row) = (self.row_pitch(self.problem.format().output) / bytes, self.problem.row_values());
        let wanted = |index: usize| index % pitch < row && rows.outputs.contains(&(index / pitch));
        match result.unwritten(memory, wanted) {
            None => Ok(counts),
            Some((first, count)) => {
                let report = format!("{count} outputs were not written, the first is result[{first}]");
                Err(Error::Emulator { kernel: entry.symbol.to_owned(), report })
            }
        }
    }
}

#[cfg(test)]
mod proven;
#[cfg(test)]
mod separable;
#[cfg(test)]
mod separable_tensor_core;

#[cfg(test)]
mod tests;
