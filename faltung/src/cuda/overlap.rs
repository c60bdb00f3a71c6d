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
use super::staging::{self, BUFFERS, HostMemoryKind, MOST_BUFFERS, Staging};
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
            self.run_through_staging(
                lent,
                (main, up, down),
                (staging, buffers),
                workspace,
                bands,
                source,
                result,
                is_locked,
            )
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
        let mut rest = result;
        for band in bands {
            // The bands' outputs are all rows, one after the other.
            let (outputs, later) = rest.split_at(band.outputs.len());
            rest = later;
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

    /// Runs an image whose source, result or both are in pageable memory.
    ///
    /// This thread enqueues work in the streams and spawns copy tasks in the thread pool. It waits only after it could
    /// start nothing for any band.
    #[expect(clippy::too_many_arguments, reason = "the fields of a lane are borrowed separately")]
    fn run_through_staging<'scope, 'env>(
        &self,
        lent: &LentToDevice<'scope, 'env>,
        (main, up, down): (&'env Stream, &'env Stream, &'env Stream),
        (staging, buffers): (&Staging, usize),
        workspace: &Workspace,
        bands: &[Band],
        source: HostRows<'scope>,
        result: HostRowsMut<'scope>,
        [source_is_locked, result_is_locked]: [bool; 2],
    ) -> Result<()> {
        let (from, to) = self.row_bytes();
        let mut rest = Some(result);
        let mut outputs: Vec<_> = bands
            .iter()
            .map(|band| {
                let (outputs, later) = rest.take().expect("put back below").split_at(band.outputs.len());
                rest = Some(later);
                Some(outputs)
            })
            .collect();
        let flags = |are_set: bool| -> Vec<_> { bands.iter().map(|_| AtomicBool::new(are_set)).collect() };
        // Page-locked memory needs no copy.
        let (copied_in, copied_out) = (flags(source_is_locked), flags(result_is_locked));
        let is_set = |flags: &[AtomicBool], band: usize| flags[band].load(Ordering::Acquire);
        let copying = AtomicUsize::new(0);
        let buffer = |band: usize| (&staging.up[band % buffers], &staging.down[band % buffers]);
        rayon::in_place_scope(|tasks| {
            // The next band to copy into a buffer, the next to launch, and the next to copy out of a buffer.
            let (mut begun_in, mut launched, mut begun_out) = (0, 0, 0);
            if source_is_locked {
                begun_in = bands.len();
            }
            while begun_out < bands.len() {
                let begun = (begun_in, launched, begun_out);
                // A buffer is free when the band that it had before has reached the device.
                if begun_in < bands.len()
                    && begun_in < launched + buffers
                    && buffer(begun_in).0.done.is_complete().context(UP)?
                {
                    let rows = source.range(bands[begun_in].rows.clone());
                    let copied = Copying::begin(&copying, &copied_in[begun_in]);
                    let memory = &buffer(begun_in).0.memory;
                    tasks.spawn(move |_| {
                        let _copied = copied;
                        staging::copy_in(&mut staging::lock(memory), rows);
                    });
                    begun_in += 1;
                }
                let is_free = |band: usize| result_is_locked || band < buffers || is_set(&copied_out, band - buffers);
                if launched < begun_in && is_set(&copied_in, launched) && is_free(launched) {
                    let (band, (up_buffer, down_buffer)) = (&bands[launched], buffer(launched));
                    let place = from.of(workspace.source.area(), band.rows.clone());
                    if source_is_locked {
                        // SAFETY: the rows lie in the workspace, which lives longer than the scope.
                        unsafe { lent.upload(place, source.range(band.rows.clone()), up) }.context(UP)?;
                    } else {
                        let memory = staging::lock(&up_buffer.memory).as_ptr();
                        // SAFETY: the rows lie in the workspace. The buffer lives as long as the lane. It is written
                        // again when `done` is complete, which is recorded after this copy; or, where recording fails,
                        // after this scope has waited.
                        unsafe { lent.upload_from(place, memory, place.bytes, up) }.context(UP)?;
                        up_buffer.done.record(up).context(UP)?;
                    }
                    self.compute_band(lent, workspace, band, (main, up, down))?;
                    let place = to.of(workspace.result.area(), band.outputs.clone());
                    if result_is_locked {
                        let outputs = outputs[launched].take().expect("each band is launched once");
                        // SAFETY: the rows lie in the workspace, which lives longer than the scope.
                        unsafe { lent.download(outputs, place, down) }.context(DOWN)?;
                    } else {
                        let memory = staging::lock(&down_buffer.memory).as_mut_ptr();
                        // SAFETY: the rows lie in the workspace. The buffer's last band was copied out. It is read when
                        // `done` is complete, which is recorded after this copy.
                        unsafe { lent.download_to(memory, place.bytes, place, down) }.context(DOWN)?;
                        down_buffer.done.record(down).context(DOWN)?;
                    }
                    launched += 1;
                }
                if result_is_locked {
                    begun_out = launched;
                } else if begun_out < launched && buffer(begun_out).1.done.is_complete().context(DOWN)? {
                    let rows = outputs[begun_out].take().expect("each band is copied out once");
                    let copied = Copying::begin(&copying, &copied_out[begun_out]);
                    let memory = &buffer(begun_out).1.memory;
                    tasks.spawn(move |_| {
                        let _copied = copied;
                        staging::copy_out(rows, &staging::lock(memory));
                    });
                    begun_out += 1;
                }
                if begun != (begun_in, launched, begun_out) {
                    continue;
                }
                if copying.load(Ordering::Acquire) > 0 {
                    // In a pool of one thread this one copies.
                    if !matches!(rayon::yield_now(), Some(rayon::Yield::Executed)) {
                        std::thread::yield_now();
                    }
                } else if begun_out < launched {
                    buffer(begun_out).1.done.synchronize().context(DOWN)?;
                } else {
                    buffer(begun_in).0.done.synchronize().context(UP)?;
                }
            }
            Ok(())
        })
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
