//! A plan with its kernel loaded and its mask on the device.

use std::sync::{Arc, Mutex, PoisonError};

use cust::function::Function;
use cust::module::Module;
use kernels_gpu::cuda_std::constant::ConstantMemory;
use kernels_gpu::fft::passes;
use kernels_gpu::teaching::constant_mask::MASK;
use kernels_gpu::util::planes::proven;

use super::event::ForeignEvents;
use super::launch::{self, Area, Images, PassAreas, ProofAreas, Target};
use super::lend::DeviceRows;
use super::mapped::RowBytes;
use super::modules::Exclusive;
use super::pool::Block;
use super::status::DriverResultExt;
use super::stream::{OwnStream, events_behind};
use super::{Gpu, driver};
use crate::image::bytes_of;
use crate::plan::{Place, Plan, Rows, Step, VariantChoice, device_pitch, later_passes};
use crate::rows::HostRows;
use crate::{Error, PixelFormat, Problem, Result, View};

/// A kernel, ready to be launched on images of one size.
pub(super) struct Kernel {
    plan: Plan,
    format: PixelFormat,
    /// Of the module below; dropped before it.
    function: Function<'static>,
    mask: MaskPlace,
    /// The conversions to planes and from planes and the later passes, of modules that stay loaded as long.
    conversions: Vec<(&'static str, Function<'static>, Arc<Module>)>,
    /// The coefficients of ordered sums, if the plan has a proof; None once they are given back.
    ordered: Option<Block>,
    users: Mutex<Users>,
    /// Dropped last: a module goes before its device.
    gpu: Arc<Gpu>,
}

/// The memory of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// Rows of the image at the source's pitch.
    pub(super) source: Area,
    /// Rows at the result's pitch.
    pub(super) result: Area,
    /// Scratch memory and planes, if the plan has any: [`Plan::scratch_bytes`], then [`Plan::planes_row_bytes`] for
    /// each row.
    pub(super) planes: Option<Area>,
}

/// The streams that were given launches for which nobody has waited.
#[derive(Default)]
struct Users {
    /// Streams of the library, which stay open as long as they are here.
    own: Vec<Arc<OwnStream>>,
    /// Streams of somebody else may be destroyed at any time, so events stand for them.
    foreign: ForeignEvents,
    /// Other events behind the same launches, for the coefficients of ordered sums: two blocks can't share an event.
    foreign_of_ordered: ForeignEvents,
}

/// Where the kernel finds the mask, and the module that it belongs to.
enum MaskPlace {
    /// In a block of its own; None once that is given back.
    Global { block: Option<Block>, _module: Arc<Module> },
    /// In the constant memory of an instance of the module that nobody else uses.
    Constant(Exclusive),
}

impl Kernel {
    /// Plans the problem, loads the kernel and puts the mask where it reads it.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::DeviceMemory`], [`Error::KernelRefused`], [`Error::DriverTooOld`],
    /// [`Error::Driver`].
    pub(super) fn new(gpu: &Arc<Gpu>, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        let plan = Plan::new(problem, gpu.info.limits(), choice)?;
        let coefficients = plan.coefficients(problem);
        let name = plan.entry.module();
        let _entered = gpu.enter()?;
        let (function, mask) = if plan.entry.variant.reads_constant_memory() {
            let module = gpu.exclusive_module(name)?;
            let place = function(&module, plan.entry.symbol).and_then(|function| {
                set_constant(gpu, &function, &coefficients)?;
                Ok(function)
            });
            match place {
                Ok(function) => (function, MaskPlace::Constant(module)),
                Err(error) => {
                    gpu.give_back_module(&module, Vec::new());
                    return Err(error);
                }
            }
        } else {
            let module = gpu.module(name)?;
            let function = function(&module, plan.entry.symbol)?;
            let block = gpu.ready_block(size_of_val::<[f32]>(&coefficients))?;
            if let Err(error) = copy(gpu, block.area(), &coefficients, "copy the mask to the device") {
                gpu.give_back(block, Vec::new());
                return Err(error);
            }
            (function, MaskPlace::Global { block: Some(block), _module: module })
        };
        let (format, users) = (problem.format(), Mutex::default());
        let mut ready =
            Self { plan, format, function, mask, conversions: Vec::new(), ordered: None, users, gpu: Arc::clone(gpu) };
        ready.load_conversions(problem)?;
        let shared_bytes = ready.plan.launches(1, 0..1).first().map_or(0, |launch| launch.shared_bytes);
        allow_shared_memory(gpu, &ready.function, shared_bytes)?;
        Ok(ready)
    }

    /// Loads the other kernels of the plan: the conversions between the image and planes, with what they read, and the
    /// later passes.
    fn load_conversions(&mut self, problem: &Problem) -> Result<()> {
        let proof = self.plan.proof;
        let without_proof =
            self.plan.planes.iter().flat_map(|planes| [planes.to, planes.from.filter(|_| proof.is_none())]);
        let without_proof = without_proof.flatten().map(|conversion| (conversion.symbol, conversion.module()));
        // Kernels with passes are those with scratch memory.
        let passes = (self.plan.scratch_bytes() > 0).then(|| later_passes(self.plan.entry.channels));
        let passes = passes.into_iter().flatten().map(|kernel| (kernel.symbol, kernel.module));
        let with_proof = proof.map(|proof| (proof.conversion.symbol, proof.conversion.module()));
        let symbols: Vec<_> = without_proof.chain(with_proof).chain(passes.clone()).collect();
        for (symbol, name) in symbols {
            let module = self.gpu.module(name)?;
            self.conversions.push((symbol, function(&module, symbol)?, module));
        }
        for (symbol, _) in passes {
            allow_shared_memory(&self.gpu, self.conversion(symbol), passes::SHARED_BYTES)?;
        }
        let (Some(proof), Some(ordered)) = (proof, self.plan.ordered_coefficients(problem)) else { return Ok(()) };
        let block = self.ordered.insert(self.gpu.ready_block(size_of_val::<[f32]>(&ordered))?);
        copy(&self.gpu, block.area(), &ordered, "copy the coefficients of ordered sums to the device")?;
        let mask = (problem.window().width() as u32, problem.window().height() as u32);
        // Tiles of fewer rows need less.
        let shared_bytes = proof.conversion.shared_bytes(mask, proven::tile(proof.conversion.channels).1) as u32;
        allow_shared_memory(&self.gpu, self.conversion(proof.conversion.symbol), shared_bytes)
    }

    /// Another kernel of the plan.
    fn conversion(&self, wanted: &str) -> &Function<'static> {
        let found = self.conversions.iter().find(|(symbol, ..)| *symbol == wanted);
        &found.expect("the plan's conversions were loaded with it").1
    }

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A row of source and of result.
    pub(super) fn row_bytes(&self) -> (RowBytes, RowBytes) {
        let values = self.plan.params.width as usize * self.format.channels;
        let of = |bytes: usize| RowBytes { bytes: values * bytes, pitch: device_pitch(values, bytes) * bytes };
        (of(self.format.input.bytes()), of(self.format.output.bytes()))
    }

    /// Launches the kernel for some rows of an image, without waiting for it, or adds it to a graph. It may write rows
    /// after the outputs, too.
    ///
    /// # Errors
    /// [`Error::DeviceLength`], [`Error::Driver`].
    ///
    /// # Safety
    /// - The device's context is the current one.
    /// - The memory is as [`launch::convolution`] and [`launch::conversion`] want it, and stays so until the launch is
    ///   done.
    /// - The kernel lives as long, or the stream is noted by [`used_by`](Self::used_by) after the launch.
    pub(super) unsafe fn launch<'a>(&self, buffers: Buffers, rows: &Rows, target: impl Into<Target<'a>>) -> Result<()> {
        let target = target.into();
        let Buffers { source, result, planes } = buffers;
        let planes = planes.unwrap_or(Area { address: 0, bytes: 0 });
        let area = |place: Place| match place {
            Place::Source(bytes) => source.behind(bytes),
            Place::Result(bytes) => result.behind(bytes),
            Place::Planes(bytes) => planes.behind(bytes),
        };
        // An entry that computes planes knows no other format.
        let format = if self.plan.planes.is_some() { PixelFormat::PLANE } else { self.format };
        let mask = match &self.mask {
            MaskPlace::Global { block, .. } => block.as_ref().map(Block::area),
            MaskPlace::Constant(_) => None,
        };
        for step in self.plan.steps(self.format, rows, planes.bytes) {
            match step {
                Step::Convolve { launch, from, to } => {
                    let images = Images { format, source: area(from), result: area(to) };
                    // SAFETY: the function is the plan's entry, whose mask was set when it was loaded. This function
                    // requires that the buffers are the device's memory until the launch is done.
                    unsafe { launch::convolution(&self.function, &launch, images, mask, target)? };
                }
                Step::Transform { passes, from, to, scratch } => {
                    let [columns, back] = later_passes(passes.channels).map(|kernel| self.conversion(kernel.symbol));
                    let mask = mask.expect("passes read the mask from global memory");
                    let areas = PassAreas { source: area(from), result: area(to), scratch: area(scratch), mask };
                    // SAFETY: the functions are the three passes. This function requires that the buffers are the
                    // device's memory until the launches are done.
                    unsafe { launch::passes([&self.function, columns, back], &passes, areas, target)? };
                }
                Step::Convert { conversion, grid, params, from, to } => {
                    let function = self.conversion(conversion.symbol);
                    let areas = (area(from), area(to));
                    // SAFETY: the function is the conversion, and the grid is the plan's. This function requires that
                    // the buffers are the device's memory until the launch is done.
                    unsafe { launch::conversion(function, conversion, (grid, params), areas, target)? };
                }
                Step::Prove { conversion, grid, shared_bytes, params, planes } => {
                    let function = self.conversion(conversion.symbol);
                    let mask = self.ordered.as_ref().expect("the coefficients were copied with the plan").area();
                    let areas = ProofAreas { planes: area(planes), source, result, mask };
                    let shape = (grid, shared_bytes, params);
                    // SAFETY: the function is the conversion, and the shape is the plan's. This function requires that
                    // the buffers are the device's memory until the launch is done.
                    unsafe { launch::proof(function, conversion, shape, areas, target)? };
                }
            }
        }
        Ok(())
    }

    /// Notes a stream that was given launches for which nobody waits: mask and module stay until they are done.
    ///
    /// # Errors
    /// [`Error::Driver`] if there is no event behind the launches. Then this has waited for the stream.
    pub(super) fn used_by(&self, stream: &Arc<OwnStream>) -> Result<()> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !stream.is_foreign() {
            if !users.own.iter().any(|user| Arc::ptr_eq(user, stream)) {
                users.own.push(Arc::clone(stream));
            }
            return Ok(());
        }
        let mut noted = users.foreign.note(stream.stream());
        if self.ordered.is_some() {
            noted = noted.and(users.foreign_of_ordered.note(stream.stream()));
        }
        if noted.is_err() {
            // What fails here, too, is a lost device, which runs nothing any more.
            let _ = driver::finish(stream.stream(), "run what the stream was given");
        }
        noted.context("record an event")
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _entered = self.gpu.enter();
        let Users { own, foreign, foreign_of_ordered } =
            std::mem::take(self.users.get_mut().unwrap_or_else(PoisonError::into_inner));
        let pending = |foreign: ForeignEvents| {
            let mut pending = foreign.into_pending();
            pending.events.extend(events_behind(own.iter()));
            pending
        };
        if let Some(block) = self.ordered.take() {
            self.gpu.give_back_or_keep(block, pending(foreign_of_ordered));
        }
        let pending = pending(foreign);
        match &mut self.mask {
            MaskPlace::Global { block, .. } => {
                if let Some(block) = block.take() {
                    self.gpu.give_back_or_keep(block, pending);
                }
            }
            MaskPlace::Constant(module) => self.gpu.give_back_or_keep_module(module, pending),
        }
    }
}

/// Lets blocks of a function have so much shared memory.
fn allow_shared_memory(gpu: &Gpu, function: &Function<'_>, bytes: u32) -> Result<()> {
    /// What a kernel may have without being allowed more.
    const ALLOWED: u32 = 48 * 1024;
    if bytes <= ALLOWED {
        return Ok(());
    }
    // Other masks may want more, and have the same function.
    let most = gpu.info.shared_bytes_per_block as u32;
    driver::allow_shared_memory(function, most).context(format!("allow {most} bytes of shared memory"))
}

/// A function of a module.
pub(super) fn function(module: &Arc<Module>, symbol: &str) -> Result<Function<'static>> {
    // SAFETY: the module stays where it is, and `Kernel` keeps it longer than the function.
    let module: &'static Module = unsafe { &*Arc::as_ptr(module) };
    module.get_function(symbol).context(format!("find the kernel {symbol}"))
}

/// Puts a mask into the constant memory of the function's module.
fn set_constant(gpu: &Gpu, function: &Function<'_>, coefficients: &[f32]) -> Result<()> {
    let (address, found) = driver::constant(function, MASK::SYMBOL).context("find the mask's constant memory")?;
    let required = size_of_val(coefficients);
    if found < required {
        return Err(Error::DeviceLength { what: "the module's constant memory", required, found });
    }
    let area = Area { address, bytes: found };
    copy(gpu, area, coefficients, "copy the mask to constant memory")
}

/// Copies values to the device, and waits.
pub(super) fn copy(gpu: &Gpu, to: Area, values: &[f32], action: &str) -> Result<()> {
    let bytes = bytes_of(values);
    assert!(bytes.len() <= to.bytes, "the area holds the values");
    let lane = gpu.lane()?;
    let view = View::new(bytes.len(), 1, 1, bytes.len(), bytes)?;
    gpu.lend(|lent| {
        // SAFETY: the area holds the values, as was just checked, and its owner keeps it until this has waited.
        unsafe { lent.upload(DeviceRows::one(to.address, bytes.len()), HostRows::of(&view), &lane.main) }
            .context(action)
    })
}
