//! The way of large images in page-locked memory, in bands of rows: one is on its way to the device while another is computed and a third on
//! its way back.
//!
//! The bus carries as much in both directions as in one, and the device's copies and kernels run beside each other in streams of their
//! own: one up, one that computes, one down. So 8192 x 8192 `f32` there and back take 5.7 ms on an H100 in place of 10.2, of which the bus is
//! 5.0 (`docs/measurements/2026-11-21-h100-small.md`). From and to ordinary memory it is the host's copies that take the time, and these are
//! slower in bands.

use cust::event::{Event, EventFlags};
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

use super::driver::{self, DuringAction};
use super::{Gpu, GpuConvolution};
use crate::Result;
use crate::backend::bands::Band;

/// The streams beside the one that computes.
pub(super) struct Lanes {
    up: Stream,
    down: Stream,
}

impl Lanes {
    fn new() -> Result<Self> {
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).to("create a stream");
        Ok(Self { up: stream()?, down: stream()? })
    }
}

/// Lets all that `second` is given from now on wait for what `first` was given until now.
fn follow(second: &Stream, first: &Stream) -> Result<()> {
    const ACTION: &str = "let a stream wait for another";
    let event = Event::new(EventFlags::DISABLE_TIMING).to(ACTION)?;
    event.record(first).to(ACTION)?;
    second.wait_event(event, StreamWaitEventFlags::DEFAULT).to(ACTION)
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

impl GpuConvolution<'_> {
    /// Runs an image in bands, from page-locked memory to page-locked memory.
    pub(super) fn run_in_bands(&mut self, bands: &[Band], source: &[u8], result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        let lanes = gpu.lanes()?;
        // Its address is the one at which the device writes.
        result.as_mut_ptr().expose_provenance();
        let ran = bands.iter().try_for_each(|band| self.begin(lanes, band, source, result));
        // Whatever was begun must be over before the borrows end, and before anybody else uses the buffers.
        let over = [&lanes.up, &gpu.stream, &lanes.down].map(|stream| stream.synchronize().to("run the kernel"));
        over.into_iter().collect::<Result<()>>().and(ran)
    }

    /// Gives a band's way to the streams. `source` and `result` are the whole image's, and stay borrowed until the caller has waited for
    /// all of them.
    fn begin(&mut self, lanes: &Lanes, band: &Band, source: &[u8], result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        let Band { rows, outputs } = band;
        let up = from.of(&self.source, rows.clone());
        let values = &source[rows.start * from.bytes..rows.end * from.bytes];
        // SAFETY: the rows lie in both, and the source stays borrowed.
        unsafe { driver::upload_rows(up, values.as_ptr(), &lanes.up) }.to("copy the image to the device")?;
        follow(&gpu.stream, &lanes.up)?;
        self.launch_rows(rows.end, outputs.clone())?;
        follow(&lanes.down, &gpu.stream)?;
        let down = to.of(&self.result, outputs.clone());
        let values = &mut result[outputs.start * to.bytes..outputs.end * to.bytes];
        // The launches of later bands write no row before their own outputs.
        // SAFETY: the rows lie in both, and the result stays borrowed.
        unsafe { driver::download_rows(values.as_mut_ptr(), down, &lanes.down) }.to("copy the result from the device")
    }
}
