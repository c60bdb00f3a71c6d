//! A problem made ready on a CUDA device, and its run: from host memory and back, or on images of the device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Gpu;
use super::kernel::{Buffers, Kernel};
use super::lane::Lane;
use super::launch::Area;
use super::lend::copy_rows_on_device;
use super::mapped::{self, GraphError, Graphs, RowBytes};
use super::pool::Block;
use super::staging::HostMemoryKind;
use super::status::DriverResultExt;
use super::stream::{ImageMemory, OwnStream};
use crate::bands::{self, Band};
use crate::plan::{Plan, Rows, VariantChoice};
use crate::rows::{HostRows, HostRowsMut};
use crate::spares::{Spare, Spares};
use crate::strips::{Cut, Strip};
use crate::{Error, Problem, Result};

/// A problem, ready to run on a device, from any number of threads at once.
pub(crate) struct GpuConvolution {
    /// Dropped after the workspaces, whose memory it gives back.
    kernel: Kernel,
    cut: Cut,
    strategy: TransferStrategy,
    /// Whether it has run: what is run once is not worth a graph.
    has_run: AtomicBool,
    /// Whether the driver refused a graph.
    has_no_graphs: AtomicBool,
    /// What was said of the device's memory.
    memory_limit: Option<usize>,
    workspaces: Spares<Workspace>,
    /// What was found while it ran, and is not as it was asked for.
    notes: Mutex<Vec<String>>,
}

/// The device memory of one run.
pub(super) struct Workspace {
    pub(super) source: Block,
    pub(super) result: Block,
    /// Scratch memory and planes, if the plan has any.
    pub(super) planes: Option<Block>,
    pub(super) graphs: Graphs,
}

/// How an image goes to the device and its result back.
enum TransferStrategy {
    /// Small images: through page-locked memory, in one graph of kernels.
    Graphs,
    /// Large ones, in bands of rows: some travel while others are computed.
    Bands(Vec<Band>),
    /// Others: copy, compute, copy back.
    Steps,
}

/// An image of the device, as a run takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageArea {
    pub(super) area: Area,
    /// Bytes from one row to the next.
    pub(super) pitch: usize,
}

impl GpuConvolution {
    /// Plans the problem, loads the kernel and allocates memory: for the whole image, or if the device's memory, or
    /// `memory_limit` of it, does not hold that, for strips.
    ///
    /// # Errors
    /// Those of [`Kernel::new`].
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        problem: &Problem,
        choice: VariantChoice,
        memory_limit: Option<usize>,
    ) -> Result<Self> {
        let kernel = Kernel::new(gpu, problem, choice)?;
        let mut budget = memory_limit.unwrap_or(usize::MAX);
        let (cut, workspace) = loop {
            let cut = Cut::new(problem, kernel.plan(), budget);
            let cut = match (cut, kernel.plan().without_scratch(choice)) {
                (Ok(cut), _) => cut,
                (Err(needed), None) => return Err(gpu.out_of_memory(needed, memory_limit)),
                (Err(_), Some(other)) => {
                    let ready = Self::new(gpu, problem, other, memory_limit)?;
                    ready.add_note(format!("not {}: too little memory", kernel.plan().entry.variant.name()));
                    return Ok(ready);
                }
            };
            match Workspace::new(&kernel, &cut) {
                Ok(workspace) => break (cut, workspace),
                // Fragmentation and other processes can make an allocation fail despite free memory. Retry with less.
                Err(Error::DeviceMemory { .. }) => budget = cut.bytes() / 2,
                Err(error) => return Err(error),
            }
        };
        let ready = Self::of(kernel, cut, memory_limit);
        ready.workspaces.give(workspace);
        Ok(ready)
    }

    /// As [`new`](Self::new), for whole images that are on the device. It allocates no memory for images.
    ///
    /// # Errors
    /// Those of [`Kernel::new`].
    pub(crate) fn of_device_images(gpu: &Arc<Gpu>, problem: &Problem, choice: VariantChoice) -> Result<Self> {
        let kernel = Kernel::new(gpu, problem, choice)?;
        let cut = Cut::new(problem, kernel.plan(), usize::MAX).map_err(|needed| gpu.out_of_memory(needed, None))?;
        Ok(Self::of(kernel, cut, None))
    }

    fn of(kernel: Kernel, cut: Cut, memory_limit: Option<usize>) -> Self {
        let mut ready = Self {
            kernel,
            cut,
            strategy: TransferStrategy::Steps,
            has_run: AtomicBool::new(false),
            has_no_graphs: AtomicBool::new(false),
            memory_limit,
            workspaces: Spares::default(),
            notes: Mutex::default(),
        };
        ready.strategy = ready.choose_strategy();
        ready
    }

    pub(crate) fn plan(&self) -> &Plan {
        self.kernel.plan()
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        self.kernel.gpu()
    }

    /// Rows of the image.
    pub(super) fn height(&self) -> usize {
        self.plan().params.height as usize
    }

    /// The strips that the image is computed in; one is the whole image.
    pub(crate) fn strips(&self) -> &[Strip] {
        &self.cut.strips
    }

    /// What was found that is not as it was asked for, each once; for people.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// A row of source and of result.
    pub(super) fn row_bytes(&self) -> (RowBytes, RowBytes) {
        self.kernel.row_bytes()
    }

    /// How runs transfer the image. `Graphs` applies from the second run on.
    fn choose_strategy(&self) -> TransferStrategy {
        if self.strips().len() > 1 {
            return TransferStrategy::Steps;
        }
        if self.cut.source_bytes.max(self.cut.result_bytes) <= mapped::MOST {
            return TransferStrategy::Graphs;
        }
        let (from, to) = self.row_bytes();
        let step = self.plan().launch_row_alignment();
        bands::bands(&self.plan().params, from.bytes.max(to.bytes), step)
            .map_or(TransferStrategy::Steps, TransferStrategy::Bands)
    }

    /// One image in, one out, and waits.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceLost`], [`Error::DeviceMemory`] if several threads run at once and the memory
    /// is not enough for all.
    pub(crate) fn run(&self, source: HostRows<'_>, result: HostRowsMut<'_>) -> Result<()> {
        let (mut lane, mut workspace) = (self.gpu().lane()?, self.workspace()?);
        self.run_in(&mut lane, &mut workspace, source, result)
    }

    fn run_in(
        &self,
        lane: &mut Lane,
        workspace: &mut Workspace,
        source: HostRows<'_>,
        mut result: HostRowsMut<'_>,
    ) -> Result<()> {
        let has_run = self.has_run.swap(true, Ordering::Relaxed);
        match &self.strategy {
            TransferStrategy::Graphs if has_run && !self.has_no_graphs.load(Ordering::Relaxed) => {
                match self.run_graph(lane, workspace, source, result.reborrow()) {
                    Ok(()) => return Ok(()),
                    Err(GraphError::Run(error)) => return Err(error),
                    // Without graphs, this run and later ones use separate steps.
                    Err(GraphError::Prepare(error)) => {
                        self.add_note(format!("in separate steps: {error}"));
                        self.has_no_graphs.store(true, Ordering::Relaxed);
                    }
                }
            }
            TransferStrategy::Bands(bands) => return self.run_in_bands(lane, workspace, bands, source, result),
            TransferStrategy::Graphs | TransferStrategy::Steps => {}
        }
        self.run_in_steps(lane, workspace, source, result)
    }

    /// Copy, kernel, copy back, strip by strip.
    fn run_in_steps(
        &self,
        lane: &mut Lane,
        workspace: &Workspace,
        source: HostRows<'_>,
        result: HostRowsMut<'_>,
    ) -> Result<()> {
        let gpu = self.gpu();
        let (from, to) = self.row_bytes();
        let Lane { main, staging, .. } = lane;
        gpu.lend(|lent| {
            // The strips' outputs are all rows, one after the other.
            let parts = result.parts(self.strips().iter().map(|strip| strip.outputs.len()));
            for (strip, outputs) in self.strips().iter().zip(parts) {
                let mut at = 0;
                for range in &strip.source {
                    let rows = source.range(range.clone());
                    let place = from.of(workspace.source.area(), at..at + range.len());
                    // SAFETY: the rows lie in the workspace, which lives longer than the scope.
                    unsafe { staging.upload(lent, place, rows, gpu.kind(rows.span()), main)? };
                    at += range.len();
                }
                lent.uses(main);
                let rows = Rows::of(strip.height, strip.rows());
                // SAFETY: the buffers are the workspace's, which this run has for itself, and the scope waits for the
                // stream.
                unsafe { self.kernel.launch(workspace.buffers(), &rows, &*main)? };
                let kind = gpu.kind(outputs.span());
                let place = to.of(workspace.result.area(), strip.rows());
                // SAFETY: the strip's rows lie in the workspace, which this run has for itself, and the scope waits.
                unsafe { staging.download(lent, outputs, place, kind, main)? };
            }
            self.note_refusal(staging.refused());
            Ok(())
        })
    }

    /// Filters many images and waits for all results. Images that run in bands overlap if all images and results are
    /// page-locked. One is uploaded while another is computed and a third is downloaded.
    ///
    /// # Errors
    /// As for [`run`](Self::run), of the first image that failed; results after it may be missing.
    pub(crate) fn run_batch(&self, sources: &[HostRows<'_>], results: Vec<HostRowsMut<'_>>) -> Result<()> {
        /// Images under way at once: one on its way there, one that is computed, one on its way back.
        const AT_ONCE: usize = 3;
        let gpu = self.gpu();
        let is_locked = |span: *const [u8]| gpu.kind(span) == HostMemoryKind::PageLocked;
        let all_locked = || {
            sources.iter().all(|source| is_locked(source.span()))
                && results.iter().all(|result| is_locked(result.span()))
        };
        let bands = match &self.strategy {
            TransferStrategy::Bands(bands) if sources.len() >= 2 && all_locked() => bands,
            _ => return sources.iter().zip(results).try_for_each(|(source, result)| self.run(*source, result)),
        };
        let mut places = Vec::new();
        for _ in 0..AT_ONCE.min(sources.len()) {
            places.push((gpu.lane()?, self.workspace()?));
        }
        gpu.lend(|lent| {
            for (number, (source, result)) in sources.iter().zip(results).enumerate() {
                let (lane, workspace) = &places[number % places.len()];
                self.enqueue_bands(lent, lane, workspace, bands, *source, result)?;
            }
            Ok(())
        })
    }

    /// Runs the kernel on images of the device, in the order of the stream, without waiting for it.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Driver`].
    ///
    /// # Safety
    /// - Source and result are of the plan's size and pixel format, on the stream's device.
    /// - They stay allocated until the stream has run this work.
    /// - The stream already waits for conflicting accesses by other streams.
    pub(crate) unsafe fn enqueue(&self, source: ImageArea, result: ImageArea, stream: &Arc<OwnStream>) -> Result<()> {
        let gpu = self.gpu();
        let _entered = gpu.enter()?;
        let (from, to) = self.row_bytes();
        let height = self.height();
        // Rows that lie otherwise than the kernel wants them go through memory in which they lie so.
        let make = |row: RowBytes| ImageMemory::new(stream, height * row.pitch);
        // A kernel reads its source while it writes its result, so a source that overlaps the result is copied, too.
        let copies_source = !from.suits(source, height) || source.area.overlaps(result.area);
        let own_source = copies_source.then(|| make(from)).transpose()?;
        let own_result = (!to.suits(result, height)).then(|| make(to)).transpose()?;
        if let Some(own) = &own_source {
            let rows = RowBytes { pitch: source.pitch, ..from }.all(source.area, height);
            // SAFETY: both have the rows; the own memory is given back behind this stream's work.
            unsafe { copy_rows_on_device(from.of(own.area(), 0..height), rows, stream.stream()) }
                .context("copy the image on the device")?;
        }
        let area = |own: &Option<ImageMemory>, given: Area| own.as_ref().map_or(given, |own| own.area());
        let planes_bytes = self.plan().planes_row_bytes() * height + self.plan().scratch_bytes();
        let planes = (planes_bytes > 0).then(|| ImageMemory::new(stream, planes_bytes)).transpose()?;
        let buffers = Buffers {
            source: area(&own_source, source.area),
            result: area(&own_result, result.area),
            planes: planes.as_ref().map(ImageMemory::area),
        };
        // SAFETY: source and result are as this function requires, or memory of this call's own, which goes back to the
        // pool behind the stream's work. They do not overlap. The stream is noted below.
        let launched = unsafe { self.kernel.launch(buffers, &Rows::of(height, 0..height), stream.stream()) };
        // Even where a launch has failed: one before it may have begun.
        self.kernel.used_by(stream)?;
        launched?;
        if let Some(own) = &own_result {
            let rows = RowBytes { pitch: result.pitch, ..to }.all(result.area, height);
            // SAFETY: `own` holds the rows, and goes back to the pool after this copy. The result has `height` rows at
            // its pitch, as this function requires.
            unsafe { copy_rows_on_device(rows, to.of(own.area(), 0..height), stream.stream()) }
                .context("copy the result on the device")?;
        }
        Ok(())
    }

    /// Whether the whole image fits the device's memory, as images of the device must.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`].
    pub(crate) fn check_whole(&self) -> Result<()> {
        if self.strips().len() == 1 {
            return Ok(());
        }
        let row = self.row_bytes();
        let row = row.0.pitch + row.1.pitch + self.plan().planes_row_bytes();
        Err(self.gpu().out_of_memory(row * self.height() + self.plan().scratch_bytes(), self.memory_limit))
    }

    /// A workspace that nobody else uses.
    fn workspace(&self) -> Result<Spare<'_, Workspace>> {
        self.workspaces.take(|| Workspace::new(&self.kernel, &self.cut))
    }

    /// Notes why copies are slower than they could be, if they are.
    pub(super) fn note_refusal(&self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.add_note(format!("with slower copies: {reason}"));
        }
    }
}

impl Workspace {
    fn new(kernel: &Kernel, cut: &Cut) -> Result<Self> {
        let gpu = kernel.gpu();
        let has_gaps = !kernel.row_bytes().0.is_dense() || kernel.plan().planes_have_gaps();
        let sizes = [(cut.source_bytes, has_gaps), (cut.result_bytes, false), (cut.planes_bytes, has_gaps)];
        let mut blocks = Vec::new();
        for (bytes, has_gaps) in sizes.into_iter().filter(|&(bytes, _)| bytes > 0) {
            let ready = gpu.ready_block(bytes).and_then(|block| {
                let area = block.area();
                blocks.push(block);
                // What lies between rows is never used, but a copy of 16 bytes of which fewer are taken may touch it:
                // let it be something, as compute-sanitizer wants it.
                if has_gaps { gpu.clear(area) } else { Ok(()) }
            });
            if let Err(error) = ready {
                blocks.into_iter().for_each(|block| gpu.give_back(block, Vec::new()));
                return Err(error);
            }
        }
        let mut blocks = blocks.into_iter();
        let (source, result) =
            (blocks.next().expect("an image has bytes"), blocks.next().expect("and its result, too"));
        Ok(Self { source, result, planes: blocks.next(), graphs: Graphs::default() })
    }

    /// The areas for a launch.
    pub(super) fn buffers(&self) -> Buffers {
        Buffers {
            source: self.source.area(),
            result: self.result.area(),
            planes: self.planes.as_ref().map(Block::area),
        }
    }

    /// Gives all memory back. Nothing runs in it.
    fn give_back(self, gpu: &Gpu) {
        let Self { source, result, planes, graphs } = self;
        drop(graphs);
        for block in [source, result].into_iter().chain(planes) {
            gpu.give_back(block, Vec::new());
        }
    }
}

impl Drop for GpuConvolution {
    fn drop(&mut self) {
        // Nothing runs in an idle workspace: every run waits. The graphs go first, in the device's context.
        let _entered = self.gpu().enter();
        for workspace in self.workspaces.drain() {
            workspace.give_back(self.gpu());
        }
    }
}
