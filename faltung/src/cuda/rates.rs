//! The two rates that bound a convolution on a device, measured: copying and multiply-adding.

use cust::memory::DeviceBuffer;
use cust::stream::Stream;
use kernels_gpu::util::fma_peak as rates;

use super::event::Event;
use super::launch::Area;
use super::lend::{DeviceRows, copy_rows_on_device};
use super::status::DriverResultExt;
use super::{Gpu, kernel, launch};
use crate::{Rates, Result};

/// The memory of a buffer.
fn area(buffer: &DeviceBuffer<f32>) -> Area {
    Area { address: buffer.as_device_ptr().as_raw(), bytes: size_of::<f32>() * buffer.len() }
}

/// Runs of each measurement; the fastest counts, because a ceiling is what the device can do.
const RUNS: usize = 7;

impl Gpu {
    /// Measures both rates: a copy within device memory of at most 1 GiB, and multiply-adds in registers.
    ///
    /// # Errors
    /// [`crate::Error::Driver`], [`crate::Error::DeviceMemory`].
    pub(crate) fn rates(&self) -> Result<Rates> {
        let _entered = self.enter()?;
        Ok(Rates { copy_bytes_per_s: self.copy_rate()?, flop_per_s: self.fma_rate()? })
    }

    /// Bytes read plus bytes written per second.
    fn copy_rate(&self) -> Result<f64> {
        let length = (self.info.memory_bytes / 16).min(1 << 30) / size_of::<f32>();
        let bytes = length * size_of::<f32>();
        let allocate = || {
            // SAFETY: both are written before they are read: `from` below, `to` by the copy.
            unsafe { DeviceBuffer::<f32>::uninitialized(length) }.context("allocate memory to measure the copy rate")
        };
        let (from, to) = (allocate()?, allocate()?);
        // Not zeros: moving them takes less power, and a card that is at its limit then runs faster.
        let noise: Vec<f32> = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
        for start in (0..length).step_by(noise.len()) {
            let part = &noise[..noise.len().min(length - start)];
            kernel::copy(
                self,
                area(&from).behind(start * size_of::<f32>()),
                part,
                "fill memory to measure the copy rate",
            )?;
        }
        let [to_row, from_row] = [&to, &from].map(|buffer| DeviceRows::one(buffer.as_device_ptr().as_raw(), bytes));
        let seconds = self.fastest(|stream| {
            // SAFETY: two allocations of `bytes` each.
            unsafe { copy_rows_on_device(to_row, from_row, stream) }.context("copy on the device")
        })?;
        Ok(2.0 * bytes as f64 / seconds)
    }

    /// Operations per second, two for each multiply-add.
    fn fma_rate(&self) -> Result<f64> {
        let module = self.module("fma_rate")?;
        let function = module.get_function("fma_rate").context("find the kernel fma_rate")?;
        // SAFETY: cleared in the next line.
        let sink = unsafe { DeviceBuffer::<f32>::uninitialized(1) };
        let mut sink = sink.context("allocate memory to measure the multiply-add rate")?;
        self.clear(area(&sink))?;
        // 16 blocks of 512 threads per multiprocessor are four full loads of its 2,048 threads.
        let (blocks, rounds) = (16 * self.info.sm_count, 256);
        let seconds = self.fastest(|stream| launch::fma_rate(&function, blocks, rounds, &mut sink, stream))?;
        Ok(2.0 * rates::multiply_adds(blocks, rounds) as f64 / seconds)
    }

    /// The shortest time of `work` on the device, in seconds, after a first run that does not count. Waits for all of
    /// it, on errors, too.
    fn fastest(&self, mut work: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
        let lane = self.lane()?;
        self.lend(|lent| {
            let event = || Event::with_time().context("create a timing event");
            let (start, stop) = (event()?, event()?);
            lent.uses(&lane.main);
            work(&lane.main)?;
            let mut best = f64::INFINITY;
            for _ in 0..RUNS {
                start.record(&lane.main).context("record a timing event")?;
                work(&lane.main)?;
                stop.record(&lane.main).context("record a timing event")?;
                stop.synchronize().context("measure a rate")?;
                best = best.min(stop.since(&start).context("read the timing events")?.as_secs_f64());
            }
            Ok(best)
        })
    }
}
