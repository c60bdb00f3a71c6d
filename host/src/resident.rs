//! Buffers of an image and its result on a device: upload once, execute any number of times, download. The device's
//! clock times the executions.

use std::time::Duration;

use faltung::{
    AnyImage, Device, DeviceImage, Image, Pixel, PixelType, Prepared, Result, Stream, each_type, for_pixel_type,
};

use crate::compare::POISON;

/// An image on a device, its result, and the prepared filter.
#[derive(Debug)]
pub struct Resident<T: Pixel, U: Pixel> {
    prepared: Prepared,
    stream: Stream,
    source: DeviceImage<T>,
    result: DeviceImage<U>,
}

impl<T: Pixel, U: Pixel> Resident<T, U> {
    /// Uploads an image, and a poisoned result.
    ///
    /// # Errors
    /// As for [`Device::upload`].
    pub fn new(device: &Device, prepared: &Prepared, image: &Image<T>) -> Result<Self> {
        let stream = device.stream()?;
        let mut result = Image::<U>::zeros(image.width(), image.height(), image.channels())?;
        poison(result.values_mut());
        let (source, result) = (device.upload(image, &stream)?, device.upload(&result, &stream)?);
        Ok(Self { prepared: prepared.clone(), stream, source, result })
    }

    /// Computes `times` times and returns the time of all by the device's clock. On the emulator that is the time of
    /// the emulation, which says nothing about a GPU.
    ///
    /// # Errors
    /// As for [`Prepared::run_into`].
    pub fn execute(&mut self, times: usize) -> Result<Duration> {
        let start = self.stream.record()?;
        for _ in 0..times {
            self.prepared.run_into(&self.source, &mut self.result, &self.stream)?;
        }
        let end = self.stream.record()?;
        end.synchronize()?;
        end.since(&start)
    }

    /// Computes `times` times, each time after `before` has given work to the stream. Returns the time of all by the
    /// device's clock, without that of the work of `before`.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute), and those of `before`.
    pub fn execute_after(&mut self, times: usize, before: &mut dyn FnMut(&Stream) -> Result<()>) -> Result<Duration> {
        let mut runs = Vec::with_capacity(times);
        for _ in 0..times {
            before(&self.stream)?;
            let start = self.stream.record()?;
            self.prepared.run_into(&self.source, &mut self.result, &self.stream)?;
            runs.push((start, self.stream.record()?));
        }
        self.stream.synchronize()?;
        runs.iter().map(|(start, end)| end.since(start)).sum()
    }

    /// The result.
    ///
    /// # Errors
    /// As for [`DeviceImage::download`].
    pub fn download(&self) -> Result<Image<U>> {
        self.result.download(&self.stream)
    }
}

/// A [`Resident`] of any types.
pub(crate) trait AnyResident {
    fn execute(&mut self, times: usize) -> Result<Duration>;
    fn execute_after(&mut self, times: usize, before: &mut dyn FnMut(&Stream) -> Result<()>) -> Result<Duration>;
    fn download(&self) -> Result<AnyImage>;
}

impl<T: Pixel, U: Pixel> AnyResident for Resident<T, U>
where
    AnyImage: From<Image<U>>,
{
    fn execute(&mut self, times: usize) -> Result<Duration> {
        self.execute(times)
    }

    fn execute_after(&mut self, times: usize, before: &mut dyn FnMut(&Stream) -> Result<()>) -> Result<Duration> {
        self.execute_after(times, before)
    }

    fn download(&self) -> Result<AnyImage> {
        Ok(self.download()?.into())
    }
}

/// Fills values with [`POISON`] in `f32`, and with a rare value in the other types.
pub(crate) fn poison<T: Pixel>(values: &mut [T]) {
    values.fill(T::from_f32(match T::TYPE {
        PixelType::U8 => 173.0,
        PixelType::U16 => 57_005.0,
        PixelType::F32 => POISON,
    }));
}

/// Uploads an image of any types.
pub(crate) fn any(device: &Device, prepared: &Prepared, image: &AnyImage) -> Result<Box<dyn AnyResident>> {
    fn to<T: Pixel>(device: &Device, prepared: &Prepared, image: &Image<T>) -> Result<Box<dyn AnyResident>> {
        let output = prepared.problem().format().output;
        Ok(for_pixel_type!(output, U => Box::new(Resident::<T, U>::new(device, prepared, image)?)))
    }
    each_type!(image, image => to(device, prepared, image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faltung::{Filter, Problem, VariantChoice};

    #[test]
    fn what_comes_before_each_run_does_not_count() {
        const PAUSE: Duration = Duration::from_millis(300);
        let device = Device::cpu();
        let problem = Problem::new(16, 9, &Filter::average(3, 3)).unwrap();
        let prepared = device.prepare(&problem, VariantChoice::Auto).unwrap();
        let image = Image::<f32>::from_fn(16, 9, |x, y| (x + y) as f32).unwrap();
        let mut resident = Resident::<f32, f32>::new(&device, &prepared, &image).unwrap();
        let mut calls = 0;
        let pause = &mut |_: &Stream| {
            calls += 1;
            std::thread::sleep(PAUSE);
            Ok(())
        };
        let time = resident.execute_after(3, pause).unwrap();
        assert!(calls == 3 && time < PAUSE, "{calls} calls, {time:?}");
        assert_eq!(resident.download().unwrap().values()[0], prepared.apply::<f32, f32>(&image).unwrap().values()[0]);
    }
}
