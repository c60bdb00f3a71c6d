//! A problem made ready on a CUDA device: buffers, kernel, mask; and its run, in steps that `bench` times apart.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::function::Function;
use cust::memory::{AsyncCopyDestination, DeviceBuffer, DeviceCopy, DevicePointer, mem_get_info};
use kernels_gpu::constant_mask::MASK;
use kernels_gpu::copy::COPY_QUADS;
use kernels_gpu::cuda_std::constant::ConstantMemory;

use super::Gpu;
use super::driver::{self, DuringAction, Graph};
use super::launch::{self, Images};
use super::mapped::{self, Ends, Graphs, RowBytes};
use super::staging::Home;
use crate::backend::bands::{self, Band};
use crate::backend::strips::{Cut, Strip};
use crate::compare::POISON;
use crate::plan::{Plan, VariantChoice};
use crate::{Error, Layout, Problem, Result};

/// A problem, ready to run on a device.
pub(crate) struct GpuConvolution<'gpu> {
    pub(super) gpu: &'gpu Gpu,
    plan: Plan,
    layout: Layout,
    function: Function<'gpu>,
    /// Rows at the plan's pitches, in the layout's types.
    pub(super) source: DeviceBuffer<u8>,
    pub(super) result: DeviceBuffer<u8>,
    mask: MaskHome<'gpu>,
    /// One for the whole image, or as many as the device's memory makes necessary.
    strips: Vec<Strip>,
    way: Way,
    /// What was said of the device's memory.
    memory_limit: Option<usize>,
    /// Made when first needed; timing alone uses them.
    events: Option<(Event, Event)>,
}

/// How an image goes to the device and its result back.
enum Way {
    /// It has not run yet: what is run once is not worth more than to copy, compute and copy back.
    First,
    /// Small images: through page-locked memory, in one graph of kernels.
    Graphs(Graphs),
    /// Large ones: in bands where source and result lie in page-locked memory, otherwise in steps.
    Bands(Rc<[Band]>),
    /// Others: one step after the other.
    Steps,
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

impl MaskHome<'_> {
    /// The buffer, if it has one.
    fn buffer(&self) -> Option<&DeviceBuffer<f32>> {
        match self {
            Self::Global(buffer) => Some(buffer),
            Self::Constant { .. } => None,
        }
    }
}

impl std::fmt::Debug for GpuConvolution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuConvolution").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'gpu> GpuConvolution<'gpu> {
    /// Plans the problem, loads the kernel and allocates the buffers: for the whole image, or if the device's memory, or
    /// `memory_limit` of it, does not hold that, for strips.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::DeviceMemory`], [`Error::Driver`].
    pub(crate) fn new(
        gpu: &'gpu Gpu,
        problem: &Problem,
        choice: VariantChoice,
        memory_limit: Option<usize>,
    ) -> Result<Self> {
        gpu.enter()?;
        let plan = Plan::new(problem, gpu.info.limits(), choice)?;
        let (module, owner) = gpu.module(plan.entry.module())?;
        let function = module.get_function(plan.entry.symbol).to(format!("find the kernel {}", plan.entry.symbol))?;
        let shared_bytes = plan.launches(1, 0..1).first().map_or(0, |launch| launch.shared_bytes);
        if shared_bytes > 48 * 1024 {
            driver::allow_shared_memory(&function, shared_bytes)
                .to(format!("allow {shared_bytes} bytes of shared memory"))?;
        }

        let coefficients = plan.coefficients(problem);
        let mask = if plan.entry.variant.mask_is_constant() {
            static NUMBERS: AtomicU64 = AtomicU64::new(1);
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let address =
                driver::constant(&function, MASK::SYMBOL, coefficients.len()).to("find the mask's constant memory")?;
            MaskHome::Constant { address, owner, number, coefficients }
        } else {
            let mut buffer: DeviceBuffer<f32> = allocate(coefficients.len())?;
            // SAFETY: the coefficients are borrowed until the stream has been waited for, in the next line.
            unsafe { buffer.async_copy_from(&coefficients, &gpu.stream) }.to("copy the mask to the device")?;
            gpu.stream.synchronize().to("copy the mask to the device")?;
            MaskHome::Global(buffer)
        };

        let mut budget = memory_limit.unwrap_or(usize::MAX);
        let (source, result, strips) = loop {
            let cut = Cut::new(problem, &plan, budget).map_err(|needed| out_of_memory(needed, memory_limit))?;
            let buffers = allocate(cut.source_bytes).and_then(|source| Ok((source, allocate(cut.result_bytes)?)));
            match buffers {
                Ok((source, result)) => break (source, result, cut.strips),
                // The driver's memory is in pieces, and others use it, too: what it says to be free is no promise. Less, then.
                Err(Error::DeviceMemory { .. }) => budget = (cut.source_bytes + cut.result_bytes) / 2,
                Err(error) => return Err(error),
            }
        };
        let mut ready = Self {
            gpu,
            plan,
            layout: problem.layout(),
            function,
            source,
            result,
            mask,
            strips,
            way: Way::First,
            memory_limit,
            events: None,
        };
        if !ready.row_bytes().0.is_dense() {
            // What lies between rows is never used, but a copy of 16 bytes of which fewer are taken may touch it: let it be something,
            // as compute-sanitizer wants it.
            // SAFETY: nothing else uses the new buffer, and the stream does one thing after the other.
            unsafe { ready.source.set_8_async(0, &gpu.stream) }.to("clear the source on the device")?;
        }
        Ok(ready)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The strips that the image is computed in; one is the whole image.
    pub(crate) fn strips(&self) -> &[Strip] {
        &self.strips
    }

    /// One image in, one out: copy, kernel, copy back, strip by strip.
    pub(crate) fn run(&mut self, source: &[u8], result: &mut [u8]) -> Result<()> {
        self.gpu.enter()?;
        match &self.way {
            Way::First => self.way = self.choose_way(),
            Way::Graphs(_) => {
                if self.run_graph(source, result)? {
                    return Ok(());
                }
                // A driver that can't has the others.
                self.way = self.bands();
            }
            Way::Bands(bands) if [self.gpu.home(source), self.gpu.home(result)] == [Home::PageLocked; 2] => {
                let bands = Rc::clone(bands);
                return self.run_in_bands(&bands, source, result);
            }
            Way::Bands(_) | Way::Steps => {}
        }
        for index in 0..self.strips.len() {
            // SAFETY: `source` is borrowed until `download_strip` or `wait` has waited for the stream.
            let launched = unsafe { self.upload_strip(index, source) }.and_then(|()| self.launch_strip(index));
            match launched {
                Ok(()) => self.download_strip(index, result)?,
                // What was begun must be over before the borrow of `source` ends.
                Err(error) => return self.wait().and(Err(error)),
            }
        }
        Ok(())
    }

    /// Copies the source to the device, and waits until it is there.
    pub(crate) fn upload(&mut self, source: &[u8]) -> Result<()> {
        self.gpu.enter()?;
        self.check_resident()?;
        // SAFETY: `source` is borrowed until `wait` returns.
        let copied = unsafe { self.upload_strip(0, source) };
        self.wait().and(copied)
    }

    /// Fills the result with [`POISON`], so that an output that nothing writes is seen.
    pub(crate) fn poison(&mut self) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: nothing else uses the result: it is borrowed exclusively, and the stream does one thing after the other. Rows
        // are a multiple of 4 bytes long on the device.
        unsafe { self.result.set_32_async(POISON.to_bits(), &self.gpu.stream) }.to("fill the result with NaN")?;
        self.wait()
    }

    /// Waits until all launches are done.
    pub(crate) fn wait(&self) -> Result<()> {
        self.gpu.enter()?;
        self.gpu.stream.synchronize().to("run the kernel")
    }

    /// Copies the result from the device, after all launches before.
    pub(crate) fn download(&mut self, result: &mut [u8]) -> Result<()> {
        self.gpu.enter()?;
        self.check_resident()?;
        self.download_strip(0, result)
    }

    /// The steps one by one work on a whole image that stays on the device.
    fn check_resident(&self) -> Result<()> {
        if self.strips.len() == 1 {
            return Ok(());
        }
        let row = self.row_bytes();
        Err(out_of_memory((row.0.pitch + row.1.pitch) * self.plan.params.height as usize, self.memory_limit))
    }

    /// A row of source and of result.
    pub(super) fn row_bytes(&self) -> (RowBytes, RowBytes) {
        let values = self.plan.params.width as usize * self.layout.channels;
        let of = |bytes: usize, pitch: i32| RowBytes { bytes: values * bytes, pitch: pitch as usize * bytes };
        let params = &self.plan.params;
        (of(self.layout.input.bytes(), params.src_pitch), of(self.layout.output.bytes(), params.dst_pitch))
    }

    /// Copies the rows of a strip to the device.
    ///
    /// # Safety
    /// `source` stays borrowed until the stream has been waited for.
    unsafe fn upload_strip(&mut self, index: usize, source: &[u8]) -> Result<()> {
        let row = self.row_bytes().0;
        let mut staging = self.gpu.staging.borrow_mut();
        let mut at = 0;
        for range in &self.strips[index].source {
            let to = row.of(&self.source, at..at + range.len());
            let from = &source[range.start * row.bytes..range.end * row.bytes];
            // SAFETY: the rows lie in the source; the rest is the caller's promise.
            unsafe { staging.upload(to, from, self.gpu.home(from), &self.gpu.stream)? };
            at += range.len();
        }
        Ok(())
    }

    /// Runs the kernel for a strip, without waiting for it.
    fn launch_strip(&mut self, index: usize) -> Result<()> {
        let strip = &self.strips[index];
        self.launch_rows(strip.height, strip.rows())
    }

    /// Runs the kernel for some outputs of an image of `height` rows, without waiting for it. It may write rows after them, too.
    pub(super) fn launch_rows(&mut self, height: usize, outputs: Range<usize>) -> Result<()> {
        self.place_mask()?;
        let mask = self.mask.buffer();
        for one in &self.plan.launches(height, outputs) {
            let images = Images { layout: self.layout, source: &self.source, result: &mut self.result };
            launch::convolution(&self.function, one, images, mask, &self.gpu.stream)?;
        }
        Ok(())
    }

    /// The way from the second run on.
    fn choose_way(&self) -> Way {
        if self.strips.len() > 1 {
            Way::Steps
        } else if self.source.len().max(self.result.len()) <= mapped::MOST {
            Way::Graphs(Graphs::default())
        } else {
            self.bands()
        }
    }

    /// In bands, if the image is fit for them.
    fn bands(&self) -> Way {
        let (from, to) = self.row_bytes();
        let step = self.plan.entry.row_step() as usize;
        bands::bands(&self.plan.params, from.bytes.max(to.bytes), step)
            .map_or(Way::Steps, |bands| Way::Bands(bands.into()))
    }

    /// Runs a small image in one graph; false if the driver can't.
    fn run_graph(&mut self, source: &[u8], result: &mut [u8]) -> Result<bool> {
        // Constant memory is not part of the graph: it must hold this mask before each launch.
        self.place_mask()?;
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        // Its address is the one at which the device writes.
        result.as_mut_ptr().expose_provenance();
        let (own_source, own_result) = (gpu.end(source, from), gpu.end(result, to));
        let ends = match (own_source, own_result) {
            (Some(source), Some(result)) => Ends { source, result },
            _ => {
                let mut mapped = gpu.mapped()?;
                if own_source.is_none() {
                    mapped.set_source(source, from);
                }
                let Ends { source, result } = mapped.ends;
                Ends { source: own_source.unwrap_or(source), result: own_result.unwrap_or(result) }
            }
        };
        let known = matches!(&self.way, Way::Graphs(graphs) if graphs.get(ends).is_some());
        let recorded = if known { None } else { self.record_graph(ends).ok() };
        let Way::Graphs(graphs) = &mut self.way else { return Ok(false) };
        if let Some(graph) = recorded {
            graphs.insert(ends, graph);
        }
        let Some(graph) = graphs.get(ends) else { return Ok(false) };
        // SAFETY: the buffers in the graph are this convolution's, and the device's or the caller's, borrowed; the stream is waited for
        // in the next line.
        let launched = unsafe { graph.launch(&gpu.stream) }.to("launch a graph of kernels");
        self.wait().and(launched)?;
        if own_result.is_none() {
            gpu.mapped()?.result(result, to);
        }
        Ok(true)
    }

    /// Records what brings the source from page-locked memory and puts the result there.
    fn record_graph(&mut self, ends: Ends) -> Result<Graph> {
        let (module, _) = self.gpu.module(COPY_QUADS.module)?;
        let copy = module.get_function(COPY_QUADS.symbol).to("find the kernel that copies")?;
        let mask = self.mask.buffer();
        let stream = &self.gpu.stream;
        let height = self.plan.params.height as usize;
        let (from, to) = self.row_bytes();
        let bytes = height * from.pitch;
        // SAFETY: page-locked memory has as many rows at these pitches; nothing runs before the graph is launched.
        let (source, mut result) =
            unsafe { (mapped::view(ends.source, bytes), mapped::view(ends.result, height * to.pitch)) };
        let launches = self.plan.launches(height, 0..height);
        Graph::record(stream, || {
            launch::copy(&copy, &mut self.source, &source, bytes, stream)?;
            for one in &launches {
                let images = Images { layout: self.layout, source: &self.source, result: &mut result };
                launch::convolution(&self.function, one, images, mask, stream)?;
            }
            Ok(())
        })
    }

    /// Copies the outputs of a strip from the device, and waits for them.
    fn download_strip(&mut self, index: usize, result: &mut [u8]) -> Result<()> {
        let row = self.row_bytes().1;
        let strip = &self.strips[index];
        let from = row.of(&self.result, strip.rows());
        let to = &mut result[strip.outputs.start * row.bytes..strip.outputs.end * row.bytes];
        let home = self.gpu.home(to);
        // SAFETY: the rows lie in the result.
        unsafe { self.gpu.staging.borrow_mut().download(to, from, home, &self.gpu.stream) }
    }

    /// Runs the kernel `times` times, one after the other, and returns the time that the device took for all.
    pub(crate) fn timed(&mut self, times: usize) -> Result<Duration> {
        self.gpu.enter()?;
        self.check_resident()?;
        if self.events.is_none() {
            let event = || Event::new(EventFlags::DEFAULT).to("create a timing event");
            self.events = Some((event()?, event()?));
        }
        let (start, stop) = self.events.take().expect("created above");
        start.record(&self.gpu.stream).to("record a timing event")?;
        for _ in 0..times {
            self.launch_strip(0)?;
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

/// Device memory for `length` values.
fn allocate<T: DeviceCopy>(length: usize) -> Result<DeviceBuffer<T>> {
    // SAFETY: the values are written before they are read: the source and the mask by a copy, the result by the
    // kernel, which writes each value; what lies between rows is not read.
    unsafe { DeviceBuffer::uninitialized(length) }.map_err(|error| match error {
        CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation => out_of_memory(length * size_of::<T>(), None),
        error => {
            Error::Driver { action: format!("allocate {length} values on the device"), reason: driver::words(error) }
        }
    })
}

/// The error for `needed` bytes that the device, or a limit of it, does not have.
fn out_of_memory(needed: usize, limit: Option<usize>) -> Error {
    let (free, total) = mem_get_info().unwrap_or((0, 0));
    let free = limit.map_or(free, |limit| limit.min(free));
    Error::DeviceMemory { needed, free, total }
}
