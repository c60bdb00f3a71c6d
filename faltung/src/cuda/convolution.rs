//! A problem made ready on a CUDA device: buffers, kernel, mask; and its run, in steps that `bench` times apart.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::function::Function;
use cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer, mem_get_info};
use kernels_gpu::cuda_std::constant::ConstantMemory;
use kernels_gpu::teaching::constant_mask::MASK;

use super::Gpu;
use super::driver;
use super::launch::{self, Images};
use super::lend::{DeviceRows, LentToDevice};
use super::mapped::{self, GraphError, Graphs, RowBytes};
use super::staging::Home;
use super::status::DriverResultExt;
use crate::POISON;
use crate::bands::{self, Band};
use crate::image::bytes_of;
use crate::plan::{Plan, VariantChoice};
use crate::strips::{Cut, Strip};
use crate::{Error, Layout, Problem, Result};

/// A problem, ready to run on a device.
pub(crate) struct GpuConvolution<'gpu> {
    pub(super) gpu: &'gpu Gpu,
    pub(super) plan: Plan,
    pub(super) layout: Layout,
    pub(super) function: Function<'gpu>,
    /// Rows at the plan's pitches, in the layout's types.
    pub(super) source: DeviceBuffer<u8>,
    pub(super) result: DeviceBuffer<u8>,
    pub(super) mask: MaskHome<'gpu>,
    /// One for the whole image, or as many as the device's memory makes necessary.
    strips: Vec<Strip>,
    pub(super) way: Way,
    /// What was said of the device's memory.
    memory_limit: Option<usize>,
    /// Made when first needed; timing alone uses them.
    events: Option<(Event, Event)>,
    /// What was found while it ran, and not yet taken.
    note: Option<String>,
    /// Whether that the system gives no page-locked memory was noted.
    noted_refusal: bool,
}

/// How an image goes to the device and its result back.
pub(super) enum Way {
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
pub(super) enum MaskHome<'gpu> {
    /// In a buffer of its own.
    Global(DeviceBuffer<f32>),
    /// In the module's constant memory, which all convolutions with this module share.
    Constant {
        address: DevicePointer<f32>,
        /// Whose mask is there now.
        owner: &'gpu Cell<u64>,
        /// This convolution's number.
        number: u64,
        coefficients: Rc<[f32]>,
    },
}

impl MaskHome<'_> {
    /// The buffer, if it has one.
    pub(super) fn buffer(&self) -> Option<&DeviceBuffer<f32>> {
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
    /// Plans the problem, loads the kernel and allocates the buffers: for the whole image, or if the device's memory,
    /// or `memory_limit` of it, does not hold that, for strips.
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
        let function =
            module.get_function(plan.entry.symbol).context(format!("find the kernel {}", plan.entry.symbol))?;
        let shared_bytes = plan.launches(1, 0..1).first().map_or(0, |launch| launch.shared_bytes);
        if shared_bytes > 48 * 1024 {
            driver::allow_shared_memory(&function, shared_bytes)
                .context(format!("allow {shared_bytes} bytes of shared memory"))?;
        }

        let coefficients = plan.coefficients(problem);
        let mask = if plan.entry.variant.reads_constant_memory() {
            static NUMBERS: AtomicU64 = AtomicU64::new(1);
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let (address, found) =
                driver::constant(&function, MASK::SYMBOL).context("find the mask's constant memory")?;
            let (required, found) = (coefficients.len(), found / size_of::<f32>());
            if found < required {
                let (what, width, height, channels) = ("the module's constant memory", required, 1, 1);
                return Err(Error::Length { what, width, height, channels, required, found });
            }
            MaskHome::Constant { address, owner, number, coefficients: coefficients.into() }
        } else {
            let buffer: DeviceBuffer<f32> = allocate(coefficients.len())?;
            let bytes = bytes_of(&coefficients);
            let to =
                DeviceRows { address: buffer.as_device_ptr().cast(), rows: 1, bytes: bytes.len(), pitch: bytes.len() };
            // SAFETY: the buffer has as many values, and lives longer than the scope.
            gpu.lend(|lent| unsafe { lent.upload(to, bytes, &gpu.stream) }.context("copy the mask to the device"))?;
            MaskHome::Global(buffer)
        };

        let mut budget = memory_limit.unwrap_or(usize::MAX);
        let (source, result, strips) = loop {
            let cut = Cut::new(problem, &plan, budget).map_err(|needed| out_of_memory(needed, memory_limit))?;
            let buffers = allocate(cut.source_bytes).and_then(|source| Ok((source, allocate(cut.result_bytes)?)));
            match buffers {
                Ok((source, result)) => break (source, result, cut.strips),
                // The driver's memory is in pieces, and others use it, too: what it says to be free is no promise.
                // Less, then.
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
            note: None,
            noted_refusal: false,
        };
        if !ready.row_bytes().0.is_dense() {
            // What lies between rows is never used, but a copy of 16 bytes of which fewer are taken may touch it: let
            // it be something, as compute-sanitizer wants it. SAFETY: nothing else uses the new buffer, and the stream
            // does one thing after the other.
            unsafe { ready.source.set_8_async(0, &gpu.stream) }.context("clear the source on the device")?;
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

    /// What was found since this was asked last, that is not as it was asked for. One line for people.
    pub(crate) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// One image in, one out: copy, kernel, copy back, strip by strip.
    pub(crate) fn run(&mut self, source: &[u8], result: &mut [u8]) -> Result<()> {
        match &self.way {
            Way::First => self.way = self.choose_way(),
            Way::Graphs(_) => match self.run_graph(source, result) {
                Err(GraphError::Run(error)) => return Err(error),
                // A driver or a system that can't has the others.
                Err(GraphError::Prepare(error)) => {
                    self.add_note(format!("in separate steps: {error}"));
                    self.way = self.bands();
                }
                Ok(()) => return Ok(()),
            },
            Way::Bands(bands) if [self.gpu.home(source), self.gpu.home(result)] == [Home::PageLocked; 2] => {
                let bands = Rc::clone(bands);
                return self.run_in_bands(&bands, source, result);
            }
            Way::Bands(_) | Way::Steps => {}
        }
        let gpu = self.gpu;
        let row = self.row_bytes().1;
        gpu.lend(|lent| {
            let mut rest = result;
            for index in 0..self.strips.len() {
                // The strips' outputs are all rows, one after the other.
                let bytes = self.strips[index].outputs.len() * row.bytes;
                let (outputs, later) = std::mem::take(&mut rest).split_at_mut(bytes);
                rest = later;
                self.upload_strip(lent, index, source)?;
                self.launch_strip(lent, index)?;
                self.download_strip(lent, index, outputs)?;
            }
            Ok(())
        })
    }

    /// Copies the source to the device, and waits until it is there.
    pub(crate) fn upload(&mut self, source: &[u8]) -> Result<()> {
        let gpu = self.gpu;
        gpu.lend(|lent| {
            self.check_resident()?;
            self.upload_strip(lent, 0, source)
        })
    }

    /// Fills the result with [`POISON`], so that an output that nothing writes is seen.
    pub(crate) fn poison(&mut self) -> Result<()> {
        let gpu = self.gpu;
        gpu.lend(|lent| {
            lent.uses(&gpu.stream);
            // SAFETY: nothing else uses the result: it is borrowed exclusively, and the stream does one thing after the
            // other. Rows are a multiple of 4 bytes long on the device.
            unsafe { self.result.set_32_async(POISON.to_bits(), &gpu.stream) }.context("fill the result with NaN")
        })
    }

    /// Copies the result from the device, after all launches before.
    pub(crate) fn download(&mut self, result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        gpu.lend(|lent| {
            self.check_resident()?;
            self.download_strip(lent, 0, result)
        })
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
    fn upload_strip<'scope, 'env>(
        &mut self,
        lent: &LentToDevice<'scope, 'env>,
        index: usize,
        source: &'scope [u8],
    ) -> Result<()>
    where
        'gpu: 'env,
    {
        let gpu = self.gpu;
        let row = self.row_bytes().0;
        let mut staging = gpu.staging.borrow_mut();
        let mut at = 0;
        for range in &self.strips[index].source {
            let to = row.of(&self.source, at..at + range.len());
            let from = &source[range.start * row.bytes..range.end * row.bytes];
            // SAFETY: the rows lie in the source, which lives as long as this convolution.
            unsafe { staging.upload(lent, to, from, gpu.home(from), &gpu.stream)? };
            at += range.len();
        }
        Ok(())
    }

    /// Runs the kernel for a strip, without waiting for it.
    fn launch_strip<'env>(&mut self, lent: &LentToDevice<'_, 'env>, index: usize) -> Result<()>
    where
        'gpu: 'env,
    {
        let strip = &self.strips[index];
        self.launch_rows(lent, strip.height, strip.rows())
    }

    /// Runs the kernel for some outputs of an image of `height` rows, without waiting for it. It may write rows after
    /// them, too.
    pub(super) fn launch_rows<'env>(
        &mut self,
        lent: &LentToDevice<'_, 'env>,
        height: usize,
        outputs: Range<usize>,
    ) -> Result<()>
    where
        'gpu: 'env,
    {
        self.place_mask(lent)?;
        lent.uses(&self.gpu.stream);
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
        let step = self.plan.entry.launch_row_alignment() as usize;
        bands::bands(&self.plan.params, from.bytes.max(to.bytes), step)
            .map_or(Way::Steps, |bands| Way::Bands(bands.into()))
    }

    /// Copies the outputs of a strip from the device, to where `outputs` begins.
    fn download_strip<'scope, 'env>(
        &mut self,
        lent: &LentToDevice<'scope, 'env>,
        index: usize,
        outputs: &'scope mut [u8],
    ) -> Result<()>
    where
        'gpu: 'env,
    {
        let gpu = self.gpu;
        let from = self.row_bytes().1.of(&self.result, self.strips[index].rows());
        let home = gpu.home(outputs);
        let mut staging = gpu.staging.borrow_mut();
        // SAFETY: the rows lie in the result, which lives as long as this convolution.
        unsafe { staging.download(lent, outputs, from, home, &gpu.stream)? };
        if let Some(reason) = staging.refused()
            && !self.noted_refusal
        {
            self.noted_refusal = true;
            self.add_note(format!("with slower copies: {reason}"));
        }
        Ok(())
    }

    fn add_note(&mut self, note: String) {
        match &mut self.note {
            Some(before) => *before = format!("{before}; {note}"),
            None => self.note = Some(note),
        }
    }

    /// Runs the kernel `times` times, one after the other, and returns the time that the device took for all.
    pub(crate) fn timed(&mut self, times: usize) -> Result<Duration> {
        let gpu = self.gpu;
        gpu.lend(|lent| {
            self.check_resident()?;
            if self.events.is_none() {
                let event = || Event::new(EventFlags::DEFAULT).context("create a timing event");
                self.events = Some((event()?, event()?));
            }
            let (start, stop) = self.events.take().expect("created above");
            start.record(&gpu.stream).context("record a timing event")?;
            for _ in 0..times {
                self.launch_strip(lent, 0)?;
            }
            stop.record(&gpu.stream).context("record a timing event")?;
            lent.uses(&gpu.stream);
            lent.wait()?;
            let elapsed = stop.elapsed_time_f32(&start).context("read the timing events")?;
            self.events = Some((start, stop));
            Ok(Duration::from_secs_f64(f64::from(elapsed.max(0.0)) / 1e3))
        })
    }

    /// Sees to it that the constant memory holds this convolution's mask.
    pub(super) fn place_mask<'env>(&self, lent: &LentToDevice<'_, 'env>) -> Result<()>
    where
        'gpu: 'env,
    {
        if let MaskHome::Constant { address, owner, number, coefficients } = &self.mask
            && owner.get() != *number
        {
            // Nobody's, should the copy fail.
            owner.set(0);
            // SAFETY: the symbol's size was checked when its address was taken, and its module stays loaded. Launches
            // with the previous mask come before this copy on the stream.
            unsafe { lent.upload_kept(*address, coefficients, &self.gpu.stream) }
                .context("copy the mask to constant memory")?;
            owner.set(*number);
        }
        Ok(())
    }
}

impl Drop for GpuConvolution<'_> {
    fn drop(&mut self) {
        // Nothing may still use the buffers, the graphs or the events when they go, in the context that is then the
        // current one.
        self.gpu.settle();
    }
}

/// Device memory for `length` values.
fn allocate<T: DeviceCopy>(length: usize) -> Result<DeviceBuffer<T>> {
    // SAFETY: the values are written before they are read: the source and the mask by a copy, the result by the
    // kernel, which writes each value; what lies between rows is not read.
    match unsafe { DeviceBuffer::uninitialized(length) } {
        Err(CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation) => {
            Err(out_of_memory(length * size_of::<T>(), None))
        }
        result => result.context(format!("allocate {length} values on the device")),
    }
}

/// The error for `needed` bytes that the device, or a limit of it, does not have.
fn out_of_memory(needed: usize, limit: Option<usize>) -> Error {
    let (free, total) = mem_get_info().unwrap_or((0, 0));
    let free = limit.map_or(free, |limit| limit.min(free));
    Error::DeviceMemory { needed, free, total }
}
