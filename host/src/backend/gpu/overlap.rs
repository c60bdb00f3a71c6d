//! The way of large images, in bands of rows: one is on its way to the device while another is computed and a third on its way back.
//!
//! The bus carries as much in both directions as in one, and the device's copies and kernels run beside each other in streams of their
//! own: one up, one that computes, one down. Of ordinary memory the host copies a band into page-locked memory while all that goes on.

use std::cell::RefCell;
use std::ops::Range;

use cust::event::{Event, EventFlags};
use cust::memory::DeviceBuffer;
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

use super::driver::{self, DeviceRows, DuringAction};
use super::mapped::RowBytes;
use super::staging::{Home, PIECES, Staging};
use super::{Gpu, GpuConvolution};
use crate::Result;
use crate::backend::bands::Band;

/// The streams beside the one that computes, and what the way back needs.
pub(super) struct Lanes {
    up: Stream,
    down: Stream,
    back: RefCell<Staging>,
}

impl Lanes {
    fn new() -> Result<Self> {
        let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).to("create a stream");
        Ok(Self { up: stream()?, down: stream()?, back: RefCell::default() })
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
    /// Runs an image in bands.
    pub(super) fn run_in_bands(&mut self, bands: &[Band], source: &[u8], result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        let lanes = gpu.lanes()?;
        let ran = self.run_bands(lanes, bands, source, result);
        // Whatever was begun must be over before the borrows end, and before anybody else uses the buffers.
        let over = [&lanes.up, &gpu.stream, &lanes.down].map(|stream| stream.synchronize().to("run the kernel"));
        over.into_iter().collect::<Result<()>>().and(ran)
    }

    /// The same, but when it returns the device may still be at work.
    fn run_bands(&mut self, lanes: &Lanes, bands: &[Band], source: &[u8], result: &mut [u8]) -> Result<()> {
        let gpu = self.gpu;
        let (from, to) = self.row_bytes();
        let home = gpu.home(result);
        let (mut staging, mut back) = (gpu.staging.borrow_mut(), lanes.back.borrow_mut());
        for step in 0..bands.len() + PIECES - 1 {
            if let Some(Band { rows, outputs }) = bands.get(step) {
                let up = device_rows(&self.source, rows, from);
                let values = &source[rows.start * from.bytes..rows.end * from.bytes];
                // SAFETY: `source` is borrowed until the caller has waited for the stream.
                unsafe { staging.upload(up, values, gpu.home(values), &lanes.up)? };
                follow(&gpu.stream, &lanes.up)?;
                self.launch_rows(rows.end, outputs.clone())?;
                follow(&lanes.down, &gpu.stream)?;
                // The launches of later bands write no row before their own outputs.
                let down = device_rows(&self.result, outputs, to);
                match home {
                    // SAFETY: the rows lie in the buffer.
                    Home::Ordinary => unsafe { back.begin(step, down, &lanes.down)? },
                    Home::PageLocked => {
                        let values = &mut result[outputs.start * to.bytes..outputs.end * to.bytes];
                        // SAFETY: they do, and `result` is borrowed until the caller has waited for the stream.
                        unsafe { driver::download_rows(values.as_mut_ptr(), down, &lanes.down) }
                            .to("copy the result from the device")?;
                    }
                }
            }
            if let Some(index) = step.checked_sub(PIECES - 1)
                && home == Home::Ordinary
            {
                let outputs = &bands[index].outputs;
                back.finish(index, &mut result[outputs.start * to.bytes..outputs.end * to.bytes])?;
            }
        }
        Ok(())
    }
}

/// These rows of a buffer, which has them.
fn device_rows(buffer: &DeviceBuffer<u8>, rows: &Range<usize>, RowBytes { bytes, pitch }: RowBytes) -> DeviceRows {
    assert!(rows.end * pitch <= buffer.len(), "the buffer holds the rows");
    // SAFETY: the first of them lies in the buffer, as was just checked.
    let address = unsafe { buffer.as_device_ptr().add(rows.start * pitch) };
    DeviceRows { address, rows: rows.len(), bytes, pitch }
}
