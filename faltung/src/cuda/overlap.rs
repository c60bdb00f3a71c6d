//! The way of large images in page-locked memory, in bands of rows: one is on its way to the device while another is
//! computed and a third on its way back.
//!
//! The bus carries as much in both directions as in one, and the device's copies and kernels run beside each other in
//! streams of their own: one up, one that computes, one down. So 8192 x 8192 `f32` there and back take 5.7 ms on an
//! H100 in place of 10.2, of which the bus is 5.0 (`docs/measurements/2026-11-21-h100-small.md`). From and to ordinary
//! memory it is the host's copies that take the time, and these are slower in bands.

use cust::event::{Event, EventFlags};
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

use super::lend::LentToDevice;
use super::status::DriverResultExt;
use super::{Gpu, GpuConvolution};
use crate::Result;
use crate::bands::Band;

/// The streams beside the one that computes.
pub(super) struct Lanes {
    up: Stream,
    down: Stream,
}

impl Lanes {
    fn new() -> Result<Self> {
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).context("create a stream");
        Ok(Self { up: stream()?, down: stream()? })
    }

    /// Both streams.
    pub(super) fn streams(&self) -> [&Stream; 2] {
        [&self.up, &self.down]
    }
}

/// Lets all that `second` is given from now on wait for what `first` was given until now.
fn follow(second: &Stream, first: &Stream) -> Result<()> {
    const ACTION: &str = "let a stream wait for another";
    let event = Event::new(EventFlags::DISABLE_TIMING).context(ACTION)?;
    event.record(first).context(ACTION)?;
    // The event may go before it has come: the driver frees it when it has.
    second.wait_event(event, StreamWaitEventFlags::DEFAULT).context(ACTION)
}

impl Gpu {
    /// The streams for transfers, made when they are first needed.
    fn lanes(&self) -> Result<&Lanes> {
        if self.lanes.get().is_none() {
            // Single-threaded: `Gpu` is not Sync, so nobody else filled the place meanwhile.
            let _ = self.lanes.set(Lanes::new()?);
        }
        Ok(self.lanes.get().expect("filled above"))
    }
}

impl<'gpu> GpuConvolution<'gpu> {
    /// Runs an image in bands, from page-locked memory to page-locked memory.
    pub(super) fn run_in_bands(&mut self, bands: &[Band], source: &[u8], result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        gpu.lend(|lent| {
            let lanes = gpu.lanes()?;
            let mut rest = result;
            for band in bands {
                // The bands' outputs are all rows, one after the other.
                let (outputs, later) = std::mem::take(&mut rest).split_at_mut(band.outputs.len() * to.bytes);
                rest = later;
                let rows = &source[band.rows.start * from.bytes..band.rows.end * from.bytes];
                self.begin(lent, lanes, band, rows, outputs)?;
            }
            Ok(())
        })
    }

    /// Gives a band's way to the streams: `rows` of the source there, `outputs` of the result back.
    fn begin<'scope, 'env>(
        &mut self,
        lent: &LentToDevice<'scope, 'env>,
        lanes: &'env Lanes,
        band: &Band,
        rows: &'scope [u8],
        outputs: &'scope mut [u8],
    ) -> Result<()>
    where
        'gpu: 'env,
    {
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        let up = from.of(&self.source, band.rows.clone());
        // SAFETY: the rows lie in the source, which lives as long as this convolution.
        unsafe { lent.upload(up, rows, &lanes.up) }.context("copy the image to the device")?;
        follow(&gpu.stream, &lanes.up)?;
        lent.uses(&gpu.stream);
        self.launch_rows(lent, band.rows.end, band.outputs.clone())?;
        follow(&lanes.down, &gpu.stream)?;
        let down = to.of(&self.result, band.outputs.clone());
        // The launches of later bands write no row before their own outputs.
        // SAFETY: the rows lie in the result, which lives as long as this convolution.
        unsafe { lent.download(outputs, down, &lanes.down) }.context("copy the result from the device")
    }
}
