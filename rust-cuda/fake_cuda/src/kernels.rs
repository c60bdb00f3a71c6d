//! Kernels, which the emulator runs on copies of the memory that they use.
//!
//! Each pointer of a kernel becomes an array of the emulator. It begins at the pointer and is as long as the launch's
//! parameters allow. The emulator therefore finds accesses out of bounds and races. Elements that the kernel changed
//! are copied back.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;

use cuda_emulator::{Emulator, Error};
use kernels_gpu::abi::kernel::Kernel;
use kernels_gpu::abi::params::Params;
use kernels_gpu::abi::pixel::PixelType;
use kernels_gpu::cuda_std::{Global, GlobalMut, Scalar};
use kernels_gpu::ndimage::params::ArrayParams;
use kernels_gpu::ndimage::{self, Instance};
use kernels_gpu::registry::{Entry, Function, entries};
use kernels_gpu::util::fma_peak::FMA_RATE;
use kernels_gpu::util::memcpy::{COPY_QUADS, copy_quads};
use kernels_gpu::util::planes::proven::{self, ProvenParams};
use kernels_gpu::util::planes::{Conversion, PlaneParams, conversions};

use crate::code::Code;
use crate::driver::{Failure, Outcome, State};
use crate::page_locked::PageLocked;
use crate::table::Handle;
use crate::windows::{ArrayWindow, Window, array_spans};
use crate::work::{Access, Span};

/// A launch with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    symbol: &'static str,
    module: Handle,
    shape: cuda_emulator::Launch,
    task: Task,
}

/// The index of the area that a kernel writes in [`Launch::areas`].
const RESULT: usize = 1;

/// The kinds of kernels, with their arguments.
#[derive(Clone, Copy, Debug)]
enum Task {
    Convolve(Convolve),
    CopyVectors(CopyVectors),
    Convert(Convert),
    Prove(Prove),
    FilterArray(FilterArray),
    /// A kernel that computes in registers and writes nothing.
    Nothing,
}

/// A convolution with source, result and mask.
#[derive(Clone, Copy, Debug)]
struct Convolve {
    entry: &'static Entry,
    source: u64,
    result: u64,
    mask: u64,
    params: Params,
}

/// A copy of vectors of four `f32`.
#[derive(Clone, Copy, Debug)]
struct CopyVectors {
    from: u64,
    to: u64,
    quads: u32,
}

/// A conversion between an interleaved image and planes.
#[derive(Clone, Copy, Debug)]
struct Convert {
    conversion: &'static Conversion,
    from: u64,
    to: u64,
    params: PlaneParams,
}

/// A conversion of planes to integers with a proof.
#[derive(Clone, Copy, Debug)]
struct Prove {
    conversion: &'static proven::Conversion,
    planes: u64,
    source: u64,
    result: u64,
    mask: u64,
    params: ProvenParams,
}

/// A filter on arrays with any strides.
#[derive(Clone, Copy, Debug)]
struct FilterArray {
    instance: &'static Instance,
    input: u64,
    output: u64,
    taps: u64,
    params: ArrayParams,
}

/// The pixel type of a code.
fn pixel_of(code: u32) -> Option<PixelType> {
    [PixelType::U8, PixelType::U16, PixelType::F32].into_iter().find(|pixel| pixel.code() == code)
}

/// Parameter structures of kernels, which consist of numbers.
trait Numbers: Copy {}
impl Numbers for Params {}
impl Numbers for PlaneParams {}
impl Numbers for ProvenParams {}
impl Numbers for ArrayParams {}

/// The parameters of a kernel.
fn parameters<P: Numbers>(bytes: &[u8], symbol: &str) -> P {
    assert_eq!(bytes.len(), size_of::<P>(), "bytes of the parameters of {symbol}");
    // SAFETY: there are enough bytes, and every bit pattern of numbers is a value.
    unsafe { bytes.as_ptr().cast::<P>().read_unaligned() }
}

impl Launch {
    /// The launch of a kernel, with its arguments as bytes.
    pub(crate) fn new(
        kernel: Kernel,
        module: Handle,
        (grid, block, shared_bytes): ([u32; 3], [u32; 3], u32),
        arguments: Vec<Vec<u8>>,
    ) -> Outcome<Self> {
        let address = |index: usize| u64::from_ne_bytes(arguments[index][..8].try_into().expect("a pointer's bytes"));
        let task = if kernel.symbol == FMA_RATE.symbol {
            Task::Nothing
        } else if kernel.symbol == COPY_QUADS.symbol {
            let quads = u32::from_ne_bytes(arguments[2][..4].try_into().expect("a number's bytes"));
            Task::CopyVectors(CopyVectors { from: address(0), to: address(1), quads })
        } else if let Some(entry) = entries().find(|entry| entry.symbol == kernel.symbol) {
            let params = parameters::<Params>(&arguments[3], entry.symbol);
            Task::Convolve(Convolve { entry, source: address(0), result: address(1), mask: address(2), params })
        } else if let Some(conversion) = conversions().find(|conversion| conversion.symbol == kernel.symbol) {
            let params = parameters::<PlaneParams>(&arguments[2], conversion.symbol);
            Task::Convert(Convert { conversion, from: address(0), to: address(1), params })
        } else if let Some(conversion) = proven::CONVERSIONS.iter().find(|one| one.symbol == kernel.symbol) {
            let params = parameters::<ProvenParams>(&arguments[4], conversion.symbol);
            let [planes, source, result, mask] = [0, 1, 2, 3].map(address);
            Task::Prove(Prove { conversion, planes, source, result, mask, params })
        } else if let Some(instance) = ndimage::instances().find(|instance| instance.symbol == kernel.symbol) {
            let params = parameters::<ArrayParams>(&arguments[3], instance.symbol);
            Task::FilterArray(FilterArray { instance, input: address(0), output: address(1), taps: address(2), params })
        } else {
            let text = format!("this driver can't run the kernel {}", kernel.symbol);
            return Err(Failure::misuse(Code::NOT_SUPPORTED, text));
        };
        let shape = cuda_emulator::Launch { grid, block, shared_bytes };
        Ok(Self { symbol: kernel.symbol, module, shape, task })
    }

    pub(crate) fn symbol(&self) -> &'static str {
        self.symbol
    }

    /// The accesses of the kernel.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        let areas = self.areas().into_iter().enumerate();
        areas.map(|(index, (start, bytes))| Access { start, bytes, writes: index == RESULT }).collect()
    }

    /// The areas that the kernel uses: addresses and sizes in bytes. It writes the area [`RESULT`] alone.
    fn areas(&self) -> Vec<(u64, usize)> {
        match self.task {
            Task::Convolve(Convolve { entry, source, result, mask, params }) => {
                let bytes = |pitch: i32, pixel: PixelType| params.height as usize * pitch as usize * pixel.bytes();
                let output = pixel_of(params.result_kind).unwrap_or(PixelType::F32);
                let mut areas =
                    vec![(source, bytes(params.src_pitch, entry.pixel)), (result, bytes(params.dst_pitch, output))];
                if !entry.variant.reads_constant_memory() {
                    areas.push((mask, 1));
                }
                areas
            }
            Task::CopyVectors(CopyVectors { from, to, quads }) => {
                vec![(from, quads as usize * 16), (to, quads as usize * 16)]
            }
            Task::Convert(Convert { conversion, from, to, params }) => {
                let (source, destination) = sizes(conversion, params);
                vec![(from, source), (to, destination)]
            }
            Task::Prove(Prove { conversion, planes, source, result, mask, params }) => {
                let bytes = conversion.pixel.bytes();
                let pitch = params.convolution.dst_pitch as usize * bytes;
                let written =
                    (result + (params.convolution.first_row as usize * pitch) as u64, params.rows as usize * pitch);
                let read = params.convolution.height as usize * params.convolution.src_pitch as usize * bytes;
                vec![(source, read), written, (planes, planes_of_proof(conversion, params)), (mask, 1)]
            }
            Task::FilterArray(FilterArray { instance, input, output, params, .. }) => {
                let [from, to] = array_spans(instance, &params);
                vec![from.at(input), to.at(output)]
            }
            Task::Nothing => Vec::new(),
        }
    }

    /// The addresses that the kernel uses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.areas().into_iter().map(|(address, _)| address)
    }

    /// The page-locked memory that the kernel uses.
    pub(crate) fn host_spans(&self, page_locked: &PageLocked) -> Vec<Span> {
        let span = |(address, bytes): (u64, usize)| {
            let start = usize::try_from(address).ok()?;
            let area = page_locked.area(start)?;
            Some(Span { start, bytes: bytes.min(area.bytes - (start - area.start)) })
        };
        self.areas().into_iter().filter_map(span).collect()
    }
}

/// The bytes that a conversion reads, and those that it writes.
fn sizes(conversion: &Conversion, params: PlaneParams) -> (usize, usize) {
    let (rows, channels) = (params.rows as usize, conversion.channels as usize);
    let image = rows * params.interleaved_pitch as usize * conversion.pixel.bytes();
    let planes =
        ((channels - 1) * params.plane_stride as usize + rows * params.plane_pitch as usize) * size_of::<f32>();
    if conversion.is_to_planes() { (image, planes) } else { (planes, image) }
}

/// The bytes of the planes that a conversion with a proof reads.
fn planes_of_proof(conversion: &proven::Conversion, params: ProvenParams) -> usize {
    let rows = (params.convolution.first_row + params.rows) as usize;
    let others = (conversion.channels as usize - 1) * params.plane_stride as usize;
    (others + rows * params.plane_pitch as usize) * size_of::<f32>()
}

/// A name with a static lifetime, as the emulator needs it. There is one for each constant array of the kernels.
fn lasting(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(name.to_owned()).or_insert_with(|| Box::leak(name.to_owned().into_boxed_str()))
}

impl State {
    /// Runs a launch.
    pub(crate) fn emulate(&mut self, launch: &Launch) -> Result<(), Code> {
        if !self.settings.emulates {
            return Ok(());
        }
        let mut emulated = cuda_emulator::Memory::new();
        let arrays = self.modules.get(launch.module).map(|module| module.arrays.clone()).unwrap_or_default();
        for (array, address) in arrays.iter().filter(|(array, _)| array.is_constant) {
            let bytes = self.memory.bytes_mut(*address, array.bytes).ok_or(Code::ILLEGAL_ADDRESS)?;
            emulated.set_constant(lasting(&array.name), bytes);
        }
        match launch.task {
            Task::Nothing => Ok(()),
            Task::CopyVectors(task) => self.copy_vectors(launch, task, &mut emulated),
            Task::FilterArray(task) => self.filter_array(launch, task, &mut emulated),
            Task::Convert(task) => match (task.conversion.pixel, task.conversion.is_to_planes()) {
                (PixelType::U8, true) => self.convert::<u8, f32>(launch, task, &mut emulated),
                (PixelType::U16, true) => self.convert::<u16, f32>(launch, task, &mut emulated),
                (PixelType::F32, _) => self.convert::<f32, f32>(launch, task, &mut emulated),
                (PixelType::U8, false) => self.convert::<f32, u8>(launch, task, &mut emulated),
                (PixelType::U16, false) => self.convert::<f32, u16>(launch, task, &mut emulated),
            },
            Task::Prove(task) => match task.conversion.pixel {
                PixelType::U16 => self.prove::<u16>(launch, task, &mut emulated),
                _ => self.prove::<u8>(launch, task, &mut emulated),
            },
            Task::Convolve(task) => match pixel_of(task.params.result_kind) {
                Some(PixelType::U8) => self.convolve::<u8>(launch, task, &mut emulated),
                Some(PixelType::U16) => self.convolve::<u16>(launch, task, &mut emulated),
                Some(PixelType::F32) => self.convolve::<f32>(launch, task, &mut emulated),
                None => {
                    self.counts.report(format!("{} for results of kind {}", launch.symbol, task.params.result_kind));
                    Err(Code::LAUNCH_FAILED)
                }
            },
        }
    }

    /// Runs a copy of vectors of four `f32`.
    fn copy_vectors(
        &mut self,
        launch: &Launch,
        CopyVectors { from, to, quads }: CopyVectors,
        emulated: &mut cuda_emulator::Memory,
    ) -> Result<(), Code> {
        let bytes = quads as usize * 16;
        let from = Window::<f32>::open(self, emulated, "source", from, bytes)?;
        let to = Window::<f32>::open(self, emulated, "target", to, bytes)?;
        let (source, target) = (from.global(), to.global_mut());
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        let ran = Emulator::new()
            .launch(launch.symbol, &launch.shape, emulated, || unsafe { copy_quads(source, target, quads) });
        self.ended(ran.map(|_| ()))?;
        to.close(self, emulated)
    }

    /// Runs a filter on arrays.
    fn filter_array(
        &mut self,
        launch: &Launch,
        FilterArray { instance, input, output, taps, params }: FilterArray,
        emulated: &mut cuda_emulator::Memory,
    ) -> Result<(), Code> {
        let [from, to] = array_spans(instance, &params);
        let source = ArrayWindow::open(self, emulated, "input", input, from)?;
        let result = ArrayWindow::open(self, emulated, "output", output, to)?;
        let list: Global<u64> = if taps == 0 {
            Global::new(std::ptr::null())
        } else {
            // The window ends with the block of memory, because the launch has no parameter for the length of the list.
            Window::<u64>::open(self, emulated, "taps", taps, usize::MAX / 2)?.global()
        };
        let first = source.global().offset(from.before as isize);
        let first_result = result.global_mut().offset(to.before as isize);
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        let ran = Emulator::new().launch(launch.symbol, &launch.shape, emulated, || unsafe {
            (instance.function)(first, first_result, list, params)
        });
        self.ended(ran.map(|_| ()))?;
        result.close(self, emulated)
    }

    /// Runs a conversion from values of type `S` to values of type `D`.
    fn convert<S: Scalar, D: Scalar>(
        &mut self,
        launch: &Launch,
        Convert { conversion, from, to, params }: Convert,
        emulated: &mut cuda_emulator::Memory,
    ) -> Result<(), Code> {
        let (source_bytes, destination_bytes) = sizes(conversion, params);
        let from = Window::<S>::open(self, emulated, "source", from, source_bytes)?;
        let to = Window::<D>::open(self, emulated, "destination", to, destination_bytes)?;
        let (source, destination) = (from.global().cast(), to.global_mut().cast());
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        let ran = Emulator::new().launch(launch.symbol, &launch.shape, emulated, || unsafe {
            (conversion.function)(source, destination, params)
        });
        self.ended(ran.map(|_| ()))?;
        to.close(self, emulated)
    }

    /// Runs a conversion with a proof to values of type `T`.
    fn prove<T: Scalar>(
        &mut self,
        launch: &Launch,
        Prove { conversion, planes, source, result, mask, params }: Prove,
        emulated: &mut cuda_emulator::Memory,
    ) -> Result<(), Code> {
        let bytes = |pitch: i32| params.convolution.height as usize * pitch as usize * size_of::<T>();
        let of_planes = planes_of_proof(conversion, params);
        let planes = Window::<f32>::open(self, emulated, "planes", planes, of_planes)?.global();
        let source = Window::<T>::open(self, emulated, "source", source, bytes(params.convolution.src_pitch))?;
        // The window ends with the block of memory, because the launch has no parameter for the length of the mask.
        let mask = Window::<f32>::open(self, emulated, "mask", mask, usize::MAX / 2)?.global();
        let to = Window::<T>::open(self, emulated, "result", result, bytes(params.convolution.dst_pitch))?;
        let (source, result) = (source.global().cast(), to.global_mut().cast());
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        let ran = Emulator::new().launch(launch.symbol, &launch.shape, emulated, || unsafe {
            (conversion.function)(planes, source, result, mask, params)
        });
        self.ended(ran.map(|_| ()))?;
        to.close(self, emulated)
    }

    /// Runs a convolution to values of type `R`.
    fn convolve<R: Scalar>(
        &mut self,
        launch: &Launch,
        Convolve { entry, source, result, mask, params }: Convolve,
        emulated: &mut cuda_emulator::Memory,
    ) -> Result<(), Code> {
        let source_bytes = params.height as usize * params.src_pitch as usize * entry.pixel.bytes();
        let result_bytes = params.height as usize * params.dst_pitch as usize * size_of::<R>();
        let coefficients: Global<f32> = if entry.variant.reads_constant_memory() {
            Global::new(std::ptr::without_provenance(mask as usize))
        } else {
            // The window ends with the block of memory, because the launch has no parameter for the length of the mask.
            Window::<f32>::open(self, emulated, "mask", mask, usize::MAX / 2)?.global()
        };
        let to = Window::<R>::open(self, emulated, "result", result, result_bytes)?;
        let output: GlobalMut<u8> = to.global_mut().cast();
        let emulator = Emulator::new();
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        let ran = unsafe {
            match entry.function {
                Function::U8(kernel) => {
                    let from = Window::<u8>::open(self, emulated, "source", source, source_bytes)?.global();
                    emulator
                        .launch(launch.symbol, &launch.shape, emulated, || kernel(from, output, coefficients, params))
                }
                Function::U16(kernel) => {
                    let from = Window::<u16>::open(self, emulated, "source", source, source_bytes)?.global();
                    emulator
                        .launch(launch.symbol, &launch.shape, emulated, || kernel(from, output, coefficients, params))
                }
                Function::F32(kernel) => {
                    let from = Window::<f32>::open(self, emulated, "source", source, source_bytes)?.global();
                    emulator
                        .launch(launch.symbol, &launch.shape, emulated, || kernel(from, output, coefficients, params))
                }
            }
        };
        self.ended(ran.map(|_| ()))?;
        to.close(self, emulated)
    }

    /// The result of a kernel for the device. A defect of the kernel or of its launch loses the context.
    fn ended(&mut self, ran: Result<(), Error>) -> Result<(), Code> {
        let Err(error) = ran else { return Ok(()) };
        self.counts.report(format!("a kernel did something wrong: {error}"));
        Err(match error {
            Error::Memory { .. } => Code::OUT_OF_MEMORY,
            Error::Defects(_) => Code::ILLEGAL_ADDRESS,
            _ => Code::LAUNCH_FAILED,
        })
    }
}
