//! A problem made ready on a CUDA device: buffers, kernel, mask; and its run, in steps that `bench` times apart.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::function::Function;
use cust::memory::{AsyncCopyDestination, DeviceBuffer, DevicePointer, mem_get_info};
use kernels_gpu::constant_mask::MASK;
use kernels_gpu::cuda_std::constant::ConstantMemory;

use super::driver::{self, DuringAction};
use super::{Gpu, launch};
use crate::compare::POISON;
use crate::plan::{Plan, VariantChoice};
use crate::{Error, Problem, Result};

/// A problem, ready to run on a device.
pub(crate) struct GpuConvolution<'gpu> {
    gpu: &'gpu Gpu,
    plan: Plan,
    function: Function<'gpu>,
    source: DeviceBuffer<f32>,
    result: DeviceBuffer<f32>,
    mask: MaskHome<'gpu>,
    /// Made when first needed; timing alone uses them.
    events: Option<(Event, Event)>,
}

/// Where the kernel finds the mask.
enum MaskHome<'gpu> {
    /// In a buffer of its own.
    Global(DeviceBuffer<f32>),
    /// In the module's constant memory, which all convolutions with this module share.
    Constant {
        address: DevicePointer<f32>,
        /// Whose mask is there now.
        owner: &'gpu Cell<u64>,
        /// This convolution's number.
        number: u64,
        coefficients: Vec<f32>,
    },
}

impl std::fmt::Debug for GpuConvolution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuConvolution").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'gpu> GpuConvolution<'gpu> {
    /// Plans the problem, loads the kernel and allocates the buffers.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::DeviceMemory`], [`Error::Driver`].
    pub(crate) fn new(gpu: &'gpu Gpu, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        gpu.enter()?;
        let plan = Plan::new(problem, gpu.info.limits(), choice)?;
        let (module, owner) = gpu.module(plan.entry.module())?;
        let function = module.get_function(plan.entry.symbol).to(format!("find the kernel {}", plan.entry.symbol))?;
        if let Some(launch) = plan.launches.first()
            && launch.shared_bytes > 48 * 1024
        {
            driver::allow_shared_memory(&function, launch.shared_bytes)
                .to(format!("allow {} bytes of shared memory", launch.shared_bytes))?;
        }

        let pixels = problem.width() * problem.height();
        let coefficients = problem.window().coefficients();
        let source = allocate(pixels, 2 * pixels + coefficients.len())?;
        let result = allocate(pixels, 2 * pixels + coefficients.len())?;
        let mask = if plan.entry.variant.mask_is_constant() {
            static NUMBERS: AtomicU64 = AtomicU64::new(1);
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let address =
                driver::constant(&function, MASK::SYMBOL, coefficients.len()).to("find the mask's constant memory")?;
            MaskHome::Constant { address, owner, number, coefficients: coefficients.to_vec() }
        } else {
            let mut buffer = allocate(coefficients.len(), 2 * pixels + coefficients.len())?;
            // SAFETY: the coefficients are borrowed until the stream has been waited for, in the next line.
            unsafe { buffer.async_copy_from(coefficients, &gpu.stream) }.to("copy the mask to the device")?;
            gpu.stream.synchronize().to("copy the mask to the device")?;
            MaskHome::Global(buffer)
        };
        Ok(Self { gpu, plan, function, source, result, mask, events: None })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One image in, one out: copy, kernel, copy back, in one go.
    pub(crate) fn run(&mut self, source: &[f32], result: &mut [f32]) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: `source` is borrowed until `download` has waited for the stream.
        unsafe { self.source.async_copy_from(source, &self.gpu.stream) }.to("copy the image to the device")?;
        let launched = self.launch();
        // Waits also after a failure: the copy that was begun must be over before the borrow of `source` ends.
        self.download(result).and(launched)
    }

    /// Copies the source to the device, and waits until it is there.
    pub(crate) fn upload(&mut self, source: &[f32]) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: `source` is borrowed until `wait` returns.
        unsafe { self.source.async_copy_from(source, &self.gpu.stream) }.to("copy the image to the device")?;
        self.wait()
    }

    /// Fills the result with [`POISON`], so that an output that nothing writes is seen.
    pub(crate) fn poison(&mut self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: nothing else uses the result: it is borrowed exclusively, and the stream does one thing after the other.
        unsafe { self.result.set_32_async(POISON.to_bits(), &self.gpu.stream) }.to("fill the result with NaN")?;
        self.wait()
    }

    /// Runs the kernel, without waiting for it.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.gpu.enter()?;
        self.place_mask()?;
        let mask = match &self.mask {
            MaskHome::Global(buffer) => Some(buffer),
            MaskHome::Constant { .. } => None,
        };
        for one in &self.plan.launches {
            launch::convolution(&self.function, one, &self.source, &mut self.result, mask, &self.gpu.stream)?;
        }
        Ok(())
    }

    /// Waits until all launches are done.
    pub(crate) fn wait(&self) -> Result<()> {
        self.gpu.enter()?;
        self.gpu.stream.synchronize().to("run the kernel")
    }

    /// Copies the result from the device, after all launches before.
    pub(crate) fn download(&mut self, result: &mut [f32]) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: `result` is borrowed until `wait` returns.
        let copied =
            unsafe { self.result.async_copy_to(result, &self.gpu.stream) }.to("copy the result from the device");
        // Waits also after a failure: what was begun must be over before the borrow ends.
        self.wait().and(copied)
    }

    /// Runs the kernel `times` times, one after the other, and returns the time that the device took for all.
    pub(crate) fn timed(&mut self, times: usize) -> Result<Duration> {
        self.gpu.enter()?;
        if self.events.is_none() {
            let event = || Event::new(EventFlags::DEFAULT).to("create a timing event");
            self.events = Some((event()?, event()?));
        }
        let (start, stop) = self.events.take().expect("created above");
        start.record(&self.gpu.stream).to("record a timing event")?;
        for _ in 0..times {
            self.launch()?;
        }
        stop.record(&self.gpu.stream).to("record a timing event")?;
        stop.synchronize().to("run the kernel")?;
        let elapsed = stop.elapsed_time_f32(&start).to("read the timing events")?;
        self.events = Some((start, stop));
        Ok(Duration::from_secs_f64(f64::from(elapsed.max(0.0)) / 1e3))
    }

    /// Sees to it that the constant memory holds this convolution's mask.
    fn place_mask(&self) -> Result<()> {
        if let MaskHome::Constant { address, owner, number, coefficients } = &self.mask
            && owner.get() != *number
        {
            // SAFETY: the symbol's size was checked when its address was taken. The coefficients never change, and live until
            // the stream has been waited for (Drop). Launches with the previous mask come before this copy on the stream.
            unsafe { driver::copy_to_device(*address, coefficients, &self.gpu.stream) }
                .to("copy the mask to constant memory")?;
            owner.set(*number);
        }
        Ok(())
    }
}

impl Drop for GpuConvolution<'_> {
    fn drop(&mut self) {
        // Nothing may still be running or copying when the buffers and the coefficients go. A failure here was reported by
        // the call that caused it, or the device is lost.
        let _ = self.wait();
    }
}

/// Device memory for `length` values; `of` is what the whole problem takes, for the error.
fn allocate(length: usize, of: usize) -> Result<DeviceBuffer<f32>> {
    // SAFETY: the values are written before they are read: the source and the mask by a copy, the result by the
    // kernel, which writes each pixel.
    unsafe { DeviceBuffer::uninitialized(length) }.map_err(|error| match error {
        CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation => {
            let (free, total) = mem_get_info().unwrap_or((0, 0));
            Error::DeviceMemory { needed: of * size_of::<f32>(), free, total }
        }
        error => {
            Error::Driver { action: format!("allocate {length} values on the device"), reason: driver::words(error) }
        }
    })
}
