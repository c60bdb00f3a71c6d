//! The way of large images, in bands of rows: one is on its way to the device while another is computed and a third on
//! its way back.
//!
//! The bus carries as much in both directions as in one, and the device's copies and kernels run beside each other in
//! streams of their own: one up, one that computes, one down. So 8192 x 8192 `f32` there and back take 5.7 ms on an
//! H100 in place of 10.2, of which the bus is 5.0 (`docs/measurements/2026-11-21-h100-small.md`).
//!
//! Memory that only the host can read goes through page-locked pieces of the lane. All threads copy a band of the image
//! into one, while others copy an earlier band of the result out of another.

use std::collections::VecDeque;

use cust::stream::Stream;

use super::convolution::{GpuConvolution, Workspace};
use super::event::Event;
use super::lane::Lane;
use super::lend::LentToDevice;
use super::staging::{self, HostMemoryKind, PIECES, Staging};
use super::status::DriverResultExt;
use crate::Result;
use crate::bands::Band;
use crate::plan::Rows;
use crate::rows::{HostRows, HostRowsMut};

/// Bands of the result under way at once: each has a piece of page-locked memory.
const UNDER_WAY: usize = PIECES - 1;
const UP: &str = "copy the image to the device";
const DOWN: &str = "copy the result from the device";

/// Lets all that `second` is given from now on wait for what `first` was given until now.
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
            if !lane.staging.prepare()? {
                self.note_refusal(lane.staging.refused());
                return self.enqueue_bands(lent, lane, workspace, bands, source, result);
            }
            let Lane { main, up, down, staging, .. } = lane;
            self.run_staged(lent, (main, up, down), staging, workspace, bands, source, result, is_locked)
        })
    }

    /// Gives the way of an image to the lane's streams, and waits for nothing: its ends lie in page-locked memory, or the
    /// driver copies them by itself.
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
        // An image before this one may still be computed, or be on its way back.
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
            // The launches of later bands write no row before their own outputs. SAFETY: as above.
            unsafe { lent.download(outputs, place, down) }.context(DOWN)?;
        }
        Ok(())
    }

    /// Launches the kernel for a band, behind its way to the device and before its way back.
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

    /// Runs an image of which one end or both lie in memory that only the host can read.
    #[expect(clippy::too_many_arguments, reason = "the parts of a lane are borrowed apart")]
    fn run_staged<'scope, 'env>(
        &self,
        lent: &LentToDevice<'scope, 'env>,
        (main, up, down): (&'env Stream, &'env Stream, &'env Stream),
        staging: &mut Staging,
        workspace: &Workspace,
        bands: &[Band],
        source: HostRows<'scope>,
        result: HostRowsMut<'scope>,
        [source_is_locked, result_is_locked]: [bool; 2],
    ) -> Result<()> {
        let (from, to) = self.row_bytes();
        let mut rest = Some(result);
        // Bands of the result on their way back, each with its piece.
        let mut coming: VecDeque<(usize, HostRowsMut<'scope>)> = VecDeque::new();
        for number in 0..bands.len() + UNDER_WAY {
            let band = bands.get(number);
            let is_full = coming.len() == UNDER_WAY || band.is_none();
            let arrived = if is_full { coming.pop_front() } else { None };
            if let Some((piece, _)) = &arrived {
                staging.down[*piece].done.synchronize().context(DOWN)?;
            }
            let (pieces_up, pieces_down) = (&mut staging.up, &mut staging.down);
            let up_piece = &mut pieces_up[number % PIECES];
            let staged = band.filter(|_| !source_is_locked).map(|band| source.range(band.rows.clone()));
            if staged.is_some() {
                up_piece.done.synchronize().context(UP)?;
            }
            rayon::join(
                || staged.inspect(|rows| staging::copy_in(&mut up_piece.memory, *rows)),
                || arrived.map(|(piece, rows)| staging::copy_out(rows, &pieces_down[piece].memory)),
            );
            let Some(band) = band else { continue };

            let place = from.of(workspace.source.area(), band.rows.clone());
            if source_is_locked {
                // SAFETY: the rows lie in the workspace, which lives longer than the scope.
                unsafe { lent.upload(place, source.range(band.rows.clone()), up) }.context(UP)?;
            } else {
                // SAFETY: as above. The piece lives as long as the lane. It is written again when `done` has come, which
                // is recorded behind this copy; or, where recording fails, after this scope has waited.
                unsafe { lent.upload_from(place, up_piece.memory.as_ptr(), place.bytes, up) }.context(UP)?;
                up_piece.done.record(up).context(UP)?;
            }
            self.compute_band(lent, workspace, band, (main, up, down))?;
            let (outputs, later) = rest.take().expect("put back below").split_at(band.outputs.len());
            rest = Some(later);
            let place = to.of(workspace.result.area(), band.outputs.clone());
            if result_is_locked {
                // SAFETY: the rows lie in the workspace, which lives longer than the scope.
                unsafe { lent.download(outputs, place, down) }.context(DOWN)?;
            } else {
                let piece = number % PIECES;
                let memory = pieces_down[piece].memory.as_mut_ptr();
                // SAFETY: as above. The piece's last band was copied out, since fewer are under way than there are
                // pieces. It is read when `done` has come, which is recorded behind this copy.
                unsafe { lent.download_to(memory, place.bytes, place, down) }.context(DOWN)?;
                pieces_down[piece].done.record(down).context(DOWN)?;
                coming.push_back((piece, outputs));
            }
        }
        Ok(())
    }
}
