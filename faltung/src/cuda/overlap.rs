//! Runs large images in bands of rows. One band is uploaded while another is computed and a third is downloaded.
//!
//! PCIe is full duplex. Uploads, kernels and downloads have a stream each, so all three overlap. On an H100, 8192 x
//! 8192 `f32` in page-locked memory take 5.7 ms instead of 10.2 (`docs/kernels/transfers.md`).
//!
//! Pageable memory goes through page-locked staging buffers. Host threads copy bands into and out of some buffers while
//! the device transfers others.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cust::stream::Stream;

use super::convolution::{GpuConvolution, Workspace};
use super::event::Event;
use super::lane::Lane;
use super::lend::LentToDevice;
use super::staging::{self, BUFFERS, HostMemoryKind, MOST_BUFFERS, Staging, StagingBuffer};
use super::status::DriverResultExt;
use crate::Result;
use crate::bands::Band;
use crate::plan::Rows;
use crate::rows::{HostRows, HostRowsMut};

const UP: &str = "copy the image to the device";
const DOWN: &str = "copy the result from the device";

/// Makes all later work in `second` wait for all earlier work in `first`.
pub(super) fn follow(second: &Stream, first: &Stream) -> Result<()> {
    Event::behind(first).and_then(|event| event.hold(second)).context("let a stream wait for another")
}

impl GpuConvolution {
    /// Runs an image in bands.
    pub(super) fn run_in_bands(
        &self,
        lane: &mut Lane,
        workspace: &Workspace,
        bands: &[Band],
        source: HostRows<'_>,
        result: HostRowsMut<'_>,
    ) -> Result<()> {
        let gpu = self.gpu();
        let is_locked =
            [gpu.kind(source.span()), gpu.kind(result.span())].map(|kind| kind == HostMemoryKind::PageLocked);
        if is_locked == [true; 2] {
            return gpu.lend(|lent| self.enqueue_bands(lent, lane, workspace, bands, source, result));
        }
        gpu.lend(|lent| {
            let staging = &mut lane.staging;
            let wanted = (bands.len() / 8).clamp(BUFFERS, MOST_BUFFERS);
            let buffers = if staging.prepare(wanted, wanted)? {
                wanted
            } else if staging.prepare(BUFFERS, BUFFERS)? {
                BUFFERS
            } else {
                self.note_refusal(lane.staging.refused());
                return self.enqueue_bands(lent, lane, workspace, bands, source, result);
            };
            let Lane { main, up, down, staging, .. } = lane;
            let outputs = result.parts(bands.iter().map(|band| band.outputs.len())).map(Some).collect();
            let [source_is_locked, result_is_locked] = is_locked;
            // Page-locked memory needs no copy.
            let flags = |are_set: bool| -> Vec<_> { bands.iter().map(|_| AtomicBool::new(are_set)).collect() };
            let copies = Copies {
                ended_in: flags(source_is_locked),
                ended_out: flags(result_is_locked),
                running: AtomicUsize::new(0),
            };
            let run = StagedRun {
                convolution: self,
                lent,
                streams: (main, up, down),
                staging,
                buffers,
                workspace,
                bands,
                source,
                outputs,
                source_is_locked,
                result_is_locked,
                copies: &copies,
                begun_in: if source_is_locked { bands.len() } else { 0 },
                launched: 0,
                begun_out: 0,
            };
            rayon::in_place_scope(|tasks| run.run(tasks))
        })
    }

    /// Enqueues the copies and launches of an image in bands. Copies from and to pageable memory may block.
    pub(super) fn enqueue_bands<'scope, 'env>(
        &self,
        lent: &LentToDevice<'scope, 'env>,
        lane: &'env Lane,
        workspace: &Workspace,
        bands: &[Band],
        source: HostRows<'scope>,
        result: HostRowsMut<'scope>,
    ) -> Result<()> {
        let Lane { main, up, down, .. } = lane;
        let (from, to) = self.row_bytes();
        // The image before this one may still be computed or downloaded.
        follow(up, main)?;
        follow(main, down)?;
        // The bands' outputs are all rows, one after the other.
        let parts = result.parts(bands.iter().map(|band| band.outputs.len()));
        for (band, outputs) in bands.iter().zip(parts) {
            let place = from.of(workspace.source.area(), band.rows.clone());
            // SAFETY: the rows lie in the workspace, which lives longer than the scope.
            unsafe { lent.upload(place, source.range(band.rows.clone()), up) }.context(UP)?;
            self.compute_band(lent, workspace, band, (main, up, down))?;
            let place = to.of(workspace.result.area(), band.outputs.clone());
            // SAFETY: the rows lie in the workspace, which lives longer than the scope. The launches of later bands
            // write no row before their own outputs.
            unsafe { lent.download(outputs, place, down) }.context(DOWN)?;
        }
        Ok(())
    }

    /// Launches the kernel for a band. It runs after the band's upload and before its download.
    fn compute_band<'env>(
        &self,
        lent: &LentToDevice<'_, 'env>,
        workspace: &Workspace,
        band: &Band,
        (main, up, down): (&'env Stream, &'env Stream, &'env Stream),
    ) -> Result<()> {
        follow(main, up)?;
        lent.uses(main);
        let rows = Rows { height: band.rows.end, fresh: band.rows.clone(), outputs: band.outputs.clone() };
        // SAFETY: the buffers are the workspace's, which this run has for itself, and the scope waits for the stream.
        unsafe { self.kernel().launch(workspace.buffers(), &rows, main)? };
        follow(down, main)
    }
}

/// The copies between pageable memory and the staging buffers, which other threads run.
struct Copies {
    /// Whether the band is in its buffer, or needs none.
    ended_in: Vec<AtomicBool>,
    /// Whether the band is in the result.
    ended_out: Vec<AtomicBool>,
    running: AtomicUsize,
}

/// A run of an image whose source, result or both are in pageable memory.
///
/// This thread enqueues work in the streams and spawns copy tasks in the thread pool. It waits only after it could
/// start nothing for any band.
struct StagedRun<'a, 'scope, 'env> {
    convolution: &'a GpuConvolution,
    lent: &'a LentToDevice<'scope, 'env>,
    /// That of the kernels, that of the uploads, and that of the downloads.
    streams: (&'env Stream, &'env Stream, &'env Stream),
    staging: &'a Staging,
    /// Staging buffers of each direction.
    buffers: usize,
    workspace: &'a Workspace,
    bands: &'a [Band],
    source: HostRows<'scope>,
    /// The results of each band, until they are copied.
    outputs: Vec<Option<HostRowsMut<'scope>>>,
    source_is_locked: bool,
    result_is_locked: bool,
    copies: &'a Copies,
    /// The next band to copy into a buffer.
    begun_in: usize,
    /// The next band to launch.
    launched: usize,
    /// The next band to copy out of a buffer.
    begun_out: usize,
}

impl<'a: 'tasks, 'scope: 'tasks, 'tasks> StagedRun<'a, 'scope, '_> {
    /// Runs all bands.
    fn run(mut self, tasks: &rayon::Scope<'tasks>) -> Result<()> {
        while self.begun_out < self.bands.len() {
            let begun = (self.begun_in, self.launched, self.begun_out);
            self.copy_next_in(tasks)?;
            self.launch_next()?;
            self.copy_next_out(tasks)?;
            if begun == (self.begun_in, self.launched, self.begun_out) {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// The buffers of a band: for its rows, and for its results.
    fn buffer(&self, band: usize) -> (&'a StagingBuffer, &'a StagingBuffer) {
        (&self.staging.up[band % self.buffers], &self.staging.down[band % self.buffers])
    }

    /// Begins to copy the next band into its buffer, if there is one and the buffer is free. It is when the band that
    /// it had before has reached the device.
    fn copy_next_in(&mut self, tasks: &rayon::Scope<'tasks>) -> Result<()> {
        let (band, copies) = (self.begun_in, self.copies);
        if band == self.bands.len() || band >= self.launched + self.buffers {
            return Ok(());
        }
        let (buffer, _) = self.buffer(band);
        if buffer.done.is_complete().context(UP)? {
            let rows = self.source.range(self.bands[band].rows.clone());
            let copied = Copying::begin(&copies.running, &copies.ended_in[band]);
            tasks.spawn(move |_| {
                let _copied = copied;
                staging::copy_in(&mut staging::lock(&buffer.memory), rows);
            });
            self.begun_in += 1;
        }
        Ok(())
    }

    /// Enqueues the upload, the kernel and the download of the next band, if it is copied in and the buffer of its
    /// results is free.
    fn launch_next(&mut self) -> Result<()> {
        let Self { lent, streams: (_, up, down), workspace, copies, launched: number, .. } = *self;
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let is_free =
            self.result_is_locked || number < self.buffers || is_set(&copies.ended_out[number - self.buffers]);
        if number == self.begun_in || !is_set(&copies.ended_in[number]) || !is_free {
            return Ok(());
        }
        let (band, (up_buffer, down_buffer)) = (&self.bands[number], self.buffer(number));
        let (from, to) = self.convolution.row_bytes();
        let place = from.of(workspace.source.area(), band.rows.clone());
        if self.source_is_locked {
            // SAFETY: the rows lie in the workspace, which lives longer than the scope.
            unsafe { lent.upload(place, self.source.range(band.rows.clone()), up) }.context(UP)?;
        } else {
            let memory = staging::lock(&up_buffer.memory).as_ptr();
            // SAFETY: the rows lie in the workspace. The buffer lives as long as the lane. It is written again when
            // `done` is complete, which is recorded after this copy; or, where recording fails, after this scope has
            // waited.
            unsafe { lent.upload_from(place, memory, place.bytes, up) }.context(UP)?;
            up_buffer.done.record(up).context(UP)?;
        }
        self.convolution.compute_band(lent, workspace, band, self.streams)?;
        let place = to.of(workspace.result.area(), band.outputs.clone());
        if self.result_is_locked {
            let outputs = self.outputs[number].take().expect("each band is launched once");
            // SAFETY: the rows lie in the workspace, which lives longer than the scope.
            unsafe { lent.download(outputs, place, down) }.context(DOWN)?;
        } else {
            let memory = staging::lock(&down_buffer.memory).as_mut_ptr();
            // SAFETY: the rows lie in the workspace. The buffer's last band was copied out. It is read when `done` is
            // complete, which is recorded after this copy.
            unsafe { lent.download_to(memory, place.bytes, place, down) }.context(DOWN)?;
            down_buffer.done.record(down).context(DOWN)?;
        }
        self.launched += 1;
        Ok(())
    }

    /// Begins to copy the results of the next band out of their buffer, if they are in it.
    fn copy_next_out(&mut self, tasks: &rayon::Scope<'tasks>) -> Result<()> {
        let (band, copies) = (self.begun_out, self.copies);
        if self.result_is_locked {
            self.begun_out = self.launched;
        } else if band < self.launched && self.buffer(band).1.done.is_complete().context(DOWN)? {
            let (_, buffer) = self.buffer(band);
            let rows = self.outputs[band].take().expect("each band is copied out once");
            let copied = Copying::begin(&copies.running, &copies.ended_out[band]);
            tasks.spawn(move |_| {
                let _copied = copied;
                staging::copy_out(rows, &staging::lock(&buffer.memory));
            });
            self.begun_out += 1;
        }
        Ok(())
    }

    /// Waits until a copy or a transfer may have ended.
    fn wait(&self) -> Result<()> {
        if self.copies.running.load(Ordering::Acquire) > 0 {
            // In a pool of one thread this one copies.
            if !matches!(rayon::yield_now(), Some(rayon::Yield::Executed)) {
                std::thread::yield_now();
            }
            Ok(())
        } else if self.begun_out < self.launched {
            self.buffer(self.begun_out).1.done.synchronize().context(DOWN)
        } else {
            self.buffer(self.begun_in).0.done.synchronize().context(UP)
        }
    }
}

/// A copy that another thread runs. Dropping this marks it as ended, after a panic, too.
struct Copying<'a> {
    running: &'a AtomicUsize,
    ended: &'a AtomicBool,
}

impl<'a> Copying<'a> {
    fn begin(running: &'a AtomicUsize, ended: &'a AtomicBool) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        Self { running, ended }
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.running.fetch_sub(1, Ordering::Release);
    }
}
